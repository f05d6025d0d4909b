"""Labels of rows of numbers: a row encoder and a linear layer over the classes, or to one number (regression).

loss: cross-entropy of the class; or squared error of the number, standardised by the training rows
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from functools import cached_property
from pathlib import Path
from typing import Any, Self, cast

import numpy as np
import torch
from torch import Tensor, nn

from heed.data.batch import plan_pass
from heed.data.corpus import hashes_in
from heed.data.examples import label_order
from heed.data.findings import Findings
from heed.data.kinds.features import Feature, Features, Standard, constant_lines, load, save
from heed.data.kinds.numbers import Row, Rows, hold_rows, iter_rows, read_rows
from heed.data.splits import Splits, default_held_out, hold_out
from heed.errors import ConfigError, DataError
from heed.evaluation.forecasts import number_measures
from heed.evaluation.measures import values_of
from heed.models.base import RowEncoder
from heed.tasks.base.labels import LabelHead, check_labels, count_lines, load_labels, number_of, save_labels
from heed.tasks.base.numeric import NumericTask, ValuesBatch
from heed.tasks.base.report import counted
from heed.tasks.base.transfer import with_parents
from heed.tasks.table.config import TableConfig
from heed.tasks.table.regression import NumberPrediction, RowPrediction, target_line, target_of, values_in
from heed.threads import threads_for


class RowClassifier(nn.Module):
    """A row encoder and a linear layer, `logits = V z + b`; of a number, one output."""

    def __init__(self, body: RowEncoder, num_labels: int) -> None:
        super().__init__()
        self.body = body
        self.output = nn.Linear(body.d_output, num_labels)

    def forward(self, values: Tensor) -> Tensor:
        """Map rows `(batch, columns)` to logits `(batch, num_labels)`."""
        return self.output(self.body(values))  # type: ignore[no-any-return]


_FEATURES = "features.json"
AT_ONCE = 10_000
"""Rows read, and rows computed, at a time."""
_TARGET = "target.json"
_UPDATES, _PASSES = 1_000, 300
"""Updates, or passes if these are more, after which training ends though time is left: a network memorises a table."""
_LISTED = 1_000_000
"""Rows up to which the batches of a pass are lists."""


class Table(NumericTask[TableConfig, Row], LabelHead):
    """The table task: rows, model, loss and scores."""

    targets = "rows"
    enough_updates = 300
    interfaces = ("rows",)

    def __init__(
        self,
        config: TableConfig,
        features: Features,
        standard: Standard,
        labels: Sequence[str],
        splits: Splits[Row] | None,
        target: Standard | None = None,
    ) -> None:
        """`labels` are the classes; or `target` has name, mean and deviation of a label that is a number."""
        super().__init__(config, standard, splits)
        self.features = features
        self.labels = list(labels)
        self.target = target
        if target is None:
            return
        number = f"does not apply to label '{target.columns[0]}', which is a number (data.target)"
        if config.evaluation.select_by not in ("auto", "loss"):
            raise ConfigError(f"evaluation.select_by {config.evaluation.select_by} {number}; set it to loss")
        if config.training.label_smoothing:
            raise ConfigError(f"training.label_smoothing {number}; leave it out")

    @property
    def selected_by(self) -> str:
        return "accuracy" if self.target is None else "loss"

    @classmethod
    def prepare(cls, config: TableConfig, given: Mapping[str, Sequence[Row]] | None = None) -> Self:
        cls.refuse(config)
        config, parent, _ = with_parents(config, cls)
        splits = cls.read_splits(config, given)
        train = cast(Rows, splits.examples["train"])
        labels = [*train.labels, *(row.label for row in splits.left_out)]
        held = [] if isinstance(config.data.valid, list) else cast(Rows, splits.examples["valid"]).labels
        if (kind := target_of(config.data, [*labels, *held])) != config.data.target:
            config = config.settle("by the labels", {"data.target": kind})
        target = None
        if config.data.target == "number":
            numbers = values_in(train)
            labels = [f"{number:g}" for number in np.unique(numbers)]
            target = Standard.of((train.label_name,), numbers[:, None])
        check_labels(label_order(labels))
        features, said = Features.of(train)
        splits.examples = {name: features.encoded(cast(Rows, rows)) for name, rows in splits.examples.items()}
        values = cast(Rows, splits.examples["train"]).values
        standard = Standard.of(features.encoded_names, values)
        splits.remarks += [*said, *features.lines(), *constant_lines(standard.columns, values)]
        task = cls(config, features, standard, [] if target is not None else label_order(labels), splits, target)
        task.settle(parent)
        for rows in task.rows.values():
            task.targets_of(rows)
        return task

    @classmethod
    def restore(cls, config: TableConfig, folder: Path) -> Self:
        number = config.data.target == "number"
        if (folder / _TARGET).is_file() != number:
            raise ConfigError(f"data.target {config.data.target} is not that of the run in {folder}; start a new run")
        labels, target = ([], load(folder / _TARGET, Standard)) if number else (load_labels(folder), None)
        features = Features(load(folder / _FEATURES, tuple[Feature, ...]))
        return cls(config, features, cls.load_standard(folder), labels, None, target)

    def save(self, folder: Path) -> None:
        super().save(folder)
        save(folder / _FEATURES, self.features.columns)
        if self.target is None:
            return save_labels(folder, self.labels)
        return save(folder / _TARGET, self.target)

    def build_model(self) -> RowClassifier:
        config, _ = self.model_and_head()
        body = self.body_class(config)
        assert isinstance(body, RowEncoder)
        return RowClassifier(body, len(self.row_names("labels")))

    def axes(self) -> dict[str, list[str]]:
        rows = self.label_rows() if self.target is None else [f"number {self.target.columns[0]}"]
        return {**super().axes(), "labels": rows}

    @classmethod
    def open_splits(cls, config: TableConfig, given: Mapping[str, Sequence[Row]] | None = None) -> Splits[Row]:
        data, remarks = config.data, list[str]()
        if given is None and data.origin == "memory":
            raise DataError(data.not_kept)

        def read(split: str, files: Sequence[str], like: Rows | None = None) -> Rows:
            """The rows of a split, with the columns of the training rows, or of its first file."""
            if given is not None:
                rows = cast(Rows, given[files[0]])
                remarks.extend(rows.said if like is None else ())
                return rows if like is None else rows.ordered(like.columns)
            parts, findings = list[Rows](), Findings.of(data)
            known = frozenset(like.labels if like else ())
            for path in files:
                wanted = data.columns.features if like is None else like.columns
                how = {"categories": data.columns.categories} if like is None else {"kinds": like.kinds}
                parts.append(read_rows(Path(path), wanted, data.columns.label, findings=findings, known=known, **how))
                like = like or parts[0]
            remarks.extend(line for line in findings.remarks if line not in remarks)
            remarks.extend(one.line(split) for one in findings.found)
            rows = Rows.joined(parts)
            if not len(rows):
                raise DataError(f"no rows left in {', '.join(files)}; {'; '.join(map(str, findings.found))}")
            return rows

        train = read("train", data.train)
        if isinstance(data.valid, list):
            splits = {"train": train, "valid": read("valid", data.valid, train)}
        else:
            wanted = data.valid if data.valid is not None else default_held_out(len(train), labelled=True)
            # Numbers have no shares to keep.
            drawn = replace(train, labels=()) if target_of(data, train.labels) == "number" else train
            out = hold_out(drawn, hashes_in(drawn), wanted)
            if not out.any() or out.all():
                raise DataError(
                    f"{len(train)} rows are too few to hold out {wanted} for validation; add rows or a validation file"
                )
            splits = {"train": train.select(np.flatnonzero(~out)), "valid": train.select(np.flatnonzero(out))}
        if data.test is not None:
            splits["test"] = read("test", data.test, train)
        return Splits({**splits}, remarks=remarks)

    @classmethod
    def hold(cls, data: Any, split: str, config: Any, findings: Findings) -> Rows:
        columns = config.data.columns
        further = {"categories": columns.categories, "counters": split != "train"}  # training's are taken of the others
        return hold_rows(data, split, columns.features, columns.label, **further)

    @property
    def rows(self) -> dict[str, Rows]:
        """The splits as `Rows`, stored by column."""
        return cast("dict[str, Rows]", self.splits.examples)

    def read(self, path: Path) -> Rows:
        """Read the labelled rows of a file, with the run's columns in their order."""
        return self.features.encoded(
            read_rows(path, label=self.config.data.columns.label, known=self.labels, **self._as)
        )

    def parts(self, path: Path) -> Iterator[Rows]:
        """Read the rows of a file to predict, `AT_ONCE` at a time; labels are not needed."""
        yield from map(self.features.encoded, iter_rows(path, most=AT_ONCE, **self._as))

    @property
    def _as(self) -> dict[str, Any]:
        """How a file is read after training: a score must cover the whole file."""
        findings = Findings.of(self.config.data, strict=True)
        return {"wanted": self.features.names, "kinds": self.features.kinds, "findings": findings}

    @property
    def notes(self) -> str:
        lines = [f"{name}: {counted(len(rows), 'row')}" for name, rows in self.rows.items()]
        columns = f"{len(self.standard.columns)} columns, standardised by the training rows"
        if self.target is None:
            labels = count_lines(self.label_counts("train"), "row")
        else:
            labels = [target_line(self.target.columns[0], values_in(self.rows["train"]))]
        return "\n".join([*lines, columns, *self.splits.remarks, *labels])

    def label_counts(self, split: str) -> dict[str, int]:
        return {label: self.rows[split].labels.count(label) for label in self.labels}

    def numbers_of(self, rows: Rows) -> list[int]:
        """The index of each row's label; DataError for a label that is not in the training set."""
        known = {label: number for number, label in enumerate(self.labels)}
        return [
            known[label] if label in known else number_of(label, self.labels, rows.origin(i))
            for i, label in enumerate(rows.labels)
        ]

    def targets_of(self, rows: Rows) -> Tensor:
        """The targets `(rows,)` of the model: standardised numbers, or indices of labels; DataError as for both."""
        if self.target is None:
            return torch.tensor(self.numbers_of(rows))
        return torch.tensor(self.target.apply(values_in(rows)[:, None])[:, 0], dtype=torch.float32)

    @property
    def splits(self) -> Splits[Row]:
        if self._splits is None:
            splits = super().splits
            splits.examples = {name: self.features.encoded(cast(Rows, rows)) for name, rows in splits.examples.items()}
        return super().splits

    def overview(self) -> str:
        counted = [
            f"{name:8}" + "  ".join(f"{label} {count:,}" for label, count in self.label_counts(name).items())
            for name in self.rows
        ]
        labels = ["labels:", *counted] if self.target is None else ["label:", *self.column_lines(self.target)]
        return "\n".join([self.notes, "", "columns:", *self.column_lines(), "", *labels])

    def report_counts(self) -> dict[str, Any]:
        return {name: {"examples": len(rows), "labels": self.label_counts(name)} for name, rows in self.rows.items()}

    def train_batches(self, epoch: int) -> Sequence[list[int]]:
        training, count = self.config.training, len(self.rows["train"])
        plan = plan_pass(np.ones(count, int), training.batch_tokens, training.seed, epoch)
        return plan if count > _LISTED else list(plan)

    @property
    def most_updates(self) -> int | None:
        training = self.config.training
        each = math.ceil(len(self.rows["train"]) / (training.batch_tokens * training.accumulate))
        return max(_UPDATES, _PASSES * each)

    def collate(self, indices: list[int], epoch: int = 0) -> ValuesBatch:
        rows = np.array(indices)  # a list is a slow index
        return ValuesBatch(indices, self.tensor(self.rows["train"].values[rows]), self._targets[rows])

    @cached_property
    def _targets(self) -> Tensor:
        """The class or the number of each training row."""
        return self.targets_of(self.rows["train"])

    def loss(self, model: RowClassifier, batch: ValuesBatch, label_smoothing: float) -> Tensor:
        if self.target is not None:
            return (model(batch.values)[:, 0].float() - batch.targets).square().sum()  # type: ignore[no-any-return]
        return self.label_loss(model(batch.values), batch.targets, label_smoothing)

    def work(self, indices: list[int]) -> int:
        return len(indices)

    def describe(self, indices: list[int], epoch: int) -> str:
        return f"{len(indices)} rows, the first {self.rows['train'].origin(indices[0])}"

    def validate(self, model: RowClassifier) -> dict[str, float]:
        rows = self.rows["valid"]
        logits, targets = self.logits(model, rows.values), self.targets_of(rows)
        if self.target is None:
            return self.label_scores(logits, targets)
        loss = float((logits[:, 0].double() - targets).square().mean())
        numbers = self.target.undo(logits.double().numpy())[:, 0]
        return {"loss": loss, **values_of(number_measures(values_in(rows), numbers))}

    def predictions(self, outputs: Tensor) -> list[RowPrediction]:
        """The prediction for each row from probabilities `(rows, num_labels)`, or standardised numbers `(rows, 1)`."""
        if self.target is None:
            return [self.prediction(row) for row in outputs]
        return [NumberPrediction(number) for number in self.target.undo(outputs.double().numpy())[:, 0].tolist()]

    @torch.no_grad()
    def logits(self, model: RowClassifier, values: Any, first: int = 0) -> Tensor:
        """Logits `(rows, num_labels)` of rows in original units; `first` is the index of the first row."""
        model.eval()
        device = next(model.parameters()).device
        parts = self.tensor(values, first).split(AT_ONCE)
        with threads_for(model, len(values)):
            return torch.cat([model(part.to(device)).float().cpu() for part in parts])
