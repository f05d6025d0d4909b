"""Rows of numbers from data passed in Python; errors name split, position and column."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from heed.data.read.memory import Table, column_names, plain
from heed.data.read.numbers import Column, Numbers, finite_number
from heed.data.read.values import described
from heed.errors import DataError, suggest


def hold_numbers(data: Any, split: str, wanted: Sequence[Column] | None, label: Column | None = None) -> Numbers:
    """The `wanted` columns of numbers (by default all but the label and dates), and the label if there is one.

    Args:
        data: A data frame, a dict of columns, a list of dicts, an array `(rows, columns)`, a list of rows or of
            numbers; with a label also a tuple (rows, labels).
        split: Name of the data in messages.
        wanted: Columns by name or by number from 0.
        label: Column of the label.

    Raises:
        DataError: A column is missing, or a value is missing or not a number; with position and column.
    """
    labels: list[Any] | None = None
    if label is not None and isinstance(data, tuple) and len(data) == 2 and not isinstance(data[0], Mapping | tuple):
        data, given = data
        labels = list(given.tolist() if hasattr(given, "tolist") else given)
    names, columns = _columns(data, split)
    if label == "label" and labels is None and tuple(names) == _unnamed(len(names)):
        raise DataError(f"{split} has no column names; give a data frame, a dict of columns or (rows, labels)")
    if labels is not None and columns and len(labels) != len(columns[0]):
        raise DataError(f"{split} has {len(columns[0])} rows and {len(labels)} labels; each row needs one")
    if label is not None and labels is None:
        place = _place(split, names, label, "data.columns.label")
        labels = columns[place]
        columns = [column for i, column in enumerate(columns) if i != place]
        names = [name for i, name in enumerate(names) if i != place]
    if wanted is None:
        places = [i for i, column in enumerate(columns) if not _are_dates(column)]
    else:
        places = [_place(split, names, column, "data.columns") for column in wanted]
    for place in places:
        if names.count(names[place]) > 1:
            raise DataError(f"{split} has two columns '{names[place]}'; rename one")
    if not places:
        raise DataError(f"{split} has no column of numbers" + (f" besides the label '{label}'" if label else ""))
    values = [[_number(split, names[i], n, value) for n, value in enumerate(columns[i])] for i in places]
    told = tuple(_label(split, n, value) for n, value in enumerate(labels or ()))
    origins = tuple(f"{split}[{n}]" for n in range(len(columns[0])))
    return Numbers(tuple(names[i] for i in places), np.array(values, dtype=np.float64).T, told, origins)


@dataclass(frozen=True)
class NamedSeries(Numbers):
    """Rows in order of time, and their name in messages."""

    name: str = ""


def hold_series(data: Any, split: str, wanted: Sequence[Column] | None) -> list[NamedSeries]:
    """One series in the forms of `hold_numbers`, or a list of several: data frames, dicts of columns, arrays.

    Raises:
        DataError: As for `hold_numbers`.
    """
    several = isinstance(data, list | tuple) and bool(data) and all(map(_is_series, data))
    parts = [(f"{split} series {n}", one) for n, one in enumerate(data)] if several else [(split, data)]
    held = [(name, hold_numbers(one, name, wanted)) for name, one in parts]
    return [NamedSeries(one.columns, one.values, (), one.origins, name) for name, one in held]


def _is_series(data: Any) -> bool:
    """True if one of several items is a series rather than a row."""
    return column_names(data) is not None or (hasattr(data, "ndim") and data.ndim == 2)


def aligned(numbers: Numbers, columns: Sequence[str]) -> Numbers:
    """The rows with their columns in a given order.

    Raises:
        DataError: A column is missing.
    """
    if numbers.columns == tuple(columns):
        return numbers
    split = numbers.origins[0].partition("[")[0]
    if numbers.columns == _unnamed(len(columns)):
        return Numbers(tuple(columns), numbers.values, numbers.labels, numbers.origins)
    if numbers.columns == _unnamed(len(numbers.columns)):
        width = len(numbers.columns)
        raise DataError(f"{split} has {width} column{'' if width == 1 else 's'}, expected {', '.join(columns)}")
    places = [_place(split, numbers.columns, column, "data.columns") for column in columns]
    return Numbers(tuple(columns), numbers.values[:, places], numbers.labels, numbers.origins)


def _columns(data: Any, split: str) -> tuple[list[str], list[list[Any]]]:
    """Names and values of all columns; an array's columns are named by their numbers."""
    if column_names(data) is None and not isinstance(data, Mapping | str):
        rows = data.tolist() if hasattr(data, "tolist") else list(data) if isinstance(data, Sequence) else data
        if isinstance(rows, list) and rows and not any(isinstance(row, Mapping) for row in rows):
            name = getattr(data, "name", None)  # of a series
            if not isinstance(rows[0], list | tuple):
                return [name] if isinstance(name, str) else [*_unnamed(1)], [rows]
            width = len(rows[0])
            for n, row in enumerate(rows):
                if not isinstance(row, list | tuple) or len(row) != width:
                    shown = f"has {len(row)} values" if isinstance(row, list | tuple) else f"is {described(row)}"
                    raise DataError(f"{split}[{n}] {shown}, expected {width} numbers")
            return [*_unnamed(width)], [list(column) for column in zip(*rows, strict=True)]
    table = Table.of(data, split, ("row",))
    return list(table.names), [table.column(i) for i in range(table.width)]


def _unnamed(width: int) -> tuple[str, ...]:
    """Names for the columns of an array, which has none."""
    return ("value",) if width == 1 else tuple(str(i) for i in range(width))


def _place(split: str, names: Sequence[str], column: Column, field: str) -> int:
    if isinstance(column, int):
        if not 0 <= column < len(names):
            raise DataError(f"{split} has {len(names)} columns, so {field} cannot be {column} (from 0)")
        return column
    if column not in names:
        raise DataError(f"{split} has no column '{column}'{suggest(column, names)}; set {field}")
    return list(names).index(column)


def _are_dates(column: Sequence[Any]) -> bool:
    return all(hasattr(value, "isoformat") for value in column)


def _number(split: str, column: str, row: int, value: Any) -> float:
    where = f"{split}[{row}], column '{column}'"
    if value is None or value != value or type(value).__name__ == "NAType":  # nan differs from itself
        raise DataError(f"{where}: the value is missing; fill it in, or leave the row or the column out (data.columns)")
    return finite_number(value, where)


def _label(split: str, row: int, value: Any) -> str:
    label = plain(value)
    if label is None or label == "":
        raise DataError(f"{split}[{row}]: the label is missing")
    if not isinstance(label, str | int):
        raise DataError(f"{split}[{row}]: the label is {described(value)}, expected a text or a number")
    return str(label).lower() if isinstance(label, bool) else str(label).strip()
