"""Tables: rows of CSV, TSV and JSON with their places, and columns by name, by number or by content."""

from __future__ import annotations

import csv
import json
import os
from collections import Counter
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import closing, suppress
from dataclasses import dataclass
from functools import cached_property, lru_cache
from itertools import islice
from pathlib import Path
from typing import Any, TypeVar

import numpy as np

from heed.data.columns import (
    Column,
    Facts,
    facts_of,
    has_header,
    is_regular,
    listing,
    python_value,
    regular_rows,
    rows_of,
    shown,
)
from heed.data.findings import BadLine, Findings
from heed.data.text_files import MARK, MARKED, ending_of, good_lines, lines_of, unless_bad
from heed.errors import ConfigError, DataError, counted, nearest, suggest

_KINDS = {str: "text", int: "number", float: "number", list: "list", tuple: "tuple", dict: "dict", bool: "value"}


def described(value: Any) -> str:
    """Type and beginning of a value: "the text 'Hi'", "the number 3", "missing (None)"."""
    shape = getattr(value, "shape", ())
    if not shape and (value is None or value != value or type(value).__name__ == "NAType"):  # nan differs from itself
        return f"missing ({value})"
    shown = " ".join(repr(value).split())
    kind = _KINDS.get(type(value), type(value).__name__)
    return f"the {kind} {shown if len(shown) <= 40 else shown[:37] + '...'}"


def has_items(value: Any) -> bool:
    """True for a list, an array or another iterable; not for a single number of NumPy."""
    return isinstance(value, Iterable) and getattr(value, "ndim", 1) != 0


class RepeatedKeyError(ValueError):
    """A JSON object has a key twice."""


def load_json(text: str) -> Any:
    """Parse a JSON value.

    Raises:
        RepeatedKeyError: An object in it has a key twice; the message names the key.
        ValueError: The text is not JSON.
        RecursionError: The value is nested too deeply.
    """
    return json.loads(text, object_pairs_hook=_unique_keys)


def _unique_keys(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    values = dict(pairs)
    if len(values) < len(pairs):
        keys = [key for key, _ in pairs]
        raise RepeatedKeyError(f"the key '{next(key for key in keys if keys.count(key) > 1)}' occurs twice")
    return values


E = TypeVar("E")
Recognise = Callable[[Sequence[Facts], Mapping[str, Column]], Mapping[str, int | str] | str]
"""Finds the column of each field by facts, given the known ones; or returns why it cannot."""
FORMATS = {".csv": "csv", ".tsv": "tsv", ".jsonl": "jsonl", ".json": "jsonl", ".parquet": "parquet"}
"""Endings of files with columns, and their formats."""
FEW = 4
"""Rows below which nothing is recognised."""
SEPARATORS = {",": "commas", ";": "semicolons", "\t": "tabs", "|": "bars"}
"""Separators of columns, as messages name them."""
_FIELD = 2**17
"""Characters that a quoted text may always have; beyond the limit, an unclosed quote is an error."""


@dataclass(slots=True)
class Row:
    """One row of a table: its line or number, and its cells; None for a blank line, a `BadLine` for an unusable one.

    Everything that asks an unusable row for a value raises its `BadLine`.
    """

    table: Table
    number: int
    cells: Any

    @property
    def where(self) -> str:
        """The row in messages."""
        return self.table.where(self.number)

    @property
    def origin(self) -> str:
        """The origin of an example made from it."""
        return self.table.origin(self.number)

    @property
    def blank(self) -> bool:
        """True for a blank line."""
        return self.cells is None

    def value(self, field: str) -> Any:
        """The value of a field as it is: a text, or from JSON, the Hub or Python any value."""
        return None if self.object() is None else self.table.value(self, field)

    def text(self, field: str) -> str:
        """The value of a field, which must be a text; "" in a blank line.

        Raises:
            BadLine: It is missing or not a text, and bad lines are skipped.
            DataError: As before, and bad lines are errors.
        """
        table, value = self.table, self.value(field)
        if self.cells is None:
            return ""
        if type(value) is str and table.plain:
            return value
        column, where = table.columns[field], table.at(self, field)
        if not isinstance(value, str):
            rule = f"{table.column_word} '{column}' is not text" if isinstance(column, str) else "not text"
            what = "null" if value is None and isinstance(table, JsonTable) else described(value)
            raise self.bad(rule, f"{where} is {what}, expected text")
        return characters_of(value, where, self.bad, self.note)

    def object(self) -> Any:
        """All cells: the object of a line of JSON; None for a blank line."""
        if isinstance(self.cells, BadLine):
            raise self.cells
        return self.cells

    def bad(self, rule: str, message: str, things: str = "") -> BadLine:
        """The error to raise for this row: `message` says what is wrong with it, after its place."""
        table = self.table
        return table.findings.bad(rule, table.path, table.place(self.number), message, things=things or table.things)

    def note(self, what: str, unit: str = "", count: int = 1) -> None:
        """Count findings in this row, of a `unit` if they are not rows."""
        table, unit = self.table, unit or self.table.things.removesuffix("s")
        table.findings.note(what, table.path, table.place(self.number), unit=unit, count=count)


@dataclass(frozen=True)
class Field:
    """A field of an example: the column specified for it (the option `data.columns.NAME`), and its usual names."""

    name: str
    column: Column = None
    usual: Sequence[str] = ()  # most reliable first; by default its own name

    @property
    def names(self) -> Sequence[str]:
        """The names by which its column is found."""
        return self.usual or (self.name,)


class Table:
    """Rows of one file, of one split of a data set, or of data passed in Python; findings are counted under `path`.

    `columns` are the columns of the fields that a reader uses: set once, by name where the table has names.
    """

    names: Sequence[str] = ()
    plain = False
    """True if a text needs no further check."""
    column_word = "column"
    """Name of a column, for messages."""
    things = "lines"
    """Plural name of its rows, for messages."""
    option = "data.columns.{}=NAME"
    """How the column of a field is chosen, for messages."""
    remarks: Sequence[str] = ()
    """Remarks on its form."""
    header: bool | None = True
    """True if its columns have names, or none are expected."""
    other = ""
    """End of the remark on its columns."""
    hint = ""
    """End of messages about missing columns."""
    whole = True
    """False if columns are recognised by the beginning of the table only."""
    judged = 0
    """Number of rows by which columns can be recognised."""
    end = ""
    """End of a row in messages and findings."""
    first: Mapping[str, Any] = {}
    """The values of the first row by column, from JSON, the Hub or Python; may be empty."""

    def __init__(self, findings: Findings, path: Path | str, line: str = "", part: str = "") -> None:
        """A table without rows.

        Args:
            findings: Policy for bad lines.
            path: The place of its findings.
            line: A row in messages, up to its number; by default a line of a file.
            part: A row in findings, up to its number.
        """
        self.findings, self.path, self.called, self.part = findings, path, f"'{path}'", part
        self.line = line or f"{self.called} line "
        self.name = path.name if isinstance(path, Path) else path
        """Its name in origins."""
        self.columns: dict[str, int | str] = {}

    @staticmethod
    def open(path: Path, findings: Findings, expected: Sequence[Column] = (), kind: str = "") -> Table:
        """The table in a file, by `kind` or by its ending: "jsonl", "csv", "parquet"; else columns have tabs.

        A file of CSV whose first line has the `expected` names has its usual separator.

        Raises:
            DataError: A Parquet file cannot be read.
            ConfigError: No library for it is installed.
        """
        kind = kind or FORMATS.get(ending_of(path), "tsv")
        if kind == "jsonl":
            return JsonTable(path, findings)
        if kind != "parquet":
            return CsvTable(path, findings, "," if kind == "csv" else "\t", expected)
        import pandas as pd

        try:
            table = PythonTable(pd.read_parquet(path), path.name, (), findings)
        except ImportError:
            raise ConfigError(f"'{path}' is read with pyarrow; install it: pip install pyarrow") from None
        except (OSError, ValueError) as error:
            raise DataError(f"cannot read '{path}' as Parquet: {error}") from None
        table.path, table.called, table.option = path, f"'{path}'", Table.option
        return table

    def rows(self) -> Iterator[Row]:
        """All rows, unusable ones included."""
        raise NotImplementedError

    def facts(self, labels: Collection[str] = (), specified: Collection[Column] = ()) -> list[Facts]:
        """Statistics of the columns, by which they are recognised; from the beginning of a file.

        `labels` are those of the training set, `specified` columns that decide whether names or numbers are used.
        """
        raise NotImplementedError

    @property
    def numbered(self) -> str:
        """A remark on columns without names, after a semicolon."""
        return "" if self.header else "; the file has no header, so columns are counted from 0"

    def where(self, number: int) -> str:
        """A row in messages."""
        return f"{self.line}{number}{self.end}"

    def place(self, number: int) -> str:
        """A row in findings."""
        return f"{self.part}{number}{self.end}"

    def origin(self, number: int) -> str:
        """The origin of an example made from a row."""
        return f"{self.name}:{self.part}{number}{self.end}" if self.name else self.place(number)

    def at(self, row: Row, field: str) -> str:
        """The value of a field in messages."""
        column = self.columns[field]
        return f"{row.where}: " + (f"{self.column_word} '{column}'" if isinstance(column, str) else f"the {field}")

    def value(self, row: Row, field: str) -> Any:
        """The value of a field of a usable row."""
        return row.cells[self.columns[field]]

    def choose(
        self,
        fields: Sequence[Field],
        recognise: Recognise | None = None,
        *,
        trained: bool = False,
        labels: Collection[str] = (),
        minimum_rows: int = FEW,
    ) -> str:
        """Set the column of each field: the specified one, else one with a usual name, else a recognised one.

        Args:
            fields: The fields.
            recognise: Finds the columns of all fields by facts and the known columns; or returns why it cannot.
                By default fields without a column have the columns that are left, if these are as many.
            trained: True if the specified columns are those of a training set, which a table that names its columns
                must have.
            labels: The labels of the training set.
            minimum_rows: Rows below which nothing is recognised; reading them then reports what is missing.

        Returns:
            A remark on the form of the table and recognised columns, or "".

        Raises:
            DataError: A column is missing or unclear; the message lists the columns and names the option to set.
        """
        specified, columns = self.specified(fields, trained), dict[str, Column]()
        for number, field in enumerate(fields):
            usual = (name for name in field.names if name in self.names)
            usual = (name for name in usual if not {name, self.names.index(name)} & {*specified.values()})
            column = next(usual, None) if specified[field.name] is None else specified[field.name]
            columns[field.name] = self.place_of(column, number)
        self.columns = {name: name if column is None else column for name, column in columns.items()}
        if None not in columns.values() or self.judged < minimum_rows:
            return "; ".join(self.remarks)
        facts = [] if recognise is None else self.facts(labels, [c for c in specified.values() if c is not None])
        names = [column.name for column in facts] or [*self.names]
        if any(column is not None and columns[name] not in names for name, column in specified.items()):
            return "; ".join(self.remarks)  # reading the rows reports the missing column
        columns = {name: column if column in names else None for name, column in columns.items()}
        open_ = [field for field in fields if columns[field.name] is None]
        unused = [name for name in names if name not in columns.values()]
        chosen: Mapping[str, int | str] | str = ""
        if recognise is not None:
            chosen = recognise(facts, columns)
        elif len(unused) == len(open_):
            chosen = dict(zip((field.name for field in open_), unused, strict=True))
        if isinstance(chosen, str):
            name, *others = dict.fromkeys(open_[0].names)
            lacks = f" has no {self.column_word} '{name}'" + f" (or {', '.join(others)})" * bool(others)
            why = f": {chosen}" if chosen else lacks + nearest(name, map(str, unused))
            options = " and ".join(self.option.format(field.name) for field in open_)
            choose = f"{options} choose{'s' if len(open_) == 1 else ''} from"
            choose, hint = (f"its {self.column_word}s are", self.hint) if trained else (choose, "")
            listed = listing(facts) or ", ".join(map(shown, names))
            raise DataError(f"{self.called}{why}; {choose} {listed}{self.numbered}{hint}")
        self.columns |= chosen
        parts = [f"{field.name} is {shown(self.columns[field.name])}" for field in fields]
        label = next((column for column in facts if column.name == chosen.get("label")), None)
        if label is not None and isinstance(self.path, Path):
            parts[-1] += f" ({label.counted(self.whole)})"
        return "; ".join((*self.remarks, f"{self.column_word}s: {', '.join(parts)}{self.numbered}{self.other}"))

    def specified(self, fields: Sequence[Field], trained: bool) -> dict[str, Column]:
        """The columns that are specified for fields, or None; arguments and errors as for `choose`."""
        return self.of_training(fields) if trained else {field.name: field.column for field in fields}

    def place_of(self, column: Column, number: int) -> Column:
        """The column of the field `number`; None if it is unknown."""
        return column

    def of_training(self, fields: Sequence[Field]) -> dict[str, Column]:
        """Field -> its column in a table that a run reads after its training.

        It is the specified one, else one with a usual name of the field. A specified name counts as None if the table
        does not name its columns.

        Raises:
            DataError: The table names its columns, and none has such a name.
        """
        names = {field.name: (field.column, *field.names) for field in fields if isinstance(field.column, str)}
        columns = {field: next((name for name in every if name in self.names), None) for field, every in names.items()}
        absent = [every[0] for field, every in names.items() if columns[field] is None]
        if absent and self.is_named(every[0] for every in names.values()):
            word = self.column_word
            raise DataError(
                f"{self.called} has no {word} '{absent[0]}', which this run was trained on; its {word}s: "
                f"{', '.join(self.names)}; rename the column that corresponds to it"
            )
        return {field.name: field.column for field in fields} | (dict.fromkeys(names) if absent else columns)

    def is_named(self, names: Iterable[str]) -> bool:
        """True if the columns of the table have names, of which some may be these."""
        return bool(self.names)

    def usable(self, make: Callable[[Row], E | None]) -> Iterator[E]:
        """The results of `make` for usable rows; the others are counted."""
        return self.findings.usable(self.rows(), make)


def characters_of(
    text: str, where: str, bad: Callable[[str, str], Exception], note: Callable[[str], None] | None = None
) -> str:
    """A text from JSON or Python without byte-order marks, of which `note` is told.

    For escaped characters that are not text, `bad` makes the error from rule and message.

    Raises:
        BadLine: As `bad` says.
    """
    if MARK in text and note is not None:
        note(MARKED)
        text = text.replace(MARK, "")
    if "\0" in text:
        raise bad("NUL byte", f"{where} contains a NUL character ({text!a:.40}), which is not text")
    if not text.isascii() and any("\ud800" <= c <= "\udfff" for c in text):
        what = f"contains half a surrogate pair ({text!a:.40}), which is not a character"
        raise bad("half a surrogate pair", f"{where} {what}")
    return str(text)


class Items(Table):
    """Rows without columns: lines of a file, or values passed in Python."""

    def __init__(
        self, items: Iterable[Any], findings: Findings, path: Path | str, line: str = "", end: str = ""
    ) -> None:
        super().__init__(findings, path, line, line)
        self._items, self.end, self.first_number = items, end, 0 if end else 1

    @classmethod
    def lines(cls, path: Path, findings: Findings) -> Items:
        """The lines of a file."""
        return cls(lines_of(path, findings), findings, path)

    def rows(self) -> Iterator[Row]:
        return (Row(self, number, item) for number, item in enumerate(self._items, start=self.first_number))


class CsvTable(Table):
    """A file with columns separated by tabs, or by another character with CSV quoting.

    Args:
        path: The file; from its beginning (`head`) separator and header are recognised.
        findings: Policy for bad lines.
        usual: The separator, unless another one gives more regular rows.
        expected: Names of columns; if the first line has them, the usual separator is right.
        fixed: True if there is no other separator.
    """

    path: Path
    plain = True

    def __init__(
        self, path: Path, findings: Findings, usual: str, expected: Sequence[Column] = (), fixed: bool = False
    ) -> None:
        super().__init__(findings, path)
        self.head = Head.of(path, findings)
        self.whole = self.head.whole
        rows = self.head.rows(usual)
        named = bool(expected) and bool(rows) and all(name in rows[0] for name in expected)
        separator = usual if fixed or named else self.head.separator(usual)
        self.separator, self.recognised = separator or usual, separator is not None
        self.has_quotes = self.separator != "\t"
        """True if quotes enclose cells."""
        rows = self.head.rows(self.separator)
        self.is_regular = is_regular(rows)
        self.names: list[str] = rows[0] if rows else []
        self.sample = regular_rows(rows) if self.is_regular or named else rows
        self.header = None
        """True if the first line names the columns; None if it does so only where a column is given by name."""
        if self.separator != usual:
            self.remarks = [f"columns separated by {SEPARATORS[self.separator]}"]
        self._places: dict[str, int] = {}

    def at(self, row: Row, field: str) -> str:
        return row.where

    @cached_property
    def has_header(self) -> bool:
        """True if the first line looks like names of columns."""
        return has_header(self.sample)

    def is_named(self, names: Iterable[str]) -> bool:
        return any(name in self.names for name in names) or (len(self.names) > 1 and has_header(self.sample, few=1))

    @cached_property
    def named(self) -> bool:
        """True if the first line, if it is a header, can select columns by name."""
        first = self.sample[0] if self.sample else []
        return len(set(first)) == len(first) and all(cell == cell.strip() for cell in first)

    @property
    def judged(self) -> int:  # type: ignore[override]
        return len(self.sample) - self.has_header if self.recognised else 0

    def facts(self, labels: Collection[str] = (), specified: Collection[Column] = ()) -> list[Facts]:
        """The first line is a header if it looks like one or a column is given by name."""
        if self.header is None:
            self.header = any(isinstance(column, str) for column in specified) or self.has_header
        by_name = self.header and self.named and not any(isinstance(column, int) for column in specified)
        names = self.sample[0] if by_name else range(len(self.sample[0]))
        return facts_of(self.sample[1:] if self.header else self.sample, names, labels)

    def rows(self) -> Iterator[Row]:
        by_name = any(isinstance(column, str) for column in self.columns.values())
        self._places = {} if by_name else {field: int(column) for field, column in self.columns.items()}
        if self.header is None and not by_name and self.has_header:
            note_header(self.names, self.path, self.findings)
        read = _quoted if self.has_quotes else _tabbed
        for number, cells in read(self.path, self.findings, self.separator):
            if number == 1 and by_name:
                self._places = self._named_places(cells)
            elif number > 1 or not self.header or isinstance(cells, BadLine):
                yield Row(self, number, None if cells == [""] or cells == [] else cells)

    def _named_places(self, first: list[str] | BadLine) -> dict[str, int]:
        if isinstance(first, BadLine):
            message = "should name the columns, but is a bad line; columns can also be given by number"
            raise DataError(f"'{self.path}' line 1 {message}")
        named = [(field, name) for field, name in self.columns.items() if isinstance(name, str)]
        for field, name in sorted(named, key=_is_usual):
            if name not in first:
                raise DataError(
                    f"'{self.path}' line 1 names no column '{name}'{suggest(name, first)}; data.columns.{field} "
                    f"selects the {field} column, by name or by number from 0{self.hint}"
                )
            if first.count(name) > 1:
                twins = " and ".join(str(n) for n, column_name in enumerate(first) if column_name == name)
                what = f"names two columns '{name}' ({twins}, counted from 0)"
                raise DataError(f"'{self.path}' line 1 {what}; rename one, or give the column by number")
        return {field: first.index(name) if isinstance(name, str) else name for field, name in self.columns.items()}

    def value(self, row: Row, field: str) -> str:
        place = self._places[field]
        if 0 <= place < len(row.cells):
            return row.cells[place]  # type: ignore[no-any-return]
        shown = f"{counted(len(row.cells), 'column')} ({' | '.join(row.cells)[:40]!r})"
        what = f"the {field} in column {place} (counted from 0) is missing"
        requirement = f"expected at least {place + 1}: {what}" if place >= 0 else what
        end = f"; columns are separated by {SEPARATORS[self.separator]}{self.hint if len(row.cells) < 2 else ''}"
        raise row.bad(f"no column {place}", f"{row.where} has {shown}, {requirement}{end}")


class JsonTable(Table):
    """A file of JSON objects: one a line, or the `items` of an array, perhaps in the field "data" of an object.

    A field of a nested object is a column too, as in "translation.en".
    """

    path: Path
    column_word = "field"

    def __init__(self, path: Path, findings: Findings) -> None:
        super().__init__(findings, path)
        self.head = Head.of(path, findings)
        self.items = _items(self.head, findings)
        if self.items is not None:
            self.things, self.line = "items", f"{self.called} item "
        objects = self.head.objects if self.items is None else self.items[:_LINES]
        self.objects = [flat(value) for value in objects if isinstance(value, dict)]
        self.whole, self.judged = self.head.whole, len(self.objects)
        self.first = self.objects[0] if self.objects else {}
        counts = Counter(name for value in self.objects for name in value)  # in the order in which they come
        self.names = [name for name, count in counts.items() if 2 * count >= len(self.objects)]

    def facts(self, labels: Collection[str] = (), specified: Collection[Column] = ()) -> list[Facts]:
        names = dict.fromkeys(name for item in self.objects for name in item)
        return [Facts.of(name, [item.get(name) for item in self.objects], labels) for name in names]

    def rows(self) -> Iterator[Row]:
        names = [str(column) for _, column in sorted(self.columns.items(), key=_is_usual)]
        self.columns = {field: str(column) for field, column in self.columns.items()}
        every = lines_of(self.path, self.findings) if self.items is None else self.items
        for number, line in enumerate(every, start=1):
            row = Row(self, number, None)
            try:
                row.cells = self._cells(row, line, names)
            except BadLine as bad:
                row.cells = bad
            yield row

    def _cells(self, row: Row, line: Any, names: Sequence[str]) -> dict[str, Any] | None:
        """The object in a line or an item, which has these fields; None for a blank line."""
        value = line
        if self.items is None:
            if not unless_bad(line).strip():
                return None
            try:
                value = load_json(line)
            except (ValueError, RecursionError) as error:
                what = f"{error.msg} at position {error.pos + 1}" if isinstance(error, json.JSONDecodeError) else error
                shape = "{" + ", ".join(f'"{name}": "..."' for name in names) + "}"
                message = f"{row.where} is not JSON: {what} ({line[:40]!r}); expected one object a line"
                raise row.bad("not JSON", message + f", such as {shape}" * bool(names)) from None
        if not isinstance(value, dict):
            fields = f" with the field{'s' * (len(names) > 1)} {' and '.join(map(shown, names))}" if names else ""
            raise row.bad("not a JSON object", f"{row.where} is {described(value)}, expected an object{fields}")
        cells: dict[str, Any] = flat(value) if any("." in field and field not in value for field in names) else value
        for name in names:
            if name not in cells:
                raise row.bad(f"no field '{name}'", f"{row.where} has no field '{name}'{suggest(name, cells)}")
        return cells


def _items(head: Head, findings: Findings) -> list[Any] | None:
    """The items of a file that is an array with objects, or an object with one in the field "data"; else None.

    Raises:
        DataError: A file that begins as an array is not JSON.
    """
    lines, objects = head.filled, len(head.objects)
    start = lines[0].lstrip()[:1] if lines else "[" if head.odd else ""  # perhaps one line, longer than data.max_line
    if start not in ("[", "{") or (start == "{" and not any('"data"' in line for line in lines)):
        return None
    if objects > 1 and 2 * objects >= len(lines):
        return None
    text, of_text = "", Findings(encoding=findings.encoding, max_line=1 << 40, hint=False)
    try:
        text = "\n".join(good_lines(head.path, of_text))
        value = load_json(text)
    except (DataError, ValueError, RecursionError) as error:
        if not text.lstrip().startswith("["):
            return None  # reading the lines reports why
        raise DataError(f"'{head.path}' is not JSON: {error}; expected an array of objects") from None
    items = value.get("data") if isinstance(value, dict) else value
    if not isinstance(items, list) or not any(isinstance(item, dict) for item in items):
        return None
    findings.merge(of_text)
    return items


def flat(value: dict[str, Any]) -> dict[str, Any]:
    """An object with its own fields and those of nested objects, named as in "translation.en"."""
    nested = {name: fields for name, fields in value.items() if isinstance(fields, dict)}
    inside = {f"{name}.{part}": v for name, fields in nested.items() for part, v in fields.items()}
    return {**value, **inside} if inside else value


class ColumnTable(Table):
    """A table whose columns are known as a whole: `width` many, without `names` if only their positions are known."""

    width: int
    column: Callable[[int], Iterable[Any]]
    """The values of a column."""
    start = 0
    """Number of the first row."""

    @property
    def first(self) -> Mapping[str, Any]:  # type: ignore[override]
        return {name: value for i, name in enumerate(self.names) for value in islice(self.column(i), 1)}

    def facts(self, labels: Collection[str] = (), specified: Collection[Column] = ()) -> list[Facts]:
        names: Sequence[int | str] = self.names or range(self.width)
        return [Facts.of(name, islice(self.column(i), self.judged), labels) for i, name in enumerate(names)]

    def chosen(self) -> dict[str, list[Any]]:
        """The values of each field."""
        return {field: [*self.column(self.places()[column])] for field, column in self.columns.items()}

    def places(self) -> dict[int | str, int]:
        """The position of each chosen column.

        Raises:
            DataError: There is no such column; the message lists or suggests columns.
        """
        for name, column in sorted(self.columns.items(), key=_is_usual):
            names = self.names or range(self.width)
            if column not in names:
                listed = f"; its columns: {', '.join(map(str, names))}"
                hint = listed if column == name or isinstance(column, int) else suggest(column, map(str, names))
                raise DataError(f"data.columns.{name}: {self.path or self.called} has no column {shown(column)}{hint}")
        return {c: self.names.index(c) if isinstance(c, str) else c for c in self.columns.values()}

    def rows(self) -> Iterator[Row]:
        places = self.places()
        every = zip(*map(self.column, places.values()), strict=True)
        for number, values in enumerate(every, start=self.start):
            yield Row(self, number, dict(zip(places, values, strict=True)))


class PythonTable(ColumnTable):
    """Data passed in Python, in any of the forms that `heed.data.readers` lists."""

    column: Callable[[int], list[Any]]
    judged = 10_000
    option = 'settings={{"data.columns.{}": NAME}}'
    end = "]"

    def __init__(self, data: Any, split: str, shape: Sequence[str], findings: Findings) -> None:
        """Read the data; `shape` are the fields of an example in the order of a tuple, none for rows of any width.

        Raises:
            DataError: The data has none of these forms, is empty, or its columns differ in length.
        """
        super().__init__(findings, "", f"{split}[", f"{split}[")
        self.split = self.called = split
        keys = column_names(data)
        by_position = isinstance(data, tuple) and len(data) == len(shape) > 1
        # Columns such as (texts, labels) are no tuples, as rows may be.
        by_position = by_position and all(is_list(column) and not isinstance(column, tuple) for column in data)
        if keys is not None or by_position:
            places: Sequence[Any] = range(len(data)) if keys is None else keys
            sizes = [len(data[place]) for place in places] if isinstance(data, Mapping | tuple) else [len(data)]
            if len({*sizes}) > 1:
                listed = ", ".join(f"'{name}' has {size}" for name, size in zip(keys or shape, sizes, strict=True))
                raise DataError(f"{split}: the columns differ in length: {listed}")
            features = getattr(data, "features", {})  # of the library `datasets`: class numbers have names
            ways = [_way(features.get(place), False) for place in places]
            self.width, size, self.column = len(places), sizes[0], lambda i: [*map(ways[i], values_of(data[places[i]]))]
        else:
            rows = self._rows_of(data, shape)
            size, self.width = len(rows), len(rows[0]) if rows else 0
            self.column = lambda i: [row[i] for row in rows]
            if rows and isinstance(rows[0], Mapping):
                keys = list(rows[0])
                self.column = lambda i: self._values_of(rows, keys[i])
        self.names = tuple(map(str, keys or ()))
        if not self.width or not size:
            raise DataError(f"{split} is empty")

    def _rows_of(self, data: Any, shape: Sequence[str]) -> list[Any]:
        """A list of rows, all dicts or all of the same width; single values become rows."""
        row_form = f"({', '.join(shape)})" if len(shape) > 1 else "".join(shape) or "row"
        if isinstance(data, str | bytes | Mapping) or not has_items(data):
            forms = f"a data frame, a list of {row_form}{'s' if len(shape) < 2 else ''}, or a dict of columns"
            raise DataError(f"{self.split} is {described(data)}, expected {forms}")
        rows = values_of(data)
        if not shape:
            rows = [values_of(row) if hasattr(row, "shape") else row for row in rows]
        dicts, is_row = bool(rows) and isinstance(rows[0], Mapping), bool(rows) and _is_row(rows[0])
        width, tuples = len(rows[0]) if is_row else len(shape), len(shape) > 1 or (not shape and is_row)
        row_form = row_form if shape else f"{width} numbers"
        for i, row in enumerate(rows if dicts or tuples else ()):
            if not (isinstance(row, Mapping) if dicts else _is_row(row)):
                expected = f"a dict with the fields {', '.join(map(repr, rows[0]))}" if dicts else row_form
                raise DataError(f"{self.where(i)} is {described(row)}, expected {expected}")
            if not dicts and (len(row) != width or width < len(shape)):
                has = f"{counted(len(row), 'value')} ({row!r:.60})"
                raise DataError(f"{self.where(i)} has {has}, expected {row_form}")
        return rows if dicts or tuples else [(value,) for value in rows]

    def _values_of(self, rows: Sequence[Mapping[Any, Any]], key: Any) -> list[Any]:
        """The values of a field of dicts."""
        for i, row in enumerate(rows):
            if key not in row:
                raise DataError(f"{self.where(i)} has no field '{key}'{suggest(str(key), map(str, row))}")
        return [row[key] for row in rows]

    def place_of(self, column: Column, number: int) -> Column:
        """Its name, or its position if columns have no names."""
        if not self.names:
            return column if isinstance(column, int) else number
        return self.names[column] if isinstance(column, int) and column in range(self.width) else column

    def value(self, row: Row, field: str) -> Any:
        value = super().value(row, field)
        return python_value(value) if field.startswith("label") else value


class HubTable(ColumnTable):
    """The rows of a split of a data set of the Hub, read in parts: texts, with "" for empty cells, and labels.

    Pictures are not decoded: a cell is {"bytes", "path"}.
    """

    judged = 1_000
    start = 1

    def __init__(self, name: str, split: str, data: Any, findings: Findings) -> None:
        """The rows of a table of the `datasets` library, which is a split of the data set `name`."""
        super().__init__(findings, name, f"{name} split {split} row ", f"{split}:")
        self.pictures = [column for column, feature in data.features.items() if type(feature).__name__ == "Image"]
        """Names of the columns of pictures."""
        for column in self.pictures:
            data = data.cast_column(column, type(data.features[column])(decode=False))
        self.split, self.data, self.names, self.width = split, data, [*data.features], len(data.features)
        texts = ("string", "large_string")
        self.texts = [name for name, feature in data.features.items() if getattr(feature, "dtype", "") in texts]
        self.classes = [column for column, feature in data.features.items() if hasattr(feature, "int2str")]
        """Names of the columns of class numbers."""

    def column(self, place: int) -> Iterable[Any]:
        name = self.names[place]
        chunks = self.data.select_columns([name]).iter(_CHUNK_ROWS)
        way = _way(self.data.features[name], name in self.texts)
        return (way(value) for chunk in chunks for value in chunk[name])


def _is_usual(column: tuple[str, object]) -> bool:
    """True for a field whose column has its name: a missing one is reported after columns that the user specified."""
    return column[0] == column[1]


def _way(feature: Any, text: bool) -> Callable[[Any], Any]:
    """The conversion of a value: None to an empty text, a class number to its name, in lists too."""
    if text:
        return lambda value: value or ""
    of_one = getattr(feature, "feature", feature)
    if not hasattr(of_one, "int2str"):
        return lambda value: value
    return lambda value: of_one.int2str(value) if value not in (None, -1) else ""


def column_names(data: Any) -> list[Any] | None:
    """The column names of a data frame, a data set or a dict of columns; None for anything else."""
    if isinstance(data, Mapping):
        return list(data) if data and all(is_list(value) for value in data.values()) else None
    names = getattr(data, "column_names", None)  # of the library `datasets`, and of Arrow
    names = getattr(data, "columns", None) if names is None else names
    return None if names is None or isinstance(data, type) or isinstance(names, Mapping) else list(names)


def is_list(value: Any) -> bool:
    """True for a list, a tuple, an array, a series and the like."""
    return hasattr(value, "__len__") and hasattr(value, "__getitem__") and not isinstance(value, str | bytes | Mapping)


def _is_row(row: Any) -> bool:
    return isinstance(row, tuple | list) or (hasattr(row, "shape") and len(row.shape) == 1)


def values_of(column: Any) -> list[Any]:
    """The values of a column as Python objects, by `tolist` for arrays and series; an array of pictures as arrays."""
    if getattr(column, "ndim", 1) > 2:
        return list(np.asarray(column))
    return list(next((getattr(column, n)() for n in ("tolist", "to_list", "to_pylist") if hasattr(column, n)), column))


def _tabbed(path: Path, findings: Findings, separator: str) -> Iterator[tuple[int, list[str] | BadLine]]:
    """Rows with columns separated by tabs; quotes have no meaning."""
    for number, line in enumerate(lines_of(path, findings), start=1):
        yield number, line if isinstance(line, BadLine) else line.split(separator)


def _quoted(path: Path, findings: Findings, separator: str) -> Iterator[tuple[int, list[str] | BadLine]]:
    """Rows with columns separated by commas or another character; a quoted text may contain line breaks.

    Raises:
        DataError: A quote is never closed, so that the end of its row is unknown.
    """
    bad: list[BadLine] = []  # of the row that is being read
    largest = max(_FIELD, findings.max_line)
    with closing(lines_of(path, findings)) as lines:
        rows = csv.reader(_whole_lines(lines, bad), strict=True, delimiter=separator)
        number = 1
        while True:
            others = csv.field_size_limit(largest)  # global: other libraries set it too
            try:
                row = next(rows, None)
            except csv.Error as error:
                until = f" (read up to line {rows.line_num})" if rows.line_num > number else ""
                message = (
                    f"'{path}' line {number} is not CSV: {error}{until}; put a text with a comma, a quote or a line "
                    'break in quotes, and double each quote in it: ""'
                )
                if "expected after" not in str(error):  # the end of the row is unknown
                    raise DataError(message) from None
                if not bad:
                    bad.append(findings.bad("not CSV", path, number, message))
                row = []
            finally:
                csv.field_size_limit(others)
            if row is None:
                return
            yield number, bad[0] if bad else row
            bad.clear()
            number = rows.line_num + 1


def _whole_lines(lines: Iterable[str | BadLine], bad: list[BadLine]) -> Iterator[str]:
    """Lines with their ends, bad ones included, since their quotes decide where a row ends."""
    for line in lines:
        if isinstance(line, BadLine):
            bad.append(line)
        yield (line.text if isinstance(line, BadLine) else line) + "\n"


_CHUNK_ROWS = 256
_LINES = 10_000
_CHARACTERS = 1 << 22


@dataclass(frozen=True)
class Head:
    """The first readable lines of a file, at most 10,000 lines or 4 million characters."""

    path: Path
    lines: tuple[str, ...]
    whole: bool  # True if the file has no further lines
    odd: int = 0  # unreadable lines among them, not in `lines`

    @classmethod
    def of(cls, path: Path, findings: Findings) -> Head:
        """The head of a regular file; empty for a pipe, a folder or an unreadable file.

        The last few heads are remembered, since several readers look at the beginning of the same file.
        """
        if not os.path.isfile(path):
            return cls(path, (), True)
        state = path.stat()
        seen = state.st_mtime_ns, state.st_size, state.st_ino
        return _read_head(path, seen, findings.max_line, findings.encoding)

    @cached_property
    def filled(self) -> tuple[str, ...]:
        """The lines that are not blank."""
        return tuple(line for line in self.lines if line.strip())

    @cached_property
    def objects(self) -> list[dict[str, Any]]:
        """The lines that are JSON objects."""
        values = list[Any]()
        for line in self.filled:
            with suppress(ValueError, RecursionError):
                values.append(json.loads(line))
        return [value for value in values if isinstance(value, dict)]

    def rows(self, separator: str) -> list[list[str]]:
        """The lines as rows; quotes have no meaning in tab-separated ones."""
        return rows_of(self.lines, separator)

    def separator(self, usual: str) -> str | None:
        """The separator that gives all rows equally many columns (two or more), `usual` if possible, or None."""
        for separator in dict.fromkeys((usual, *SEPARATORS)):
            rows = self.rows(separator)
            if is_regular(rows) and len(rows[0]) == len(regular_rows(rows)[0]):
                return separator
        return None


@lru_cache(maxsize=4)
def _read_head(path: Path, state: tuple[int, ...], max_line: int, encoding: str) -> Head:
    """The head of a file in this state."""
    size, lines, odd = 0, list[str](), 0
    # Errors are reported when the whole file is read.
    with suppress(DataError), closing(lines_of(path, Findings("skip", encoding, max_line))) as every:
        for line in every:
            if len(lines) == _LINES or size > _CHARACTERS:
                return Head(path, tuple(lines), False, odd)
            if isinstance(line, str):
                lines.append(line)
                size += len(line)
            else:
                odd += 1
    return Head(path, tuple(lines), True, odd)


def is_table(path: Path) -> bool:
    """True if the file's ending is .csv or .tsv, perhaps before that of a compression."""
    return ending_of(path) in (".csv", ".tsv")


def note_header(row: Sequence[str], path: Path, findings: Findings) -> None:
    """Remark that the first line of a file looks like names of columns, but is read as an example."""
    looks = f"warning: line 1 of {path.name} looks like a header ({' | '.join(row)[:40]})"
    findings.remark(f"{looks} but is read as an example; delete it, or give the columns by name")
