"""What attention looks at (`Keys`), and which source each row looks at (`Rows`).

A source memory, a key-value cache and a tape of past states are one object: prepared keys, values and a mask.
Shapes: B sources, H heads, K keys, R rows (a row is one sequence being written), Q queries per row.
"""

from dataclasses import dataclass, field

import torch
from torch import Tensor

from heed.errors import ShapeError
from heed.shapes import Bool, Float, Int


@dataclass(frozen=True, eq=False)
class Keys:
    """Keys as the score wants them, values and a mask; made by `prepare` of an attention module and never changed.

    The mask is `(batch, key)` or `(batch, query, key)`, True = may attend; None where everything may. `origin` is one
    object for keys that continue one another row by row, so that an observer can put the steps of one sequence into one
    map; keys that were selected begin anew.
    """

    prepared: Float[Tensor, "batch heads key d"]
    value: Float[Tensor, "batch heads key d_value"]
    mask: Bool[Tensor, "batch ..."] | None = None
    origin: object = field(default_factory=object, repr=False)

    def __post_init__(self) -> None:
        if self.prepared.shape[:3] != self.value.shape[:3]:
            raise ShapeError(
                f"keys are (batch, heads, key) {tuple(self.prepared.shape[:3])} but values "
                f"{tuple(self.value.shape[:3])}; each key needs its value"
            )

    def __len__(self) -> int:
        return self.prepared.shape[2]

    def append(self, new: "Keys") -> "Keys":
        """These keys followed by `new`, one sequence; the old object must not be used again."""
        mask = None
        if self.mask is not None or new.mask is not None:
            mask = torch.cat([self._padding_mask(), new._padding_mask()], dim=1)
        return Keys(
            torch.cat([self.prepared, new.prepared], dim=2),  # (B, H, K + new, d)
            torch.cat([self.value, new.value], dim=2),
            mask,
            self.origin,
        )

    def select(self, rows: Int[Tensor, " rows"]) -> "Keys":
        """The keys of the given batch entries, repeats and omissions allowed."""
        mask = None if self.mask is None else self.mask.index_select(0, rows)
        return Keys(self.prepared.index_select(0, rows), self.value.index_select(0, rows), mask)

    def _padding_mask(self) -> Tensor:
        if self.mask is None:
            return torch.ones(len(self.prepared), len(self), dtype=torch.bool, device=self.prepared.device)
        if self.mask.dim() != 2:
            raise ShapeError(
                f"keys with a mask per query, shape {tuple(self.mask.shape)}, cannot be appended to; "
                "give a mask (batch, key)"
            )
        return self.mask


def at_positions(x: Tensor, first: Int[Tensor, " rows"], fill: float) -> Tensor:
    """`(rows, heads, query, key)` to `(rows, heads, query, position)`; `fill` where there is no key.

    Key k of row r is at position `first[r] + k`; keys at negative positions (padding at the left) are left out.
    """
    columns = first.unsqueeze(1) + torch.arange(x.shape[-1], device=x.device)  # (R, K)
    width = max(0, int(columns.max()) + 1) if columns.numel() else 0
    outside = columns.masked_fill(columns < 0, width)[:, None, None].expand_as(x)
    return x.new_full((*x.shape[:-1], width + 1), fill).scatter(-1, outside, x)[..., :width]


def from_positions(x: Tensor, first: Int[Tensor, " rows"], num_keys: int) -> Tensor:
    """Undo `at_positions`; zeros for keys at negative positions."""
    columns = first.unsqueeze(1) + torch.arange(num_keys, device=x.device)  # (R, K)
    found = x.gather(-1, columns.clamp_min(0)[:, None, None].expand(*x.shape[:-1], -1))
    return found.masked_fill((columns < 0)[:, None, None], 0)


class Rows:
    """Which source each row belongs to.

    Several rows may write for one source (the beams of a search). Their queries are laid side by side along the
    query axis of that source instead of copying its keys for each of them.

    Attributes:
        source_of: `(rows,)`, index of each row's source.
        num_sources: Number of sources.
        width: The largest number of rows of a source.
    """

    def __init__(self, source_of: Int[Tensor, " rows"], num_sources: int) -> None:
        self.source_of = source_of
        self.num_sources = num_sources
        self.width, self._slots, self._place = self._layout()

    @classmethod
    def repeat(cls, num_sources: int, times: int = 1, device: torch.device | str | None = None) -> "Rows":
        """`times` rows for each source, those of one source beside each other; the identity for 1."""
        return cls(torch.arange(num_sources, device=device).repeat_interleave(times), num_sources)

    def __len__(self) -> int:
        return len(self.source_of)

    @property
    def is_identity(self) -> bool:
        """Whether row i belongs to source i."""
        return self.width == 1 and self._slots is None

    @property
    def in_order(self) -> bool:
        """Whether the rows of source 0 come first, then as many of source 1, and so on."""
        return self._slots is None

    def _layout(self) -> tuple[int, Tensor | None, Tensor | None]:
        """Rows per source; and, unless rows already lie in that order, where each goes.

        Returns:
            width, the largest number of rows of a source; slots `(sources, width)`, the row in each slot (unused
            slots repeat row 0 and are thrown away again); place `(rows,)`, the flat slot of each row.
        """
        source_of, num_rows, device = self.source_of, len(self), self.source_of.device
        width = num_rows // self.num_sources if self.num_sources else 0
        in_order = torch.arange(self.num_sources, device=device).repeat_interleave(width)
        if width * self.num_sources == num_rows and torch.equal(in_order, source_of):
            return width, None, None
        order = torch.argsort(source_of, stable=True)
        counts = torch.bincount(source_of, minlength=self.num_sources)
        width = int(counts.max())
        first = torch.cumsum(counts, 0) - counts
        rank = torch.arange(num_rows, device=device) - first[source_of[order]]  # position among its source's rows
        place = torch.empty_like(source_of)
        place[order] = source_of[order] * width + rank
        slots = torch.zeros(self.num_sources * width, dtype=torch.long, device=device)
        slots[place] = torch.arange(num_rows, device=device)
        return width, slots.view(self.num_sources, width), place

    def group(self, x: Float[Tensor, "rows heads query d"]) -> Float[Tensor, "sources heads grouped d"]:
        """Lay the queries of the rows of one source side by side: `(R, H, Q, d)` to `(B, H, width * Q, d)`."""
        if self.is_identity:
            return x
        _, heads, num_queries, d = x.shape
        if self._slots is not None:
            x = x[self._slots.flatten()]
        x = x.view(self.num_sources, self.width, heads, num_queries, d).transpose(1, 2)
        return x.reshape(self.num_sources, heads, self.width * num_queries, d)

    def ungroup(self, x: Float[Tensor, "sources heads grouped d"]) -> Float[Tensor, "rows heads query d"]:
        """Undo `group`: `(B, H, width * Q, d)` to `(R, H, Q, d)`."""
        if self.is_identity:
            return x
        _, heads, grouped, d = x.shape
        num_queries = grouped // self.width
        x = x.view(self.num_sources, heads, self.width, num_queries, d).transpose(1, 2)
        x = x.reshape(self.num_sources * self.width, heads, num_queries, d)
        return x if self._place is None else x[self._place]

    def select(self, rows: Int[Tensor, " selected"]) -> tuple["Rows", Tensor | None]:
        """Rows for `rows[0], rows[1], ...`, with sources that no row belongs to any more left out.

        Returns:
            The new rows, and the sources that stay (an index for `Keys.select`), or None where all do.
        """
        source_of = self.source_of.index_select(0, rows)
        kept, renumbered = torch.unique(source_of, return_inverse=True)
        if len(kept) == self.num_sources:
            return Rows(source_of, self.num_sources), None
        return Rows(renumbered, len(kept)), kept
