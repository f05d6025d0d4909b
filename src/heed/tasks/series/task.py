"""Series: forecasts of series of numbers, by a network that reads from left to right."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import pandas as pd

from heed.errors import ConfigError
from heed.tasks.base.looking import Units, Words, encoder_frames, gate_maps, networks, notes_on, views_of_text, watched
from heed.tasks.base.predictions import FileOutputs, csv_row
from heed.tasks.heads.next_row import Forecaster, NextRow
from heed.tasks.inputs.windows import Stretch, Windows
from heed.tasks.work import Looks, Task, Work
from heed.watch.edits import Edit
from heed.watch.looks import Choice, Look
from heed.watch.maps import Axis
from heed.watch.trace import edit


class SeriesOutputs(FileOutputs):
    """Forecasts of the series in a file."""

    _noted: Sequence[str] = ()

    def notes(self) -> list[str]:
        return [*self._noted]

    def write_file(self, path: Path) -> list[str]:
        series = self.run.input.read(path)
        (forecast,) = self.run.predicted(self.run.input.continuations(series), horizon=self.options["horizon"])
        lines = [one.timeline for one in series if one.timeline is not None]
        uneven = [line.column.names[0] for line in lines if line.step is None]
        if uneven:
            self._noted = [f"the dates of column '{uneven[0]}' are not evenly spaced, so the forecast has no dates"]
        keys = pd.DataFrame(index=range(len(forecast))) if forecast.keys is None else forecast.keys
        numbers = ([f"{value:.6g}" for value in row] for row in forecast)
        rows = [[*map(str, key), *row] for key, row in zip(keys.itertuples(index=False), numbers, strict=True)]
        return [csv_row(row) for row in [[*keys.columns, *forecast.columns], *rows]]


def look_at_series(
    work: Work,
    model: Forecaster,
    series: Stretch,
    *,
    edits: Sequence[Edit] = (),
    title: str = "",
    choice: Choice | None = None,
    units: Units | None = None,
) -> Look:
    """Show how a model reads the last `data.window` rows of a series: its attention, gates and states.

    Raises:
        ConfigError: The model does not have this attention, or no attention at all.
    """
    assert isinstance(work.input, Windows)
    window, columns, choice = work.input.window, work.input.columns, choice or Choice()
    encoded = work.input.encode([series])
    values = work.input.collate(encoded, [0], None).to(next(model.parameters()).device).inputs["values"]
    with edit(model, *edits), watched(model) as seen:
        said = model(values)
    count, first = values.shape[1], len(series.values) - values.shape[1]
    if not seen.mechanisms() and (choice != Choice() or edits):
        raise ConfigError(f"model {work.config.model.name} has no attention; a look shows its gates")
    choice.check(seen.mechanisms())
    labels = tuple(str(first + n + 1) for n in range(count))
    places = Words.counted(Axis("rows", "row", labels), [1] * count)
    views, nets = views_of_text(seen, choice, places, count), networks(seen, count)
    shown = [_row(columns, row) for row in series.values[first:]]
    lines = tuple(f"row {label}: {row}" for label, row in zip(labels, shown, strict=True))
    following = work.head.predict(said[0, -1:].double().cpu(), series, work.input)
    blocks = {f"layer {n}": states[0] for n, states in enumerate(seen.tensors("states"))}
    return Look(
        title or work.title,
        series.origin,
        f"row {len(series.values) + 1}: {_row(columns, following[0])}",  # type: ignore[index]
        (
            *(view.map for view in views),
            *gate_maps([(net, places) for net in nets], work.config.model.name, bool(nets), units),
        ),
        encoder_frames(nets, replace(places, axis=Axis("rows", "row", lines)), blocks, views),
        (),
        (f"read: rows {labels[0]} to {labels[-1]} (data.window {window})", *notes_on((), edits)),
        names=("series", "next"),
        parts=(("series", "reads"), ("", "")),
        unit="row",
    )


def readable(work: Work, text: Any) -> Stretch:
    """The series to look at, of a file or of Python data."""
    assert isinstance(work.input, Windows)
    is_file, input = isinstance(text, str | Path), work.input
    series, name = (input.read(Path(text)), Path(text).name) if is_file else (input.series_of(text), "series")
    if len(series) > 1:
        raise ConfigError(f"{name} has {len(series)} series; a look shows one, so give the rows of one")
    values = series[0].numbers(input.columns)
    return Stretch(values, len(values), name)


def _row(columns: Sequence[str], row: Any) -> str:
    return ", ".join(f"{column} {value:.6g}" for column, value in zip(columns, row.tolist(), strict=True))


TASK = Task(
    "series",
    input=Windows(),
    head=NextRow("numbers"),
    looks=Looks(at=look_at_series, readable=readable),
    outputs=SeriesOutputs,
    enough_updates=300,
    cannot={"ensemble": "", "errors": ""},
)
