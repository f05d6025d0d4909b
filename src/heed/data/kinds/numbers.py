"""Tables of numbers from CSV and TSV or passed in Python, standardised; errors name file, line and column.

The first line names the columns; `.tsv` is separated by tabs, anything else by commas; files may be compressed (.gz,
.xz). Other separators, decimal commas, a missing header and the column of labels are recognised from the beginning of
the file.
"""

from __future__ import annotations

import csv
import json
import math
from array import array
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import chain
from pathlib import Path
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray

from heed.data.columns import DECIMAL_COMMA, LABEL_NAMES, Column, Facts, facts_of, is_number, regular_rows, some
from heed.data.examples import TOGETHER, Example, Hashes, Kept, Lazy, hashes_of, select, take
from heed.data.findings import Findings
from heed.data.readers import HeldTable, column_names, label_of
from heed.data.tables import SEPARATORS, Head, characters_of, described, has_items
from heed.data.text_files import ending_of, good_lines
from heed.errors import DataError, suggest
from heed.storage.files import damaged, read_object

_LABELS = (*LABEL_NAMES, "species", "quality", "outcome", "diagnosis", "variety")
_DEFAULT = "label"
"""Default name of the column of labels."""
_ROWS = 4
"""Rows below which the column of labels is not recognised without known labels."""
_FEW = 20
"""Most distinct numbers of a column of labels."""


@dataclass(frozen=True)
class NumberLayout:
    """Layout of one file: `label` is the column of labels, `said` the remarks for the user."""

    separator: str
    decimal_comma: bool = False
    header: bool = True
    label: Column = None
    said: tuple[str, ...] = ()


def number_layout(
    path: Path,
    wanted: Sequence[int | str] | None,
    label: Column,
    findings: Findings,
    known: Collection[str] = (),
) -> NumberLayout:
    """The layout of a file of which the columns `wanted` and `label` will be read, as far as they are known.

    If no column is named "label", the default, labels are recognised by content, or as the `known` ones of the training
    set. A recognised encoding is recorded in the findings.

    Raises:
        DataError: The label column is unclear.
    """
    usual = "\t" if ending_of(path) == ".tsv" else ","
    head = Head.of(path, findings, excel=True)
    separator = head.separator(usual) or usual
    rows = head.rows(separator)
    if not rows:
        return NumberLayout(usual, label=label)
    said = [] if separator == usual else [f"columns separated by {SEPARATORS[separator]}"]
    rows = regular_rows(rows) if separator != usual or len(rows[0]) > 1 else rows
    comma = separator != "," and any(DECIMAL_COMMA.fullmatch(cell.strip()) for row in rows[1:] for cell in row)
    if comma:
        said.append("numbers have a decimal comma")
    first = [cell.strip() for cell in rows[0]]
    needed = [column for column in (*(wanted or ()), label) if column is not None]
    header = not (
        needed
        and any(map(is_number, first))
        and not any(column in first for column in needed)
        and all(is_number(cell) or not _numeric(rows, n) for n, cell in enumerate(first))
    )
    if not header:
        said.append("the file has no header, so columns are counted from 0")
    elif len(rows) > 1 and all(map(is_number, first)):
        what = f"line 1 contains only numbers ({some(first)}) and was read as column names"
        said.append(f"warning: {what}; if the file has no header, add one")
    if label == _DEFAULT and _DEFAULT not in first and len(rows) > (1 if known else _ROWS):
        names: Sequence[int | str] = first if header else range(len(first))
        found = _label(facts_of(rows[header:], names, known), path)
        if found is None:
            return NumberLayout(separator, comma, header, label, tuple(said))
        label = found.name
        said.append(f"columns: label is {found.shown} ({found.counted(head.whole)})")
    return NumberLayout(separator, comma, header, label, tuple(said))


def _numeric(rows: Sequence[Sequence[str]], column: int) -> bool:
    return all(is_number(row[column]) for row in rows[1:] if column < len(row))


def _label(columns: Sequence[Facts], path: Path) -> Facts | None:
    """The column of labels: repeated words, a known name, or the only one with few distinct numbers; else None."""
    if known := [column for column in columns if column.known >= 0.9]:
        words = [column for column in known if column.is_text]
        if len(found := words or known) == 1:
            return found[0]
    named = [c for c in columns if str(c.name).casefold() in _LABELS and (c.repeats or c.known)]
    words = [column for column in columns if column.is_text and column.repeats]
    few = [column for column in columns if not column.is_text and 1 < column.values <= _FEW and column.repeats]
    for able in (named, words, few):
        if len(able) == 1:
            return able[0]
        if len(able) > 1:
            which = ", ".join(f"{c.shown} ({c.values:,} values: {some(c.first)})" for c in able)
            raise DataError(
                f"'{path}': several columns could be the label: {which}; data.columns.label={able[-1].name} chooses "
                "the last"
            )
    return None


_LARGEST = 1e150
"""Largest accepted magnitude; sums of many squares stay finite."""


@dataclass(frozen=True, slots=True)
class NumberRow(Example):
    """A row of numbers, which decide its split, and its label or ""."""

    unit = "row"
    sides = ()

    values: tuple[float, ...]
    label: str
    origin: str = field(default="", compare=False)

    @property
    def fields(self) -> tuple[str, ...]:
        return str(list(self.values)), self.label

    @property
    def label_set(self) -> str:
        return self.label

    @classmethod
    def of(cls, fields: tuple[str, ...], origin: str) -> Self:
        return cls(tuple(json.loads(fields[0])), fields[1], origin)


class Lines(Lazy[str]):
    """Origins such as "data.csv:17", kept as numbers `(rows, 2)`: of a file's name, and of a line."""

    def __init__(self, names: tuple[str, ...], places: NDArray[np.int64]) -> None:
        self.names, self.places = names, places

    def __len__(self) -> int:
        return len(self.places)

    def take(self, indices: Sequence[int]) -> list[str]:
        return [f"{self.names[name]}:{line}" for name, line in self.places[np.asarray(indices, int)].tolist()]

    def select(self, indices: Sequence[int] | NDArray[Any]) -> Lines:
        return Lines(self.names, self.places[np.asarray(indices, int)])

    @classmethod
    def joined(cls, parts: Sequence[Lines]) -> Lines:
        """The origins of several files, one after the other."""
        firsts = np.cumsum([0, *(len(part.names) for part in parts)])
        places = [part.places + np.array([first, 0]) for part, first in zip(parts, firsts, strict=False)]
        return cls(tuple(name for part in parts for name in part.names), np.concatenate(places))


@dataclass(frozen=True)
class Numbers(Kept[NumberRow]):
    """Rows of numbers `(rows, columns)`, with column names, labels (or none) and origins such as "data.csv:17"."""

    columns: tuple[str, ...]
    values: NDArray[np.float64]
    labels: tuple[str, ...]
    origins: Sequence[str]

    def __len__(self) -> int:
        return len(self.values)

    @property
    def hashes(self) -> Hashes:
        parts = (self.values[start : start + TOGETHER].tolist() for start in range(0, len(self), TOGETHER))
        values = [hashes_of(str(row).encode() for row in part) for part in parts]  # as `NumberRow.fields`
        labels = hashes_of(label.encode() for label in self.labels or [""] * len(self))
        return np.stack([np.concatenate(values), labels], axis=1)

    @property
    def label_sets(self) -> tuple[list[str], NDArray[np.int64]]:
        sets: dict[str, int] = {}
        labels = self.labels or [""] * len(self)
        numbers = np.fromiter((sets.setdefault(label, len(sets)) for label in labels), np.int64, len(labels))
        return list(sets), numbers

    def take(self, indices: Sequence[int]) -> list[NumberRow]:
        labels = self.labels or ("",) * len(self)
        origins = take(self.origins, indices)
        return [NumberRow(tuple(self.values[i].tolist()), labels[i], o) for i, o in zip(indices, origins, strict=True)]

    def select(self, indices: Sequence[int] | NDArray[Any]) -> Numbers:
        labels = tuple([self.labels[i] for i in indices]) if self.labels else ()
        return Numbers(self.columns, self.values[np.asarray(indices, int)], labels, select(self.origins, indices))


def read_numbers(
    path: Path,
    wanted: Sequence[int | str] | None,
    label: Column = None,
    *,
    labelled: bool = True,
    known: Collection[str] = (),
    trained: bool = False,
    said: list[str] | None = None,
    findings: Findings | None = None,
) -> Numbers:
    """Read one file: the `wanted` columns of numbers (by default all but the label), and the label if `labelled`.

    If no column has the default name "label", the label is recognised by the `known` labels of the training set or by
    content. Remarks on what was recognised are added to `said`. Without a header, columns are named by numbers. If
    `trained`, the `wanted` columns are those of the training set. The `findings` have encoding and longest line.

    Raises:
        DataError: The file cannot be read, a column is missing, a line has another number of columns, or a value is
            missing or not a number; with file, line and column.
    """
    given: dict[str, Any] = {"labelled": labelled, "known": known, "trained": trained, "said": said}
    return next(iter_numbers(path, wanted, label, findings=findings, **given))


def iter_numbers(
    path: Path,
    wanted: Sequence[int | str] | None,
    label: Column = None,
    most: int | None = None,
    *,
    labelled: bool = True,
    known: Collection[str] = (),
    trained: bool = False,
    said: list[str] | None = None,
    findings: Findings | None = None,
) -> Iterator[Numbers]:
    """As `read_numbers`, but `most` rows at a time, so that memory does not grow with the file.

    Raises:
        DataError: As for `read_numbers`, after the rows before the error.
    """
    findings = Findings() if findings is None else findings
    layout = number_layout(path, wanted, label if labelled else None, findings, known)
    if said is not None:
        said += [line for line in layout.said if line not in said]
    if labelled:
        label = layout.label
    rows = _rows(path, layout, findings)
    first = next(rows, None)
    if first is None:
        raise DataError(f"'{path}' contains only blank lines; expected names of columns in its first line, then rows")
    header = [name.strip() for name in first[1]]
    if not layout.header:
        rows, header = chain([first], rows), [str(n) for n in range(len(header))]
    of_label, has = None, f"'{path}' line 1 names"
    if label is not None and (labelled or label in header or isinstance(label, int)):
        of_label = _place(has, header, label, "data.columns.label", "set data.columns.label")
    if wanted is None:
        places = [i for i in range(len(header)) if i != of_label]
    else:
        hint = f"the columns of training are needed: {', '.join(map(str, wanted))}" if trained else "set data.columns"
        places = [_place(has, header, column, "data.columns", hint) for column in wanted]
    if not places:
        raise DataError(f"'{path}' has no column of numbers besides the label '{label}'")
    if layout.header:
        _refuse_duplicate_columns(has, header, [*places, *([of_label] if of_label is not None else [])])
    values, lines, labels = array("d"), array("q"), list[str]()
    different: dict[str, str] = {}  # equal labels are one object
    columns = tuple(header[i] for i in places)

    def read() -> Numbers:
        origins = np.stack([np.zeros(len(lines), np.int64), np.array(lines)], axis=1)
        return Numbers(columns, np.array(values).reshape(-1, len(places)), tuple(labels), Lines((path.name,), origins))

    count = 0
    for number, row in rows:
        if len(lines) == most:
            yield read()
            values, lines, labels = array("d"), array("q"), []
        count += 1
        if len(row) != len(header):
            raise DataError(f"'{path}' line {number} has {len(row)} columns, but its first line names {len(header)}")
        cells = [row[i] for i in places]
        if (own := None if layout.decimal_comma else _plain_numbers(cells)) is None:
            where = [f"'{path}' line {number}, column '{header[i]}'" for i in places]
            own = [_number(at, cell, layout.decimal_comma) for at, cell in zip(where, cells, strict=True)]
        values.extend(own)
        lines.append(number)
        if of_label is not None and labelled:
            if not (label := row[of_label].strip()):
                raise DataError(f"'{path}' line {number}, column '{header[of_label]}': the label is missing")
            if layout.decimal_comma and DECIMAL_COMMA.fullmatch(label):
                label = label.replace(",", ".")
            labels.append(different.setdefault(label, label))
    if not count:
        raise DataError(f"'{path}' has a header ({', '.join(header)[:60]}) but no rows")
    yield read()


def _plain_numbers(cells: list[str]) -> list[float] | None:
    """The cells as numbers; None if one needs a closer look."""
    try:
        values = list(map(float, cells))
    except ValueError:
        return None
    fine = all([-_LARGEST <= value <= _LARGEST for value in values])
    return values if fine and "_" not in "".join(cells) else None


def text_columns(path: Path, whole: bool = True) -> dict[str, list[str]]:
    """The cells of each column of a file (or of its beginning) as text, by the names in its first line.

    Rows of another length than the first are left out; `read_numbers` refuses them.

    Raises:
        DataError: The file cannot be read.
    """
    findings = Findings()
    layout, head = number_layout(path, None, None, findings), Head.of(path, findings, excel=True)
    if whole and (head.odd or not head.whole or not head.lines):
        rows = [row for _, row in _rows(path, layout, findings)]
    else:
        rows = [row for row in head.rows(layout.separator) if any(cell.strip() for cell in row)]
    header = [name.strip() for name in rows[0]] if rows else []
    cells = [row for row in rows[1:] if len(row) == len(header)]
    return {name: [row[n].strip() for row in cells] for n, name in enumerate(header)}


def _rows(path: Path, layout: NumberLayout, findings: Findings) -> Iterator[tuple[int, list[str]]]:
    """Non-blank rows with their line numbers."""
    reader = csv.reader((line + "\n" for line in good_lines(path, findings)), delimiter=layout.separator)
    try:
        for row in reader:
            if (row and row[0].strip()) or any(cell.strip() for cell in row):
                yield reader.line_num, row
    except csv.Error as error:
        raise DataError(f"'{path}' line {reader.line_num} is not CSV: {error}") from None


def _place(has: str, names: Sequence[str], column: int | str, field: str, hint: str) -> int:
    """The number of a column; `has` begins messages, as in "'a.csv' line 1 names"."""
    if isinstance(column, int):
        if not 0 <= column < len(names):
            raise DataError(f"{has} {len(names)} columns, so {field} cannot be {column} (from 0)")
        return column
    if column not in names:
        raise DataError(f"{has} no column '{column}'{suggest(column, names)}; {hint}")
    return list(names).index(column)


def _refuse_duplicate_columns(has: str, names: Sequence[str], places: Sequence[int]) -> None:
    """Refuse to read columns with the same name, since a run finds columns by name."""
    for place in places:
        if len(twins := [n for n, name in enumerate(names) if name == names[place] and n in places]) > 1:
            raise DataError(
                f"{has} two columns '{names[place]}' ({twins[0]} and {twins[1]}, counted from 0); rename one, or leave "
                "them out with data.columns"
            )


def _number(where: str, value: Any, decimal_comma: bool = False) -> float:
    blank = isinstance(value, str) and not value.strip()
    if blank or value is None or value != value or type(value).__name__ == "NAType":  # nan differs from itself
        raise DataError(f"{where}: the value is missing; fill it in, or leave the row or the column out (data.columns)")
    return finite_number(value, where, decimal_comma)


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
    """A warning for each column that is constant in the training rows, for many columns one with the first of them."""
    found = np.flatnonzero(constants(values)).tolist()
    if len(found) > _NAMED:
        some = ", ".join(f"'{columns[n]}'" for n in found[:_NAMED])
        return [
            f"warning: {len(found):,} columns are constant in the training rows ({some}, ...), so nothing can be "
            "learned from them; data.columns can leave them out"
        ]
    return [
        f"warning: column '{columns[n]}' is {values[0, n]:.6g} in every training row, so nothing can be learned "
        "from it; data.columns can leave it out"
        for n in found
    ]


_NAMED = 5
"""Most constant columns with a warning each."""


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


def hold_numbers(data: Any, split: str, wanted: Sequence[int | str] | None, label: Column = None) -> Numbers:
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
        if not has_items(given):
            raise DataError(f"{split}: the labels are {described(given)}, expected a list of one for each row")
        labels = list(given.tolist() if hasattr(given, "tolist") else given)
    names, columns = _columns(data, split)
    if label == "label" and labels is None and tuple(names) == _unnamed(len(names)):
        raise DataError(f"{split} has no column names; give a data frame, a dict of columns or (rows, labels)")
    if labels is not None and columns and len(labels) != len(columns[0]):
        raise DataError(f"{split} has {len(columns[0])} rows and {len(labels)} labels; each row needs one")
    if label is not None and labels is None:
        place = _place(f"{split} has", names, label, "data.columns.label", "set data.columns.label")
        labels = columns[place]
        columns = [column for i, column in enumerate(columns) if i != place]
        names = [name for i, name in enumerate(names) if i != place]
    if wanted is None:
        places = [i for i, column in enumerate(columns) if not _are_dates(column)]
    else:
        places = [_place(f"{split} has", names, column, "data.columns", "set data.columns") for column in wanted]
    _refuse_duplicate_columns(f"{split} has", names, places)
    if not places:
        raise DataError(f"{split} has no column of numbers" + (f" besides the label '{label}'" if label else ""))
    values = [
        [_number(f"{split}[{n}], column '{names[i]}'", value) for n, value in enumerate(columns[i])] for i in places
    ]
    for i in places:
        characters_of(names[i], f"{split}: the name of a column", _not_text)
    told = tuple(_held_label(split, n, value) for n, value in enumerate(labels or ()))
    origins = tuple(f"{split}[{n}]" for n in range(len(columns[0])))
    return Numbers(tuple(names[i] for i in places), np.array(values, dtype=np.float64).T, told, origins)


@dataclass(frozen=True)
class NamedSeries(Numbers):
    """Rows in order of time, and their name in messages."""

    name: str = ""


def hold_series(data: Any, split: str, wanted: Sequence[int | str] | None) -> list[NamedSeries]:
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
    places = [_place(f"{split} has", numbers.columns, column, "data.columns", "set data.columns") for column in columns]
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
    table = HeldTable(data, split, ("row",))
    return [*(table.names or _unnamed(table.width))], [table.column(i) for i in range(table.width)]


def _unnamed(width: int) -> tuple[str, ...]:
    """Names for the columns of an array, which has none."""
    return ("value",) if width == 1 else tuple(str(i) for i in range(width))


def _are_dates(column: Sequence[Any]) -> bool:
    return all(hasattr(value, "isoformat") for value in column)


def _held_label(split: str, row: int, value: Any) -> str:
    if not (label := label_of(value)):
        raise DataError(f"{split}[{row}]: the label is {described(value)}, expected a text or a number")
    return characters_of(label, f"{split}[{row}]: the label", _not_text)


def _not_text(rule: str, message: str) -> DataError:
    return DataError(message)
