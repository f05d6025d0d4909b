"""Run a claim's grid with several seeds, keep each finished cell on the disk, judge, draw, and read records again."""

from __future__ import annotations

import ast
import datetime
import importlib
import json
import sys
import textwrap
import time
from functools import cached_property
from hashlib import blake2b
from importlib.resources import files
from pathlib import Path
from typing import Any, NamedTuple

from heed.claims.experiment import Cell, Experiment, Plot, Results, Row, Verdict, shown
from heed.config import read_config
from heed.errors import ConfigError, suggest
from heed.observe.curves import Curves, Line, Panel, curves_scene, curves_to_html, legend
from heed.observe.scene import Scene
from heed.observe.shown import Shown
from heed.storage.disk import write_whole
from heed.storage.files import read_object

FORMAT = "heed-claim-1"
SEEDS, QUICK_SEEDS = 5, 2
_HERE = Path(str(files("heed.claims")))


class Text(NamedTuple):
    """The text of a claim, from `texts.yaml`."""

    sentence: str
    varied: str
    measured: str
    rule: str
    literature: str
    controls: str


def read_texts() -> dict[str, Text]:
    """The text of every claim, by name."""
    return {name: Text(**fields) for name, fields in read_config(_HERE / "texts.yaml").items()}


def has_experiment(name: str) -> bool:
    """True if the claim of this name can be run, not only judged."""
    return _file(name).exists()


def read_claim(name: str) -> tuple[Text, Experiment]:
    """Text and experiment of a claim.

    Raises:
        ConfigError: There is no such claim, or it has a rule and no experiment yet.
    """
    texts = read_texts()
    if name not in texts:
        raise ConfigError(f"unknown claim '{name}'{suggest(name, list(texts))}")
    if not has_experiment(name):
        valid = ", ".join(one for one in texts if has_experiment(one))
        raise ConfigError(f"claim {name} has a rule, but no experiment yet; with one: {valid}")
    return texts[name], importlib.import_module(f"heed.claims.{_file(name).stem}").EXPERIMENT


def _file(name: str) -> Path:
    return _HERE / f"{name.replace('-', '_')}.py"


def _folder(name: str, quick: bool) -> Path:
    """Where the cells of a claim are; another folder after its experiment has changed, its rule aside."""
    tree = ast.parse(_file(name).read_text(encoding="utf-8"))
    tree.body = [one for one in tree.body if not (isinstance(one, ast.FunctionDef) and one.name == "decide")][1:]
    mark = blake2b(ast.dump(tree).encode(), digest_size=4).hexdigest()
    return Path("claims") / name / f"{mark}{'-quick' * quick}"


class ClaimResult(Shown):
    """A claim with its measured numbers: verdict, figure and table."""

    def __init__(self, name: str, rows: list[Row], quick: bool = False, date: str = "", seconds: float = 0.0) -> None:
        self.name, self.quick, self.date, self.seconds = name, quick, date, seconds
        self.of, self.experiment = read_claim(name)
        self.results = Results(rows)

    @cached_property
    def verdict(self) -> Verdict:
        """The verdict that the rule gives."""
        return self.experiment.decide(self.results)

    @property
    def facts(self) -> list[str]:
        """Verdict, what was measured, and the rule."""
        seeds = len(self.results.of("seed"))
        less = f"Quick: {seeds} seeds and a tenth of any updates, so this verdict is not the recorded one."
        quick = [less] if self.quick and self.experiment.seeded else []
        counted = f"{seeds} seeds; intervals are 95 %" if self.experiment.seeded else "computed, without chance"
        return [
            f"Verdict: {self.verdict}",
            *quick,
            f"Measured: {self.of.measured} ({counted})",
            f"Rule: {self.of.rule}",
        ]

    def text(self, width: int = 100, color: bool = False) -> str:
        lines = [self.of.sentence, *self.facts, f"Literature: {self.of.literature}"]
        wrapped = [part for line in lines for part in textwrap.wrap(line, width, subsequent_indent="  ")]
        return "\n".join([*wrapped, *(line for plot in self.experiment.plots for line in self._table(plot))])

    def _table(self, plot: Plot) -> list[str]:
        """The means of a plot: a row for each x, a column for each line."""
        names = self.results.of(plot.series, **plot.where)
        rows = [[plot.x, *map(str, names)]]
        for x in self._places(plot):
            rows.append([str(x), *(self._shown(plot, x, name) for name in names)])
        widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
        padded = ("  ".join(cell.rjust(wide) for cell, wide in zip(row, widths, strict=True)) for row in rows)
        return ["", f"{plot.title}:", *padded]

    def _places(self, plot: Plot) -> list[Any]:
        return [x for x in self.results.of(plot.x, **plot.where) if any(plot.y in row for row in self.results.rows)]

    def _shown(self, plot: Plot, x: Any, name: Any) -> str:
        try:
            return shown(self.results.mean(plot.y, **plot.where, **{plot.x: x, plot.series: name}))
        except KeyError:
            return "-"

    def curves(self) -> Curves:
        """The plots as panels."""
        places = list(dict.fromkeys(x for plot in self.experiment.plots for x in self._places(plot)))
        if numbers := all(isinstance(x, int | float) for x in places):
            places.sort()
        panels = []
        for plot in self.experiment.plots:
            lines = []
            for color, name in enumerate(self.results.of(plot.series, **plot.where)):
                found = []
                for at, x in enumerate(places):
                    chosen = {**plot.where, plot.x: x, plot.series: name}
                    if self._shown(plot, x, name) != "-":
                        values = self.results.values(plot.y, **chosen)
                        found.append((at, self.results.mean(plot.y, **chosen), tuple(values.values())))
                points = tuple((float(at), mean.value) for at, mean, _ in found)
                seeded = self.experiment.seeded
                spans = tuple((mean.low, mean.high) for _, mean, _ in found) if seeded else ()
                others = tuple(values for *_, values in found) if seeded else ()
                lines.append(Line(str(name), points, color, True, spans, others, "seed" * seeded, numbers))
            panels.append(Panel(plot.title, tuple(line for line in lines if line.points), None, True, plot.level))
        facts = tuple(part for fact in self.facts for part in textwrap.wrap(fact, 118))
        ticks = tuple((float(at), str(x)) for at, x in enumerate(places))
        across = self.experiment.plots[0].x.replace("_", " ")
        return Curves(self.of.sentence, facts, across, tuple(panels), ticks=ticks)

    def html(self) -> str:
        return curves_to_html(self.curves())

    def scene(self, index: int | None = None) -> Scene:
        curves = self.curves()
        scene = curves_scene(curves, wide=len(curves.panels) == 1)
        many = [one for one in curves.panels if len(one.lines) > 3]  # too many for a legend inside the panel
        for line in {(line.label, line.color): line for panel in many for line in panel.lines}.values():
            scene.add(legend(line, 70, scene.height))
            scene.height += 18
        return scene

    def json(self) -> str:
        """What was measured in every run; `claim(name, from_file=...)` reads it."""
        head = {"format": FORMAT, "claim": self.name, "quick": self.quick, "date": self.date}
        rows = ",\n".join(json.dumps(row) for row in self.results.rows)
        start = json.dumps(head | {"seconds": round(self.seconds, 1), "verdict": str(self.verdict)}, indent=1)
        return f'{start[:-2]},\n "rows": [\n{rows}\n]}}\n'

    def __repr__(self) -> str:
        return f"ClaimResult({self.name!r}, {str(self.verdict)!r})"


def claim(
    name: str, *, seeds: int | None = None, quick: bool = False, from_file: str | Path | None = None, quiet: bool = True
) -> ClaimResult:
    """Measure a claim, or read what was measured: `heed.claim("both-sides")`.

    Each finished cell is kept under `claims/NAME`, so a claim that was interrupted goes on, and one that is complete is
    judged and drawn again without training.

    Args:
        name: One of `list_claims`.
        seeds: Seeds 1 to `seeds`; 5 by default, 2 with `quick`. Closed forms have one.
        quick: Train for a tenth of the updates.
        from_file: A record written by `save("FILE.json")`, to be judged and drawn again.
        quiet: Print no progress.

    Raises:
        ConfigError: No such claim, too few seeds, or the file is not a record of it.
    """
    experiment = read_claim(name)[1]
    if from_file is not None:
        return _read(name, Path(from_file))
    if experiment.seeded and seeds is not None and seeds < 2:
        raise ConfigError(f"seeds is {seeds}; an interval over seeds needs 2 or more")
    count = 1 if not experiment.seeded else seeds or (QUICK_SEEDS if quick else SEEDS)
    rows: list[Row] = []
    seconds, date = 0.0, ""
    todo = _cells(name, experiment, count, quick)
    for number, cell in enumerate(todo, start=1):
        path = cell.folder / f"{cell.key}.json"
        if not path.exists():
            if not quiet:
                print(f"{name}: {number} of {len(todo)}: {cell.key}", file=sys.stderr, flush=True)
            _measure(experiment, cell, path)
        kept = read_object(path)
        rows += kept["rows"]
        seconds, date = seconds + kept["seconds"], max(date, kept["date"])
    return ClaimResult(name, rows, quick, date, seconds)


def _cells(name: str, experiment: Experiment, count: int, quick: bool) -> list[Cell]:
    folder = _folder(name, quick)
    return [Cell(settings, seed, folder, quick) for settings in experiment.grid for seed in range(1, count + 1)]


def _measure(experiment: Experiment, cell: Cell, path: Path) -> None:
    cell.folder.mkdir(parents=True, exist_ok=True)
    began = time.perf_counter()
    rows = [{**cell.settings, "seed": cell.seed, **row} for row in experiment.measure(cell)]
    kept = {"rows": rows, "seconds": time.perf_counter() - began, "date": datetime.date.today().isoformat()}
    write_whole(path, lambda part: part.write_text(json.dumps(kept), encoding="utf-8"))


def _read(name: str, path: Path) -> ClaimResult:
    if not path.is_file():
        raise ConfigError(f"no file '{path}'")
    record = read_object(path)
    if record.get("format") != FORMAT or record.get("claim") != name:
        said = f"format {record.get('format')!r}, claim {record.get('claim')!r}"
        raise ConfigError(f"'{path}' is no record of claim {name}: it has {said}, expected {FORMAT!r} and {name!r}")
    try:
        result = ClaimResult(name, record["rows"], record["quick"], record["date"], record["seconds"])
        result.text()
    except (KeyError, TypeError, ValueError, AttributeError, IndexError) as error:
        raise ConfigError(f"'{path}' lacks numbers that the rule of {name} needs: {error}") from None
    return result


def list_claims() -> dict[str, str]:
    """Name and sentence of every claim."""
    return {name: text.sentence for name, text in read_texts().items()}


def state_of(name: str) -> str:
    """How far a claim is in this folder: "not run", "3 of 50 cells", or date and verdict."""
    if not has_experiment(name):
        return "rule only"
    folder = _folder(name, quick=False)
    if not folder.is_dir():
        return "not run"
    experiment = read_claim(name)[1]
    todo = _cells(name, experiment, SEEDS if experiment.seeded else 1, False)
    done = sum((folder / f"{cell.key}.json").exists() for cell in todo)
    if done < len(todo):
        return f"{done} of {len(todo)} cells"
    result = claim(name)
    return f"{result.date}: {result.verdict}"
