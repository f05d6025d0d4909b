"""What a lesson is made of: stages with tables, named moments, and values that were compared."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Literal

from torch import Tensor

THREE_DECIMALS = 0.0005 + 1e-9
"""Half a unit of the third decimal: two numbers nearer than this are printed alike."""


@dataclass(frozen=True)
class Table:
    """A matrix with names on its rows and columns.

    Attributes:
        title: What it is: "Q = X W_Q, 11 x 3".
        rows: One label per row.
        columns: One label per column.
        values: `(rows, columns)`.
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


@dataclass(frozen=True)
class Moment:
    """Something worth stopping at, found in the numbers.

    Attributes:
        kind: Its name.
        rows: Numbers of the rows that show it.
        text: What to see.
    """

    kind: Literal["zero query", "uniform row", "one-hot row", "tie", "equal rows", "one key", "masked row"]
    rows: tuple[int, ...]
    text: str


@dataclass(frozen=True)
class Check:
    """One value that was stated, and what is computed.

    Attributes:
        name: Which: "printed query[The][0]".
        printed: The value stated.
        computed: The value computed.
        tolerance: How far off it may be.
    """

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


@dataclass(frozen=True)
class Stage:
    """One stage of a lesson.

    Attributes:
        name: What `--stage` calls it.
        title: Its heading.
        prose: Two lines a reader needs.
        equation: The formula.
        numbers: What was computed, by name ("query", "scores", "weights", ...).
        tables: What is shown of it.
        moments: What is worth stopping at.
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
