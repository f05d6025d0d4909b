"""Images: pictures with one label or number each, an image model with one linear layer, the loss over the labels.

The default number of passes over few small pictures was measured: scikit-learn's digits, 99.1 % of the test pictures
over three seeds, in 11 s of one thread; choosing weights from early validations of 100 pictures gave 98.3 %.
"""

from __future__ import annotations

import math
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, ClassVar, cast

import numpy as np
import torch
from torch import Tensor

from heed.config.settling import with_rate
from heed.data.kinds.pictures import class_names
from heed.data.pictures.sizing import Normalisation, PictureForm, Sizing, smaller_sizes
from heed.data.splits import Splits
from heed.evaluation.measures import Outcomes, share
from heed.tasks import spec_of
from heed.tasks.base.labels import LabelPrediction, library_memory
from heed.tasks.base.predictions import Prediction
from heed.tasks.base.report import counted
from heed.tasks.base.sizing import seconds_of
from heed.tasks.base.transfer import Parent
from heed.tasks.contracts import Batch, Input
from heed.tasks.heads.labels import Labels, check_sigmoid
from heed.tasks.heads.number import LabelsOrNumber, Number, NumberPrediction, mean_number, values_of_labels
from heed.tasks.images.config import ImagesHead
from heed.tasks.images.look import attribute_places, check_classes, look
from heed.tasks.images.pages import ImagesExaminer, PictureOutputs, errors_page, samples_page
from heed.tasks.inputs.pictures import FEW, Pictures, PictureSplits, sizing_of
from heed.tasks.run import Run
from heed.tasks.work import Baselines, Looks, Task, Work
from heed.training.plan import choose_size

_MOST_NUMBERS = 20_000_000
"""Largest number of values in the training pictures used, and of distances computed at a time: some seconds for ten
thousand pictures. Of very many training pictures, only every n-th is used."""


def baselines(run: Run) -> Baselines:
    """Nearest neighbour: the label or number of the training picture of least distance, at the size the model sees."""
    if (pictures := run.training_examples()) is None:
        return {}
    store: Any = run.input.encode(pictures)
    places = range(0, len(store), 1 + len(store) * math.prod(store.sizing.shape) // _MOST_NUMBERS)
    known = torch.from_numpy(np.concatenate([*store.parts(places)])).flatten(1).float()
    near, squares = [pictures[i] for i in places], known.square().sum(1)
    answers: list[Prediction] = [LabelPrediction(one.label, (one.label,), 0.0, {}) for one in near]
    if is_number := isinstance(run.head, Number):
        answers = [NumberPrediction(value) for value in values_of_labels(near).tolist()]

    def predict(examples: Sequence[Any]) -> list[Prediction]:
        asked: Any = run.input.encode(examples)
        nearest: list[int] = []
        for part in asked.parts():
            for rows in torch.from_numpy(part).flatten(1).float().split(max(1, _MOST_NUMBERS // len(known))):
                # |a - b|^2 without |a|^2, which is the same for all b; of equally near pictures the first
                nearest += torch.addmm(squares, rows, known.T, alpha=-2.0).argmin(1).tolist()
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
"""Number of most probable labels among which the true label counts as found."""


def most(prediction: LabelPrediction) -> set[str]:
    """The most probable labels of a prediction, counted by top-5 accuracy."""
    return {label for label, _ in prediction.ranked[:TOP]}


@dataclass(frozen=True)
class PictureLabels(Labels):
    """One label for each picture; none in a model imported without a classifier."""

    options: ClassVar = ImagesHead
    follows: ClassVar = ("head",)

    targets: str = "pictures"

    def known(self, config: Any, splits: Splits[Any]) -> list[str]:
        """The classes of a run in order: as in `data.classes`, otherwise by name, numbers by value."""
        return class_names(config.data) or super().known(config, splits)

    def settled(self, options: ImagesHead, given: dict[str, Any], work: Work) -> dict[str, Any]:
        check_sigmoid(self, options.head)
        return super().settled(options, given, work)

    def encode(self, examples: Sequence[Any], input: Input | None = None) -> Any:
        check_classes(self)
        return super().encode(examples, input)

    def decode(self, model: Any, states: Tensor, batch: Batch) -> Sequence[Tensor]:
        check_classes(self)
        return super().decode(model, states, batch)

    def outcomes(
        self, predictions: Sequence[LabelPrediction], examples: Sequence[Any], input: Input, others: Any = None
    ) -> Outcomes:
        """As for every head, with top-5 accuracy."""
        made = super().outcomes(predictions, examples, input, others)
        if len(self.labels if others is None else others[0]) <= TOP or not predictions[0].probabilities:
            return made
        found = [float(example.label in most(one)) for example, one in zip(examples, predictions, strict=True)]
        top = share(f"top_{TOP}", f"top-{TOP} accuracy", found)
        return replace(made, measures=(made.measures[0], top, *made.measures[1:]))

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
    own = _plain(work, sizing)
    if theirs is not None and len(theirs.normalisation.mean) == sizing.channels:
        normalisation = theirs.normalisation
    else:
        normalisation = own.encode(splits.examples["train"]).normalisation()
    work.input = replace(own, form=PictureForm(sizing, normalisation))
    work.fit()


def _plain(work: Work, sizing: Sizing) -> Pictures:
    """The input for pictures of a size whose mean and deviation are not known."""
    plain = Normalisation((0.5,) * sizing.channels, (0.25,) * sizing.channels)
    return cast(Pictures, work.input).of(PictureForm(sizing, plain), work.config.data, cast(PictureSplits, work.splits))


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
    """With what suits the pictures and the model for fields not given."""
    if work.is_imported:
        return settled
    training, small = settled.training, cast(Pictures, work.input).is_small(work)
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
    """The configuration with the changes of pictures that suit few of them, unless given; a remark names them.

    Shifting any picture by some pixels keeps its class; mirroring does not if it shows characters or directions. A
    model of patches is not trained on shifts: with the updates of the gallery's `vit`, it scored 81 % on the digits
    with them and 96.5 % without.
    """
    if len(work.splits.examples["train"]) > _FEW_PHOTOS:
        return config
    pixels = max(1, min(cast(Pictures, work.input).form.sizing.shape[:2]) // 8)
    is_number = isinstance(work.head, Number)
    sided = next((label for label in cast(Labels, work.head).labels if _SIDED.fullmatch(label)), None)
    fields: dict[str, Any] = {"augment.flip": sided is None and not is_number}
    if "patch_size" not in work.body_class.config_class.model_fields:
        fields |= {"augment.crop": pixels}
    fields = {name: value for name, value in fields.items() if not config.has(name)}
    said = []
    if "augment.crop" in fields:
        said.append(f"each is shifted by up to {counted(pixels, 'pixel')} (augment.crop=0 switches that off)")
    if fields.get("augment.flip"):
        said.append("half of them are mirrored (augment.flip=false switches that off)")
    elif "augment.flip" in fields:
        why = f"since labels such as '{sided}' may be characters or directions"
        why = "since the number may depend on a direction" if is_number else why
        said.append(f"none is mirrored, {why} (augment.flip=true mirrors them)")
    if said:
        work.splits.remarks.append(f"few training pictures: in each pass {', '.join(said)}")
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


def taken_from(work: Work, parent: Parent, own: Mapping[str, Tensor], prefix: str, given: dict[str, Tensor]) -> None:
    """Interpolate positions of patches if the picture size differs (`ImageEncoder.adapted`).

    Tensors of a different model are unchanged. Args as `Task.taken_from`.
    """
    body: Any = work.body_class
    if parent.task.body_class is not body:
        return
    old: Any = parent.task.model_and_head()[0]
    new: Any = work.model_and_head()[0]
    inside = {name.removeprefix(_BODY): tensor for name, tensor in given.items() if name.startswith(_BODY)}
    adapted = {_BODY + name: tensor for name, tensor in body.adapted(inside, old, new).items()}
    sizes = (old.height, old.width), (new.height, new.width)
    rows = {
        name: (len(given[name]), len(tensor))
        for name, tensor in adapted.items()
        if tensor.shape != given[name].shape and sizes[0] != sizes[1]
    }
    if rows:
        work.started["interpolated"] = Interpolated(*sizes, rows)
    given |= adapted


def uses(run: Run) -> Sequence[str]:
    """Commands for a run."""
    return spec_of("images").uses if isinstance(run.head, Number) or run.head.labels else _USES  # type: ignore[attr-defined]


TASK = Task(
    "images",
    input=Pictures(),
    head=LabelsOrNumber("pictures", labels=PictureLabels(), number=Number("pictures")),
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
