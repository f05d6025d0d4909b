"""Forecast rows: an array that knows its columns."""

from __future__ import annotations

from typing import Any, Self

import numpy as np

from heed.tasks.base.predictions import data_frame


class Forecast(np.ndarray[Any, np.dtype[np.float64]]):
    """The rows that follow a series, `(horizon, columns)`; `columns` are their names."""

    columns: tuple[str, ...]

    @classmethod
    def of(cls, values: Any, columns: tuple[str, ...]) -> Self:
        """An array with the names of its columns."""
        made = np.asarray(values, dtype=np.float64).view(cls)
        made.columns = columns
        return made

    def __array_finalize__(self, made: Any) -> None:
        """What is cut out of a forecast, or computed from it, keeps the names where it keeps the columns."""
        names = getattr(made, "columns", ())
        self.columns = names if self.ndim == 2 and self.shape[-1] == len(names) else ()

    def to_frame(self) -> Any:
        """As a data frame of pandas, a row for each forecast one.

        Raises:
            ConfigError: The library pandas is missing.
        """
        return data_frame(np.asarray(self), columns=list(self.columns) or None)
