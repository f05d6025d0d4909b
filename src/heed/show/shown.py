"""Looks, weights and curves that display themselves, and maps, shaded words and steps as text.

In a terminal, a map is a grid if its characters line up, otherwise a list of links. Right-to-left, wide and combining
characters have no fixed column there, so a map with such labels is a list "field -> source span"; so is a map far too
wide for the screen.
"""

from __future__ import annotations

import math
import textwrap
from collections.abc import Callable, Iterator, Sequence
from dataclasses import asdict, replace
from typing import Any

import torch
from torch import Tensor

import heed.show.draw_html  # noqa: F401  # how maps and shaded words are drawn on pages
from heed.errors import ConfigError
from heed.show.curves import Curves, curves_to_text
from heed.show.document import Abreast, Document, Shown, as_scene, as_text, json_of
from heed.show.draw_svg import map_scene
from heed.show.number_tables import Calculation, attention_table, nested_table, tables_to_lines
from heed.show.overview import FEW, Thumbnails
from heed.show.scene import Scene, abreast, stacked
from heed.visible import clean, to_json, visible
from heed.watch import palette
from heed.watch.edits import SetWeight
from heed.watch.looks import (
    AttentionStep,
    Comparison,
    DecoderFrame,
    EncoderFrame,
    Look,
    Shading,
    Steps,
    rows_of,
    vector_map,
)
from heed.watch.maps import (
    MASKED,
    PEAK,
    Axis,
    KeySpan,
    Map,
    axes_line,
    best_spans,
    cell_name,
    cut,
    lines_up,
    links,
    peaks,
    plural,
    repetition,
    runs_right_to_left,
    shaded,
    shades,
    text_of,
    unmasked,
)
from heed.watch.numbers import WeightBreakdown, break_down
from heed.watch.remarks import remarks


class MapRow(Abreast):
    """Maps in a row, with cells of the same size in figures."""


@as_scene.register
def _(row: MapRow) -> Scene:
    return abreast([map_scene(map, cell=36) for _, map in row.blocks])


class ShownNumber(Shown):
    """The result of `look.number(query, key)`: one weight, step by step.

    `numpy()` gives three to six lines of Python that compute it as `weight`, with NumPy alone.
    """

    def __init__(self, breakdown: WeightBreakdown, every: bool) -> None:
        self.breakdown = breakdown
        self.every = every

    @property
    def weight(self) -> float:
        """The weight, as the look draws it."""
        return self.breakdown.drawn

    def numpy(self) -> str:
        """Lines of Python, as above."""
        return "\n".join(self.breakdown.numpy()) + "\n"

    def document(self) -> Document:
        return Document(self.breakdown.head, (Calculation(self.breakdown, self.every),))

    def scene(self, index: int | None = None) -> Scene:
        raise ConfigError("one weight is not drawn as a picture; save it as .txt, .html, .json or, for NumPy, .py")

    def json(self) -> str:
        further = {"products": self.breakdown.number.products, "numpy": self.breakdown.numpy()}
        return json_of("heed-number-1", self.breakdown, **further)

    def forms(self) -> dict[str, Callable[[], str | bytes]]:
        return {".html": self.html, ".json": self.json, ".txt": self.text, ".py": self.numpy}

    def __repr__(self) -> str:
        return f"<{self.breakdown.head}: weight {self.weight:.6f}; print it, or .numpy() for Python>"


class ShownCurves(Shown):
    """Curves: those of training, or scores by the size of the training set."""

    def __init__(self, curves: Curves) -> None:
        self.curves = curves

    def document(self) -> Document:
        return Document(self.curves.title, (self.curves,), notes=self.curves.facts, headed=False)

    def text(self, width: int = 100, color: bool = False) -> str:
        return curves_to_text(self.curves, width)

    def json(self) -> str:
        return to_json(asdict(self.curves), indent=1) + "\n"


class ShownLook(Shown):
    """The result of `run.look(...)`: a look, shown with or without its steps."""

    def __init__(self, look: Look, steps: bool = False, overview: bool = False, sort: str | None = None) -> None:
        self.look = look
        self.steps = steps
        self.overview, self.sort = overview, sort

    @property
    def maps(self) -> tuple[Map, ...]:
        """The attention maps."""
        return self.look.maps

    @property
    def beside(self) -> tuple[Comparison, ...]:
        """The maps of another network, each with its difference."""
        return self.look.beside

    @property
    def target(self) -> str:
        """The output of the model, or the given one."""
        return self.look.target

    def document(self) -> Document:
        look, blocks = self.look, list[Any](self.look.shadings)
        attention = [map for map in (*look.maps, *(map.map for map in look.beside)) if map.is_distribution]
        together = bool(attention) and (self.overview or sum(map.is_distribution for map in look.maps) > FEW)
        if together:
            each = tuple(map for map in look.drawn if map.panel != "gates")
            blocks.append(Thumbnails(tuple(attention), look.title, self.sort, self.overview, each))
        first = "this run" if look.unedited is None else "with the edits"
        for maps in look.together:
            names = [first, *(map.of or "difference" for map in maps[1:])]
            alone = [pair for pair in zip(names, maps, strict=True) if not together or pair[1].panel == "gates"]
            blocks += [MapRow(tuple(alone))] if len(alone) > 1 else [map for _, map in alone]
        blocks += [] if look.summary is None else [vector_map(look.summary)]
        blocks += [Steps(look)] if self.steps and (look.no_steps or look.encoder or look.decoder) else []
        has_keys = bool(look.maps or (self.steps and (look.encoder or look.decoder)))
        texts = look.texts if look.names[1] else look.texts[:-1]
        return Document(look.title, tuple(blocks), tuple(texts), look.notes, False, True, has_keys)

    def scene(self, index: int | Sequence[int] | None = None) -> Scene:
        """Everything that is drawn; with one or several indices, only those maps."""
        if index is None:
            return super().scene()
        return stacked([map_scene(self.maps[i]) for i in ([index] if isinstance(index, int) else index)])

    def number(
        self, query: int | str, key: int | str, *, every: bool = False, map: int | str | None = None
    ) -> ShownNumber:
        """One weight opened into what it came from; `query` is a row of the map and `key` a column, from 0.

        `every` shows all components and keys, not only those that count most. `map` chooses one of several maps, by its
        number or title.

        Raises:
            ConfigError: There is no such row, column or map; or no attention is shown, or several are.
        """
        maps = [*self.maps, *rows_of(self.look)] if map is None else [self._map(map)]
        attentions = [(map.title, (map.query, map.key), map.weight_source, map.weights) for map in maps]
        return ShownNumber(break_down(attentions, query, key), every)

    def to_frame(self) -> Any:
        """All maps as a tidy pandas data frame: a row for each weight that is not masked.

        Columns are `map` (its title), `mechanism`, `layer`, `head` (None for the mean), `query` and `key` (labels),
        `query_position` and `key_position` (from 0), and `weight`.
        """
        import pandas

        tables = []
        for map in self.look.drawn:
            rows, columns = map.weights.shape
            allowed = torch.ones(rows, columns, dtype=torch.bool) if map.mask is None else map.mask.cpu()
            at, to = allowed.nonzero(as_tuple=True)
            columns_of = {"map": map.title, "mechanism": map.mechanism, "layer": map.layer, "head": map.head}
            table = pandas.DataFrame({"query_position": at, "key_position": to, "weight": map.weights.cpu()[at, to]})
            table["query"] = [map.query.labels[n] for n in at.tolist()]
            table["key"] = [map.key.labels[n] for n in to.tolist()]
            tables.append(table.assign(**columns_of))
        order = ["map", "mechanism", "layer", "head", "query", "key", "query_position", "key_position", "weight"]
        return pandas.concat(tables, ignore_index=True)[order] if tables else pandas.DataFrame(columns=order)

    def setting(self, query: int, key: int, weight: float, *, map: int | str = -1) -> SetWeight | None:
        """The edit that gives a cell of a map this weight, in all heads if the map is their mean.

        None for a cell that no edit can name: of sentences or turns that are read by themselves, or of another network.

        Raises:
            ConfigError: There is no such row, column or map.
        """
        chosen = self._map(map)
        if not (0 <= query < len(chosen.query) and 0 <= key < len(chosen.key)):
            size = f"{len(chosen.query)} rows and {len(chosen.key)} columns"
            raise ConfigError(f"no cell {query}, {key}: {chosen.title} has {size}, counted from 0")
        place = None if chosen.weight_source is None or chosen.of else chosen.weight_source.place(query, key)
        return None if place is None else SetWeight(chosen.mechanism, chosen.layer, chosen.head, *place, weight)

    def _map(self, which: int | str) -> Map:
        titled = {map.title: map for map in (*(map.map for map in self.look.beside), *self.maps)}
        if isinstance(which, str) and which in titled:
            return titled[which]
        if isinstance(which, int) and -len(self.maps) <= which < len(self.maps):
            return self.maps[which]
        raise ConfigError(f"no map {which!r}: this look has {', '.join(titled) or 'none'}")

    def json(self) -> str:
        shown = {"shows_steps": self.steps, "overview": self.overview, "sort": self.sort}
        return json_of("heed-look-5", self.look, **shown)

    def __repr__(self) -> str:
        look = self.look
        counts = {"map": len(look.maps), "shading": len(look.shadings)}
        if self.steps:
            counts["step"] = len(look.encoder) + len(look.decoder)
        shown = ", ".join(f"{count} {unit}{'' if count == 1 else 's'}" for unit, count in counts.items() if count)
        source = look.source if len(look.source) <= 40 else f"{look.source[:37]}..."
        return f"<look at {source!r}: {shown or 'no map'}; print it, or save it as .html>"


_FIRST = 6
_LARGEST = 5


@as_text.register
def _(steps: Steps, width: int, color: bool) -> list[str]:
    look = steps.look
    frames = [_encoder_lines(frame, look, width) for frame in look.encoder]
    frames += [_decoder_lines(frame, look, width) for frame in look.decoder]
    return [look.no_steps or "\n\n".join("\n".join(frame) for frame in frames)]


def _encoder_lines(frame: EncoderFrame, look: Look, width: int) -> list[str]:
    part, does = look.parts[0]
    lines = [f"{part} step {frame.index + 1} of {len(look.encoder)}: {does} {visible(frame.token)}"]
    lines += [f"  {name:<10} {_vector(state)}" for name, state in frame.states.items()]
    return lines + _gates(frame.gates) + _attention(frame.attention, width) + _next(frame.top)


def _decoder_lines(frame: DecoderFrame, look: Look, width: int) -> list[str]:
    part, does = look.parts[1]
    lines = [f"{part} step {frame.index + 1} of {len(look.decoder)}: {does} {visible(frame.token)}"]
    kind = "character" if all(len(token) <= 1 for token in frame.so_far) else "token"
    so_far = text_of(Axis("target", kind, frame.so_far), 0, len(frame.so_far))
    lines.append(f"  {'so far':<10} {visible(so_far) if so_far else '(nothing)'}")
    lines.append(f"  {'state':<10} {_vector(frame.state)}")
    lines += _gates(frame.gates)
    lines += _attention(frame.attention, width)
    if look.summary is not None:
        lines.append(f"  {'source':<10} the fixed vector, the same at every step: {_vector(look.summary)}")
    return lines + _next(frame.top)


def _next(top: tuple[tuple[str, float], ...]) -> list[str]:
    best = "  ".join(f"{visible(token)} {probability:.3f}" for token, probability in top)
    return [f"  {'next token':<10} {best}"] if top else []


def _gates(gates: dict[str, float]) -> list[str]:
    means = ", ".join(f"{name} {gate:.3f}" for name, gate in gates.items())
    return [f"  {'gate means':<10} {means}"] if means else []


def _vector(vector: Tensor) -> str:
    values = vector.detach().double().flatten()
    first = " ".join(f"{value:6.3f}" for value in values[:_FIRST].tolist())
    more = f" ... ({len(values)} in all)" if len(values) > _FIRST else ""
    return f"norm {float(values.norm()):.3f}, values {first}{more}"


def _attention(steps: tuple[AttentionStep, ...], width: int) -> list[str]:
    """Scores, weights and context of each attention; with its name if there are several."""
    lines = []
    for step in steps:
        lines += [f"  {step.name}"] if len(steps) > 1 else []
        grid = all(lines_up(label) for label in step.key.labels)
        lines += tables_to_lines([attention_table(step)], width, False)[1:] if grid else _largest(step)
        lines.append(f"  {'context':<10} {_vector(step.context)}")
    return lines


def _rows(step: AttentionStep) -> list[tuple[str, list[float | None]]]:
    """Scores and weights, None for masked keys."""
    named = (("scores", step.scores), ("weights", step.weights))
    return [(name, unmasked(tensor, step.mask)) for name, tensor in named if tensor is not None]


def _largest(step: AttentionStep) -> list[str]:
    """The keys with most weight, each on a line that ends with its label, for labels that do not line up."""
    rows = dict(_rows(step))
    may = [i for i, weight in enumerate(rows["weights"]) if weight is not None]
    order = sorted(may, key=lambda i: -float(step.weights[i]))[:_LARGEST]
    lines = [f"  {'weights':<10} the {len(order)} largest of {len(may)}"]
    for i in order:
        score = f"  score {rows['scores'][i]:.3f}" if "scores" in rows else ""
        where = f" ({clean(step.key.part_at(i))})" if step.key.parts else ""
        lines.append(f"  {'':<10} {rows['weights'][i]:.3f}{score}  key {i + 1}  {visible(step.key.labels[i])}{where}")
    return lines


_LABEL = 16
_TAIL = 20
_NUMBER = 5
_BLOCKS = 4
_LINES = 60
_CHANGES = 12


@as_text.register
def _(map: Map, width: int, color: bool) -> list[str]:
    return [map_to_text(map, width=width, color=color)]


def map_to_text(map: Map, *, width: int = 100, color: bool = False) -> str:
    """Draw a map as text: title, axes, caption, cells (24-bit ANSI colours if wanted) and legend."""
    lines = [line for text in (map.caption, *map.effects) for line in textwrap.wrap(clean(text), width)]
    head = [clean(map.title), axes_line(map), *lines, ""]
    noted = [f"remark: {remark.text}" for remark in remarks(map)]
    shorter, left_out = _without_repetition(map)
    return "\n".join([*head, *_body(shorter, width, color), *left_out, *noted])


def _without_repetition(map: Map) -> tuple[Map, list[str]]:
    """A map with only the first two of the rows of a repetition, and the line that says which are left out."""
    repeated = repetition(map.query) if map.is_distribution else None
    if repeated is None:
        return map, []
    first = repeated.start + 2 * repeated.period
    rows = [*range(first), *range(repeated.stop, len(map.query))]
    query = replace(map.query, labels=tuple(map.query.labels[i] for i in rows), parts=())
    weights, mask = map.weights[rows], None if map.mask is None else map.mask[rows]
    shorter = Map(map.mechanism, map.layer, map.head, query, map.key, weights, None, mask, effect=map.effect)
    return shorter, [f"left out: rows {first + 1} to {repeated.stop}, where the {repeated}"]


def _body(map: Map, width: int, color: bool) -> list[str]:
    if not len(map.query) or not len(map.key):
        return ["(an empty map)"]
    tokens = [token for row in map.tokens for token in row]
    if not all(lines_up(label) for label in (*map.query.labels, *map.key.labels, *tokens)):
        return _list(map, width)
    label_width = min(_LABEL, max(len(visible(label)) for label in map.query.labels))
    number_width = 1 + max(len(map.number(map.vmax)), len(map.number(map.vmin)))
    natural = [max(number_width + map.token_width, min(_LABEL, len(visible(label)))) for label in map.key.labels]
    widths = [max(natural)] * len(natural)  # of even columns, unless only uneven ones fit
    per_line = max(1, (width - label_width) // (widths[0] + 1))
    if per_line < len(natural) and label_width + sum(natural) + len(natural) <= width:
        widths, per_line = natural, len(natural)
    blocks = -(-len(natural) // per_line)
    few = not map.is_distribution and map.query.kind != "gate" and blocks * (len(map.query) + 2) <= _LINES
    if blocks == 1 or tokens or few:
        return [*_numbers(map, label_width, widths, per_line, color), "", _legend(map, color)]
    tail_width = min(_TAIL, max(len(tail) for tail in _tails(map)))
    per_block = width - label_width - tail_width - 4
    if per_block < 8 or -(-len(map.key) // per_block) > _BLOCKS:
        return _list(map, width)
    of_peaks = [PEAK] if any(_tails(map)) else []
    return [*_compact(map, label_width, per_block, color), "", _legend(map, color), *of_peaks]


def _numbers(map: Map, label_width: int, widths: Sequence[int], per_line: int, color: bool) -> list[str]:
    """The wide grid: shade and number in every cell, in blocks of columns that fit the width."""
    lines: list[str] = []
    for start in range(0, len(map.key), per_line):
        shown = range(start, min(start + per_line, len(map.key)))
        lines += [""] if lines else []
        header = " ".join(cut(visible(map.key.labels[j]), widths[j]).rjust(widths[j]) for j in shown)
        sizes = [size + 1 for size in widths]
        lines += [*_part_line(map.key, shown, label_width, sizes), f"{'':{label_width}} {header}"]
        for i, (label, row) in enumerate(zip(map.query.labels, map.cells(), strict=True)):
            cells = ("" if color else " ").join(_number_cell(map, i, j, row[j], widths[j], color) for j in shown)
            lines.append(f"{cut(visible(label), label_width):>{label_width}} {cells.rstrip()}")
    return lines


def _number_cell(map: Map, i: int, j: int, weight: float | None, width: int, color: bool) -> str:
    if weight is None:
        return MASKED.rjust(width) + (" " if color else "")
    text = map.token(i, j) + map.number(weight)
    if color:  # the colour fills the gap between the columns
        return palette.on_ground(f"{text} ".rjust(width + 1), map.color(weight, dark=True))
    return f"{shaded(abs(weight) / map.vmax, '·')}{text}".rjust(width)


def _compact(map: Map, label_width: int, per_block: int, color: bool) -> list[str]:
    """The narrow grid: one column per key, its label written downwards above it, in blocks that fit the width."""
    rows, tails = shades(map).values.tolist(), _tails(map)
    lines: list[str] = []
    for start in range(0, len(map.key), per_block):
        stop = min(start + per_block, len(map.key))
        lines += [""] if lines else []
        lines += _part_line(map.key, range(start, stop), label_width, [1] * len(map.key))
        lines += [f"{'':{label_width}} {line}" for line in _header(map.key.labels[start:stop])]
        for label, row, tail in zip(map.query.labels, rows, tails, strict=True):
            cells = "".join(_compact_cell(map, shade, color) for shade in row[start:stop])
            end = f"   {tail}" if tail and stop == len(map.key) else ""
            lines.append(f"{cut(visible(label), label_width):>{label_width}} {cells}{end}")
    return lines


def _compact_cell(map: Map, shade: float, color: bool) -> str:
    if math.isnan(shade):
        return MASKED[0]
    if color:
        return palette.on_ground(" ", map.color(shade, dark=True))
    if map.signed:
        part = shade / map.vmax
        return "·" if abs(part) < 0.05 else ("-+" if abs(part) < 0.5 else "▼▲")[part > 0]
    return shaded(shade, "·")


def _part_line(axis: Axis, shown: range, label_width: int, sizes: Sequence[int]) -> list[str]:
    """A line with a bar before the columns of each part, followed by the part's name if there is room."""
    line = ""
    for part in axis.parts:
        size = sum(sizes[max(part.start, shown.start) : min(part.stop, shown.stop)])
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
    if not map.is_distribution:
        return [""] * len(map.query)
    return [
        "-" if best is None else "" if peak is None else _tail(map.key, peak)
        for best, peak in zip(best_spans(map), peaks(map), strict=True)
    ]


def _tail(axis: Axis, span: KeySpan) -> str:
    return cut(f"{span.share:.2f} {visible(text_of(axis, span.start, span.stop))}", _TAIL)


def _list(map: Map, width: int) -> list[str]:
    """One line per link. Labels come last, so that right-to-left text disturbs nothing after it."""
    if map.tokens:
        return _every_token(map)
    if not map.is_distribution:
        return (_largest_changes if map.signed else _values)(map, width)
    lines = [f"share  {plural(map.key.kind):>10}  {clean(map.query.name)} -> {clean(map.key.name)}"]
    for link in links(map):
        query = visible(text_of(map.query, link.start, link.stop))
        if link.span is None:
            lines.append(f"    -  {'-':>10}  {query}")
            continue
        start, stop = link.span.start, link.span.stop
        key = visible(text_of(map.key, start, stop))
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


def _largest_changes(map: Map, width: int) -> list[str]:
    """One line for each of the largest numbers."""
    cells = [(i, j, v) for i, row in enumerate(map.cells()) for j, v in enumerate(row) if v is not None]
    largest = sorted(cells, key=lambda cell: -abs(cell[2]))[:_CHANGES]
    lines = [f"{map.number(v):>6}  {cell_name(map, map.query.labels[i], map.key.labels[j])}" for i, j, v in largest]
    return [f"the {len(lines)} largest of {len(cells)}", *(cut(line, width) for line in lines)]


def _every_token(map: Map) -> list[str]:
    """One line per cell, below the label of its column."""
    lines = []
    for j, key in enumerate(map.key.labels):
        lines.append(f"{j + 1}: {visible(key)}")
        cells = zip(map.query.labels, map.weights[:, j].tolist(), map.tokens, strict=True)
        lines += [f"  {label}  {map.number(value)}  {visible(row[j])}" for label, value, row in cells]
    return lines


def _values(map: Map, width: int) -> list[str]:
    """One line per position: the value of each row there."""
    names = [cut(visible(name), _LABEL) for name in map.query.labels]
    widths = [max(_NUMBER, len(name)) for name in names]
    lines = ["  ".join(f"{name:>{w}}" for name, w in zip(names, widths, strict=True)) + f"  {clean(map.key.name)}"]
    for key, values in zip(map.key.labels, map.weights.T.tolist(), strict=True):
        numbers = "  ".join(f"{value:>{w}.2f}" for value, w in zip(values, widths, strict=True))
        lines.append(f"{numbers}  {cut(visible(key), width)}")
    return lines


def _legend(map: Map, color: bool) -> str:
    of = "share of the row's largest" if shades(map).by_row else map.unit
    if color:
        steps = (map.vmin + i / 10 * (map.vmax - map.vmin) for i in range(11))
        bar = "".join(palette.on_ground(" ", map.color(step, dark=True)) for step in steps)
        scale = f"{map.vmin:.3g} {bar} " + (f"{map.vmax:.3g}" if of == map.unit else of)
    elif map.signed:
        signs = "░ <25 %  ▒ <50 %  ▓ <75 %  █ more; without numbers: + - <50 %  ▲ ▼ more"
        scale = f"{map.unit}, as a share of {map.vmax:.3g}: · <5 %  {signs}"
    else:
        scale = f"{of}: · <0.05  ░ <0.25  ▒ <0.50  ▓ <0.75  █ to 1"
    return scale + (f"  {MASKED[0]} masked" if map.has_masked else "")


# Shaded words -------------------------------------------------------------------------------------------------

_LONGEST_LABEL = 40
_BAR = 10  # characters of a bar for 1


@as_text.register(Shading)
def shading_to_text(shading: Shading, width: int, color: bool) -> list[str]:
    """Lines for a terminal: running text, or one line for each position if there are tags or a list is wanted."""
    effects = [line for effect in shading.effects for line in textwrap.wrap(clean(effect), width)]
    lines = [clean(shading.title), *effects, ""]
    if shading.tags or shading.listed:
        return [*lines, *_listed(shading, color)]
    if shading.axis.parts:
        sums = [shading.part_sum(part) for part in shading.axis.parts]
        bars = ["█" * round(_BAR * share) if shading.nested else "" for share in sums]
        longest = max(map(len, bars))
        names = [
            f"{share:.3f}  {bar:{longest}}{'  ' * shading.nested}{visible(part.label)}"
            for part, share, bar in zip(shading.axis.parts, sums, bars, strict=True)
        ]
        indent = min(max(map(len, names)) + 2, max(width // 2, 0))
        for name, part in zip(names, shading.axis.parts, strict=True):
            first, *more = _running(shading, range(part.start, part.stop), width - indent, color) or [""]
            lines += [f"{cut(name, indent - 2):{indent}}{first}", *(" " * indent + line for line in more)]
    else:
        lines += _running(shading, range(len(shading.axis)), width, color) or [""]
    legend = "" if color else "  (░ under a quarter of that, ▒ half, ▓ three quarters, █ more)"
    scale = shading.scale + "; - below 0" * shading.signed if not color else shading.scale_with_colors
    table = [nested_table(shading, _CHANGES)] if shading.nested else []
    return [*lines, "", scale + legend, *([""] * len(table)), *tables_to_lines(table, width, color)]


def _running(shading: Shading, positions: range, width: int, color: bool) -> list[str]:
    """The given positions as lines of running text."""
    lines: list[str] = []
    length = 0
    for i in positions:
        label, level = visible(shading.axis.labels[i]), shading.level(i)
        mark = "" if color else "-" * (shading.signed and level <= -0.05) + shaded(abs(level), " ")
        word = palette.paint(label, level, shading.signed, shading.still) if color else mark + label
        size = len(mark) + len(label)
        if lines and length + 1 + size <= width:
            lines[-1], length = f"{lines[-1]} {word}", length + 1 + size
        else:
            lines.append(word)
            length = size
    return lines


def _listed(shading: Shading, color: bool) -> Iterator[str]:
    labels = [visible(label) for label in shading.axis.labels]
    columns = (labels, shading.tags) if shading.tags else (labels,)
    width_of = [min(_LONGEST_LABEL, max(map(len, column), default=0)) for column in columns]
    grounds = {i: span.color for span in shading.spans for i in range(span.start, span.stop)}
    for i, label in enumerate(labels):
        number = shading.number(i)
        shown = palette.paint(number, shading.level(i), shading.signed) if color else number
        parts = [shown]
        if shading.tags:
            tag = f"{shading.tags[i]:{width_of[1]}}"
            ground = palette.TAGS_DARK[grounds[i] % len(palette.TAGS_DARK)] if i in grounds else ""
            parts.append(palette.on_ground(tag, ground) if color and ground else tag)
        others = shading.others[i] if shading.others else ""
        parts.append(f"{label:{width_of[0]}}" if others and lines_up(label) else label)
        yield "  ".join([*parts, others] if others else parts)
