"""Pictures of a run: named files, their splits (files, the Hub, Python, embedded), sized pixels; overview and pages.

The pages show samples of each class and wrongly labelled pictures.
"""

from __future__ import annotations

import base64
import glob
import io
import os
from collections import Counter
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, NamedTuple, TypeVar

from numpy.typing import NDArray
from PIL import Image

from heed.config import Source
from heed.data.embedded.pictures import DIGITS, draw_digits
from heed.data.examples import Picture, label_order
from heed.data.findings import found_table
from heed.data.kinds.contents import Advice, no_advice
from heed.data.kinds.pictures import class_names, picture_reader
from heed.data.pictures.decode import eight_bits
from heed.data.pictures.files import Listing, files_below, is_idx, is_picture, read_idx, refuse_archive
from heed.data.pictures.sizing import PictureForm, Sizing, settled_size
from heed.data.pictures.store import PictureStore, Pixels
from heed.data.splits import Splits, drawn_splits, open_splits
from heed.errors import ConfigError, DataError, nearest
from heed.observe.page import page
from heed.tasks import suggest_task
from heed.tasks.base.labels import count_lines
from heed.visible import escaped


def open_pictures(
    data: Any, pixels: Pixels, given: Mapping[str, Sequence[Picture]] | None = None, advice: Advice = no_advice
) -> Splits[Picture]:
    """Read every split of a `data` section of pictures.

    Args:
        data: The section.
        pixels: Records the places of the pictures (`Pixels.of(data, given)`).
        given: Examples passed in Python, by split (`heed.data.kinds.pictures`).
        advice: Names commands for files without pictures.

    Raises:
        DataError: A file cannot be read, or nothing is left to train on.
    """
    if data.is_embedded:
        drawn, images = draw_digits({"train": data.train, "valid": data.valid, "test": data.test}, data.seed)
        pixels.sources[DIGITS] = images
        return drawn_splits({str(name): some for name, some in drawn.items()}, data.name, "pictures")
    remarks: list[str] = []
    if given is None and data.origin == "files":
        data, remarks = with_sets(data)
    reader = picture_reader(data, pixels, advice)
    # `in_memory` bounds megabytes of pixels here; the examples themselves are small.
    splits = open_splits(data.model_copy(update={"in_memory": None}), reader, given)
    splits.remarks = [*remarks, *splits.remarks]
    return splits


D = TypeVar("D", bound=Source)


def with_sets(data: D) -> tuple[D, list[str]]:
    """The section with the folder of each split, if a folder contains several; remarks that say so.

    Raises:
        DataError: A folder given for a split contains only other splits.
    """
    update: dict[str, list[str]] = {}
    found: dict[str, str] = {}
    for split in ("train", "valid", "test"):
        given = getattr(data, split)
        for path in given if isinstance(given, list) else ():
            sets = sets_in(path)
            if sets and split not in sets:
                raise DataError(
                    f"data.{split}: '{path}' contains {' and '.join(sets)} but not {split}; give a folder that does"
                )
            update.setdefault(split, []).append(sets.get(split, str(path)))
            if split == "train":
                found = {**sets, **found}
    remarks = []
    for split in ("valid", "test"):
        if getattr(data, split) is None and split in found:
            update[split] = [found[split]]
            remarks.append(f"data.{split} is {found[split]}")
    return data.model_copy(update=update), remarks


def sets_in(path: str) -> dict[str, str]:
    """Split -> its folder or file, if a folder contains a training set and others; else empty."""
    return Listing(path).splits() if os.path.isdir(path) else {}


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
        refuse_archive(path)
        if not is_picture(name) and is_idx(path):
            return [f"{name}#{i}" for i in range(len(read_idx(path)))]
        return [name]
    if glob.has_magic(name):
        matching = sorted(glob.glob(name, recursive=True))
        if not matching:
            raise ConfigError(f"no file matches '{name}'")
        return [place for one in matching for place in ([one] if os.path.isfile(one) else _inside(Path(one)))]
    return [name]


def _inside(folder: Path) -> list[str]:
    """The pictures in a folder at any depth, by file extension; hidden files and folders are left out."""
    inside = [os.path.join(folder, *parts) for parts in files_below(str(folder)) if is_picture(parts[-1])]
    if not inside:
        raise ConfigError(f"folder '{folder}' contains no pictures (files that end in .jpg, .png and so on)")
    return sorted(inside)


@dataclass
class PictureSplits(Splits[Picture]):
    """Splits of pictures; `pixels` reads them."""

    pixels: Pixels = field(default_factory=Pixels)


def open_picture_splits(data: Any, given: Mapping[str, Sequence[Picture]] | None) -> PictureSplits:
    """Read every split of a `data` section, or take the given pictures.

    Raises:
        DataError: A file cannot be read, or nothing is left to train on.
    """
    pixels = Pixels.of(data, given)
    splits = open_pictures(data, pixels, given, suggest_task)
    return PictureSplits(**vars(splits), pixels=pixels)


def ordered_classes(data: Any, found: Collection[str]) -> list[str]:
    """The classes of a run in order: as in `data.classes`, otherwise by name, numbers by value.

    Raises:
        DataError: A class that was found is not in the list.
    """
    names = class_names(data)
    if names is None:
        return label_order(found)
    if unknown := [label for label in label_order(found) if label not in names]:
        raise DataError(
            f"data.classes names {', '.join(names)}, but there are pictures of '{unknown[0]}'"
            f"{nearest(unknown[0], names)}"
        )
    return names


def sizing_of(data: Any, train: Sequence[Picture], pixels: Pixels, parent: PictureForm | None) -> Sizing:
    """The sizing of a new run, from the `data` section or the training pictures.

    A run that starts from a parent's weights uses the parent's size and channels unless the section sets them, since
    the weights were trained for them.
    """
    facts = pixels.facts([picture.place for picture in train])
    if parent is None or data.channels not in ("auto", parent.sizing.channels):
        channels = data.channels if data.channels != "auto" else max(one.channels for one in facts)
        height, width = settled_size([(one.height, one.width) for one in facts])
        sizing = Sizing(height, width, channels, data.crop)
    else:
        sizing = parent.sizing
        if "crop" in data.model_fields_set:
            sizing = replace(sizing, crop=data.crop, shorter=None)
    if data.size != "auto":
        height, width = (data.size, data.size) if isinstance(data.size, int) else data.size
        if (height, width) != (sizing.height, sizing.width):
            sizing = replace(sizing, height=height, width=width, shorter=None)
    levels = [one.levels for one in facts if one.levels is not None]
    if levels and sizing.levels is None:
        sizing = replace(sizing, levels=(min(low for low, _ in levels), max(high for _, high in levels)))
    return sizing


def check_classes(task: Any) -> None:
    """Refuse to predict with a model imported without a classifier.

    Raises:
        ConfigError: The model has no classes.
    """
    if not task.labels:
        raise ConfigError(
            f"the model has no classes: it was imported from {task.config.data.name}, which has no classifier; "
            "train a classifier from it: heed train images FOLDER --from RUN"
        )


class PictureAccess:
    """The pictures of one run; `pixels` reads those of open splits and of any file."""

    def __init__(self, data: Any, sizing: Sizing) -> None:
        self._data, self._sizing = data, sizing
        self.pixels = Pixels.of(data)
        self._sources: dict[str, Any] = {}  # of pictures passed in Python
        self._splits: Mapping[str, Sequence[Picture]] = {}
        self._stores: dict[str, PictureStore] = {}
        self._last: tuple[Sequence[Picture], PictureStore] | None = None

    def open(self, splits: PictureSplits) -> None:
        """Open the splits, so that their pictures can be read."""
        self._splits, self.pixels = splits.examples, splits.pixels
        self.know(self._sources)

    def know(self, sources: Mapping[str, Any]) -> None:
        """Add the sources of further pictures."""
        self._sources |= sources
        self.pixels.sources |= sources

    def keep(self, name: str, store: PictureStore) -> None:
        """Set the store of sized pictures of a split."""
        self._stores[name] = store

    def split(self, name: str) -> PictureStore:
        """The sized pictures of a split."""
        if name not in self._stores:
            self._stores[name] = self._store(self._splits[name], self.pixels)
        return self._stores[name]

    def some(self, pictures: Sequence[Picture], pixels: Pixels | None = None) -> PictureStore:
        """The sized pictures of some examples, read by `pixels`; the last request is cached."""
        for name, own in self._splits.items():
            if pictures is own:
                return self.split(name)
        if self._last is None or self._last[0] is not pictures:
            self._last = pictures, self._store(pictures, pixels or self.pixels)
        return self._last[1]

    def _store(self, pictures: Sequence[Picture], pixels: Pixels) -> PictureStore:
        return PictureStore(pixels, [picture.place for picture in pictures], self._sizing, self._data.in_memory)


_MOST = 8
"""Largest number of sizes listed on a line."""


def form_line(sizing: Sizing) -> str:
    """The form of pictures, as a line of text."""
    colour = "grey" if sizing.channels == 1 else "red, green and blue"
    said = f"pictures are read as {sizing.width} x {sizing.height} pixels, {colour}; other aspect ratios: {sizing.crop}"
    if sizing.levels is not None:
        low, high = sizing.levels
        said += f"; values of more than 8 bits: {low:g} to {high:g}, as in the training pictures, become 0 to 255"
    return said


def remarks_on(task: Any) -> list[str]:
    """The form of pictures, and the counts of labels, with warnings."""
    fix = " (data.class_weights=balanced weighs labels equally)" * (task.config.data.class_weights == "none")
    return [form_line(task.form.sizing), *count_lines(task.label_counts("train"), "picture", fix)]


def overview_of(task: Any) -> str:
    """Counts, findings in the files, sizes, mean and deviation of each channel, labels, samples."""
    form = task.form
    counted = [
        f"{split:10}" + "  ".join(f"{label} {count:,}" for label, count in task.label_counts(split).items())
        for split in task.split_names
    ]
    names = ("grey",) if form.sizing.channels == 1 else ("red", "green", "blue")
    values = zip(names, form.normalisation.mean, form.normalisation.deviation, strict=True)
    channels = [f"  {name:<8} mean {mean:.4f}  deviation {deviation:.4f}" for name, mean, deviation in values]
    return "\n".join(
        [
            task.splits.summary,
            *found_table(task.splits.found),
            "",
            *_sizes(task),
            "",
            "channels, from 0 to 1, over the training pictures (normalised to mean 0, deviation 1):",
            *channels,
            "",
            "labels:",
            *counted,
            "",
            "samples:",
            *_samples(task),
        ]
    )


def counts_of(task: Any) -> dict[str, Any]:
    """Per split: counts of pictures, of those left out by each rule, and of labels."""
    splits = task.splits
    return {
        name: {
            "examples": len(pictures),
            **(splits.counts[name].as_values() if name in splits.counts else {}),
            "labels": task.label_counts(name),
        }
        for name, pictures in splits.examples.items()
    }


def _sizes(task: Any) -> list[str]:
    """The original sizes of the pictures, the most frequent first."""
    lines = []
    for split in task.split_names:
        facts = task.access.pixels.facts([picture.place for picture in task.splits.examples[split]])
        counts = Counter((one.width, one.height, one.channels) for one in facts).most_common()
        some = ", ".join(f"{w} x {h} {'grey' if c == 1 else 'colour'} {n:,}" for (w, h, c), n in counts[:_MOST])
        more = f", ... ({len(counts):,} sizes)" if len(counts) > _MOST else ""
        lines.append(f"{split:10}{some}{more}")
    return ["sizes, width x height in pixels:", *lines]


def _samples(task: Any) -> list[str]:
    """A few pictures of each split, with label, size and notes."""
    lines = []
    for split in task.split_names:
        pictures = task.splits.examples[split]
        for picture in pictures[:: max(1, len(pictures) // 3)][:3]:
            (facts,) = task.access.pixels.facts([picture.place])
            said = f"{facts.width} x {facts.height}" + "".join(f", {note}" for note in facts.notes)
            lines.append(f"  {escaped(picture.origin)}  {escaped(picture.label)}  ({said})")
    return lines


SIDE = 144
"""Pixels of the longer side of a picture on a page."""
_EACH, _CLASSES = 4, 12
"""Largest numbers of pictures of each class and of classes on a page of samples."""
_AUGMENTED = 4
"""Number of augmented versions of each sample."""


class Tag(NamedTuple):
    """A picture as a self-contained `<img>`; without `uri`, `alt` says why it cannot be shown."""

    uri: str
    alt: str
    width: int = 0
    height: int = 0
    enlarged: bool = False


def picture_tag(pixels: NDArray[Any], alt: str) -> Tag:
    """A picture `(height, width, channels)`; small pictures are enlarged unsmoothed."""
    image = Image.fromarray(pixels[:, :, 0] if pixels.shape[2] == 1 else pixels)
    scale = SIDE / max(image.size)
    width, height = (max(1, round(scale * one)) for one in image.size)
    image.thumbnail((2 * SIDE, 2 * SIDE))
    file = io.BytesIO()
    image.save(file, "PNG")
    data = base64.b64encode(file.getvalue()).decode("ascii")
    return Tag(f"data:image/png;base64,{data}", alt, width, height, scale > 2)


def errors_page(task: Any, errors: Mapping[str, Sequence[Mapping[str, Any]]], title: str) -> str:
    """The wrong pictures of each set with true and predicted labels, most confident first."""
    wrong = [
        (name, [(error, _original(task, str(error["picture"]))) for error in found]) for name, found in errors.items()
    ]
    return page("tasks/images/page.html", title, hints=(), wrong=wrong, classes=(), augmented=0)


def samples_page(task: Any, title: str) -> str:
    """Pictures of every class: the original, the model's input, and augmented versions."""
    train = task.splits.examples["train"]
    by_label: dict[str, list[int]] = {label: [] for label in task.labels}
    for i, picture in enumerate(train):
        by_label[picture.label].append(i)
    hints = [f"{form_line(task.form.sizing)}."]
    if len(task.labels) > _CLASSES:
        hints.append(f"The first {_CLASSES} of {len(task.labels):,} classes.")
    classes = []
    for label in task.labels[:_CLASSES]:
        places = by_label[label]
        chosen = places[:: max(1, len(places) // _EACH)][:_EACH]
        classes.append((label, len(places), [_sample(task, i, train[i]) for i in chosen]))
    augmented = _AUGMENTED if task.config.augment.changes_pictures else 0
    return page("tasks/images/page.html", title, hints=hints, wrong=(), classes=classes, augmented=augmented)


def _sample(task: Any, index: int, picture: Picture) -> tuple[str, str, list[Tag]]:
    """File and size of a picture, then the picture, what the model reads, and augmented versions."""
    seen = task.sized("train").take([index])
    (facts,) = task.access.pixels.facts([picture.place])
    pictures = [_original(task, picture.place), picture_tag(seen[0], "")]
    if task.config.augment.changes_pictures:
        pictures += [picture_tag(task.augment.pictures(seen, [index], epoch)[0], "") for epoch in range(_AUGMENTED)]
    return picture.origin, f"{facts.width} x {facts.height}", pictures


def _original(task: Any, place: str) -> Tag:
    try:
        return picture_tag(eight_bits(task.access.pixels.read([place])[0], task.form.sizing.levels), place)
    except DataError as error:
        return Tag("", str(error))
