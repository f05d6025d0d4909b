"""A look as one HTML file without network access or dependencies; works from disk, in a notebook and printed.

A map is a real table (it can be read aloud, copied to a spreadsheet and printed, and needs no script). Browsers are
slow with more than `CELLS_IN_A_TABLE` cells; then the script draws the same numbers on a canvas, and the chosen row as
a table. Many maps are an overview, of which the script opens one at a time. All steps are in the page, for printing and
screen readers; the script shows one at a time.
"""

from __future__ import annotations

import unicodedata
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict
from typing import Any, NamedTuple

import numpy as np
import torch
from markupsafe import Markup
from numpy.typing import NDArray
from torch import Tensor

from heed.show.document import as_html
from heed.show.number_tables import attention_table, nested_table, table_to_html
from heed.show.overview import SORTS, Thumbnails, groups, heading, thumbnail_legend
from heed.show.page import Cell, Row, draw, packed
from heed.visible import clean, visible
from heed.watch import palette
from heed.watch.looks import AttentionStep, DecoderFrame, EncoderFrame, Look, Shading, Steps, TagSpan
from heed.watch.maps import (
    LONG,
    Axis,
    Map,
    axes_line,
    axis_name,
    place_name,
    shades,
    unmasked,
)
from heed.watch.remarks import Remark, remarks

CELLS_IN_A_TABLE = 64 * 64
LARGEST = 16
"""Number of the largest weights of each row in an overview, of maps with more than `LONG` keys."""
_ATTENDS = "it scores the source, turns scores into weights, computes the context, and predicts the next token."
_FIXED = "it updates its state, which sees the source only through one fixed vector, and predicts the next token."
_UNITS = 128
_MANY = 24
"""Columns from which on labels of more than one character are turned."""
_LONGEST_LABEL = 24
_HEIGHT = 20
_OUT = -32768
"""In place of a weight: masked."""


# Maps ---------------------------------------------------------------------------------------------------------


@as_html.register
def _(map: Map, numbers: Iterator[int]) -> Markup:
    return map_to_html(map, next(numbers))


def map_to_html(map: Map, number: int) -> Markup:
    """Draw one map as a `<section>` of a page; its ids contain `number`, its number on the page, from 0."""
    small, name, noted = _fits_a_table(map), f"map-{number}", remarks(map)
    shown = shades(map)
    turned = any(len(visible(label)) > (1 if len(map.key) > _MANY else 3) for label in map.key.labels)
    label = min(_LONGEST_LABEL, max((_columns(visible(label)) for label in map.query.labels), default=0))
    widest = 6 + 6 * max(len(map.number(value)) for value in (map.vmin, map.vmax))
    table = draw("grid", map, name, turned, label, widest, shown.values) if small else ""
    data = maps_data([map], exact=small, noted={0: noted})
    words = shaded_words(map.key) if small else ""
    texts = [remark.text for remark in noted]
    return draw("map", name, map, texts, shown.by_row, table, words, _map_hint(map), _kind(map.key), data)


def _columns(label: str) -> int:
    """The width of a label, in digits."""
    return sum(1 + (unicodedata.east_asian_width(letter) in ("W", "F")) for letter in label)


@as_html.register
def _(overview: Thumbnails, numbers: Iterator[int]) -> Markup:
    """Thumbnails, of which the script opens one at a time."""
    maps, sort = overview.maps, overview.sort
    rows_by_group = groups(maps, sort)
    headed = [(heading(name, rows), rows) for name, rows in rows_by_group.items()]
    noted = {entry.index: entry.remarks for rows in rows_by_group.values() for row in rows for entry in row}
    ground = None if overview.ground is None else asdict(overview.ground)
    data = {**maps_data(maps, largest=None if ground else LARGEST, noted=noted), "ground": ground}
    sorts = [name for name in SORTS if name != "untrained" or any(map.untrained is not None for map in maps)]
    return draw("overview", headed, thumbnail_legend(maps, sort), sort, sorts, _NO_MAP, data)


_NO_MAP = Map("", 0, None, Axis("", "", ()), Axis("", "", ()), torch.zeros(0, 0))
"""The blank that the script fills in when it opens a map of an overview."""


def _fits_a_table(map: Map) -> bool:
    return len(map.query) * len(map.key) <= CELLS_IN_A_TABLE


def _kind(axis: Axis) -> str:
    """The class of a text of which each position is shaded."""
    return "character" if axis.kind == "character" else "word"


def shaded_words(axis: Axis, weights: Sequence[float | None] | None = None) -> Markup:
    """The text of an axis, each position in a span of the colour of its weight (None = masked).

    Characters have no space between them, so that Arabic letters keep joining. Without weights the page's script
    colours the spans. Each part of an axis is on a separate line that starts with its name.
    """
    between = Markup("" if axis.kind == "character" else " ")
    spans = [_span(axis, i, None if weights is None else _level(weights[i])) for i in range(len(axis))]
    if not axis.parts:
        return between.join(spans)
    return Markup("\n").join(
        Markup("<b>{}</b> {}").format(visible(part.label), between.join(spans[part.start : part.stop]))
        for part in axis.parts
    )


def _span(axis: Axis, i: int, level: tuple[str, str] | None) -> Markup:
    start = Markup("<span>") if level is None else Markup('<span class="{}" title="{}">').format(*level)
    label = axis.labels[i]
    inside = clean(label) if axis.kind == "character" else Markup("<bdi>{}</bdi>").format(visible(label))
    return start + inside + Markup("</span>")


def _level(weight: float | None) -> tuple[str, str]:
    """Class and tooltip of a weight."""
    return ("m", "masked") if weight is None else (f"w{palette.level(weight)}", f"{weight:.3f}")


def _map_hint(map: Map) -> str:
    shaded = "attended to are shaded" if map.is_distribution else "are shaded by its values"
    return f"Choose from the {axis_name(map.query)}; the {axis_name(map.key)} {shaded}."


MAPS = "heed-maps-1"
"""Name of the format of `maps_data`."""


def maps_data(
    maps: Sequence[Map], *, exact: bool = False, largest: int | None = None, noted: Mapping[int, Sequence[Remark]] = {}
) -> dict[str, Any]:
    """Maps as plain values, for the script of a page; `noted` are their remarks, where these are known already.

    Axes and masks are stored once and referred to by number. Weights are relative to `vmax`, the one drawn darkest.
    With `exact`, those of a map are rows of thousandths, `_OUT` for masked cells. Otherwise they are packed as 8-bit
    square roots, 255 for 1 (of signed numbers 1 for -1, 128 for 0), which is right to 0.004; masks as bits. Of a map
    with more than `LONG` keys, only so many of the `largest` weights of each row are packed: for all rows the lower
    bytes of the distances between their keys, then the higher bytes, then the roots.
    """
    axes: dict[Axis, int] = {}
    masks: dict[bytes, int] = {}
    entries = []
    for index, map in enumerate(maps):
        weights, signed = map.weights.detach().double().cpu().numpy() / map.vmax, map.signed
        mask = np.packbits(map.mask.cpu().numpy()).tobytes() if map.mask is not None and map.has_masked else None
        only = largest if largest is not None and len(map.key) > LONG else None
        numbers: Any
        if exact:
            thousandths = np.rint(weights.clip(-30, 30) * 1000).astype(np.int16)
            if map.mask is not None:
                thousandths[~map.mask.cpu().numpy()] = _OUT
            numbers = thousandths.tolist()
        else:
            numbers = packed(_roots(weights, signed) if only is None else _largest(weights, only))
        entries.append({
            "title": map.title,
            "layer": map.layer,
            "head": map.head,
            "is_distribution": map.is_distribution,
            "vmax": map.vmax,
            "signed": signed,
            "axes": axes_line(map),
            "caption": clean(map.caption),
            "remarks": [clean(remark.text) for remark in (noted[index] if index in noted else remarks(map))],
            "hint": _map_hint(map),
            "query": axes.setdefault(map.query, len(axes)),
            "key": axes.setdefault(map.key, len(axes)),
            "mask": None if mask is None or exact else masks.setdefault(mask, len(masks)),
            "table": _fits_a_table(map),
            "by_row": shades(map).by_row,
            "kept": only,
            "weights": numbers,
        })  # fmt: skip
    packed_masks = [packed(np.frombuffer(bits, np.uint8)) for bits in masks]
    return {"format": MAPS, "axes": [_axis_data(axis) for axis in axes], "masks": packed_masks, "maps": entries}


def _axis_data(axis: Axis) -> dict[str, Any]:
    return {
        "name": place_name(axis),
        "kind": _kind(axis),
        "labels": [visible(label) for label in axis.labels],
        "parts": [[visible(part.label), part.start, part.stop] for part in axis.parts],
        **({"text": [clean(label) for label in axis.labels]} if axis.kind == "character" else {}),
    }


def _roots(weights: NDArray[np.float64], signed: bool = False) -> NDArray[np.uint8]:
    scale, middle = (127, 128) if signed else (255, 0)
    sizes = np.rint(np.sqrt(np.abs(weights.clip(-1 if signed else 0, 1))) * scale)
    roots: NDArray[np.uint8] = (middle + np.sign(weights) * sizes).astype(np.uint8)
    return roots


def _largest(weights: NDArray[np.float64], count: int) -> NDArray[np.uint8]:
    """The largest weights of each row, as `maps_data` packs them."""
    keys = np.sort(np.argpartition(-weights, count - 1, axis=1)[:, :count], axis=1)
    distances = np.diff(keys, axis=1, prepend=0)
    parts = distances & 255, distances >> 8, _roots(np.take_along_axis(weights, keys, axis=1))
    return np.concatenate([part.astype(np.uint8).ravel() for part in parts])


# Shaded words -------------------------------------------------------------------------------------------------


@as_html.register
def _(shading: Shading, numbers: Iterator[int]) -> Markup:
    return shading_to_html(shading)


def shading_to_html(shading: Shading, *, numbers: bool = True) -> Markup:
    """A section of a page; without `numbers`, tagged text has no table of numbers, only tooltips."""
    if shading.tags:
        heads = [shading.axis.kind, "tag", "probability", ""]
        return draw("shading", shading, _found(shading), "tagged", _listed(shading) if numbers else [], heads)
    if shading.listed:
        return draw("shading", shading, "", "", _listed(shading), [shading.axis.kind, "number", ""])
    spans = []
    for i, label in enumerate(shading.axis.labels):
        tooltip = f"{shading.weights[i]:.3f}" + (f"; {shading.others[i]}" if shading.others else "")
        span = Markup('<span class="{}" title="{}"><bdi>{}</bdi></span>')
        spans.append(span.format(_shade(shading, i), clean(tooltip), visible(label)))
    between = Markup("" if shading.axis.kind == "token" else " ")  # tokens include their spaces, drawn visibly
    text = between.join(spans)
    if shading.axis.parts:
        text = Markup("\n").join(
            Markup("{}<b>{:.3f} {}</b> {}").format(
                Markup("{} ").format(draw("bar", shading.part_sum(part))) if shading.nested else "",
                shading.part_sum(part),
                visible(part.label),
                between.join(spans[part.start : part.stop]),
            )
            for part in shading.axis.parts
        )
    table = table_to_html(nested_table(shading)) if shading.nested else ""
    return draw("shading", shading, text, "keys word", [], [], table)


def _shade(shading: Shading, i: int) -> str:
    return palette.css_level(shading.level(i), shading.signed)


def _runs(shading: Shading) -> Iterator[tuple[TagSpan | None, int, int]]:
    """The tagged spans and the text between them (None), in order."""
    at = 0
    for span in [*shading.spans, None]:
        start = len(shading.axis) if span is None else span.start
        if at < start:
            yield None, at, start
        if span is not None:
            yield span, span.start, span.stop
            at = span.stop


def _found(shading: Shading) -> Markup:
    """The text, each tagged span on the background colour of its type, followed by the name of the type."""
    parts = []
    for span, start, stop in _runs(shading):
        words = Markup("<bdi>{}</bdi>").format(" ".join(visible(label) for label in shading.axis.labels[start:stop]))
        if span is not None:
            probabilities = ", ".join(f"{weight:.3f}" for weight in shading.weights[start:stop])
            words = Markup('<span class="found c{}" title="{}">{} <small>{}</small></span>').format(
                span.color % len(palette.TAGS_LIGHT), probabilities, words, clean(span.label)
            )
        parts.append(words)
    return Markup(" ").join(parts)


def _listed(shading: Shading) -> list[Row]:
    """All positions with their numbers; tags have bars, because there background colours mean types."""
    rows = []
    for i, label in enumerate(shading.axis.labels):
        cells: list[str | Cell]
        if shading.tags:
            cells = [shading.tags[i], Cell(shading.number(i), kind="number", bar=shading.weights[i])]
        else:
            cells = [Cell(shading.number(i), kind=f"{_shade(shading, i)} number")]
        rows.append(
            Row(visible(label), [*cells, *([Cell(shading.others[i], kind="others")] if shading.others else [])])
        )
    return rows


# Steps --------------------------------------------------------------------------------------------------------


class StepRow(NamedTuple):
    """A row of a step: its name and a value, which the template draws according to `kind`."""

    name: str
    kind: str
    value: Any


class Strip(NamedTuple):
    """A vector as bars above and below a middle line: two SVG paths, and the units, scale and norm in words."""

    up: str
    down: str
    width: int
    height: int
    description: str


@as_html.register
def _(block: Steps, numbers: Iterator[int]) -> Markup:
    look = block.look
    if look.no_steps:
        return draw("hint", look.no_steps)
    scales = _scales(look)
    steps = []
    both: tuple[Sequence[EncoderFrame | DecoderFrame], ...] = look.encoder, look.decoder
    for part, frames in zip(look.parts, both, strict=True):
        for frame in frames:
            head = f"{part[0].capitalize()} {frame.index + 1} of {len(frames)}: {part[1]}"
            steps.append({"head": head, "token": frame.token, "rows": list(_frame_rows(frame, look, scales))})
    return draw("steps", _hint(look), steps)


def _frame_rows(frame: EncoderFrame | DecoderFrame, look: Look, scales: dict[str, float]) -> Iterator[StepRow]:
    if isinstance(frame, DecoderFrame):
        yield StepRow("so far", "so far", frame.so_far)
    states = {"state": frame.state} if isinstance(frame, DecoderFrame) else frame.states
    for name, state in states.items():
        yield StepRow(name, "strip", _strip(state, scales[name]))
    for name, gate in frame.gates.items():
        yield StepRow(f"{name} (mean)", "meter", gate)
    for step in frame.attention:
        yield from _attention_rows(step, scales, f"{step.name}: " if len(frame.attention) > 1 else "")
    if isinstance(frame, DecoderFrame) and look.summary is not None:
        yield StepRow("source (the same at every step)", "strip", _strip(look.summary))
    if frame.top:
        yield StepRow("next token", "top", frame.top)


def _attention_rows(step: AttentionStep, scales: dict[str, float], of: str) -> Iterator[StepRow]:
    """Shaded keys, numbers and context of one attention."""
    kind = _kind(step.key)
    shaded = shaded_words(step.key, unmasked(step.weights, step.mask))
    yield StepRow(f"{of}looks at", "", Markup('<p class="keys {}" dir="auto">{}</p>').format(kind, shaded))
    yield StepRow("numbers", "", table_to_html(attention_table(step)))
    yield StepRow("context", "strip", _strip(step.context, scales[step.name]))


def _hint(look: Look) -> str:
    """Description of the steps."""
    if look.hint:
        return look.hint
    if look.names[0] == "source":
        does = _ATTENDS if look.summary is None else _FIXED
        return f"The encoder reads the source token by token; then the decoder writes one token a step: {does}"
    frames: list[EncoderFrame | DecoderFrame] = [*look.encoder, *look.decoder]
    has_next = any(frame.top for frame in frames)
    parts = [
        "the model's state" if look.decoder or any(frame.states for frame in look.encoder) else "",
        "the mean of each gate" if any(frame.gates for frame in frames) else "",
        "where it looked" if any(frame.attention for frame in frames) else "",
        "the most probable next tokens" if has_next else "",
    ]
    *others, last = [part for part in parts if part]
    unit = "token" if has_next else look.unit
    return f"{unit.capitalize()} by {unit}: " + (f"{', '.join(others)} and {last}." if others else f"{last}.")


def _scales(look: Look) -> dict[str, float]:
    """The largest absolute value of each kind of vector over all frames, at least 1, so that frames can be compared."""
    scales: dict[str, float] = {}
    vectors = [item for frame in look.encoder for item in frame.states.items()]
    vectors += [("state", frame.state) for frame in look.decoder]
    frames: list[EncoderFrame | DecoderFrame] = [*look.encoder, *look.decoder]
    vectors += [(step.name, step.context) for frame in frames for step in frame.attention]
    for name, vector in vectors:
        scales[name] = max(scales.get(name, 1.0), _scale(vector))
    return scales


def _scale(vector: Tensor) -> float:
    return max(1.0, float(vector.detach().abs().max())) if vector.numel() else 1.0


def _strip(vector: Tensor, scale: float | None = None) -> Strip:
    values = vector.detach().double().flatten().tolist()
    shown, scale = values[:_UNITS], scale or _scale(vector)
    middle = _HEIGHT / 2
    bars = {"up": "", "down": ""}
    for i, value in enumerate(shown):
        length = value / scale * middle
        if abs(length) >= 0.05:
            bars["up" if length > 0 else "down"] += f"M{i * 3 + 1} {middle:g}v{-length:.1f}"
    count = f"{len(values)} units" if len(shown) == len(values) else f"first {_UNITS} of {len(values)} units"
    description = f"{count}, scale \u00b1{scale:.2f}, norm {float(vector.detach().double().norm()):.3f}"
    return Strip(bars["up"], bars["down"], len(shown) * 3, _HEIGHT, description)
