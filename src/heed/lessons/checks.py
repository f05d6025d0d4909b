"""Values that a file states, compared one by one with what is computed."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import torch
from torch import Tensor

from heed.errors import ConfigError
from heed.lessons.arithmetic import Inputs, Numbers, compute, inputs, score_for
from heed.lessons.parts import THREE_DECIMALS, Check
from heed.lessons.places import count, find, name_of
from heed.lessons.schema import LessonFile, Remark, Values
from heed.lessons.tables import features

_TOKEN_COLUMNS = frozenset({"scores", "scaled", "weights"})


@dataclass(frozen=True)
class Computed:
    """The numbers that values can be compared with.

    Attributes:
        where: What messages call the file.
        tokens: One per row.
        learned: Attention with the file's weights.
        unlearned: Attention with q = k = v = x.
        printed: Attention from the printed vectors, or None; what was not printed is NaN.
    """

    where: str
    tokens: tuple[str, ...]
    learned: Numbers
    unlearned: Numbers
    printed: Numbers | None

    @classmethod
    def of(cls, file: LessonFile, given: Inputs, learned: Numbers, unlearned: Numbers, where: str) -> Computed:
        """Bring together what was computed from the inputs, and compute from the printed vectors."""
        tokens = tuple(file.tokens)
        printed = _from_printed(file, given, tokens, where)
        return cls(where, tokens, learned, unlearned, printed)


def check_all(file: LessonFile, computed: Computed) -> tuple[Check, ...]:
    """Compare every value of the file, the remarks' left out."""
    checks = [
        *compare(file.expected, computed.learned, computed, "expected", THREE_DECIMALS),
        *compare(file.printed, computed.learned, computed, "printed", file.tolerance),
        *compare(file.from_printed, computed.printed, computed, "from_printed", THREE_DECIMALS),
        *compare(file.unlearned, computed.unlearned, computed, "unlearned", THREE_DECIMALS),
    ]
    given = inputs(file)
    for item in file.other_scales:
        place = f"{computed.where}: other_scales"
        row, column = (find(place_of, computed.tokens, place) for place_of in (item.row, item.column))
        for scale, weight in item.weights.items():
            rows, d_model = given.x.shape
            score = score_for(scale, d_model=d_model, d_query=given.query.shape[-1], rows=rows)
            name = f"weights{_cell(row, column, computed.tokens, computed.tokens)} under {scale}"
            checks.append(Check(name, weight, float(compute(given, score).weights[row, column]), THREE_DECIMALS))
    return tuple(checks)


def check_remark(remark: Remark, computed: Computed, file: LessonFile, name: str) -> tuple[Check, ...]:
    """Compare the numbers of a remark; `name` is what checks and messages call it."""
    numbers = {"learned": computed.learned, "unlearned": computed.unlearned, "printed": computed.printed}[remark.of]
    checks = list(compare(remark.printed, numbers, computed, name, file.tolerance))
    for place, row in remark.input.items():
        where = f"{computed.where}: {name} input"
        i = find(place, computed.tokens, where)
        d_model = len((file.input or [[]])[0])
        if len(row) != d_model:
            raise ConfigError(f"{where} row {place} has {count(len(row), 'number')}, expected {d_model}")
        rows = [row if j == i else other for j, other in enumerate(file.input or [])]
        query = inputs(file.model_copy(update={"input": rows})).query[i]
        stated = {**_row(file.expected, i, computed), **_row(file.printed, i, computed)}
        for j, value in enumerate(query.tolist()):
            name_ij = f"{name} query{_cell(i, j, computed.tokens, None)} of the misprint"
            checks.append(Check(name_ij, stated.get(j, float(computed.learned.query[i, j])), value, file.tolerance))
    return tuple(checks)


def compare(
    values: Values, numbers: Numbers | None, computed: Computed, name: str, tolerance: float
) -> tuple[Check, ...]:
    """Compare a group of values with the numbers it belongs to.

    Raises:
        ConfigError: A value names a row or a column that there is not.
    """
    tokens, checks = computed.tokens, []
    for quantity in ("query", "key", "value", "scores", "scaled", "weights", "context"):
        columns = tokens if quantity in _TOKEN_COLUMNS else None
        for row, column, value in _cells(values, quantity, numbers, computed, name):
            cell = f"{name} {quantity}{_cell(row, column, tokens, columns)}"
            found = float("nan") if numbers is None else float(getattr(numbers, quantity)[row, column])
            if found != found:  # NaN: the printed vectors it would come from are not all there
                raise ConfigError(f"{computed.where}: {cell}: 'printed' lacks the vectors that this is computed from")
            checks.append(Check(cell, value, found, tolerance))
    return tuple(checks)


def _cells(
    values: Values, quantity: str, numbers: Numbers | None, computed: Computed, name: str
) -> list[tuple[int, int, float]]:
    """Row, column and value of every cell that is stated."""
    where, tokens = f"{computed.where}: {name}.{quantity}", computed.tokens
    width = (computed.learned if numbers is None else numbers).as_dict()[quantity].shape[-1]
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


def _row(values: Values, index: int, computed: Computed) -> dict[int, float]:
    """The stated numbers of one query."""
    cells = _cells(values, "query", None, computed, "printed")
    return {column: value for row, column, value in cells if row == index}


def _from_printed(file: LessonFile, given: Inputs, tokens: tuple[str, ...], where: str) -> Numbers | None:
    """Attention from the printed vectors, among the tokens that have a query and a key; a value as well, if printed."""
    vectors = {}
    for name in ("query", "key", "value"):
        vectors[name] = torch.full_like(getattr(given, name), float("nan"))
        for place, row in getattr(file.printed, name).items():
            i = find(place, tokens, f"{where}: printed.{name}")
            columns = features(vectors[name].shape[-1])
            for column, number in row.items():
                j = find(column, columns, f"{where}: printed.{name} row {place}")
                vectors[name][i, j] = float("nan") if number is None else number
    missing = vectors["query"].isnan().any(-1) | vectors["key"].isnan().any(-1)
    known = (~missing).nonzero().flatten().tolist()
    if not known:
        return None
    part = Inputs(given.x, vectors["query"], vectors["key"], vectors["value"], given.mask).part(known, known)
    score = score_for(file.scale, d_model=given.x.shape[-1], d_query=given.query.shape[-1], rows=len(tokens))
    return _spread(compute(part, score), known, len(tokens))


def _spread(numbers: Numbers, known: list[int], count: int) -> Numbers:
    """Numbers of some tokens at the places they have among all; NaN elsewhere."""
    spread = {}
    for name, values in numbers.as_dict().items():
        columns = known if name in _TOKEN_COLUMNS else list(range(values.shape[-1]))
        full: Tensor = torch.full((count, count if name in _TOKEN_COLUMNS else len(columns)), float("nan")).to(values)
        full[torch.tensor(known).unsqueeze(-1), torch.tensor(columns)] = values
        spread[name] = full
    return Numbers(**spread, mask=None)
