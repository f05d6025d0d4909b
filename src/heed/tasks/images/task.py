"""Images: pictures with one label each, an image model with one linear layer, the loss over the labels."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from functools import cached_property
from pathlib import Path
from typing import Any, ClassVar, Self, cast

import torch
from torch import Tensor

from heed.config import TokenizerConfig
from heed.data.batch.pictures import PictureBatch, collate_pictures, updates_together
from heed.data.batch.plan import Plan, plan_even
from heed.data.examples import Picture
from heed.data.pictures.augment.augment import Augment
from heed.data.pictures.store import PictureStore
from heed.data.pictures.stored import PictureForm
from heed.data.read.findings import Findings
from heed.data.read.picture_memory import hold_pictures
from heed.errors import ConfigError
from heed.evaluation.labels import f1_measures
from heed.evaluation.measures import values_of
from heed.models.base import ImageEncoder
from heed.tasks.base.class_weights import check_weights, class_weights
from heed.tasks.base.label_loss import label_loss
from heed.tasks.base.labels import (
    LabelPrediction,
    check_labels,
    load_labels,
    most_probable,
    number_of,
    one_hot,
    save_labels,
)
from heed.tasks.base.scoring import library_memory
from heed.tasks.base.task import Task
from heed.tasks.base.transfer import with_parents
from heed.tasks.images import defaults
from heed.tasks.images.access import PictureAccess
from heed.tasks.images.config import ImagesConfig, ImagesHead
from heed.tasks.images.model import PictureClassifier, check_head
from heed.tasks.images.overview import counts_of, overview_of, remarks_on
from heed.tasks.images.page import samples_page
from heed.tasks.images.pictures import PictureSplits, form_of, open_picture_splits, ordered_classes
from heed.tasks.images.starting import InterpolatesPositions
from heed.threads import threads_for
from heed.training.processes import current

_SCORED = 4  # batch size of scoring, as a multiple of that of training


class Images(InterpolatesPositions, Task[ImagesConfig, Picture]):
    """The images task: pictures, model, loss and scores."""

    targets = "pictures"
    interfaces = ("image_encoder",)
    head_class = ImagesHead
    size_fields: ClassVar = {"channels": "num_channels", "height": "height", "width": "width"}
    units: ClassVar = {"height": "pixels from top to bottom", "width": "pixels from left to right"}

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
        form, store = form_of(config.data, train, splits.pixels, theirs)
        task = cls(config, form, labels, splits)
        task.access.keep("train", store)
        task.settle(parent)
        for split in task.split_names:
            task.targets_of(task.splits.examples[split])  # refuses labels missing from the training set
        task.splits.remarks += remarks_on(task)
        return task

    @classmethod
    def restore(cls, config: ImagesConfig, folder: Path) -> Self:
        """The task of a run folder; its data is opened on first use."""
        return cls(config, PictureForm.load(folder), load_labels(folder), None)

    def save(self, folder: Path) -> None:
        """Write the form of pictures and the label names into a run folder."""
        self.form.save(folder)
        save_labels(folder, self.labels)

    @classmethod
    def open_splits(cls, config: ImagesConfig, given: Mapping[str, Sequence[Picture]] | None = None) -> PictureSplits:
        """Read or generate the pictures, or take the `given` ones."""
        return open_picture_splits(config.data, given)

    @classmethod
    def hold(cls, data: Any, split: str, config: Any, findings: Findings) -> Sequence[Picture]:
        """Pictures with labels: (picture, label) tuples, (pictures, labels), or columns of a data frame."""
        return hold_pictures(data, split, config.data, findings)

    @property
    def splits(self) -> PictureSplits:
        """The pictures; read on first use."""
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
        """Counts, findings in the files, sizes, mean and deviation of each channel, labels, samples."""
        return overview_of(self)

    def samples_page(self) -> str:
        """A page of training pictures: originals, model inputs and augmented versions."""
        return samples_page(self, f"Pictures of {self.config.data.name}")

    def report_counts(self) -> dict[str, Any]:
        """Per split: counts of pictures, of those left out by each rule, and of labels."""
        return counts_of(self)

    # Model ----------------------------------------------------------------------------------------------------

    @property
    def auto_size(self) -> str:
        """The named size, by the number and size of the training pictures."""
        return defaults.size_for(self)

    @property
    def selected_by(self) -> str:
        """Accuracy, or the loss if there are few validation pictures."""
        return defaults.selected_by(self)

    def count_of(self, kind: str) -> int:
        """The number of channels, or of pixels of a side."""
        return int(getattr(self.form.sizing, kind))

    def fields_from_data(self, given: dict[str, Any]) -> dict[str, Any]:
        """The size of patches, if the model has patches."""
        size = self.config.model.size
        return defaults.patch_fields(self.body_class, self.auto_size if size == "auto" else size, given)

    def head_fields(self, head: ImagesHead, given: dict[str, Any]) -> dict[str, Any]:
        """The head's fields; ConfigError for a sigmoid head without exactly two classes."""
        check_head(head, self.labels)
        return dict(head.model_dump())

    def follows_from_data(self) -> tuple[str, ...]:
        """The fields of every task, and the head."""
        return (*super().follows_from_data(), "head")

    def settled(self) -> ImagesConfig:
        """As for every task; the budget and the augmentation depend on the number of pictures."""
        return defaults.with_training(self, super().settled())

    @property
    def sigmoid(self) -> bool:
        """True if two classes share one output."""
        return bool((self.config.model.model_extra or {})["head"] == "sigmoid")

    def build_model(self) -> PictureClassifier:
        """A new model, its weights drawn from torch's random state."""
        config, _ = self.model_and_head()
        body = self.body_class(config)
        assert isinstance(body, ImageEncoder)
        return PictureClassifier(body, len(self.axes()["labels"]))

    def axes(self) -> dict[str, list[str]]:
        """Labels; two classes with one output share one row."""
        return {"labels": [" against ".join(self.labels)] if self.sigmoid else self.labels}

    # What the training loop needs -----------------------------------------------------------------------------

    def train_batches(self, epoch: int) -> Plan:
        """The batches of one pass, as equal in size as possible."""
        training = self.config.training
        return plan_even(len(self.splits.examples["train"]), training.batch_size, training.seed, epoch)

    def collate(self, indices: list[int], epoch: int = 0) -> PictureBatch:
        """One batch, augmented."""
        return self.collate_all([indices], epoch)[0]

    def collate_all(self, batches: Sequence[list[int]], epoch: int) -> list[PictureBatch]:
        """Several batches; small pictures are augmented together."""
        given = self.sized("train"), self._train_targets, batches, self.form, self.augment
        return collate_pictures(*given, num_labels=len(self.labels), epoch=epoch)

    @property
    def updates_together(self) -> int:
        """Number of updates whose batches are built together."""
        training = self.config.training
        return updates_together(training.batch_size * training.accumulate, self.form.sizing.shape)

    @cached_property
    def augment(self) -> Augment:
        """The augmentation of training pictures."""
        return Augment(self.config.augment, self.config.training.seed)

    @cached_property
    def _train_targets(self) -> Tensor:
        return torch.tensor(self.targets_of(self.splits.examples["train"]))

    def loss(self, model: PictureClassifier, batch: PictureBatch, label_smoothing: float) -> Tensor:
        """Sum over the pictures of the cross-entropy in nats."""
        logits = model(batch.pixels)
        weights = None if self.class_weights is None else torch.tensor(self.class_weights, device=logits.device)
        return label_loss(logits, batch.targets, self.sigmoid, label_smoothing, weights)

    @cached_property
    def class_weights(self) -> list[float] | None:
        """The weight of each class, or None if all count equally."""
        total = len(self.splits.examples["train"])
        return class_weights(self.config.data.class_weights, self.labels, self.label_counts("train"), total)

    def work(self, indices: list[int]) -> int:
        """The number of pictures of a batch."""
        return len(indices)

    def describe(self, indices: list[int]) -> str:
        """Name the first of some training pictures."""
        return f"{len(indices)} pictures, the first {self.splits.examples['train'][indices[0]].origin}"

    def validate(self, model: PictureClassifier) -> dict[str, float]:
        """Loss in nats per picture (unweighted), accuracy, macro and micro F1 on the validation set."""
        store, places = self.sized("valid"), range(len(self.splits.examples["valid"]))
        logits = torch.stack(current().map(lambda part: list(self.logits(model, store, part)), places))
        true, count = self.targets_of(self.splits.examples["valid"]), len(self.labels)
        loss = float(label_loss(logits, torch.tensor(true), self.sigmoid)) / len(true)
        predicted = one_hot(self.probabilities(logits).argmax(-1).numpy(), count)
        return {"loss": loss, **values_of(f1_measures(one_hot(true, count), predicted))}

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

    def probabilities(self, logits: Tensor) -> Tensor:
        """Probability of each label, `(pictures, num_labels)`."""
        if not self.sigmoid:
            return torch.softmax(logits, dim=-1)
        second = torch.sigmoid(logits)
        return torch.cat([1 - second, second], dim=-1)

    def prediction(self, probabilities: Tensor) -> LabelPrediction:
        """The prediction for one picture from its probabilities `(num_labels,)`."""
        return most_probable(self.labels, probabilities.tolist())
