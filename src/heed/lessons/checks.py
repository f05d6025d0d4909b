"""Values that a file states, compared one by one with what is computed."""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor

from heed.errors import ConfigError
from heed.lessons.arithmetic import Inputs, Numbers, compute, inputs
from heed.lessons.bench import Bench
from heed.lessons.parts import THREE_DECIMALS, Check
from heed.lessons.places import count, find, name_of
from heed.lessons.schema import Remark, Values
from heed.lessons.tables import features

_TOKEN_COLUMNS = frozenset({"scores", "scaled", "weights"})


def check_all(bench: Bench, from_printed: Numbers | None) -> tuple[Check, ...]:
    """Compare every value of the file, the remarks' left out."""
    file = bench.file
    checks = [
        *compare(file.expected, bench.learned, bench, "expected", THREE_DECIMALS),
        *compare(file.printed, bench.learned, bench, "printed", file.tolerance),
        *compare(file.from_printed, from_printed, bench, "from_printed", THREE_DECIMALS),
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


def check_remark(remark: Remark, bench: Bench, from_printed: Numbers | None, name: str) -> tuple[Check, ...]:
    """Compare the numbers of a remark, which is called `name` in checks and messages."""
    file = bench.file
    checks: list[Check] = []
    if remark.of != "embedding":
        numbers = {"learned": bench.learned, "unlearned": bench.unlearned, "printed": from_printed}[remark.of]
        checks += compare(remark.printed, numbers, bench, name, file.tolerance)
    for place, row in remark.input.items():
        where = f"{bench.where}: {name} input"
        i = find(place, bench.tokens, where)
        d_model = bench.given.x.shape[-1]
        if len(row) != d_model:
            raise ConfigError(f"{where} row {place} has {count(len(row), 'number')}, expected {d_model}")
        rows = [row if j == i else other for j, other in enumerate(file.input or [])]
        query = inputs(file.model_copy(update={"input": rows})).query[i]
        stated = {**_row(file.expected, i, bench), **_row(file.printed, i, bench)}
        for j, value in enumerate(query.tolist()):
            name_ij = f"{name} query{_cell(i, j, bench.tokens, None)} of the misprint"
            checks.append(Check(name_ij, stated.get(j, float(bench.learned.query[i, j])), value, file.tolerance))
    return tuple(checks)


def compare(values: Values, numbers: Numbers | None, bench: Bench, name: str, tolerance: float) -> tuple[Check, ...]:
    """Compare a group of values with the numbers it belongs to.

    Raises:
        ConfigError: A value names a row or a column that there is not.
    """
    tokens, checks = bench.tokens, []
    for quantity in ("query", "key", "value", "scores", "scaled", "weights", "context"):
        columns = tokens if quantity in _TOKEN_COLUMNS else None
        for row, column, value in _cells(values, quantity, numbers, bench, name):
            cell = f"{name} {quantity}{_cell(row, column, tokens, columns)}"
            found = float("nan") if numbers is None else float(getattr(numbers, quantity)[row, column])
            if found != found:  # NaN: the printed vectors it would come from are not all there
                raise ConfigError(f"{bench.where}: {cell}: 'printed' lacks the vectors that this is computed from")
            checks.append(Check(cell, value, found, tolerance))
    return tuple(checks)


def _cells(
    values: Values, quantity: str, numbers: Numbers | None, bench: Bench, name: str
) -> list[tuple[int, int, float]]:
    """Row, column and value of every cell that is stated."""
    where, tokens = f"{bench.where}: {name}.{quantity}", bench.tokens
    width = (bench.learned if numbers is None else numbers).as_dict()[quantity].shape[-1]
    labels = tokens if quantity in _TOKEN_COLUMNS else features(width)
    cells = []
    for place, row in getattr(values, quantity).items():
        i = find(place, tokens, where)
        if all(isinstance(column, int) for column in row) and len(row) != width:
            raise ConfigError(f"{where} row {place} has {count(len(row), 'number')}, expected {width}")
        for column, value in row.items():
            j = find(column, labels, f"{where} row {place}")
            if value is not None:
                cells.append((i, j, value))
    if quantity == "weights":
        some = f"{where}_some"
        cells += [(find(row, tokens, some), find(key, tokens, some), value) for row, key, value in values.weights_some]
    return cells


def _cell(row: int, column: int, tokens: Sequence[str], columns: Sequence[str] | None) -> str:
    return f"[{name_of(row, tokens)}][{column if columns is None else name_of(column, columns)}]"


def _row(values: Values, index: int, bench: Bench) -> dict[int, float]:
    """The stated numbers of one query."""
    cells = _cells(values, "query", None, bench, "printed")
    return {column: value for row, column, value in cells if row == index}


def from_printed(bench: Bench) -> Numbers | None:
    """Attention from the printed vectors, among the tokens that have a query and a key; a value as well, if printed."""
    given, tokens, vectors = bench.given, bench.tokens, {}
    for name in ("query", "key", "value"):
        vectors[name] = torch.full_like(getattr(given, name), float("nan"))
        for i, j, number in _cells(bench.file.printed, name, None, bench, "printed"):
            vectors[name][i, j] = number
    missing = vectors["query"].isnan().any(-1) | vectors["key"].isnan().any(-1)
    known = (~missing).nonzero().flatten().tolist()
    if not known:
        return None
    part = Inputs(given.x, vectors["query"], vectors["key"], vectors["value"], given.mask).part(known, known)
    return _spread(compute(part, bench.score), known, len(tokens))


def _spread(numbers: Numbers, known: list[int], count: int) -> Numbers:
    """Numbers of some tokens at the places they have among all; NaN elsewhere."""
    spread = {}
    for name, values in numbers.as_dict().items():
        columns = known if name in _TOKEN_COLUMNS else list(range(values.shape[-1]))
        full: Tensor = torch.full((count, count if name in _TOKEN_COLUMNS else len(columns)), float("nan")).to(values)
        full[torch.tensor(known).unsqueeze(-1), torch.tensor(columns)] = values
        spread[name] = full
    return Numbers(**spread, mask=None)
