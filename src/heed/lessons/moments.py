"""Noteworthy rows: a zero query, a uniform row, all weight on one key, a tie, equal rows."""

from __future__ import annotations

from collections.abc import Iterable

from torch import Tensor

from heed.lessons.arithmetic import Numbers
from heed.lessons.parts import THREE_DECIMALS, Moment, name_of


def find_moments(x: Tensor, numbers: Numbers, tokens: tuple[str, ...]) -> tuple[Moment, ...]:
    """Find noteworthy rows of one attention over all tokens; equal findings are merged. `x` is `(rows, d_model)`."""
    shown: dict[tuple[str, str], list[int]] = {}
    alike: dict[tuple[float, ...], list[int]] = {}
    for i, row in enumerate(x.tolist()):
        alike.setdefault(tuple(row), []).append(i)
        if (found := _moment(i, numbers, tokens)) is not None:
            shown.setdefault(found, []).append(i)
    equal = ("equal rows", "equal inputs, so equal rows; nothing here knows positions")
    weights = numbers.weights  # equal inputs have unequal rows if their masks differ
    repeated = [rows for rows in alike.values() if len(rows) > 1 and bool((weights[rows] == weights[rows[0]]).all())]
    return tuple(
        Moment(kind, tuple(rows), f"{_names(rows, tokens)}: {text}")
        for (kind, text), rows in [*shown.items(), *((equal, rows) for rows in repeated)]
    )


def _moment(i: int, numbers: Numbers, tokens: tuple[str, ...]) -> tuple[str, str] | None:
    """The finding of one row: its kind, and the text that follows the token's name."""
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


def _other(key: int, query: int, tokens: tuple[str, ...]) -> str:
    return "itself" if key == query else name_of(key, tokens)


def _names(rows: Iterable[int], tokens: tuple[str, ...]) -> str:
    return ", ".join(name_of(i, tokens) for i in rows)
