"""Class weights: how much the examples of each class count in the loss."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Literal

from heed.errors import ConfigError, suggest

ClassWeights = Literal["none", "balanced"] | dict[str, float]
"""The field `data.class_weights`."""


def class_weights(
    given: ClassWeights, labels: Sequence[str], counts: Mapping[str, int], num_examples: int, several: bool = False
) -> list[float] | None:
    """The weight of each label in the loss; None if all labels count equally.

    `counts` is how often each label occurs in the training set; `several` is true if an example may have several
    labels, or none.
    """
    if given == "none":
        return None
    if isinstance(given, dict):
        return [given.get(label, 1.0) for label in labels]
    each = [max(1, count) for count in counts.values()]
    if several:  # examples without the label for each one with it
        return [max(1, num_examples - count) / count for count in each]
    return [sum(each) / (len(each) * count) for count in each]


def check_weights(given: ClassWeights, labels: Sequence[str], unit: str) -> None:
    """Refuse weights of classes that do not exist; `unit` names an example.

    Raises:
        ConfigError: The message names the class.
    """
    for label in given if isinstance(given, dict) else ():
        if label not in labels:
            raise ConfigError(f"data.class_weights: no training {unit} has the label '{label}'{suggest(label, labels)}")
