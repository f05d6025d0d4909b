"""Readers of examples, the same for every kind of example: from files, data sets of the Hugging Face Hub, and Python.

The Hub is the one place where heed uses a network, and only when asked to. Data sets are fetched by the `datasets`
library into its own cache (HF_HOME), so that a second run needs no network. A folder in place of a name is read by the
same library: one that it saved, or one of its kinds of files.

A field of a structure is a separate column, such as translation.en. A label may be a text, a number or a class, which
is read as its name, and with `data.several_labels` a list of them.

Data passed in Python; errors name split and position, as in "train[17]":

| given | read as |
|---|---|
| a data frame (pandas, polars, a data set of the Hub) | columns by name |
| a dict of columns | columns by name |
| a list of dicts | one row each, columns by name |
| a list of tuples | one row each, columns by position |
| a tuple of lists, arrays or series | columns by position |
| a list of texts, if an example is a single text | one column |

Several time series are given as a list of data frames or of arrays. Labels may be texts, numbers or booleans, and lists
with `data.several_labels`. With `data.bad_lines=skip`, unusable values are left out and counted. A run folder keeps the
number of examples of each split and their hash (`data.memory`), not the examples; resuming needs the same data, and an
error names a split that differs.
"""

from __future__ import annotations

import dataclasses
import math
import re
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Generic, TypeVar

import numpy as np

from heed.config import HubSection
from heed.data.columns import Column, Facts, facts_of_objects
from heed.data.examples import Example
from heed.data.findings import Counts, Findings
from heed.data.tables import Row, Table, described, has_items
from heed.errors import ConfigError, DataError, suggest

E = TypeVar("E", bound=Example)
_TOGETHER = 256
_JUDGED = 20
"""Examples below which the order of texts and labels is not checked."""
_LONG = 100_000
"""Characters of an example above which line ends are probably missing."""
_OF_ANY_TYPE = ("label", "path", "word", "sentence")
"""Fields whose columns in a data set need not be texts."""
_SAMPLE = 1_000
"""Rows of a data set by which columns are recognised."""
_FIRST = 10_000
"""Rows passed in Python by which columns are recognised, as of a file."""


@dataclass(frozen=True)
class Reader(Generic[E]):
    """How examples of one kind are read."""

    kind: type[E]  # their class
    read: Callable[[Sequence[str], Findings], Iterable[E]]  # reads files and reports to the findings
    # Chooses the columns of a table (unless they are set) and makes examples of its rows, if supported
    of_table: Callable[[Table], Iterable[E]] | None = None
    # Everything but the files and the `data` section that decides what is read, as JSON
    settings: Mapping[str, Any] = dataclasses.field(default_factory=dict)
    again: bool = True  # True if reading again gives the same examples, so that they may be cached
    # Field -> the column that was read, of the first table (the training set); filled while reading
    columns: dict[str, int | str] = dataclasses.field(default_factory=dict)

    def filled(self, files: Sequence[str], counts: Counts, findings: Findings) -> Iterator[E]:
        """The examples without blank texts; the others are counted as left out, and very long ones noted."""
        unit = self.kind.unit
        for example in self.read(files, findings):
            counts.read += 1
            if rule := example.blank:
                counts.leave_out(rule)
                findings.note(f"{rule}, left out", "", example.origin, unit=unit)
            else:
                counts.kept += 1
                if sum(map(len, example.texts)) > _LONG:
                    what = f"more than {_LONG:,} characters, kept (a smaller data.max_line leaves such lines out)"
                    findings.note(what, "", example.origin, unit=unit, warning=True)
                yield example


def table_reader(
    kind: type[E],
    choose: Callable[[Table, bool], str],
    example: Callable[[Row], E],
    source: Callable[[Path, Findings], Table | Iterable[Table | E]],
    settings: Mapping[str, Any] | None = None,
) -> Reader[E]:
    """A reader of examples that are rows of tables: of files, of data sets of the Hub, and of data passed in Python.

    Args:
        kind: The class of the examples.
        choose: Sets the columns of a table and returns what is to be remarked on them, if not on the table before too;
            its second argument is True after the first table, the training set.
        example: Makes an example of a usable row.
        source: The table in a file, or its examples if they are not rows; of a folder several. If the columns of a
            table are set, they stay.
        settings: As in `Reader`.
    """
    columns: dict[str, int | str] = {}
    before: object = None

    def of_table(table: Table) -> Iterator[E]:
        nonlocal before
        if said := choose(table, bool(columns)):
            layout = table.column_word, re.sub(r" \(.*?\)", "", said), *table.columns.values()  # without counts
            if layout != before:
                table.findings.remark(said)
            before = layout
        columns.update(columns or table.columns)
        return table.made(example)

    def read(files: Sequence[str], findings: Findings) -> Iterator[E]:
        for path in map(Path, files):
            found = source(path, findings)
            for one in (found,) if isinstance(found, Table) else found:
                yield from of_table(one) if isinstance(one, Table) else (one,)

    return Reader(kind, read, of_table, settings or {}, columns=columns)


class HubSet:
    """A data set of the Hub, fetched or from the cache."""

    def __init__(self, data: HubSection) -> None:
        """Fetch it, or find it in the cache.

        Raises:
            DataError: There is no such data set or configuration, or no network access to fetch it.
            ConfigError: The library `datasets` is missing.
        """
        self._data, self.name = data, data.hub
        self._sets = self._ask()

    def with_splits(self) -> tuple[HubSection, list[str]]:
        """The section with the data set's validation and test splits if it names none, and remarks that say so."""
        update, remarks = {}, []
        for part, split in (("valid", "validation"), ("test", "test")):
            if getattr(self._data, part) is None and split in self._sets:
                update[part] = [split]
                remarks.append(f"data.{part} is the split '{split}' of {self._data.hub}")
        return self._data.model_copy(update=update), remarks

    def reader(self, of_files: Reader[E]) -> Reader[E]:
        """The reader of this data set's splits, given in place of files by name or as in "train[:1000]"."""

        def read(splits: Sequence[str], findings: Findings) -> Iterable[E]:
            assert of_files.of_table is not None, "the configuration of this kind of data names no data set"
            return of_files.of_table(HubTable(self.name, splits[0], self.table(splits[0]).flatten(), findings))

        return replace(of_files, read=read, again=False)

    def table(self, split: str) -> Any:
        """A split (or "train[:1000]") as a table of the `datasets` library.

        Raises:
            DataError: There is no such split.
        """
        return self._sets[split] if split in self._sets else self._ask(split=split)

    def _ask(self, split: str | None = None) -> Any:
        try:
            import datasets
        except ImportError:
            hint = "install it: pip install -e '.[hub]'"
            raise ConfigError(f"data.hub needs the package datasets; {hint}") from None
        data = self._data
        load: Callable[..., Any] = datasets.load_dataset
        try:
            return load(data.hub, data.config, split=split, revision=data.revision)
        except ConnectionError as error:
            reason = f"is not in the cache and cannot be fetched: {_first_line(error)}"
            hint = "run this once with network access, or set data.hub to the folder of a copy"
            raise DataError(f"data.hub '{data.hub}' {reason}; {hint}") from None
        except (OSError, RuntimeError, ValueError, datasets.exceptions.DatasetsError) as error:
            raise DataError(f"data.hub '{data.hub}': {_first_line(error)}") from None


class HubTable(Table):
    """The rows of a split: texts, with "" for empty cells, and labels, with class numbers as class names.

    Pictures are not decoded: a cell is {"bytes", "path"}.
    """

    judged = _SAMPLE

    def __init__(self, name: str, split: str, table: Any, findings: Findings) -> None:
        """The rows of a table of the `datasets` library, which is a split of the data set `name`."""
        super().__init__(findings)
        self.path, self.split = name, split
        self.pictures = [name for name, one in table.features.items() if type(one).__name__ == "Image"]
        """Names of the columns of pictures."""
        for column in self.pictures:
            table = table.cast_column(column, type(table.features[column])(decode=False))
        self.data = table
        self._features: Mapping[str, Any] = table.features
        self.names = list(self._features)
        self.classes = [name for name, one in self._features.items() if hasattr(one, "int2str")]
        """Names of the columns of class numbers."""
        texts = ("string", "large_string")
        self.texts = [name for name, one in self._features.items() if getattr(one, "dtype", "") in texts]
        """Names of the columns of texts."""

    def where(self, number: int) -> str:
        return f"{self.path} split {self.split} row {number}"

    def origin(self, number: int) -> str:
        return f"{self.path}:{self.split}:{number}"

    def place(self, number: int) -> str:
        return f"{self.split}:{number}"

    def at(self, row: Row, field: str) -> str:
        return f"{row.origin}: column '{self.columns[field]}'"

    def facts(self, known: Collection[str] = (), given: Collection[Column] = ()) -> list[Facts]:
        sample = self.data.select(range(min(_SAMPLE, len(self.data))))
        return [one for one in facts_of_objects([*self._objects(sample, self.names)], known) if one.cells]

    @property
    def first(self) -> Mapping[str, Any]:
        return next(self._objects(self.data, self.names), {})

    def refuse_missing(self) -> None:
        """Refuse columns that the data set does not have; only some fields need texts.

        Raises:
            DataError: The message lists or suggests columns.
        """
        for part, name in self.columns.items():
            is_any = part.startswith(_OF_ANY_TYPE)
            able, kind = (self.names, "column") if is_any else (self.texts, "text column")
            if name not in able:
                hint = f"; its {kind}s: {', '.join(able)}" if name == part else suggest(str(name), able)
                raise DataError(f"data.columns.{part}: {self.path} has no {kind} '{name}'{hint}")

    def rows(self) -> Iterator[Row]:
        self.refuse_missing()
        names = list(dict.fromkeys(map(str, self.columns.values())))
        for number, cells in enumerate(self._objects(self.data.select_columns(names), names), start=1):
            yield Row(self, number, cells)

    def _objects(self, table: Any, names: Sequence[str]) -> Iterator[dict[str, Any]]:
        ways = {name: _way(self._features[name], name in self.texts) for name in names}
        for chunk in table.iter(_TOGETHER):
            for values in zip(*(map(ways[name], chunk[name]) for name in names), strict=True):
                yield dict(zip(names, values, strict=True))


def _way(feature: Any, text: bool) -> Callable[[Any], Any]:
    """The conversion of a value: None to an empty text, a class number to its name, in lists too."""
    if text:
        return lambda value: value or ""
    of_one = getattr(feature, "feature", feature)
    if not hasattr(of_one, "int2str"):
        return lambda value: value
    return lambda value: of_one.int2str(value) if value not in (None, -1) else ""


def _first_line(error: Exception) -> str:
    return (str(error).splitlines() or [type(error).__name__])[0]


T = TypeVar("T")


class Held(list[T]):
    """Examples made from data in memory, with their findings and the columns that were read."""

    def __init__(
        self, examples: Iterable[T], findings: Findings, columns: Mapping[str, int | str] | None = None
    ) -> None:
        super().__init__(examples)
        self.findings, self.columns = findings, dict(columns or {})


def taken(held: Sequence[T], findings: Findings) -> Sequence[T]:
    """The examples; their own findings are merged into `findings`."""
    if isinstance(held, Held):
        findings.take_over(held.findings)
    return held


class HeldTable(Table):
    """Data passed in Python, as columns; `names` are empty if they are known by position only."""

    judged = 1_000_000
    option = 'settings={{"data.columns.{}": NAME}}'

    def __init__(self, data: Any, split: str, shape: Sequence[str], findings: Findings | None = None) -> None:
        """Read the data in any of the forms above; `shape` are the fields of an example in the order of a tuple.

        Raises:
            DataError: The data has none of these forms, is empty, or its columns differ in length.
        """
        super().__init__(Findings() if findings is None else findings)
        self.split = split
        names = column_names(data)
        self.column: Callable[[int], list[Any]]
        """The values of a column."""
        by_name = names is not None and isinstance(data, Mapping)
        if by_name or (names is None and _is_columns(data, len(shape))):
            each = data.items() if by_name else zip(shape, data, strict=True)
            columns = {name: _listed(column) for name, column in each}
            if len({*map(len, columns.values())}) > 1:
                shown = ", ".join(f"'{name}' has {len(column)}" for name, column in columns.items())
                raise DataError(f"{split}: the columns differ in length: {shown}")
            self.width, self.column = len(columns), [*columns.values()].__getitem__
        elif names is not None:
            keys = names
            features = getattr(data, "features", {})  # of the library `datasets`: class numbers have names
            ways = [_way(features.get(key), False) for key in keys]
            self.width, self.column = len(keys), lambda i: [*map(ways[i], _listed(data[keys[i]]))]
        else:
            rows = self._rows_of(data, shape)
            if rows and isinstance(rows[0], Mapping):
                keys = names = list(rows[0])
                self.width, self.column = len(keys), lambda i: [row[keys[i]] for row in rows]
            elif len(shape) == 1:
                self.width, self.column = 1, lambda i: rows
            else:
                self.width, self.column = len(rows[0]) if rows else 0, lambda i: [row[i] for row in rows]
        self.names = tuple(map(str, names or ()))
        if not self.width or not len(self.column(0)):
            raise DataError(f"{split} is empty")

    def _rows_of(self, data: Any, shape: Sequence[str]) -> list[Any]:
        """A list of rows, all dicts with the same fields or all of the same width."""
        one = shape[0] if len(shape) == 1 else f"({', '.join(shape)})"
        if isinstance(data, str | bytes) or not has_items(data):
            forms = f"a data frame, a list of {one}{'s' if len(shape) == 1 else ''}, or a dict of columns"
            raise DataError(f"{self.split} is {described(data)}, expected {forms}")
        rows = list(data)
        if rows and isinstance(rows[0], Mapping):
            for i, row in enumerate(rows):
                if not isinstance(row, Mapping):
                    fields = ", ".join(map(repr, rows[0]))
                    raise DataError(f"{self.where(i)} is {described(row)}, expected a dict with the fields {fields}")
                for name in rows[0]:
                    if name not in row:
                        raise DataError(f"{self.where(i)} has no field '{name}'{suggest(str(name), map(str, row))}")
        elif len(shape) > 1:
            width = len(rows[0]) if rows and _is_row(rows[0]) else len(shape)
            for i, row in enumerate(rows):
                if not _is_row(row):
                    raise DataError(f"{self.where(i)} is {described(row)}, expected {one}")
                if len(row) != width or width < len(shape):
                    has = f"{len(row)} value{'' if len(row) == 1 else 's'} ({row!r:.60})"
                    raise DataError(f"{self.where(i)} has {has}, expected {one}")
        return rows

    @property
    def called(self) -> str:
        return self.split

    @property
    def first(self) -> Mapping[str, Any]:
        return {name: self.column(i)[0] for i, name in enumerate(self.names)}

    def where(self, number: int) -> str:
        return f"{self.split}[{number}]"

    origin = place = where

    def at(self, row: Row, field: str) -> str:
        return f"{row.where}: the {field}"

    def facts(self, known: Collection[str] = (), given: Collection[Column] = ()) -> list[Facts]:
        names: Sequence[int | str] = self.names or range(self.width)
        cells = (self.column(i)[:_FIRST] for i in range(self.width))
        columns = (["" if python_value(one) is None else str(one) for one in column] for column in cells)
        return [Facts.of(name, column, known) for name, column in zip(names, columns, strict=True)]

    def place_of(self, field: str, number: int, column: Column) -> Column:
        """Its name, or its position if columns have no names.

        Raises:
            DataError: There is no such column.
        """
        if isinstance(column, int) and not 0 <= column < self.width:
            raise DataError(f"{self.split} has {self.width} columns, so data.columns.{field} cannot be {column}")
        if isinstance(column, int) and self.names:
            return self.names[column]
        if not self.names:
            return column if isinstance(column, int) else number
        if column is not None and column not in self.names:
            raise DataError(f"{self.split} has no column '{column}'{suggest(str(column), self.names)}")
        return column

    def chosen(self) -> dict[str, list[Any]]:
        """The values of each field."""
        places = (self.names.index(one) if isinstance(one, str) else one for one in self.columns.values())
        return dict(zip(self.columns, map(self.column, places), strict=True))

    def rows(self) -> Iterator[Row]:
        columns = self.chosen()
        for number, values in enumerate(zip(*columns.values(), strict=True)):
            yield Row(self, number, dict(zip(columns, values, strict=True)))

    def value(self, row: Row, field: str) -> Any:
        return row.cells[field]

    def label(self, row: Row, field: str) -> Any:
        return python_value(row.cells[field])


def column_names(data: Any) -> list[Any] | None:
    """The column names of a data frame, a data set or a dict of columns; None for anything else."""
    if isinstance(data, Mapping):
        return list(data) if data and all(_is_column(value) for value in data.values()) else None
    names = getattr(data, "column_names", None)  # of the library `datasets`, and of Arrow
    names = getattr(data, "columns", None) if names is None else names
    return None if names is None or isinstance(data, type) or isinstance(names, Mapping) else list(names)


def _is_column(value: Any) -> bool:
    return hasattr(value, "__len__") and hasattr(value, "__getitem__") and not isinstance(value, str | bytes | Mapping)


def _is_columns(data: Any, width: int) -> bool:
    """True if data is a tuple of columns such as (texts, labels), whose columns are not tuples, as rows may be."""
    return (
        isinstance(data, tuple)
        and len(data) == width > 1
        and all(_is_column(column) and not isinstance(column, tuple) for column in data)
    )


def _is_row(row: Any) -> bool:
    return isinstance(row, tuple | list) or (hasattr(row, "shape") and len(row.shape) == 1)


def _listed(column: Any) -> list[Any]:
    """The values of a column as Python objects, by `tolist` for arrays and series; an array of pictures as arrays."""
    if getattr(column, "ndim", 1) > 2:
        return list(np.asarray(column))
    for name in ("tolist", "to_list", "to_pylist"):
        if hasattr(column, name):
            return list(getattr(column, name)())
    return list(column)


def python_value(value: Any) -> Any:
    """A single value as a Python object: NumPy numbers as numbers, missing values as None, 3.0 as 3."""
    value = value.item() if hasattr(value, "item") and not isinstance(value, str) else value
    if isinstance(value, float):
        return None if math.isnan(value) else int(value) if value.is_integer() else repr(value)
    return None if type(value).__name__ in ("NAType", "NaTType") else value


def label_of(value: Any) -> str | None:
    """A label as a text: true or false, and an integral number without its fraction; None if it is not a label."""
    value = python_value(value)
    text = re.sub(r"^([-+]?\d+)\.0+$", r"\1", str(value).strip())
    if isinstance(value, bool):
        return text.lower()
    return text if isinstance(value, str | int) else None


def hold(data: Any, split: str, reader: Reader[E], shape: Sequence[str], findings: Findings) -> Held[E]:
    """Examples from data in any of the forms above; `shape` are the fields of an example in the order of a tuple.

    Raises:
        DataError: The data cannot be used; the message names the position, the value and what would be right.
    """
    assert reader.of_table is not None
    return Held(reader.of_table(HeldTable(data, split, shape, findings)), findings, reader.columns)


def check_order(texts: Sequence[str], labels: Sequence[str], split: str) -> None:
    """Refuse labels that hardly repeat while the texts do: the columns are swapped.

    Raises:
        DataError: Texts and labels are swapped.
    """
    if len(texts) >= _JUDGED and Facts.of("text", texts).repeats and not Facts.of("label", labels).repeats:
        raise DataError(
            f"{split}: the labels hardly repeat (such as {labels[0]!r:.40}), but the texts do (such as "
            f"{texts[0]!r:.40}); expected (text, label), in this order"
        )


def to_texts(data: Any, what: str, names: Sequence[str] = ("text",)) -> list[str]:
    """Input texts for prediction: a list, an array, a series, or from a data frame or dicts the first of `names`.

    Raises:
        DataError: A value is not a text, or there is no such column.
    """
    if are_dicts(data):
        fields = list(data[0])
        known = [name for name in names if name in fields] or (fields if len(fields) == 1 else [names[0]])
        return [text_in(row, f"{what}[{i}]", known[0]) for i, row in enumerate(data)]
    columns = column_names(data)
    if columns is not None:
        known = [name for name in (*names, *(columns if len(columns) == 1 else ())) if name in columns]
        if not known and not columns:
            raise DataError(f"{what} has no columns, expected one called '{names[0]}'")
        if not known:
            raise DataError(
                f"{what} has the columns {', '.join(map(str, columns))} and none called '{names[0]}'; give one column, "
                f"such as data['{columns[0]}']"
            )
        data = data[known[0]]
    if isinstance(data, bytes | Mapping) or not has_items(data):
        raise DataError(f"{what} is {described(data)}, expected a text or a list of texts")
    values = _listed(data)
    for i, value in enumerate(values):
        if not isinstance(value, str):
            raise DataError(f"{what}[{i}] is {described(value)}, expected text")
    return [str(value) for value in values]


def are_dicts(data: Any) -> bool:
    """True for several rows, the first of which is a dict."""
    return isinstance(data, Sequence) and bool(data) and isinstance(data[0], Mapping)


def text_in(row: Any, where: str, name: Any) -> str:
    """The text in a field of a row, which must be a dict.

    Raises:
        DataError: It is not a dict, or has no such text; the message names the place and the keys.
    """
    if not isinstance(row, Mapping):
        raise DataError(f"{where} is {described(row)}, expected a dict with the field '{name}', as the first")
    if name not in row:
        raise DataError(f"{where} has no field '{name}'; its fields: {', '.join(map(str, row)) or 'none'}")
    if not isinstance(row[name], str):
        raise DataError(f"{where}, field '{name}' is {described(row[name])}, expected text")
    return str(row[name])
