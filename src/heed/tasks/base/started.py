"""Descriptions of the initial weights of a new model that are not random, for people and for the report."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Protocol

_MOST = 12
"""Most names that are listed one by one."""


class Started(Protocol):
    """Initial values that replace random weights of a new model; `str` describes them for people."""

    def as_report(self) -> dict[str, Any]:
        """The same for `report.json`."""


@dataclass(frozen=True)
class Taken:
    """The tensors that a model copied from its parent."""

    folder: Path  # of the parent
    whole: tuple[str, ...]  # tensors copied as they are
    tokens: Mapping[str, tuple[int, int]]  # tensors with a row per token, label or column: rows copied, rows in all
    new: tuple[str, ...]  # tensors left at their random values
    mapped: Mapping[str, str] = field(default_factory=dict)  # copied tensors with another name in the parent
    left: tuple[str, ...] = ()  # tensors of the parent that were not copied

    def __str__(self) -> str:
        found = "".join(f"; {name}: {known:,} of {total:,} tokens" for name, (known, total) in self.tokens.items())
        mapped = "".join(f"; {name} comes from {theirs} of that run" for name, theirs in self.mapped.items())
        left = f"; not copied: {shortened(self.left)}" if self.left else ""
        new = shortened(self.new) or "none"
        return f"from {self.folder}: {len(self.whole)} tensors copied whole{found}{mapped}; new: {new}{left}"

    def as_report(self) -> dict[str, Any]:
        """The same for `report.json`."""
        tokens = {name: {"taken": known, "of": total} for name, (known, total) in self.tokens.items()}
        lists = {"whole": list(self.whole), "tokens": tokens, "new": list(self.new), "left": list(self.left)}
        return {"run": str(self.folder), **lists, "mapped": dict(self.mapped)}


def shortened(names: Sequence[str]) -> str:
    """Names of tensors; if there are many, those of one module together: "words.* (6)"."""
    if len(names) <= _MOST:
        return ", ".join(names)
    parts = Counter(name.split(".")[0] for name in names)
    one = {name.split(".")[0]: name for name in names}
    return ", ".join(one[part] if count == 1 else f"{part}.* ({count})" for part, count in parts.items())
