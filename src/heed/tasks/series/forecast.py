"""Forecast rows: an array with column names."""

from __future__ import annotations

from typing import Any, Self

import numpy as np

from heed.tasks.base.predictions import data_frame


class Forecast(np.ndarray[Any, np.dtype[np.float64]]):
    """Forecast of a series, `(horizon, columns)`; `columns` holds the column names."""

    columns: tuple[str, ...]

    @classmethod
    def of(cls, values: Any, columns: tuple[str, ...]) -> Self:
        """Make a forecast from an array and the names of its columns."""
        made = np.asarray(values, dtype=np.float64).view(cls)
        made.columns = columns
        return made

    def __array_finalize__(self, made: Any) -> None:
        """Keep the column names on slices and results that have as many columns; otherwise drop them."""
        names = getattr(made, "columns", ())
        self.columns = names if self.ndim == 2 and self.shape[-1] == len(names) else ()

    def to_frame(self) -> Any:
        """Convert to a pandas data frame, one row for each forecast row.

        Raises:
            ConfigError: pandas is not installed.
        """
        return data_frame(np.asarray(self), columns=list(self.columns) or None)
