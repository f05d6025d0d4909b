"""A lesson in a terminal: stage after stage, tables of three decimals in blocks that fit the width."""

from __future__ import annotations

import re
import textwrap

from heed.lessons.parts import Check, Stage, Table, number, verdict
from heed.observe.labels import clean, cut, lines_up, visible
from heed.observe.palette import paint

_MASKED = "/"
_LABEL = 20
_LONG_LABEL = 40
_NARROW = 6
_BETWEEN = 4
_FIGURES = 55
_ESCAPE = re.compile("\x1b\\[[0-9;]*m")
_GAP = 1


def lesson_to_text(title: str, source: str, stages: tuple[Stage, ...], *, width: int = 100, color: bool = False) -> str:
    """Write a lesson with characters, weights in 24-bit ANSI colours if wanted."""
    lines = head_to_lines(title, source, stages, width)
    for i, stage in enumerate(stages, start=1):
        lines += ["", *stage_to_lines(stage, i, len(stages), width, color)]
    return "\n".join(lines)


def head_to_lines(title: str, source: str, stages: tuple[Stage, ...], width: int) -> list[str]:
    """Title, source, and the names of the stages, where there are several."""
    named = ", ".join(stage.name for stage in stages)
    listed = textwrap.wrap(f"stages: {named}", width, subsequent_indent="  ", break_on_hyphens=False)
    return [
        *(textwrap.wrap(clean(title), width) or [""]),
        *(textwrap.wrap(clean(source), width) if source else []),
        *(listed if len(stages) > 1 else []),
    ]


def stage_to_lines(stage: Stage, place: int, count: int, width: int, color: bool) -> list[str]:
    """One stage, whose number of `count` is `place`."""
    head = f"-- {place}/{count} {clean(stage.title)} [{stage.name}] "
    lines = [head + "-" * max(0, width - len(head)), *(line for text in stage.prose for line in _wrap(text, width))]
    lines += ["", *_wrap(f"    {stage.equation}", width, "    ")] if stage.equation else []
    for shelf in _shelves([_table(table, width, color) for table in stage.tables], width):
        lines += ["", *shelf]
    if stage.moments:
        lines += ["", *(line for m in stage.moments for line in _wrap(f"* {m.kind}: {m.text}", width, "  "))]
    if stage.lines:
        lines += ["", *(line for text in stage.lines for line in _wrap(text, width, "   "))]
    if stage.checks:
        lines += ["", *_checks(stage.checks, width)]
    return lines


def _wrap(text: str, width: int, hanging: str = "") -> list[str]:
    text = clean(text)
    indent = text[: len(text) - len(text.lstrip())]
    return textwrap.wrap(text, width, subsequent_indent=indent + hanging, break_on_hyphens=False) or [""]


def _shelves(blocks: list[list[str]], width: int) -> list[list[str]]:
    """Blocks beside one another as long as they fit, then below."""
    shelves: list[list[str]] = []
    free = 0
    for block in blocks:
        size = max(map(_columns, block))
        if shelves and size + _BETWEEN <= free:
            taken, shelf = width - free + _BETWEEN, shelves[-1]
            shelf += [""] * (len(block) - len(shelf))
            for i, line in enumerate(block):
                shelf[i] += " " * (taken - _columns(shelf[i])) + line
            free -= size + _BETWEEN
        else:
            shelves.append(list(block))
            free = width - size
    return shelves


def _columns(line: str) -> int:
    """Columns that a line takes on the screen."""
    return len(_ESCAPE.sub("", line))


def _table(table: Table, width: int, color: bool) -> list[str]:
    """A table whose columns are cut where that is enough, and laid under one another where it is not."""
    values = [[table.cell(i, j) for j in range(len(table.columns))] for i in range(len(table.rows))]
    cells = [[_MASKED if value is None else number(value) for value in row] for row in values]
    numbers = max(len(cell) for row in cells for cell in row)
    columns, column_key = _labels(table.columns, "column")
    rows, row_key = _labels(table.rows, "row")
    label_width = min(_LONG_LABEL, width // 2, max(map(len, rows)))
    natural = max(numbers, *(min(len(label), _LABEL) for label in columns))
    fitting = (width - 2 - label_width) // len(columns) - _GAP
    cell_width = natural if natural <= fitting else max(numbers, min(natural, max(fitting, _NARROW)))
    per_block = max(1, (width - 2 - label_width) // (cell_width + _GAP))
    lines = [
        *(_wrap(table.title, width) if table.title else [""]),
        *column_key,
        *(line for line in row_key if line not in column_key),
    ]
    for start in range(0, len(columns), per_block):
        part = range(start, min(start + per_block, len(columns)))
        heads = "".join(f"{cut(columns[j], cell_width):>{cell_width + _GAP}}" for j in part)
        lines.append(f"  {'':{label_width}}{heads}")
        for i, label in enumerate(rows):
            heat = color and table.has_heat(i)
            row = "".join(_painted(cells[i][j].rjust(cell_width + _GAP), values[i][j], heat) for j in part)
            note = clean(table.notes[i]) if table.notes and part.stop == len(columns) else ""
            room = width - 4 - label_width - (cell_width + _GAP) * len(part)
            tail = f"  {cut(note, room)}" if note and room > _NARROW else ""
            lines.append(f"  {cut(label, label_width):>{label_width}}{row}{tail}")
    return lines


def _painted(text: str, value: float | None, heat: bool) -> str:
    return paint(text, value) if heat and value is not None else text


def _labels(labels: tuple[str, ...], what: str) -> tuple[list[str], list[str]]:
    """Labels as they are drawn; numbers, and a list of what they stand for, where characters have no fixed width."""
    if all(lines_up(label) for label in labels):
        return [visible(label) for label in labels], []
    key = [f"  {i} = {visible(label)}" for i, label in enumerate(labels)]
    return [str(i) for i in range(len(labels))], [f"  {what}s are numbered:", *key]


def _checks(checks: tuple[Check, ...], width: int) -> list[str]:
    """The verdict, and each value that is not equal, by name."""
    lines = _wrap(verdict(checks), width)
    differing = [check for check in checks if not check.equal]
    if not differing:
        return lines
    longest = max(len(clean(check.name)) for check in differing)
    beside = longest + _FIGURES <= width
    gap = longest if beside else 2
    lines.append(f"  {'':{gap}} {'stated':>8} {'computed':>9} {'off by':>7} {'allowed':>7}")
    for check in differing:
        figures = f"{number(check.printed):>8} {number(check.computed):>9} {number(check.difference):>7}"
        said = f"{figures} {f'{check.tolerance:.2g}':>7}  {check.outcome}"
        name = clean(check.name)
        lines += [f"  {name:{gap}} {said}"] if beside else [f"  {name}", f"  {'':{gap}} {said}"]
    return lines
