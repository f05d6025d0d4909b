"""What a lesson is made of: stages with tables, named moments, and values that were compared."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Literal

from torch import Tensor

THREE_DECIMALS = 0.0005 + 1e-9
"""Half a unit of the third decimal: two numbers nearer than this are printed alike."""


@dataclass(frozen=True)
class Table:
    """A matrix `(rows, columns)` with labels on its rows and columns.

    Attributes:
        heat: Per row, whether its numbers are weights in 0..1, to be coloured.
        mask: `(rows, columns)`, True = may attend, or None.
        notes: A text per row, or none.
    """

    title: str
    rows: tuple[str, ...]
    columns: tuple[str, ...]
    values: Tensor
    heat: tuple[bool, ...] = ()
    mask: Tensor | None = None
    notes: tuple[str, ...] = ()

    def cell(self, i: int, j: int) -> float | None:
        """One number, None where masked."""
        return float(self.values[i, j]) if self.mask is None or bool(self.mask[i, j]) else None

    def has_heat(self, i: int) -> bool:
        """Whether a row is coloured."""
        return bool(self.heat) and self.heat[i]


@dataclass(frozen=True)
class Moment:
    """Something worth stopping at: its kind, the numbers of the rows that show it, and a text."""

    kind: Literal["zero query", "uniform row", "one-hot row", "tie", "equal rows", "one key", "masked row"]
    rows: tuple[int, ...]
    text: str


@dataclass(frozen=True)
class Check:
    """A stated value, named as "printed query[The][0]", the value computed, and how far it may be off."""

    name: str
    printed: float
    computed: float
    tolerance: float

    @property
    def difference(self) -> float:
        """How far the stated value lies off."""
        return abs(self.printed - self.computed)

    @property
    def equal(self) -> bool:
        """Whether the two are equal to three decimals."""
        return self.difference <= THREE_DECIMALS

    @property
    def tolerated(self) -> bool:
        """Whether the two are equal, or differ by no more than the tolerance."""
        return self.equal or self.difference <= self.tolerance

    @property
    def outcome(self) -> str:
        """The result in a word or two."""
        return "equal" if self.equal else "within tolerance" if self.tolerated else "DIFFERS"


def number(value: float) -> str:
    """A number as it is written in text and on a page: three decimals, never "-0.000"."""
    return f"{round(value, 3) + 0.0:.3f}"


def verdict(checks: tuple[Check, ...]) -> str:
    """How many values are equal, tolerated, and different."""
    equal = sum(check.equal for check in checks)
    tolerated = sum(check.tolerated for check in checks) - equal
    parts = [f"{len(checks)} {'value' if len(checks) == 1 else 'values'}: {equal} equal to three decimals"]
    if tolerated:
        parts.append(f"{tolerated} within the tolerance of {max(check.tolerance for check in checks):g}")
    if differ := len(checks) - equal - tolerated:
        parts.append(f"{differ} {'differs' if differ == 1 else 'differ'}")
    return ", ".join(parts)


@dataclass(frozen=True)
class Stage:
    """One stage of a lesson.

    Attributes:
        name: Its name for `--stage`.
        prose: Two lines a reader needs.
        numbers: Results by name ("query", "scores", "weights", ...).
        tables: Those of the results that are shown.
        lines: Lines below the tables.
        checks: Values compared in this stage.
    """

    name: str
    title: str
    prose: tuple[str, ...]
    equation: str
    numbers: dict[str, Tensor] = field(default_factory=dict)
    tables: tuple[Table, ...] = ()
    moments: tuple[Moment, ...] = ()
    lines: tuple[str, ...] = ()
    checks: tuple[Check, ...] = ()

    def __getitem__(self, name: str) -> Tensor:
        return self.numbers[name]
