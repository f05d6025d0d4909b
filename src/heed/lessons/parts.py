"""Parts of a lesson: stages with tables, noteworthy rows and checks; rows and columns by name; training."""

from __future__ import annotations

import bz2
import tempfile
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass, field
from functools import cache
from importlib.resources import files
from pathlib import Path
from string import Formatter
from typing import Any

import torch
import yaml
from torch import Tensor

from heed.errors import ConfigError, suggest, whole_number
from heed.runs.train import train
from heed.show.number_tables import NumberTable
from heed.tasks.base.report import counted

Table = NumberTable

THREE_DECIMALS = 0.0005 + 1e-9
"""Half a unit of the third decimal: numbers that differ by no more are equal to three decimals."""
EQUAL = "equal to three decimals"


@dataclass(frozen=True)
class Moment:
    """A noteworthy finding: its kind ("zero query", "tie"), the numbers of its rows, and a text."""

    kind: str
    rows: tuple[int, ...]
    text: str


@dataclass(frozen=True)
class Check:
    """A stated value, with a name such as "printed query[The][0]", the computed value and the allowed difference."""

    name: str
    printed: float
    computed: float
    tolerance: float = 0.0  # beyond three decimals

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

    @property
    def outcome(self) -> str:
        """The comparison in words."""
        if self.equal:
            return EQUAL
        within = f"within the tolerance of {self.tolerance:g}"
        return within if self.tolerated else f"DIFFERS: off by more than {max(self.tolerance, 0.0005):g}"


@dataclass(frozen=True)
class Stage:
    """One stage of a lesson."""

    name: str  # name for `--stage`
    title: str
    prose: tuple[str, ...]  # a few lines of explanation
    equation: str
    numbers: dict[str, Tensor] = field(default_factory=dict)  # results by name ("query", "scores", "weights", ...)
    tables: tuple[Table, ...] = ()  # the results to show
    moments: tuple[Moment, ...] = ()
    lines: tuple[str, ...] = ()  # lines below the tables
    checks: tuple[Check, ...] = ()  # values compared in this stage

    def __getitem__(self, name: str) -> Tensor:
        return self.numbers[name]

    @property
    def blocks(self) -> list[tuple[str, Sequence[Any]]]:
        """The content in order: texts by kind (prose, formula, moments, lines, verdict), and "tables"."""
        outcomes: dict[str, list[Check]] = {}
        for check in self.checks:
            outcomes.setdefault(check.outcome, []).append(check)
        counts = (f"{len(outcomes[name])} {name.removeprefix('DIFFERS: ')}" for name in sorted(outcomes))
        blocks: list[tuple[str, Sequence[Any]]] = [
            ("prose", self.prose),
            ("formula", [self.equation] if self.equation else []),
            ("tables", self.tables),
            ("moments", [f"{moment.kind}: {moment.text}" for moment in self.moments]),
            ("lines", self.lines),
            ("verdict", [f"{counted(len(self.checks), 'value')}: {', '.join(counts)}"] if self.checks else []),
            ("tables", [checks_table(name, outcomes[name]) for name in sorted(outcomes) if name != EQUAL]),
        ]
        return [(kind, content) for kind, content in blocks if content]


def checks_table(title: str, checks: Sequence[Check]) -> Table:
    """The stated values of checks, the computed ones and the differences."""
    values = double([[check.printed, check.computed, check.difference] for check in checks])
    return Table(title, tuple(check.name for check in checks), ("stated", "computed", "off by"), values)


def double(values: Any) -> Tensor:
    """A number, numbers or rows of numbers as a tensor in float64."""
    return torch.tensor(values, dtype=torch.float64)


def table_of(title: str, rows: Iterable[str], columns: Iterable[str], values: Tensor, **more: Any) -> Table:
    """A table of rows of numbers, or of one row; `more` are further fields of `Table`."""
    return Table(title, tuple(rows), tuple(columns), values if values.dim() == 2 else values.unsqueeze(0), **more)


def find(place: int | str, labels: Sequence[str], where: str) -> int:
    """Find the number of a row or column, given as a number from 0, a token, or a number as text.

    Raises:
        ConfigError: No such token or number, or several tokens of that name; `where` is the place in messages.
    """
    if isinstance(place, str) and place not in labels and place.isdecimal():
        place = whole_number(place)
    if isinstance(place, int):
        if not 0 <= place < len(labels):
            raise ConfigError(f"{where}: there is no number {place}; numbers go from 0 to {len(labels) - 1}")
        return place
    indices = [i for i, label in enumerate(labels) if label == place]
    if not indices:
        raise ConfigError(f"{where}: no token '{place}'{suggest(place, labels)}")
    if len(indices) > 1:
        raise ConfigError(
            f"{where}: '{place}' occurs at {', '.join(map(str, indices[:-1]))} and {indices[-1]}; "
            "give one of these numbers"
        )
    return indices[0]


def name_of(index: int, labels: Sequence[str]) -> str:
    """Name of a token in messages, with its number if the token occurs more than once."""
    return f"{labels[index]} ({index})" if labels.count(labels[index]) > 1 else labels[index]


@cache
def _texts() -> dict[str, Any]:
    text = files("heed.lessons").joinpath("texts.yaml").read_text(encoding="utf-8")
    return yaml.safe_load(text)  # type: ignore[no-any-return]


@cache
def sentences_of(lesson: str) -> dict[str, dict[str, list[tuple[str, ...]]]]:
    """The examples that a lesson learns from, by kind and split; examples/data/lesson_sentences.py draws them."""
    examples: dict[str, dict[str, list[tuple[str, ...]]]] = {}
    table = bz2.decompress(files("heed.lessons").joinpath("sentences.tsv.bz2").read_bytes()).decode()
    for name, kind, split, *fields in (line.split("\t") for line in table.splitlines()):
        if name == lesson:
            examples.setdefault(kind, {}).setdefault(split, []).append(tuple(fields))
    return examples


def score_on_test(run: Any, name: str) -> float:
    """A score of a run on its test set."""
    return run.report["scores"]["test"][name]["value"]  # type: ignore[no-any-return]


class _Formatter(Formatter):
    """Also writes one of two texts: `{name:if true|if false}`."""

    def format_field(self, value: Any, format_spec: str) -> str:
        yes, choice, no = format_spec.partition("|")
        return (yes if value else no) if choice else str(super().format_field(value, format_spec))


_write = _Formatter().vformat


class Script:
    """The texts and tables of a lesson's stages from `texts.yaml`, which says how they are written.

    `labels` are further rows and columns of tables by name.
    """

    def __init__(self, lesson: str, **labels: Iterable[str]) -> None:
        self._labels: dict[str, Iterable[str]] = {**labels}
        self._stages: dict[str, list[str]] = {}
        for line in _texts()[lesson].replace("\n  ", " ").splitlines():
            name, _, title = line.partition("] ")
            if line.startswith("@"):
                label, _, names = line[1:].partition(": ")
                self._labels[label] = names.split(", ")
            elif line.startswith("["):
                parts = self._stages[name[1:]] = [title]
            else:
                parts.append(line)

    def __call__(self, name: str, *tables: Table, **results: Any) -> Stage:
        """A stage with the tables of the script below `tables`.

        `results` fill the text and the tables; tensors are the numbers of the stage. `lines` follow those of the text,
        `checks` are the values of `Check`, `moments` the noteworthy rows.
        """
        title, *parts = self._stages[name]
        prose, equation, below = (
            tuple(_write(part[2:], (), results) for part in parts if part[0] == mark) for mark in "-=*"
        )
        scripted = (self._table(part[2:], results) for part in parts if part[0] == "|")
        numbers = {key: value for key, value in results.items() if isinstance(value, Tensor)}
        checks = tuple(
            Check(what, stated, float(it), *within) for what, stated, it, *within in results.get("checks", ())
        )
        moments, lines = tuple(results.get("moments", ())), (*filter(None, below), *results.get("lines", ()))
        shown = (*tables, *scripted)
        return Stage(name, _write(title, (), results), prose, "".join(equation), numbers, shown, moments, lines, checks)

    def _table(self, written: str, results: Mapping[str, Any]) -> Table:
        """A table from its line in the script."""
        what, *labels = (_write(part, (), results) for part in written.split(" | "))
        key, _, title = what.partition(": ")
        named = {**results, **self._labels}
        rows, columns = (
            [item for part in some.split(", ") for item in (named[part[1:]] if part[0] == "@" else [part])]
            for some in labels[:2]
        )
        values = results[key]
        if values.dim() == 1:
            values = values.unsqueeze(1 if len(columns) == 1 and len(rows) > 1 else 0)
        return table_of(title, rows, columns, values, heat=len(labels) > 2, notes=tuple(named.get(f"{key}_notes", ())))


WORD_MODEL = "tokenizer.kind=word tokenizer.min_count=1 model.size=tiny model.dropout=0.0 training.label_smoothing=0.0"
"""Settings of small networks that read whole words."""
_SETTINGS = "training.validate_every=10000 training.threads=1 training.device=cpu evaluation.bootstrap=1"


_ON_UPDATE: ContextVar[Callable[[int, int], None] | None] = ContextVar("on_update", default=None)


@contextmanager
def training_progress(report: Callable[[int, int], None]) -> Iterator[None]:
    """Context manager in which `report(update, updates)` is called after each update of a lesson's network."""
    token = _ON_UPDATE.set(report)
    try:
        yield
    finally:
        _ON_UPDATE.reset(token)


def train_small(task: str, steps: int, settings: str, /, **data: Any) -> Any:
    """Train a network in a temporary folder; it is validated at the end only.

    Args:
        task: Name of the task.
        steps: Number of updates.
        settings: Fields as on the command line, "model.name=gpt model.size=tiny"; a repeated field has its last value.
        data: Passed to `heed.train` (a name, files or examples).
    """
    pairs = (field.partition("=") for field in f"{_SETTINGS} {settings}".split())
    fields = {name: yaml.safe_load(value) for name, _, value in pairs}
    report = _ON_UPDATE.get()
    callback = None if report is None else lambda event: report(event.step, steps)
    with tempfile.TemporaryDirectory() as folder:
        out = Path(folder) / "run"
        return train(task, steps=steps, out=out, settings=fields, quiet=True, callback=callback, **data)
