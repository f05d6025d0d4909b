"""Moments worth stopping at: a zero query, an even row, a row on one key, a tie, rows that cannot be told apart."""

from __future__ import annotations

from collections.abc import Iterable

import torch
from torch import Tensor

from heed.lessons.arithmetic import Numbers
from heed.lessons.parts import THREE_DECIMALS, Moment, name_of


def find_moments(x: Tensor, numbers: Numbers, tokens: tuple[str, ...]) -> tuple[Moment, ...]:
    """Name what the rows of one attention over all tokens show; rows alike are told once. x is `(rows, d_model)`."""
    rows = [_moment(i, numbers, tokens) for i in range(len(tokens))]
    groups: dict[tuple[str, str], list[int]] = {}
    for i, found in enumerate(rows):
        if found is not None:
            groups.setdefault(found, []).append(i)
    moments = [
        Moment(kind, tuple(group), f"{_names(group, tokens)}: {text}")  # type: ignore[arg-type]
        for (kind, text), group in groups.items()
    ]
    return (*moments, *_equal_rows(x, numbers, tokens))


def _moment(i: int, numbers: Numbers, tokens: tuple[str, ...]) -> tuple[str, str] | None:
    """What one row shows: the kind, and the text that follows the token's name."""
    weights = numbers.weights[i]
    allowed = list(range(len(weights))) if numbers.mask is None else numbers.mask[i].nonzero().flatten().tolist()
    if not allowed:
        return "masked row", "may attend to nothing, so its weights and its context are zeros"
    if len(allowed) == 1:
        only = _other(allowed[0], i, tokens)
        return "one key", f"may attend to {only} only, so that weight is 1.000 whatever the score"
    seen = weights[allowed]
    even = float(seen.max() - seen.min()) <= THREE_DECIMALS
    if not bool(numbers.query[i].any()):
        return "zero query", f"every score is 0, so each of the {len(allowed)} keys gets {float(seen[0]):.3f}"
    if even:
        return "uniform row", f"equal scores, so each of the {len(allowed)} keys gets {float(seen.mean()):.3f}"
    best = int(weights.argmax())
    if float(weights[best]) >= 1 - THREE_DECIMALS:
        return "one-hot row", f"all weight on {_other(best, i, tokens)}, to three decimals"
    ties = [j for j in allowed if float(weights[best] - weights[j]) <= 1e-9]
    if len(ties) > 1:
        return "tie", f"{_names(ties, tokens)} tie with {float(weights[best]):.3f} each"
    return None


def _equal_rows(x: Tensor, numbers: Numbers, tokens: tuple[str, ...]) -> list[Moment]:
    """Inputs that are equal have equal rows: nothing in attention itself knows positions."""
    groups: dict[tuple[float, ...], list[int]] = {}
    for i, row in enumerate(x.tolist()):
        groups.setdefault(tuple(row), []).append(i)
    text = "equal inputs, so equal rows; nothing here knows positions"
    return [
        Moment("equal rows", tuple(group), f"{_names(group, tokens)}: {text}")
        for group in groups.values()
        if len(group) > 1 and all(torch.equal(numbers.weights[group[0]], numbers.weights[i]) for i in group)
    ]


def _other(key: int, query: int, tokens: tuple[str, ...]) -> str:
    return "itself" if key == query else name_of(key, tokens)


def _names(rows: Iterable[int], tokens: tuple[str, ...]) -> str:
    return ", ".join(name_of(i, tokens) for i in rows)
