"""Values that a file states, compared one by one with what is computed."""

from __future__ import annotations

from collections.abc import Sequence

from heed.errors import ConfigError
from heed.lessons.arithmetic import Bench, Numbers, compute
from heed.lessons.parts import THREE_DECIMALS, Check, count, find, name_of
from heed.lessons.schema import Values
from heed.lessons.tables import features

_TOKEN_COLUMNS = frozenset({"scores", "scaled", "weights"})


def check_all(bench: Bench) -> tuple[Check, ...]:
    """Compare every value that the file states.

    Raises:
        ConfigError: A value names a row or a column that there is not.
    """
    file = bench.file
    checks = [
        *compare(file.expected, bench.learned, bench, "expected", THREE_DECIMALS),
        *compare(file.printed, bench.learned, bench, "printed", file.tolerance),
        *compare(file.unlearned, bench.unlearned, bench, "unlearned", THREE_DECIMALS),
    ]
    for item in file.other_scales:
        place = f"{bench.where}: other_scales"
        row, column = (find(place_of, bench.tokens, place) for place_of in (item.row, item.column))
        for scale, weight in item.weights.items():
            name = f"weights{_cell(row, column, bench.tokens, bench.tokens)} under {scale}"
            found = compute(bench.given, bench.named_score(scale)).weights[row, column]
            checks.append(Check(name, weight, float(found), THREE_DECIMALS))
    return tuple(checks)


def compare(values: Values, numbers: Numbers, bench: Bench, name: str, tolerance: float) -> list[Check]:
    """Compare a group of values with the numbers it belongs to."""
    tokens, checks = bench.tokens, []
    for quantity, results in numbers.as_dict().items():
        columns = tokens if quantity in _TOKEN_COLUMNS else features(results.shape[-1])
        for i, j, value in _cells(values, quantity, columns, bench, name):
            cell = f"{name} {quantity}{_cell(i, j, tokens, columns)}"
            checks.append(Check(cell, value, float(results[i, j]), tolerance))
    return checks


def _cells(
    values: Values, quantity: str, columns: Sequence[str], bench: Bench, name: str
) -> list[tuple[int, int, float]]:
    """Row, column and value of every cell that is stated."""
    where, tokens, width = f"{bench.where}: {name}.{quantity}", bench.tokens, len(columns)
    cells = []
    for place, row in getattr(values, quantity).items():
        i = find(place, tokens, where)
        if all(isinstance(column, int) for column in row) and len(row) != width:
            raise ConfigError(f"{where} row {place} has {count(len(row), 'number')}, expected {width}")
        for column, value in row.items():
            j = find(column, columns, f"{where} row {place}")
            if value is not None:
                cells.append((i, j, value))
    if quantity == "weights":
        some = f"{where}_some"
        cells += [(find(row, tokens, some), find(key, tokens, some), value) for row, key, value in values.weights_some]
    return cells


def _cell(row: int, column: int, rows: Sequence[str], columns: Sequence[str]) -> str:
    return f"[{name_of(row, rows)}][{name_of(column, columns)}]"
