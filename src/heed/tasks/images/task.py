"""Images: pictures with one label each, an image model with one linear layer, the loss over the labels.

The default number of passes over few small pictures was measured: scikit-learn's digits, 99.1 % of the test pictures
over three seeds, in 11 s of one thread; choosing weights from early validations of 100 pictures gave 98.3 %.
"""

from __future__ import annotations

import math
import re
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property, partial
from pathlib import Path
from typing import Any, ClassVar, Self, cast

import torch
from torch import Tensor, nn

from heed.config import TokenizerConfig
from heed.config.settling import with_rate
from heed.data.batch import Plan, plan_even
from heed.data.examples import Picture
from heed.data.findings import Findings
from heed.data.kinds.pictures import hold_pictures
from heed.data.pictures.sizing import Augment, Normalisation, PictureForm, Sizing, smaller_sizes
from heed.data.pictures.store import PictureBatch, PictureStore
from heed.errors import ConfigError
from heed.models.base import ImageConfig, ImageEncoder
from heed.shapes import ReturnsTensor
from heed.tasks.base.labels import (
    LabelHead,
    check_labels,
    check_weights,
    library_memory,
    load_labels,
    number_of,
    save_labels,
)
from heed.tasks.base.report import counted
from heed.tasks.base.sizing import seconds_of
from heed.tasks.base.task import Task
from heed.tasks.base.transfer import Parent, Started, with_parents
from heed.tasks.images.config import ImagesConfig, ImagesHead
from heed.tasks.images.pictures import (
    PictureAccess,
    PictureSplits,
    counts_of,
    open_picture_splits,
    ordered_classes,
    overview_of,
    remarks_on,
    samples_page,
    sizing_of,
)
from heed.threads import threads_for
from heed.training.plan import choose_size
from heed.training.processes import current

_BODY = "body."
"""Prefix of the names of a body's tensors."""


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


_SIZED_BY = 1_000
"""Updates that must fit into the time budget before pictures are read as large as they are."""
_MINUTES, _EPOCHS = 2.0, 30
"""Minutes of a run; for few small pictures passes instead, so that runs are bit-identical."""
_FEW = 2_000_000
"""Largest number of values in the training pictures for "few and small"; scikit-learn's digits have 83,000."""
_SMALL, _MANY = "few small pictures", "many or large pictures"
_GRID, _LARGEST_GRID = 8, 14
"""Patches along a side: target and maximum."""
_LARGEST_PATCH = 16
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
_SCORED = 4  # batch size of scoring, as a multiple of that of training


class Output(ReturnsTensor, nn.Linear):
    """A linear layer that may have no outputs, for imported models without a classifier."""

    def reset_parameters(self) -> None:
        if self.out_features:
            super().reset_parameters()


class PictureClassifier(ReturnsTensor, nn.Module):
    """An image model with `logits = V z + b`; two classes may share one output, the logit of the second."""

    def __init__(self, body: ImageEncoder, num_outputs: int) -> None:
        super().__init__()
        self.body = body
        self.output = Output(body.d_output, num_outputs)

    def forward(self, pixels: Tensor) -> Tensor:
        """Normalised pictures `(batch, channels, height, width)` to logits `(batch, num_outputs)`."""
        return self.output(self.body(pixels))


class Images(Task[ImagesConfig, Picture], LabelHead):
    """The images task: pictures, model, loss and scores."""

    targets = "pictures"
    batch_field = "batch_size"
    enough_updates = 300
    same_shapes = True
    interfaces = ("image_encoder",)
    head_class = ImagesHead
    size_fields: ClassVar = {"channels": "num_channels", "height": "height", "width": "width"}
    units: ClassVar = {"height": "pixels from top to bottom", "width": "pixels from left to right"}
    interpolated: Interpolated | None = None

    def __init__(
        self, config: ImagesConfig, form: PictureForm, labels: Sequence[str], splits: PictureSplits | None
    ) -> None:
        super().__init__(config, splits)
        self.form = form
        self.labels = list(labels)
        self._number = {label: i for i, label in enumerate(self.labels)}
        self.access = PictureAccess(config.data, form.sizing)
        self.is_open = False

    # Data -----------------------------------------------------------------------------------------------------

    @classmethod
    def prepare(cls, config: ImagesConfig, given: Mapping[str, Sequence[Picture]] | None = None) -> Self:
        """Read the pictures, or take the `given` ones; settle their size and the fields that depend on the data.

        Raises:
            ConfigError, DataError: The configuration or the data cannot be used.
        """
        if config.tokenizer != TokenizerConfig():
            raise ConfigError(f"the tokenizer section does not apply to {config.task}, whose data is pictures")
        config, parent, _ = with_parents(config, cls)
        splits = cast(PictureSplits, cls.read_splits(config, given))
        train = splits.examples["train"]
        # With training.train_size, the labels are those of the whole training set.
        known = [*train, *splits.left_out, *([] if isinstance(config.data.valid, list) else splits.examples["valid"])]
        labels = ordered_classes(config.data, {picture.label for picture in known})
        check_labels(labels)
        check_weights(config.data.class_weights, labels, "picture")
        theirs = parent.task.form if parent is not None and isinstance(parent.task, Images) else None
        sizing = sizing_of(config.data, train, splits.pixels, theirs)
        if theirs is None and config.data.size == "auto":
            config, sizing = cls._fitting(config, sizing, labels, splits)
        store = PictureStore(splits.pixels, [picture.place for picture in train], sizing, config.data.in_memory)
        same = theirs is not None and len(theirs.normalisation.mean) == sizing.channels
        form = PictureForm(sizing, theirs.normalisation if theirs is not None and same else store.normalisation())
        task = cls(config, form, labels, splits)
        task.access.keep("train", store)
        task.settle(parent)
        for split in task.split_names:
            task.targets_of(task.splits.examples[split])  # refuses labels missing from the training set
        task.splits.remarks += remarks_on(task)
        return task

    @classmethod
    def _fitting(
        cls, config: ImagesConfig, sizing: Sizing, labels: Sequence[str], splits: PictureSplits
    ) -> tuple[ImagesConfig, Sizing]:
        """The largest size of pictures of which enough updates fit into the time budget, which becomes explicit.

        A remark says so where it is smaller. The sizing stays as it is for a budget of updates or passes.
        """
        training = config.training
        sizes = {
            f"{width} x {height}": replace(sizing, height=height, width=width)
            for height, width in smaller_sizes(sizing.height, sizing.width)
        }
        if training.steps is not None or training.epochs is not None or len(sizes) == 1:
            return config, sizing
        if training.minutes is None:
            if math.prod(sizing.shape) * len(splits.examples["train"]) <= _FEW:
                return config, sizing
            config = config.settle(_MANY, {"training.minutes": _MINUTES})
        seconds = 60.0 * (config.training.minutes or 0.0)

        def measure(size: str) -> tuple[float, float]:
            plain = Normalisation((0.5,) * sizing.channels, (0.25,) * sizing.channels)
            task = cls(config, PictureForm(sizes[size], plain), labels, splits)
            task.sized("train").skip_reading()
            return seconds_of(task, 0.5 * seconds * cls.enough_updates / _SIZED_BY)

        choice = choose_size([*sizes], (1.0,), measure, lambda _, __, updates: updates >= _SIZED_BY, seconds)
        if choice.larger:
            most, updates = next(iter(choice.larger.items()))
            splits.remarks.append(
                f"pictures of {choice.size} pixels: about {choice.updates:,} updates fit into the time budget, of "
                f"{most} only {updates:,} (data.size=[{sizing.height},{sizing.width}] keeps these)"
            )
        return config, sizes[choice.size]

    @classmethod
    def restore(cls, config: ImagesConfig, folder: Path) -> Self:
        return cls(config, PictureForm.load(folder), load_labels(folder), None)

    def save(self, folder: Path) -> None:
        self.form.save(folder)
        save_labels(folder, self.labels)

    @classmethod
    def open_splits(cls, config: ImagesConfig, given: Mapping[str, Sequence[Picture]] | None = None) -> PictureSplits:
        return open_picture_splits(config.data, given)

    @classmethod
    def hold(cls, data: Any, split: str, config: Any, findings: Findings) -> Sequence[Picture]:
        return hold_pictures(data, split, config.data, findings)

    @property
    def splits(self) -> PictureSplits:
        splits = super().splits
        assert isinstance(splits, PictureSplits)
        if not self.is_open:
            self.is_open = True
            self.access.open(splits)
        return splits

    def sized(self, split: str) -> PictureStore:
        """The sized pictures of a split."""
        assert split in self.splits.examples  # opens the splits
        return self.access.split(split)

    def targets_of(self, pictures: Sequence[Picture]) -> list[int]:
        """The number of each picture's label; DataError for a label missing from the training set."""
        known = self._number
        return [known[p.label] if p.label in known else number_of(p.label, self.labels, p.origin) for p in pictures]

    def label_counts(self, split: str) -> dict[str, int]:
        """How often each label occurs in a split."""
        return dict.fromkeys(self.labels, 0) | Counter(picture.label for picture in self.splits.examples[split])

    def overview(self) -> str:
        return overview_of(self)

    def samples_page(self) -> str:
        """A page of training pictures: originals, model inputs and augmented versions."""
        return samples_page(self, f"Pictures of {self.config.data.name}")

    def report_counts(self) -> dict[str, Any]:
        return counts_of(self)

    # Model ----------------------------------------------------------------------------------------------------

    @property
    def is_small(self) -> bool:
        """True if the pictures are few and small and the model is not large, so that passes are fast."""
        section, count = self.config.model, len(self.splits.examples["train"])
        numbers = count * math.prod(self.form.sizing.shape)
        return numbers <= _FEW and section.size in ("auto", "tiny", "small") and section.from_ is None

    @property
    def places(self) -> int:
        return self.form.sizing.height * self.form.sizing.width

    @property
    def auto_size(self) -> str:
        """The named size: tiny for few large training pictures, otherwise small; base for imported models."""
        if self.is_imported:
            return "base"
        return "tiny" if not self.is_small and len(self.splits.examples["train"]) <= 3_000 else "small"

    @property
    def selected_by(self) -> str:
        return "accuracy"

    def count_of(self, kind: str) -> int:
        return int(getattr(self.form.sizing, kind))

    def fields_from_data(self, given: dict[str, Any]) -> dict[str, Any]:
        """The default patch size, if the model has patches and no size is given.

        Among the sizes that divide the picture, that with the grid closest to 8 x 8; none for sizes of the paper.
        """
        size = self.auto_size if self.config.model.size == "auto" else self.config.model.size
        own = self.body_class.config_class.model_fields
        if "patch_size" not in own or "patch_size" in given or size in ("medium", "base", "large"):
            return {}
        height, width = given["height"], given["width"]
        fitting = [p for p in range(2, _LARGEST_PATCH + 1) if height % p == 0 and width % p == 0]
        small = [p for p in fitting if max(height, width) // p <= _LARGEST_GRID] or fitting
        if not small:
            return {}  # the model reports the sizes that fit
        return {"patch_size": min(small, key=lambda p: (abs(max(height, width) / p - _GRID), p))}

    def head_fields(self, head: ImagesHead, given: dict[str, Any]) -> dict[str, Any]:
        """The fields of the head.

        Raises:
            ConfigError: The head is sigmoid and the number of classes is not two.
        """
        if head.head == "sigmoid" and len(self.labels) != 2:
            raise ConfigError(
                f"model.head sigmoid has one output for two classes, but there are {len(self.labels)} "
                f"({', '.join(self.labels)}); use softmax"
            )
        return dict(head.model_dump())

    def follows_from_data(self) -> tuple[str, ...]:
        return (*super().follows_from_data(), "head")

    def settled(self) -> ImagesConfig:
        """The settled configuration, with defaults that suit the pictures and the model for fields not given."""
        settled = super().settled()
        if self.is_imported:
            return settled
        training, small = settled.training, self.is_small
        is_wide = (settled.model.model_extra or {}).get("d_model", 0) > _WIDTH
        if settled.model.from_ is not None:
            settled = with_rate(settled, _FINE_RATE, "fine-tuning")
        else:
            settled = with_rate(settled, *((_FEW_RATE, _SMALL) if small and not is_wide else (_RATE, "pictures")))
        if training.minutes is None and training.steps is None and training.epochs is None:
            if small:
                updates = math.ceil(len(self.train_batches(0)) / training.accumulate) * _EPOCHS
                often = math.ceil(_VALIDATED * updates)
                settled = settled.settle_open(_SMALL, {"training.epochs": _EPOCHS, "training.validate_every": often})
            else:
                settled = settled.settle_open(_MANY, {"training.minutes": _MINUTES})
        return self._with_changes(settled)

    def _with_changes(self, config: ImagesConfig) -> ImagesConfig:
        """The configuration with the changes of pictures that suit few of them, unless given; a remark names them.

        Shifting any picture by some pixels keeps its class; mirroring does not if it shows characters or directions. A
        model of patches is not trained on shifts: with the updates of the gallery's `vit`, it scored 81 % on the digits
        with them and 96.5 % without.
        """
        if len(self.splits.examples["train"]) > _FEW_PHOTOS:
            return config
        pixels = max(1, min(self.form.sizing.shape[:2]) // 8)
        sided = next((label for label in self.labels if _SIDED.fullmatch(label)), None)
        fields: dict[str, Any] = {"augment.flip": sided is None}
        if "patch_size" not in self.body_class.config_class.model_fields:
            fields |= {"augment.crop": pixels}
        fields = {name: value for name, value in fields.items() if not config.has(name)}
        said = []
        if "augment.crop" in fields:
            said.append(f"each is shifted by up to {counted(pixels, 'pixel')} (augment.crop=0 switches that off)")
        if fields.get("augment.flip"):
            said.append("half of them are mirrored (augment.flip=false switches that off)")
        elif "augment.flip" in fields:
            why = f"since labels such as '{sided}' may be characters or directions"
            said.append(f"none is mirrored, {why} (augment.flip=true mirrors them)")
        if said:
            self.splits.remarks.append(f"few training pictures: in each pass {', '.join(said)}")
        return config.settle("few training pictures", fields)

    def taken_from(self, parent: Parent, own: Mapping[str, Tensor], prefix: str, given: dict[str, Tensor]) -> None:
        """Interpolate positions of patches if the picture size differs (`ImageEncoder.adapted`).

        Tensors of a different model are unchanged. Args as `Transfers.taken_from`.
        """
        body: Any = self.body_class
        if parent.task.body_class is not body:
            return
        old, new = parent.task.model_and_head()[0], cast(ImageConfig, self.model_and_head()[0])
        inside = {name.removeprefix(_BODY): tensor for name, tensor in given.items() if name.startswith(_BODY)}
        adapted = {_BODY + name: tensor for name, tensor in body.adapted(inside, old, new).items()}
        sizes = (old.height, old.width), (new.height, new.width)
        rows = {
            name: (len(given[name]), len(tensor))
            for name, tensor in adapted.items()
            if tensor.shape != given[name].shape and sizes[0] != sizes[1]
        }
        self.interpolated = Interpolated(*sizes, rows) if rows else None
        given |= adapted

    def start(self, model: Any) -> dict[str, Started]:
        started = super().start(model)
        return started if self.interpolated is None else {**started, "interpolated": self.interpolated}

    def build_model(self) -> PictureClassifier:
        config, _ = self.model_and_head()
        body = self.body_class(config)
        assert isinstance(body, ImageEncoder)
        return PictureClassifier(body, len(self.row_names("labels")))

    def axes(self) -> dict[str, list[str]]:
        return {"labels": self.label_rows()}

    # What the training loop needs -----------------------------------------------------------------------------

    def train_batches(self, epoch: int) -> Plan:
        training = self.config.training
        return plan_even(len(self.splits.examples["train"]), training.batch_size, training.seed, epoch)

    def collate(self, indices: list[int], epoch: int = 0) -> PictureBatch:
        change = partial(self.augment.pictures, epoch=epoch) if self.config.augment.changes_pictures else None
        pictures = self.sized("train").take(indices, change)
        return PictureBatch(indices, self.form.normalisation.tensor(pictures), self._train_targets[indices])

    @cached_property
    def augment(self) -> Augment:
        """The augmentation of training pictures."""
        return Augment(self.config.augment, self.config.training.seed)

    @cached_property
    def _train_targets(self) -> Tensor:
        return torch.tensor(self.targets_of(self.splits.examples["train"]))

    def loss(self, model: PictureClassifier, batch: PictureBatch, label_smoothing: float) -> Tensor:
        return self.label_loss(model(batch.pixels), batch.targets, label_smoothing)

    def work(self, indices: list[int]) -> int:
        return len(indices)

    def describe(self, indices: list[int], epoch: int) -> str:
        return f"{len(indices)} pictures, the first {self.splits.examples['train'][indices[0]].origin}"

    def validate(self, model: PictureClassifier) -> dict[str, float]:
        store, examples = self.sized("valid"), self.splits.examples["valid"]
        places = self.validated_part(range(len(examples)))
        logits = torch.stack(current().map(lambda part: list(self.logits(model, store, part)), places))
        return self.label_scores(logits, torch.tensor(self.targets_of([examples[place] for place in places])))

    def scoring_memory(self, model: PictureClassifier, activations: float) -> int:
        """Bytes of pictures scored together, or of scikit-learn if larger (used afterwards, for a test set)."""
        held = 0.7 * _SCORED * self.config.training.batch_size  # measured: 0.5 to 0.9 of what training keeps
        return max(round(held * activations), library_memory(self.split_names))

    # Using a model --------------------------------------------------------------------------------------------

    @torch.no_grad()
    def logits(self, model: PictureClassifier, sized: Any, places: Sequence[int] | None = None) -> Tensor:
        """Outputs of the last layer for sized pictures (an array or a store; all, or those at `places`), on the CPU.

        `(pictures, num_outputs)`.
        """
        device, made = next(model.eval().parameters()).device, []
        at, step = range(len(sized)) if places is None else places, _SCORED * self.config.training.batch_size
        for start in range(0, len(at), step):
            chosen = at[start : start + step]
            part = sized.take(chosen) if isinstance(sized, PictureStore) else sized[list(chosen)]
            with threads_for(model, len(chosen)):
                made.append(model(self.form.tensor(part).to(device)).float().cpu())
        return torch.cat(made) if made else torch.zeros(0, model.output.out_features)
