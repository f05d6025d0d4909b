"""Images: pictures with one label or number each, an image model with one linear layer, the loss over the labels.

The default number of passes over few small pictures was measured: scikit-learn's digits, 99.1 % of the test pictures
over three seeds, in 11 s of one thread; choosing weights from early validations of 100 pictures gave 98.3 %.
"""

from __future__ import annotations

import math
import os
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import Path
from typing import Annotated, Any, ClassVar, Literal, NamedTuple, Self, cast

import numpy as np
import torch
from markupsafe import Markup
from numpy.typing import NDArray
from pydantic import BeforeValidator, Field, field_validator, model_validator
from torch import Tensor

from heed.config.data import OWN, Only, Source, Sources, generated, section
from heed.config.sections import (
    AugmentSection,
    DataPath,
    EvaluationConfig,
    ModelSection,
    RunConfig,
    Section,
    TrainingConfig,
)
from heed.config.settling import with_rate
from heed.data.examples import Picture
from heed.data.findings import BadLine, Findings
from heed.data.kinds.pictures import PATH_NAMES, class_names, files_named
from heed.data.kinds.texts import inputs_in
from heed.data.pictures.decode import Array, eight_bits
from heed.data.pictures.sizing import Augment, Normalisation, PictureForm, Sizing, smaller_sizes
from heed.data.splits import Splits
from heed.data.tables import Field as NamedField
from heed.data.text_files import Numbered
from heed.errors import DataError
from heed.evaluation.measures import Outcomes, share
from heed.show.page import draw, page
from heed.show.picture_drawing import data_uri, fitted, laid_over, shape_within
from heed.tasks import spec_of
from heed.tasks.base.comparison import LabelExaminer
from heed.tasks.base.labels import LabelPrediction, library_memory
from heed.tasks.base.predictions import Prediction, TextOutputs, Written, in_line
from heed.tasks.base.report import counted
from heed.tasks.base.sizing import seconds_of
from heed.tasks.base.transfer import Parent
from heed.tasks.contracts import Batch, Input
from heed.tasks.heads.labels import Labels, check_sigmoid
from heed.tasks.heads.number import LabelsOrNumber, Number, NumberPrediction, mean_number, values_of_labels
from heed.tasks.images.look import Looking, attribute_places, check_classes, look
from heed.tasks.inputs.pictures import FEW, PictureSplits, places_of, sizing_of
from heed.tasks.inputs.pictures import Pictures as PictureInput
from heed.tasks.run import Run
from heed.tasks.work import Baselines, Looks, Task, Work
from heed.training.plan import choose_size
from heed.visible import to_json
from heed.watch.looks import Choice

_LARGEST = 4_096
"""Most pixels of one side."""


def _sides(value: object) -> object:
    """Check a size and return it unchanged; one error message covers all its forms."""
    sides = value if isinstance(value, list | tuple) and len(value) == 2 else [value]
    if value != "auto" and not all(type(side) is int and 0 < side <= _LARGEST for side in sides):
        raise ValueError(
            f"data.size is {value!r}, expected pixels of each side such as 64, [height, width] such as [48, 64], each "
            f"at most {_LARGEST:,}, or auto"
        )
    return value


PictureSize = Annotated[int | tuple[int, int] | Literal["auto"], BeforeValidator(_sides)]
"""Pixels of each side, or [height, width], or auto."""


class Pictures(Source):
    """Pictures with labels: a folder for each class, a table, or idx files (`heed.data.kinds.pictures`)."""

    labelled: ClassVar = True

    train: list[DataPath] = Field(min_length=1)
    """Training pictures: folders with a folder for each class, tables of paths and labels (.csv, .tsv), or idx files
    (.gz or not), relative to the configuration. A folder with train and test inside gives both sets. Of a data set of
    the Hub its split, or a part of it such as train[:1000]; of embedded data the number of examples."""
    columns: Annotated[Any, Only(OWN)] = section("path", "label")
    """Columns of picture and label in a table.

    - path: Column of the picture: a number from 0 or a name. In a file it has paths; by default the column "path",
      "file", "filename" or "image", or the one with names of pictures.
    - label: Column of the label: a number from 0 or a name; by default the column "label" or "class".
    """
    folder: Annotated[DataPath | None, Only(OWN)] = None
    """Folder of the pictures that tables name, by default that of each table (in Python the current one). A name may
    lack its ending, as an id."""
    classes: Annotated[list[str] | DataPath | None, Only(OWN)] = None
    """The classes in order, or a file with one class a line; with idx files the names of labels 0, 1, ... By default in
    alphabetical order, numbers by value."""
    target: Literal["auto", "classes", "number"] = "classes"
    """What the label is: one of several classes, or a number (regression: squared error of the standardised value).
    Auto is a number if the labels are more than 20 different numbers, or numbers with fractions."""
    size: PictureSize = "auto"
    """Pixels of the picture that the model sees: of each side, or [height, width]. auto is the size of the training
    pictures if all have the same, else a square of 32 to 224 by their median; smaller, down to a shorter side of 32,
    where fewer than 1,000 updates would fit into the time budget."""
    crop: Literal["centre", "pad", "squash"] = "centre"
    """Treatment of a picture of another shape: centre crops the longer side at both ends, pad adds margins to the
    shorter side, squash changes the proportions."""
    channels: Literal["auto", 1, 3] = "auto"
    """1 reads pictures as grey, 3 as red, green and blue; auto is 1 if all training pictures are grey."""
    in_memory: int = Field(2_000, ge=0)
    """Megabytes of resized pictures to keep in memory; in larger sets each picture is read when it is needed."""
    workers: Annotated[int, Field(ge=0)] | Literal["auto"] = "auto"
    """Threads that read and decode pictures; auto is as many as help, 0 is only the main thread. Results do not depend
    on it."""
    class_weights: Literal["none", "balanced"] | dict[str, float] = "none"
    """Weight of each class in the loss: balanced is inverse to the class's share, or a weight per class (1 if none is
    given)."""
    max_pixels: int = Field(100_000_000, gt=0)
    """A picture with more pixels than this is bad: a file of some kilobytes can declare a size that fills memory."""

    @model_validator(mode="after")
    def _folder_of_tables(self) -> Self:
        files = [file for part in (self.train, self.valid, self.test) if isinstance(part, list) for file in part]
        is_table = any(".csv" in file or ".tsv" in file for file in files)
        if self.folder is not None and self.origin == "files" and not is_table:
            raise ValueError(
                f"data.folder is for the files that a table (.csv, .tsv) names, but there is none in {files}"
            )
        return self

    @model_validator(mode="after")
    def _that_many(self) -> Self:
        sizes: Any = self.train, self.valid, self.test
        if self.origin == "digits" and (total := sum(sizes)) > 1_797:
            raise ValueError(
                f"data.train, data.valid and data.test are {' + '.join(f'{size:,}' for size in sizes)} = {total:,}, "
                "but there are 1,797 digits"
            )
        return self


class ImagesModelSection(ModelSection):
    """Which image model; all other fields are the model's and the head's own (`heed models NAME` lists them)."""

    name: str = "cnn"
    """File in `heed/models`."""


class ImagesHead(Section):
    """Head that maps a picture's vector to labels; its fields are in the `model` section, with the model's own."""

    head: Literal["softmax", "sigmoid"] = "softmax"
    """softmax has one output for each label; sigmoid has one for two classes, the probability of the second."""


class ImagesTraining(TrainingConfig):
    """Settings of the training."""

    batch_size: int = Field(64, gt=0)
    """Number of pictures in a batch."""
    batch_tokens: int = Field(2_000, gt=0)
    """Not used: pictures are counted by batch_size."""
    learning_rate: float = Field(0.002, gt=0)
    """Largest learning rate."""
    betas: tuple[float, float] = (0.9, 0.99)
    """Adam's decay rates of the first and second moment."""
    weight_decay: float = Field(0.05, ge=0)
    """Decay of matrices towards zero (not of biases and vectors)."""

    @model_validator(mode="before")
    @classmethod
    def _budget(cls, values: Any) -> Any:
        return values  # the default budget depends on the data (`tasks.images.defaults`)

    @field_validator("batch_tokens")
    @classmethod
    def _no_tokens(cls, value: int) -> int:
        if value != cls.model_fields["batch_tokens"].default:
            raise ValueError(
                f"training.batch_tokens is {value:,}, but pictures have no tokens; training.batch_size counts the "
                "pictures of a batch"
            )
        return value


class ImagesEvaluation(EvaluationConfig):
    """Settings of the evaluation."""

    select_by: Literal["auto", "accuracy", "macro_f1", "loss"] = "auto"
    """Validation score that chooses the best checkpoint: auto is accuracy, then loss among equals, or loss if the
    label is a number."""


class ImagesConfig(RunConfig):
    """The configuration of a run over pictures."""

    task: Literal["images"] = "images"
    """What is learned."""
    data: Annotated[Pictures, Sources(Pictures, hub=True, digits=generated(1_297, 100, 400))]
    """Where the pictures come from."""
    augment: AugmentSection = AugmentSection()
    """Random changes of training pictures, drawn again in each pass."""
    model: ImagesModelSection = ImagesModelSection()
    """Which model."""
    training: ImagesTraining = ImagesTraining()
    """How it is trained."""
    evaluation: ImagesEvaluation = ImagesEvaluation()
    """How it is scored."""


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
        field = NamedField("text", getattr(columns, "path", None), (*PATH_NAMES, "image_id", "id"))
        inputs = inputs_in(path, [field], findings, self.run.head.labels)
        if inputs is None:
            return None
        folder = getattr(data, "folder", None)

        def place(cell: str) -> str:  # as in training; a missing file is reported when it is read
            files = files_named(cell, folder or path.parent)
            return files[0] if len(files) == 1 else os.path.join(folder or path.parent, cell)

        lines, remark = inputs
        texts = ((number, cell if isinstance(cell, BadLine) or not cell else place(cell)) for number, cell in lines)
        return texts, remark + f", in '{folder}' (data.folder)" * (folder is not None)

    def write(self, texts: list[str]) -> Iterator[Written]:
        for at in range(0, len(texts), _TOGETHER):
            some = self.run.input.from_files(texts[at : at + _TOGETHER], may_lack=True)
            for picture, prediction in zip(some, self.run.predict(some), strict=True):
                yield Written(self.lines(picture.origin, prediction), prediction.uncertainty, some.problem(picture))

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
    title, template = f"Errors of {run.title}", {"hints": (), "classes": (), "augmented": 0}
    return page("tasks/images/page.html", title, wrong=wrong, order=order, **template)


def samples_page(work: Work) -> str:
    """Pictures of every class, or of ranges of the number: the original, the model's input, and augmented versions."""
    assert isinstance(work.input, PictureInput)
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
    input, config, seen = cast(PictureInput, work.input), work.config, work.encoded("train").take([index])  # type: ignore[attr-defined]
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
    def reader(self) -> PictureInput:
        """Reads the pictures: the input of the run that has its data open."""
        inputs: list[PictureInput] = [run.input for run in self.runs]
        return next((reader for reader in inputs if reader.access.is_open), inputs[0])

    def _lengths(self) -> tuple[list[int], str]:
        facts = self.reader.access.pixels.facts([example.place for example in self.examples])
        return [min(picture.height, picture.width) for picture in facts], "pixels (shorter side)"

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
            shown = look.maps(name, Choice(), None, look.label())[0]
            tag = picture_tag(laid_over(picture, shown, shape), f"{shown.title}, largest {shown.largest:.3g}")
            figures.append((tag, _MAP_NAMES[name]))
        return draw("outputs", run.head.predict(look.answer).summary(), figures, source="tasks/images/draw.html")


_MAX_NUMBERS = 20_000_000
"""Largest number of values in the training pictures used, and of distances computed at a time: some seconds for ten
thousand pictures. Of very many training pictures, only every n-th is used."""


def baselines(run: Run) -> Baselines:
    """Nearest neighbour: the label or number of the training picture of least distance, at the size the model sees."""
    if (pictures := run.training_examples()) is None:
        return {}
    store: Any = run.input.encode(pictures)
    places = range(0, len(store), 1 + len(store) * math.prod(store.sizing.shape) // _MAX_NUMBERS)
    pixels = torch.from_numpy(np.concatenate([*store.parts(places)])).flatten(1).float()
    near, squares = [pictures[i] for i in places], pixels.square().sum(1)
    answers: list[Prediction] = [LabelPrediction(picture.label, (picture.label,), 0.0, {}) for picture in near]
    if is_number := isinstance(run.head, Number):
        answers = [NumberPrediction(value) for value in values_of_labels(near).tolist()]

    def predict(examples: Sequence[Any]) -> list[Prediction]:
        asked: Any = run.input.encode(examples)
        nearest: list[int] = []
        for part in asked.parts():
            for rows in torch.from_numpy(part).flatten(1).float().split(max(1, _MAX_NUMBERS // len(pixels))):
                # |a - b|^2 without |a|^2, which is the same for all b; of equally near pictures the first
                nearest += torch.addmm(squares, rows, pixels.T, alpha=-2.0).argmin(1).tolist()
        return [answers[i] for i in nearest]

    some = f" (of {len(near):,} training pictures)" if len(near) < len(store) else ""
    return {f"nearest neighbour on pixels{some}": predict, **(mean_number(run) if is_number else {})}


_SIZED_BY = 1_000
"""Updates that must fit into the time budget before pictures are read as large as they are."""
_MINUTES, _EPOCHS = 2.0, 30
"""Minutes of a run; for few small pictures passes instead, so that runs are bit-identical."""
_SMALL, _MANY = "few small pictures", "many or large pictures"
_FEW_RATE, _RATE, _FINE_RATE, _WIDTH = 0.004, 0.002, 0.0005, 128
"""Largest learning rates at this width: for few small pictures, for others, and for a pretrained body."""
_VALIDATED = 0.8
"""Share of a run over few small pictures after which it is validated, as at its end; earlier validations of few
pictures would choose weights by chance."""
_FEW_PHOTOS = 10_000
"""Largest number of training pictures that are augmented by default; of more, a run of minutes sees each few times."""
_SIDED = re.compile(
    r"\d+|(.*[\W_])?(\w|left|right|letters?|digits?|numbers?|signs?|text"
    r"|zero|one|two|three|four|five|six|seven|eight|nine)([\W_].*)?",
    re.IGNORECASE,
)
"""Labels of pictures that may not be mirrored: characters, numbers, directions."""
_BODY = "body."
"""Prefix of the names of a body's tensors."""
_USES = ("heed look {run} PICTURE", "heed train images FOLDER --from {run}")
"""Commands for a model imported without a classifier."""
TOP = 5
"""Number of most probable labels that top-5 accuracy looks for the true label among."""


def top_labels(prediction: LabelPrediction) -> set[str]:
    """The most probable labels of a prediction, counted by top-5 accuracy."""
    return {label for label, _ in prediction.ranked[:TOP]}


@dataclass(frozen=True)
class PictureLabels(Labels):
    """One label for each picture; none in a model imported without a classifier."""

    options: ClassVar = ImagesHead
    follows: ClassVar = ("head",)

    targets: str = "pictures"

    def learned_labels(self, config: Any, splits: Splits[Any]) -> list[str]:
        """The classes of a run in order: as in `data.classes`, otherwise by name, numbers by value."""
        return class_names(config.data) or super().learned_labels(config, splits)

    def settled(self, options: ImagesHead, fields: dict[str, Any], work: Work) -> dict[str, Any]:
        check_sigmoid(self, options.head)
        return super().settled(options, fields, work)

    def encode(self, examples: Sequence[Any], input: Input | None = None) -> Any:
        check_classes(self)
        return super().encode(examples, input)

    def decode(self, model: Any, states: Tensor, batch: Batch) -> Sequence[Tensor]:
        check_classes(self)
        return super().decode(model, states, batch)

    def outcomes(
        self, predictions: Sequence[LabelPrediction], examples: Sequence[Any], input: Input, others: Any = None
    ) -> Outcomes:
        """The outcomes of labels, with top-5 accuracy."""
        outcomes = super().outcomes(predictions, examples, input, others)
        if len(self.labels if others is None else others[0]) <= TOP or not predictions[0].probabilities:
            return outcomes
        hits = [float(e.label in top_labels(p)) for e, p in zip(examples, predictions, strict=True)]
        top = share(f"top_{TOP}", f"top-{TOP} accuracy", hits)
        return replace(outcomes, measures=(outcomes.measures[0], top, *outcomes.measures[1:]))

    def scoring_memory(self, work: Work, model: Any, activations: float) -> int:
        """Bytes of pictures scored together, or of scikit-learn if larger (used afterwards, for a test set)."""
        batch = round(work.at_once * activations)
        return max(round(0.7 * batch), library_memory(work.split_names))  # measured: 0.5 to 0.9 of a training batch


# A new run ------------------------------------------------------------------------------------------------------------


def form_of(work: Work) -> None:
    """Decide the form of the pictures: by the run that this one starts from, the configuration, or the pictures."""
    parent, config, splits = work.parent, work.config, cast(PictureSplits, work.splits)
    theirs = parent.task.input.form if parent is not None and parent.task.config.task == config.task else None
    sizing = sizing_of(config.data, splits.examples["train"], splits.pixels, theirs)
    if theirs is None and config.data.size == "auto":
        sizing = _fitting(work, sizing)
    input = _plain(work, sizing)
    if theirs is not None and len(theirs.normalisation.mean) == sizing.channels:
        normalisation = theirs.normalisation
    else:
        normalisation = input.encode(splits.examples["train"]).normalisation()
    work.input = replace(input, form=PictureForm(sizing, normalisation))
    work.fit()


def _plain(work: Work, sizing: Sizing) -> PictureInput:
    """The input for pictures of a size whose mean and deviation are not known."""
    plain = Normalisation((0.5,) * sizing.channels, (0.25,) * sizing.channels)
    input, splits = cast(PictureInput, work.input), cast(PictureSplits, work.splits)
    return input.of(PictureForm(sizing, plain), work.config.data, splits)


def _fitting(work: Work, sizing: Sizing) -> Sizing:
    """The largest size of pictures of which enough updates fit into the time budget, which becomes explicit.

    A remark says so where it is smaller. The sizing stays as it is for a budget of updates or passes.
    """
    training = work.config.training
    sizes = {
        f"{width} x {height}": replace(sizing, height=height, width=width)
        for height, width in smaller_sizes(sizing.height, sizing.width)
    }
    if training.steps is not None or training.epochs is not None or len(sizes) == 1:
        return sizing
    if training.minutes is None:
        if math.prod(sizing.shape) * len(work.splits.examples["train"]) <= FEW:
            return sizing
        work.config = work.config.settle(_MANY, {"training.minutes": _MINUTES})
    seconds = 60.0 * work.config.training.minutes

    def measure(size: str) -> tuple[float, float]:
        trial = Work(work.task, work.config, _plain(work, sizes[size]), work.head, work.splits)
        trial.encoded("train").skip_reading()  # type: ignore[attr-defined]
        return seconds_of(trial, 0.5 * seconds * work.enough_updates / _SIZED_BY)

    choice = choose_size([*sizes], (1.0,), measure, lambda _, __, updates: updates >= _SIZED_BY, seconds)
    if choice.larger:
        largest, updates = next(iter(choice.larger.items()))
        work.splits.remarks.append(
            f"pictures of {choice.size} pixels: about {choice.updates:,} updates fit into the time budget, of "
            f"{largest} only {updates:,} (data.size=[{sizing.height},{sizing.width}] keeps these)"
        )
    return sizes[choice.size]


def defaults(settled: Any, work: Work) -> Any:
    """The configuration with defaults that suit the pictures and the model, for fields that the user did not set."""
    if work.is_imported:
        return settled
    training, small = settled.training, cast(PictureInput, work.input).is_small(work)
    is_wide = settled.model.settings.get("d_model", 0) > _WIDTH
    if settled.model.from_ is not None:
        settled = with_rate(settled, _FINE_RATE, "fine-tuning")
    else:
        settled = with_rate(settled, *((_FEW_RATE, _SMALL) if small and not is_wide else (_RATE, "pictures")))
    if training.minutes is None and training.steps is None and training.epochs is None:
        if small:
            updates = math.ceil(len(work.train_batches(0)) / training.accumulate) * _EPOCHS
            often = math.ceil(_VALIDATED * updates)
            settled = settled.settle_open(_SMALL, {"training.epochs": _EPOCHS, "training.validate_every": often})
        else:
            why = _MANY if settled.model.from_ is None else "fine-tuning"
            settled = settled.settle_open(why, {"training.minutes": _MINUTES})
    return _with_changes(settled, work)


def _with_changes(config: Any, work: Work) -> Any:
    """The configuration with augmentations that suit few pictures, for fields not set; a remark names them.

    Shifting any picture by some pixels keeps its class; mirroring does not if it shows characters or directions. A
    model of patches is not trained on shifts: with the updates of the gallery's `vit`, it scored 81 % on the digits
    with them and 96.5 % without.
    """
    if len(work.splits.examples["train"]) > _FEW_PHOTOS:
        return config
    pixels = max(1, min(cast(PictureInput, work.input).form.sizing.shape[:2]) // 8)
    is_number = isinstance(work.head, Number)
    sided = next((label for label in cast(Labels, work.head).labels if _SIDED.fullmatch(label)), None)
    fields: dict[str, Any] = {"augment.flip": sided is None and not is_number}
    if "patch_size" not in work.body_class.config_class.model_fields:
        fields |= {"augment.crop": pixels}
    fields = {name: value for name, value in fields.items() if not config.has(name)}
    changes = []
    if "augment.crop" in fields:
        changes.append(f"each is shifted by up to {counted(pixels, 'pixel')} (augment.crop=0 switches that off)")
    if fields.get("augment.flip"):
        changes.append("half of them are mirrored (augment.flip=false switches that off)")
    elif "augment.flip" in fields:
        why = f"since labels such as '{sided}' may be characters or directions"
        why = "since the number may depend on a direction" if is_number else why
        changes.append(f"none is mirrored, {why} (augment.flip=true mirrors them)")
    if changes:
        work.splits.remarks.append(f"few training pictures: in each pass {', '.join(changes)}")
    return config.settle("few training pictures", fields)


@dataclass(frozen=True)
class Interpolated:
    """Tensors of a parent that were interpolated for pictures of another size, each `(rows, d)`."""

    old: tuple[int, int]  # height and width of the parent's pictures
    new: tuple[int, int]
    rows: Mapping[str, tuple[int, int]]  # by name: number of rows before and after

    def __str__(self) -> str:
        (height, width), (new_height, new_width) = self.old, self.new
        rows = "; ".join(f"{name}: {old} rows to {new}" for name, (old, new) in self.rows.items())
        return f"interpolated from pictures of {width} x {height} pixels to {new_width} x {new_height}: {rows}"

    def as_report(self) -> dict[str, Any]:
        """The same for `report.json`."""
        return {"from": list(self.old), "to": list(self.new), "rows": {n: list(rows) for n, rows in self.rows.items()}}


def taken_from(
    work: Work, parent: Parent, tensors: Mapping[str, Tensor], prefix: str, parent_tensors: dict[str, Tensor]
) -> None:
    """Interpolate positions of patches if the picture size differs (`ImageEncoder.adapted`).

    Tensors of a different model are unchanged. Args as `Task.taken_from`.
    """
    body: Any = work.body_class
    if parent.task.body_class is not body:
        return
    old: Any = parent.task.model_and_head()[0]
    new: Any = work.model_and_head()[0]
    inside = {name.removeprefix(_BODY): tensor for name, tensor in parent_tensors.items() if name.startswith(_BODY)}
    adapted = {_BODY + name: tensor for name, tensor in body.adapted(inside, old, new).items()}
    sizes = (old.height, old.width), (new.height, new.width)
    rows = {
        name: (len(parent_tensors[name]), len(tensor))
        for name, tensor in adapted.items()
        if tensor.shape != parent_tensors[name].shape and sizes[0] != sizes[1]
    }
    if rows:
        work.started["interpolated"] = Interpolated(*sizes, rows)
    parent_tensors |= adapted


def uses(run: Run) -> Sequence[str]:
    """Commands for a run."""
    return spec_of("images").uses if isinstance(run.head, Number) or run.head.labels else _USES  # type: ignore[attr-defined]


TASK = Task(
    "images",
    input=PictureInput(),
    head=LabelsOrNumber("pictures", labels=PictureLabels(), number=Number("pictures")),
    config=ImagesConfig,
    looks=Looks(look=look, attribute=attribute_places),
    baselines=baselines,
    measured=form_of,
    defaults=defaults,
    enough_updates=300,
    outputs=PictureOutputs,
    taken_from=taken_from,
    samples_page=samples_page,
    errors_page=errors_page,
    uses=uses,
    examiner=lambda: ImagesExaminer,
)
