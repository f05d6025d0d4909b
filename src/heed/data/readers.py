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
import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Generic, TypeVar

from heed.config import Source
from heed.data.columns import Facts, is_float
from heed.data.examples import Example
from heed.data.findings import Counts, Findings
from heed.data.tables import Field, HubTable, PythonTable, Row, Table, described, has_items
from heed.errors import ConfigError, DataError

E = TypeVar("E", bound=Example)
_JUDGED = 20
"""Examples below which the order of texts and labels is not checked."""
_LONG = 100_000
"""Characters of an example above which line ends are probably missing."""


@dataclass(frozen=True)
class Reader(Generic[E]):
    """A reader of examples of one kind."""

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
        choose: Sets the columns of a table and returns a remark on them, which is made once for tables of one layout;
            its second argument is True after the first table, the training set.
        example: Makes an example of a usable row.
        source: The table in a file, or its examples if they are not rows; of a folder several.
        settings: As in `Reader`.
    """
    columns: dict[str, int | str] = {}
    before: object = None

    def of_table(table: Table) -> Iterator[E]:
        nonlocal before
        if remark := choose(table, bool(columns)):
            layout = table.column_word, re.sub(r" \(.*?\)", "", remark), *table.columns.values()  # without counts
            if layout != before:
                table.findings.remark(remark)
            before = layout
        columns.update(columns or table.columns)
        return table.usable(example)

    def read(files: Sequence[str], findings: Findings) -> Iterator[E]:
        for path in map(Path, files):
            source_tables = source(path, findings)
            for item in (source_tables,) if isinstance(source_tables, Table) else source_tables:
                yield from of_table(item) if isinstance(item, Table) else (item,)

    return Reader(kind, read, of_table, settings or {}, columns=columns)


def of_hub(data: Source, of_files: Reader[E]) -> tuple[Source, Reader[E], list[str]]:
    """The section with the validation and test splits of its data set of the Hub, their reader, and remarks.

    The data set is fetched, or found in the cache. The section has its splits if it names none, and remarks say so;
    they are read in place of files, by name or as in "train[:1000]".

    Raises:
        DataError: There is no such data set, configuration or (while reading) split, or no network access to fetch it.
        ConfigError: The library `datasets` is missing.
    """
    sets, update, remarks = _fetched(data), dict[str, list[str]](), list[str]()
    for part, split in (("valid", "validation"), ("test", "test")):
        if getattr(data, part) is None and split in sets:
            update[part] = [split]
            remarks.append(f"data.{part} is the split '{split}' of {data.hub}")

    def read(splits: Sequence[str], findings: Findings) -> Iterable[E]:
        assert of_files.of_table is not None, "the configuration of this kind of data names no data set"
        split = splits[0]
        rows = sets[split] if split in sets else _fetched(data, split)
        return of_files.of_table(HubTable(data.hub, split, rows.flatten(), findings))

    return data.model_copy(update=update), replace(of_files, read=read, again=False), remarks


def _fetched(data: Source, split: str | None = None) -> Any:
    """All splits of a data set of the Hub, or one of them, as tables of the `datasets` library."""
    try:
        import datasets
    except ImportError:
        hint = "install it: pip install -e '.[hub]'"
        raise ConfigError(f"data.hub needs the package datasets; {hint}") from None
    load: Callable[..., Any] = datasets.load_dataset
    try:
        return load(data.hub, data.config, split=split, revision=data.revision)
    except ConnectionError as error:
        reason = f"is not in the cache and cannot be fetched: {_first_line(error)}"
        hint = "run this once with network access, or set data.hub to the folder of a copy"
        raise DataError(f"data.hub '{data.hub}' {reason}; {hint}") from None
    except (OSError, RuntimeError, ValueError, datasets.exceptions.DatasetsError) as error:
        raise DataError(f"data.hub '{data.hub}': {_first_line(error)}") from None


def _first_line(error: Exception) -> str:
    return (str(error).splitlines() or [type(error).__name__])[0]


T = TypeVar("T")


class PythonExamples(list[T]):
    """Examples made from data passed in Python, with their findings and the columns that were read."""

    def __init__(
        self, examples: Iterable[T], findings: Findings, columns: Mapping[str, int | str] | None = None
    ) -> None:
        super().__init__(examples)
        self.findings, self.columns = findings, dict(columns or {})


def merge_findings(examples: Sequence[T], findings: Findings) -> Sequence[T]:
    """The examples; those with findings have them merged into `findings`."""
    if isinstance(examples, PythonExamples):
        findings.merge(examples.findings)
    return examples


def examples_from_python(
    data: Any, split: str, reader: Reader[E], shape: Sequence[str], findings: Findings
) -> PythonExamples[E]:
    """Examples from data in any of the forms above; `shape` are the fields of an example in the order of a tuple.

    Raises:
        DataError: The data cannot be used; the message names the position, the value and what would be right.
    """
    assert reader.of_table is not None
    return PythonExamples(reader.of_table(PythonTable(data, split, shape, findings)), findings, reader.columns)


def check_order(texts: Sequence[str], labels: Sequence[str], split: str) -> None:
    """Refuse labels that hardly repeat while the texts do, unless they are numbers: the columns are swapped.

    Raises:
        DataError: Texts and labels are swapped.
    """
    repeats = Facts.of("text", texts).repeats and not Facts.of("label", labels).repeats
    if len(texts) >= _JUDGED and repeats and not all(map(is_float, labels)):
        raise DataError(
            f"{split}: the labels hardly repeat (such as {labels[0]!r:.40}), but the texts do (such as "
            f"{texts[0]!r:.40}); expected (text, label), in this order"
        )


def to_texts(data: Any, what: str, names: Sequence[str] = ("text",)) -> list[str]:
    """Input texts for prediction: a list, an array, a series, or from a data frame or dicts the first of `names`.

    Raises:
        DataError: A value is not a text, or there is no such column.
    """
    if has_items(data) and not isinstance(data, bytes | Mapping) and hasattr(data, "__len__") and not len(data):
        return []
    table = PythonTable(data, what, names[:1], Findings(hint=False))
    table.hint = "; give one column"
    table.choose([Field("text", usual=names)], trained=True, minimum_rows=0)
    for row in (rows := list(table.rows())):
        if not isinstance(value := row.value("text"), str):
            raise DataError(f"{table.at(row, 'text')} is {described(value)}, expected text")
    return [str(row.value("text")) for row in rows]
