"""Where each of our tokens stands in the vocabulary of an imported checkpoint, and back.

Ids 0 to 3 are padding, unknown, start and end here; a checkpoint has them anywhere, or lacks some. Its vocabulary is
renumbered when it is read: those four first, the others in their order. The numbering says where each came from.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

import torch
from torch import Tensor

from heed.errors import RunError


@dataclass(frozen=True, slots=True)
class Numbering:
    """Our ids and theirs.

    Attributes:
        theirs: Their id of each of our tokens; None where their vocabulary lacks it. Of a token of theirs that stands
            for two of ours (the padding of Marian is its start too) the first is written back.
        size: Rows of their embedding.
        settings: What their tokenizer files say besides, to be written again.
    """

    theirs: list[int | None]
    size: int
    settings: Mapping[str, Any] = field(default_factory=dict)

    @classmethod
    def same(cls, size: int) -> Numbering:
        """The numbering of a vocabulary that keeps its order: one that was trained here, or has changed since."""
        return cls(list(range(size)), size)

    @classmethod
    def from_json(cls, state: Mapping[str, Any]) -> Numbering:
        """What `as_json` wrote.

        Raises:
            RunError: It is not that.
        """
        theirs, size, settings = state.get("theirs"), state.get("size"), state.get("settings", {})
        if not isinstance(theirs, list) or not isinstance(size, int):
            raise RunError("the numbering of the imported vocabulary is damaged: it needs 'theirs' and 'size'")
        if not all(i is None or (isinstance(i, int) and 0 <= i < size) for i in theirs):
            raise RunError(f"the numbering of the imported vocabulary has ids outside its {size:,} rows")
        return cls(list(theirs), size, dict(settings))

    def as_json(self) -> dict[str, Any]:
        """The numbering for a file."""
        return {"theirs": self.theirs, "size": self.size, "settings": dict(self.settings)}

    def __len__(self) -> int:
        return len(self.theirs)

    @property
    def absent(self) -> list[int]:
        """Our ids of tokens that their vocabulary lacks."""
        return [ours for ours, theirs in enumerate(self.theirs) if theirs is None]

    @property
    def not_restored(self) -> list[int]:
        """Our ids whose rows a checkpoint does not give back: those absent, and those that share a row of theirs."""
        counts = Counter(self.theirs)
        return [ours for ours, theirs in enumerate(self.theirs) if theirs is None or counts[theirs] > 1]

    @property
    def ours(self) -> dict[int, int]:
        """Our id of each of their tokens, the first where there are two."""
        return {theirs: ours for ours, theirs in reversed([*enumerate(self.theirs)]) if theirs is not None}

    def to_ours(self, rows: Tensor, absent: float = 0.0) -> Tensor:
        """A tensor `(their size, ...)` in our order, `(our size, ...)`, with a constant where they lack a token."""
        index = torch.tensor([0 if i is None else i for i in self.theirs], dtype=torch.long)
        result = rows.index_select(0, index)
        if self.absent:
            result[torch.tensor(self.absent, dtype=torch.long)] = absent
        return result

    def to_theirs(self, rows: Tensor) -> Tensor:
        """A tensor `(our size, ...)` in their order, `(their size, ...)`: `to_ours` undone.

        Rows of theirs that no token of ours stands for are zeros.
        """
        places = self.ours
        result = rows.new_zeros((self.size, *rows.shape[1:]))
        result[torch.tensor([*places], dtype=torch.long)] = rows[torch.tensor([*places.values()], dtype=torch.long)]
        return result
