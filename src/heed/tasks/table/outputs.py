"""Output of `heed predict` for rows: `label TAB probability`, one row a line, or JSON."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

from heed.tasks.base.outputs import FileOutputs, in_line
from heed.visible import to_json

if TYPE_CHECKING:
    from heed.tasks.table.run import TableRun


class TableOutputs(FileOutputs):
    """One line for each row of a file."""

    run: TableRun

    def write_file(self, path: Path) -> Iterator[str]:
        """The predicted label of each row."""
        for one in self.run.predict_rows(path):
            if self.options["json"]:
                yield to_json({"label": one.label, "probabilities": one.probabilities})
            else:
                yield f"{in_line(one.label)}\t{one.probability:.4f}"
