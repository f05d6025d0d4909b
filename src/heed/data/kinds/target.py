"""What the labels of a file are: classes, or numbers."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from heed.data.columns import is_float
from heed.data.corpus import label_sets_in
from heed.data.kinds.numbers import LARGEST
from heed.errors import DataError

_FEW = 20
"""Most different whole numbers that are classes."""
_MOST = 0.9
"""Share of labels that must be numbers; the others are then errors of the file."""


def target_of(data: Any, labels: Sequence[str]) -> Literal["classes", "number"]:
    """What the labels of the training files are, by `data.target`; its "auto" is settled by the labels."""
    return data.target if data.target != "auto" else likely_target(labels)


def likely_target(labels: Sequence[str]) -> Literal["classes", "number"]:
    """What labels probably are: numbers if they are more than 20 different ones, or numbers with fractions."""
    values = {label: value for label in set(labels) if (value := _value(label)) is not None}
    if sum(label in values for label in labels) < _MOST * max(1, len(labels)):
        return "classes"
    distinct = {*values.values()}
    return "number" if len(distinct) > _FEW or any(value % 1 for value in distinct) else "classes"


def labels_are_classes(data: Any, examples: Sequence[Any]) -> bool:
    """False if the labels of training examples are numbers, which have no shares that a validation set could keep."""
    if getattr(data, "target", "classes") == "classes":
        return True
    sets, numbers = label_sets_in(examples)
    return target_of(data, [label for number in numbers.tolist() for label in sets[number]]) == "classes"


def _value(label: str) -> float | None:
    value = float(label) if is_float(label) and "_" not in label else np.nan  # only Python groups digits by _
    return value if abs(value) <= LARGEST else None


def numbers_in(labels: Sequence[str], origin: Callable[[int], str]) -> NDArray[np.float64]:
    """The numbers `(examples,)` that labels are; `origin` is the place of an example.

    Raises:
        DataError: A label is not a finite number, or its square is not finite.
    """
    values = [_value(label) for label in labels]
    if None in values:
        at = values.index(None)
        raise DataError(
            f"{origin(at)}: the label {labels[at]!r:.40} is not a finite number below 1e150, which regression needs; "
            "train with data.target=classes if labels are classes"
        )
    return np.array(values, dtype=np.float64)
