"""Tables of text for the terminal, HTML, LaTeX and CSV."""

from __future__ import annotations

import csv
import io
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from html import escape
from typing import Any

from rich.console import Console
from rich.table import Table as RichTable
from rich.text import Text

from heed.visible import clean, escaped


@dataclass(frozen=True)
class Cell:
    """Text of a cell; the best of its column is emphasised."""

    text: str
    best: bool = False


@dataclass(frozen=True)
class Table:
    """One table."""

    title: str  # title
    columns: tuple[str, ...]  # head of each column, except that of the labels
    rows: tuple[tuple[str, tuple[Cell, ...]], ...]  # the label of each row and its cells
    notes: tuple[str, ...] = ()  # explanations for the reader


def notes_of(tables: Sequence[Table]) -> list[str]:
    """The notes of some tables, each once."""
    return list(dict.fromkeys(note for table in tables for note in table.notes))


def in_text(tables: Sequence[Table], width: int = 100, color: bool = False) -> str:
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


def in_html(tables: Sequence[Table]) -> str:
    """Tables and their notes as HTML for a page."""
    notes = "".join(f"<li>{escape(clean(line))}</li>" for line in notes_of(tables))
    return "\n".join([*map(_table_html, tables), f'<ul class="notes">{notes}</ul>'])


def _table_html(table: Table) -> str:
    title = escape(clean(table.title))
    heads = "".join(f'<th scope="col">{escape(clean(column))}</th>' for column in table.columns)
    rows = "".join(
        f'<tr><th scope="row"><bdi>{escape(clean(label))}</bdi></th>'
        + "".join(f"<td>{_strong(cell)}</td>" for cell in cells)
        + "</tr>"
        for label, cells in table.rows
    )
    return (
        f'<figure class="results"><figcaption>{title}</figcaption><div class="scroll" tabindex="0" role="group" '
        f'aria-label="{title}"><table><thead><tr><td></td>{heads}</tr></thead><tbody>{rows}</tbody></table></div>'
        "</figure>"
    )


def _strong(cell: Cell) -> str:
    text = escape(cell.text)
    return f"<strong>{text}</strong>" if cell.best else text


def in_latex(table: Table) -> str:
    """A LaTeX `table`, which needs booktabs; its caption has the notes."""
    text = ". ".join([table.title[:1].upper() + table.title[1:], " ".join(table.notes)])
    lines = [
        _command("begin", "table"),
        "\\centering",
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
    lines += [_command("caption", latex_escaped(text)), _command("end", "table")]
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
}
_MINUS = re.compile(r"(?<![\w.-])([+-])(?=\d)")


def latex_escaped(text: str) -> str:
    """Text escaped for LaTeX; signs of numbers in math mode."""
    shown = "".join(_SPECIAL.get(character, character) for character in escaped(text))
    return _MINUS.sub(r"$\1$", shown)
