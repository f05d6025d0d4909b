"""Data sets of the Hugging Face Hub, by name: the one place where heed uses a network, and only when asked to.

They are fetched by the `datasets` library into its own cache (HF_HOME), so that a second run needs no network. A
folder in place of a name is read by the same library: one that it saved, or one of its kinds of files.

A field of a structure is a separate column, such as translation.en. A label may be a text, a number or a class, which
is read as its name, and with `data.several_labels` a list of them.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import replace
from typing import Any, TypeVar

from heed.config import HubSection
from heed.data.examples import Example
from heed.data.read.findings import BadLine, Findings
from heed.data.read.reader import Reader
from heed.errors import ConfigError, DataError, suggest

E = TypeVar("E", bound=Example)
_TOGETHER = 1_000


class HubSet:
    """A data set, fetched or from the cache."""

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
        for field, split in (("valid", "validation"), ("test", "test")):
            if getattr(self._data, field) is None and split in self._sets:
                update[field] = [split]
                remarks.append(f"data.{field} is the split '{split}' of {self._data.hub}")
        return self._data.model_copy(update=update), remarks

    def reader(self, of_files: Reader[E]) -> Reader[E]:
        """The reader of this data set's splits, given in place of files by name or as in "train[:1000]"."""
        of_split = of_files.of_split
        if of_split is not None:
            return replace(of_files, read=lambda splits, findings: of_split(self, splits[0], findings), again=False)
        return replace(
            of_files, read=lambda splits, findings: self._examples(splits[0], of_files, findings), again=False
        )

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

    def _examples(self, split: str, reader: Reader[E], findings: Findings) -> Iterator[E]:
        assert reader.of_row is not None, "the configuration of this kind of data names no data set"
        optional: tuple[str, ...] = getattr(self._data.columns, "optional", ())  # type: ignore[attr-defined]
        for place, row in self.rows(split, (*reader.kind.sides, *optional)):
            where = f"{self._data.hub} split {split} row {place}"
            if any("\0" in value for value in row.values() if isinstance(value, str)):
                message = f"{where} contains a NUL character, which is not text"
                example: E | BadLine = findings.bad("NUL byte", self._data.hub, f"{split}:{place}", message)
            else:
                example = reader.of_row(row, f"{self._data.hub}:{split}:{place}", findings)
            if isinstance(example, BadLine):
                findings.leave_out(example.rule)
            else:
                yield example

    def rows(self, split: str, texts: tuple[str, ...]) -> Iterator[tuple[int, Mapping[str, Any]]]:
        """The numbered rows of a split (or of "train[:1000]"), by the fields of `data.columns`.

        The fields named in `texts` must be texts, with "" for empty cells; class numbers are converted to class names.

        Raises:
            DataError: There is no such split, or no such column.
        """
        table = self.table(split).flatten()
        columns = self._data.columns  # type: ignore[attr-defined]  # every section of a data set has some
        names = {
            field: _column(field, getattr(columns, field), table.features, self._data.hub, field in texts)
            for field in type(columns).model_fields
            if getattr(columns, field) is not None or field not in getattr(columns, "optional", ())
        }
        ways = {field: _way(table.features[name], field in texts) for field, name in names.items()}
        chunks = table.select_columns(list(dict.fromkeys(names.values()))).iter(_TOGETHER)
        rows = (row for chunk in chunks for row in zip(*(chunk[name] for name in names.values()), strict=True))
        for number, values in enumerate(rows, start=1):
            yield number, {field: ways[field](value) for field, value in zip(names, values, strict=True)}

    def _ask(self, split: str | None = None) -> Any:
        try:
            import datasets
        except ImportError:
            hint = "install it: pip install 'heed-attention[hub]'"
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


def _column(field: str, given: int | str | None, features: Any, hub: str, text: bool) -> str:
    """The name of a field's column; for a field of a structure, as in "translation.en"."""
    known = [
        name for name, one in features.items() if not text or getattr(one, "dtype", "") in ("string", "large_string")
    ]
    name = field if given is None else given
    if name not in known:
        kind = "text column" if text else "column"
        hint = f"; its {kind}s: {', '.join(known)}" if given is None else suggest(str(name), known)
        raise DataError(f"data.columns.{field}: {hub} has no {kind} '{name}'{hint}")
    return str(name)


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
