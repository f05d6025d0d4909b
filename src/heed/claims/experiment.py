"""What the author of a claim writes: a grid of cells, a measure, a rule, and what to draw."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from itertools import product
from pathlib import Path
from typing import Any, Literal, NamedTuple

import torch
import yaml
from torch import Tensor, nn

from heed.evaluation.significance import Interval, over_seeds
from heed.runs.train import train

Value = str | int | float | bool
Row = dict[str, Any]
"""Measured numbers by name, and what they are of: `{"length": 20, "exact": 0.98}`."""


@dataclass(frozen=True)
class Cell:
    """One cell of the grid with one seed."""

    settings: dict[str, Value]  # what is varied
    seed: int
    folder: Path  # its own, kept until the claim is run again: an unfinished training is resumed
    quick: bool  # True for a tenth of the updates

    def __getitem__(self, name: str) -> Any:
        return self.settings[name]

    @property
    def key(self) -> str:
        """The cell as the name of its file."""
        parts = [f"{name}={value}" for name, value in self.settings.items()]
        return "_".join([*parts, f"seed={self.seed}"]).replace(" ", "-").replace("/", "-")

    def train(self, task: str, steps: int, settings: str, **given: Any) -> Any:
        """Train with `heed.train`, on one thread, and return its run; a training that was interrupted goes on.

        Args:
            task: Name of the task.
            steps: Number of updates; a tenth of it with `quick`.
            settings: Fields as on the command line: "model.name=rnn model.cell=gru".
            given: Further arguments of `heed.train`: `data`, `train`, `valid`, `test`.
        """
        pairs = (field.partition("=") for field in settings.split())
        fields = {"training.threads": 1, "training.patience": None} | {
            name: yaml.safe_load(value) for name, _, value in pairs
        }
        steps = max(10, steps // 10) if self.quick else steps
        out = self.folder / f"{self.key}-run"
        return train(task, steps=steps, seed=self.seed, out=out, settings=fields, resume=True, quiet=True, **given)

    def fit(self, model: nn.Module, loss: Callable[[int], Tensor], steps: int, rate: float) -> None:
        """Train a network that `heed.train` does not make, by Adam, and leave it in evaluation mode.

        Args:
            model: The network.
            loss: Loss of one batch, for the number of an update.
            steps: Number of updates; a tenth of it with `quick`.
            rate: Learning rate, reached after a twentieth of the updates; it then falls linearly to zero.
        """
        steps = max(10, steps // 10) if self.quick else steps
        optimizer = torch.optim.Adam(model.train().parameters())
        for update in range(steps):
            optimizer.param_groups[0]["lr"] = rate * min(1, 20 * (update + 1) / steps) * (1 - update / steps)
            optimizer.zero_grad()
            loss(update).backward()
            nn.utils.clip_grad_norm_(model.parameters(), 1.0)
            optimizer.step()
        model.eval()


def cells(**varied: Sequence[Value]) -> tuple[dict[str, Value], ...]:
    """All combinations of the values."""
    return tuple(dict(zip(varied, chosen, strict=True)) for chosen in product(*varied.values()))


class Results:
    """The rows of all runs: each has the settings of its cell, its seed, and what was measured."""

    def __init__(self, rows: Iterable[Row]) -> None:
        self.rows = tuple(rows)

    def values(self, number: str, **where: Value) -> dict[int, float]:
        """A number by seed; the mean of the rows that a seed has for these settings."""
        found: dict[int, list[float]] = {}
        for row in self.rows:
            if number in row and all(row.get(name) == value for name, value in where.items()):
                found.setdefault(row["seed"], []).append(float(row[number]))
        if not found:
            raise KeyError(f"no row has {number} for {where}")
        return {seed: math.fsum(values) / len(values) for seed, values in sorted(found.items())}

    def mean(self, number: str, **where: Value) -> Interval:
        """The mean of a number over seeds, with its interval."""
        return over_seeds([*self.values(number, **where).values()])

    def difference(self, number: str, first: Row, second: Row, **where: Value) -> Interval:
        """The mean over seeds of the difference `first - second`; both have the same data for a seed."""
        ours, theirs = self.values(number, **where, **first), self.values(number, **where, **second)
        return over_seeds([ours[seed] - theirs[seed] for seed in ours if seed in theirs])

    def of(self, name: str, **where: Value) -> list[Any]:
        """The different values of a setting, or of another entry of the rows, in order of appearance."""
        rows = (row for row in self.rows if all(row.get(key) == value for key, value in where.items()))
        return list(dict.fromkeys(row[name] for row in rows if name in row))


Kind = Literal["holds", "holds only", "does not hold here"]


class Verdict(NamedTuple):
    """What the rule makes of the numbers."""

    kind: Kind
    effect: Interval  # the number that counted most
    what: str  # what it is
    when: str = ""  # of "holds only": "when the word is on the unread side"

    def __str__(self) -> str:
        return f"{self.kind}{' ' * bool(self.when)}{self.when}: {self.what} {shown(self.effect)}"


def shown(interval: Interval) -> str:
    """A number with its interval, which is left out if it is a point."""
    if interval.low == interval.high:
        return f"{interval.value:,.0f}" if interval.value == int(interval.value) else f"{interval.value:,.4g}"
    return f"{interval.value:,.3g} [{interval.low:,.3g}, {interval.high:,.3g}]"


class Plot(NamedTuple):
    """One diagram: a number of the rows over another entry of them, a line for each value of a third."""

    y: str
    title: str
    x: str
    series: str
    level: tuple[float, str] | None = None  # a dashed line, such as chance
    where: Row = {}  # noqa: RUF012 - never changed


@dataclass(frozen=True)
class Experiment:
    """How a claim is measured and judged."""

    grid: tuple[dict[str, Value], ...]
    measure: Callable[[Cell], list[Row]]
    decide: Callable[[Results], Verdict]
    plots: tuple[Plot, ...]
    seeded: bool = True  # False for closed forms, which have one seed
