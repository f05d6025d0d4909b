"""A grid of layers by positions of a text, with a number and in some grids a text in each cell, in every format."""

from __future__ import annotations

import textwrap
from dataclasses import dataclass
from typing import Any, ClassVar

from torch import Tensor

from heed.errors import ShapeError
from heed.observe import palette
from heed.observe.maps import Axis, axis_name, cut, lines_up, shaded
from heed.observe.page import Cell, Row, draw, look_page
from heed.observe.plain import Arrays, read_value
from heed.observe.scene import Box, Label, Scene
from heed.observe.shown import KeptShown
from heed.visible import clean, visible

_LONGEST = 14
_MARGIN, _LINE, _HEIGHT, _ADVANCE = 16, 18, 26, 7.0


@dataclass(frozen=True, eq=False, repr=False)
class Grid(KeptShown):
    """Numbers of `rows` by `columns`; those of a signed grid may be below 0, which is drawn in another colour."""

    form: ClassVar[str] = "heed-grid-1"

    title: str
    rows: Axis  # the layers
    columns: Axis  # the positions
    values: Tensor  # `(rows, columns)`; 1 is drawn darkest
    caption: str  # what was computed
    texts: tuple[tuple[str, str], ...] = ()  # names and texts above the grid
    notes: tuple[str, ...] = ()
    tokens: tuple[tuple[str, ...], ...] = ()  # a text for each cell, or none
    signed: bool = False

    def __post_init__(self) -> None:
        if self.values.shape != (len(self.rows), len(self.columns)):
            raise ShapeError(f"values have shape {tuple(self.values.shape)}, expected a row for each layer")
        if not self.signed and bool((self.values < 0).any()):
            raise ShapeError("values are below 0, which only a signed grid can show")

    def _cell(self, i: int, j: int, longest: int = _LONGEST) -> str:
        number = f"{round(float(self.values[i, j]), 2) + 0.0:.2f}"
        return f"{cut(visible(self.tokens[i][j]), longest)} {number}" if self.tokens else number

    @property
    def _scale(self) -> str:
        return "0 to 1; orange, or -, below 0" if self.signed else "0 to 1"

    def text(self, width: int = 100, color: bool = False) -> str:
        column = max(7, *(len(name) for name, _ in self.texts), 0) if self.texts else 7
        lines = [clean(self.title), *(f"{name:{column}} {clean(text)}" for name, text in self.texts)]
        lines += [f"{'note':{column}} {clean(note)}" for note in self.notes]
        lines += ["", *textwrap.wrap(clean(self.caption), width), ""]
        labels = [visible(label) for label in self.columns.labels]
        if not all(map(lines_up, (*labels, *(token for row in self.tokens for token in row)))):
            return "\n".join([*lines, *self._listed()])
        head, size = max(map(len, self.rows.labels)), 1 + max(map(len, map(self._cell, *self._places())))
        size = max(size, min(_LONGEST, max(map(len, labels))))
        each = max(1, (width - head) // (size + 1))
        for start in range(0, len(labels), each):
            part = range(start, min(start + each, len(labels)))
            lines.append(f"{'':{head}}" + "".join(f" {cut(labels[j], size):>{size}}" for j in part))
            for i, label in enumerate(self.rows.labels):
                lines.append(f"{label:>{head}}" + "".join(f" {self._drawn(i, j, size, color)}" for j in part))
            lines.append("")
        return "\n".join([*lines, self._scale])

    def _places(self) -> tuple[list[int], list[int]]:
        count = len(self.columns)
        places = range(len(self.rows) * count)
        return [n // count for n in places], [n % count for n in places]

    def _drawn(self, i: int, j: int, size: int, color: bool) -> str:
        value = float(self.values[i, j])
        if color:
            return palette.paint(f"{self._cell(i, j):>{size}}", value, self.signed)
        return f"{shaded(abs(value), '·')}{self._cell(i, j)}".rjust(size)

    def _listed(self) -> list[str]:
        """A line for each cell, labels last, for those without a fixed width."""
        lines = []
        for j, label in enumerate(self.columns.labels):
            lines.append(f"{j + 1}: {visible(label)}")
            for i, row in enumerate(self.rows.labels):
                said = f"  {visible(self.tokens[i][j])}" if self.tokens else ""
                lines.append(f"  {row}  {float(self.values[i, j]):.2f}{said}")
        return lines

    def html(self) -> str:
        rows = []
        for i, label in enumerate(self.rows.labels):
            cells = []
            for j, value in enumerate(self.values[i].tolist()):
                kind = palette.signed_level(value) if self.signed else f"w{palette.level(value)}"
                cells.append(Cell(self._cell(i, j, 40), kind=kind, said=f"{value:.4f}"))
            rows.append(Row(label, cells))
        table = draw("tabular", self.title, ["", *map(visible, self.columns.labels)], rows)
        parts = [draw("hint", f"{self.caption} Scale: {self._scale}."), table]
        return look_page(self.title, parts, texts=self.texts, notes=self.notes)

    def scene(self, index: int | None = None) -> Scene:
        labels = [cut(visible(label), _LONGEST) for label in self.columns.labels]
        size = max(len(self._cell(i, j)) for i, j in zip(*self._places(), strict=True))
        wide = max(36.0, _ADVANCE * max(size, *map(len, labels)) + 8)
        left = _MARGIN + _ADVANCE * max(map(len, self.rows.labels)) + 8
        width = max(left + wide * len(labels) + _MARGIN, 480)
        scene = Scene(width, 0, clean(self.title))
        about = [f"{name}: {text}" for name, text in self.texts] + [*self.notes, self.caption, f"scale: {self._scale}"]
        lines = [line for text in about for line in textwrap.wrap(clean(text), int((width - 2 * _MARGIN) / 6.4))]
        top = scene.write([clean(self.title)], _MARGIN, _MARGIN + 12, "title", _LINE)
        top = scene.write(lines, _MARGIN, top, "small", _LINE) + _LINE
        scene.add(Label(left + wide * (j + 0.5), top - 6, label, "middle") for j, label in enumerate(labels))
        for i, row in enumerate(self.rows.labels):
            y = top + _HEIGHT * i
            scene.add([Label(left - 6, y + 17, row, "row")])
            for j, value in enumerate(self.values[i].tolist()):
                color = palette.signed_shade(value) if self.signed else palette.shade(value)
                said, x = f"{row}, {visible(self.columns.labels[j])}: {self._cell(i, j, 40)}", left + wide * j
                scene.add([Box(x, y, wide, _HEIGHT, color, said, kind="cell")])
                shown = Label(x + wide / 2, y + 17, self._cell(i, j), "number", color=palette.ink(color))
                scene.add([shown])
        scene.height = top + _HEIGHT * len(self.rows) + _MARGIN
        return scene

    def content(self) -> tuple[Grid, dict[str, Any]]:
        return self, {}

    @classmethod
    def read(cls, content: dict[str, Any], arrays: Arrays | None) -> Grid:
        grid: Grid = read_value(Grid, content, arrays)
        return grid

    def to_columns(self) -> dict[str, list[Any]]:
        """Layer, position, label and number of every cell, and its text if there is one, as columns of a table."""
        rows, columns = self._places()
        found: dict[str, list[Any]] = {
            axis_name(self.rows): [self.rows.labels[i] for i in rows],
            "position": columns,
            self.columns.kind: [self.columns.labels[j] for j in columns],
            "value": self.values.flatten().tolist(),
        }
        return found | ({"token": [token for row in self.tokens for token in row]} if self.tokens else {})

    def __repr__(self) -> str:
        return f"<{self.title}: {len(self.rows)} x {len(self.columns)}; print it, or save it as .html>"
