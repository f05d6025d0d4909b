"""What runs over pictures write: lines of `heed predict`; pages of samples, of errors and of a comparison."""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator, Mapping, Sequence
from functools import cached_property
from pathlib import Path
from typing import Any, NamedTuple, cast

import numpy as np
from markupsafe import Markup
from numpy.typing import NDArray

from heed.data.examples import Picture
from heed.data.findings import BadLine, Findings
from heed.data.kinds.inputs import inputs_in
from heed.data.kinds.pictures import PATH_NAMES, files_named
from heed.data.pictures.decode import Array, eight_bits
from heed.data.pictures.sizing import Augment
from heed.data.tables import Field
from heed.data.text_files import Numbered
from heed.errors import DataError
from heed.show.page import draw, page
from heed.show.picture_drawing import data_uri, fitted, laid_over, shape_within
from heed.tasks.base.comparison import LabelExaminer
from heed.tasks.base.labels import LabelPrediction
from heed.tasks.base.predictions import TextOutputs, Written, in_line
from heed.tasks.heads.labels import Labels
from heed.tasks.heads.number import Number, NumberPrediction, values_of_labels
from heed.tasks.images.look import Looking
from heed.tasks.inputs.pictures import Pictures, places_of
from heed.tasks.run import Run
from heed.tasks.work import Work
from heed.visible import to_json
from heed.watch.looks import Choice

_TOGETHER = 256
"""Pictures scored together."""
_LISTS = (".txt", ".csv", ".tsv", ".list")


class PictureOutputs(TextOutputs):
    """One line per picture; with --nbest, that many lines per picture, the most probable label first."""

    asks = "the name of a picture's file"
    takes_folders = True

    def arguments(self, texts: list[str]) -> list[str]:
        return places_of(texts)

    def inputs(self, path: Path, findings: Findings) -> tuple[Iterable[Numbered], str] | None:
        if os.path.isdir(path) or path.suffix.lower() not in _LISTS:
            places = places_of([str(path)])
            return enumerate(places, start=1), f"{len(places):,} picture{'s' * (len(places) != 1)} of '{path}'"
        data = self.run.config.data
        columns = getattr(data, "columns", None)
        field = Field("text", getattr(columns, "path", None), (*PATH_NAMES, "image_id", "id"))
        found = inputs_in(path, [field], findings, self.run.head.labels)
        if found is None:
            return None
        folder = getattr(data, "folder", None)

        def place(cell: str) -> str:  # as in training; what is missing is named when it is read
            files = files_named(cell, folder or path.parent)
            return files[0] if len(files) == 1 else os.path.join(folder or path.parent, cell)

        texts = ((number, one if isinstance(one, BadLine) or not one else place(one)) for number, one in found[0])
        return texts, found[1] + f", in '{folder}' (data.folder)" * (folder is not None)

    def write(self, texts: list[str]) -> Iterator[Written]:
        for at in range(0, len(texts), _TOGETHER):
            some = self.run.input.from_files(texts[at : at + _TOGETHER], may_lack=True)
            for picture, one in zip(some, self.run.predict(some), strict=True):
                yield Written(self.lines(picture.origin, one), one.uncertainty, some.problem(picture))

    def lines(self, picture: str, prediction: LabelPrediction | NumberPrediction) -> tuple[str, ...]:  # type: ignore[override]
        name = in_line(picture)
        if self.options["json"]:
            label = {} if isinstance(prediction, NumberPrediction) else {"label": prediction.label or None}
            return (to_json({"picture": picture, **prediction.as_json(), **label}),)
        if isinstance(prediction, NumberPrediction):
            return (f"{name}\t{prediction.summary()}",)
        if self.options["sort"]:
            return prediction.lines(name, self.options)
        ranked = prediction.ranked[: self.options["nbest"]]
        return tuple(f"{name}\t{in_line(label)}\t{p:.4f}" for label, p in ranked) or (f"{name}\t\t",)

    def answer(self, text: str) -> str:
        some = self.run.input.from_files([text], may_lack=True)
        (prediction,) = self.run.predict(some)
        return some.problem(some[0]) or str(prediction.summary())


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
    scale = SIDE / max(pixels.shape[:2])
    height, width = (max(1, round(scale * side)) for side in pixels.shape[:2])
    stored = fitted(pixels, 2 * height, 2 * width) if scale < 0.5 else pixels  # sharp on screens of two pixels for one
    return Tag(data_uri(stored), alt, width, height, scale > 2)


def errors_page(run: Run, errors: Mapping[str, Sequence[Mapping[str, Any]]]) -> str:
    """The wrong pictures of each set with true and predicted labels, most confident first."""
    wrong = [
        (name, [(error, _original(run.input, str(error["picture"]))) for error in some])
        for name, some in errors.items()
    ]
    is_number = isinstance(run.head, Number)
    order = "pictures, largest errors first." if is_number else "wrong pictures, most confident first."
    title, rest = f"Errors of {run.title}", {"hints": (), "classes": (), "augmented": 0}
    return page("tasks/images/page.html", title, wrong=wrong, order=order, **rest)


def samples_page(work: Work) -> str:
    """Pictures of every class, or of ranges of the number: the original, the model's input, and augmented versions."""
    assert isinstance(work.input, Pictures)
    train, title = work.splits.examples["train"], f"Pictures of {work.config.data.name}"
    groups = _in_ranges(train) if isinstance(work.head, Number) else _in_classes(work, train)
    hints = [f"{work.input.form_line}."]
    if len(groups) > _CLASSES:
        hints.append(f"The first {_CLASSES} of {len(groups):,} classes.")
    classes = []
    for name, places in groups[:_CLASSES]:
        chosen = places[:: max(1, len(places) // _EACH)][:_EACH]
        classes.append((name, len(places), [_sample(work, i, train[i]) for i in chosen]))
    augmented = _AUGMENTED if work.config.augment.changes_pictures else 0
    return page("tasks/images/page.html", title, hints=hints, wrong=(), classes=classes, augmented=augmented)


def _in_classes(work: Work, pictures: Sequence[Picture]) -> list[tuple[str, list[int]]]:
    """The places of the pictures of each class."""
    places: dict[str, list[int]] = {label: [] for label in cast(Labels, work.head).labels}
    for i, picture in enumerate(pictures):
        places[picture.label].append(i)
    return [*places.items()]


def _in_ranges(pictures: Sequence[Picture]) -> list[tuple[str, list[int]]]:
    """The places of the pictures whose number is in each of a few ranges, which have about as many pictures each."""
    values = values_of_labels(pictures)
    parts = np.array_split(np.argsort(values, kind="stable"), min(_EACH, len(values)))
    return [(f"{values[part[0]]:g} to {values[part[-1]]:g}", part.tolist()) for part in parts]


def _sample(work: Work, index: int, picture: Picture) -> tuple[str, str, list[Tag]]:
    """File and size of a picture, then the picture, what the model reads, and augmented versions."""
    input, config, seen = cast(Pictures, work.input), work.config, work.encoded("train").take([index])  # type: ignore[attr-defined]
    (facts,) = input.access.pixels.facts([picture.place])
    pictures = [_original(input, picture.place), picture_tag(seen[0], "")]
    if config.augment.changes_pictures:
        change = Augment(config.augment, config.training.seed).pictures
        pictures += [picture_tag(change(seen, [index], epoch)[0], "") for epoch in range(_AUGMENTED)]
    return picture.origin, f"{facts.width} x {facts.height}", pictures


def _original(input: Any, place: str) -> Tag:
    try:
        return picture_tag(eight_bits(input.access.pixels.read([place])[0], input.form.sizing.levels), place)
    except DataError as error:
        return Tag("", str(error))


_MAP_NAMES = {"gradient": "Grad-CAM", "rollout": "attention rollout"}
"""Maps of each run on a page: the first for every model, so that they can be compared, the second for models with
attention."""


class ImagesExaminer(LabelExaminer):
    """Pictures, read by one of the runs for all of them."""

    kind = "pictures"

    @cached_property
    def reader(self) -> Pictures:
        """Reads the pictures: the input of the run that has its data open."""
        inputs: list[Pictures] = [run.input for run in self.runs]
        return next((one for one in inputs if one.access.is_open), inputs[0])

    def _lengths(self) -> tuple[list[int], str]:
        facts = self.reader.access.pixels.facts([example.place for example in self.examples])
        return [min(one.height, one.width) for one in facts], "pixels (shorter side)"

    def predict(self, run: Any, examples: Sequence[Picture], beam_size: int | None) -> list[LabelPrediction]:
        encoded: Any = self.reader.encoded_for(run.input, examples)
        answers = run.task.answers(run.model, encoded)
        return [run.head.predict(answer) for answer in answers]

    def count_tokens(self, run: Any, outputs: Sequence[LabelPrediction]) -> int:
        return len(outputs)

    def _picture(self, run: Any, example: Picture) -> Array:
        """The original picture, in 8 bits by the levels of a run."""
        return eight_bits(self.reader.access.pixels.read([example.place])[0], run.input.form.sizing.levels)

    def source_html(self, index: int) -> Markup:
        example = self.examples[index]
        tag = picture_tag(self._picture(self.runs[0], example), example.origin)
        return draw("named", tag, example.origin, source="tasks/images/draw.html")

    def drawing(self, run: Any, index: int, beam_size: int | None, numbers: Iterator[int]) -> Markup:
        example = self.examples[index]
        picture = self._picture(run, example)
        look = Looking(run.task, run.model, picture)
        shape = shape_within((picture.shape[0], picture.shape[1]), SIDE)
        figures = []
        for name in ("gradient", *(["rollout"] if look.attention is not None else [])):
            one = look.maps(name, Choice(), None, look.label())[0]
            tag = picture_tag(laid_over(picture, one, shape), f"{one.title}, largest {one.largest:.3g}")
            figures.append((tag, _MAP_NAMES[name]))
        return draw("outputs", run.head.predict(look.answer).summary(), figures, source="tasks/images/draw.html")
