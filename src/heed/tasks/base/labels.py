"""Labels of anything: what a model says of one example, and the wrong examples of a report."""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from heed.errors import DataError, RunError, suggest
from heed.storage.disk import write_whole

_LABELS = "labels.json"
MOST_ERRORS = 100
"""Wrong examples kept in a report."""


@dataclass(frozen=True)
class LabelPrediction:
    """What a model says of one text.

    Attributes:
        label: The most probable label, or with several the chosen ones joined by commas; "" for a blank text.
        labels: The label, or the chosen ones, most probable first.
        probability: Of the label; with several, of every decision on a label being as it is.
        probabilities: Of each label.
    """

    label: str
    labels: tuple[str, ...]
    probability: float
    probabilities: dict[str, float]

    @property
    def uncertainty(self) -> float:
        """1 - probability; 1 for a blank text."""
        return 1.0 - self.probability

    def summary(self, most: int = 5) -> str:
        """The labels with their probabilities, most probable first, in one line."""
        ranked = sorted(self.probabilities.items(), key=lambda item: -item[1])
        return "  ".join(f"{label} {probability:.3f}" for label, probability in ranked[:most]) or "(blank)"


def load_labels(folder: Path) -> list[str]:
    """The label names of a run folder."""
    try:
        return json.loads((folder / _LABELS).read_text(encoding="utf-8"))  # type: ignore[no-any-return]
    except (OSError, ValueError) as error:
        raise RunError(f"cannot read {folder / _LABELS}: {error}") from None


def save_labels(folder: Path, labels: Sequence[str]) -> None:
    """Write label names into a run folder."""
    text = json.dumps(labels, ensure_ascii=False, indent=1) + "\n"
    write_whole(folder / _LABELS, lambda part: part.write_text(text, encoding="utf-8"))


def check_labels(labels: Sequence[str]) -> None:
    """Refuse labels that nothing can be learned from.

    Raises:
        DataError: There are fewer than two.
    """
    if len(labels) < 2:
        found = f"the label '{labels[0]}'" if labels else "no label"
        raise DataError(f"every training example has {found}, so there is nothing to tell apart")


def number_of(label: str, labels: Sequence[str], origin: str) -> int:
    """The number of a label.

    Raises:
        DataError: It was never seen in training.
    """
    try:
        return labels.index(label)
    except ValueError:
        raise DataError(f"{origin}: label '{label}' was never seen in training{suggest(label, labels)}") from None


def wrong_examples(
    true: NDArray[np.bool_],
    predicted: NDArray[np.bool_],
    predictions: Callable[[int], LabelPrediction],
    example: Callable[[int], tuple[str, str, str]],
) -> list[dict[str, Any]]:
    """The wrong examples, surest first, as a report has them.

    Args:
        true: `(examples, labels)`.
        predicted: The same.
        predictions: What the model says of an example.
        example: Its origin, its text and its true labels.
    """
    said = {i: predictions(i) for i in np.flatnonzero((true != predicted).any(1)).tolist()}
    ranked = sorted(said, key=lambda i: -said[i].probability)[:MOST_ERRORS]
    return [
        {
            **dict(zip(("origin", "text", "true"), example(i), strict=True)),
            "predicted": said[i].label,
            "probability": said[i].probability,
        }
        for i in ranked
    ]


def most_probable(labels: Sequence[str], probabilities: Sequence[float]) -> LabelPrediction:
    """The prediction of one label for an example."""
    values = dict(zip(labels, probabilities, strict=True))
    best = max(values, key=lambda label: values[label])
    return LabelPrediction(best, (best,), values[best], values)
