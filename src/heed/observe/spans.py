"""The part of the source with most of a query's weight: one definition for all drawings.

Character keys are grouped into runs of letters, of digits or of other characters ("9", " ", "de", " ", "mayo"), because
a reader compares fields, not letters; any other key is a span by itself. The best span of a query is the one with most
weight.
"""

from __future__ import annotations

import unicodedata
from dataclasses import dataclass
from itertools import groupby

import numpy as np
import torch

from heed.observe.maps import Axis, Map


@dataclass(frozen=True, slots=True)
class Span:
    """Keys `start` to `stop` (exclusive) and their share of the weight."""

    start: int
    stop: int
    share: float


@dataclass(frozen=True, slots=True)
class Link:
    """Queries `start` to `stop` (exclusive) that attend to the same span; `span.share` is their mean share.

    `span` is None if all keys are masked for these queries.
    """

    start: int
    stop: int
    span: Span | None


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


def best_spans(map: Map) -> list[Span | None]:
    """For each query the group of keys with most weight (the first of equal ones); None for a row of zeros."""
    if map.key.kind != "character":
        return _best_keys(map)
    units = key_units(map.key)
    spans: list[Span | None] = []
    for row in map.weights.detach().double().tolist():
        found = max((Span(a, b, sum(row[a:b])) for a, b in units), key=lambda span: span.share, default=None)
        spans.append(found if found is not None and found.share > 0 else None)
    return spans


def _best_keys(map: Map) -> list[Span | None]:
    """`best_spans` of single keys, for all queries at once; a map may have 512 x 512 cells."""
    weights = map.weights.detach().double().cpu().numpy()
    if not weights.shape[1]:
        return [None] * len(weights)
    best = weights.argmax(1)  # the first of equal ones
    shares = weights[np.arange(len(weights)), best].tolist()
    return [Span(at, at + 1, share) if share > 0 else None for at, share in zip(best.tolist(), shares, strict=True)]


_OVER_EVEN, _OVER_NEXT = 2.0, 1.5

PEAK = "at the end of a row: its peak, a word or field with over half of the weight, or at least twice an even share"
"""Printed below a drawing that names peaks."""


def peaks(map: Map) -> list[Span | None]:
    """The best span of each query, if it stands out; None for a row of nearly even or zero weights.

    A span stands out if it has more than half of the weight, or if it has at least twice its weight under uniform
    attention and at least 1.5 times the weight of the next best span.
    """
    units = key_units(map.key)
    found: list[Span | None] = []
    masks = torch.ones_like(map.weights, dtype=torch.bool) if map.mask is None else map.mask
    for best, row, mask in zip(best_spans(map), map.weights.detach().double().tolist(), masks.tolist(), strict=True):
        if best is None or best.share > 0.5:
            found.append(best)
            continue
        even = sum(mask[best.start : best.stop]) / max(1, sum(mask))
        if best.share >= _OVER_EVEN * even:
            others = (sum(row[a:b]) for a, b in units if (a, b) != (best.start, best.stop))
            stands_out = best.share >= _OVER_NEXT * max(others, default=0.0)
        else:
            stands_out = False
        found.append(best if stands_out else None)
    return found


def links(map: Map) -> list[Link]:
    """Runs of adjacent queries with the same best span: field -> source span."""
    found: list[Link] = []
    position = 0
    for _, group in groupby(best_spans(map), key=lambda span: span and (span.start, span.stop)):
        spans = list(group)
        stop = position + len(spans)
        real = [span for span in spans if span is not None]
        mean = Span(real[0].start, real[0].stop, sum(s.share for s in real) / len(real)) if real else None
        found.append(Link(position, stop, mean))
        position = stop
    return found
