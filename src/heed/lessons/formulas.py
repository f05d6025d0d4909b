"""Formulas of lessons, written as for a terminal, in runs of text on, below and above the line, for pages and pictures.

What is written: names with subscripts (`W_Q`, `h_n,j-1`), powers (`P^2`), `'` for a transposed matrix, `sqrt(...)`,
`sum_j` or "sum over j of", Greek letters by name; all else stays as it is. Two spaces separate formulas.
"""

from __future__ import annotations

import re
from collections.abc import Iterable

from markupsafe import Markup

from heed.visible import clean

Runs = tuple[tuple[str, int], ...]
"""Pieces of a text, each on the line (0), below (-1) or above it (1)."""

_NAMES = ("sum", "product", "alpha", "beta", "sqrt")
_SIGNS = (
    (r" {2,}", "\u2003"),
    (r"\bsum over (\w) of ", "sum_\\1 "),
    (r"\b(sum|product) of ", r"\1 "),
    *((rf"\b{name}(?![a-z])", sign) for name, sign in zip(_NAMES, "\u2211\u220f\u03b1\u03b2\u221a", strict=True)),
    (r"\bd(?=L\b|e_)", "\u2202"),
    (r"(?<=[A-Z0-9]) x (?=[A-Z0-9])", " \u00d7 "),
    (r" \. ", " \u00b7 "),
    (r"\.\.\.", "\u2026"),
    (r"<=", "\u2264"),
    (r"(?<![a-z]{2})-|-(?![a-z]{2})", "\u2212"),
)
"""Patterns, and the signs that are set for them."""
_SHIFTED = re.compile(r"_(\[\w+\]|[^\W_]+(?:,[^\W_]+)*(?:\u22121)?)|\^(\w)|(')")
_INLINE = re.compile(
    r"\b(?:[QKV] = X )?W_[QKVO]\b|\b[QX] [KX]'(?!\w)|\bsqrt\(\w+\)|(?<![\w.])[a-z]_(?:[a-z]{1,2}|true|pred)\b"
)
"""Formulas within sentences and titles; words of users are hardly ever of these forms."""


def to_runs(formula: str) -> Runs:
    """A line of formulas as runs."""
    text = clean(formula)
    for pattern, sign in _SIGNS:
        text = re.sub(pattern, sign, text)
    runs, end = [], 0
    for match in _SHIFTED.finditer(text):
        below, above, transposed = match.groups()
        shifted = (below.strip("[]"), -1) if below else ("\u22a4" if transposed else above, 1)
        runs += [(text[end : match.start()], 0), shifted]
        end = match.end()
    return tuple((part, level) for part, level in [*runs, (text[end:], 0)] if part)


def with_runs(text: str) -> Runs:
    """A text with its formulas as `to_runs` gives them; empty if it has none."""
    text, runs, end = clean(text), [], 0
    for match in _INLINE.finditer(text):
        runs += [(text[end : match.start()], 0), *to_runs(match[0])]
        end = match.end()
    return tuple(run for run in (*runs, (text[end:], 0)) if run[0]) if end else ()


def to_html(runs: Iterable[tuple[str, int]]) -> Markup:
    """Runs as HTML."""
    set_as = {0: Markup("{}"), -1: Markup("<sub>{}</sub>"), 1: Markup("<sup>{}</sup>")}
    return Markup("").join(set_as[level].format(text) for text, level in runs)
