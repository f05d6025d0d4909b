"""Forecasts as arrays that know their columns and dates."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Self

import numpy as np
import pandas as pd

from heed.tasks.inputs.series import NamedSeries


class Forecast(np.ndarray[Any, np.dtype[np.float64]]):
    """Forecast of a series, `(horizon, columns)`, or of several, one below the other.

    `columns` holds the column names, `keys` a data frame with the series' name and the date of each row, if known.
    """

    columns: tuple[str, ...]
    keys: pd.DataFrame | None

    @classmethod
    def of(cls, values: Any, columns: tuple[str, ...], keys: pd.DataFrame | None = None) -> Self:
        """Make a forecast from an array, the names of its columns, and its keys."""
        made = np.asarray(values, dtype=np.float64).view(cls)
        made.columns, made.keys = columns, keys
        return made

    @classmethod
    def following(cls, values: Any, columns: tuple[str, ...], series: Sequence[NamedSeries]) -> Self:
        """The rows that follow each of several series, as many of each, with the dates that continue theirs."""
        first, horizon = series[0], len(values) // len(series)
        keys = pd.DataFrame({first.by: np.repeat([one.name for one in series], horizon)} if first.by else {})
        if all(one.step for one in series):
            lines = [(one.timeline, int(one.order[-1])) for one in series if one.timeline is not None]
            dates = [date for line, row in lines for date in line.following(row, horizon)]
            keys = pd.concat([keys, pd.DataFrame(dates, columns=list(lines[0][0].column.names))], axis=1)
        if first.indexed in keys.columns:
            keys = keys.set_index(first.indexed)
        return cls.of(values, columns, keys if len(keys) else None)

    def __array_finalize__(self, made: Any) -> None:
        """Keep the column names on slices and results that have as many columns; otherwise drop them."""
        names, self.keys = getattr(made, "columns", ()), None
        self.columns = names if self.ndim == 2 and self.shape[-1] == len(names) else ()

    def to_frame(self) -> pd.DataFrame:
        """Convert to a pandas data frame, one row for each forecast row: name of the series, date, values.

        Dates that were in the index of a data frame are the index.
        """
        index = None if self.keys is None else self.keys.index
        values = pd.DataFrame(np.asarray(self), index=index, columns=list(self.columns) or None)
        return values if self.keys is None else pd.concat([self.keys, values], axis=1)
