"""Written forecasts: CSV with the columns of the series."""

from __future__ import annotations

import csv
import io
from pathlib import Path
from typing import TYPE_CHECKING

from heed.tasks.base.outputs import FileOutputs

if TYPE_CHECKING:
    from heed.tasks.series.run import SeriesRun


class SeriesOutputs(FileOutputs):
    """The rows that follow those of a file."""

    run: SeriesRun

    def write_file(self, path: Path) -> list[str]:
        """The header, and a line for each forecast row."""
        rows = self.run.predict_file(path, self.options["horizon"])
        buffer = io.StringIO()
        table = [self.run.task.standard.columns, *([f"{value:.6g}" for value in row] for row in rows)]
        csv.writer(buffer, lineterminator="\n").writerows(table)
        return buffer.getvalue().splitlines()
