"""Noteworthy rows of an attention, and the values that a file states beside the computed ones."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from torch import Tensor

from heed.errors import ConfigError
from heed.lessons.arithmetic import Bench, Numbers
from heed.lessons.parts import THREE_DECIMALS, Check, Moment, find, name_of
from heed.lessons.schema import Values
from heed.tasks.base.report import counted

_HALF = 0.0005
"""Allowed difference of values that are stated to three decimals."""


def find_moments(x: Tensor, numbers: Numbers, tokens: tuple[str, ...]) -> tuple[Moment, ...]:
    """Find noteworthy rows of one attention over all tokens; equal findings are merged. `x` is `(rows, d_model)`."""
    shown: dict[tuple[str, str], list[int]] = {}
    alike: dict[tuple[float, ...], list[int]] = {}
    for i, row in enumerate(x.tolist()):
        alike.setdefault(tuple(row), []).append(i)
        if (found := _moment(i, numbers, tokens)) is not None:
            shown.setdefault(found, []).append(i)
    equal = ("equal rows", "equal inputs, so equal rows; attention by itself ignores positions")
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
    if not bool(numbers.query[i].any()):
        return "zero query", f"every score is 0, so each of the {len(allowed)} keys gets {float(seen[0]):.3f}"
    if float(seen.max() - seen.min()) <= THREE_DECIMALS:
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


def check_all(bench: Bench) -> tuple[Check, ...]:
    """Compare every value that the file states.

    Raises:
        ConfigError: A value names a row or a column that does not exist.
    """
    file, tokens = bench.file, bench.tokens
    checks = [
        *_compare(file.expected, bench.learned, tokens, "expected", _HALF),
        *_compare(file.printed, bench.learned, tokens, "printed", file.tolerance),
        *_compare(file.unlearned, bench.unlearned, tokens, "unlearned", _HALF),
    ]
    for item in file.other_scales:
        i, j = (find(place, tokens, "other_scales") for place in (item.row, item.column))
        for scale, weight in item.weights.items():
            found = bench.learned.under(bench.divisor(scale)).weights[i, j]
            name = f"weights[{name_of(i, tokens)}][{name_of(j, tokens)}] under {scale}"
            checks.append(Check(name, weight, float(found), _HALF))
    return tuple(checks)


def _compare(
    values: Values, numbers: Numbers, tokens: tuple[str, ...], group: str, tolerance: float
) -> Iterator[Check]:
    """Compare a group of values with the computed numbers."""
    for quantity, results in numbers.as_dict().items():
        by_token = quantity in ("scores", "scaled", "weights")
        columns = tokens if by_token else tuple(map(str, range(results.shape[-1])))
        where, cells = f"{group}.{quantity}", []
        for place, row in getattr(values, quantity).items():
            i = find(place, tokens, where)
            if all(isinstance(column, int) for column in row) and len(row) != len(columns):
                raise ConfigError(f"{where} row {place} has {counted(len(row), 'number')}, expected {len(columns)}")
            cells += [(i, find(column, columns, f"{where} row {place}"), value) for column, value in row.items()]
        if quantity == "weights":
            some = f"{where}_some"
            cells += [(find(row, tokens, some), find(key, tokens, some), w) for row, key, w in values.weights_some]
        for i, j, value in cells:
            if value is not None:
                name = f"{group} {quantity}[{name_of(i, tokens)}][{name_of(j, columns)}]"
                yield Check(name, value, float(results[i, j]), tolerance)
