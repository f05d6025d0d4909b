"""Output of forecasts: CSV with the columns of the series."""

from __future__ import annotations

import csv
import io
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from heed.tasks.base.outputs import FileOutputs
from heed.tasks.series.dates import date_column

if TYPE_CHECKING:
    from heed.tasks.series.run import SeriesRun


class SeriesOutputs(FileOutputs):
    """Forecasts of the series in a file."""

    run: SeriesRun
    _noted: Sequence[str] = ()

    def notes(self) -> list[str]:
        """Why the forecast has no dates although the file has some."""
        return [*self._noted]

    def write_file(self, path: Path) -> list[str]:
        """The header and one line for each forecast row; a column of dates is continued before the numbers."""
        columns = self.run.task.standard.columns
        rows = self.run.predict_file(path, self.options["horizon"])
        table: list[list[str]] = [[*columns], *([f"{value:.6g}" for value in row] for row in rows)]
        dates = date_column(path, columns)
        if dates is not None and dates.step is not None:
            table = [[date, *row] for date, row in zip([dates.name, *dates.following(len(rows))], table, strict=True)]
        elif dates is not None:
            self._noted = [f"the dates of column '{dates.name}' are not evenly spaced, so the forecast has no dates"]
        return [_line(row) for row in table]


def _line(row: Sequence[str]) -> str:
    """A CSV row without its line end."""
    text = io.StringIO()
    csv.writer(text, lineterminator="").writerow(row)
    return text.getvalue()
