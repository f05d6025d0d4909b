"""What the scripts of this folder share: the claim, its runs with several seeds, its verdict, record and figure.

A script says in `CLAIM` what is claimed, varied, measured and by which rule it is judged, and ends with `main(CLAIM)`:

    python examples/claims/leak.py                    # measure, or continue an interrupted measurement
    python examples/claims/leak.py --quick            # a tenth of the updates, two seeds
    python examples/claims/leak.py --out leak.svg     # the figure; .json for the record
    python examples/claims/leak.py --from-file docs/claims/leak.json   # judge and draw a record, without training

Finished cells are kept under `claims/NAME` in the working folder.
"""

from __future__ import annotations

import argparse
import ast
import copy
import inspect
import json
import math
import sys
import textwrap
import time
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from datetime import date
from functools import cached_property
from hashlib import blake2b
from itertools import product
from pathlib import Path
from typing import Any, Literal, NamedTuple

import numpy as np
import torch
import yaml
from scipy.special import nctdtr, stdtrit
from torch import Tensor, nn

sys.path.append(str(Path(__file__).parents[1] / "data"))  # where scripts that need other data import it from

import heed
from heed.evaluation.significance import Interval
from heed.show.curves import Curves, Line, Panel, curves_scene, legend
from heed.show.scene import to_svg

SEEDS, QUICK_SEEDS = 5, 2
CEILING, POWER = 0.95, 0.8
Value = str | int | bool
Row = dict[str, Any]
"""Measured numbers, as floats, and the settings that they belong to: `{"length": 20, "exact": 0.98}`."""


@dataclass(frozen=True)
class Cell:
    """One cell of the grid with one seed."""

    settings: dict[str, Value]  # what is varied
    seed: int
    folder: Path  # for finished cells and unfinished training runs
    quick: bool  # True for a tenth of the updates

    def __getitem__(self, name: str) -> Any:
        return self.settings[name]

    @property
    def key(self) -> str:
        """The cell as a file name."""
        parts = [f"{name}={value}" for name, value in self.settings.items()]
        return "_".join([*parts, f"seed={self.seed}"]).replace(" ", "-").replace("/", "-")

    def train(self, task: str, steps: int, settings: str, **data: Any) -> Any:
        """Train with `heed.train`, on one thread, and return the run; an interrupted training is resumed.

        Args:
            task: Name of the task.
            steps: Number of updates; a tenth of it with `--quick`.
            settings: Fields as on the command line: "model.name=rnn model.cell=gru".
            data: Further arguments of `heed.train`: `data`, `train`, `valid`, `test`.
        """
        pairs = (field.partition("=") for field in settings.split())
        fields = {"training.threads": 1, "training.patience": None} | {
            name: yaml.safe_load(value) for name, _, value in pairs
        }
        out = self.folder / f"{self.key}-run"
        return heed.train(
            task, steps=self._steps(steps), seed=self.seed, out=out, settings=fields, resume=True, quiet=True, **data
        )

    def fit(self, model: nn.Module, loss: Callable[[int], Tensor], steps: int, rate: float) -> None:
        """Train a network that `heed.train` does not make, by Adam, and leave it in evaluation mode.

        Args:
            model: The network.
            loss: Loss of the batch of an update, counted from 0.
            steps: Number of updates; a tenth of it with `--quick`.
            rate: Peak learning rate, reached after a twentieth of the updates; it then falls linearly to zero.
        """
        steps = self._steps(steps)
        optimizer = torch.optim.Adam(model.train().parameters())
        for update in range(steps):
            optimizer.param_groups[0]["lr"] = rate * min(1, 20 * (update + 1) / steps) * (1 - update / steps)
            optimizer.zero_grad()
            loss(update).backward()
            nn.utils.clip_grad_norm_(model.parameters(), 1.0)
            optimizer.step()
        model.eval()

    def _steps(self, steps: int) -> int:
        return max(10, steps // 10) if self.quick else steps


def cells(**varied: Sequence[Value]) -> tuple[dict[str, Value], ...]:
    """All combinations of the values."""
    return tuple(dict(zip(varied, chosen, strict=True)) for chosen in product(*varied.values()))


def untrained(run: Any, seed: int) -> Any:
    """A copy of the run with newly initialised weights."""
    fresh = copy.copy(run)
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(seed)
        fresh.model = run.task.build_model().eval()
    return fresh


class Results:
    """Rows of settings and of measured numbers, each of which is a list over seeds."""

    def __init__(self, rows: Iterable[Row]) -> None:
        self.rows = tuple(rows)

    @classmethod
    def of_cells(cls, measured: Iterable[Row]) -> Results:
        """Join the rows of single seeds that have the same settings; numbers are rounded to six digits."""
        joined: dict[tuple[tuple[str, Value], ...], Row] = {}
        for row in measured:
            settings = {name: value for name, value in row.items() if not isinstance(value, float)}
            seeds = joined.setdefault(tuple(settings.items()), settings)
            for name, value in row.items():
                if isinstance(value, float):
                    seeds.setdefault(name, []).append(float(f"{value:.6g}"))
        return cls(joined.values())

    def values(self, number: str, **where: Value) -> list[float]:
        """A number for each seed; the mean of the rows that have these settings.

        Raises:
            KeyError: No row has the number and these settings.
        """
        found = [row[number] for row in self._where(where) if number in row]
        if not found:
            raise KeyError(f"no row has {number} for {where}")
        return [math.fsum(values) / len(values) for values in zip(*found, strict=True)]

    def mean(self, number: str, **where: Value) -> Interval:
        """The mean of a number over seeds, with its interval."""
        return over_seeds(self.values(number, **where))

    def difference(self, number: str, first: Row, second: Row, **where: Value) -> Interval:
        """The mean over seeds of the difference `first - second`; both have the same data for a seed."""
        pairs = zip(self.values(number, **where, **first), self.values(number, **where, **second), strict=True)
        return over_seeds([a - b for a, b in pairs])

    def of(self, name: str, **where: Value) -> list[Any]:
        """The different values of a setting, in order of appearance."""
        return list(dict.fromkeys(row[name] for row in self._where(where) if name in row))

    def _where(self, settings: Row) -> list[Row]:
        return [row for row in self.rows if all(row.get(name) == value for name, value in settings.items())]


def over_seeds(values: Sequence[float]) -> Interval:
    """The mean over seeds with its 95 % interval by Student's distribution; a point if all are equal."""
    count, mean = len(values), float(np.mean(values))
    half = float(stdtrit(count - 1, 0.975) * np.std(values, ddof=1) / math.sqrt(count)) if count > 1 else 0.0
    return Interval(mean, mean - half, mean + half)


def shown(interval: Interval) -> str:
    """A number with its interval, which is left out if it is a point."""
    if interval.low == interval.high:
        return f"{interval.value:,.0f}" if interval.value == int(interval.value) else f"{interval.value:,.4g}"
    return f"{interval.value:,.3g} [{interval.low:,.3g}, {interval.high:,.3g}]"


class Pair(NamedTuple):
    """Two settings and the number in whose difference, first minus second, a claim sees its effect."""

    number: str
    first: Row
    second: Row
    where: Row = {}  # noqa: RUF012 - never changed

    def difference(self, results: Results) -> Interval:
        """The mean difference over seeds."""
        return results.difference(self.number, self.first, self.second, **self.where)

    def means(self, results: Results) -> list[Interval]:
        """The means of both, the weaker first."""
        means = (results.mean(self.number, **self.where, **each) for each in (self.first, self.second))
        return sorted(means, key=lambda mean: mean.value)


class Verdict(NamedTuple):
    """What the rule says of the numbers."""

    kind: Literal["holds", "holds only", "does not hold here", "undecided"]
    effect: Interval  # the deciding number
    what: str  # what it is
    when: str = ""  # of "holds only": "when the word is on the unread side"; of "undecided": "(headroom)"

    def __str__(self) -> str:
        return f"{self.kind}{' ' * bool(self.when)}{self.when}: {self.what} {shown(self.effect)}"


class Check(NamedTuple):
    """What must be so before a claim is judged: the mean of a number lies between two bounds."""

    name: Literal["headroom", "control", "solved task", "power"]
    what: str  # "accuracy of the weaker of the two"
    measure: Callable[[Results], Interval]
    low: float = -math.inf
    high: float = math.inf

    def __str__(self) -> str:
        ends = ((self.low, "above"), (self.high, "below"))
        return f"{self.what} {' and '.join(f'{side} {end:.3g}' for end, side in ends if math.isfinite(end))}"

    def passes(self, results: Results) -> bool:
        """Whether the claim can be judged."""
        return self.low < self.measure(results).value < self.high


def headroom(what: str, pair: Pair, chance: float) -> Check:
    """The weaker of the two has learned something, and the other can be better than it."""
    return Check("headroom", f"{what} of the weaker", lambda results: pair.means(results)[0], chance + 0.05, CEILING)


def solved(what: str, pair: Pair, score: float) -> Check:
    """The better of the two can do the task."""
    return Check("solved task", f"{what} of the better", lambda results: pair.means(results)[1], score)


def control(what: str, number: str, where: Row, low: float = -math.inf, high: float = math.inf) -> Check:
    """What must come out as known."""
    return Check("control", what, lambda results: results.mean(number, **where), low, high)


def power(pair: Pair, effect: float, threshold: float, source: str) -> Check:
    """A true difference of this size, with its source in words, would be seen with these seeds and their spread."""

    def seen(results: Results) -> Interval:
        half = pair.difference(results)
        count = len(results.values(pair.number, **pair.where, **pair.first))
        return Interval(*[power_of(effect - threshold, half.high - half.value, count)] * 3)

    return Check("power", f"probability of seeing a difference of {effect:g} ({source})", seen, POWER)


def power_of(distance: float, half: float, seeds: int) -> float:
    """The probability that the interval over seeds leaves out a value at this distance from the true mean.

    The differences of seeds are taken as normal, with the spread that gave an interval of half the width `half`; then
    the mean over its standard error has the noncentral distribution of Student.
    """
    if half == 0:
        return float(distance != 0)
    quantile = stdtrit(seeds - 1, 0.975)
    return float(1 - nctdtr(seeds - 1, abs(distance) * quantile / half, quantile))


class Part(NamedTuple):
    """One condition of a rule: a number is above, or below, a threshold."""

    what: str
    number: Interval
    side: Literal["above", "below"]
    threshold: float

    @property
    def settled(self) -> bool | None:
        """Whether it is so; None if the interval has values on both sides."""
        low, high = self.number.low - self.threshold, self.number.high - self.threshold
        if self.side == "below":
            low, high = -high, -low
        return True if low > 0 else False if high <= 0 else None


def judge(*branches: tuple[str, Sequence[Part]]) -> Verdict:
    """The first branch that is not ruled out; "undecided" if its intervals do not settle it.

    Args:
        branches: "" for "holds" or the condition of "holds only", with the parts that all must be so. The number of the
            first part is that of the verdict.

    Returns:
        "does not hold here" with the number that rules out the first branch, if all are ruled out.
    """
    for when, parts in branches:
        settled = [part.settled for part in parts]
        if False in settled:
            continue
        part = parts[settled.index(None) if None in settled else 0]
        if None in settled:
            return Verdict("undecided", part.number, f"{part.what} (threshold {part.threshold:g})", "(interval)")
        return Verdict("holds only" if when else "holds", part.number, part.what, when)
    part = next(part for part in branches[0][1] if part.settled is False)
    return Verdict("does not hold here", part.number, part.what)


def judge_each(parts: dict[str, Part]) -> Verdict:
    """One condition for each of several others that a thing is compared with; those that are settled are named.

    Args:
        parts: By what it is compared with: "the GRU". The number of the verdict is that of the first with its answer.
    """
    holds, straddles = ([name for name, part in parts.items() if part.settled is answer] for answer in (True, None))
    if 0 < len(holds) < len(parts):
        part, rest = parts[holds[0]], f" (undecided against {' and '.join(straddles)})" if straddles else ""
        return Verdict("holds only", part.number, part.what, f"against {' and '.join(holds)}{rest}")
    return judge(("", [parts[name] for name in straddles or parts]))


class Plot(NamedTuple):
    """One diagram: a measured number over a setting, with a line for each value of another setting."""

    y: str
    title: str
    x: str
    series: str
    level: tuple[float, str] | None = None  # a dashed line, such as chance
    where: Row = {}  # noqa: RUF012 - never changed


@dataclass(frozen=True)
class Claim:
    """A sentence of lecture notes or textbooks, with its experiment and the rule that judges it.

    The rule stands before the recorded runs that it judges. In it, "above" and "below" a number mean that the whole
    95 % interval over seeds is; an interval with the number inside leaves the claim undecided. Checks compare means.
    """

    name: str
    sentence: str
    varied: str
    measured: str
    rule: str
    literature: str
    finding: str  # what the recorded verdict means
    grid: tuple[dict[str, Value], ...]
    measure: Callable[[Cell], list[Row]]
    decide: Callable[[Results], Verdict]
    plots: tuple[Plot, ...]
    checks: tuple[Check, ...] = ()
    controls: str = ""  # those that are no checks
    seeds: int = SEEDS
    figure: bool = True  # whether the figure shows more than the numbers in words

    def judge(self, results: Results) -> Verdict:
        """The verdict of the rule, or "undecided" if a check has failed."""
        for check in self.checks:
            if not check.passes(results):
                return Verdict("undecided", check.measure(results), f"{check} is required:", f"({check.name})")
        return self.decide(results)

    def folder(self, quick: bool) -> Path:
        """Folder of the cells; another one after the code before `decide` has changed."""
        source = Path(inspect.getfile(self.measure)).read_text(encoding="utf-8").partition("\ndef decide(")[0]
        tree = ast.parse(source)
        tree.body = [part for part in tree.body[1:] if not isinstance(part, ast.Import | ast.ImportFrom)]
        mark = blake2b(ast.dump(tree).encode(), digest_size=4).hexdigest()
        return Path("claims") / self.name / f"{mark}{'-quick' * quick}"

    def run(self, seeds: int, quick: bool = False) -> Measured:
        """Measure the cells that are not finished, and judge."""
        folder, rows, seconds, day = self.folder(quick), list[Row](), 0.0, ""
        todo = [Cell(settings, seed, folder, quick) for settings in self.grid for seed in range(1, seeds + 1)]
        folder.mkdir(parents=True, exist_ok=True)
        for number, cell in enumerate(todo, start=1):
            path = folder / f"{cell.key}.json"
            if not path.exists():
                print(f"{self.name}: {number} of {len(todo)}: {cell.key}", file=sys.stderr, flush=True)
                began = time.perf_counter()
                kept = {"rows": self.measure(cell), "date": date.today().isoformat()}
                part = path.with_suffix(".part")
                part.write_text(json.dumps({**kept, "seconds": time.perf_counter() - began}), encoding="utf-8")
                part.replace(path)
            kept = json.loads(path.read_text(encoding="utf-8"))
            rows += [{**cell.settings, **row} for row in kept["rows"]]
            seconds, day = seconds + kept["seconds"], max(day, kept["date"])
        return Measured(self, Results.of_cells(rows), seeds, quick, day, round(seconds, 1))

    def read(self, path: Path) -> Measured:
        """What a record has measured.

        Raises:
            ValueError: The file is not a record of this claim.
            KeyError: The record lacks numbers.
        """
        record = json.loads(path.read_text(encoding="utf-8"))
        if not isinstance(record, dict) or record.get("claim") != self.name:
            raise ValueError(f"not a record of the claim {self.name}")
        head = (record[name] for name in ("seeds", "quick", "date", "seconds"))
        measured = Measured(self, Results(record["rows"]), *head)
        measured.text()
        return measured


@dataclass(frozen=True)
class Measured:
    """A claim with its measured numbers."""

    claim: Claim
    results: Results
    seeds: int
    quick: bool
    date: str
    seconds: float

    @cached_property
    def verdict(self) -> Verdict:
        """The verdict of the rule."""
        return self.claim.judge(self.results)

    @property
    def facts(self) -> list[str]:
        """Verdict, what was measured, and the rule."""
        less = f"Quick: {self.seeds} seeds and a tenth of any updates, so this verdict is not the recorded one."
        results = self.results
        checks = "; ".join(
            f"{check.name}: {check}: {shown(check.measure(results))}{' (failed)' * (not check.passes(results))}"
            for check in self.claim.checks
        )
        return [
            f"Verdict: {self.verdict}",
            *[less] * self.quick,
            *[f"Checks: {checks}"] * bool(checks),
            f"Measured: {self.claim.measured} ({self.seeds} seeds; intervals are 95 %)",
            f"Rule: {self.claim.rule}",
        ]

    def text(self) -> str:
        """The facts, and for each plot a table of means with a column for each line."""
        named = [name for name in ("varied", "controls", "literature") if getattr(self.claim, name)]
        about = (f"{name.capitalize()}: {getattr(self.claim, name)}" for name in named)
        lines = [self.claim.sentence, *self.facts, *about]
        wrapped = [part for line in lines for part in textwrap.wrap(line, 100, subsequent_indent="  ")]
        for plot in self.claim.plots:
            names, places = (self.results.of(axis, **plot.where) for axis in (plot.series, plot.x))
            lines_of = {name: dict(self._points(plot, name)) for name in names}
            rows = [[plot.x, *map(str, names)]]
            for x in places:
                means = (lines_of[name].get(x) for name in names)
                rows.append([str(x), *("-" if values is None else shown(over_seeds(values)) for values in means)])
            widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
            padded = ("  ".join(map(str.rjust, row, widths)) for row in rows)
            wrapped += ["", f"{plot.title}:", *padded]
        return "\n".join(wrapped)

    def _points(self, plot: Plot, name: Value) -> list[tuple[Any, list[float]]]:
        """The places of one line that have numbers, with a number for each seed."""
        points = []
        for x in self.results.of(plot.x, **plot.where):
            try:
                points.append((x, self.results.values(plot.y, **plot.where, **{plot.x: x, plot.series: name})))
            except KeyError:
                continue
        return points

    def svg(self) -> str:
        """The figure: a panel for each plot, with the mean, interval and seeds of every point."""
        plots, panels = self.claim.plots, []
        places = list(dict.fromkeys(x for plot in plots for x in self.results.of(plot.x, **plot.where)))
        if ordered := all(isinstance(x, int) for x in places):
            places.sort()
        for plot in plots:
            lines = []
            for color, name in enumerate(self.results.of(plot.series, **plot.where)):
                points = sorted((float(places.index(x)), tuple(values)) for x, values in self._points(plot, name))
                if points:
                    at, seeds = zip(*points, strict=True)
                    means = [over_seeds(values) for values in seeds]
                    drawn = tuple(zip(at, (mean.value for mean in means), strict=True))
                    spans = tuple((mean.low, mean.high) for mean in means)
                    lines.append(Line(str(name), drawn, color, True, spans, seeds, "seed", ordered))
            panels.append(Panel(plot.title, tuple(lines), whole=True, level=plot.level))
        facts = tuple(part for fact in self.facts for part in textwrap.wrap(fact, 118))
        ticks = tuple((float(at), str(x)) for at, x in enumerate(places))
        curves = Curves(self.claim.sentence, facts, plots[0].x.replace("_", " "), tuple(panels), ticks=ticks)
        scene = curves_scene(curves, wide=len(panels) == 1)
        many = [panel for panel in panels if len(panel.lines) > 3]  # too many for a legend inside the panel
        for line in {(line.label, line.color): line for panel in many for line in panel.lines}.values():
            scene.add(legend(line, 70, scene.height))
            scene.height += 18
        return to_svg(scene)

    def json(self) -> str:
        """The record, which `Claim.read` reads."""
        head = {"claim": self.claim.name, "quick": self.quick, "seeds": self.seeds, "date": self.date}
        start = json.dumps(head | {"seconds": self.seconds, "verdict": str(self.verdict)}, indent=1)
        rows = ",\n".join(map(json.dumps, self.results.rows))
        return f'{start[:-2]},\n "rows": [\n{rows}\n]}}\n'


def main(claim: Claim) -> None:
    """The command of a script."""
    parser = argparse.ArgumentParser(description=claim.sentence)
    seeds = f"seeds 1 to N; {claim.seeds}, with --quick {QUICK_SEEDS}"
    parser.add_argument("--seeds", type=int, metavar="N", help=seeds)
    parser.add_argument("--quick", action="store_true", help="a tenth of the updates: not the recorded verdict")
    parser.add_argument("--from-file", type=Path, metavar="RECORD", help="judge and draw a record, without training")
    parser.add_argument("--out", type=Path, metavar="FILE", help=".json for the record, .svg for the figure")
    asked = parser.parse_args()
    if asked.out and asked.out.suffix not in (".json", ".svg"):
        parser.error(f"--out {asked.out}: a record is .json, a figure .svg")
    if asked.seeds is not None and asked.seeds < 2:
        parser.error(f"--seeds {asked.seeds}: an interval over seeds needs 2 or more")
    if asked.from_file:
        try:
            measured = claim.read(asked.from_file)
        except (OSError, ValueError, KeyError) as error:
            parser.error(f"--from-file {asked.from_file}: {error}")
    else:
        measured = claim.run(asked.seeds or (QUICK_SEEDS if asked.quick else claim.seeds), asked.quick)
    if asked.out:
        asked.out.write_text(measured.svg() if asked.out.suffix == ".svg" else measured.json(), encoding="utf-8")
    print(measured.text())
