"""Tables of numbers from CSV and TSV, standardised; errors name file, line and column.

The first line names the columns; `.tsv` is separated by tabs, anything else by commas; files may be compressed (.gz,
.xz). Other separators, decimal commas, a missing header and the column of labels are recognised.
"""

from __future__ import annotations

import csv
import json
import math
from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass, field
from itertools import chain
from pathlib import Path
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray

from heed.data.examples import Example
from heed.data.read.findings import Findings
from heed.data.read.lines import good_lines
from heed.data.read.number_layout import NumberLayout, number_layout
from heed.data.sequences import Lazy
from heed.errors import DataError, suggest
from heed.storage.files import damaged, read_object

Column = int | str
_LARGEST = 1e150
"""Largest accepted magnitude; sums of many squares stay finite."""


@dataclass(frozen=True, slots=True)
class Row(Example):
    """A row of numbers, which decide its split, and its label or ""."""

    unit = "row"
    sides = ()

    values: tuple[float, ...]
    label: str
    origin: str = field(default="", compare=False)

    @property
    def fields(self) -> tuple[str, ...]:
        """The numbers, and the label."""
        return str(list(self.values)), self.label

    @property
    def stratum(self) -> str:
        """Its label."""
        return self.label

    @classmethod
    def of(cls, fields: tuple[str, ...], origin: str) -> Self:
        """The row with these fields."""
        return cls(tuple(json.loads(fields[0])), fields[1], origin)


@dataclass(frozen=True)
class Numbers(Lazy[Row]):
    """Rows of numbers `(rows, columns)`, with column names, labels (or none) and origins such as "data.csv:17"."""

    columns: tuple[str, ...]
    values: NDArray[np.float64]
    labels: tuple[str, ...]
    origins: tuple[str, ...]

    def __len__(self) -> int:
        return len(self.values)

    def take(self, indices: Sequence[int]) -> list[Row]:
        """The rows at these indices."""
        labels = self.labels or ("",) * len(self)
        return [Row(tuple(self.values[i].tolist()), labels[i], self.origins[i]) for i in indices]

    def select(self, indices: Sequence[int] | NDArray[Any]) -> Numbers:
        """The rows at these indices."""
        labels = tuple(self.labels[i] for i in indices) if self.labels else ()
        return Numbers(self.columns, self.values[list(indices)], labels, tuple(self.origins[i] for i in indices))


def read_numbers(
    path: Path,
    wanted: Sequence[Column] | None,
    label: Column | None = None,
    *,
    labelled: bool = True,
    known: Collection[str] = (),
    trained: bool = False,
    said: list[str] | None = None,
) -> Numbers:
    """Read one file: the `wanted` columns of numbers (by default all but the label), and the label if `labelled`.

    If no column has the default name "label", the label is recognised by the `known` labels of the training set or by
    content. Remarks on what was recognised are added to `said`. Without a header, columns are named by numbers. If
    `trained`, the `wanted` columns are those of the training set.

    Raises:
        DataError: The file cannot be read, a column is missing, a line has another number of columns, or a value is
            missing or not a number; with file, line and column.
    """
    return next(iter_numbers(path, wanted, label, labelled=labelled, known=known, trained=trained, said=said))


def iter_numbers(
    path: Path,
    wanted: Sequence[Column] | None,
    label: Column | None = None,
    most: int | None = None,
    *,
    labelled: bool = True,
    known: Collection[str] = (),
    trained: bool = False,
    said: list[str] | None = None,
) -> Iterator[Numbers]:
    """As `read_numbers`, but `most` rows at a time, so that memory does not grow with the file.

    Raises:
        DataError: As for `read_numbers`, after the rows before the error.
    """
    findings = Findings()
    layout = number_layout(path, wanted, label if labelled else None, findings, known)
    if said is not None:
        said += [line for line in layout.said if line not in said]
    if labelled:
        label = layout.label
    rows = _rows(path, layout, findings)
    first = next(rows)
    header = [name.strip() for name in first[1]]
    if not layout.header:
        rows, header = chain([first], rows), [str(n) for n in range(len(header))]
    of_label = None
    if label is not None and (labelled or label in header or isinstance(label, int)):
        of_label = _place(path, header, label, "data.columns.label", "set data.columns.label")
    if wanted is None:
        places = [i for i in range(len(header)) if i != of_label]
    else:
        hint = f"the columns of training are needed: {', '.join(map(str, wanted))}" if trained else "set data.columns"
        places = [_place(path, header, column, "data.columns", hint) for column in wanted]
    if not places:
        raise DataError(f"'{path}' has no column of numbers besides the label '{label}'")
    if layout.header:
        _refuse_twins(path, header, [*places, *([of_label] if of_label is not None else [])])
    values: list[list[float]] = []
    labels: list[str] = []
    origins: list[str] = []
    columns = tuple(header[i] for i in places)
    count = 0
    for number, row in rows:
        if len(values) == most:
            yield Numbers(columns, np.array(values), tuple(labels), tuple(origins))
            values, labels, origins = [], [], []
        count += 1
        if len(row) != len(header):
            raise DataError(f"'{path}' line {number} has {len(row)} columns, but its first line names {len(header)}")
        values.append([_number(path, number, header[i], row[i], layout.decimal_comma) for i in places])
        origins.append(f"{path.name}:{number}")
        if of_label is not None and labelled:
            if not row[of_label].strip():
                raise DataError(f"'{path}' line {number}, column '{header[of_label]}': the label is missing")
            labels.append(row[of_label].strip())
    if not count:
        raise DataError(f"'{path}' has a header ({', '.join(header)[:60]}) but no rows")
    yield Numbers(columns, np.array(values), tuple(labels), tuple(origins))


def text_columns(path: Path) -> dict[str, list[str]]:
    """The cells of each column of a file as text, by the names in its first line.

    Rows of another length than the first are left out; `read_numbers` refuses them.

    Raises:
        DataError: The file cannot be read.
    """
    findings = Findings()
    rows = _rows(path, number_layout(path, None, None, findings), findings)
    header = [name.strip() for name in next(rows, (0, []))[1]]
    cells = [row for _, row in rows if len(row) == len(header)]
    return {name: [row[n].strip() for row in cells] for n, name in enumerate(header)}


def _rows(path: Path, layout: NumberLayout, findings: Findings) -> Iterator[tuple[int, list[str]]]:
    """Non-blank rows with their line numbers."""
    reader = csv.reader((line + "\n" for line in good_lines(path, findings)), delimiter=layout.separator)
    try:
        for row in reader:
            if any(cell.strip() for cell in row):
                yield reader.line_num, row
    except csv.Error as error:
        raise DataError(f"'{path}' line {reader.line_num} is not CSV: {error}") from None


def _place(path: Path, header: Sequence[str], column: Column, field: str, hint: str) -> int:
    if isinstance(column, int):
        if not 0 <= column < len(header):
            raise DataError(f"'{path}' line 1 names {len(header)} columns, so {field} cannot be {column} (from 0)")
        return column
    if column not in header:
        raise DataError(f"'{path}' line 1 names no column '{column}'{suggest(column, header)}; {hint}")
    return header.index(column)


def _refuse_twins(path: Path, header: Sequence[str], places: Sequence[int]) -> None:
    """Refuse to read columns with the same name, since a run finds columns by name."""
    for place in places:
        if len(twins := [n for n, name in enumerate(header) if name == header[place] and n in places]) > 1:
            raise DataError(
                f"'{path}' line 1 names two columns '{header[place]}' ({twins[0]} and {twins[1]}, counted from 0); "
                "rename one, or leave them out with data.columns"
            )


def _number(path: Path, line: int, column: str, cell: str, decimal_comma: bool) -> float:
    where = f"'{path}' line {line}, column '{column}'"
    if not cell.strip():
        raise DataError(f"{where}: the value is missing; fill it in, or leave the row or the column out (data.columns)")
    return finite_number(cell, where, decimal_comma)


def finite_number(given: Any, where: str, decimal_comma: bool = False) -> float:
    """A cell as a finite number; `where` is its place, for messages.

    Raises:
        DataError: The cell is not a number, or the number or its square is not finite.
    """
    shown = f"{given!r:.40}"
    try:
        value = float(given.replace(",", ".") if decimal_comma else given)
    except (TypeError, ValueError, OverflowError):
        raise DataError(f"{where}: {shown} is not a number; data.columns selects the columns to read") from None
    if isinstance(given, str) and "_" in given:  # accepted by float(), but only Python groups digits so
        raise DataError(f"{where}: {shown} is not a number; write it without underscores: {given.replace('_', '')}")
    if not math.isfinite(value):
        raise DataError(f"{where}: {shown} is not a finite number")
    if abs(value) > _LARGEST:
        raise DataError(
            f"{where}: {shown} is too large: its square is not finite; give the column in larger units, or leave it "
            "out (data.columns)"
        )
    return value


def constants(values: NDArray[np.float64]) -> NDArray[np.bool_]:
    """Mask `(columns,)` of the columns of `(rows, columns)` that are constant."""
    return np.asarray(values.min(0) == values.max(0))


def constant_lines(columns: Sequence[str], values: NDArray[np.float64]) -> list[str]:
    """A warning for each column that is constant in the training rows."""
    return [
        f"warning: column '{name}' is {value:.6g} in every training row, so nothing can be learned from it; "
        "data.columns can leave it out"
        for name, value, constant in zip(columns, values[0], constants(values), strict=True)
        if constant
    ]


@dataclass(frozen=True)
class Standard:
    """Mean and standard deviation `(columns,)` of the training rows; deviation 1 for constant columns."""

    columns: tuple[str, ...]
    mean: NDArray[np.float64]
    deviation: NDArray[np.float64]

    @classmethod
    def of(cls, columns: tuple[str, ...], values: NDArray[np.float64]) -> Standard:
        """Computed from rows `(rows, columns)`."""
        constant, deviation = constants(values), values.std(0)
        # Exact for constant columns: a rounding error would be divided by a deviation as small.
        mean = np.where(constant, values[0], values.mean(0))
        return cls(columns, mean, np.where(constant | (deviation == 0), 1.0, deviation))

    def apply(self, values: NDArray[np.float64]) -> NDArray[np.float64]:
        """Standardised values, `(value - mean) / deviation`."""
        return (values - self.mean) / self.deviation

    def undo(self, values: NDArray[np.float64]) -> NDArray[np.float64]:
        """Inverse of `apply`."""
        return values * self.deviation + self.mean

    def text(self) -> str:
        """As JSON."""
        values = {"columns": self.columns, "mean": self.mean.tolist(), "deviation": self.deviation.tolist()}
        return json.dumps(values, indent=1, ensure_ascii=False) + "\n"

    @classmethod
    def load(cls, path: Path) -> Standard:
        """Read from JSON.

        Raises:
            RunError: The file is missing or damaged.
        """
        values = read_object(path)
        columns, numbers = values.get("columns"), [values.get(name) for name in ("mean", "deviation")]
        if not isinstance(columns, list) or not all(isinstance(name, str) for name in columns):
            raise damaged(path, "columns is not a list of names")
        for name, given in zip(("mean", "deviation"), numbers, strict=True):
            if not (isinstance(given, list) and len(given) == len(columns) and all(map(_is_finite, given))):
                raise damaged(path, f"{name} is not a list of {len(columns)} finite numbers, one for each column")
        mean, deviation = (np.array(given, np.float64) for given in numbers)
        if not (deviation > 0).all():
            raise damaged(path, "deviation has a number that is not above 0")
        return cls(tuple(columns), mean, deviation)


def _is_finite(value: Any) -> bool:
    return type(value) in (int, float) and abs(value) < 1e300
