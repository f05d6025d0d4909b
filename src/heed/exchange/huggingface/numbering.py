"""Mapping between our token ids and those of an imported checkpoint.

Ids 0 to 3 are padding, unknown, start and end in heed; a checkpoint has them anywhere, or lacks some. Its vocabulary is
renumbered when it is read: those four first, then the others in order. The numbering records the original ids.
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
    """The checkpoint's ids of our tokens.

    Attributes:
        theirs: The checkpoint's id of each of our tokens; None if its vocabulary lacks the token. If one of its tokens
            stands for two of ours (Marian's padding is also its start token), the first is written back.
        size: Rows of the checkpoint's embedding.
        settings: Further settings of its tokenizer files, to be written back.
    """

    theirs: list[int | None]
    size: int
    settings: Mapping[str, Any] = field(default_factory=dict)

    @classmethod
    def same(cls, size: int) -> Numbering:
        """The identity, for a vocabulary that was trained here or has changed since the import."""
        return cls(list(range(size)), size)

    @classmethod
    def from_json(cls, state: Mapping[str, Any]) -> Numbering:
        """The numbering from values written by `as_json`.

        Raises:
            RunError: The values are damaged.
        """
        theirs, size, settings = state.get("theirs"), state.get("size"), state.get("settings", {})
        if not isinstance(theirs, list) or not isinstance(size, int):
            raise RunError("the numbering of the imported vocabulary is damaged: it needs 'theirs' and 'size'")
        if not all(i is None or (isinstance(i, int) and 0 <= i < size) for i in theirs):
            raise RunError(f"the numbering of the imported vocabulary has ids outside its {size:,} rows")
        return cls(list(theirs), size, dict(settings))

    def as_json(self) -> dict[str, Any]:
        """The numbering as plain values for JSON."""
        return {"theirs": self.theirs, "size": self.size, "settings": dict(self.settings)}

    def __len__(self) -> int:
        return len(self.theirs)

    @property
    def absent(self) -> list[int]:
        """Our ids of tokens that the checkpoint's vocabulary lacks."""
        return [ours for ours, theirs in enumerate(self.theirs) if theirs is None]

    @property
    def not_restored(self) -> list[int]:
        """Our ids whose rows a checkpoint cannot restore: absent ones, and those that share a row with another."""
        counts = Counter(self.theirs)
        return [ours for ours, theirs in enumerate(self.theirs) if theirs is None or counts[theirs] > 1]

    @property
    def ours(self) -> dict[int, int]:
        """Our id of each of the checkpoint's tokens, the first if there are two."""
        return {theirs: ours for ours, theirs in reversed([*enumerate(self.theirs)]) if theirs is not None}

    def to_ours(self, rows: Tensor, absent: float = 0.0) -> Tensor:
        """Reorder a tensor `(their size, ...)` to `(our size, ...)`, with a constant for tokens that they lack."""
        index = torch.tensor([0 if i is None else i for i in self.theirs], dtype=torch.long)
        result = rows.index_select(0, index)
        if self.absent:
            result[torch.tensor(self.absent, dtype=torch.long)] = absent
        return result

    def to_theirs(self, rows: Tensor) -> Tensor:
        """Reorder a tensor `(our size, ...)` to `(their size, ...)`, the inverse of `to_ours`.

        Their rows without a token of ours are zeros.
        """
        places = self.ours
        result = rows.new_zeros((self.size, *rows.shape[1:]))
        result[torch.tensor([*places], dtype=torch.long)] = rows[torch.tensor([*places.values()], dtype=torch.long)]
        return result
