"""A map in a terminal: a grid if characters line up, otherwise a list of links.

Right-to-left, wide and combining characters have no fixed column in a terminal, so a map with such labels is shown as
a list "field -> source span"; so is a map far too wide for the screen.
"""

from __future__ import annotations

from heed.observe import palette
from heed.observe.draw_shading import shading_to_text
from heed.observe.frames import Look
from heed.observe.labels import (
    MASKED,
    axes_line,
    clean,
    cut,
    joined,
    lines_up,
    plural,
    runs_right_to_left,
    shaded,
    visible,
)
from heed.observe.maps import Axis, Map, Traces
from heed.observe.spans import PEAK, Span, best_spans, links, peaks
from heed.observe.text_steps import fixed_vector_to_lines, steps_to_lines

_LABEL = 16
_TAIL = 20
_NUMBER = 5
_BLOCKS = 4


def map_to_text(map: Map, *, width: int = 100, color: bool = False) -> str:
    """Draw a map as text: title, axes, caption, cells (24-bit ANSI colours if wanted) and legend."""
    head = [clean(map.title), axes_line(map), *([clean(map.caption)] if map.caption else []), ""]
    return "\n".join(head + _body(map, width, color))


def look_to_text(look: Look, *, steps: bool = False, width: int = 100, color: bool = False) -> str:
    """Draw a look as text; with `steps` also every step of the encoder and the decoder."""
    column = max(7, *map(len, look.names))
    texts = [(look.names[0], look.source), *([(look.names[1], look.target)] if look.names[1] else [])]
    blocks = [[clean(look.title)]]
    for name, text in texts:
        first, *more = text.split("\n")
        blocks[0] += [f"{name:{column}} {clean(first)}", *(f"{'':{column}} {clean(line)}" for line in more)]
    blocks[0] += [f"{'note':{column}} {clean(note)}" for note in look.notes]
    blocks += [shading_to_text(shading, width, color) for shading in look.shadings]
    blocks += [[map_to_text(map, width=width, color=color)] for map in look.maps]
    if look.summary is not None:
        blocks.append(fixed_vector_to_lines(look.summary, width))
    if steps:
        blocks += [[look.no_steps]] if look.no_steps else steps_to_lines(look, width)
    return "\n\n".join("\n".join(block) for block in blocks)


def _body(map: Map, width: int, color: bool) -> list[str]:
    if not len(map.query) or not len(map.key):
        return ["(an empty map)"]
    if not all(lines_up(label) for label in (*map.query.labels, *map.key.labels)):
        return _list(map, width)
    label_width = min(_LABEL, max(len(visible(label)) for label in map.query.labels))
    cell_width = max(_NUMBER, *(min(_LABEL, len(visible(label))) for label in map.key.labels))
    if label_width + len(map.key) * (cell_width + 1) <= width:
        return [*_numbers(map, label_width, cell_width, color), "", _legend(map, color)]
    tail_width = min(_TAIL, max(len(tail) for tail in _tails(map)))
    per_block = width - label_width - tail_width - 4
    if per_block < 8 or -(-len(map.key) // per_block) > _BLOCKS:
        return _list(map, width)
    said = [] if not any(_tails(map)) else [PEAK]
    return [*_compact(map, label_width, per_block, color), "", _legend(map, color), *said]


def _numbers(map: Map, label_width: int, cell_width: int, color: bool) -> list[str]:
    """The wide grid: shade and number in every cell."""
    header = " ".join(cut(visible(label), cell_width).rjust(cell_width) for label in map.key.labels)
    lines = [*_part_line(map.key, range(len(map.key)), label_width, cell_width + 1), f"{'':{label_width}} {header}"]
    for label, row in zip(map.query.labels, map.cells(), strict=True):
        cells = [_number_cell(weight, cell_width, color) for weight in row]
        lines.append(
            f"{cut(visible(label), label_width):>{label_width}} " + ("" if color else " ").join(cells).rstrip()
        )
    return lines


def _number_cell(weight: float | None, width: int, color: bool) -> str:
    if weight is None:
        return MASKED.rjust(width) + (" " if color else "")
    if color:  # the colour fills the gap between the columns
        return palette.paint(f"{weight:.2f} ".rjust(width + 1), weight)
    return f"{shaded(weight, '·')}{weight:.2f}".rjust(width)


def _compact(map: Map, label_width: int, per_block: int, color: bool) -> list[str]:
    """The narrow grid: one column per key, its label written downwards above it, in blocks that fit the width."""
    rows, tails = map.cells(), _tails(map)
    lines: list[str] = []
    for start in range(0, len(map.key), per_block):
        stop = min(start + per_block, len(map.key))
        lines += [""] if lines else []
        lines += _part_line(map.key, range(start, stop), label_width, 1)
        lines += [f"{'':{label_width}} {line}" for line in _header(map.key.labels[start:stop])]
        for label, row, tail in zip(map.query.labels, rows, tails, strict=True):
            cells = "".join(_compact_cell(weight, color) for weight in row[start:stop])
            end = f"   {tail}" if tail and stop == len(map.key) else ""
            lines.append(f"{cut(visible(label), label_width):>{label_width}} {cells}{end}")
    return lines


def _compact_cell(weight: float | None, color: bool) -> str:
    if weight is None:
        return MASKED[0]
    return palette.paint(" ", weight) if color else shaded(weight, "·")


def _part_line(axis: Axis, shown: range, label_width: int, columns: int) -> list[str]:
    """A line with a bar before the columns of each part, followed by the part's name if there is room."""
    line = ""
    for part in axis.parts:
        size = (min(part.stop, shown.stop) - max(part.start, shown.start)) * columns
        if size > 0:
            line += ("|" + cut(visible(part.label), size - 1) if size > 2 else "|").ljust(size)
    return [f"{'':{label_width}} {line}".rstrip()] if line else []


def _header(labels: tuple[str, ...]) -> list[str]:
    """Labels written downwards, ending just above their columns."""
    shown = [cut(visible(label), _LABEL) for label in labels]
    height = max(map(len, shown))
    return ["".join(column) for column in zip(*(label.rjust(height) for label in shown), strict=True)]


def _tails(map: Map) -> list[str]:
    """The text at the end of each row: its peak, if it has one; "-" for a row that is fully masked."""
    if isinstance(map, Traces):
        return [""] * len(map.query)
    return [
        "-" if best is None else "" if peak is None else _tail(map.key, peak)
        for best, peak in zip(best_spans(map), peaks(map), strict=True)
    ]


def _tail(axis: Axis, span: Span) -> str:
    return cut(f"{span.share:.2f} {visible(joined(axis, span.start, span.stop))}", _TAIL)


def _list(map: Map, width: int) -> list[str]:
    """One line per link. Labels come last, so that right-to-left text disturbs nothing after it."""
    if isinstance(map, Traces):
        return _values(map, width)
    lines = [f"share  {plural(map.key.kind):>10}  {clean(map.query.name)} -> {clean(map.key.name)}"]
    for link in links(map):
        query = visible(joined(map.query, link.start, link.stop))
        if link.span is None:
            lines.append(f"    -  {'-':>10}  {query}")
            continue
        start, stop = link.span.start, link.span.stop
        key = visible(joined(map.key, start, stop))
        # A left-to-right mark on each side keeps the arrow between two right-to-left texts pointing onwards.
        mark = "\u200e" if runs_right_to_left(query + key) else ""
        place = f"{start + 1}-{stop}" if stop - start > 1 else f"{start + 1}"
        part = map.key.part_at(start)
        where = f"{mark} ({clean(part)})" if part else ""
        lines.append(
            f" {link.span.share:.2f}  {place:>10}  {cut(query, width)}{mark} -> {mark}{cut(key, width)}{where}"
        )
    per_query = "each row" if map.query.kind == "character" else f"each {map.query.kind}"
    return [*lines, "", f"share: the part of {per_query}'s weight on that span; the mean if several rows are joined"]


def _values(map: Traces, width: int) -> list[str]:
    """One line per position: the value of each row there."""
    names = [cut(visible(name), _LABEL) for name in map.query.labels]
    widths = [max(_NUMBER, len(name)) for name in names]
    lines = ["  ".join(f"{name:>{w}}" for name, w in zip(names, widths, strict=True)) + f"  {clean(map.key.name)}"]
    for key, values in zip(map.key.labels, map.weights.T.tolist(), strict=True):
        numbers = "  ".join(f"{value:>{w}.2f}" for value, w in zip(values, widths, strict=True))
        lines.append(f"{numbers}  {cut(visible(key), width)}")
    return lines


def _legend(map: Map, color: bool) -> str:
    if color:
        scale = "0 " + "".join(palette.paint(" ", i / 10) for i in range(11)) + " 1"
    else:
        scale = f"{map.unit}: · <0.05  ░ <0.25  ▒ <0.50  ▓ <0.75  █ to 1"
    return scale + (f"  {MASKED[0]} masked" if map.has_masked else "")
