"""Rows of columns from CSV and TSV or passed in Python: numbers and categories; errors name file, line and column.

Numbers, missing values (`NA`, `null`, `?`, ...) and booleans are written as pandas takes them. `.tsv` is separated by
tabs, anything else by commas; files may be compressed (.gz, .xz). Other separators, decimal commas and a missing header
are recognised from the beginning of the file. Percent and currency signs and separators of thousands are left out. A
column that is mostly numbers is one of numbers, and its other cells are errors; the others are categories. A column
that only counts the rows is left out unless it is asked for.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from itertools import chain, islice
from pathlib import Path
from typing import Any, ClassVar, Literal

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from heed.data.columns import DECIMAL_COMMA, Column, Facts, is_float, is_number, label_of, listing, shown, some
from heed.data.corpus import label_sets_in
from heed.data.examples import CHUNK, LABEL, VALUE, Example, HashedExamples, Hashes, LabelSet, hashes_of
from heed.data.findings import Findings
from heed.data.tables import CsvTable, Field, PythonTable, Table, characters_of, described, has_items, values_of
from heed.data.tables import Row as TableRow
from heed.data.text_files import ending_of
from heed.errors import DataError, counted, nearest, suggest

Columns = Sequence[int | str] | None
"""Columns by name or by number from 0; None for all but the label and counters of rows."""
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
"""Texts that look like numbers, whether they can be read or not."""
_MOSTLY = 0.9
"""Share of the cells that look like numbers from which a column is one of numbers."""
LARGEST = 1e150
"""Largest accepted magnitude; sums of many squares stay finite."""
_FEW_CLASSES = 20
"""Most different whole numbers that are classes."""


@dataclass(frozen=True, slots=True)
class Row(Example):
    """The cells of a row, which decide its split, and its label or ""; numbers are floats, missing ones NaN."""

    unit, groups = "row", "values"
    roles: ClassVar = {"values": VALUE, "label": LABEL}

    values: tuple[Any, ...]
    label: str
    origin: str = field(default="", compare=False)


@dataclass(frozen=True)
class Rows(HashedExamples[Row]):
    """Rows of named columns with their labels (or none).

    `cells` has columns of float64 (missing values are NaN), and columns of other values; its index tells the file and
    the line of each row, or its number in data passed in Python. `values` are numbers made of the cells, `(rows,
    columns of the model)`, once a task has fitted how. `split` names the data in messages, `label_name` is the column
    of the labels, and `remarks` are on what was recognised and left out.
    """

    cells: pd.DataFrame
    labels: tuple[str, ...]
    split: str = ""
    label_name: str = ""
    remarks: tuple[str, ...] = ()
    values: NDArray[np.float64] = field(default_factory=lambda: np.empty((0, 0)))

    def __len__(self) -> int:
        return len(self.cells)

    def origin(self, row: int) -> str:
        """Where a row was read, such as "data.csv:17" or "train[3]"."""
        place = self.cells.index[row]
        return f"{place[0]}:{place[1]}" if isinstance(place, tuple) else f"{self.split}[{place}]"

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
        parts = (self._tuples(slice(start, start + CHUNK)) for start in range(0, len(self), CHUNK))
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
        places = [*indices]
        labels = [self.labels[i] for i in places] if self.labels else [""] * len(places)
        return [*map(Row, self._tuples(places), labels, map(self.origin, places))]

    def select(self, indices: Sequence[int] | NDArray[Any]) -> Rows:
        rows = np.asarray(indices, int)
        labels = tuple(self.labels[i] for i in rows) if self.labels else ()
        values = self.values[rows] if len(self.values) else self.values
        return replace(self, cells=self.cells.iloc[rows], labels=labels, values=values)

    @classmethod
    def joined(cls, parts: Sequence[Rows]) -> Rows:
        """The rows of several files with the same columns, one after the other."""
        labels = tuple(label for part in parts for label in part.labels)
        return replace(parts[0], cells=pd.concat([part.cells for part in parts]), labels=labels)

    def ordered(self, columns: Sequence[str]) -> Rows:
        """The rows with their columns in a given order; columns of an array have no names but places.

        Raises:
            DataError: A column is missing.
        """
        if self.columns == tuple(columns):
            return self
        if self.columns == _unnamed(width := len(self.columns)):
            return replace(self, cells=self.cells.set_axis(_named(width, columns, self.split), axis=1))
        if absent := [column for column in columns if column not in self.columns]:
            has = f"{self.split} has no column '{absent[0]}'{suggest(absent[0], self.columns)}"
            raise DataError(f"{has}; the training rows have it")
        return replace(self, cells=self.cells[[*columns]])


def read_rows(path: Path, features: Columns = None, label: Column = None, **options: Any) -> Rows:
    """Read one file; arguments and errors as for `iter_rows`."""
    return next(iter_rows(path, features, label, **options))


def iter_rows(
    path: Path,
    features: Columns = None,
    label: Column = None,
    *,
    num_rows: int | None = None,
    findings: Findings | None = None,
    **options: Any,
) -> Iterator[Rows]:
    """Read one file, `num_rows` at a time (by default all), so that memory does not grow with it.

    `findings` are the policy for bad lines, encoding and longest line; other arguments and errors as for `Choice.of`.

    Raises:
        DataError: The file cannot be read, a line has another number of columns, a label is missing, or a value is not
            a number where the others are; with file, line and column; after the rows before the error.
    """
    findings = Findings() if findings is None else findings
    table = CsvTable(path, findings, "\t" if ending_of(path) == ".tsv" else ",")
    if any(name[:1] == name[-1:] == '"' for name in table.names):  # R's write.table encloses names and texts
        table.has_quotes, table.sample = True, [[cell.strip('"') for cell in row] for row in table.sample]
    table.names, table.header = [], False  # its first line is looked at here
    rows = table.usable(partial(_numbered, table))
    if (first := next(rows, None)) is None:
        raise DataError(f"'{path}' contains only blank lines; expected names of columns in its first line, then rows")
    names = [cell.strip() for cell in first[1:]]
    comma = table.separator != "," and any(DECIMAL_COMMA.fullmatch(c.strip()) for row in table.sample[1:] for c in row)
    table.header = _names_columns(names, table.sample[1:], [*(features or ()), *([] if label is None else [label])])
    if not table.header:
        rows, names = chain([first], rows), [str(n) for n in range(len(names))]
    table.names, table.recognised = names, True
    table.sample = [names if table.header else first[1:], *table.sample[1:]]
    choice = Choice.of(table, features, label, **options)
    if comma:
        findings.remark("numbers have a decimal comma")
    if not table.header and not any("no header" in line for line in findings.remarks):
        findings.remark(table.numbered.removeprefix("; "))
    elif table.header and len(table.sample) > 1 and all(map(is_number, names)):
        what = f"line 1 contains only numbers ({some(names)}) and was read as column names"
        findings.remark(f"warning: {what}; if the file has no header, add one")
    count = 0
    while part := list(islice(rows, num_rows)):
        count += len(part)
        lines, *columns = zip(*part, strict=True)
        cells = {n: pd.Series(columns[n], dtype=object).str.lstrip(" ") for n in choice.read}
        gaps = {n: column.mask(column.isin(_MISSING), None) for n, column in cells.items() if n in choice.kinds}
        yield choice.rows(pd.DataFrame(cells | gaps).set_axis(lines), comma)
    if not count:
        raise DataError(f"'{path}' has a header ({', '.join(names)[:60]}) but no rows")


def _numbered(table: CsvTable, row: TableRow) -> list[Any] | None:
    """The number of the line and the cells of a row that is not blank; the first row says how many there are."""
    cells = row.object()
    if not cells or not any(map(str.strip, cells)):
        return None
    table.names = table.names or cells
    if len(cells) != len(table.names):
        has = f"{row.where} has {len(cells)} columns, but its first line names {len(table.names)}"
        raise row.bad("another number of columns", has)
    return [row.number, *cells]


def _names_columns(first: Sequence[str], rows: Sequence[Sequence[str]], needed: Sequence[int | str]) -> bool:
    """True if the first line of a file names its columns: needed ones, or none where numbers follow."""
    if not needed or not any(map(is_number, first)) or any(column in first for column in needed):
        return True
    columns = ([row[n] for row in rows if n < len(row)] for n in range(len(first)))
    return any(all(map(is_number, c)) and not is_number(name) for name, c in zip(first, columns, strict=True))


def _label_column(
    names: Sequence[str], facts: Sequence[Facts], columns: Mapping[str, Column]
) -> dict[str, int | str] | str:
    """The column of labels that are known from training, or with a usual name; or why there is none.

    `facts` have numbers instead of `names` if two columns have the same name.
    """
    candidates = [c for c in facts if c.labels >= 0.9 and c.is_text] or [c for c in facts if c.labels >= 0.9]
    candidates = candidates or [c for c, name in zip(facts, names, strict=True) if str(name).casefold() in _LABELS]
    if not candidates:
        return f"no column is called {', '.join(_LABELS[:5])}, ..."
    if len(candidates) == 1:
        return {"label": candidates[0].name}
    return f"several columns could be the label: {', '.join(f'{c.shown} ({c.values:,} values)' for c in candidates)}"


@dataclass(frozen=True)
class Choice:
    """The columns of a table that are read, by place."""

    table: Table
    kinds: Mapping[int, bool | None]
    """Whether each column to read holds numbers; None if its cells decide."""
    label: int | None
    counters: bool
    """True if columns that only tell rows apart are read, too."""

    @classmethod
    def of(
        cls,
        table: Table,
        features: Columns,
        label: Column = None,
        *,
        labels: Collection[str] = (),
        kinds: Mapping[str, bool] | None = None,
        categories: Collection[int | str] = (),
        others: Mapping[str, str] | None = None,
        counters: bool = False,
    ) -> Choice:
        """Choose the columns of a table.

        Args:
            table: The table, whose columns have names.
            features: Columns by name or by number from 0; by default all but the label and counters of rows.
            label: Column of the label; the default "label" may have another usual name, or be the one with the labels
                of the training set. None if labels are not read.
            labels: Labels of the training set.
            kinds: Whether each column of `features` holds numbers, if that is known from training.
            categories: Columns of categories, though they may look like numbers.
            others: If given, all other columns are read, too, as texts; they include these (option -> column).
            counters: True if columns that only tell rows apart are read, too.

        Raises:
            DataError: A column is missing or not unique; the message lists the columns and names the option to set.
        """
        names = [*table.names]
        by_name: dict[Column, int] = {name: n for n, name in reversed([*enumerate(names)])}

        def place(option: str, column: int | str) -> int:
            if column in by_name:
                return by_name[column]
            if isinstance(column, int) and 0 <= column < len(names):
                return column
            lacks = f"{table.called} has no column {shown(column)}{nearest(str(column), names)}"
            ask = f"; {table.option.format(option)} chooses from"
            ask = ask if kinds is None else ", which the training rows have; its columns are"
            raise DataError(f"{lacks}{ask} {listing(table.facts())}{table.numbered}")

        fields = [Field("label")] if label == _DEFAULT else []
        if remark := table.choose(fields, partial(_label_column, names), labels=labels, minimum_rows=1):
            table.findings.remark(remark)
        label = table.columns["label"] if fields else label
        of_label = None if label is None else place("label", label)
        places = [n for n in range(len(names)) if n != of_label]
        if features is not None:
            places = [place("features" if others is None else "values", column) for column in features]
        texts = {place("categories", column) for column in categories} if kinds is None else set()
        for option, column in (others or {}).items():
            place(option, column)
        if not places:
            raise DataError(f"{table.called} has no column besides the label '{label}'")
        chosen = {n: False if n in texts else None if kinds is None else kinds[names[n]] for n in places}
        if others is not None and features is not None:
            chosen |= {n: False for n in range(len(names)) if n not in chosen}
        for n in chosen if of_label is None else (*chosen, of_label):
            if (first := by_name[names[n]]) != n:
                raise DataError(
                    f"{table.called} has two columns '{names[n]}' ({first} and {n}, counted from 0); rename one, or "
                    "leave them out with data.columns"
                )
        return cls(table, chosen, of_label, counters or features is not None)

    @property
    def read(self) -> list[int]:
        """The places of all columns to read."""
        return [*self.kinds, *([] if self.label is None else [self.label])]

    def rows(self, cells: pd.DataFrame, comma: bool = False) -> Rows:
        """The rows of `cells`, which has columns by place, indexed by line or number.

        Those that cannot be used are refused or left out.
        """
        table, names = self.table, self.table.names
        bad = np.zeros(len(cells), bool)

        def refuse(
            name: str, mask: NDArray[np.bool_], message: Callable[[int], str], rule: str = "not a number"
        ) -> None:
            for row in np.flatnonzero(mask & ~bad).tolist():
                number = cells.index[row]
                what = f"{table.where(number)}, column '{name}': {message(row)}"
                table.findings.bad(rule, table.path, table.place(number), what)
                table.findings.leave_out(rule)
            np.logical_or(bad, mask, out=bad)

        columns = {names[n]: typed(cells[n], partial(refuse, names[n]), kind, comma) for n, kind in self.kinds.items()}
        labels, label_name = np.empty(0, dtype=object), _DEFAULT
        if self.label is not None:
            label_name = names[self.label] or _DEFAULT
            numbers, values = pd.factorize(cells[self.label], use_na_sentinel=False)
            plain = (v.replace(",", ".") if comma and DECIMAL_COMMA.fullmatch(str(v)) else v for v in values)
            labels = np.array([label_of(value) or "" for value in plain], dtype=object)[numbers]
            refuse(label_name, labels == "", lambda row: _no_label(cells[self.label].iloc[row]), "no label")
            labels = labels[~bad]
            if isinstance(table, CsvTable) and label_name in labels and not label_name.isdigit():
                what = f"'{label_name}', which line 1 names as a column, is also a label"
                table.findings.remark(f"warning: {what}; if the file has no header, add one")
        frame = pd.DataFrame(columns, index=cells.index)
        frame = frame[~bad] if bad.any() else frame
        if not self.counters:
            frame, remarks = without_counters(frame)
            for line in remarks:
                table.findings.remark(line)
        if isinstance(table, CsvTable):
            frame.index = pd.MultiIndex.from_product([[table.name], frame.index])
        return Rows(frame, (*labels.tolist(),), table.called, label_name, (*table.findings.remarks,))


def _no_label(cell: Any) -> str:
    return "the label is missing" if cell == "" else f"the label is {described(cell)}, expected a text or a number"


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
    if numbers is False:
        return as_texts(cells)
    if pd.api.types.is_numeric_dtype(cells):
        return _finite(pd.Series(cells.to_numpy(np.float64, na_value=np.nan), cells.index), refused)
    texts = cells.dropna().astype(str).str.strip()
    if len(texts) and texts.str.lower().isin(("true", "false")).all():
        return (texts.str.lower() == "true").astype(float).reindex(cells.index)
    values = pd.to_numeric(texts, errors="coerce").astype(float)
    if comma or values.isna().any():
        plain = texts.str.replace(_SIGNS, "", regex=True)
        if numbers is None and plain.str.fullmatch(_LIKE).mean() < _MOSTLY:
            return as_texts(cells)
        sign = texts.str.extract(r"([%€$£¥])", expand=False).fillna("")
        if sign.any():
            usual = sign.mode()[0]
            other = cells.index.isin(sign.index[sign != usual])
            refused(other, lambda row: f"{cells.iloc[row]!r:.40} is not written like the other values, with '{usual}'")
        ungrouped = plain.str.replace("." if comma else ",", "", regex=False)
        plain = plain.where(~plain.str.fullmatch(_GROUPED[comma]), ungrouped)
        if comma:
            plain = plain.where(~plain.str.contains(".", regex=False), "").str.replace(",", ".", regex=False)
        values = pd.to_numeric(plain, errors="coerce").astype(float)
        none = cells.index.isin(values.index[values.isna()])
        refused(none, lambda row: _not_a_number(cells.iloc[row], comma, bool(numbers)))
    return _finite(values.reindex(cells.index), refused)


def _finite(values: pd.Series[Any], refused: Refuse) -> pd.Series[Any]:
    """Numbers that are not too large."""
    refused(np.isinf(values), lambda row: f"'{values.iloc[row]:g}' is not a finite number")
    large = "is too large: its square is not finite; give the column in larger units, or leave it out (data.columns)"
    refused(values.abs() > LARGEST, lambda row: f"'{values.iloc[row]:g}' {large}")
    return values


def as_texts(cells: pd.Series[Any]) -> pd.Series[Any]:
    """Cells as texts, whole numbers as labels are written; missing ones stay missing."""
    written = cells.astype(str) if cells.dtype.kind == "M" else cells.astype(object)  # dates at midnight without a time
    numbers, values = pd.factorize(written.where(cells.notna(), None))
    texts = np.array([*(label_of(value) or str(value) for value in values), None], dtype=object)
    return pd.Series(texts[numbers], cells.index)


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
    left, remarks = [], []
    for name in cells.columns:
        column, written = cells[name], str(name).casefold()
        if (written and not written.endswith(_COUNTERS)) or len(column) < 2 or not column.is_unique:
            continue
        whole = column.dtype == float and bool((column % 1 == 0).all())
        counts = whole and column.max() - column.min() == len(column) - 1
        if counts or (written in ("", *_COUNTERS) and (whole or column.dtype != float)):
            left.append(name)
            what = f"column '{name}'" if name else "the column without a name"
            remarks.append(f"{what} is different in every row: left out (data.columns can ask for it)")
    return cells.drop(columns=left), remarks


def number_columns(rows: Rows, columns: Sequence[str], missing: str = "refuse") -> NDArray[np.float64]:
    """The named columns as numbers, `(rows, columns)`; missing values are NaN unless they are refused.

    Raises:
        DataError: A column holds no numbers, or a value is missing; with place and column.
    """
    for name in columns:
        column = rows.cells[name]
        if column.dtype != float:
            shown = f"{rows.origin(0)}, column '{name}': {column.iloc[0]!r:.40} is not a number"
            raise DataError(f"{shown}; data.columns selects the columns to read")
        if missing == "refuse" and column.isna().any():
            place = rows.origin(int(np.flatnonzero(column.isna())[0]))
            raise DataError(
                f"{place}, column '{name}': the value is missing; fill it in, or set data.missing=interpolate"
            )
    values: NDArray[np.float64] = rows.cells[[*columns]].to_numpy(np.float64)
    return values


def rows_from_python(data: Any, split: str, features: Columns = None, label: Column = None, **options: Any) -> Rows:
    """The columns `features` of data passed in Python, and the label if there is one; arguments as for `Choice.of`.

    `data` is a data frame (dates in its index are a column), a dict of columns, a list of dicts, an array
    `(rows, columns)`, a list of rows or of numbers; with a label also a tuple (rows, labels). The columns of an array
    have no names but places.

    Raises:
        DataError: A column is missing, or a value is not a number where the others are; with position and column.
    """
    labels = None
    if label is not None and isinstance(data, tuple) and len(data) == 2 and not isinstance(data[0], Mapping | tuple):
        data, labels = data
        if not has_items(labels):
            raise DataError(f"{split}: the labels are {described(labels)}, expected a list of one for each row")
    data = with_dates(data)
    table = PythonTable(data, split, (), Findings(hint=False))
    if not table.names:
        name = getattr(data, "name", None)  # of a series
        table.names = (name,) if table.width == 1 and isinstance(name, str) else _unnamed(table.width)
    unnamed = table.names == _unnamed(table.width)
    if unnamed and label == _DEFAULT and labels is None:
        raise DataError(f"{split} has no column names; give a data frame, a dict of columns or (rows, labels)")
    if unnamed and features is not None and options.get("kinds") is not None:
        places = [n for n in range(table.width) if n != label]
        named = dict(zip(places, _named(len(places), features, split), strict=True))
        table.names = tuple(named.get(n, name) for n, name in enumerate(table.names))
    if labels is not None:
        columns = [*map(table.column, range(table.width)), values_of(labels)]
        if len(columns[0]) != len(columns[-1]):
            raise DataError(f"{split} has {len(columns[0])} rows and {len(columns[-1])} labels; each row needs one")
        label, table.names, table.width, table.column = "", (*table.names, ""), len(columns), columns.__getitem__
    choice = Choice.of(table, features, label, **options)
    cells = {}
    for place in choice.read:
        name, values = table.names[place], table.column(place)
        characters_of(name, f"{split}: the name of a column", _not_text)
        for row, value in enumerate(values):
            if has_items(value) and not isinstance(value, str | bytes):
                what = f"{described(value)}, expected a number or a text"
                raise DataError(f"{split}[{row}], column '{name}' is {what}")
            if place == choice.label:
                characters_of(str(value), f"{split}[{row}]: the label", _not_text)
        if place == choice.label:
            cells[place] = pd.Series(values, dtype=object)
        else:
            cells[place] = pd.Series([None if str(value).strip() in _MISSING else value for value in values])
    return choice.rows(pd.DataFrame(cells))


def with_dates(data: Any) -> Any:
    """Data passed in Python, with the dates of a data frame's index as a column."""
    if not isinstance(getattr(data, "index", None), pd.DatetimeIndex | pd.PeriodIndex):
        return data
    frame = data.to_frame() if isinstance(data, pd.Series) else data
    return frame.rename_axis(frame.index.name or "date").reset_index()


def _unnamed(width: int) -> tuple[str, ...]:
    """Names for the columns of an array, which has none."""
    return ("value",) if width == 1 else tuple(str(i) for i in range(width))


def _named(width: int, columns: Sequence[Any], split: str) -> list[str]:
    """Names for the columns of an array, those of training.

    Raises:
        DataError: It has another number of columns.
    """
    if width != len(columns):
        raise DataError(f"{split} has {counted(width, 'column')}, expected {', '.join(columns)}")
    return [*columns]


def _not_text(rule: str, message: str) -> DataError:
    return DataError(message)


# Labels: classes, or numbers


def target_of(data: Any, labels: Sequence[str]) -> Literal["classes", "number"]:
    """The kind of the labels of the training files: that of `data.target`, or for "auto" by the labels."""
    return data.target if data.target != "auto" else likely_target(labels)


def likely_target(labels: Sequence[str]) -> Literal["classes", "number"]:
    """The probable kind of labels: numbers if they are more than 20 different numbers, or numbers with fractions."""
    values = {label: value for label in set(labels) if (value := _value(label)) is not None}
    if sum(label in values for label in labels) < _MOSTLY * max(1, len(labels)):
        return "classes"
    distinct = {*values.values()}
    return "number" if len(distinct) > _FEW_CLASSES or any(value % 1 for value in distinct) else "classes"


def labels_are_classes(data: Any, examples: Sequence[Any]) -> bool:
    """False if the labels of training examples are numbers, which have no shares that a validation set could keep."""
    if getattr(data, "target", "classes") == "classes":
        return True
    sets, numbers = label_sets_in(examples)
    return target_of(data, [label for number in numbers.tolist() for label in sets[number]]) == "classes"


def _value(label: str) -> float | None:
    value = float(label) if is_float(label) and "_" not in label else np.nan  # only Python groups digits by _
    return value if abs(value) <= LARGEST else None


def numbers_in(labels: Sequence[str], origin: Callable[[int], str]) -> NDArray[np.float64]:
    """The numbers `(examples,)` that labels are; `origin` is the place of an example.

    Raises:
        DataError: A label is not a finite number, or its square is not finite.
    """
    values = [_value(label) for label in labels]
    if None in values:
        at = values.index(None)
        raise DataError(
            f"{origin(at)}: the label {labels[at]!r:.40} is not a finite number below 1e150, which regression needs; "
            "train with data.target=classes if labels are classes"
        )
    return np.array(values, dtype=np.float64)
