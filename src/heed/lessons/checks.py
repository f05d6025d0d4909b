"""Comparison of the values stated in a file with the computed ones."""

from __future__ import annotations

from collections.abc import Iterator

from heed.errors import ConfigError
from heed.lessons.arithmetic import Bench, Numbers
from heed.lessons.parts import THREE_DECIMALS, Check, count, find, name_of
from heed.lessons.schema import Values
from heed.lessons.tables import features

_TOKEN_COLUMNS = frozenset({"scores", "scaled", "weights"})


def check_all(bench: Bench) -> tuple[Check, ...]:
    """Compare every value that the file states.

    Raises:
        ConfigError: A value names a row or a column that does not exist.
    """
    file, tokens = bench.file, bench.tokens
    checks = [
        *_compare(file.expected, bench.learned, bench, "expected", THREE_DECIMALS),
        *_compare(file.printed, bench.learned, bench, "printed", file.tolerance),
        *_compare(file.unlearned, bench.unlearned, bench, "unlearned", THREE_DECIMALS),
    ]
    for item in file.other_scales:
        i, j = (find(place, tokens, f"{bench.where}: other_scales") for place in (item.row, item.column))
        for scale, weight in item.weights.items():
            found = bench.under(bench.named_score(scale)).weights[i, j]
            name = f"weights[{name_of(i, tokens)}][{name_of(j, tokens)}] under {scale}"
            checks.append(Check(name, weight, float(found), THREE_DECIMALS))
    return tuple(checks)


def _compare(values: Values, numbers: Numbers, bench: Bench, group: str, tolerance: float) -> Iterator[Check]:
    """Compare a group of values with the computed numbers."""
    tokens = bench.tokens
    for quantity, results in numbers.as_dict().items():
        columns = tokens if quantity in _TOKEN_COLUMNS else features(results.shape[-1])
        where, cells = f"{bench.where}: {group}.{quantity}", []
        for place, row in getattr(values, quantity).items():
            i = find(place, tokens, where)
            if all(isinstance(column, int) for column in row) and len(row) != len(columns):
                raise ConfigError(f"{where} row {place} has {count(len(row), 'number')}, expected {len(columns)}")
            cells += [(i, find(column, columns, f"{where} row {place}"), value) for column, value in row.items()]
        if quantity == "weights":
            some = f"{where}_some"
            cells += [(find(row, tokens, some), find(key, tokens, some), w) for row, key, w in values.weights_some]
        for i, j, value in cells:
            if value is not None:
                name = f"{group} {quantity}[{name_of(i, tokens)}][{name_of(j, columns)}]"
                yield Check(name, value, float(results[i, j]), tolerance)
