"""Labels of examples, one for each or several: from logits to decisions and scores."""

from __future__ import annotations

import json
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import Path
from typing import Any, Literal, Self

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn
from torch.nn.functional import binary_cross_entropy_with_logits, cross_entropy

from heed.data.corpus import label_sets_in
from heed.data.examples import Kept, LabelSet, label_order
from heed.data.kinds.numbers import likely_target
from heed.data.splits import Splits
from heed.errors import ConfigError, DataError, suggest
from heed.evaluation.labels import f1_measures
from heed.evaluation.measures import Measure, Outcomes
from heed.storage.disk import write_whole
from heed.storage.files import damaged, read_list
from heed.tasks import spec_of
from heed.tasks.base.attributing import chosen
from heed.tasks.base.labels import (
    LabelPrediction,
    check_labels,
    count_lines,
    library_memory,
    outcomes_of,
    spelling_lines,
)
from heed.tasks.base.report import label_body
from heed.tasks.contracts import Batch, Draw, Facts, Head, Input, Rows, TargetScore
from heed.tasks.work import Work
from heed.visible import escaped

_LABELS = "labels.json"


class Output(nn.Linear):
    """A linear layer that may have no outputs, as in imported models without a classifier."""

    def reset_parameters(self) -> None:
        if self.out_features:
            super().reset_parameters()


class Labeller(nn.Module):
    """A body that gives one vector for each example, and one linear layer: `logits = V z + b`."""

    def __init__(self, body: Any, num_outputs: int) -> None:
        super().__init__()
        self.body = body
        self.output = Output(body.d_output, num_outputs)

    def forward(self, *inputs: Any, **named: Any) -> Tensor:
        """Logits `(batch, num_outputs)`; the inputs are those of the body."""
        logits: Tensor = self.output(self.body(*inputs, **named))
        return logits


def origin_of(examples: Sequence[Any], at: int) -> str:
    """The place that an example comes from, without making the example where it is made on access."""
    return str(examples.origin(at) if hasattr(examples, "origin") else examples[at].origin)


@dataclass(frozen=True, eq=False)
class Truths:
    """The labels of examples."""

    sets: Sequence[Sequence[int]]  # the numbers of the labels of each set of labels
    numbers: NDArray[np.int64]  # `(examples,)`, the set of each example

    @cached_property
    def of_sets(self) -> list[int]:
        """The number of examples with each set."""
        counts: list[int] = np.bincount(self.numbers, minlength=len(self.sets)).tolist()
        return counts


@dataclass(frozen=True)
class Labels(Head):
    """One label for each example, or several; tags are labels of its words.

    They are learned from the training examples; the number of a label is its place.
    """

    labels: tuple[str, ...] = ()

    @property
    def select(self) -> str:  # type: ignore[override]
        return "micro_f1" if self.several else "accuracy"

    @property
    def several(self) -> bool:
        """True if an example may have several labels, or none."""
        return bool(getattr(self.config.data, "several_labels", False))

    @property
    def sigmoid(self) -> bool:
        """True if each output is a separate decision; then two classes share one output."""
        return bool(self.config.model.settings.get("head") == "sigmoid")

    @property
    def weighting(self) -> Literal["none", "balanced"] | dict[str, float]:
        """How much each class counts in the loss, as configured."""
        return getattr(self.config.data, "class_weights", "none")

    def learn(self, config: Any, splits: Splits[Any]) -> tuple[Any, Head]:
        labels = self.known(config, splits)
        check_labels(labels)
        weights = replace(self, config=config).weighting
        for label in weights if isinstance(weights, dict) else ():
            if label not in labels:
                what = f"no training {spec_of(config.task).unit} has the label '{label}'{suggest(label, labels)}"
                raise ConfigError(f"data.class_weights: {what}")
        return config, replace(self, labels=tuple(labels), config=config)

    def known(self, config: Any, splits: Splits[Any]) -> list[str]:
        """The labels of a new run, in order: of the training examples, of those left out of them and held out."""
        # A subset of the training set keeps the labels of the whole.
        given_valid = isinstance(config.data.valid, list)
        known = [splits.examples["train"], splits.left_out, *([] if given_valid else [splits.examples["valid"]])]
        return label_order(label for some in known for each in label_sets_in(some)[0] for label in each)

    def taught(self, *learned: Any) -> Self:
        return replace(self, labels=tuple(learned[0]))

    def save(self, folder: Path) -> None:
        text = json.dumps(self.labels, ensure_ascii=False, indent=1) + "\n"
        write_whole(folder / _LABELS, lambda part: part.write_text(text, encoding="utf-8"))

    def restore(self, config: Any, folder: Path) -> Self:
        labels = read_list(folder / _LABELS, str)
        if twice := next((label for label in labels if labels.count(label) > 1), None):
            raise damaged(folder / _LABELS, f"the label '{twice}' occurs twice")
        return replace(self, labels=tuple(labels))

    def rows(self) -> Mapping[str, Rows]:
        return {"labels": Rows([" against ".join(self.labels)] if self.sigmoid and not self.several else self.labels)}

    def number(self, label: str, origin: str) -> int:
        """The number of a label.

        Raises:
            DataError: The label does not occur in the training set; the message has its `origin`.
        """
        if label not in self.labels:
            raise DataError(f"{origin}: label '{label}' was never seen in training{suggest(label, self.labels)}")
        return self.labels.index(label)

    def lines(self, work: Work) -> list[str]:
        counts = {split: self.counted(work.splits.examples[split]) for split in work.split_names}
        each = ((split, (f"{escaped(label)} {n:,}" for label, n in some.items())) for split, some in counts.items())
        return ["\nlabels:", *(f"{split:20}" + "  ".join(shown) for split, shown in each)]

    def counts(self, split: str, work: Work) -> dict[str, Any]:
        return {"labels": self.counted(work.splits.examples[split])}

    def scoring_memory(self, work: Work, model: Any, activations: float) -> int:
        return super().scoring_memory(work, model, activations) + library_memory(work.split_names)

    # Truths -------------------------------------------------------------------------------------------------------

    def encode(self, examples: Sequence[Any], input: Input | None = None) -> Any:
        """The `Truths` of examples."""
        sets, numbers = label_sets_in(examples)
        known = {label: number for number, label in enumerate(self.labels)}
        for place, labels in enumerate(sets):
            if missing := next((label for label in labels if label not in known), None):
                at = int(np.flatnonzero(numbers == place)[0])
                self.number(missing, origin_of(examples, at))
        return Truths([[known[label] for label in labels] for labels in sets], numbers)

    def true(self, truths: Truths, rows: Sequence[int]) -> Tensor:
        """Label numbers `(rows,)`, -1 for none; or `(rows, num_labels)` zeros and ones for several labels."""
        sets, numbers = truths.sets, truths.numbers
        if not self.several:
            first = np.array([labels[0] if labels else -1 for labels in sets], np.int64)
            return torch.from_numpy(first[numbers[np.asarray(rows, np.int64)]])
        table = np.zeros((len(sets), len(self.labels)), np.float32)
        for row, labels in enumerate(sets):
            table[row, labels] = 1.0
        return torch.from_numpy(table[numbers[np.asarray(rows, np.int64)]])

    def collate(self, truths: Any, batch: Batch, draw: Draw | None) -> Batch:
        targets = {"labels": self.true(truths, batch.rows)}
        if draw is not None and self.weighting != "none":
            targets["weights"] = torch.tensor(self.class_weights(truths))
        return replace(batch, targets=targets, num_targets=len(batch.rows))

    def counted(self, examples: Sequence[Any]) -> dict[str, int]:
        """How often each label occurs."""
        sets, numbers = label_sets_in(examples)
        counts = dict.fromkeys(self.labels, 0)
        for labels, count in zip(sets, np.bincount(numbers, minlength=len(sets)).tolist(), strict=True):
            for label in labels:
                counts[label] = counts.get(label, 0) + count
        return counts

    def class_weights(self, truths: Truths) -> list[float]:
        """The weight of each class in the loss over the training examples."""
        if isinstance(given := self.weighting, dict):
            return [given.get(label, 1.0) for label in self.labels]
        counts = np.zeros(len(self.labels), np.int64)
        for labels, count in zip(truths.sets, truths.of_sets, strict=True):
            counts[[*labels]] += count
        each = np.maximum(1, counts).tolist()
        if self.several:  # examples without the label for each one with it
            return [max(1, len(truths.numbers) - count) / count for count in each]
        return [sum(each) / (len(each) * count) for count in each]

    # The model ----------------------------------------------------------------------------------------------------

    def build(self, body: nn.Module, options: Any, facts: Facts) -> nn.Module:
        return Labeller(body, len(facts.rows["labels"]))

    def loss(self, model: Any, states: Tensor, batch: Batch, smoothing: float) -> Tensor:
        """Sum over the examples of the cross-entropy in nats, summed over all labels if there are several.

        `states` are `(batch, num_outputs)`; the targets `labels` are numbers `(batch,)`, or zeros and ones
        `(batch, num_labels)`, and `weights` `(num_labels,)` are how much an example of each class counts.
        """
        labels, weights, logits = batch.targets["labels"], batch.targets.get("weights"), states.float()
        if not self.sigmoid:
            return cross_entropy(logits, labels, weight=weights, reduction="sum", label_smoothing=smoothing)
        target = labels.to(logits.dtype) * (1 - smoothing) + smoothing / 2
        if labels.dim() > 1:
            return binary_cross_entropy_with_logits(logits, target, pos_weight=weights, reduction="sum")
        each = None if weights is None else weights[labels]
        return binary_cross_entropy_with_logits(logits[:, 0], target, weight=each, reduction="sum")

    def judge(self, model: Any, states: Tensor, batch: Batch) -> Tensor:
        labels, logits = batch.targets["labels"], states.float()
        if not self.sigmoid:
            nats = -torch.log_softmax(logits, -1).gather(1, labels.unsqueeze(1))[:, 0]
        else:
            signs = labels if labels.dim() > 1 else labels.unsqueeze(1).to(logits.dtype)
            nats = binary_cross_entropy_with_logits(logits, signs, reduction="none").sum(1)
        return torch.stack([nats.double(), torch.zeros_like(nats).double(), torch.ones_like(nats).double()], dim=1)

    def probabilities(self, logits: Tensor) -> Tensor:
        """Probability of each label, `(examples, num_labels)`."""
        if not self.sigmoid:
            return torch.softmax(logits, dim=-1)
        second = torch.sigmoid(logits)
        return second if self.several else torch.cat([1 - second, second], dim=-1)

    def decode(self, model: Any, states: Tensor, batch: Batch) -> Sequence[Any]:
        """The probability of each label, `(num_labels,)`, of each example."""
        return [*self.probabilities(states.float().cpu())]

    # Answers ------------------------------------------------------------------------------------------------------

    def predict(self, answer: Any, example: Any = None, input: Input | None = None) -> Any:
        """The prediction from the probability of each label, `(num_labels,)`."""
        values = dict(zip(self.labels, answer.tolist(), strict=True))
        if not self.several:
            best = max(values, key=values.__getitem__)
            return LabelPrediction(best, (best,), values[best], values)
        ranked = sorted(values, key=lambda label: -values[label])
        chosen = tuple(label for label in ranked if values[label] >= 0.5)
        certain = math.prod(max(p, 1 - p) for p in values.values())
        return LabelPrediction(",".join(chosen), chosen, certain, values, several=True)

    @property
    def blank(self) -> LabelPrediction:  # type: ignore[override]
        return LabelPrediction("", (), 0.0, {}, self.several)

    def measures(self, predictions: Sequence[Any], examples: Sequence[Any]) -> Sequence[Measure]:
        sets, numbers = label_sets_in(examples)
        true = np.array([[label in labels for label in self.labels] for labels in sets])[numbers]
        said = np.array([[label in one.labels for label in self.labels] for one in predictions])
        return f1_measures(true, said)

    def outcomes(
        self, predictions: Sequence[Any], examples: Sequence[Any], input: Input, others: Any = None
    ) -> Outcomes:
        """As for every head; `others` are the labels, and whether there may be several, of a comparison."""
        labels, several = (self.labels, self.several) if others is None else others
        truths = self.truths(examples)
        made = outcomes_of(predictions, truths, labels, several, lambda i: input.place(examples, i))
        if any(one.probabilities for one in predictions):
            return made
        kept = tuple(m for m in made.measures if m.name in ("accuracy", "macro_f1", "micro_f1"))
        return replace(made, measures=kept, further=())  # a baseline that gives labels only

    def truths(self, examples: Sequence[Any]) -> Sequence[LabelSet]:
        """The labels of each example, as in the data."""
        if isinstance(examples, Kept):
            sets, numbers = examples.label_sets
            return [sets[number] for number in numbers.tolist()]
        return [example.labels for example in examples]

    # What an attribution may ask ----------------------------------------------------------------------------------

    def target_score(self, answer: Tensor, target: str | None, rather_than: str | None) -> TargetScore:
        label = target if target is not None else self.labels[int(answer.argmax())]
        numbers = [chosen(name, self.labels, "label") for name in (label, rather_than) if name is not None]

        def score(logits: Tensor) -> Tensor:
            first, *others = (self.logit_of(logits, number) for number in numbers)
            return first - others[0] if others else first

        minus = f" minus that of '{rather_than}'" if rather_than else ""
        return TargetScore(f"the logit of '{label}'{minus}", score)

    def logit_of(self, logits: Tensor, number: int) -> Tensor:
        """The logit of a label, `(rows,)`; of two labels with one output, the first has the negative one."""
        if self.sigmoid and not self.several:
            return logits[:, 0] if number == 1 else -logits[:, 0]
        return logits[:, number]

    # For people ---------------------------------------------------------------------------------------------------

    report = staticmethod(label_body)  # type: ignore[assignment]

    def notes(self, work: Work) -> list[str]:
        counts, unit = self.counted(work.splits.examples["train"]), work.unit
        if not self.several:
            may_weigh = "class_weights" in type(work.config.data).model_fields and self.weighting == "none"
            fix = " (data.class_weights=balanced weighs labels equally)" * may_weigh
            lines = count_lines(counts, unit, fix)
            if "target" not in work.config.data.model_fields_set and likely_target([*counts]) == "number":
                what = f"the {len(counts):,} labels are numbers, each a class of its own here"
                lines.append(f"warning: {what}; data.target=number predicts a number instead")
            return lines
        marks = work.config.data.columns.label
        never = [label for label in marks if label not in self.labels] if isinstance(marks, list) else []
        lines = [f"no training {unit} has the label '{label}': left out" for label in never]
        return lines + spelling_lines(counts)


def check_sigmoid(head: Labels, kind: str, also: str = "") -> None:
    """Refuse one output for two classes where there are not two.

    Raises:
        ConfigError: The message has the labels; `also` is a further remedy.
    """
    if kind == "sigmoid" and not head.several and len(head.labels) != 2:
        raise ConfigError(
            f"model.head sigmoid has one output for two classes, but there are {len(head.labels)} "
            f"({', '.join(head.labels)}); use softmax{also}"
        )
