"""Pictures of one size, normalised by the training pictures: their splits, sized pixels, batches, and questions."""

from __future__ import annotations

import glob
import math
import os
import warnings
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from pathlib import Path
from typing import Any, ClassVar, Self

from heed.data.batch import plan_even
from heed.data.columns import is_picture
from heed.data.embedded.pictures import DIGITS, draw_digits
from heed.data.examples import Picture
from heed.data.findings import Findings, found_table
from heed.data.kinds.numbers import labels_are_classes
from heed.data.kinds.pictures import hold_pictures, picture_reader, pictures_of
from heed.data.pictures.decode import PictureError
from heed.data.pictures.files import Listing, files_below, is_idx, read_idx
from heed.data.pictures.sizing import Augment, PictureForm, Sizing, settled_size
from heed.data.pictures.store import PictureStore, Pixels
from heed.data.splits import Splits, drawn_splits, open_splits
from heed.data.tables import column_names
from heed.errors import ConfigError, DataError
from heed.tasks import suggest_task
from heed.tasks.base.report import counted
from heed.tasks.contracts import Batch, Draw, Head, Input, Pass, Rows, Sized
from heed.tasks.work import Work
from heed.visible import escaped

FEW = 2_000_000
"""Largest number of values in the training pictures for "few and small"; scikit-learn's digits have 83,000."""
_GRID, _LARGEST_GRID = 8, 14
"""Patches along a side: target and maximum."""
_LARGEST_PATCH = 16
_CACHED = 4
"""Lists of pictures whose sized pixels are cached."""
_MAX_SIZES = 8
"""Largest number of sizes listed on a line."""
_NAMED = 5
"""Pictures named in a warning."""


# Splits ---------------------------------------------------------------------------------------------------------------


@dataclass
class PictureSplits(Splits[Picture]):
    """Splits of pictures; `pixels` reads them."""

    pixels: Pixels = field(default_factory=Pixels)


def open_pictures(data: Any, pixels: Pixels, examples: Mapping[str, Sequence[Picture]] | None = None) -> PictureSplits:
    """Read every split of a `data` section of pictures.

    Args:
        data: The section.
        pixels: Records the places of the pictures (`Pixels.of(data, examples)`).
        examples: Examples passed in Python, by split (`heed.data.kinds.pictures`).

    Raises:
        DataError: A file cannot be read, or nothing is left to train on.
    """
    if data.is_embedded:
        drawn, images = draw_digits({"train": data.train, "valid": data.valid, "test": data.test}, data.seed)
        pixels.sources[DIGITS] = images
        splits = drawn_splits({str(name): pictures for name, pictures in drawn.items()}, data.name, "pictures")
        return PictureSplits(**vars(splits), pixels=pixels)
    remarks: list[str] = []
    if examples is None and data.origin == "files":
        data, remarks = with_sets(data)
    # `in_memory` bounds megabytes of pixels here; the examples themselves are small.
    reader = picture_reader(data, pixels, suggest_task)
    is_classes = partial(labels_are_classes, data)
    splits = open_splits(data.model_copy(update={"in_memory": None}), reader, examples, has_classes=is_classes)
    splits.remarks = [*remarks, *splits.remarks]
    return PictureSplits(**vars(splits), pixels=pixels)


def with_sets(data: Any) -> tuple[Any, list[str]]:
    """The section with the folder of each split, if a folder contains several; remarks that say so.

    Raises:
        DataError: A folder given for a split contains only other splits.
    """
    update: dict[str, list[str]] = {}
    sets_of_train: dict[str, str] = {}
    remarks = []
    for split in ("train", "valid", "test"):
        files = getattr(data, split)
        if files is None and split in sets_of_train:
            update[split] = [sets_of_train[split]]
            remarks.append(f"data.{split} is {sets_of_train[split]}")
        for path in files if isinstance(files, list) else ():
            sets = Listing(path).splits() if os.path.isdir(path) else {}
            if sets and split not in sets:
                raise DataError(
                    f"data.{split}: '{path}' contains {' and '.join(sets)} but not {split}; give a folder that does"
                )
            update.setdefault(split, []).append(sets.get(split, str(path)))
            if split == "train":
                sets_of_train = {**sets, **sets_of_train}
    return data.model_copy(update=update), remarks


def sizing_of(data: Any, train: Sequence[Picture], pixels: Pixels, parent: PictureForm | None) -> Sizing:
    """The sizing of a new run, from the `data` section or the training pictures.

    A run that starts from a parent's weights uses the parent's size and channels unless the section sets them, since
    the weights were trained for them.
    """
    facts = pixels.facts([picture.place for picture in train])
    if parent is None or data.channels not in ("auto", parent.sizing.channels):
        channels = data.channels if data.channels != "auto" else max(fact.channels for fact in facts)
        height, width = settled_size([(fact.height, fact.width) for fact in facts])
        sizing = Sizing(height, width, channels, data.crop)
    else:
        sizing = parent.sizing
        if "crop" in data.model_fields_set:
            sizing = replace(sizing, crop=data.crop, shorter=None)
    if data.size != "auto":
        height, width = (data.size, data.size) if isinstance(data.size, int) else data.size
        if (height, width) != (sizing.height, sizing.width):
            sizing = replace(sizing, height=height, width=width, shorter=None)
    levels = [fact.levels for fact in facts if fact.levels is not None]
    if levels and sizing.levels is None:
        sizing = replace(sizing, levels=(min(low for low, _ in levels), max(high for _, high in levels)))
    return sizing


# Questions ------------------------------------------------------------------------------------------------------------


def places_of(names: Iterable[str]) -> list[str]:
    """The place of each named picture, in order; files need not exist.

    Raises:
        ConfigError: A folder contains no picture, or no file matches a pattern.
        DataError: A file is an archive.
    """
    return [place for name in names for place in _places(name)]


def _places(name: str) -> Sequence[str]:
    path = Path(name)
    if os.path.isdir(path):
        return _inside(path)
    if os.path.isfile(path):
        if not is_picture(name) and is_idx(path):
            return [f"{name}#{i}" for i in range(len(read_idx(path)))]
        return [name]
    if glob.has_magic(name):
        matching = sorted(glob.glob(name, recursive=True))
        if not matching:
            raise ConfigError(f"no file matches '{name}'")
        return [place for match in matching for place in ([match] if os.path.isfile(match) else _inside(Path(match)))]
    return [name]


def _inside(folder: Path) -> list[str]:
    """The pictures in a folder at any depth, by file extension; hidden files and folders are left out."""
    inside = [os.path.join(folder, *parts) for parts in files_below(str(folder)) if is_picture(parts[-1])]
    if not inside:
        raise ConfigError(f"folder '{folder}' contains no pictures (files that end in .jpg, .png and so on)")
    return sorted(inside)


def _several(pictures: Any) -> Sequence[Any] | None:
    """The pictures as a sequence if several are given; None for a single picture."""
    if isinstance(pictures, str | Path):
        return places_of([str(pictures)]) if os.path.isdir(pictures) else None
    if isinstance(pictures, list | tuple):
        return pictures
    if (names := column_names(pictures)) is not None:
        column = next((name for name in ("path", "image", "picture", "file") if name in names), None)
        if column is None:
            raise ConfigError(
                f"the data frame has no column 'path' or 'image'; its columns are {', '.join(map(str, names))}"
            )
        return list(pictures[column])
    shape = getattr(pictures, "shape", None)
    if shape is not None and (len(shape) == 4 or (len(shape) == 3 and shape[-1] not in (1, 3, 4))):
        return list(pictures)
    return None


class PictureQuery(list[Picture]):
    """Pictures to predict, with the reader of their pixels."""

    def __init__(self, pictures: Iterable[Picture], pixels: Pixels, may_lack: bool = False) -> None:
        """`may_lack`: the caller says which files cannot be read; otherwise there is a warning, or an error."""
        super().__init__(pictures)
        self.pixels, self.may_lack = pixels, may_lack

    @property
    def problems(self) -> Mapping[str, DataError]:
        """The errors of files that could not be read, by place."""
        return self.pixels.problems or {}

    def problem(self, picture: Picture) -> str:
        """Why a picture could not be read; "" if it could."""
        error: DataError | str = self.problems.get(picture.place, "")
        return f"'{picture.origin}' {error}" if isinstance(error, PictureError) else str(error)


# The input ------------------------------------------------------------------------------------------------------------


class PictureAccess:
    """The pictures of one run; `pixels` reads those of open splits and of any file."""

    def __init__(self, data: Any, sizing: Sizing, splits: PictureSplits | None = None) -> None:
        self._data, self._sizing = data, sizing
        self.pixels = Pixels.of(data)
        self.is_open = False  # True if the run's own pictures can be read
        self._stores: list[tuple[Sequence[Picture], PictureStore]] = []
        if splits is not None:
            self.open(splits)

    def open(self, splits: PictureSplits) -> None:
        """Open the splits, so that their pictures can be read."""
        splits.pixels.sources |= self.pixels.sources  # of pictures passed in Python
        self.pixels, self.is_open = splits.pixels, True

    def store(self, pictures: Sequence[Picture], pixels: Pixels) -> PictureStore:
        """The sized pictures of some examples, read by `pixels`; the last few requests are cached."""
        for cached, store in self._stores:
            if cached is pictures:
                return store
        places = [picture.place for picture in pictures]
        store = PictureStore(pixels, places, self._sizing, self._data.in_memory)
        self._stores = [(pictures, store), *self._stores[: _CACHED - 1]]
        return store


@dataclass(frozen=True)
class Pictures(Input):
    """Pictures of one size, normalised by the training pictures."""

    sized: ClassVar = {"channels": Sized("num_channels"), "height": Sized("height"), "width": Sized("width")}
    batch_field: ClassVar = "batch_size"
    same_shapes: ClassVar = True
    key: ClassVar = "picture"
    is_text: ClassVar = False

    form: PictureForm = None  # type: ignore[assignment]  # until it is known
    access: PictureAccess = None  # type: ignore[assignment]

    def of(self, form: PictureForm, data: Any, splits: PictureSplits | None = None) -> Self:
        """The input of pictures of a form, in splits that are open, or that are opened when they are needed."""
        return replace(self, form=form, access=PictureAccess(data, form.sizing, splits))

    def open(self, config: Any, examples: Mapping[str, Sequence[Picture]] | None) -> PictureSplits:
        splits = open_pictures(config.data, Pixels.of(config.data, examples), examples)
        if self.access is not None:  # the form of a new run depends on the splits
            self.access.open(splits)
        return splits

    def read_data(self, data: Any, split: str, config: Any, findings: Findings) -> Sequence[Picture]:
        pictures = hold_pictures(data, split, config.data, findings)
        if self.access is not None:
            self.access.pixels.sources |= pictures.sources
        return pictures

    def read_files(self, files: Sequence[str | Path], findings: Findings, labels: Sequence[str]) -> Sequence[Picture]:
        return list(picture_reader(self.config.data, self.access.pixels).read([str(file) for file in files], findings))

    def save(self, folder: Path) -> None:
        self.form.save(folder)

    def restore(self, config: Any, folder: Path) -> Self:
        return replace(self, form=PictureForm.load(folder))

    def fitted(self, work: Work) -> Self:
        fitted = super().fitted(work)
        return fitted if self.form is None or self.access is not None else fitted.of(self.form, work.config.data)

    # The model ----------------------------------------------------------------------------------------------------

    def rows(self) -> Mapping[str, Rows]:
        height, width, channels = self.form.sizing.shape
        return {
            "channels": Rows((), number=channels),
            "height": Rows((), unit="pixels from top to bottom", number=height),
            "width": Rows((), unit="pixels from left to right", number=width),
        }

    def is_small(self, work: Work) -> bool:
        """True if the pictures are few and small and the model is not large, so that passes are fast."""
        section, count = work.config.model, len(work.splits.examples["train"])
        numbers = count * math.prod(self.form.sizing.shape)
        return numbers <= FEW and section.size in ("auto", "tiny", "small") and section.from_ is None

    def size(self, work: Work) -> str:
        """The named size: tiny for few large training pictures, otherwise small; base for imported models."""
        if work.is_imported:
            return "base"
        return "tiny" if not self.is_small(work) and len(work.splits.examples["train"]) <= 3_000 else "small"

    def fields(self, fields: dict[str, Any], work: Work) -> dict[str, Any]:
        """The default patch size, if the model has patches and no size is given.

        Among the sizes that divide the picture, that with the grid closest to 8 x 8; none for sizes of the paper.
        """
        body_fields = work.body_class.config_class.model_fields
        if "patch_size" not in body_fields or "patch_size" in fields or work.size in ("medium", "base", "large"):
            return {}
        height, width = fields["height"], fields["width"]
        fitting = [p for p in range(2, _LARGEST_PATCH + 1) if height % p == 0 and width % p == 0]
        small = [p for p in fitting if max(height, width) // p <= _LARGEST_GRID] or fitting
        if not small:
            return {}  # the model reports the sizes that fit
        return {"patch_size": min(small, key=lambda p: (abs(max(height, width) / p - _GRID), p))}

    # Batches ------------------------------------------------------------------------------------------------------

    def encode(self, examples: Sequence[Picture], split: str = "") -> PictureStore:  # type: ignore[override]
        """The sized pictures, made on access."""
        return self.encoded_for(self, examples)

    def encoded_for(self, other: Any, examples: Sequence[Picture]) -> PictureStore:  # type: ignore[override]
        pixels = examples.pixels if isinstance(examples, PictureQuery) else self.access.pixels
        store: PictureStore = other.access.store(examples, pixels)
        return store

    def collate(self, encoded: Any, indices: list[int], draw: Draw | None) -> Batch:
        change = None
        if draw is not None and self.config.augment.changes_pictures:
            change = partial(Augment(self.config.augment, draw.seed).pictures, epoch=draw.epoch)
        return Batch(indices, {"pixels": self.form.normalisation.tensor(encoded.take(indices, change))}, masks=())

    def plan(self, work: Work, split: str, draw: Draw) -> Pass:
        encoded, costs, (height, width, _) = work.encoded(split), work.costs(split), self.form.sizing.shape
        batches = plan_even(len(costs), work.config.training.batch_size, *draw)
        collate = lambda pieces: self.collate(encoded, list(pieces), draw)  # noqa: E731
        return Pass(batches, collate, costs[:, None], reuse=height * width)

    # Using a model ------------------------------------------------------------------------------------------------

    def questions(self, pictures: Any) -> tuple[Sequence[Picture], bool]:
        if isinstance(pictures, PictureQuery):
            return pictures, False
        several = _several(pictures)
        values = [pictures] if several is None else several
        if all(isinstance(value, str | Path) and str(value).strip() for value in values):
            return self.from_files(values), several is None
        pixels = Pixels.of(self.config.data)
        return PictureQuery(pictures_of(values, pixels), pixels), several is None

    def from_files(self, files: Sequence[str | Path], may_lack: bool = False) -> PictureQuery:
        """Pictures of files, some of which may not be readable."""
        pixels = Pixels.of(self.config.data)
        pixels.sources, pixels.problems = self.access.pixels.sources, {}
        pictures = (Picture("", "", os.path.expanduser(file), str(file)) for file in files)
        return PictureQuery(pictures, pixels, may_lack)

    def finished(self, head: Head, predictions: Sequence[Any], examples: Sequence[Any], encoded: Any) -> list[Any]:
        """The predictions; of several files, those that cannot be read have none, and a warning names them.

        Raises:
            DataError: None can be read.
        """
        problems = examples.problems if isinstance(examples, PictureQuery) else {}
        if not problems:
            return list(predictions)
        if not examples.may_lack:  # type: ignore[attr-defined]
            failed = [f"('{p.origin}') {problems[p.place]}" for p in examples if p.place in problems]
            if len(failed) == len(examples):
                raise DataError(f"pictures[0] {failed[0]}")
            what = f"{counted(len(failed), 'picture')} of {len(examples):,} cannot be read and have no label"
            more = "; ..." if len(failed) > _NAMED else ""
            warnings.warn(f"{what}: {'; '.join(failed[:_NAMED])}{more}", stacklevel=2)
        return [head.blank if p.place in problems else q for p, q in zip(examples, predictions, strict=True)]

    def place(self, examples: Sequence[Picture], i: int) -> dict[str, str]:
        return {"origin": examples[i].origin, "picture": examples[i].place}

    # For people ---------------------------------------------------------------------------------------------------

    @property
    def form_line(self) -> str:
        """The form of pictures, as a line of text."""
        sizing = self.form.sizing
        colour = "grey" if sizing.channels == 1 else "red, green and blue"
        size = f"{sizing.width} x {sizing.height} pixels, {colour}"
        line = f"pictures are read as {size}; other aspect ratios: {sizing.crop}"
        if sizing.levels is not None:
            low, high = sizing.levels
            line += f"; values of more than 8 bits: {low:g} to {high:g}, as in the training pictures, become 0 to 255"
        return line

    def notes(self, work: Work) -> list[str]:
        return [self.form_line]

    def counts(self, split: str, work: Work) -> dict[str, Any]:
        counts = work.splits.counts
        rules = counts[split].as_values() if split in counts else {}
        return {"examples": len(work.splits.examples[split]), **rules}

    def lines(self, work: Work) -> list[str]:
        """Counts, findings in the files, sizes, mean and deviation of each channel, labels, samples."""
        splits = work.splits
        names = ("grey",) if self.form.sizing.channels == 1 else ("red", "green", "blue")
        values = zip(names, self.form.normalisation.mean, self.form.normalisation.deviation, strict=True)
        samples = []
        for pictures in splits.examples.values():
            for picture in pictures[:: max(1, len(pictures) // 3)][:3]:
                (facts,) = self.access.pixels.facts([picture.place])
                shown = f"{facts.width} x {facts.height}" + "".join(f", {note}" for note in facts.notes)
                samples.append(f"  {escaped(picture.origin)}  {escaped(picture.label)}  ({shown})")
        return [
            splits.summary,
            *self.notes(work),
            *work.head.notes(work),
            *found_table(splits.found),
            "\nsizes, width x height in pixels:",
            *(f"{split:20}{self._sizes(pictures)}" for split, pictures in splits.examples.items()),
            "\nchannels, from 0 to 1, over the training pictures (normalised to mean 0, deviation 1):",
            *(f"  {name:<8} mean {mean:.4f}  deviation {deviation:.4f}" for name, mean, deviation in values),
            *work.head.lines(work),
            "\nsamples:",
            *samples,
        ]

    def _sizes(self, pictures: Sequence[Picture]) -> str:
        """The original sizes of pictures, the most frequent first."""
        facts = self.access.pixels.facts([picture.place for picture in pictures])
        counts = Counter((fact.width, fact.height, fact.channels) for fact in facts).most_common()
        sizes = ", ".join(f"{w} x {h} {'grey' if c == 1 else 'colour'} {n:,}" for (w, h, c), n in counts[:_MAX_SIZES])
        return sizes + (f", ... ({len(counts):,} sizes)" if len(counts) > _MAX_SIZES else "")
