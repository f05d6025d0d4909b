"""The text of labels as drawn: invisible characters shown, nothing that breaks a terminal, XML or a line."""

from __future__ import annotations

import unicodedata

from heed.observe.maps import Axis, Map
from heed.visible import clean as clean
from heed.visible import visible as visible

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
    return f"{place_name(map.query)} {visible(query)} -> {place_name(map.key)} {visible(key)}"


def axes_line(map: Map) -> str:
    """Names of the rows and columns of a map; printed on every figure."""
    return f"rows: {axis_name(map.query)}, columns: {axis_name(map.key)}"
