"""How much texts of each class count in the loss."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from heed.errors import ConfigError, suggest
from heed.tasks.classification.config import TextOptions


def class_weights(
    data: TextOptions, labels: Sequence[str], counts: Mapping[str, int], num_texts: int
) -> list[float] | None:
    """The weight of each of the labels, of which the training texts have so many, or None where all count alike."""
    given = data.class_weights
    if given == "none":
        return None
    if isinstance(given, dict):
        return [given.get(label, 1.0) for label in labels]
    each = [max(1, count) for count in counts.values()]
    if data.several_labels:  # those with the label against those without
        return [max(1, num_texts - count) / count for count in each]
    return [sum(each) / (len(each) * count) for count in each]


def check_weights(data: TextOptions, labels: Sequence[str]) -> None:
    """Refuse weights of classes that do not exist."""
    for label in data.class_weights if isinstance(data.class_weights, dict) else ():
        if label not in labels:
            raise ConfigError(f"data.class_weights: no training text has the label '{label}'{suggest(label, labels)}")
