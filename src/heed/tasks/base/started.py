"""What a new model begins with instead of what was drawn, for people and for the report."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Protocol

_MOST = 12
"""Names that are listed one by one."""


class Started(Protocol):
    """Initial values that replace drawn weights of a new model; `str` describes them for people."""

    def as_report(self) -> dict[str, Any]:
        """The same for `report.json`."""


@dataclass(frozen=True)
class Taken:
    """The tensors that a model took over from its parent."""

    folder: Path  # the parent
    whole: tuple[str, ...]  # those taken as they are
    tokens: Mapping[str, tuple[int, int]]  # with a row per token, label or column: rows the parent has too, of how many
    new: tuple[str, ...]  # tensors left as drawn
    mapped: Mapping[str, str] = field(default_factory=dict)  # those of the above with another name in the parent
    left: tuple[str, ...] = ()  # tensors of the parent that nothing was taken from

    def __str__(self) -> str:
        found = "".join(f"; {name}: {known:,} of {total:,} tokens" for name, (known, total) in self.tokens.items())
        mapped = "".join(f"; {name} is its {theirs}" for name, theirs in self.mapped.items())
        left = f"; left there: {shortened(self.left)}" if self.left else ""
        new = shortened(self.new) or "none"
        return f"from {self.folder}: {len(self.whole)} tensors whole{found}{mapped}; new: {new}{left}"

    def as_report(self) -> dict[str, Any]:
        """The same for `report.json`."""
        tokens = {name: {"taken": known, "of": total} for name, (known, total) in self.tokens.items()}
        lists = {"whole": list(self.whole), "tokens": tokens, "new": list(self.new), "left": list(self.left)}
        return {"run": str(self.folder), **lists, "mapped": dict(self.mapped)}


def shortened(names: Sequence[str]) -> str:
    """Names of tensors, those of a module that has many of them together: "words.* (6)"."""
    if len(names) <= _MOST:
        return ", ".join(names)
    parts = Counter(name.split(".")[0] for name in names)
    one = {name.split(".")[0]: name for name in names}
    return ", ".join(one[part] if count == 1 else f"{part}.* ({count})" for part, count in parts.items())
