"""Tables: rows of CSV, TSV and JSON with their places, and columns by name, by number or by content."""

from __future__ import annotations

import csv
import json
import os
from abc import ABC, abstractmethod
from collections import Counter
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import closing
from dataclasses import dataclass, field
from functools import cached_property, lru_cache
from pathlib import Path
from typing import Any, TypeVar

from heed.data.columns import (
    Column,
    Facts,
    facts_of,
    facts_of_objects,
    has_header,
    is_regular,
    listing,
    regular_rows,
    rows_of,
    shown,
)
from heed.data.findings import BadLine, Findings
from heed.data.text_files import MARK, MARKED, as_windows, ending_of, good_lines, lines_of, opened, unless_bad
from heed.errors import DataError, suggest

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
    """True for a list, an array and whatever else has items to go through; not for a single number of NumPy."""
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
    return json.loads(text, object_pairs_hook=_once)


def _once(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    made = dict(pairs)
    if len(made) < len(pairs):
        keys = [key for key, _ in pairs]
        raise RepeatedKeyError(f"the key '{next(key for key in keys if keys.count(key) > 1)}' occurs twice")
    return made


E = TypeVar("E")
Recognise = Callable[[Sequence[Facts], Mapping[str, Column]], Mapping[str, int | str] | str]
"""Finds the column of each field by facts, given the known ones; or returns why it cannot."""
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

    def label(self, field: str) -> Any:
        """The value of a field of labels: a single value is a text, a number or a boolean."""
        return None if self.object() is None else self.table.label(self, field)

    def text(self, field: str) -> str:
        """The value of a field, which must be a text; "" in a blank line.

        Raises:
            BadLine: It is missing or not a text, and bad lines are skipped.
            DataError: As before, and bad lines are errors.
        """
        if self.object() is None:
            return ""
        value = self.table.value(self, field)
        if type(value) is not str or not self.table.plain:
            return self.table.checked(self, field, value)
        return value

    def object(self) -> Any:
        """All cells: the object of a line of JSON; None for a blank line."""
        if isinstance(self.cells, BadLine):
            raise self.cells
        return self.cells

    def bad(self, rule: str, message: str, things: str = "") -> BadLine:
        """The error to raise for this row: `message` says what is wrong with it, after its place."""
        table = self.table
        return table.findings.bad(rule, table.path, table.place(self.number), message, things=things or table.things)

    def note(self, what: str) -> None:
        """Count a finding in this row."""
        table = self.table
        table.findings.note(what, table.path, table.place(self.number), unit=table.things.removesuffix("s"))


@dataclass(frozen=True)
class Field:
    """A field of an example: the column `given` for it (the option `data.columns.NAME`), and its usual names."""

    name: str
    given: Column = None
    usual: Sequence[str] = ()  # most reliable first; by default its own name

    @property
    def names(self) -> Sequence[str]:
        """The names by which its column is found."""
        return self.usual or (self.name,)


class Table(ABC):
    """Rows of one file, of one split of a data set, or of data passed in Python; findings are counted under `path`.

    `columns` are the columns of the fields that a reader uses: set once, by name where the table has names.
    """

    path: Path | str = ""
    names: Sequence[str] = ()
    plain = False
    """True if a text needs no further check."""
    column_word = "column"
    """Name of a column, for messages."""
    things = "lines"
    """Plural name of its rows, for messages."""
    option = "data.columns.{}=NAME"
    """How the column of a field is chosen, for messages."""
    said: Sequence[str] = ()
    """Remarks on its form."""
    header: bool | None = True
    """True if its columns have names, or none are expected."""
    other = ""
    """End of the remark on its columns."""
    whole = True
    """False if columns are recognised by the beginning of the table only."""

    def __init__(self, findings: Findings) -> None:
        self.findings = findings
        self.columns: dict[str, int | str] = {}

    @abstractmethod
    def rows(self) -> Iterator[Row]:
        """All rows, unusable ones included."""

    @abstractmethod
    def where(self, number: int) -> str:
        """A row in messages."""

    @abstractmethod
    def origin(self, number: int) -> str:
        """The origin of an example made from a row."""

    @property
    def called(self) -> str:
        """The table in messages."""
        return f"'{self.path}'"

    @abstractmethod
    def facts(self, known: Collection[str] = (), given: Collection[Column] = ()) -> list[Facts]:
        """Statistics of the columns, by which they are recognised; from the beginning of a file.

        `known` are the labels of the training set, `given` columns that decide whether names or numbers are used.
        """

    def place(self, number: int) -> int | str:
        """A row in findings."""
        return number

    def at(self, row: Row, field: str) -> str:
        """The value of a field in messages."""
        return row.where

    def value(self, row: Row, field: str) -> Any:
        """The value of a field of a usable row."""
        return row.cells[self.columns[field]]

    def label(self, row: Row, field: str) -> Any:
        """The value of a field of labels of a usable row."""
        return self.value(row, field)

    def checked(self, row: Row, field: str, value: Any) -> str:
        """A value that must be a text."""
        where = self.at(row, field)
        if not isinstance(value, str):
            raise row.bad("not text", f"{where} is {described(value)}, expected text")
        return characters_of(value, where, row.bad, row.note)

    def choose(
        self,
        fields: Sequence[Field],
        recognise: Recognise | None = None,
        *,
        again: bool = False,
        trained: bool = False,
        known: Collection[str] = (),
        least: int = FEW,
    ) -> str:
        """Set the column of each field: the given one, else one with a usual name, else a recognised one.

        Args:
            fields: The fields.
            recognise: Finds the columns of all fields by facts, given those that are known; or returns why it cannot.
                By default fields without a column have the columns that are left, if these are as many.
            again: True if the given columns are those of a training set; they are as if not given if this table lacks
                one of them.
            trained: True if the given columns are those of a run, which a table that names its columns must have.
            known: The labels of the training set.
            least: Rows below which nothing is recognised; reading them then reports what is missing.

        Returns:
            A remark on the form of the table and recognised columns, or "".

        Raises:
            DataError: A column is missing or unclear; the message lists the columns and names the option to set.
        """
        given, columns = self.given(fields, again, trained), dict[str, Column]()
        for number, one in enumerate(fields):
            able = (name for name in one.names if name in self.names)
            able = (name for name in able if not {name, self.names.index(name)} & {*given.values()})
            column = next(able, None) if given[one.name] is None else given[one.name]
            columns[one.name] = self.place_of(one.name, number, column)
        self.columns = {field: field if one is None else one for field, one in columns.items()}
        if None not in columns.values() or self.judged < least:
            return "; ".join(self.said)
        facts = [] if recognise is None else self.facts(known, [one for one in given.values() if one is not None])
        names = [one.name for one in facts] or [*self.names]
        if any(one is not None and columns[field] not in names for field, one in given.items()):
            return "; ".join(self.said)  # reading the rows reports the missing column
        columns = {field: one if one in names else None for field, one in columns.items()}
        open_ = [one for one in fields if columns[one.name] is None]
        rest = [name for name in names if name not in columns.values()]
        chosen: Mapping[str, int | str] | str = f"the {open_[0].name} column is unclear"
        if recognise is not None:
            chosen = recognise(facts, columns)
        elif len(rest) == len(open_):
            chosen = dict(zip((one.name for one in open_), rest, strict=True))
        numbered = "" if self.header else "; the file has no header, so columns are counted from 0"
        if isinstance(chosen, str):
            name, *others = open_[0].names
            lacks = f" has no {self.column_word} '{name}'" + f" (or {', '.join(others)})" * bool(others)
            why = f": {chosen}" if chosen else lacks + suggest(name, map(str, rest))
            options = " and ".join(self.option.format(one.name) for one in open_)
            choose = f"{options} choose{'s' if len(open_) == 1 else ''} from"
            choose = f"its {self.column_word}s are" if trained else choose
            listed = listing(facts) or ", ".join(map(shown, names))
            raise DataError(f"{self.called}{why}; {choose} {listed}{numbered}")
        self.columns |= chosen
        said = [f"{one.name} is {shown(self.columns[one.name])}" for one in fields]
        label = next((one for one in facts if one.name == chosen.get("label")), None)
        if label is not None and isinstance(self, _File):
            said[-1] += f" ({label.counted(self.whole)})"
        return "; ".join((*self.said, f"{self.column_word}s: {', '.join(said)}{numbered}{self.other}"))

    def given(self, fields: Sequence[Field], again: bool, trained: bool) -> dict[str, Column]:
        """The columns of fields that count as given; arguments and errors as for `choose`."""
        given = self.of_training(fields) if trained else {one.name: one.given for one in fields}
        is_other = again and self.names and not self.has(*(one for one in given.values() if isinstance(one, str)))
        return dict.fromkeys(given) if is_other else given

    def place_of(self, field: str, number: int, column: Column) -> Column:
        """The column of a field, the `number`th; None if it is unknown."""
        return column

    def of_training(self, fields: Sequence[Field]) -> dict[str, Column]:
        """Field -> its column in a table that a run reads after its training.

        It is the given one, else one with a usual name of the field. Names are as if not given (None) if the table does
        not name its columns.

        Raises:
            DataError: The table names its columns, and none is called so.
        """
        names = {one.name: (one.given, *one.names) for one in fields if isinstance(one.given, str)}
        found = {field: next((one for one in every if one in self.names), None) for field, every in names.items()}
        absent = [every[0] for field, every in names.items() if found[field] is None]
        if absent and self.is_named(every[0] for every in names.values()):
            word = self.column_word
            raise DataError(
                f"{self.called} has no {word} '{absent[0]}', which this run was trained on; its {word}s: "
                f"{', '.join(self.names)}; rename the column that corresponds to it"
            )
        return {one.name: one.given for one in fields} | (dict.fromkeys(names) if absent else found)

    def is_named(self, names: Iterable[str]) -> bool:
        """True if the columns of the table have names, of which some may be these."""
        return bool(self.names)

    @property
    def judged(self) -> int:
        """Number of rows by which columns can be recognised."""
        return 0

    @property
    def first(self) -> Mapping[str, Any]:
        """The values of the first row by column, from JSON, the Hub or Python; may be empty."""
        return {}

    def made(self, make: Callable[[Row], E | None]) -> Iterator[E]:
        """The examples made of usable rows; the others are counted."""
        return self.findings.usable(self.rows(), make)

    def has(self, *columns: Column) -> bool:
        """True if these are names of columns."""
        return all(column in self.names for column in columns)


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


class _File(Table):
    """Common part of tables in files."""

    path: Path
    head: Head
    name: str
    """Name of the file in origins."""
    hint = ""
    """End of messages about missing columns."""

    @property
    def whole(self) -> bool:  # type: ignore[override]
        return self.head.whole

    def where(self, number: int) -> str:
        return f"'{self.path}' line {number}"

    def origin(self, number: int) -> str:
        return f"{self.name}:{number}"


class CsvTable(_File):
    """A file with columns separated by tabs, or by another character with CSV quoting.

    Args:
        path: The file; from its beginning (`head`) separator and header are recognised.
        findings: Policy for bad lines.
        usual: The separator, unless another one gives more regular rows.
        expected: Names of columns; if the first line has them, the usual separator is right.
        fixed: True if there is no other separator.
    """

    plain = True

    def __init__(
        self, path: Path, findings: Findings, usual: str, expected: Sequence[Column] = (), fixed: bool = False
    ) -> None:
        super().__init__(findings)
        self.path, self.name, self._usual = path, path.name, usual
        self.head = Head.of(path, findings, excel=usual == ",")
        rows = self.head.rows(usual)
        named = bool(expected) and bool(rows) and all(one in rows[0] for one in expected)
        found = usual if fixed or named else self.head.separator(usual)
        self.separator, self.recognised = found or usual, found is not None
        rows = rows if self.separator == usual else self.head.rows(self.separator)
        self.is_regular = is_regular(rows)
        self.names: list[str] = rows[0] if rows else []
        self.sample = regular_rows(rows) if self.is_regular or named else rows
        self.header = None
        """True if the first line names the columns; None if it does so only where a column is given by name."""
        self._places: dict[str, int] = {}

    @property
    def said(self) -> Sequence[str]:  # type: ignore[override]
        return [] if self.separator == self._usual else [f"columns separated by {SEPARATORS[self.separator]}"]

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
    def judged(self) -> int:
        return len(self.sample) - self.has_header if self.recognised else 0

    def facts(self, known: Collection[str] = (), given: Collection[Column] = ()) -> list[Facts]:
        """Statistics of the columns; the first line is a header if it looks like one or a column is given by name."""
        if self.header is None:
            self.header = any(isinstance(one, str) for one in given) or self.has_header
        by_name = self.header and self.named and not any(isinstance(one, int) for one in given)
        names = self.sample[0] if by_name else range(len(self.sample[0]))
        return facts_of(self.sample[1:] if self.header else self.sample, names, known)

    def rows(self) -> Iterator[Row]:
        by_name = any(isinstance(column, str) for column in self.columns.values())
        self._places = {} if by_name else {field: int(column) for field, column in self.columns.items()}
        read = _tabbed if self.separator == "\t" else _quoted
        for number, cells in read(self.path, self.findings, self.separator):
            if number == 1 and by_name:
                self._places = self._named_places(cells)
            elif number > 1 or not self.header or isinstance(cells, BadLine):
                yield Row(self, number, None if cells == [""] or cells == [] else cells)

    def _named_places(self, first: list[str] | BadLine) -> dict[str, int]:
        if isinstance(first, BadLine):
            message = "should name the columns, but is a bad line; columns can also be given by number"
            raise DataError(f"'{self.path}' line 1 {message}")
        absent = [(field, name) for field, name in self.columns.items() if isinstance(name, str) and name not in first]
        if absent:
            field, name = min(absent, key=lambda one: one[0] == one[1])  # a name the user gave before a usual one
            raise DataError(
                f"'{self.path}' line 1 names no column '{name}'{suggest(name, first)}; data.columns.{field} selects "
                f"the {field} column, by name or by number from 0{self.hint}"
            )
        for column in self.columns.values():
            if isinstance(column, str) and first.count(column) > 1:
                twins = [n for n, name in enumerate(first) if name == column]
                raise DataError(
                    f"'{self.path}' line 1 names two columns '{column}' ({twins[0]} and {twins[1]}, counted from 0); "
                    "rename one, or give the column by number"
                )
        return {field: first.index(name) if isinstance(name, str) else name for field, name in self.columns.items()}

    def value(self, row: Row, field: str) -> str:
        place = self._places[field]
        if 0 <= place < len(row.cells):
            return row.cells[place]  # type: ignore[no-any-return]
        shown = f"{len(row.cells)} column{'s' if len(row.cells) != 1 else ''} ({' | '.join(row.cells)[:40]!r})"
        what = f"the {field} in column {place} (counted from 0) is missing"
        least = f"expected at least {place + 1}: {what}" if place >= 0 else what
        end = f"; columns are separated by {SEPARATORS[self.separator]}{self.hint if len(row.cells) < 2 else ''}"
        raise row.bad(f"no column {place}", f"{row.where} has {shown}, {least}{end}")


class JsonTable(_File):
    """A file of JSON objects: one a line, or the `items` of an array, perhaps in the field "data" of an object.

    A field of a nested object is a column too, as in "translation.en".
    """

    column_word = "field"

    def __init__(self, path: Path, findings: Findings) -> None:
        super().__init__(findings)
        self.path, self.name, self.head = path, path.name, Head.of(path, findings)
        self.items = _items(self.head, findings)
        self.things = "lines" if self.items is None else "items"
        objects = self.head.objects if self.items is None else self.items[:_LINES]
        self.objects = [flat(one) for one in objects if isinstance(one, dict)]
        counts = Counter(name for one in self.objects for name in one)  # in the order in which they come
        self.names = [name for name, count in counts.items() if 2 * count >= len(self.objects)]

    @property
    def judged(self) -> int:
        return len(self.objects)

    @property
    def first(self) -> Mapping[str, Any]:
        return self.objects[0] if self.objects else {}

    def facts(self, known: Collection[str] = (), given: Collection[Column] = ()) -> list[Facts]:
        return facts_of_objects(self.objects, known)

    def rows(self) -> Iterator[Row]:
        names = tuple(map(str, self.columns.values()))
        self.columns = dict(zip(self.columns, names, strict=True))
        # Fields that the user gave are missed first.
        names = tuple(sorted(names, key=lambda name: name in self.columns))
        every = lines_of(self.path, self.findings) if self.items is None else self.items
        for number, line in enumerate(every, start=1):
            row = Row(self, number, None)
            try:
                if self.items is not None or unless_bad(line).strip():
                    value = self._parsed(row, line, names) if self.items is None else line
                    row.cells = self._object(row, value, names)
            except BadLine as bad:
                row.cells = bad
            yield row

    def where(self, number: int) -> str:
        return f"'{self.path}' {self.things[:-1]} {number}"

    def _parsed(self, row: Row, line: str, names: tuple[str, ...]) -> Any:
        try:
            return load_json(line)
        except (ValueError, RecursionError) as error:
            what = f"{error.msg} at position {error.pos + 1}" if isinstance(error, json.JSONDecodeError) else str(error)
            shape = "{" + ", ".join(f'"{name}": "..."' for name in names) + "}"
            such = f", such as {shape}" if names else ""
            message = f"{row.where} is not JSON: {what} ({line[:40]!r}); expected one object a line{such}"
            raise row.bad("not JSON", message) from None

    def _object(self, row: Row, value: Any, names: tuple[str, ...]) -> dict[str, Any]:
        if not isinstance(value, dict):
            listing = " and ".join(f"'{name}'" for name in names)
            fields = f" with the field{'s' if len(names) > 1 else ''} {listing}" if names else ""
            raise row.bad("not a JSON object", f"{row.where} is {described(value)}, expected an object{fields}")
        cells: dict[str, Any] = flat(value) if any("." in one and one not in value for one in names) else value
        for name in names:
            if name not in cells:
                raise row.bad(f"no field '{name}'", f"{row.where} has no field '{name}'{suggest(name, cells)}")
        return cells

    def at(self, row: Row, field: str) -> str:
        return f"{row.where}: field '{self.columns[field]}'"

    def checked(self, row: Row, field: str, value: Any) -> str:
        if not isinstance(value, str):
            what = f"{self.at(row, field)} is {'null' if value is None else described(value)}, expected text"
            raise row.bad(f"field '{self.columns[field]}' is not text", what)
        return characters_of(value, self.at(row, field), row.bad, row.note)


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
    text, of_text = "", Findings(encoding=findings.encoding_of(head.path), max_line=1 << 40, hint=False)
    try:
        text = "\n".join(good_lines(head.path, of_text))
        value = load_json(text)
    except (DataError, ValueError, RecursionError) as error:
        if not text.lstrip().startswith("["):
            return None  # reading the lines reports why
        raise DataError(f"'{head.path}' is not JSON: {error}; expected an array of objects") from None
    items = value.get("data") if isinstance(value, dict) else value
    if not isinstance(items, list) or not any(isinstance(one, dict) for one in items):
        return None
    findings.take_over(of_text)
    return items


def flat(value: dict[str, Any]) -> dict[str, Any]:
    """An object with its own fields and those of nested objects, named as in "translation.en"."""
    inside = {f"{name}.{part}": v for name, one in value.items() if isinstance(one, dict) for part, v in one.items()}
    return {**value, **inside} if inside else value


def open_table(path: Path, findings: Findings, expected: Sequence[Column] = (), kind: str = "") -> CsvTable | JsonTable:
    """The table in a file, by `kind` or by its ending: "jsonl" (or json), "csv"; else its columns have tabs."""
    kind = kind or ending_of(path)[1:]
    if kind in ("jsonl", "json"):
        return JsonTable(path, findings)
    return CsvTable(path, findings, "," if kind == "csv" else "\t", expected)


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
                row = next(rows)
            except StopIteration:
                return
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
            yield number, bad[0] if bad else row
            bad.clear()
            number = rows.line_num + 1


def _whole_lines(lines: Iterable[str | BadLine], bad: list[BadLine]) -> Iterator[str]:
    """Lines with their ends, bad ones included, since their quotes decide where a row ends."""
    for line in lines:
        if isinstance(line, BadLine):
            bad.append(line)
        yield (line.text if isinstance(line, BadLine) else line) + "\n"


_LINES = 10_000
_CHARACTERS = 1 << 22
_BYTES = 1 << 20


@dataclass(frozen=True)
class Head:
    """The first readable lines of a file, at most 10,000 lines or 4 million characters."""

    path: Path
    lines: tuple[str, ...]
    whole: bool  # True if the file has no further lines
    odd: int = 0  # unreadable lines among them, not in `lines`
    _rows: dict[str, list[list[str]]] = field(default_factory=dict, repr=False, compare=False)

    @classmethod
    def of(cls, path: Path, findings: Findings, excel: bool = False) -> Head:
        """The head of a regular file; empty for a pipe, a folder or an unreadable file.

        The last few heads are remembered, since several readers look at the beginning of the same file. With `excel`,
        a file that is separated by semicolons and not UTF-8 is read as Windows-1252, as Excel exports it.
        """
        if not os.path.isfile(path):
            return cls(path, (), True)
        state = path.stat()
        seen = path, (state.st_mtime_ns, state.st_size, state.st_ino)
        head = _read_head(*seen, findings.encoding_of(path), findings.max_line)
        if excel and head.odd and head.is_windows:
            wide = _read_head(*seen, "windows-1252", findings.max_line)
            if wide.separator(",") == ";":
                findings.recognise_encoding(path, "windows-1252")
                return _read_head(*seen, findings.encoding_of(path), findings.max_line)
        return head

    @cached_property
    def filled(self) -> tuple[str, ...]:
        """The lines that are not blank."""
        return tuple(line for line in self.lines if line.strip())

    @cached_property
    def objects(self) -> list[dict[str, Any]]:
        """The lines that are JSON objects."""
        return [one for one in map(_parsed, self.filled) if isinstance(one, dict)]

    def rows(self, separator: str) -> list[list[str]]:
        """The lines as rows; quotes have no meaning in tab-separated ones."""
        if separator not in self._rows:
            self._rows[separator] = rows_of(self.lines, separator)
        return self._rows[separator]

    def separator(self, usual: str) -> str | None:
        """The separator that gives all rows equally many columns (two or more), `usual` if possible, or None."""
        for separator in dict.fromkeys((usual, *SEPARATORS)):
            rows = self.rows(separator)
            if is_regular(rows) and len(rows[0]) == len(regular_rows(rows)[0]):
                return separator
        return None

    @property
    def is_windows(self) -> bool:
        """True if the file begins with text in Windows-1252: lines that are not UTF-8, and none that needs UTF-8."""
        with opened(self.path) as file:
            lines = file.read(_BYTES).split(b"\n")[:-1]
        odd = [line.removesuffix(b"\r") for line in lines if not line.isascii()]
        return bool(odd) and all(line.decode("utf-8", "ignore").encode() != line and as_windows(line) for line in odd)


@lru_cache(maxsize=4)
def _read_head(path: Path, state: tuple[int, ...], encoding: str, max_line: int) -> Head:
    """The head of a file in this state."""
    size, lines, odd = 0, list[str](), 0
    try:
        with closing(lines_of(path, Findings("skip", encoding, max_line))) as every:
            for line in every:
                if len(lines) == _LINES or size > _CHARACTERS:
                    return Head(path, tuple(lines), False, odd)
                if isinstance(line, str):
                    lines.append(line)
                    size += len(line)
                else:
                    odd += 1
    except DataError:
        pass  # reading the whole file reports why
    return Head(path, tuple(lines), True, odd)


def _parsed(line: str) -> Any:
    try:
        return json.loads(line)
    except (ValueError, RecursionError):
        return None


def is_table(path: Path) -> bool:
    """True if the file's ending is .csv or .tsv, perhaps before that of a compression."""
    return ending_of(path) in (".csv", ".tsv")


def note_header(row: Sequence[str], path: Path, unit: str, findings: Findings, fix: str = "delete it") -> None:
    """Remark that the first line of a file looks like names of columns, but is read as an example."""
    names = " | ".join(row)[:40]
    findings.remark(f"warning: line 1 of {path.name} looks like a header ({names}) but is read as a {unit}; {fix}")
