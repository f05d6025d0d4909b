"""What a new model begins with instead of what was drawn, for people and for the report."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Protocol


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

    def __str__(self) -> str:
        found = "".join(f"; {name}: {known:,} of {total:,} tokens" for name, (known, total) in self.tokens.items())
        return f"from {self.folder}: {len(self.whole)} tensors whole{found}; new: {', '.join(self.new) or 'none'}"

    def as_report(self) -> dict[str, Any]:
        """The same for `report.json`."""
        tokens = {name: {"taken": known, "of": total} for name, (known, total) in self.tokens.items()}
        return {"run": str(self.folder), "whole": list(self.whole), "tokens": tokens, "new": list(self.new)}
