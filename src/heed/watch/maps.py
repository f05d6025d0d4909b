"""Maps: the weights of one attention mechanism on named axes, whose sizes are checked; words and spans of a map.

Also the text of labels and names of axes as drawn: nothing in it breaks a terminal, XML or a line.

`merge_subwords` makes a map of words from a map of subword tokens: the weights of a word's parts are summed over keys
(they are shares of one whole) and averaged over queries (each part attends separately), so rows still sum to 1.

`best_spans` finds the part of the source with most of a query's weight, one definition for all drawings. Character keys
are grouped into runs of letters, of digits or of other characters ("9", " ", "de", " ", "mayo"), because a reader
compares fields, not letters; any other key is a span by itself.
"""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from itertools import accumulate, groupby, pairwise
from typing import Any, NamedTuple, Protocol

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from heed.errors import ShapeError
from heed.visible import clean, visible
from heed.watch import palette
from heed.watch.effects import Effect


@dataclass(frozen=True, slots=True)
class Part:
    """Positions `start` to `stop` (exclusive) of an axis that belong together, such as the words of a turn."""

    label: str
    start: int
    stop: int


@dataclass(frozen=True, slots=True)
class Axis:
    """One axis of a map: one label per position.

    `name` is "source", "target", "encoder layer 2", ...; a position is a `kind`: "character", "token", "word",
    "sentence", "turn" or "patch". The `parts` of an axis are adjacent and cover it; most axes have none.
    """

    name: str
    kind: str
    labels: tuple[str, ...]
    parts: tuple[Part, ...] = ()

    def __post_init__(self) -> None:
        ends = [0, *(part.stop for part in self.parts)]
        assert [part.start for part in self.parts] == ends[:-1] and ends[-1] in (0, len(self.labels))

    def __len__(self) -> int:
        return len(self.labels)

    def cut(self, start: int, stop: int) -> Axis:
        """Only the positions from `start` to `stop` (exclusive)."""
        inside = [(part.label, max(part.start, start), min(part.stop, stop)) for part in self.parts]
        parts = tuple(Part(label, a - start, b - start) for label, a, b in inside if a < b)
        return replace(self, labels=self.labels[start:stop], parts=parts)

    def part_at(self, position: int) -> str:
        """The name of the part that contains a position; "" on an axis without parts."""
        return next((part.label for part in self.parts if part.start <= position < part.stop), "")


def unmasked(values: Tensor, mask: Tensor | None) -> list[float | None]:
    """A vector as numbers, None for masked positions."""
    allowed = [True] * len(values) if mask is None else mask.tolist()
    return [v if may else None for v, may in zip(values.detach().double().tolist(), allowed, strict=True)]


class WeightSource(Protocol):
    """The recorded calls from which the weights of a map came (`heed.watch.numbers.RecordedSource`)."""

    def over(self, query: Sequence[range], key: Sequence[range]) -> WeightSource:
        """The same for words, given as ranges of tokens."""

    def breakdown(self, title: str, axes: tuple[Axis, Axis], row: int, column: int, drawn: float | None = None) -> Any:
        """One weight with all steps of its computation."""

    def place(self, row: int, column: int) -> tuple[list[int], list[int]] | None:
        """Positions of the queries and keys of a cell, as edits count them; None where they cannot be named."""

    @property
    def attention(self) -> tuple[str, int, int | None]:
        """Mechanism, layer and head; None for the mean of all heads."""


class WithEffect:
    """Base of drawn weights, with the effect that other weights have on the output."""

    __slots__ = ()
    effect: Effect | None

    @property
    def still(self) -> bool:
        """True if no other weights that were tried changed the output; drawn grey then."""
        return self.effect is not None and self.effect.still

    @property
    def effects(self) -> list[str]:
        """The effect of other weights on the output, as lines."""
        return [] if self.effect is None else self.effect.lines


@dataclass(frozen=True, slots=True)
class Map(WithEffect):
    """The weights with which each query attended to each key."""

    mechanism: str  # "cross", "encoder", "decoder" or another name given by the model
    layer: int
    head: int | None  # which head, from 0; None for a mean over heads
    query: Axis
    key: Axis
    weights: Tensor  # `(query, key)`, before dropout; rows sum to 1, or to 0 where nothing may be attended to
    scores: Tensor | None = None  # `(query, key)` before the softmax, or None
    mask: Tensor | None = None  # `(query, key)`, True = may attend, or None where everything may
    caption: str = ""  # how to read the map
    links: Tensor | None = None  # `(query, key)`, True where the true alignment links them; None if it is not known
    name: str = ""  # the title; empty for one of mechanism, layer and head
    weight_source: WeightSource | None = field(default=None, compare=False)  # the recorded calls; None if not kept
    of: str = ""  # the network, in a look at several; "" for the run
    # distance from the same map of the untrained network, the mean total variation of the rows; None if not computed
    untrained: float | None = None
    effect: Effect | None = None  # of other weights on the output; None if it was not computed
    unit: str = "weight"  # name of the numbers: "weight", "value" (of gates and states), "difference", "probability"
    signed: bool = False  # True if numbers may be below 0: they are drawn on two ramps that meet there
    vmax: float = 1.0  # the number, or the absolute value, that is drawn darkest
    tokens: tuple[tuple[str, ...], ...] = ()  # a token before the number in each cell, or none
    # of a difference from another network: the share of the rows whose largest weights are on the same key, and the
    # mean total variation of the rows; None for other maps
    agreement: float | None = None
    distance: float | None = None

    def __repr__(self) -> str:
        head = "" if self.head is None else f" head {self.head}"
        sizes = f"{len(self.query)} x {len(self.key)} {self.key.kind}s"
        return f"<map {self.mechanism} layer {self.layer}{head}: {sizes}>"

    def __post_init__(self) -> None:
        expected = (len(self.query), len(self.key))
        for name in ("weights", "scores", "mask", "links"):
            tensor = getattr(self, name)
            if tensor is not None and tuple(tensor.shape) != expected:
                raise ShapeError(
                    f"{name} of map '{self.mechanism}' (layer {self.layer}) has shape {tuple(tensor.shape)}, but its "
                    f"axes have {expected[0]} {self.query.kind}s ({self.query.name}) and {expected[1]} "
                    f"{self.key.kind}s ({self.key.name})"
                )
        if self.tokens and [*map(len, self.tokens)] != [len(self.key)] * len(self.query):
            raise ShapeError(f"there is not one token for each of the {len(self.query)} x {len(self.key)} cells")

    @property
    def has_masked(self) -> bool:
        """True if any cell is masked."""
        return self.mask is not None and not bool(self.mask.all())

    def cells(self) -> list[list[float | None]]:
        """The weights as numbers, None for masked cells."""
        masks = [None] * len(self.query) if self.mask is None else self.mask
        return [unmasked(row, mask) for row, mask in zip(self.weights, masks, strict=True)]

    @property
    def title(self) -> str:
        """Short name: by default of mechanism, layer and head."""
        if self.name:
            return f"{self.name}{self.whose}"
        if not self.is_distribution:
            return f"{self.mechanism} network, layer {self.layer}: gates over the {self.key.name}{self.whose}"
        head = "" if self.head is None else f", head {self.head}"
        return f"{self.mechanism} attention, layer {self.layer}{head}{self.whose}"

    @property
    def whose(self) -> str:
        """The network, for titles; "" for the run."""
        return f", of {self.of}" if self.of else ""

    @property
    def panel(self) -> str:
        """Its name for `--panels`."""
        of_unit = {"difference": "difference", "value": "gates", "state": "vector"}
        return of_unit.get(self.unit, "beside" if self.of else "map")

    @property
    def vmin(self) -> float:
        """The number at the other end of the scale."""
        return -self.vmax if self.signed else 0.0

    @property
    def is_distribution(self) -> bool:
        """True if rows are shares of one whole: for attention, not for gates and differences."""
        return self.unit == "weight"

    def color(self, value: float, dark: bool = False) -> str:
        """The colour of a number, for a white or a dark ground; grey if the output is the same under other weights."""
        return self.colors(value)[dark]

    def colors(self, value: float) -> tuple[str, str]:
        """The colours of a number, for both grounds."""
        return palette.shades(value / self.vmax, self.signed, self.still)

    def css(self, value: float) -> str:
        """The CSS class of a number."""
        return palette.css_level(value / self.vmax, self.signed)

    def number(self, value: float, digits: int = 2) -> str:
        """A number as text."""
        rounded = round(value, digits) or 0.0
        return f"{rounded:+.{digits}f}" if self.signed and rounded else f"{rounded:.{digits}f}"

    @property
    def token_width(self) -> int:
        """Characters of the longest `token`."""
        return max((len(self.token(i, j)) for i, row in enumerate(self.tokens) for j in range(len(row))), default=0)

    def token(self, row: int, column: int, longest: int = 14) -> str:
        """The text before the number in a cell: nothing, or a token and a space."""
        return cut(visible(self.tokens[row][column]), longest) + " " if self.tokens else ""

    def best(self) -> list[int]:
        """For each query, the position of its largest weight (the first of equal ones)."""
        return [int(i) for i in torch.argmax(self.weights, dim=-1)]


def difference_of(after: Map, before: Map, name: str = "", caption: str = "", **numbers: Any) -> Map:
    """The weights of one map minus those of another on the same axes."""
    name = name or f"{after.title}: difference"
    mask = None if after.mask is None or before.mask is None else after.mask | before.mask
    parts = after.mechanism, after.layer, after.head, after.query, after.key, after.weights - before.weights
    return Map(*parts, None, mask, caption, name=name, unit="difference", signed=True, **numbers)


LONG = 64
"""Maps with more keys are coloured by row: the weights of a long row are all near 0 on a fixed scale."""


class Shades(NamedTuple):
    """The number that colours each cell, `(query, key)`, NaN for masked cells; with `by_row`, 1 is a row's largest."""

    values: NDArray[np.float64]
    by_row: bool


def shades(map: Map) -> Shades:
    """The weights, or for maps of more than `LONG` keys their shares of the largest weight of their row."""
    values = map.weights.detach().double().cpu().numpy()
    by_row = len(map.key) > LONG and map.is_distribution
    if by_row:
        values = values / np.maximum(values.max(1, keepdims=True), 1e-12)
    if map.mask is not None:
        values = np.where(map.mask.cpu().numpy(), values, np.nan)
    return Shades(values, by_row)


def common_units(axis: Axis, other: Axis) -> tuple[list[range], list[range]] | None:
    """The finest common units of two axes, as ranges of their positions; None for different texts.

    Labels are compared without blanks, marks of unknown, generated and inner tokens, and case. A blank character
    belongs to the unit before it.
    """
    if axis.labels == other.labels:  # blanks too
        return ([range(i, i + 1) for i in range(len(axis))],) * 2
    texts = [[_compared(label) for label in labels] for labels in (axis.labels, other.labels)]
    if "".join(texts[0]) != "".join(texts[1]):
        return None
    ends = [[*accumulate(map(len, labels))] for labels in texts]
    units: list[list[range]] = []
    common = {*ends[0]} & {*ends[1]}
    for of_axis in ends:
        cuts = [i + 1 for i, end in enumerate(of_axis) if end in common and end not in of_axis[i + 1 : i + 2]]
        units.append([range(*pair) for pair in pairwise([0, *cuts])])
    return (units[0], units[1]) if len(units[0]) == len(units[1]) else None


def _compared(label: str) -> str:
    plain = "".join(label.split()).casefold()
    return re.sub(r"^([?+]|##|\u2581)(?=.)", "", plain)


MERGED = "Words: weights are summed over the parts of the attended word and averaged over those of the attending word."


def merge_subwords(whole: Map, query: Axis, query_words: Sequence[range], key: Axis, key_words: Sequence[range]) -> Map:
    """The map of words, given as ranges of tokens; it has no scores, since scores of parts do not add up."""
    rows, columns = _membership(query_words, whole.weights), _membership(key_words, whole.weights)
    weights = rows / rows.sum(1, keepdim=True).clamp_min(1) @ whole.weights @ columns.T
    mask = None
    if whole.mask is not None:
        mask = (rows @ whole.mask.to(rows.dtype) @ columns.T) > 0
    caption = f"{whole.caption} {MERGED}".strip()
    source = None if whole.weight_source is None else whole.weight_source.over(query_words, key_words)
    axes = whole.mechanism, whole.layer, whole.head, query, key
    return Map(*axes, weights, None, mask, caption, name=whole.name, weight_source=source)


def _membership(words: Sequence[range], like: Tensor) -> Tensor:
    """`(words, tokens)`, 1 where a token belongs to a word."""
    result = torch.zeros(len(words), words[-1].stop if words else 0, dtype=like.dtype, device=like.device)
    for number, tokens in enumerate(words):
        result[number, tokens.start : tokens.stop] = 1.0
    return result


@dataclass(frozen=True, slots=True)
class KeySpan:
    """Keys `start` to `stop` (exclusive) and their share of the weight."""

    start: int
    stop: int
    share: float


@dataclass(frozen=True, slots=True)
class SpanLink:
    """Queries `start` to `stop` (exclusive) that attend to the same span; `span.share` is their mean share.

    `span` is None if all keys are masked for these queries.
    """

    start: int
    stop: int
    span: KeySpan | None


def _sort_of(label: str) -> str:
    if len(label) != 1:
        return label  # a special token among characters is a group by itself
    category = unicodedata.category(label)
    return {"N": "number", "L": "letter", "Z": "blank"}.get(category[0], "other")


def key_units(axis: Axis) -> list[tuple[int, int]]:
    """Groups of positions of an axis, as (start, stop)."""
    if axis.kind != "character":
        return [(i, i + 1) for i in range(len(axis))]
    sorts: list[str] = []
    for label in axis.labels:
        # Marks and joiners belong to the character before them.
        joins = bool(sorts) and len(label) == 1 and unicodedata.category(label) in {"Mn", "Mc", "Me", "Cf"}
        sorts.append(sorts[-1] if joins else _sort_of(label))
    units, start = [], 0
    for _, group in groupby(sorts):
        stop = start + len(list(group))
        units.append((start, stop))
        start = stop
    return units


def best_spans(map: Map) -> list[KeySpan | None]:
    """For each query the group of keys with most weight (the first of equal ones); None for a row of zeros."""
    weights, units = map.weights.detach().double().cpu().numpy(), key_units(map.key)
    if not units:
        return [None] * len(weights)
    sums = np.add.reduceat(weights, [start for start, _ in units], axis=1)  # all rows at once: maps may be 512 x 512
    best = [(units[at], float(row[at])) for row, at in zip(sums, sums.argmax(1), strict=True)]
    return [KeySpan(start, stop, share) if share > 0 else None for (start, stop), share in best]


_OVER_EVEN, _OVER_NEXT = 2.0, 1.5

PEAK = "at the end of a row: its peak, a word or field with over half of the weight, or at least twice an even share"
"""Printed below a drawing that names peaks."""


def peaks(map: Map) -> list[KeySpan | None]:
    """The best span of each query, if it stands out; None for a row of nearly even or zero weights.

    A span stands out if it has more than half of the weight, or if it has at least twice its weight under uniform
    attention and at least 1.5 times the weight of the next best span.
    """
    units = key_units(map.key)
    spans: list[KeySpan | None] = []
    masks = torch.ones_like(map.weights, dtype=torch.bool) if map.mask is None else map.mask
    for best, row, mask in zip(best_spans(map), map.weights.detach().double().tolist(), masks.tolist(), strict=True):
        if best is None or best.share > 0.5:
            spans.append(best)
            continue
        even = sum(mask[best.start : best.stop]) / max(1, sum(mask))
        others = (sum(row[a:b]) for a, b in units if (a, b) != (best.start, best.stop))
        stands_out = best.share >= _OVER_EVEN * even and best.share >= _OVER_NEXT * max(others, default=0.0)
        spans.append(best if stands_out else None)
    return spans


@dataclass(frozen=True, slots=True)
class Repetition:
    """A periodic end of an axis: the labels of positions `start` to `stop` repeat with the given period."""

    axis: Axis
    start: int
    stop: int
    period: int

    @property
    def times(self) -> int:
        """The number of complete periods."""
        return (self.stop - self.start) // self.period

    def __str__(self) -> str:
        text = visible(text_of(self.axis, self.start, self.start + self.period))
        return f"{self.axis.name} repeats '{text}' {self.times} times from {self.axis.kind} {self.start + 1} on"


def repetition(axis: Axis) -> Repetition | None:
    """The repetition at the end of an axis: of at most 12 labels, at least 4 times and over at least 12 labels in all.

    One more label may follow, such as "end".
    """
    labels = axis.labels
    for stop in (len(labels), len(labels) - 1):
        for period in range(1, 13):
            start = stop - period
            while start > 0 and labels[start - 1] == labels[start - 1 + period]:
                start -= 1
            if start >= 0 and stop - start >= max(12, 4 * period):
                return Repetition(axis, start, stop, period)
    return None


def links(map: Map) -> list[SpanLink]:
    """Runs of adjacent queries with the same best span: field -> source span."""
    runs: list[SpanLink] = []
    position = 0
    for _, group in groupby(best_spans(map), key=lambda span: span and (span.start, span.stop)):
        spans = list(group)
        stop = position + len(spans)
        real = [span for span in spans if span is not None]
        mean = KeySpan(real[0].start, real[0].stop, sum(s.share for s in real) / len(real)) if real else None
        runs.append(SpanLink(position, stop, mean))
        position = stop
    return runs


FIXED_VECTOR = "No attention: every output token sees the source only through this one vector."
"""Caption of the summary that a look shows in place of a map."""

MASKED = "////"
"""Printed in place of a masked weight."""

_RIGHT_TO_LEFT = frozenset({"R", "AL", "AN"})


def cut(text: str, length: int) -> str:
    """Cut a text to at most `length` characters; if any are left out, the last one is an ellipsis."""
    return text if len(text) <= length else text[: length - 1] + "…"


def shaded(weight: float, lowest: str) -> str:
    """A block character as dark as a weight; `lowest` is the character for weights below 0.05."""
    limits = ((0.05, lowest), (0.25, "░"), (0.5, "▒"), (0.75, "▓"))
    return next((sign for limit, sign in limits if weight < limit), "█")


def runs_right_to_left(text: str) -> bool:
    """True if any character is written from right to left (including Arabic digits)."""
    return any(unicodedata.bidirectional(c) in _RIGHT_TO_LEFT for c in text)


def lines_up(text: str) -> bool:
    """True if each character takes one terminal column, in writing order."""
    return not runs_right_to_left(text) and all(
        unicodedata.east_asian_width(c) not in {"W", "F"} and unicodedata.category(c) not in {"Mn", "Me", "Mc", "Cf"}
        for c in clean(text)
    )


def text_of(axis: Axis, start: int, stop: int) -> str:
    """The text of some positions of an axis as a reader would write it."""
    return ("" if axis.kind == "character" else " ").join(axis.labels[start:stop])


def plural(kind: str) -> str:
    """Plural of a kind of position."""
    return kind + ("es" if kind.endswith("ch") else "s")


def axis_name(axis: Axis) -> str:
    """Name and kind of an axis: "source characters"."""
    kinds = plural(axis.kind)
    return clean(axis.name if axis.name.endswith(kinds) else f"{axis.name} {kinds}")


def place_name(axis: Axis) -> str:
    """Name of one position of an axis: "target", "gate", "learned vector"."""
    if axis.name == plural(axis.kind):
        return axis.kind
    return clean(f"{axis.name} {axis.kind}" if axis.kind == "vector" else axis.name)


def cell_name(map: Map, query: str, key: str) -> str:
    """Name of one cell of a map: "target un -> source with"."""
    named = ((place_name(axis), visible(label)) for axis, label in ((map.query, query), (map.key, key)))
    return " -> ".join(label if label.startswith(f"{name} ") else f"{name} {label}" for name, label in named)


def axes_line(map: Map) -> str:
    """Names of the rows and columns of a map; printed on every figure."""
    return f"rows: {axis_name(map.query)}, columns: {axis_name(map.key)}"
