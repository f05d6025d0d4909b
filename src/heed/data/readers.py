"""Readers of examples, with the same interface for every kind of example; data sets of the Hugging Face Hub, by name.

The Hub is the one place where heed uses a network, and only when asked to. Data sets are fetched by the `datasets`
library into its own cache (HF_HOME), so that a second run needs no network. A folder in place of a name is read by the
same library: one that it saved, or one of its kinds of files.

A field of a structure is a separate column, such as translation.en. A label may be a text, a number or a class, which
is read as its name, and with `data.several_labels` a list of them.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Generic, TypeVar

from heed.config import HubSection
from heed.data.columns import Facts, facts_of_objects
from heed.data.examples import Example
from heed.data.findings import BadLine, Counts, Findings
from heed.data.tables import Row, Table
from heed.errors import ConfigError, DataError, suggest

E = TypeVar("E", bound=Example)
_TOGETHER = 1_000
_SAMPLE = 1_000
"""Rows of a data set by which columns are recognised."""


@dataclass(frozen=True)
class Reader(Generic[E]):
    """How examples of one kind are read.

    Attributes:
        kind: Their class.
        read: Reads files and reports to the findings.
        of_table: Chooses the columns of a table (unless they are set) and makes examples of its rows, if supported.
        settings: Everything but the files and the `data` section that decides what is read, as JSON.
        again: True if reading again gives the same examples, so that they may be cached.
        of_hub: Reads a split of a data set whose rows are not texts.
        columns: Field -> the column that was read, of the first table (the training set); filled while reading.
    """

    kind: type[E]
    read: Callable[[Sequence[str], Findings], Iterable[E]]
    of_table: Callable[[Table], Iterable[E]] | None = None
    settings: Mapping[str, Any] = field(default_factory=dict)
    again: bool = True
    of_hub: Callable[[HubSet, str, Findings], Iterable[E]] | None = None
    columns: dict[str, int | str] = field(default_factory=dict)

    def filled(self, files: Sequence[str], counts: Counts, findings: Findings) -> Iterator[E]:
        """The examples without blank texts; the others are counted as left out."""
        unit = self.kind.unit
        for example in self.read(files, findings):
            counts.read += 1
            if rule := example.blank:
                counts.leave_out(rule)
                findings.note(f"{rule}, left out", "", example.origin, unit=unit)
            else:
                counts.kept += 1
                yield example


class HubSet:
    """A data set of the Hub, fetched or from the cache."""

    def __init__(self, data: HubSection) -> None:
        """Fetch it, or find it in the cache.

        Raises:
            DataError: There is no such data set or configuration, or no network access to fetch it.
            ConfigError: The library `datasets` is missing.
        """
        self._data = data
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
            if of_files.of_hub is not None:
                return of_files.of_hub(self, splits[0], findings)
            assert of_files.of_table is not None, "the configuration of this kind of data names no data set"
            return of_files.of_table(HubTable(self, splits[0], findings))

        return replace(of_files, read=read, again=False)

    @property
    def name(self) -> str:
        """Name of the data set, for messages."""
        return self._data.hub

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
    """The rows of a split: texts, with "" for empty cells, and labels, with class numbers as class names."""

    def __init__(self, hub: HubSet, split: str, findings: Findings) -> None:
        super().__init__(findings)
        self.path, self._split = hub.name, split
        self._table = hub.table(split).flatten()
        self._features: Mapping[str, Any] = self._table.features
        self.names = list(self._features)
        texts = ("string", "large_string")
        self.texts = [name for name, one in self._features.items() if getattr(one, "dtype", "") in texts]
        """Names of the columns of texts."""

    def where(self, number: int) -> str:
        return f"{self.path} split {self._split} row {number}"

    def origin(self, number: int) -> str:
        return f"{self.path}:{self._split}:{number}"

    def place(self, number: int) -> str:
        return f"{self._split}:{number}"

    def at(self, row: Row, field: str) -> str:
        return f"{row.origin}: column '{self.columns[field]}'"

    def facts(self, known: Collection[str] = ()) -> list[Facts]:
        sample = self._table.select(range(min(_SAMPLE, len(self._table))))
        objects = [dict(zip(self.names, row, strict=True)) for row in self._values(sample, self.names)]
        return [one for one in facts_of_objects(objects, known) if one.cells]

    def refuse_missing(self, texts: Collection[str]) -> None:
        """Refuse columns that the data set does not have; the fields `texts` need columns of texts.

        Raises:
            DataError: The message lists or suggests columns.
        """
        for part, name in self.columns.items():
            able, kind = (self.texts, "text column") if part in texts else (self.names, "column")
            if name not in able:
                hint = f"; its {kind}s: {', '.join(able)}" if name == part else suggest(str(name), able)
                raise DataError(f"data.columns.{part}: {self.path} has no {kind} '{name}'{hint}")

    def rows(self) -> Iterator[Row]:
        names = list(dict.fromkeys(map(str, self.columns.values())))
        for number, values in enumerate(self._values(self._table.select_columns(names), names), start=1):
            row = Row(self, number, dict(zip(names, values, strict=True)))
            if any("\0" in value for value in values if isinstance(value, str)):
                try:
                    raise row.bad("NUL byte", f"{row.where} contains a NUL character, which is not text")
                except BadLine as bad:
                    row.cells = bad
            yield row

    def _values(self, table: Any, names: Sequence[str]) -> Iterator[tuple[Any, ...]]:
        ways = [_way(self._features[name], name in self.texts) for name in names]
        for chunk in table.iter(_TOGETHER):
            for values in zip(*(chunk[name] for name in names), strict=True):
                yield tuple(way(value) for way, value in zip(ways, values, strict=True))


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
