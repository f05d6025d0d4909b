"""Tables of labelled numbers with coloured weights: as HTML, and as terminal lines in blocks that fit the width.

`Calculation` shows the breakdown of one weight, step by step, as such tables.
"""

from __future__ import annotations

import re
import textwrap
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import zip_longest
from typing import NamedTuple

import torch
from markupsafe import Markup
from torch import Tensor

from heed.show.document import as_html, as_scene, as_text
from heed.show.page import Cell, Row, draw
from heed.show.scene import GRID, Box, Label, Path, Scene
from heed.show.scene import MASKED as HATCHED
from heed.visible import clean, visible
from heed.watch import palette
from heed.watch.looks import AttentionStep, Shading
from heed.watch.maps import MASKED, cut, lines_up
from heed.watch.numbers import Number, WeightBreakdown

GAP = 3
"""Columns between two drawings."""

Block = list[tuple[str, int]]
"""Lines, each with its width in terminal columns (without colour codes)."""


def side_by_side(blocks: Sequence[Block], width: int) -> list[str]:
    """Lay out blocks side by side, as many as fit the width, the rest below."""
    lines: list[str] = []
    row: list[Block] = []
    used = 0
    for block in blocks:
        size = max(columns for _, columns in block)
        if row and used + GAP + size > width:
            lines += [*_joined_lines(row), ""]
            row, used = [], 0
        row.append(block)
        used += size + (GAP if used else 0)
    return [*lines, *_joined_lines(row)]


def _joined_lines(blocks: Sequence[Block]) -> list[str]:
    sizes = [max(columns for _, columns in block) for block in blocks]
    lines = []
    for parts in zip_longest(*blocks, fillvalue=("", 0)):
        cells = [text + " " * (size - used) for (text, used), size in zip(parts, sizes, strict=True)]
        lines.append((" " * GAP).join(cells).rstrip(" "))
    return lines


_LABEL = 20
_LONG_LABEL = 40
_NARROW = 6
_ESCAPE = re.compile("\x1b\\[[0-9;]*m")


@dataclass(frozen=True)
class NumberTable:
    """A matrix `(rows, columns)` with labelled rows and columns."""

    title: str
    rows: tuple[str, ...]
    columns: tuple[str, ...]
    values: Tensor
    # True if the numbers are weights in 0..1, to be coloured; or True or False for each row
    heat: bool | tuple[bool, ...] = False
    mask: Tensor | None = None  # `(rows, columns)`, True = may attend, or None
    notes: tuple[str, ...] = ()  # a text for each row, or none
    panel = "table"

    def cell(self, i: int, j: int) -> float | None:
        """One number, None if masked."""
        return float(self.values[i, j]) if self.mask is None or bool(self.mask[i, j]) else None

    def has_heat(self, i: int) -> bool:
        """True if a row is coloured."""
        return self.heat if isinstance(self.heat, bool) else self.heat[i]


def nested_table(shading: Shading, max_rows: int | None = None) -> NumberTable:
    """The numbers of a nested shading and the two weights that each is a product of: all in order, or the largest."""
    axis, sums = shading.axis, [shading.part_sum(part) for part in shading.axis.parts]
    of = [n for n, part in enumerate(axis.parts) for _ in range(part.start, part.stop)]
    order = range(len(axis)) if max_rows is None else sorted(range(len(axis)), key=lambda i: -shading.weights[i])
    shown = order[:max_rows]
    which = "" if max_rows is None else f"the {len(shown)} largest of {len(axis)}: "
    return NumberTable(
        f"{which}weight of the part, weight of the {axis.kind} in it, their product",
        tuple(f"{visible(axis.labels[i])} ({visible(axis.parts[of[i]].label)})" for i in shown),
        ("part", f"{axis.kind} in it", "product"),
        torch.tensor([[s := sums[of[i]], shading.weights[i] / s if s else 0.0, shading.weights[i]] for i in shown]),
    )


def attention_table(step: AttentionStep) -> NumberTable:
    """Scores and weights of the attention of one step; a key is named with the part of its axis, if there are parts."""
    rows = {"score": step.scores, "weight": step.weights}
    shown = {name: values.detach() for name, values in rows.items() if values is not None}
    mask = None if step.mask is None else step.mask.expand(len(shown), -1)
    parts = (step.key.part_at(n) for n in range(len(step.key)))
    keys = tuple(label + (f" ({part})" if part else "") for label, part in zip(step.key.labels, parts, strict=True))
    values = torch.stack([values.double() for values in shown.values()])
    return NumberTable(
        "scores and weights", tuple(shown), keys, values, tuple(name == "weight" for name in shown), mask
    )


def three_decimals(value: float) -> str:
    """Format a number with three decimals, never "-0.000"."""
    return f"{round(value, 3) + 0.0:.3f}"


def table_to_html(table: NumberTable, label: Callable[[str], str] = visible) -> Markup:
    """Draw a table that scrolls sideways; its title is its label for screen readers, `label` writes names of rows."""
    rows = []
    for i, name in enumerate(table.rows):
        cells = [_cell(table.cell(i, j), table.has_heat(i)) for j in range(len(table.columns))]
        rows.append(Row(label(name), [*cells, *([Cell(table.notes[i], kind="note")] if table.notes else [])]))
    heads = ["", *map(visible, table.columns), *([""] if table.notes else [])]
    return draw("tabular", table.title, heads, rows)


def _cell(value: float | None, heat: bool) -> str | Cell:
    if value is None:
        return Cell("", kind="m", tooltip="masked")
    return Cell(three_decimals(value), kind=f"w{palette.level(value)}") if heat else three_decimals(value)


@as_html.register
def _(table: NumberTable, numbers: Iterator[int]) -> Markup:
    return table_to_html(table)


@as_text.register
def _(table: NumberTable, width: int, color: bool) -> list[str]:
    return tables_to_lines([table], width, color)


@as_scene.register
def _(table: NumberTable) -> Scene:
    drawn, margin = table_scene(table), 16
    scene = Scene(drawn.width + 2 * margin, drawn.height + margin, drawn.label)
    scene.add(drawn.items, margin)
    return scene


_ROW, _ADVANCE, _SMALL_ADVANCE = 20, 7.3, 6.6  # of characters of 12 and 11 px, generously


def table_scene(table: NumberTable) -> Scene:
    """Draw a table: its title, the names of the columns, and a line for each row; masked cells are hatched."""
    rows, columns = ([cut(visible(label), _LONG_LABEL) for label in labels] for labels in (table.rows, table.columns))
    left = max(len(row) for row in rows) * _ADVANCE + 16
    wide = max(6, *(len(column) for column in columns)) * _SMALL_ADVANCE + 10
    right = left + wide * len(columns)
    note = max((len(note) * _SMALL_ADVANCE + 16 for note in table.notes), default=0)
    width = max(right + note, len(clean(table.title)) * _SMALL_ADVANCE)
    scene = Scene(width, 38 + _ROW * len(rows), "", [Label(0, 12, clean(table.title), "small")])
    scene.add(Label(left + wide * (j + 1) - 5, 32, column, "end") for j, column in enumerate(columns))
    for i, row in enumerate(rows):
        y = 38 + _ROW * i
        scene.add([Label(left - 6, y + 14, row, "row"), Path(((0, y), (right, y)), GRID)])
        for j in range(len(columns)):
            value, x = table.cell(i, j), left + wide * j
            shades = palette.shades(value) if value is not None and table.has_heat(i) else None
            if value is None or shades:
                scene.add([Box(x, y, wide, _ROW, shades or HATCHED, kind="cell")])
            ink = palette.inks(shades) if shades else ""
            scene.add([] if value is None else [Label(x + wide - 5, y + 14, three_decimals(value), "row", color=ink)])
        scene.add([Label(right + 10, y + 14, table.notes[i], "small")] if table.notes else [])
    return scene


def tables_to_lines(tables: Sequence[NumberTable], width: int, color: bool) -> list[str]:
    """Draw tables, side by side where they fit, the rest below."""
    blocks = [[(line, len(_ESCAPE.sub("", line))) for line in _drawn(table, width, color)] for table in tables]
    return side_by_side(blocks, width)


def _drawn(table: NumberTable, width: int, color: bool) -> list[str]:
    """The lines of a table: labels are cut to fit the width; if that is not enough, columns are split into blocks."""
    values = [[table.cell(i, j) for j in range(len(table.columns))] for i in range(len(table.rows))]
    cells = [[MASKED[0] if value is None else three_decimals(value) for value in row] for row in values]
    numbers = max(len(cell) for row in cells for cell in row)
    columns, column_key = _labels(table.columns, "column")
    rows, row_key = _labels(table.rows, "row")
    natural = max(numbers, *(min(len(label), _LABEL) for label in columns))
    label_width = min(_LONG_LABEL, width // 2)
    if not table.notes:  # labels may use the width that the numbers leave
        label_width = max(label_width, width - 2 - len(columns) * (natural + 1))
    label_width = min(label_width, max(map(len, rows)))
    room = width - 2 - label_width
    fitting = room // len(columns) - 1
    cell_width = natural if natural <= fitting else max(numbers, min(natural, max(fitting, _NARROW)))
    per_block = max(1, room // (cell_width + 1))
    title = textwrap.wrap(clean(table.title), width, break_on_hyphens=False) or [""]
    lines = [*title, *column_key, *(line for line in row_key if line not in column_key)]
    for start in range(0, len(columns), per_block):
        part = range(start, min(start + per_block, len(columns)))
        lines.append(f"  {'':{label_width}}" + "".join(f" {cut(columns[j], cell_width):>{cell_width}}" for j in part))
        for i, label in enumerate(rows):
            heat = color and table.has_heat(i)
            shown = ((f" {cells[i][j]:>{cell_width}}", values[i][j]) for j in part)
            row = "".join(palette.paint(text, v) if heat and v is not None else text for text, v in shown)
            note = clean(table.notes[i]) if table.notes and part.stop == len(columns) else ""
            left = room - 2 - (cell_width + 1) * len(part)
            tail = f"  {cut(note, left)}" if note and left > _NARROW else ""
            lines.append(f"  {cut(label, label_width):>{label_width}}{row}{tail}")
    return lines


def _labels(labels: tuple[str, ...], what: str) -> tuple[list[str], list[str]]:
    """Labels as drawn; if characters have no fixed width, numbers and a list of the labels that they stand for."""
    if all(lines_up(label) for label in labels):
        return [visible(label) for label in labels], []
    key = [f"  {i} = {visible(label)}" for i, label in enumerate(labels)]
    return [str(i) for i in range(len(labels))], [f"  {what}s are numbered:", *key]


# The breakdown of one weight, step by step ---------------------------------------------------------------------------


_SHOWN = 8
"""Number of components of a vector, and of keys of a softmax, that are shown unless all are asked for."""


class _Step(NamedTuple):
    title: str
    table: NumberTable | None
    lines: tuple[str, ...] = ()


@dataclass(frozen=True)
class Calculation:
    """A weight and what it came from; `every` shows all components and keys, not only those that count most."""

    breakdown: WeightBreakdown
    every: bool = False


@as_text.register
def _(calculation: Calculation, width: int, color: bool) -> list[str]:
    lines = [f"weight {calculation.breakdown.drawn:.6f}"]
    for number, step in enumerate(_steps(calculation.breakdown, calculation.every), start=1):
        lines += ["", f"{number}. {clean(step.title)}"]
        lines += [] if step.table is None else tables_to_lines([step.table], width, color)[1:]
        lines += [clean(line) for line in step.lines]
    return lines


@as_html.register
def _(calculation: Calculation, numbers: Iterator[int]) -> Markup:
    steps = [
        (s.title, "" if s.table is None else table_to_html(replace(s.table, title=s.title)), s.lines)
        for s in _steps(calculation.breakdown, calculation.every)
    ]
    return draw("number", f"weight {calculation.breakdown.drawn:.6f}", steps, "\n".join(calculation.breakdown.numpy()))


def _steps(breakdown: WeightBreakdown, every: bool) -> Iterator[_Step]:
    if breakdown.parts.numel() > 1:
        rows, columns = breakdown.part_labels
        table = NumberTable("", tuple(row or "weight" for row in rows), columns, breakdown.parts, heat=True)
        sums = "the mean over the rows" * (len(rows) > 1), "the sum over the columns" * (len(columns) > 1)
        number = breakdown.number
        which = f"{number.title}, {visible(number.query_label)} -> {visible(number.key_label)}"
        line = f"{' of '.join(filter(None, sums))} is {breakdown.drawn:.6f}; below, the largest of them: {which}"
        yield _Step("what the weight is made of", table, (line,))
    yield from _of_number(breakdown.number, every)


def _of_number(number: Number, every: bool) -> Iterator[_Step]:
    products, score = number.products, three_decimals(number.score)
    sides = f"query of {visible(number.query_label)}, key of {visible(number.key_label)}"
    if products is None:
        yield _Step(f"score {number.formula}: {score}", None, (f"{sides}; the products of this score are not known",))
    else:
        rows = {"query": number.query, "key": number.key}
        rows |= {} if number.v is None else {"tanh(q + k)": torch.tanh(number.query + number.key), "v": number.v}
        table, lines = _cut(rows | {"product": products}, products, every)
        total = three_decimals(float(products.sum()))
        scaled = f", times {number.scale:.6g} = {score}" if number.scale not in (None, 1.0) else ""
        yield _Step(f"score {number.formula}: {sides}", table, (*lines, f"sum of the products {total}{scaled}"))
    yield _softmax(number, every)
    value, part = number.values[number.at], number.seen * number.values[number.at]
    table, lines = _cut({"value": value, "weight x value": part, "context": number.context}, part, every)
    title = f"value of {visible(number.key_label)}; the context is the sum of weight x value over all keys"
    yield _Step(title, table, lines)
    if len(number.heads) > 1:
        names = tuple(f"head {i}" for i in range(len(number.heads)))
        yield _Step("this weight in each head", NumberTable("", ("weight",), names, number.heads[None], heat=True))
    if number.output is not None:
        table, lines = _cut({"output": number.output}, number.output, every)
        yield _Step("output row: the contexts of all heads, joined and projected", table, lines)
    difference = abs(number.weight - number.seen)
    check = "an edit has replaced the weight; " * number.edited
    check += f"from these numbers {number.weight:.9f}, in the model's pass {number.seen:.9f}: they differ by "
    yield _Step("self-check", None, (f"{check}{difference:.1e}",))


def _cut(rows: dict[str, Tensor], by: Tensor, every: bool) -> tuple[NumberTable, tuple[str, ...]]:
    """Vectors as rows of a table: the components whose `by` is largest, and the sum of `by` over the others."""
    count = len(by)
    chosen = [*range(count)] if every or count <= _SHOWN + 1 else sorted(by.abs().topk(_SHOWN).indices.tolist())
    table = NumberTable("", tuple(rows), tuple(map(str, chosen)), torch.stack(list(rows.values()))[:, chosen])
    others = float(by.sum() - by[chosen].sum())
    left, name = count - len(chosen), list(rows)[1 if "context" in rows else -1]
    return table, (f"the other {left} of {count} components of {name} sum to {three_decimals(others)}",) if left else ()


def _softmax(number: Number, every: bool) -> _Step:
    """Scores, their exponentials and weights of the keys that count most, and the sums over the others."""
    may = [i for i in range(len(number.scores)) if number.allowed[i]]
    masked = len(number.scores) - len(may)
    if number.at not in may:
        return _Step("softmax", None, ("masked: this query may not attend to this key, so the weight is 0",))
    highest = float(number.scores[may].max())
    powers = torch.exp(number.scores - highest)
    total = float(powers[may].sum())
    best = sorted(may, key=lambda i: (i != number.at, -float(powers[i])))[: len(may) if every else _SHOWN]
    chosen = sorted(best)
    rows = torch.stack([number.scores, powers, number.share * powers / total])[:, chosen]
    names, keys = ("score", "exp(score - max)", "weight"), tuple(number.keys[i] for i in chosen)
    table = NumberTable("", names, keys, rows, (False, False, True))
    lines, share, left = [], "", len(may) - len(chosen)
    if left:
        others = total - float(powers[chosen].sum())
        lines.append(f"the other {left} keys: exp {three_decimals(others)}, weight {number.share * others / total:.3f}")
    if number.share != 1:
        share = f"{three_decimals(number.share)} x "
        lines.append(f"{three_decimals(number.share)} is the weight of the part that contains these keys")
    lines.append(
        f"weight = {share}{three_decimals(float(powers[number.at]))} / {three_decimals(total)} = {number.weight:.6f}"
    )
    title = f"softmax over {len(may)} key{'s' * (len(may) != 1)}" + f"; {masked} more are masked" * (masked > 0)
    return _Step(title, table, tuple(lines))
