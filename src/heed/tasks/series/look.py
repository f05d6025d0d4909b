"""Looks at series: gates and states of the network over the last rows, and the forecast of the next row."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from heed.errors import ConfigError
from heed.observe.frames import Look
from heed.observe.maps import Axis
from heed.tasks.base.looking import Words, encoder_frames, networks, watched
from heed.tasks.series.model import Forecaster
from heed.tasks.series.task import Series


def look_at_series(
    task: Series, model: Forecaster, values: NDArray[np.float64], *, name: str = "series", title: str = ""
) -> Look:
    """Show how a model reads the last `data.window` rows of a series, from which it forecasts.

    Args:
        task: The series task.
        model: The forecaster.
        values: The series, `(rows, columns)`.
        name: Name of the series in the look.
        title: Title of the look.

    Raises:
        ConfigError: The model has no recurrent network, so there are no gates or states to show.
    """
    window, columns = task.config.data.window, task.standard.columns
    read, first = values[-window:], max(0, len(values) - window)
    rows = task.tensor(read).unsqueeze(0).to(next(model.parameters()).device)
    with watched(model) as seen:
        said = model(rows)[0, -1:]
    nets = networks(seen, len(read))
    if not nets:
        raise ConfigError(f"model {task.config.model.name} has no recurrent network, so there are no gates to look at")
    labels = tuple(str(first + n + 1) for n in range(len(read)))
    places = Words.counted(Axis("rows", "row", labels), [1] * len(read))
    shown = [", ".join(f"{c} {v:.6g}" for c, v in zip(columns, row, strict=True)) for row in read.tolist()]
    lines = tuple(f"row {label}: {row}" for label, row in zip(labels, shown, strict=True))
    following = task.standard.undo(said.float().cpu().numpy().astype(np.float64))[0]
    numbers = ", ".join(f"{c} {v:.6g}" for c, v in zip(columns, following.tolist(), strict=True))
    return Look(
        title or task.title,
        name,
        f"row {len(values) + 1}: {numbers}",
        tuple(net.traces(places) for net in nets),
        encoder_frames(nets, Words.counted(Axis("rows", "row", lines), [1] * len(read))),
        (),
        (f"read: rows {labels[0]} to {labels[-1]} (data.window {window})",),
        names=("series", "next"),
        parts=(("series", "reads"), ("", "")),
        unit="row",
    )
