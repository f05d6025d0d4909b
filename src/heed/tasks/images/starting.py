"""Starting a run over pictures from a parent whose pictures may have another size."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from torch import Tensor

from heed.tasks.base.started import Started
from heed.tasks.base.transfer import Parent, Transfers

_BODY = "body."
"""Prefix of the names of a body's tensors."""


@dataclass(frozen=True)
class Interpolated:
    """Tensors of a parent that were interpolated for pictures of another size, each `(rows, d)`."""

    old: tuple[int, int]  # height and width of the parent's pictures
    new: tuple[int, int]
    rows: Mapping[str, tuple[int, int]]  # by name: number of rows before and after

    def __str__(self) -> str:
        (height, width), (new_height, new_width) = self.old, self.new
        rows = "; ".join(f"{name}: {old} rows to {new}" for name, (old, new) in self.rows.items())
        return f"interpolated from pictures of {width} x {height} pixels to {new_width} x {new_height}: {rows}"

    def as_report(self) -> dict[str, Any]:
        """The same for `report.json`."""
        return {"from": list(self.old), "to": list(self.new), "rows": {n: list(rows) for n, rows in self.rows.items()}}


class InterpolatesPositions(Transfers):
    """Mixin of a task that adapts a parent's tensors to its own picture size (`ImageEncoder.adapted`)."""

    body_class: Any
    interpolated: Interpolated | None = None

    def taken_from(self, parent: Parent, own: Mapping[str, Tensor], prefix: str, given: dict[str, Tensor]) -> None:
        """Interpolate positions of patches if the picture size differs; tensors of a different model are unchanged.

        Args as `Transfers.taken_from`.
        """
        body, task = self.body_class, parent.task
        if task.body_class is not body:
            return
        both: tuple[Any, Any] = (task, self)
        old, new = (one.model_and_head()[0] for one in both)
        inside = {name.removeprefix(_BODY): tensor for name, tensor in given.items() if name.startswith(_BODY)}
        adapted = {_BODY + name: tensor for name, tensor in body.adapted(inside, old, new).items()}
        sizes = (old.height, old.width), (new.height, new.width)
        rows = {
            name: (len(given[name]), len(tensor))
            for name, tensor in adapted.items()
            if tensor.shape != given[name].shape and sizes[0] != sizes[1]
        }
        self.interpolated = Interpolated(*sizes, rows) if rows else None
        given |= adapted

    def start(self, model: Any) -> dict[str, Started]:
        """As for every task, and the interpolated tensors."""
        started = super().start(model)
        return started if self.interpolated is None else {**started, "interpolated": self.interpolated}
