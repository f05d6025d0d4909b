"""Labels, for every task that predicts them: counts, warnings, predictions and outcomes."""

from __future__ import annotations

import math
import sys
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn

from heed.data.examples import label_order, spelt_alike
from heed.errors import DataError
from heed.evaluation.labels import label_outcomes
from heed.evaluation.measures import Outcomes
from heed.tasks.base.predictions import Prediction, in_line, one_line
from heed.visible import escaped, visible
from heed.watch.effects import Answer

_SCIKIT = 95 * 2**20
"""Bytes that importing scikit-learn and scipy takes."""


def library_memory(splits: Iterable[str]) -> int:
    """Bytes that libraries not yet imported will take, if the splits include a test set."""
    return _SCIKIT if set(splits) - {"train", "valid"} and "sklearn" not in sys.modules else 0


def answer_of_labels(
    head: Any, model: nn.Module, tokens: Tensor, scores: Callable[[Tensor], Tensor], **words: Any
) -> Answer:
    """The labels of one example; `scores` are its outputs `(N, num_outputs)`, `words` further fields of the answer."""

    def logits(rows: Tensor, mechanism: str) -> Tensor:
        outputs = scores(rows)
        if head.sigmoid:  # each output says yes or no to one label
            return torch.stack([torch.zeros_like(outputs), outputs], dim=2)
        return outputs.unsqueeze(1)

    def named(output: int, number: int) -> str:
        label = ("" if number else "not ") + head.labels[output] if head.several else head.labels[number]
        return f'label "{visible(label)}"'

    return Answer(model, tokens, logits, named, **words)


_SHOWN = 8
"""Most labels that a line lists."""
_DOMINANT = 0.7
"""Share of the examples above which a warning says that most have one label."""
_RARE = 5
"""A warning names labels with fewer examples."""
MAX_ERRORS = 100
"""Most wrong examples that a report keeps."""


@dataclass(frozen=True, repr=False)
class LabelPrediction(Prediction):
    """The predicted label or labels of one example."""

    label: str  # the most probable label, or with several the chosen ones joined by commas; "" for a blank text
    labels: tuple[str, ...]  # the label, or the chosen ones, most probable first
    probability: float  # of the label; with several, of all decisions on labels together
    probabilities: dict[str, float]  # of each label; empty for an input without an answer
    several: bool = False  # True if an example may have several labels, or none

    @property
    def uncertainty(self) -> float:
        """1 - probability; 1 for a blank text."""
        return 1.0 - self.probability

    def __repr__(self) -> str:
        return f"<{self.label or 'no label'} {self.probability:.3f}>"

    def rows(self) -> list[dict[str, Any]]:
        of_each = {f"P({label})": probability for label, probability in self.probabilities.items()}
        return [{"label": self.label, "probability": self.probability, **of_each}]

    def values(self) -> dict[str, Any]:
        label = list(self.labels) if self.several else self.label
        return {"label": label, "probability": self.probability, "probabilities": self.probabilities}

    def lines(self, text: str, options: Mapping[str, Any]) -> tuple[str, ...]:
        """`label TAB probability`; with --nbest, lines `probability TAB label`; with --sort, also the text."""
        if options.get("sort"):
            return ("\t".join([f"{self.uncertainty:.4f}", in_line(self.label), one_line(text)]),)
        if (num_best := options.get("nbest", 1)) > 1:
            return tuple(f"{p:.4f}\t{in_line(label)}" for label, p in self.ranked[:num_best]) or ("",)
        return (f"{in_line(self.label)}\t{self.probability:.4f}" if self.probabilities else "",)

    @property
    def ranked(self) -> list[tuple[str, float]]:
        """The labels with their probabilities, most probable first."""
        return sorted(self.probabilities.items(), key=lambda item: -item[1])

    def summary(self, limit: int = 5) -> str:
        """The labels with their probabilities, most probable first, in one line."""
        return "  ".join(f"{label} {probability:.3f}" for label, probability in self.ranked[:limit]) or "(blank)"


def check_labels(labels: Sequence[str]) -> None:
    """Refuse labels that nothing can be learned from.

    Raises:
        DataError: There are fewer than two labels.
    """
    if len(labels) < 2:
        problem = f"every training example has the label '{labels[0]}'" if labels else "no training example has a label"
        raise DataError(f"{problem}; training needs at least two different labels")


def spelling_lines(counts: Mapping[str, int]) -> list[str]:
    """Warnings of labels that differ only in spelling, by the count of each label."""
    groups = (" and ".join(f"'{label}' ({group[label]:,})" for label in sorted(group)) for group in spelt_alike(counts))
    return [f"warning: labels that differ only in spelling are read as different labels: {group}" for group in groups]


def count_lines(counts: Mapping[str, int], unit: str, fix: str = "") -> list[str]:
    """Label counts of a training set with one label for each example; warnings of spellings, dominant and rare labels.

    `unit` names an example; `fix` names settings that help.
    """
    ranked = [(escaped(label), count) for label, count in sorted(counts.items(), key=lambda item: -item[1])]
    total = sum(counts.values())
    first = ", ".join(f"{label} {count:,}" for label, count in ranked[:_SHOWN])
    more = f", ... ({len(ranked):,} labels, the rarest {ranked[-1][0]} {ranked[-1][1]:,})" if ranked[_SHOWN:] else ""
    lines = [f"train: labels by count: {first}{more}", *spelling_lines(counts)]
    label, largest = ranked[0]
    if largest > max(_DOMINANT, 1.5 / len(ranked)) * total:
        what = f"{largest / total:.0%} of the training {unit}s have the label '{label}'"
        lines.append(f"warning: {what}: always predicting it would score as much; look at macro F1{fix}")
    rare = [label for label, count in ranked if 0 < count < _RARE]
    if rare and total >= _RARE * 10:
        several = len(rare) > 1
        names = ", ".join(rare[:_SHOWN]) + (", ..." if len(rare) > _SHOWN else "")
        what = f"{len(rare):,} label{'s have' if several else ' has'} fewer than {_RARE} training {unit}s ({names})"
        lines.append(f"warning: {what}; too few to learn from")
    return lines


def outcomes_of(
    outputs: Sequence[LabelPrediction],
    true: Sequence[Sequence[str]],
    labels: Sequence[str],
    several: bool,
    place: Callable[[int], dict[str, str]],
) -> Outcomes:
    """Predictions with their scores; the details list the wrong ones, most confident first.

    `several`: an example may have several labels, or none; `place` returns the origin and the content of an example.
    """
    right = np.array([[label in names for label in labels] for names in true])
    predicted = np.array([[label in output.labels for label in labels] for output in outputs])
    # In the model's own precision, so that a comparison bins the same numbers as a report.
    sure = np.array([[o.probabilities.get(label, 0.0) for label in labels] for o in outputs], dtype=np.float32)
    texts = [",".join(label_order(output.labels)) for output in outputs]
    outcomes = label_outcomes(texts, right, predicted, sure, labels, several)
    wrong = sorted(np.flatnonzero((right != predicted).any(1)).tolist(), key=lambda i: -outputs[i].probability)
    outcomes.details["errors"] = [
        {**place(i), "true": ",".join(true[i]), "predicted": output.label, "probability": output.probability}
        for i, output in ((i, outputs[i]) for i in wrong[:MAX_ERRORS])
    ]
    return outcomes


def nats_of(head: Any, predictions: Sequence[Any], examples: Sequence[Any]) -> list[float] | None:
    """The loss of each prediction of one label, in nats; None for other heads."""
    if head.per_token or not getattr(head, "labels", ()) or head.several:
        return None
    both = zip(predictions, head.truths(examples), strict=True)
    return [-math.log(max(prediction.probabilities.get(label, 0.0), 1e-30)) for prediction, (label, *_) in both]


def difference_of(head: Any, other: Any) -> str:
    """Why runs with these heads cannot answer together; "" if they can."""
    labels, other_labels = getattr(head, "labels", ()), getattr(other, "labels", ())
    if only := [label for label in (*labels, *other_labels) if (label in labels) != (label in other_labels)]:
        return f"their labels differ, only one has '{only[0]}'"
    if labels != other_labels:
        return "their labels are in different orders"
    several, many = bool(getattr(head, "several", False)), bool(getattr(other, "several", False))
    return "" if several == many else f"data.several_labels is {several} in one and {many} in the other"
