"""Tables of a comparison for the terminal, HTML, LaTeX and CSV; its page and its drawing."""

from __future__ import annotations

import csv
import io
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from rich.console import Console
from rich.table import Table as RichTable
from rich.text import Text

from heed.show.curves import Curves, Line, legend, panel_scene
from heed.show.page import Cell, Row, draw, page
from heed.show.scene import Label, Scene
from heed.visible import clean, escaped
from heed.watch.maps import cut

UNWRAPPED = 10_000
"""Width at which no row of a table is wrapped, for pipes and files."""


@dataclass(frozen=True)
class ScoreTable:
    """A table of scores; the best of a column is emphasised."""

    title: str
    columns: tuple[str, ...]  # head of each column, except that of the labels
    rows: tuple[tuple[str, tuple[Cell, ...]], ...]  # the label of each row and its cells
    notes: tuple[str, ...] = ()  # explanations for the reader


def notes_of(tables: Sequence[ScoreTable]) -> list[str]:
    """The notes of some tables, each once."""
    return list(dict.fromkeys(note for table in tables for note in table.notes))


def in_text(tables: Sequence[ScoreTable], width: int = 100, color: bool = False) -> str:
    """Tables and their notes as text, fitted to the terminal's width."""
    out = io.StringIO()
    console = Console(file=out, width=width, force_terminal=color, color_system="standard" if color else None)
    for table in tables:
        drawn = RichTable(
            title=Text(clean(table.title)), title_justify="left", title_style="bold", box=None, pad_edge=False
        )
        drawn.add_column("", overflow="fold")
        for column in table.columns:
            drawn.add_column(Text(clean(column)), justify="right", overflow="fold")
        for label, cells in table.rows:
            drawn.add_row(Text(clean(label)), *(Text(cell.text, style="bold" if cell.best else "") for cell in cells))
        console.print(drawn)
        console.print()
    for line in notes_of(tables):
        console.print(Text(clean(line)))
    return "\n".join(line.rstrip() for line in out.getvalue().splitlines())


def in_latex(table: ScoreTable) -> str:
    """A LaTeX `table`, which needs booktabs; its title is the caption."""
    lines = [
        _command("begin", "table"),
        "\\centering\\small",
        _command("begin", "tabular", "l" + "r" * len(table.columns)),
        "\\toprule",
        " & ".join(["", *map(latex_escaped, table.columns)]) + " \\\\",
        "\\midrule",
    ]
    for label, cells in table.rows:
        shown = (_command("textbf", latex_escaped(c.text)) if c.best else latex_escaped(c.text) for c in cells)
        # After the end of a row, "[" and "*" would be read as an option.
        start = "{}" if label[:1] in ("[", "*") else ""
        lines.append(" & ".join([start + latex_escaped(label), *shown]) + " \\\\")
    lines += ["\\bottomrule", _command("end", "tabular")]
    lines += [_command("caption", latex_escaped(table.title)), _command("end", "table")]
    return "\n".join(lines)


def csv_text(table: Sequence[Mapping[str, Any]]) -> str:
    """Rows as CSV with a header; an empty cell where there is no number.

    A spreadsheet runs text that begins with one of `=+-@` as a formula: an apostrophe is put before such text, which
    marks it as text.
    """
    out = io.StringIO()
    writer = csv.DictWriter(out, fieldnames=list(table[0]))
    writer.writeheader()
    writer.writerows({name: _cell(value) for name, value in row.items()} for row in table)
    return out.getvalue()


def _cell(value: Any) -> Any:
    if not isinstance(value, str):
        return value
    shown = escaped(value)
    return f"'{shown}" if shown.startswith(_FORMULAS) else shown


_FORMULAS = tuple("=+-@\uff1d\uff0b\uff0d\uff20")
"""First characters of formulas, also in full width (OWASP, "CSV Injection"); tabs and returns are escaped."""


def _command(name: str, *arguments: str) -> str:
    return f"\\{name}" + "".join("{" + argument + "}" for argument in arguments)


_SPECIAL = {
    **{c: f"\\{c}" for c in "&%$#_{}"},
    "~": "\\textasciitilde{}",
    "^": "\\textasciicircum{}",
    "\\": "\\textbackslash{}",
    "<": "$<$",
    ">": "$>$",
    "|": "$|$",
    "±": "$\\pm$",
    "↑": "$\\uparrow$",
    "↓": "$\\downarrow$",
    "†": "$^\\dagger$",
}
_MINUS = re.compile(r"(?<![\w.-])([+-])(?=\d)")


def latex_escaped(text: str) -> str:
    """Text escaped for LaTeX; signs of numbers in math mode."""
    shown = "".join(_SPECIAL.get(character, character) for character in escaped(text))
    return _MINUS.sub(r"$\1$", shown)


_WIDTH, _HEIGHT, _LEFT, _ROW = 720, 380, 54, 20


def compare_page(title: str, tables: Sequence[ScoreTable], **shown: Any) -> str:
    """One self-contained page: the tables of scores, and what else the template shows."""
    none: dict[str, Any] = {"chart": None, "others": (), "training": None, "sections": ()}
    rows = [(table.title, ["", *table.columns], [Row(*row) for row in table.rows]) for table in tables]
    drawn = draw("results", rows, notes_of(tables))
    return page("comparison/compare.html", title, tables=drawn, **{**none, **shown})


def panels_of(curves: Curves) -> list[Scene]:
    """The panels of curves without legends, which the page has once for all."""
    return [panel_scene(panel, curves, named=False) for panel in curves.panels]


def sample(color: int) -> Scene:
    """A piece of a line, for a legend."""
    return Scene(16, 10, "", legend(Line("", (), color, True), 0, 9), follows_scheme=True)


def scores_scene(curves: Curves, title: str, axis: str, note: str) -> Scene:
    """The first panel as a large drawing with a legend below."""
    panel = replace(curves.panels[0], title=cut(title, 80))
    scene = panel_scene(panel, replace(curves, x=axis), False, _WIDTH, _HEIGHT)
    for line in panel.lines:
        scene.add(legend(replace(line, label=cut(line.label, 90)), _LEFT, scene.height + 12))
        scene.height += _ROW
    scene.add([Label(_LEFT, scene.height + 12, note, "small")])
    scene.height += _ROW
    return scene
