"""Runs over pictures: labels and their lines, scores and their report, the nearest training picture as a baseline."""

from __future__ import annotations

import os
import re
import warnings
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from functools import cached_property, partial
from pathlib import Path
from typing import Any, Literal

import numpy as np
import torch
from markupsafe import Markup
from numpy.typing import NDArray
from PIL.Image import Image
from torch import Tensor

from heed.data.examples import Picture
from heed.data.findings import BadLine, Findings
from heed.data.kinds.inputs import inputs_in
from heed.data.kinds.pictures import PATH_NAMES, files_named, hold_pictures, picture_reader, pictures_of
from heed.data.pictures.decode import Array, Decoded, PictureError, eight_bits
from heed.data.pictures.store import PictureStore, Pixels
from heed.data.tables import Field, column_names
from heed.data.text_files import Numbered
from heed.errors import ConfigError, DataError, UnknownKeywordError, whole_number
from heed.evaluation.measures import Outcomes, share
from heed.observe.edits import Given, edits_of
from heed.observe.looks import ROLLOUT, Choice
from heed.observe.page import draw
from heed.observe.picture_drawing import ShownPicture, laid_over, shape_within
from heed.observe.picture_looks import GridPlace, PictureMap
from heed.observe.shown import Shown
from heed.tasks import capability
from heed.tasks.base.beside import check_beside, other_of
from heed.tasks.base.comparison import LabelExaminer
from heed.tasks.base.labels import LabelPrediction, LabelRun, label_ensemble
from heed.tasks.base.predictions import Predictions, TextOutputs, Written, csv_row, in_line
from heed.tasks.base.report import counted, interval, label_body, shown_errors
from heed.tasks.base.run import Run
from heed.tasks.images.look import MOST_PICTURES, Looking, look_at_distances, look_at_picture
from heed.tasks.images.pictures import SIDE, check_classes, errors_page, picture_tag, places_of
from heed.tasks.images.task import Images, PictureClassifier
from heed.threads import sparing
from heed.visible import to_json

_MOST_NUMBERS = 20_000_000
"""Largest number of values in the training pictures used: some seconds for ten thousand pictures."""
_ROWS = 1_000
"""Number of pictures compared at a time."""


class NearestPicture:
    """The nearest training picture by the Euclidean distance of pixels, at the size that the model sees.

    With very many training pictures, only every n-th is used.
    """

    def __init__(self, store: PictureStore, labels: Sequence[str]) -> None:
        height, width, channels = store.sizing.shape
        self._step = 1 + (len(store) * height * width * channels) // _MOST_NUMBERS
        places = range(0, len(store), self._step)
        self._known = np.concatenate([part.reshape(len(part), -1) for part in store.parts(places)])
        self._labels = [labels[i] for i in places]

    @property
    def name(self) -> str:
        """Its name in reports."""
        some = f" (of {len(self._labels):,} training pictures)" if self._step > 1 else ""
        return f"nearest neighbour on pixels{some}"

    def predict(self, sized: NDArray[Any]) -> list[LabelPrediction]:
        """The label of each picture `(pictures, height, width, channels)`, without probabilities."""
        rows = sized.reshape(len(sized), -1)
        nearest = [self._nearest(rows[i : i + _ROWS]) for i in range(0, len(rows), _ROWS)]
        chosen = [self._labels[i] for part in nearest for i in part.tolist()]
        return [LabelPrediction(label, (label,), 0.0, {}) for label in chosen]

    def _nearest(self, rows: NDArray[Any]) -> torch.Tensor:
        """The index of the nearest training picture for each row; the first if several are equally near."""
        asked = torch.from_numpy(rows).float()
        best, found = torch.full((len(rows),), torch.inf), torch.zeros(len(rows), dtype=torch.long)
        for start in range(0, len(self._known), _ROWS):
            known = torch.from_numpy(self._known[start : start + _ROWS]).float()
            # |a - b|^2 without |a|^2, which is the same for all b
            distances = torch.addmm(known.square().sum(1), asked, known.T, alpha=-2.0)
            values, places = distances.min(1)
            nearer = values < best
            best, found = torch.where(nearer, values, best), torch.where(nearer, places + start, found)
        return found


TOP = 5
"""Number of most probable labels among which the true label counts as found."""
TOP_NAME = f"top_{TOP}"


def picture_body(report: dict[str, Any]) -> list[str]:
    """The scores of labels, with top-5 accuracy."""
    first, *rest = label_body(report)
    found = [f"  {f'top-{TOP} accuracy':<20} {interval(report[TOP_NAME])}"] if TOP_NAME in report else []
    return [first, *found, *rest]


def picture_errors(report: Mapping[str, Any], most: int) -> list[str]:
    """The wrong examples of a report, most confident first."""
    lines = [
        f"  {e['origin']}  is {e['true']}, predicted {e['predicted']} ({e['probability']:.3f})"
        for e in shown_errors(report, most)
    ]
    return ["errors, most confident first:", *lines] if lines else ["no errors"]


_LISTS = (".txt", ".csv", ".tsv", ".list")


class PictureOutputs(TextOutputs):
    """One line per picture; with --nbest, that many lines per picture, the most probable label first."""

    run: ImagesRun
    asks = "the name of a picture's file"
    takes_folders = True

    def __init__(self, run: ImagesRun, options: Mapping[str, Any]) -> None:
        super().__init__(run, options)
        if options["csv"] and options["json"]:
            raise ConfigError("--csv and --json are alternative output formats; give only one")

    def arguments(self, texts: list[str]) -> list[str]:
        return places_of(texts)

    def inputs(self, path: Path, findings: Findings) -> tuple[Iterable[Numbered], str] | None:
        if os.path.isdir(path) or path.suffix.lower() not in _LISTS:
            places = places_of([str(path)])
            return enumerate(places, start=1), f"{len(places):,} picture{'s' * (len(places) != 1)} of '{path}'"
        data = self.run.task.config.data
        columns = getattr(data, "columns", None)
        field = Field("text", getattr(columns, "path", None), (*PATH_NAMES, "image_id", "id"))
        found = inputs_in(path, [field], findings, self.run.task.labels)
        if found is None:
            return None
        folder = getattr(data, "folder", None)

        def place(cell: str) -> str:  # as in training; what is missing is named when it is read
            files = files_named(cell, folder or path.parent)
            return files[0] if len(files) == 1 else os.path.join(folder or path.parent, cell)

        texts = ((number, one if isinstance(one, BadLine) or not one else place(one)) for number, one in found[0])
        return texts, found[1] + f", in '{folder}' (data.folder)" * (folder is not None)

    def header(self) -> list[str]:
        if not self.options["csv"]:
            return []
        if self.options["nbest"] > 1:
            return [csv_row(["picture", "rank", "label", "probability"])]
        return [csv_row(["picture", "label", "probability", *(f"P({label})" for label in self.run.task.labels)])]

    def write(self, texts: list[str]) -> Iterator[Written]:
        predictions, found = self.run.predict_files(texts)
        problems = iter(found)
        for text, prediction in zip(texts, predictions, strict=True):
            problem = "" if prediction.probabilities else next(problems)
            yield Written(self.lines(text, prediction), prediction.uncertainty, problem)

    def lines(self, picture: str, prediction: LabelPrediction) -> tuple[str, ...]:  # type: ignore[override]
        most, name = self.options["nbest"], in_line(picture)
        ranked, known = prediction.ranked[:most], bool(prediction.probabilities)
        if self.options["json"]:
            return (to_json({"picture": picture, **prediction.as_json(), "label": prediction.label or None}),)
        if self.options["csv"]:
            if most > 1:
                rows = [[picture, rank, label, f"{p:.6f}"] for rank, (label, p) in enumerate(ranked, start=1)]
                return tuple(map(csv_row, rows)) or (csv_row([picture, "", "", ""]),)
            each = [f"{prediction.probabilities[label]:.6f}" if known else "" for label in self.run.task.labels]
            return (csv_row([picture, prediction.label, f"{prediction.probability:.6f}" if known else "", *each]),)
        if self.options["sort"]:
            return prediction.lines(name, self.options)
        return tuple(f"{name}\t{in_line(label)}\t{p:.4f}" for label, p in ranked) or (f"{name}\t\t",)

    def answer(self, text: str) -> str:
        predictions, problems = self.run.predict_files([text])
        return problems[0] if problems else predictions[0].summary()


_TOGETHER = 256
"""Pictures decoded and kept in memory together, in addition to a batch."""
_NAMED = 5
"""Pictures named in a warning."""
NOTHING = LabelPrediction("", (), 0.0, {})
"""The prediction for a picture that cannot be read."""


class ImagesRun(LabelRun[Images, PictureClassifier]):
    """A trained picture classifier, or an ensemble, each member of which reads pictures at its own size."""

    task_class = Images
    outputs_class = PictureOutputs
    names = ("picture", "label")
    ensemble = classmethod(label_ensemble)
    body = staticmethod(picture_body)
    errors = staticmethod(picture_errors)
    looks_at_several = True
    """True if several pictures can be looked at together (showing their mean attention distance)."""

    def look(
        self,
        picture: Any,
        *,
        edits: Sequence[Given] = (),
        mechanism: str | None = None,
        layer: int | Literal["all"] = -1,
        head: int | Literal["mean", "all"] = "mean",
        map: Sequence[str] = (),
        patch: GridPlace | str | None = None,
        beside: str | Run[Any, Any] | None = None,
        attribution: str | None = None,
        attribution_for: str | None = None,
        rather_than: str | None = None,
    ) -> Shown:
        """Look inside at one picture: attention maps, gradients of the score; notebooks display the result.

        Args:
            picture: A file's name, a Pillow image or an array; "test:17" is picture 17 of the run's test set. Give
                several, or a folder, for the mean attention distance of each layer over all of them.
            edits: Changes of the attention weights (`heed.observe.edits`), also as data or JSON.
            mechanism: Only this attention ("encoder").
            layer: Which layer, from 0, from the end where negative, or "all".
            head: Which head, from 0, the "mean" of all, or "all" one by one.
            map: The map to draw over the picture: "attention", "rollout", "gradient", "saliency", "field", or several.
            patch: row and column of the patch whose attention is shown (for "field", the unit); default: class token.
            beside: Also the maps of another network for the same label, and the differences: "untrained", "step-N" or
                another run.
            attribution: Also draw what each place adds to the score, by this method; see `attribute`.
            attribution_for: The label whose score is meant, in maps of gradients too; by default the most probable.
            rather_than: With `attribution`: minus the score of this label.

        Raises:
            ConfigError: There is no such attention, patch, label or map.
            DataError: The picture cannot be read.
        """
        capability(self, "look")
        arrays, sources = self.opened(picture)
        if not arrays:
            raise DataError("no picture was given to look at")
        if mechanism == ROLLOUT:
            raise ConfigError("--mechanism rollout is for texts; of a picture it is --map rollout")
        title = self.task.title
        if len(arrays) != 1:
            if beside is not None:
                raise ConfigError(f"--beside takes one picture, but {len(arrays)} were given")
            return look_at_distances(self.task, self.model, arrays, title)
        check_beside(beside, edits)
        see = partial(
            look_at_picture,
            picture=arrays[0],
            source=sources[0],
            choice=Choice(mechanism, layer, head),
            maps=(map,) if isinstance(map, str) else tuple(map),
            patch=place_of(patch) if isinstance(patch, str) else patch,
            rather_than=rather_than,
            attribution=attribution,
        )
        look = see(self.task, self.model, edits=edits_of(edits), label=attribution_for, title=title)
        label = attribution_for or look.label or None
        before = ""
        if edits:
            plain = see(self.task, self.model, label=label)
            look, before = look.minus(plain, "with the edits minus without"), f"without the edits: {plain.said}"
        elif beside is not None:
            name, said, other = other_of(self, beside)
            theirs = see(other.task, other.model, label=label)
            look, before = look.minus(theirs, f"minus that of {name}", name), f"beside it: {said}: {theirs.said}"
        look = replace(look, notes=(*look.notes, *([before] if before else [])))
        return ShownPicture(look)

    def readable(self, picture: Any) -> Decoded:
        """The pixels of one picture, for an attribution.

        Raises:
            ConfigError: There are several.
        """
        arrays, _ = self.opened(picture)
        if len(arrays) != 1:
            raise ConfigError(f"{len(arrays)} pictures were given; an attribution needs exactly one")
        return arrays[0]

    @sparing()
    def attribute(
        self,
        picture: Any,
        *,
        method: str = "ig",
        target: str | None = None,
        rather_than: str | None = None,
        baseline: str = "mean",
        steps: int | None = None,
    ) -> PictureMap:
        """Attribute the score of a label to the places of one picture: its patches, or the cells of a grid.

        Args:
            picture: As for `look`.
            method: "ig" (integrated gradients), "grad", "gradxinput" or "loo" (each place filled with the baseline).
            target: The label; by default the most probable.
            rather_than: Another label: the score is the difference of the two.
            baseline: What stands in for the pixels in "ig" and "loo": the picture's "mean" colour, or "zero", the mean
                of the training pictures.
            steps: Steps of the integral; by default doubled until the error is at most 1 %, up to 400.

        Returns:
            The map; its `weights` are the numbers, its `caption` says what was computed.

        Raises:
            ConfigError: There is no such label, method or baseline.
            DataError: The picture cannot be read.
        """
        capability(self, "attribute")
        check_classes(self.task)
        look = Looking(self.task, self.model, self.readable(picture), ())
        other = None if rather_than is None else look.number_of(rather_than)
        placed, of = look.attribution(method, look.number_of(target), other, baseline, steps)
        return replace(placed, caption=of.note)

    def input_of(self, example: Picture) -> str:
        return example.place

    def opened(self, pictures: Any) -> tuple[list[Decoded], list[str]]:
        """The pixels and the name of each of the given pictures."""
        pixels = self.task.access.pixels
        several = pictures if isinstance(pictures, list | tuple) else [pictures]
        if all(isinstance(one, str | Path) for one in several):
            texts = list(map(str, several))
            named = [pair for text in texts for pair in self._named(text)]
            named = named[:: -(-len(named) // MOST_PICTURES) or 1]
            # `_named` has opened the run's data if one of its pictures is named.
            return self.task.access.pixels.read([place for place, _ in named]), [name for _, name in named]
        given = [pictures] if isinstance(pictures, Image) or getattr(pictures, "ndim", 0) in (2, 3) else pictures
        examples = pictures_of(given, pixels)
        return pixels.read([example.place for example in examples]), [example.origin for example in examples]

    def _named(self, text: str) -> list[tuple[str, str]]:
        """The places and names of the pictures that a text refers to.

        "test:17" is picture 17 of the run's test set, counted from 0, "test" the whole set; names used in reports work
        too. Anything else is a file, a folder or a pattern.
        """
        found = re.fullmatch(r"(train|valid|test)(?::(\d+))?", text)
        own: Sequence[Picture] = ()
        if os.path.exists(text):  # the run's data stays closed: an imported run has none
            pass
        elif found is not None:
            splits = self.task.split_names
            if found[1] not in splits:
                raise ConfigError(f"no picture {text}: the run has no {found[1]} set, only {' and '.join(splits)}")
            own = self.examples(found[1])
            if found[2] is not None:
                if whole_number(found[2]) >= len(own):
                    raise ConfigError(
                        f"no picture {text}: the {found[1]} set has {len(own):,} pictures, counted from 0"
                    )
                own = [own[whole_number(found[2])]]
        elif "#" in text:
            every = (one for split in reversed(self.task.split_names) for one in self.examples(split))
            own = [one for one in every if text in (one.origin, one.place)][:1]
        return [(one.place, one.origin or one.place) for one in own] or [(one, one) for one in places_of([text])]

    def predict(self, pictures: Any, **options: Any) -> Any:
        """The label of a picture, or of each of several, as `Predictions`.

        Args:
            pictures: A file's name, a Pillow image, an array `(height, width)` or `(height, width, channels)`; for
                several pictures, a list of these, an array with one more axis, a folder, or a data frame with a column
                "path".
            **options: Not supported; any keyword is refused.

        Of several files, those that cannot be read have a prediction without a label, and a warning names them.

        Raises:
            DataError: A picture cannot be read, or none of several files; the message says which and why.
        """
        if options:
            raise UnknownKeywordError(f"predict has no keyword '{next(iter(options))}'; this task has no options")
        several, problems = _several(pictures), list[DataError]()
        made = self._labelled([pictures] if several is None else several, problems)
        if problems:
            if len(problems) == len(made):
                raise problems[0]
            said = "; ".join(str(one).removeprefix("pictures[0] ") for one in problems[:_NAMED])
            what = f"{counted(len(problems), 'picture')} of {len(made):,} cannot be read and have no label"
            warnings.warn(f"{what}: {said}{'; ...' if len(problems) > _NAMED else ''}", stacklevel=2)
        return made[0] if several is None else Predictions(made)

    def _labelled(self, pictures: Sequence[Any], problems: list[DataError]) -> list[LabelPrediction]:
        """The label of each picture; `NOTHING` for a file that cannot be read, whose error is added to `problems`."""
        pixels = Pixels.of(self.config.data)
        try:
            examples = pictures_of(pictures, pixels)
            return [self.task.prediction(row) for row in self.probabilities(examples, pixels)]
        except DataError as error:
            if not all(isinstance(one, str | Path) for one in pictures):  # arrays are scaled together
                raise
            if len(pictures) == 1:
                problems.append(error)
                return [NOTHING]
        half = len(pictures) // 2
        return self._labelled(pictures[:half], problems) + self._labelled(pictures[half:], problems)

    def predict_files(self, places: Sequence[str]) -> tuple[list[LabelPrediction], list[str]]:
        """The label of the picture at each place (`NOTHING` if it cannot be read), and the reading errors in order."""
        made: list[LabelPrediction] = []
        problems: list[str] = []
        for start in range(0, len(places), _TOGETHER):
            arrays = list(self.task.access.pixels.each(self._decoded, places[start : start + _TOGETHER]))
            problems += [one for one in arrays if isinstance(one, str)]
            read = [i for i, one in enumerate(arrays) if not isinstance(one, str)]
            labelled = iter(self.probabilities_of([arrays[i] for i in read])) if read else iter(())
            made += [NOTHING if isinstance(one, str) else self.task.prediction(next(labelled)) for one in arrays]
        return made, problems

    def _decoded(self, place: str) -> Any:
        """The pixels at a place, or the error message if they cannot be read."""
        try:
            return self.task.access.pixels.decode(place)
        except DataError as error:
            return f"'{place}' {error}" if isinstance(error, PictureError) else str(error)

    def probabilities_of(self, arrays: Sequence[Any]) -> Tensor:
        """The probability of each label of decoded pictures, `(pictures, labels)`."""
        return self.mean(lambda run: run.classify(run.task.form.sizing.apply_all(arrays)))

    def probabilities(self, examples: Sequence[Picture], pixels: Pixels | None = None) -> Tensor:
        """The probability of each label of examples, read by `pixels` or by the first run, `(pictures, labels)`."""
        where = pixels or (self.task.access.pixels if len(self.members) > 1 else None)
        return self.mean(lambda run: run.classify(run.task.access.some(examples, where)))

    def classify(self, sized: Any) -> Tensor:
        """The probability of each label of sized pictures by this one run, `(pictures, labels)`."""
        check_classes(self.task)
        return self.task.probabilities(self.task.logits(self.model, sized))

    def label(self, examples: Sequence[Picture]) -> list[LabelPrediction]:
        return [self.task.prediction(row) for row in self.probabilities(examples)]

    def read(self, files: Sequence[str | Path]) -> Sequence[Picture]:
        findings = Findings.of(self.task.config.data, strict=True)
        reader = picture_reader(self.task.config.data, self.task.access.pixels)
        found = list(reader.read([str(file) for file in files], findings))
        self.reading = findings.lines()
        return found

    def held(self, data: Any) -> Sequence[Picture]:
        held = hold_pictures(data, "examples", self.config.data, Findings.of(self.config.data, strict=True))
        self.task.access.know(held.sources)
        return held

    def place_of(self, examples: Sequence[Picture], i: int) -> dict[str, str]:
        return {"origin": examples[i].origin, "picture": examples[i].place}

    def outcomes(
        self,
        examples: Sequence[Picture],
        outputs: Sequence[LabelPrediction] | None = None,
        others: tuple[Sequence[str], bool] | None = None,
    ) -> Outcomes:
        check_classes(self.task)
        if others is None:
            self.task.targets_of(examples)  # refuses labels missing from the training set
        outputs = self.label(examples) if outputs is None and examples else outputs
        made = super().outcomes(examples, outputs, others)
        if len(self.task.labels if others is None else others[0]) <= TOP or not outputs or not outputs[0].probabilities:
            return made
        found = [example.label in most(output) for example, output in zip(examples, outputs, strict=True)]
        top = share(TOP_NAME, f"top-{TOP} accuracy", [float(one) for one in found])
        return replace(made, measures=(made.measures[0], top, *made.measures[1:]))

    def errors_page(self, errors: Mapping[str, Sequence[Mapping[str, Any]]]) -> str:
        """An HTML page of the wrong pictures of reports, most confident first."""
        return errors_page(self.task, errors, f"Errors of {self.title}")

    def baselines(self, examples: Sequence[Picture]) -> Mapping[str, Outcomes]:
        """Nearest neighbour: the label of the training picture with the nearest pixels."""
        if self._nearest is None or not examples:
            return {}
        store = self.task.access.some(examples)
        said = [one for part in store.parts() for one in self._nearest.predict(part)]
        return {self._nearest.name: self.without_probabilities(examples, said)}

    @cached_property
    def _nearest(self) -> NearestPicture | None:
        known = self.known()
        if known is None:
            return None
        return NearestPicture(self.task.sized("train"), [picture.label for picture in known])

    @classmethod
    def examiner(cls) -> type[ImagesExaminer]:
        return ImagesExaminer

    @property
    def uses(self) -> Sequence[str]:
        return (
            super().uses if self.task.labels else ("heed look {run} PICTURE", "heed train images FOLDER --from {run}")
        )


def most(prediction: LabelPrediction) -> set[str]:
    """The most probable labels of a prediction, counted by top-5 accuracy."""
    return {label for label, _ in prediction.ranked[:TOP]}


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


def place_of(text: str) -> GridPlace:
    """Parse a place on a grid, such as "3,5".

    Raises:
        ConfigError: The text is not a row and a column.
    """
    parts = text.replace(" ", "").split(",")
    if len(parts) != 2 or not all(part.isdecimal() for part in parts):
        raise ConfigError(f"--patch is '{text}'; give row and column of a patch, counted from 0, as in --patch 3,5")
    return whole_number(parts[0]), whole_number(parts[1])


_MAP_NAMES = {"gradient": "Grad-CAM", "rollout": "attention rollout"}
"""Maps of each run on a page: the first for every model, so that they can be compared, the second for models with
attention."""


class ImagesExaminer(LabelExaminer[ImagesRun, Picture, LabelPrediction]):
    """Pictures, read by one of the runs for all of them."""

    kind = "pictures"

    @cached_property
    def pixels(self) -> Pixels:
        """Reads the pictures: the reader of the run that has its data open."""
        owners = [run for run in self.runs if run.task.is_open]
        return (owners or [*self.runs])[0].task.access.pixels

    def _lengths(self) -> tuple[list[int], str]:
        facts = self.pixels.facts([example.place for example in self.examples])
        return [min(one.height, one.width) for one in facts], "pixels (shorter side)"

    def predict(self, run: ImagesRun, examples: Sequence[Picture], beam_size: int | None) -> list[LabelPrediction]:
        return [run.task.prediction(row) for row in run.probabilities(examples, self.pixels)]

    def count_tokens(self, run: ImagesRun, outputs: Sequence[LabelPrediction]) -> int:
        return len(outputs)

    def _picture(self, run: ImagesRun, example: Picture) -> Array:
        """The original picture, in 8 bits by the levels of a run."""
        return eight_bits(self.pixels.read([example.place])[0], run.task.form.sizing.levels)

    def source_html(self, index: int) -> Markup:
        example = self.examples[index]
        tag = picture_tag(self._picture(self.runs[0], example), example.origin)
        return draw("named", tag, example.origin, source="tasks/images/draw.html")

    def drawing(self, run: ImagesRun, index: int, beam_size: int | None, numbers: Iterator[int]) -> Markup:
        example = self.examples[index]
        picture = self._picture(run, example)
        look = Looking(run.task, run.model, picture, ())
        number = look.number_of(None)
        shape = shape_within((picture.shape[0], picture.shape[1]), SIDE)
        figures = []
        for name in ("gradient", *(["rollout"] if look.attention is not None else [])):
            one = look.maps(name, Choice(), None, number)[0]
            tag = picture_tag(laid_over(picture, one, shape), f"{one.title}, largest {one.largest:.3g}")
            figures.append((tag, _MAP_NAMES[name]))
        summary = run.task.prediction(look.probabilities).summary()
        return draw("outputs", summary, figures, source="tasks/images/draw.html")
