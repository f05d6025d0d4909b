"""States of rows that go on from batch to batch (truncated back-propagation through time).

Source: Williams and Peng 1990, Neural Computation 2 (4).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import torch
from torch import Tensor

Packed = Mapping[str, Tensor]
"""A state as tensors by name; dimension 0 of each runs over rows."""
_ROWS = "rows"


class CarriedRows:
    """The state after the last batch of every row that this process reads.

    States are stored by row number, so that micro-batches, processes and a resumed run find their own. Rows that are
    read together are stored together: tensors of other rows may differ in shape (a tape that is not yet full).
    """

    def __init__(self, tensors: Packed | None = None) -> None:
        """Begin empty, or from the result of `tensors()`."""
        groups: dict[str, dict[str, Tensor]] = {}
        for name, tensor in (tensors or {}).items():
            number, _, key = name.partition(".")
            groups.setdefault(number, {})[key] = tensor
        self._groups: dict[tuple[int, ...], Packed] = {tuple(own.pop(_ROWS).tolist()): own for own in groups.values()}

    def tensors(self) -> dict[str, Tensor]:
        """Return all states as tensors by name, for a checkpoint."""
        made: dict[str, Tensor] = {}
        for number, (rows, packed) in enumerate(self._groups.items()):
            made[f"{number}.{_ROWS}"] = torch.tensor(rows)
            made |= {f"{number}.{name}": tensor.contiguous().clone() for name, tensor in packed.items()}
        return made

    def keep(self, rows: Sequence[int], packed: Packed) -> None:
        """Replace the state of some rows; rows that were read together with them keep theirs."""
        rows = tuple(rows)
        for group in [group for group in self._groups if group != rows and not set(group).isdisjoint(rows)]:
            old = self._groups.pop(group)
            rest = [n for n, row in enumerate(group) if row not in rows]
            if rest:
                self._groups[tuple(group[n] for n in rest)] = {name: tensor[rest] for name, tensor in old.items()}
        self._groups[rows] = packed

    def of(self, rows: Sequence[int]) -> Packed | None:
        """Return the state of some rows; None if any of them has none."""
        rows = tuple(rows)
        if rows in self._groups:
            return self._groups[rows]
        places = {row: (group, n) for group in self._groups for n, row in enumerate(group)}
        if any(row not in places for row in rows):
            return None
        parts = [(self._groups[places[row][0]], places[row][1]) for row in rows]
        return {name: torch.stack([packed[name][n] for packed, n in parts]) for name in parts[0][0]}
