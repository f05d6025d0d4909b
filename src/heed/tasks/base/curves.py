"""Training curves from the logs of run folders: loss, validation scores, learning rate, speed."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from heed import folder as folders
from heed.config import RunConfig
from heed.errors import RunError
from heed.show.curves import Curves, Line, Panel
from heed.show.shown import ShownCurves
from heed.tasks import check_config
from heed.tasks.base.report import counted
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
        scores = ((event["step"], event[name]) for event in self.validations if name in event)
        return _finite((places[step], float(value)) for step, value in scores if step in places)

    def best(self, select_by: str) -> dict[str, Any] | None:
        """The best validation; the first of equal ones."""

        def rank(event: dict[str, Any]) -> tuple[float, ...]:
            loss = event["loss"] if math.isfinite(event["loss"]) else math.inf
            return (-loss,) if select_by == "loss" else (event.get(select_by, -math.inf), -loss)

        return max(self.validations, key=rank, default=None)


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


def _readable(name: str) -> str:
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
    if not (folder / folders.METRICS).exists() and folders.state_of(folder) is folders.State.FINISHED:
        why = f"'{folder.name}' has no {folders.METRICS}, so it has no training curves"
        raise RunError(f"{why}; give a text to look at")
    if not log.updates:
        raise RunError(f"{folder / folders.METRICS} has no updates yet, so there are no curves to draw")
    select_by = config.evaluation.select_by
    best = log.best(select_by)
    finished = (folder / folders.WEIGHTS).is_file()  # the card is drawn before the folder is sealed
    mark = None if best is None else (float(best["step"]), "kept" if finished else "best so far")
    training = [Line("training", log.binned(_UPDATE, _loss), 0)]
    training += [
        Line(_readable(name).removeprefix("loss."), log.binned(_UPDATE, _part_of(name)), 2 + i)
        for i, name in enumerate(n for n in log.updates[-1] if n.startswith("loss."))
    ]
    validated = [Line("validation", log.validated(_UPDATE, "loss"), 1, dots=True)]
    panels = [Panel("loss", (*training, *validated), mark), *_panels([("", 0, log)], _UPDATE, select_by, mark, 1)]
    title = f"{config.model.name} on {config.data.name} ({folder.name})"
    return ShownCurves(Curves(title, tuple(_facts(folder, config, log, best)), _UPDATE, _filled(panels)))


def _part_of(name: str) -> Callable[[Sequence[dict[str, Any]]], float]:
    return lambda part: sum(event.get(name, 0.0) for event in part) / len(part)


def _panels(
    logs: Sequence[tuple[str, int, Log]],
    x: str,
    select_by: str,
    mark: tuple[float, str] | None = None,
    further: int = 0,
) -> Iterator[Panel]:
    """Panels of scores, learning rate and speed of runs with their labels and colours.

    `further` is added to the colours of scores.
    """
    scores = dict.fromkeys(name for *_, log in logs for name in log.scores)
    for name in sorted(scores, key=lambda name: name != select_by):
        lines = (Line(label, log.validated(x, name), color + further, dots=True) for label, color, log in logs)
        yield Panel(_readable(name), tuple(lines), mark)
    for title, value in (("learning rate", _rate), ("updates per second", _speed)):
        yield Panel(title, tuple(Line(label, log.binned(x, value), color) for label, color, log in logs), whole=True)


def _filled(panels: Iterable[Panel]) -> tuple[Panel, ...]:
    """The panels and lines that have points."""
    filled = (replace(panel, lines=tuple(line for line in panel.lines if line.points)) for panel in panels)
    return tuple(panel for panel in filled if panel.lines)


def _facts(folder: Path, config: RunConfig, log: Log, best: dict[str, Any] | None) -> Iterator[str]:
    done, seconds = len(log.updates), log.seconds
    training = folders.read_report(folder).get("training", {})
    finished = (folder / folders.WEIGHTS).is_file()  # the card is drawn before the folder is sealed
    ended = f"; {training['ended']}" if finished and "ended" in training else "" if finished else "; not finished"
    count = counted(len(log.validations), "validation")
    yield f"{counted(done, 'update')} in {seconds:,.1f} s of training, {count}{ended}"
    if best is not None:
        names = dict.fromkeys((config.evaluation.select_by, "loss"))
        scores = ", ".join(f"{_readable(name)} {best[name]:.4g}" for name in names if name in best)
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
    training = tuple(Line(label, log.binned(x, _loss), color) for label, color, log in logs)
    validated = tuple(Line(label, log.validated(x, "loss"), color, True) for label, color, log in logs)
    panels = [Panel("training loss", training), Panel("validation loss", validated)]
    panels += _panels(logs, x, runs[0][3].evaluation.select_by)
    return Curves("Training", (), x, _filled(panels), x == _MINUTES)
