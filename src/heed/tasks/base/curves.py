"""Training curves from the logs of run folders: loss, validation scores, learning rate, speed."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from heed import folder as folders
from heed.config import RunConfig
from heed.errors import RunError
from heed.observe.curves import Curves, Line, Panel
from heed.observe.shown import ShownCurves
from heed.tasks import check_config
from heed.training.progress import read_metrics

_BINS = 200
"""Most points of a curve that has a value for each update; more could not be distinguished."""
_UPDATE, _MINUTES = "update", "minutes of training"

Point = tuple[float, float]


@dataclass(frozen=True)
class Log:
    """The updates and validations that a run has logged, in order."""

    updates: tuple[dict[str, Any], ...]
    validations: tuple[dict[str, Any], ...]

    @classmethod
    def read(cls, folder: Path) -> Log:
        """Read `metrics.jsonl`; if an update was logged twice, the later line counts."""
        by_kind: dict[str, dict[int, dict[str, Any]]] = {"update": {}, "validation": {}}
        for event in read_metrics(folder / folders.METRICS):
            if event["event"] in by_kind:
                by_kind[event["event"]][event["step"]] = event
        updates, validations = ([each[step] for step in sorted(each)] for each in by_kind.values())
        return cls(tuple(updates), tuple(validations))

    @property
    def seconds(self) -> float:
        """Time of all updates, without validations."""
        return float(sum(event["seconds"] for event in self.updates))

    @property
    def scores(self) -> list[str]:
        """Names of the validation scores, without the loss."""
        names = {name: None for event in self.validations for name in event}
        return [name for name in names if name not in ("event", "step", "loss")]

    def places(self, x: str) -> dict[int, float]:
        """Position of each update on the x axis."""
        if x == _UPDATE:
            return {event["step"]: event["step"] for event in (*self.updates, *self.validations)}
        places, passed = {}, 0.0
        for event in self.updates:
            passed += event["seconds"] / 60
            places[event["step"]] = passed
        return places

    @property
    def bin_size(self) -> int:
        """Number of updates that one point of a curve summarises."""
        return max(1, math.ceil(len(self.updates) / _BINS))

    def binned(self, x: str, value: Callable[[Sequence[dict[str, Any]]], float]) -> tuple[Point, ...]:
        """Points of a curve: a value of each group of consecutive updates, at the last of them."""
        places, size = self.places(x), self.bin_size
        parts = (self.updates[i : i + size] for i in range(0, len(self.updates), size))
        return _finite((places[part[-1]["step"]], value(part)) for part in parts)

    def validated(self, x: str, name: str) -> tuple[Point, ...]:
        """Points of a curve: a score at each validation."""
        places = self.places(x)
        found = ((event["step"], event[name]) for event in self.validations if name in event)
        return _finite((places[step], float(value)) for step, value in found if step in places)

    def best(self, select_by: str) -> dict[str, Any] | None:
        """The best validation; the first of equal ones."""
        best: tuple[tuple[float, ...], dict[str, Any]] | None = None
        for event in self.validations:
            loss = event["loss"] if math.isfinite(event["loss"]) else math.inf
            rank = (-loss,) if select_by == "loss" else (event.get(select_by, -math.inf), -loss)
            if best is None or rank > best[0]:
                best = rank, event
        return best[1] if best is not None else None


def _finite(points: Iterator[Point]) -> tuple[Point, ...]:
    return tuple((x, y) for x, y in points if math.isfinite(y))


def _loss(part: Sequence[dict[str, Any]]) -> float:
    """Mean loss of some updates, each weighted by its targets."""
    weights = [event.get("tokens") or 1 for event in part]
    return float(sum(event["loss"] * w for event, w in zip(part, weights, strict=True)) / sum(weights))


def _rate(part: Sequence[dict[str, Any]]) -> float:
    return float(part[-1]["learning_rate"])


def _speed(part: Sequence[dict[str, Any]]) -> float:
    return len(part) / max(1e-9, float(sum(event["seconds"] for event in part)))


def _said(name: str) -> str:
    return name.replace("_", " ")


def curves_of(folder: Path, config: RunConfig | None = None, force: bool = False) -> ShownCurves:
    """The curves of one run, finished or not.

    Args:
        folder: The run folder.
        config: Configuration of the run; read from the folder by default.
        force: Accept a missing or altered configuration or report, with a warning.

    Raises:
        RunError: The folder is not a run folder or is damaged, or no update was logged.
    """
    if config is None:
        folders.check_format(folder)
        folders.verify(folder, [folders.CONFIG, folders.REPORT], force)
        config = check_config(*folders.read_settings(folder))
    log = Log.read(folder)
    if not log.updates and (source := getattr(config.data, "imported", None)) is not None:
        raise RunError(f"'{folder}' was imported from {source}, so it has no training curves; give a text to look at")
    if not log.updates:
        raise RunError(f"{folder / folders.METRICS} has no updates yet, so there are no curves to draw")
    select_by = config.evaluation.select_by
    best = log.best(select_by)
    finished = (folder / folders.WEIGHTS).is_file()  # the card is drawn before the folder is sealed
    mark = None if best is None else (float(best["step"]), "kept" if finished else "best so far")
    training = [Line("training", log.binned(_UPDATE, _loss), 0)]
    training += [
        Line(_said(name).removeprefix("loss."), log.binned(_UPDATE, _part_of(name)), 2 + i)
        for i, name in enumerate(n for n in log.updates[-1] if n.startswith("loss."))
    ]
    validated = [Line("validation", log.validated(_UPDATE, "loss"), 1, dots=True)]
    panels = [Panel("loss", _kept([*training, *validated]), mark)]
    scores = sorted(log.scores, key=lambda name: name != select_by)
    panels += [Panel(_said(n), _kept([Line("", log.validated(_UPDATE, n), 1, dots=True)]), mark) for n in scores]
    panels.append(Panel("learning rate", _kept([Line("", log.binned(_UPDATE, _rate), 0)]), whole=True))
    panels.append(Panel("updates per second", _kept([Line("", log.binned(_UPDATE, _speed), 0)]), whole=True))
    title = f"{config.model.name} on {config.data.name} ({folder.name})"
    facts = tuple(_facts(folder, config, log, best))
    return ShownCurves(Curves(title, facts, _UPDATE, tuple(panel for panel in panels if panel.lines)))


def _part_of(name: str) -> Callable[[Sequence[dict[str, Any]]], float]:
    return lambda part: sum(event.get(name, 0.0) for event in part) / len(part)


def _kept(lines: list[Line]) -> tuple[Line, ...]:
    return tuple(line for line in lines if line.points)


def _facts(folder: Path, config: RunConfig, log: Log, best: dict[str, Any] | None) -> Iterator[str]:
    done, seconds = len(log.updates), log.seconds
    training = folders.read_report(folder).get("training", {})
    finished = (folder / folders.WEIGHTS).is_file()  # the card is drawn before the folder is sealed
    ended = f"; {training['ended']}" if finished and "ended" in training else "" if finished else "; not finished"
    count = len(log.validations)
    yield (
        f"{done:,} update{'' if done == 1 else 's'} in {seconds:,.1f} s of training, {count} "
        f"validation{'' if count == 1 else 's'}{ended}"
    )
    if best is not None:
        names = dict.fromkeys((config.evaluation.select_by, "loss"))
        scores = ", ".join(f"{_said(name)} {best[name]:.4g}" for name in names if name in best)
        where = f"update {best['step']}"
        if not (finished and "kept" in training):
            yield f"best validation so far: {where} ({scores})"
        elif training["kept"] == where:
            yield f"kept the weights of {where}, the best on the validation set ({scores})"
        else:
            yield f"kept the weights of {training['kept']}; best validation of a single update: {where} ({scores})"
    if log.bin_size > 1:
        yield f"each point of training loss and speed is a mean over {log.bin_size} updates"
    if config.training.label_smoothing:
        yield f"the training loss includes label smoothing ({config.training.label_smoothing:g})"


def compared(runs: Sequence[tuple[str, int, Path, RunConfig]]) -> Curves | None:
    """The curves of several runs on common axes; None if none of them has logged an update.

    The x axis is updates if every run has its budget in steps, else minutes of training.

    Args:
        runs: Name, number of the colour, folder and configuration of each run.
    """
    logs = [(label, color, Log.read(folder)) for label, color, folder, _ in runs]
    logs = [entry for entry in logs if entry[2].updates]
    if not logs:
        return None
    x = _UPDATE if all(config.training.steps is not None for *_, config in runs) else _MINUTES
    select_by = runs[0][3].evaluation.select_by
    scores = dict.fromkeys(name for *_, log in logs for name in log.scores)
    panels = [
        _panel("training loss", [Line(label, log.binned(x, _loss), color) for label, color, log in logs]),
        _panel("validation loss", [Line(label, log.validated(x, "loss"), color, True) for label, color, log in logs]),
        *(
            _panel(_said(name), [Line(label, log.validated(x, name), color, True) for label, color, log in logs])
            for name in sorted(scores, key=lambda name: name != select_by)
        ),
        _panel("learning rate", [Line(label, log.binned(x, _rate), color) for label, color, log in logs], True),
        _panel("updates per second", [Line(label, log.binned(x, _speed), color) for label, color, log in logs], True),
    ]
    return Curves("Training", (), x, tuple(panel for panel in panels if panel.lines), x == _MINUTES)


def _panel(title: str, lines: list[Line], whole: bool = False) -> Panel:
    return Panel(title, _kept(lines), whole=whole)
