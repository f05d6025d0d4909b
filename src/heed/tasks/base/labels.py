"""Label predictions, label names in a run folder, and the wrong examples of a report."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from heed.data.examples import label_order
from heed.errors import DataError, suggest
from heed.evaluation.labels import label_outcomes
from heed.evaluation.measures import Outcomes
from heed.storage.disk import write_whole
from heed.storage.files import damaged, read_list
from heed.visible import escaped

_LABELS = "labels.json"
_SHOWN = 8
"""Most labels that a line lists."""
_MOST = 0.7
"""Share of the examples above which a warning says that most have one label."""
_RARE = 5
"""A warning names labels with fewer examples."""
MOST_ERRORS = 100
"""Most wrong examples that a report keeps."""


@dataclass(frozen=True, repr=False)
class LabelPrediction:
    """The predicted label or labels of one text."""

    label: str  # the most probable label, or with several the chosen ones joined by commas; "" for a blank text
    labels: tuple[str, ...]  # the label, or the chosen ones, most probable first
    probability: float  # of the label; with several, of all decisions on labels together
    probabilities: dict[str, float]  # of each label

    @property
    def uncertainty(self) -> float:
        """1 - probability; 1 for a blank text."""
        return 1.0 - self.probability

    def __repr__(self) -> str:
        return f"<{self.label or 'no label'} {self.probability:.3f}>"

    def rows(self) -> list[dict[str, Any]]:
        """The label, its probability and that of every label, as a row of a table."""
        of_each = {f"P({label})": probability for label, probability in self.probabilities.items()}
        return [{"label": self.label, "probability": self.probability, **of_each}]

    def summary(self, most: int = 5) -> str:
        """The labels with their probabilities, most probable first, in one line."""
        ranked = sorted(self.probabilities.items(), key=lambda item: -item[1])
        return "  ".join(f"{label} {probability:.3f}" for label, probability in ranked[:most]) or "(blank)"


def load_labels(folder: Path) -> list[str]:
    """The label names of a run folder.

    Raises:
        RunError: The file is missing or damaged.
    """
    labels = read_list(folder / _LABELS, str)
    if len(set(labels)) < len(labels):
        twice = next(label for label in labels if labels.count(label) > 1)
        raise damaged(folder / _LABELS, f"the label '{twice}' occurs twice")
    return labels


def save_labels(folder: Path, labels: Sequence[str]) -> None:
    """Write label names into a run folder."""
    text = json.dumps(labels, ensure_ascii=False, indent=1) + "\n"
    write_whole(folder / _LABELS, lambda part: part.write_text(text, encoding="utf-8"))


def check_labels(labels: Sequence[str]) -> None:
    """Refuse labels that nothing can be learned from.

    Raises:
        DataError: There are fewer than two labels.
    """
    if len(labels) < 2:
        found = f"every training example has the label '{labels[0]}'" if labels else "no training example has a label"
        raise DataError(f"{found}; training needs at least two different labels")


def count_lines(counts: Mapping[str, int], unit: str, fix: str = "") -> list[str]:
    """Label counts of a training set with one label for each example; warnings of a dominant label and of rare ones.

    `unit` names an example; `fix` names settings that help.
    """
    ranked = [(escaped(label), count) for label, count in sorted(counts.items(), key=lambda item: -item[1])]
    total = sum(counts.values())
    first = ", ".join(f"{label} {count:,}" for label, count in ranked[:_SHOWN])
    rest = f", ... ({len(ranked):,} labels, the rarest {ranked[-1][0]} {ranked[-1][1]:,})" if ranked[_SHOWN:] else ""
    lines = [f"train: labels by count: {first}{rest}"]
    label, most = ranked[0]
    if most > max(_MOST, 1.5 / len(ranked)) * total:
        what = f"{most / total:.0%} of the training {unit}s have the label '{label}'"
        lines.append(f"warning: {what}: always predicting it would score as much; look at macro F1{fix}")
    rare = [label for label, count in ranked if 0 < count < _RARE]
    if rare and total >= _RARE * 10:
        several = len(rare) > 1
        names = ", ".join(rare[:_SHOWN]) + (", ..." if len(rare) > _SHOWN else "")
        what = f"{len(rare):,} label{'s have' if several else ' has'} fewer than {_RARE} training {unit}s ({names})"
        lines.append(f"warning: {what}; too few to learn from")
    return lines


def number_of(label: str, labels: Sequence[str], origin: str) -> int:
    """The number of a label.

    Raises:
        DataError: The label does not occur in the training set.
    """
    try:
        return labels.index(label)
    except ValueError:
        raise DataError(f"{origin}: label '{label}' was never seen in training{suggest(label, labels)}") from None


def outcomes_of(
    outputs: Sequence[LabelPrediction],
    true: Sequence[Sequence[str]],
    labels: Sequence[str],
    several: bool,
    example: Callable[[int], tuple[str, str]],
) -> Outcomes:
    """Predictions with their scores; the details list the wrong ones, most confident first.

    `several`: an example may have several labels, or none; `example` returns the origin and the text of an example.
    """
    right = np.array([[label in those for label in labels] for those in true])
    said = np.array([[label in output.labels for label in labels] for output in outputs])
    # In the model's own precision, so that a comparison bins the same numbers as a report.
    sure = np.array([[o.probabilities.get(label, 0.0) for label in labels] for o in outputs], dtype=np.float32)
    outcomes = label_outcomes([",".join(label_order(o.labels)) for o in outputs], right, said, sure, labels, several)
    wrong = sorted(np.flatnonzero((right != said).any(1)).tolist(), key=lambda i: -outputs[i].probability)
    outcomes.details["errors"] = [
        {
            **dict(zip(("origin", "text"), example(i), strict=True)),
            "true": ",".join(true[i]),
            "predicted": outputs[i].label,
            "probability": outputs[i].probability,
        }
        for i in wrong[:MOST_ERRORS]
    ]
    return outcomes


def most_probable(labels: Sequence[str], probabilities: Sequence[float]) -> LabelPrediction:
    """The prediction of the most probable label."""
    values = dict(zip(labels, probabilities, strict=True))
    best = max(values, key=lambda label: values[label])
    return LabelPrediction(best, (best,), values[best], values)


def one_hot(places: Any, count: int) -> np.ndarray[Any, Any]:
    """One-hot rows of label numbers, `(examples, count)` of bool."""
    return np.eye(count, dtype=bool)[places]  # type: ignore[no-any-return]
