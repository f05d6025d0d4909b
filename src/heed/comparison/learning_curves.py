"""Output of learning curves: text with a drawing, CSV, JSON, LaTeX, an image, a page."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

from heed.comparison import learning_chart, learning_files
from heed.comparison.drawn_tables import in_html, in_text
from heed.comparison.files import save_texts
from heed.comparison.learning import Learned
from heed.comparison.learning_chart import as_curves
from heed.comparison.learning_tables import learning_tables
from heed.observe.curves_text import curves_to_text

_ROWS, _WIDEST = 14, 100


class LearningCurves(Learned):
    """Models trained on increasing numbers of examples; a notebook displays the drawing and the tables."""

    rows = property(learning_files.learning_rows)
    """One dictionary per model and size."""
    to_latex = learning_files.learning_latex
    """The tables in LaTeX; needs the package booktabs."""
    to_csv = learning_files.learning_csv
    """`rows` with a header."""
    to_json = learning_files.learning_json
    """`rows` and notes on them."""
    to_html = learning_files.learning_html
    """One self-contained page: drawing and tables."""
    to_svg = learning_chart.learning_svg
    """The drawing."""

    def text(self, width: int = 100, color: bool = False) -> str:
        """The curves of the main score and the tables for a terminal."""
        curves = as_curves(self)
        main = replace(curves, panels=curves.panels[:1])
        drawn = curves_to_text(main, width=min(width, _WIDEST), color=color, rows=_ROWS)
        return f"{drawn}\n\n{in_text(learning_tables(self), width, color)}"

    def save(self, folder: str | Path) -> list[Path]:
        """Write compare.html, .svg, .tex, .csv and .json into a folder; returns the files.

        Raises:
            ConfigError: The folder cannot be made.
            DiskError: The disk is full or writing fails; older files stay.
        """
        texts = {
            "html": self.to_html(),
            "svg": self.to_svg(),
            "tex": self.to_latex(),
            "csv": self.to_csv(),
            "json": self.to_json(),
        }
        return save_texts(Path(folder), texts)

    def _repr_html_(self) -> str:
        return f"{self.to_svg()}\n{in_html(learning_tables(self))}"

    def __repr__(self) -> str:
        sizes = ", ".join(size.label for size in self.sizes)
        return f"<learning curves of {', '.join(self.models)} on {sizes} {self.unit}; print them>"

    def __str__(self) -> str:
        return self.text()
