"""Series: forecasts of series of numbers, by a network that reads from left to right."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

from heed.errors import ConfigError
from heed.evaluation.forecasts import Values
from heed.observe.looks import Look
from heed.observe.maps import Axis
from heed.observe.shown import ShownLook
from heed.tasks.base.looking import Units, Words, encoder_frames, gate_maps, networks, watched
from heed.tasks.base.predictions import FileOutputs, csv_row
from heed.tasks.heads.next_row import Forecaster, NextRow
from heed.tasks.inputs.rows import standardised
from heed.tasks.inputs.windows import Windows
from heed.tasks.run import Run
from heed.tasks.series.forecast import Forecast
from heed.tasks.work import Looks, Task, Work


def predict_file(run: Run, path: str | Path, horizon: int | None = None) -> Forecast:
    """Forecast the rows that follow those of each series in a file with the run's columns."""
    assert isinstance(run.input, Windows)
    (forecast,) = run.predicted(run.input.unknown(run.input.read(Path(path))), horizon=horizon)
    return forecast  # type: ignore[no-any-return]


class SeriesOutputs(FileOutputs):
    """Forecasts of the series in a file."""

    _noted: Sequence[str] = ()

    def notes(self) -> list[str]:
        return [*self._noted]

    def write_file(self, path: Path) -> list[str]:
        series = self.run.input.read(path)
        (forecast,) = self.run.predicted(self.run.input.unknown(series), horizon=self.options["horizon"])
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
    values: Values,
    *,
    name: str = "series",
    title: str = "",
    units: Units | None = None,
) -> Look:
    """Show how a model reads the last `data.window` rows of a series `(rows, columns)`, from which it forecasts.

    Raises:
        ConfigError: The model has no recurrent network, so there are no gates or states to show.
    """
    assert isinstance(work.input, Windows) and work.input.standard is not None
    window, columns, standard = work.input.window, work.input.columns, work.input.standard
    read, first = values[-window:], max(0, len(values) - window)
    rows = standardised(standard, read).unsqueeze(0).to(next(model.parameters()).device)
    with watched(model) as seen:
        said = model(rows)[0, -1:]
    nets = networks(seen, len(read))
    if not nets:
        raise ConfigError(f"model {work.config.model.name} has no recurrent network, so there are no gates to look at")
    labels = tuple(str(first + n + 1) for n in range(len(read)))
    places = Words.counted(Axis("rows", "row", labels), [1] * len(read))
    shown = [", ".join(f"{c} {v:.6g}" for c, v in zip(columns, row, strict=True)) for row in read.tolist()]
    lines = tuple(f"row {label}: {row}" for label, row in zip(labels, shown, strict=True))
    following = standard.undo(said.float().cpu().numpy().astype(np.float64))[0]
    numbers = ", ".join(f"{c} {v:.6g}" for c, v in zip(columns, following.tolist(), strict=True))
    return Look(
        title or work.title,
        name,
        f"row {len(values) + 1}: {numbers}",
        gate_maps(((net, places) for net in nets), work.config.model.name, True, units),
        encoder_frames(nets, Words.counted(Axis("rows", "row", lines), [1] * len(read))),
        (),
        (f"read: rows {labels[0]} to {labels[-1]} (data.window {window})",),
        names=("series", "next"),
        parts=(("series", "reads"), ("", "")),
        unit="row",
    )


def look(
    run: Run,
    text: Any,
    *,
    steps: bool = False,
    mechanism: str | None = None,
    layer: int | str = -1,
    head: int | str = "mean",
    edits: Sequence[Any] = (),
    units: Units | None = None,
) -> ShownLook:
    """Show gates and states of the network for each row that a forecast is made from.

    Args:
        run: The run.
        text: A file with the run's columns, or rows in any form that `predict` accepts.
        steps: Whether to show every step.
        mechanism: Not applicable: the model has no attention.
        layer: As `mechanism`.
        head: As `mechanism`.
        edits: As `mechanism`.
        units: Also draw single units: the N of largest variance, or those with these numbers.

    Raises:
        ConfigError: One of these is given, or the series has no rows.
    """
    assert isinstance(run.input, Windows)
    if mechanism is not None or layer != -1 or head != "mean" or edits:
        raise ConfigError(f"model {run.config.model.name} has no attention; a look shows its gates")
    is_file = isinstance(text, str | Path)
    series, name = (run.input.read(Path(text)), Path(text).name) if is_file else (run.input.held(text), "series")
    if len(series) > 1:
        raise ConfigError(f"{name} has {len(series)} series; a look shows one, so give the rows of one")
    values = series[0].numbers(run.input.columns)
    return ShownLook(look_at_series(run.task, run.model, values, name=name, title=run.title, units=units), steps)


TASK = Task(
    "series",
    input=Windows(),
    head=NextRow("numbers"),
    looks=Looks(look=look),
    outputs=SeriesOutputs,
    enough_updates=300,
    cannot={"ensemble": "", "errors": ""},
)
