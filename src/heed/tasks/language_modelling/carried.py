"""The state of a recurrent model between batches, stored by row: truncated back-propagation through time.

    batch n reads chunk n of every row, from the state after batch n - 1; no gradient flows across batches

Source: Williams and Peng 1990, Neural Computation 2 (4), truncated back-propagation; Zaremba et al. 2014
(arXiv:1409.2329), section 4.1, for minibatches of contiguous rows.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

from heed.attention import Rows
from heed.models.base import LanguageModel
from heed.tasks.language_modelling.blocks import Streams, TokenBatch

Packed = Mapping[str, Tensor]
"""A state as tensors by name; dimension 0 of each runs over rows."""
_ROWS = "rows"


@dataclass(frozen=True)
class RowBatch(TokenBatch):
    """Chunks of contiguous rows.

    Attributes:
        rows: Number of each row within its pass.
        begins: True for the first chunks of the pass, before which there is no state.
    """

    rows: tuple[int, ...] = ()
    begins: bool = True

    @classmethod
    def of(cls, streams: Streams, indices: list[int], epoch: int) -> RowBatch:
        """Collate these chunks: chunk c of row r has the index c * rows + r."""
        batch = streams.collate(indices, epoch)
        return cls(**vars(batch), rows=tuple(i % streams.rows for i in indices), begins=indices[0] < streams.rows)


class CarriedRows:
    """The state after the last chunk of every row that this process reads.

    States are stored by row number, so that micro-batches, processes and a resumed run find their own. Rows that are
    read together are stored together: tensors of other rows may differ in shape (a tape that is not yet full).
    """

    def __init__(self, tensors: Packed | None = None) -> None:
        """Begin empty, or from the result of `tensors()`."""
        self._groups: dict[tuple[int, ...], Packed] = {}
        for name, tensor in (tensors or {}).items():
            number, _, key = name.partition(".")
            if key == _ROWS:
                own = {k.partition(".")[2]: t for k, t in (tensors or {}).items() if k.partition(".")[0] == number}
                self._groups[tuple(tensor.tolist())] = {k: t for k, t in own.items() if k != _ROWS}

    def tensors(self) -> dict[str, Tensor]:
        """Return all states as tensors by name, for a checkpoint."""
        found: dict[str, Tensor] = {}
        for number, (rows, packed) in enumerate(self._groups.items()):
            found[f"{number}.{_ROWS}"] = torch.tensor(rows)
            found |= {f"{number}.{name}": tensor.contiguous().clone() for name, tensor in packed.items()}
        return found

    def read(self, model: LanguageModel, batch: RowBatch) -> Tensor:
        """Compute the hidden states `(batch, length, d)` of a batch, from the stored state of its rows.

        In training the state after the batch is stored.
        """
        rows, device = batch.rows, batch.tokens.device
        packed = None if batch.begins else self._of(rows)
        if packed is None:
            state: Any = model.start(None, Rows.repeat(len(rows), device=device))
        else:
            state = model.unpack({name: tensor.to(device) for name, tensor in packed.items()})
        hidden, after = model.read(batch.tokens, state)
        if model.training:
            self._keep(rows, model.pack(after))
        return hidden

    def _keep(self, rows: tuple[int, ...], packed: Packed) -> None:
        """Replace the state of some rows; rows that were read together with them keep theirs."""
        for group in [group for group in self._groups if group != rows and not set(group).isdisjoint(rows)]:
            old = self._groups.pop(group)
            rest = [n for n, row in enumerate(group) if row not in rows]
            if rest:
                self._groups[tuple(group[n] for n in rest)] = {name: tensor[rest] for name, tensor in old.items()}
        self._groups[rows] = packed

    def _of(self, rows: tuple[int, ...]) -> Packed | None:
        """Return the state of some rows; None if any of them has none."""
        if rows in self._groups:
            return self._groups[rows]
        places = {row: (group, n) for group in self._groups for n, row in enumerate(group)}
        if any(row not in places for row in rows):
            return None
        parts = [(self._groups[places[row][0]], places[row][1]) for row in rows]
        return {name: torch.stack([packed[name][n] for packed, n in parts]) for name in parts[0][0]}
