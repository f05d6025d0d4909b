"""Data sets of the Hugging Face Hub, by name: the one place where heed uses a network, and only when asked to.

They are fetched by the `datasets` library into its own cache (HF_HOME), so that a second run needs no network. A
folder in place of a name is read by the same library: one that it saved, or one of its kinds of files.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

from heed.config import Columns, HubData
from heed.data.examples import Pair
from heed.data.read.findings import Findings
from heed.errors import ConfigError, DataError, suggest

__all__ = ["HubSet"]

_TOGETHER = 1_000


class HubSet:
    """One data set, fetched."""

    def __init__(self, data: HubData) -> None:
        """Fetch it, or find it in the cache.

        Raises:
            DataError: There is no such data set or configuration, or no network to fetch it with.
        ConfigError: The library `datasets` is missing.
        """
        self._data = data
        self._sets = self._ask()

    def with_splits(self) -> tuple[HubData, list[str]]:
        """The section with its own validation and test splits where none are named, and remarks that say so."""
        update, remarks = {}, []
        for field, split in (("valid", "validation"), ("test", "test")):
            if getattr(self._data, field) is None and split in self._sets:
                update[field] = [split]
                remarks.append(f"data.{field} is the split '{split}' of {self._data.hub}")
        return self._data.model_copy(update=update), remarks

    def pairs(self, split: str, findings: Findings | None = None) -> Iterator[Pair]:
        """The pairs of a split, blank sides included; an empty cell is a blank side.

        Args:
            split: Its name, or an expression of the library such as "train[:1000]".
            findings: What becomes of texts that hold NUL characters; by default they are errors.

        Raises:
            DataError: There is no such split, or no such column of texts.
        """
        table = (self._sets[split] if split in self._sets else self._ask(split=split)).flatten()
        findings = Findings() if findings is None else findings
        columns = self._data.columns
        names = [_column(side, getattr(columns, side), table.features, self._data.hub) for side in Columns.model_fields]
        row = 0
        for chunk in table.select_columns(list(dict.fromkeys(names))).iter(_TOGETHER):
            for source, target in zip(chunk[names[0]], chunk[names[1]], strict=True):
                row += 1
                if "\0" in (source or "") or "\0" in (target or ""):
                    message = f"{self._data.hub} split {split} row {row} holds a NUL character, which is no text"
                    findings.leave_out(findings.bad("NUL byte", self._data.hub, f"{split}:{row}", message).rule)
                else:
                    yield Pair(source or "", target or "", origin=f"{self._data.hub}:{split}:{row}")

    def _ask(self, split: str | None = None) -> Any:
        try:
            import datasets
        except ImportError:
            raise ConfigError(
                "data.hub needs the library datasets; install it: pip install 'heed-attention[hub]'"
            ) from None
        data = self._data
        load: Callable[..., Any] = datasets.load_dataset
        try:
            return load(data.hub, data.config, split=split, revision=data.revision)
        except ConnectionError as error:
            raise DataError(
                f"data.hub '{data.hub}' is not in the cache and cannot be fetched: {_first_line(error)}; run this once "
                "with a network, or give the folder of a copy as data.hub"
            ) from None
        except (OSError, RuntimeError, ValueError, datasets.exceptions.DatasetsError) as error:
            raise DataError(f"data.hub '{data.hub}': {_first_line(error)}") from None


def _column(side: str, given: int | str | None, features: Any, hub: str) -> str:
    """The name of a side's column, a part of a structure as "translation.en"."""
    texts = [name for name, feature in features.items() if getattr(feature, "dtype", "") in ("string", "large_string")]
    name = side if given is None else given
    if name not in texts:
        hint = f"; its columns of texts: {', '.join(texts)}" if given is None else suggest(str(name), texts)
        raise DataError(f"data.columns.{side}: {hub} has no column of texts '{name}'{hint}")
    return str(name)


def _first_line(error: Exception) -> str:
    return (str(error).splitlines() or [type(error).__name__])[0]
