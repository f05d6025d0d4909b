"""The parts of a lesson: stages with tables, noteworthy rows and checks; and look-up of rows and columns by name."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

import torch
from torch import Tensor

from heed.errors import ConfigError, suggest
from heed.observe.number_tables import Table as Table
from heed.observe.number_tables import number as number

THREE_DECIMALS = 0.0005 + 1e-9
"""Half a unit of the third decimal: numbers that differ by no more are equal to three decimals."""


@dataclass(frozen=True)
class Moment:
    """A noteworthy finding: its kind ("zero query", "tie"), the numbers of its rows, and a text."""

    kind: str
    rows: tuple[int, ...]
    text: str


@dataclass(frozen=True)
class Check:
    """A stated value, with a name such as "printed query[The][0]", the computed value and the tolerance."""

    name: str
    printed: float
    computed: float
    tolerance: float

    @property
    def difference(self) -> float:
        """Absolute difference of the stated and the computed value."""
        return abs(self.printed - self.computed)

    @property
    def equal(self) -> bool:
        """True if the two are equal to three decimals."""
        return self.difference <= THREE_DECIMALS

    @property
    def tolerated(self) -> bool:
        """True if the two are equal, or differ by no more than the tolerance."""
        return self.equal or self.difference <= self.tolerance


def verdict(checks: tuple[Check, ...]) -> str:
    """Counts of values that are equal, tolerated and different, as a sentence."""
    equal = sum(check.equal for check in checks)
    tolerated = sum(check.tolerated for check in checks) - equal
    parts = [f"{len(checks)} {'value' if len(checks) == 1 else 'values'}: {equal} equal to three decimals"]
    if tolerated:
        parts.append(f"{tolerated} within the tolerance of {max(check.tolerance for check in checks):g}")
    if differ := len(checks) - equal - tolerated:
        parts.append(f"{differ} {'differs' if differ == 1 else 'differ'}")
    return ", ".join(parts)


def check_table(title: str, checks: Sequence[Check]) -> Table:
    """Table of the stated values of checks, the computed ones and the differences."""
    values = torch.tensor([[check.printed, check.computed, check.difference] for check in checks], dtype=torch.float64)
    return Table(title, tuple(check.name for check in checks), ("stated", "computed", "off by"), values)


def check_tables(checks: Sequence[Check]) -> tuple[Table, ...]:
    """The checks that are not equal, in a table for each outcome and tolerance, which are the title."""
    groups: dict[str, list[Check]] = {}
    for check in checks:
        if not check.equal:
            allowed = f"within the tolerance of {check.tolerance:g}"
            differs = f"DIFFERS: off by more than {max(check.tolerance, 0.0005):g}"
            groups.setdefault(allowed if check.tolerated else differs, []).append(check)
    return tuple(check_table(title, groups[title]) for title in sorted(groups))


@dataclass(frozen=True)
class Stage:
    """One stage of a lesson.

    Attributes:
        name: Name for `--stage`.
        prose: Two lines of explanation.
        numbers: Results by name ("query", "scores", "weights", ...).
        tables: The results to show.
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


def find(place: int | str, labels: Sequence[str], where: str) -> int:
    """Find the number of a row or column, given as a number from 0, a token, or a number as text.

    Raises:
        ConfigError: No such token or number, or several tokens of that name; `where` is the place in messages.
    """
    if isinstance(place, str) and place not in labels and place.isdecimal():
        place = int(place)
    if isinstance(place, int):
        if not 0 <= place < len(labels):
            raise ConfigError(f"{where}: there is no number {place}; numbers go from 0 to {len(labels) - 1}")
        return place
    found = [i for i, label in enumerate(labels) if label == place]
    if not found:
        raise ConfigError(f"{where}: no token '{place}'{suggest(place, labels)}")
    if len(found) > 1:
        raise ConfigError(
            f"{where}: '{place}' occurs at {', '.join(map(str, found[:-1]))} and {found[-1]}; give one of these numbers"
        )
    return found[0]


def name_of(index: int, labels: Sequence[str]) -> str:
    """Name of a token in messages, with its number if the token occurs more than once."""
    return f"{labels[index]} ({index})" if labels.count(labels[index]) > 1 else labels[index]


def count(number: int, what: str) -> str:
    """A number of things: "1 row", "2 rows"."""
    return f"{number} {what}{'' if number == 1 else 's'}"
