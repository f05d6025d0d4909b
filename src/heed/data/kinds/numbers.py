"""Rows of columns from CSV and TSV or passed in Python: numbers and categories; errors name file, line and column.

pandas parses the cells, so numbers, missing values (`NA`, `null`, `?`, ...) and booleans are written as its readers
take them. `.tsv` is separated by tabs, anything else by commas; files may be compressed (.gz, .xz). Other separators,
decimal commas and a missing header are recognised from the beginning of the file. Percent and currency signs and
separators of thousands are left out. A column that is mostly numbers is one of numbers, and its other cells are
errors; the others are categories. A column that only counts the rows is left out unless it is asked for.
"""

from __future__ import annotations

import csv
import json
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from itertools import chain, islice
from pathlib import Path
from typing import Any, ClassVar

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from heed.data.columns import DECIMAL_COMMA, Column, facts_of, is_number, regular_rows, some
from heed.data.examples import LABEL, TOGETHER, VALUE, Example, Hashes, Kept, LabelSet, Lazy, hashes_of, select, take
from heed.data.findings import BadLine, Findings
from heed.data.readers import HeldTable, column_names, label_of
from heed.data.tables import SEPARATORS, Head, characters_of, described, has_items
from heed.data.text_files import ending_of, lines_of
from heed.errors import DataError, suggest

_LABELS = ("label", "labels", "class", "target", "species", "quality", "outcome", "diagnosis", "variety")
"""Usual names of columns of labels."""
_DEFAULT = "label"
"""Default name of the column of labels."""
_MISSING = ("", "NA", "N/A", "n/a", "<NA>", "NaN", "nan", "-nan", "NULL", "null", "None", "#N/A", "?")
"""Cells without a value: most of those that pandas knows, and the question mark of the UCI data sets."""
_COUNTERS = ("id", "idx", "index", "unnamed: 0")
"""Names of columns that tell rows apart, and ends of names of columns that may count them."""
_SIGNS = r"^[€$£¥]\s*|\s*[%€$£¥]$"
_GROUPED = {False: r"[-+]?\d{1,3}(?:,\d{3})+(?:\.\d+)?", True: r"[-+]?\d{1,3}(?:\.\d{3})+(?:,\d+)?"}
"""Numbers with separators of thousands, by whether commas are decimal."""
_LIKE = "|".join(
    (r"[-+]?(?:\d[\d_]*[.,]?\d*|[.,]\d+)(?:[eE][-+]?\d+)?", r"[-+]?(?:inf|Inf|infinity|Infinity)", *_GROUPED.values())
)
"""What looks like a number, read or not."""
_LISTED = 40
"""Most columns that a message lists."""
_MOSTLY = 0.9
"""Share of the cells that look like numbers from which a column is one of numbers."""
_LARGEST = 1e150
"""Largest accepted magnitude; sums of many squares stay finite."""
_AT_ONCE = 10_000
"""Lines given to pandas at once."""


@dataclass(frozen=True)
class Layout:
    """Layout of one file: `label` is the column of labels, `said` the remarks for the user."""

    separator: str
    decimal_comma: bool = False
    header: bool = True
    label: Column = None
    said: tuple[str, ...] = ()


def layout_of(
    path: Path,
    wanted: Sequence[int | str] | None,
    label: Column,
    findings: Findings,
    known: Collection[str] = (),
) -> Layout:
    """The layout of a file of which the columns `wanted` and `label` will be read, as far as they are known.

    If no column is named "label", the default, it is the one with a usual name or with the `known` labels of the
    training set. A recognised encoding is recorded in the findings.

    Raises:
        DataError: Several columns could be the label.
    """
    usual = "\t" if ending_of(path) == ".tsv" else ","
    head = Head.of(path, findings, excel=True)
    separator = head.separator(usual) or usual
    rows = head.rows(separator)
    if not rows:
        return Layout(usual, label=label)
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
    if label == _DEFAULT and _DEFAULT not in first:
        facts = facts_of(rows[header:], first if header else range(len(first)), known)
        able = [c for c in facts if c.known >= 0.9 and c.is_text] or [c for c in facts if c.known >= 0.9]
        able = able or [c for c in facts if str(c.name).casefold() in _LABELS]
        if len(able) > 1:
            which = ", ".join(f"{c.shown} ({c.values:,} values: {some(c.first)})" for c in able)
            chosen = f"data.columns.label={able[-1].name} chooses the last"
            raise DataError(f"'{path}': several columns could be the label: {which}; {chosen}")
        if able:
            label = able[0].name
            said.append(f"columns: label is {able[0].shown} ({able[0].counted(head.whole)})")
    return Layout(separator, comma, header, label, tuple(said))


def names_of(path: Path, wanted: Sequence[int | str] | None) -> list[str]:
    """The names of a file's columns of which those `wanted` will be read.

    Raises:
        DataError: The file cannot be read.
    """
    layout = layout_of(path, wanted, None, findings := Findings())
    first = next(iter(Head.of(path, findings, excel=True).rows(layout.separator)), [])
    return [name.strip() if layout.header else str(n) for n, name in enumerate(first)]


def _numeric(rows: Sequence[Sequence[str]], column: int) -> bool:
    return all(is_number(row[column]) for row in rows[1:] if column < len(row))


@dataclass(frozen=True, slots=True)
class Row(Example):
    """The cells of a row, which decide its split, and its label or ""; numbers are floats, missing ones NaN."""

    unit, groups = "row", "values"
    roles: ClassVar = {"values": VALUE, "label": LABEL}

    values: tuple[Any, ...]
    label: str
    origin: str = field(default="", compare=False)


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
class Rows(Kept[Row]):
    """Rows of named columns with their labels (or none) and origins such as "data.csv:17".

    `cells` has columns of float64 (missing values are NaN), and columns of other values. `values` are numbers made of
    the cells, `(rows, columns of the model)`, once a task has fitted how. `split` names the data in messages,
    `label_name` is the column of the labels, and
    `said` are remarks on what was recognised and left out.
    """

    cells: pd.DataFrame
    labels: tuple[str, ...]
    origins: Sequence[str]
    split: str = ""
    label_name: str = ""
    said: tuple[str, ...] = ()
    values: NDArray[np.float64] = field(default_factory=lambda: np.empty((0, 0)))

    def __len__(self) -> int:
        return len(self.cells)

    @property
    def columns(self) -> tuple[str, ...]:
        """The names of the columns of cells."""
        return tuple(map(str, self.cells.columns))

    @property
    def kinds(self) -> dict[str, bool]:
        """Whether each column holds numbers."""
        return {name: self.cells[name].dtype == float for name in self.columns}

    @property
    def hashes(self) -> Hashes:
        parts = (self._tuples(slice(start, start + TOGETHER)) for start in range(0, len(self), TOGETHER))
        values = [hashes_of(json.dumps(row).encode() for row in part) for part in parts]  # as `Row.keys`
        labels = hashes_of(label.encode() for label in self.labels or [""] * len(self))
        return np.stack([np.concatenate(values), labels], axis=1)

    def _tuples(self, places: Any) -> list[tuple[Any, ...]]:
        """The cells of some rows as Python values; missing texts are None."""
        columns = (self.cells.iloc[places, n] for n in range(self.cells.shape[1]))
        listed = (c.tolist() if c.dtype == float else c.astype(object).where(c.notna(), None).tolist() for c in columns)
        return list(zip(*listed, strict=True))

    @property
    def label_sets(self) -> tuple[list[LabelSet], NDArray[np.int64]]:
        numbers, labels = pd.factorize(np.array(self.labels or [""] * len(self), dtype=object))
        return [(label,) for label in labels], numbers.astype(np.int64)

    def take(self, indices: Sequence[int]) -> list[Row]:
        labels = self.labels or ("",) * len(self)
        both = zip(indices, self._tuples(list(indices)), take(self.origins, indices), strict=True)
        return [Row(cells, labels[i], origin) for i, cells, origin in both]

    def select(self, indices: Sequence[int] | NDArray[Any]) -> Rows:
        labels = tuple([self.labels[i] for i in indices]) if self.labels else ()
        rows = np.asarray(indices, int)
        values = self.values[rows] if len(self.values) else self.values
        return replace(
            self, cells=self.cells.iloc[rows], labels=labels, origins=select(self.origins, indices), values=values
        )

    @classmethod
    def joined(cls, parts: Sequence[Rows]) -> Rows:
        """The rows of several files with the same columns, one after the other."""
        if len(parts) == 1:
            return parts[0]
        origins = Lines.joined([part.origins for part in parts if isinstance(part.origins, Lines)])
        labels = tuple(label for part in parts for label in part.labels)
        cells = pd.concat([part.cells for part in parts], ignore_index=True)
        return replace(parts[0], cells=cells, labels=labels, origins=origins)

    def ordered(self, columns: Sequence[str]) -> Rows:
        """The rows with their columns in a given order; columns of an array have no names but places.

        Raises:
            DataError: A column is missing.
        """
        if self.columns == tuple(columns):
            return self
        if self.columns == _unnamed(len(columns)):
            return replace(self, cells=self.cells.set_axis(list(columns), axis=1))
        if self.columns == _unnamed(width := len(self.columns)):
            expected = ", ".join(columns)
            raise DataError(f"{self.split} has {width} column{'' if width == 1 else 's'}, expected {expected}")
        places = [_place(f"{self.split} has", self.columns, column, "data.columns", _SET) for column in columns]
        return replace(self, cells=self.cells.iloc[:, places])


_SET = "set data.columns"


def read_rows(path: Path, wanted: Sequence[int | str] | None = None, label: Column = None, **options: Any) -> Rows:
    """Read one file; arguments and errors as for `iter_rows`."""
    return next(iter_rows(path, wanted, label, **options))


def iter_rows(
    path: Path,
    wanted: Sequence[int | str] | None,
    label: Column = None,
    most: int | None = None,
    *,
    labelled: bool = True,
    known: Collection[str] = (),
    kinds: Mapping[str, bool] | None = None,
    categories: Collection[int | str] = (),
    findings: Findings | None = None,
) -> Iterator[Rows]:
    """Read one file, `most` rows at a time, so that memory does not grow with it.

    Args:
        path: The file.
        wanted: Columns by name or by number from 0; by default all but the label and counters of rows.
        label: Column of the label, read if `labelled`; the default "label" may have another usual name, or be the one
            with the `known` labels of the training set.
        most: Rows at a time; by default all.
        labelled: Whether labels are read.
        known: Labels of the training set.
        kinds: Whether each wanted column holds numbers, if that is known from training.
        categories: Columns of categories, though they may look like numbers.
        findings: Policy for bad lines, encoding and longest line.

    Raises:
        DataError: The file cannot be read, a column is missing, a line has another number of columns, a label is
            missing, or a value is not a number where the others are; with file, line and column; after the rows before
            the error.
    """
    findings = Findings() if findings is None else findings
    layout = layout_of(path, wanted, label if labelled else None, findings, known)
    separator, records = layout.separator, _records(path, layout.separator, findings)
    if (first := next(records, None)) is None:
        raise DataError(f"'{path}' contains only blank lines; expected names of columns in its first line, then rows")
    cells = next(csv.reader([first[1]], delimiter=separator))
    names = [name.strip() for name in cells] if layout.header else [str(n) for n in range(len(cells))]
    label = layout.label if labelled else label if label in names or isinstance(label, int) else None
    choice = Choice.of(f"'{path}' line 1 names", names, wanted, label, kinds, categories)
    if not labelled:
        choice = replace(choice, label=None)
    read = choice.read
    texts = [str(n) for n in read if n == choice.label or choice.numbers(n) is False]
    parts: Any = pd.read_csv(
        _Stream(path, separator, findings, records, len(names), None if layout.header else first),
        sep=separator,
        header=None,
        names=["line", *map(str, range(len(names)))],  # pandas takes numbers in `usecols` for positions
        usecols=["line", *map(str, read)],
        dtype=str if layout.decimal_comma else dict.fromkeys(texts, str),
        keep_default_na=False,
        na_values={str(n): [*_MISSING] for n in choice.places},
        skipinitialspace=True,
        low_memory=False,
        quoting=csv.QUOTE_NONE if separator == "\t" else csv.QUOTE_MINIMAL,
        chunksize=most,
    )
    count = 0
    for part in [parts] if most is None else parts:
        count += len(part)
        lines = part.pop("line").to_numpy(np.int64)
        part = part.reset_index(drop=True).rename(columns=int)
        origins = Lines((path.name,), np.stack([np.zeros(len(part), np.int64), lines], axis=1))
        if len(part):
            yield choice.rows(part, f"'{path}'", origins, layout.said, path, findings, layout.decimal_comma)
    if not count:
        raise DataError(f"'{path}' has a header ({', '.join(names)[:60]}) but no rows")


@dataclass(frozen=True)
class Choice:
    """The columns to read, by their `places` among the `names`: features, perhaps the label; those of `texts`."""

    names: Sequence[str]
    places: Sequence[int]
    label: int | None
    texts: Collection[int]
    kinds: Mapping[str, bool] | None  # whether columns hold numbers, if that is known from training
    counters: bool  # whether columns that only tell rows apart are read

    @classmethod
    def of(
        cls,
        has: str,
        names: Sequence[str],
        wanted: Sequence[int | str] | None,
        label: Column,
        kinds: Mapping[str, bool] | None,
        categories: Collection[int | str],
        counters: bool = False,
    ) -> Choice:
        """Arguments as for `iter_rows`; `has` begins messages, as in "'a.csv' line 1 names".

        `counters`: columns that only tell rows apart are read, too.

        Raises:
            DataError: A column is missing or not unique.
        """
        if label == _DEFAULT and label not in names:
            listed = f"{', '.join(filter(None, names[:_LISTED]))}{', ...' if len(names) > _LISTED else ''}"
            raise DataError(
                f"{has} no label (or {', '.join(_LABELS[1:5])}, ...); data.columns.label=NAME chooses one of {listed}"
            )
        ask = "set data.columns.label"
        of_label = None if label is None else _place(has, names, label, "data.columns.label", ask)
        ask = _SET if kinds is None else f"the columns of training are needed: {', '.join(map(str, wanted or ()))}"
        places = [_place(has, names, column, "data.columns", ask) for column in wanted or ()]
        if wanted is None:
            places = [place for place in range(len(names)) if place != of_label]
        if not places:
            raise DataError(f"{has} no column besides the label '{label}'")
        for place in (read := [*places, *([] if of_label is None else [of_label])]):
            if len(twins := [n for n, name in enumerate(names) if name == names[place] and n in read]) > 1:
                raise DataError(
                    f"{has} two columns '{names[place]}' ({twins[0]} and {twins[1]}, counted from 0); rename one, or "
                    "leave them out with data.columns"
                )
        ask = "data.columns.categories"
        texts = [] if kinds else [_place(has, names, column, ask, "set data.columns") for column in categories]
        return cls(names, places, of_label, texts, kinds, counters or wanted is not None)

    @property
    def read(self) -> list[int]:
        """The places of all columns to read."""
        return [*self.places, *([] if self.label is None else [self.label])]

    def numbers(self, place: int) -> bool | None:
        """Whether a column holds numbers; None if its cells decide."""
        return self.kinds[self.names[place]] if self.kinds else False if place in self.texts else None

    def rows(
        self,
        cells: pd.DataFrame,
        split: str,
        origins: Sequence[str],
        said: Sequence[str],
        path: Path | str,
        findings: Findings,
        comma: bool = False,
    ) -> Rows:
        """The rows of `cells`, which has columns by place; those that cannot be used are refused or left out."""
        bad = np.zeros(len(cells), bool)

        def refuse(
            name: str, mask: NDArray[np.bool_], message: Callable[[int], str], rule: str = "not a number"
        ) -> None:
            for row in np.flatnonzero(mask & ~bad).tolist():
                line = origins[row].rpartition(":")[2] if isinstance(origins, Lines) else ""
                where = f"{split} line {line}" if line else origins[row]
                findings.bad(rule, path, int(line) if line else where, f"{where}, column '{name}': {message(row)}")
                findings.leave_out(rule)
            np.logical_or(bad, mask, out=bad)

        made = {
            self.names[place]: typed(cells[place], partial(refuse, self.names[place]), self.numbers(place), comma)
            for place in self.places
        }
        labels: list[str] = []
        if self.label is not None:
            plain = [
                c.replace(",", ".") if comma and DECIMAL_COMMA.fullmatch(str(c)) else c
                for c in cells[self.label].unique()
            ]
            names = {cell: label_of(text) for cell, text in zip(cells[self.label].unique(), plain, strict=True)}
            missing = cells[self.label].map(lambda cell: not names[cell]).to_numpy(bool)
            refuse(self.names[self.label], missing, lambda _: "the label is missing", "no label")
            labels = [str(names[cell]) for cell in cells[self.label][~bad]]
            name = self.names[self.label]
            if isinstance(path, Path) and name in labels and not name.isdigit():  # columns without names are numbered
                what = f"'{name}', which line 1 names as a column, is also a label"
                said = (*said, f"warning: {what}; if the file has no header, add one")
        table = pd.DataFrame(made, index=cells.index)[~bad].reset_index(drop=True)
        table, left = (table, []) if self.counters else without_counters(table)
        name = "" if self.label is None else self.names[self.label]
        kept = select(origins, np.flatnonzero(~bad))
        return Rows(table, tuple(labels), kept, split, name or _DEFAULT, (*said, *left))


def _records(path: Path, separator: str, findings: Findings) -> Iterator[tuple[int, str]]:
    """The last line's number and the text of each non-blank row; a quoted cell may have line breaks."""
    lines = enumerate(lines_of(path, findings), start=1)
    record: list[tuple[int, str]] = []

    def more() -> Iterator[str]:
        """The lines of the row, as many as its quotes need."""
        yield f"{record[0][1]}\n"
        for number, line in lines:
            if not isinstance(line, BadLine):
                record.append((number, line))
                yield f"{line}\n"

    for number, line in lines:
        if isinstance(line, BadLine):
            findings.leave_out(line.rule)
            continue
        record = [(number, line)]
        if '"' in line and separator != "\t":
            try:
                next(csv.reader(more(), delimiter=separator, strict=True))
            except csv.Error as error:
                raise DataError(f"'{path}' line {record[-1][0]} is not CSV: {error}") from None
        if line.strip(f"{separator} \t"):
            yield record[-1][0], "\n".join(text for _, text in record)


class _Stream:
    """The rows of a file as pandas reads them: the number of its line before each, and all of the same `width`."""

    def __init__(
        self,
        path: Path,
        separator: str,
        findings: Findings,
        records: Iterator[tuple[int, str]],
        width: int,
        first: tuple[int, str] | None,
    ) -> None:
        self._path, self._separator, self._findings, self._width = path, separator, findings, width
        self._records = records if first is None else chain([first], records)

    def __iter__(self) -> Iterator[str]:
        return iter(self.read, "")

    def read(self, size: int = -1) -> str:
        """The next rows, more or fewer characters than `size`; "" at the end."""
        return "".join(islice(self._rows(), _AT_ONCE))

    def _rows(self) -> Iterator[str]:
        for number, text in self._records:
            width = text.count(self._separator) + 1
            if width != self._width and '"' in text and self._separator != "\t":
                width = len(next(csv.reader(text.splitlines(keepends=True), delimiter=self._separator)))
            if width == self._width:
                yield f"{number}{self._separator}{text}\n"
            else:
                has = f"'{self._path}' line {number} has {width} columns, but its first line names {self._width}"
                self._findings.bad("another number of columns", self._path, number, has)
                self._findings.leave_out("another number of columns")


Refuse = Callable[[NDArray[np.bool_], Callable[[int], str]], None]
"""Refuses the rows of a mask, or leaves them out; its second argument says what is wrong with the cell of a row."""


def typed(cells: pd.Series[Any], refused: Refuse, numbers: bool | None = None, comma: bool = False) -> Any:
    """A column as numbers (float64, missing ones NaN), or as it is if it holds something else.

    `numbers` says whether it holds numbers; None if the cells decide. `comma`: commas are decimal.

    Raises:
        DataError: Most cells are numbers, and another one is not, or not finite.
    """
    if cells.dtype.kind == "M" or isinstance(cells.dtype, pd.PeriodDtype):  # dates
        return cells
    if pd.api.types.is_numeric_dtype(cells) and numbers is not False:
        made = cells.to_numpy(np.float64, na_value=np.nan)
    elif numbers is False:
        return as_texts(cells)
    else:
        texts = cells.dropna().astype(str).str.strip()
        if numbers is None and texts.str.lower().isin(("true", "false")).all():
            return (cells.astype(str).str.strip().str.lower() == "true").astype(float).where(cells.notna())
        plain = texts.str.replace(_SIGNS, "", regex=True)
        like = plain.str.fullmatch(_LIKE)
        if numbers is None and (not len(like) or like.mean() < _MOSTLY):
            return as_texts(cells) if len(texts) else cells.astype(float)
        sign = texts.str.extract(r"([%€$£¥])", expand=False).fillna("")
        if sign.any():
            usual = sign.mode()[0]
            other = cells.index.isin(sign.index[sign != usual])
            refused(other, lambda row: f"{cells[row]!r:.40} is not written like the other values, with '{usual}'")
        grouped = plain.str.fullmatch(_GROUPED[comma])
        ungrouped = plain.str.replace("." if comma else ",", "", regex=False)
        plain = plain.where(~grouped, ungrouped)
        if comma:
            plain = plain.where(~plain.str.contains(".", regex=False), "").str.replace(",", ".", regex=False)
        values = pd.to_numeric(plain, errors="coerce").astype(float)
        none = cells.index.isin(values.index[values.isna()])
        refused(none, lambda row: _not_a_number(cells[row], comma, bool(numbers)))
        made = values.reindex(cells.index).to_numpy()
    refused(np.isinf(made), lambda row: f"'{cells[row]!s:.40}' is not a finite number")
    large = "is too large: its square is not finite; give the column in larger units, or leave it out (data.columns)"
    refused(np.abs(made) > _LARGEST, lambda row: f"'{cells[row]!s:.40}' {large}")
    return pd.Series(made, cells.index)


def as_texts(cells: pd.Series[Any]) -> pd.Series[Any]:
    """Cells as texts, whole numbers as labels are written; missing ones stay missing."""
    written = cells.astype(str) if cells.dtype.kind == "M" else cells.astype(object)  # dates at midnight without a time
    return written.where(cells.notna(), None).map(lambda cell: label_of(cell) or str(cell), na_action="ignore")


def _not_a_number(cell: Any, comma: bool, trained: bool) -> str:
    shown = f"{str(cell).strip()!r:.40} is not a number"
    if comma and "." in str(cell):
        return f"{shown}: numbers of this file have a decimal comma, and then a dot can only group thousands"
    if isinstance(cell, str) and "_" in cell:  # only Python groups digits so
        return f"{shown}; write it without underscores: {cell.replace('_', '')}"
    if trained:
        return f"{shown}, but those of the training rows are"
    return f"{shown}, but most values of the column are; data.columns.categories can list it"


def without_counters(cells: pd.DataFrame) -> tuple[pd.DataFrame, list[str]]:
    """Leave out columns that only tell rows apart: an index or id whose values all differ, or a count of the rows.

    Returns:
        The other columns, and a remark on each that is left out.
    """
    left, said = [], []
    for name in cells.columns:
        column, written = cells[name], str(name).casefold()
        if (written and not written.endswith(_COUNTERS)) or len(column) < 2 or not column.is_unique:
            continue
        whole = column.dtype == float and bool((column % 1 == 0).all())
        counts = whole and column.max() - column.min() == len(column) - 1
        if counts or (written in ("", *_COUNTERS) and (whole or column.dtype != float)):
            left.append(name)
            what = f"column '{name}'" if name else "the column without a name"
            said.append(f"{what} is different in every row: left out (data.columns can ask for it)")
    return cells.drop(columns=left), said


def number_columns(rows: Rows, columns: Sequence[str], missing: str = "refuse") -> NDArray[np.float64]:
    """The named columns as numbers, `(rows, columns)`; missing values are NaN unless they are refused.

    Raises:
        DataError: A column holds no numbers, or a value is missing; with place and column.
    """
    for name in columns:
        column = rows.cells[name]
        if column.dtype != float:
            shown = f"{rows.origins[0]}, column '{name}': {column.iloc[0]!r:.40} is not a number"
            raise DataError(f"{shown}; data.columns selects the columns to read")
        if missing == "refuse" and column.isna().any():
            place = rows.origins[int(np.flatnonzero(column.isna())[0])]
            raise DataError(
                f"{place}, column '{name}': the value is missing; fill it in, or set data.missing=interpolate"
            )
    values: NDArray[np.float64] = rows.cells[[*columns]].to_numpy(np.float64)
    return values


def hold_rows(
    data: Any,
    split: str,
    wanted: Sequence[int | str] | None,
    label: Column = None,
    *,
    kinds: Mapping[str, bool] | None = None,
    categories: Collection[int | str] = (),
    counters: bool = False,
) -> Rows:
    """The `wanted` columns of data passed in Python, and the label if there is one; arguments as for `Choice.of`.

    `data` is a data frame (dates in its index are a column), a dict of columns, a list of dicts, an array
    `(rows, columns)`, a list of rows or of numbers; with a label also a tuple (rows, labels).

    Raises:
        DataError: A column is missing, or a value is not a number where the others are; with position and column.
    """
    labels, said = None, list[str]()
    if label is not None and isinstance(data, tuple) and len(data) == 2 and not isinstance(data[0], Mapping | tuple):
        data, labels = data
        if not has_items(labels):
            raise DataError(f"{split}: the labels are {described(labels)}, expected a list of one for each row")
        labels = list(labels.tolist() if hasattr(labels, "tolist") else labels)
    names, columns = _columns(with_dates(data), split)
    if labels is not None:
        if len(columns[0]) != len(labels):
            raise DataError(f"{split} has {len(columns[0])} rows and {len(labels)} labels; each row needs one")
        names, columns, label = [*names, ""], [*columns, labels], len(names)
    elif label == _DEFAULT and tuple(names) == _unnamed(len(names)):
        raise DataError(f"{split} has no column names; give a data frame, a dict of columns or (rows, labels)")
    elif label == _DEFAULT and _DEFAULT not in names:
        able = [name for name in names if name.casefold() in _LABELS]
        if len(able) > 1:
            raise DataError(f"{split}: several columns could be the label: {', '.join(able)}; set data.columns.label")
        said = [f"columns: label is '{name}'" for name in able]
        label = able[0] if able else label
    choice = Choice.of(f"{split} has", names, wanted, label, kinds, categories, counters)
    for place in choice.places:
        characters_of(names[place], f"{split}: the name of a column", _not_text)
        for row, value in enumerate(columns[place]):
            if isinstance(value, list | tuple | dict | set):
                at = f"{split}[{row}], column '{names[place]}'"
                raise DataError(f"{at} is {described(value)}, expected a number or a text")
    for row, value in enumerate([] if choice.label is None else columns[choice.label]):
        if not label_of(value):
            raise DataError(f"{split}[{row}]: the label is {described(value)}, expected a text or a number")
        characters_of(str(value), f"{split}[{row}]: the label", _not_text)
    for place in choice.places:
        columns[place] = [None if str(cell).strip() in _MISSING else cell for cell in columns[place]]
    cells = pd.DataFrame({n: pd.Series(columns[n], dtype=object if n == choice.label else None) for n in choice.read})
    origins = tuple(f"{split}[{n}]" for n in range(len(columns[0])))
    return choice.rows(cells, split, origins, said, split, Findings(hint=False))


def with_dates(data: Any) -> Any:
    """Data passed in Python, with the dates of a data frame's index as a column."""
    if not isinstance(getattr(data, "index", None), pd.DatetimeIndex | pd.PeriodIndex):
        return data
    frame = data.to_frame() if isinstance(data, pd.Series) else data
    return frame.rename_axis(frame.index.name or "date").reset_index()


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


def _not_text(rule: str, message: str) -> DataError:
    return DataError(message)


def _place(has: str, names: Sequence[str], column: int | str, field: str, hint: str) -> int:
    """The number of a column; `has` begins messages, as in "'a.csv' line 1 names"."""
    if isinstance(column, int):
        if not 0 <= column < len(names):
            raise DataError(f"{has} {len(names)} columns, so {field} cannot be {column} (from 0)")
        return column
    if column not in names:
        raise DataError(f"{has} no column '{column}'{suggest(column, names)}; {hint}")
    return list(names).index(column)
