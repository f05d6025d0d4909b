"""The keys and values that attention reads (`Keys`), and which source each row reads (`Rows`).

A source memory, a key-value cache and a tape of past states are all `Keys`: prepared keys, values and a mask.
Shapes: B sources, H heads, K keys, R rows (a row is one sequence being generated), Q queries per row.
"""

import math
from collections.abc import Callable
from dataclasses import dataclass, field

import torch
from torch import Tensor
from torch.nn.functional import pad

from heed.attention.host import host_copy, sent
from heed.errors import ShapeError
from heed.shapes import Bool, Float, Int

_LEAST = 16
"""Least number of spare places in new memory for keys; where there are more keys, it gets as many."""

_VECTOR = 16
"""Elements in a vector register: over fewer, torch's softmax is not vectorised and takes up to ten times as long."""


class _Room:
    """Preallocated memory for keys and values; places from `used` on are unwritten."""

    def __init__(self, like: "Keys", num_rows: int, places: int) -> None:
        p, v = like.prepared, like.value
        self.prepared = p.new_empty(num_rows, p.shape[1], places, p.shape[3])
        self.value = v.new_empty(num_rows, v.shape[1], places, v.shape[3])
        self.used = 0

    def next(self, count: int) -> tuple[Tensor, Tensor]:
        """The next places, for keys and values, which are used from now on."""
        self.used += count
        return self.newest(count)

    def newest(self, count: int) -> tuple[Tensor, Tensor]:
        """The last `count` used places."""
        return self.prepared.narrow(2, self.used - count, count), self.value.narrow(2, self.used - count, count)


def _new_origin() -> object:
    """An identity, except in a compiled pass, which is never observed, and whose graph it would split."""
    return None if torch.compiler.is_compiling() else object()


@dataclass(frozen=True, eq=False)
class Keys:
    """Prepared keys, values and a mask; made by the `prepare` of an attention module, and immutable.

    The mask is `(batch, key)` or `(batch, query, key)`, True = may attend; None allows every key. Keys that continue
    one another row by row share one `origin`, so that an observer can put the steps of one sequence into one map.

    Raises:
        ShapeError: Keys and values differ in batch size, heads or number.
    """

    prepared: Float[Tensor, "batch heads key d"]
    value: Float[Tensor, "batch heads key d_value"]
    mask: Bool[Tensor, "batch ..."] | None = None
    origin: object = field(default_factory=_new_origin, repr=False)
    _room: _Room | None = field(default=None, repr=False)  # memory in which these keys lie
    _end: int = field(default=0, repr=False)  # place after the last of them there

    def __post_init__(self) -> None:
        if self.prepared.shape[:3] != self.value.shape[:3]:
            raise ShapeError(
                f"keys are (batch, heads, key) {tuple(self.prepared.shape[:3])} but values "
                f"{tuple(self.value.shape[:3])}; each key needs its value"
            )

    def __len__(self) -> int:
        return self.prepared.shape[2]

    def append(self, new: "Keys") -> "Keys":
        """These keys followed by `new`, as one sequence.

        Without a gradient they are written to preallocated memory, in which longer sequences share their beginning.

        Raises:
            ShapeError: One of the masks is `(batch, query, key)`.
        """
        mask = None
        if self.mask is not None or new.mask is not None:
            mask = torch.cat([self._padding_mask(), new._padding_mask()], dim=1)
        if torch.is_grad_enabled() or torch.compiler.is_compiling():
            prepared = torch.cat([self.prepared, new.prepared], dim=2)  # (B, H, K + new, d)
            return Keys(prepared, torch.cat([self.value, new.value], dim=2), mask, self.origin)
        room, count = self._room, len(new)
        if room is None or not self._may_write(room, count):
            room = self._moved(len(self) + count + max(_LEAST, len(self)))
        for places, part in zip(room.next(count), (new.prepared, new.value), strict=True):
            places.copy_(part)
        return Keys(*room.newest(len(self) + count), mask, self.origin, room, room.used)

    def _may_write(self, room: _Room, count: int) -> bool:
        """Whether the room has `count` places after these keys, and nothing else was written there."""
        writable = room.value.is_inference() == torch.is_inference_mode_enabled()
        return writable and room.used == self._end and self._end + count <= room.value.shape[2]

    def _moved(self, places: int, rows: Tensor | None = None) -> _Room:
        """New memory of so many places, with these keys, or those of some batch entries, in the first ones."""
        room = _Room(self, len(self.value) if rows is None else len(rows), places)
        for whole, part in zip(room.next(len(self)), (self.prepared, self.value), strict=True):
            whole.copy_(part) if rows is None else torch.index_select(part, 0, rows, out=whole)
        return room

    def newest(self, count: int) -> "Keys":
        """The last `count` keys, or all if there are fewer."""
        if len(self) <= count:
            return self
        mask = None if self.mask is None else self.mask[:, -count:]
        return Keys(self.prepared[:, :, -count:], self.value[:, :, -count:], mask, self.origin, self._room, self._end)

    def select(self, rows: Int[Tensor, " rows"]) -> "Keys":
        """The keys of the given batch entries; entries may be repeated or left out."""
        mask = None if self.mask is None else self.mask.index_select(0, rows)
        if self._room is None or torch.is_grad_enabled():
            return Keys(self.prepared.index_select(0, rows), self.value.index_select(0, rows), mask)
        room = self._moved(max(self._room.value.shape[2], len(self) + 1), rows)
        return Keys(*room.newest(len(self)), mask, _room=room, _end=room.used)

    def _padding_mask(self) -> Tensor:
        if self.mask is None:
            return torch.ones(len(self.prepared), len(self), dtype=torch.bool, device=self.prepared.device)
        if self.mask.dim() != 2:
            raise ShapeError(
                f"keys with a mask per query, shape {tuple(self.mask.shape)}, cannot be appended to; "
                "give a mask (batch, key)"
            )
        return self.mask


class SearchKeys:
    """Keys and values of one attention module in a search without a gradient, written and reordered in place.

    The rows of a source (the beams of a search) lie side by side and share its keys: `blocked` hides from each row
    those that it does not continue. Reordering beams therefore copies no keys.

    Attributes:
        both: Keys times the score's scale or keys of scaled queries, and values, `(2, sources, heads, places, d)`.
        length: Number of places in use.
        width: Number of rows of each source.
        blocked: `(sources, 1, width or 1, length)`, added to the scores: -inf where a row may not attend, else 0; None
            if every row attends to all keys.
        turn: Rotates queries and keys of the next position.
    """

    def __init__(self, both: Tensor, length: int) -> None:
        self.both = both
        self.length = length
        self.width = 1
        self.blocked: Tensor | None = None
        self.turn: Callable[[Tensor], Tensor] | None = None
        self._look()

    @classmethod
    def of(cls, keys: Keys, scale: float = 1.0, spare: int = 0) -> "SearchKeys":
        """A copy of keys, times `scale`, with room for `spare` further ones."""
        p, length = keys.prepared, len(keys)
        both = p.new_empty(2, *p.shape[:2], length + spare, p.shape[3])
        torch.mul(p, scale, out=both[0, :, :, :length])
        both[1, :, :, :length] = keys.value
        return cls(both, length)

    def _look(self) -> None:
        """Make the views of keys, `(sources * heads, d, places)`, and of values, `(sources * heads, places, d)`."""
        keys, self._values = self.both.flatten(1, 2).unbind()
        self._keys, self._places = keys.transpose(1, 2), keys.shape[1]

    def append(self, new: Float[Tensor, "2 sources heads n d"]) -> None:
        """Write further keys and values; room is doubled when there is none left."""
        length = self.length + new.shape[3]
        if length > self._places:
            shape, before = list(self.both.shape), self.both
            shape[3] = max(_LEAST, 2 * length)
            self.both = before.new_empty(shape)
            self.both[:, :, :, : self.length] = before[:, :, :, : self.length]
            self._look()
        self.both.narrow(3, self.length, new.shape[3]).copy_(new)
        self.length = length

    def context(self, query: Float[Tensor, "batch width d"]) -> Float[Tensor, "rows d_model"]:
        """The contexts of all rows, from the queries of each source and head: `(sources * heads, width, d)`.

        Two batched products and a softmax, which for few queries on a CPU are faster than torch's fused kernel.
        """
        keys, values, length = self._keys, self._values, self.length
        if length < self._places:
            keys, values = keys.narrow(2, 0, length), values.narrow(1, 0, length)
        scores = torch.bmm(query, keys)
        if self.blocked is not None:
            scores.view(len(self.blocked), -1, self.width, length).add_(self.blocked)
        if length < _VECTOR and scores.numel() > 16 * _VECTOR:
            weights = torch.softmax(pad(scores, (0, _VECTOR - length), value=-math.inf), dim=-1).narrow(2, 0, length)
        else:
            weights = torch.softmax(scores, dim=-1)
        context = torch.bmm(weights, values)  # (sources * heads, width, d)
        _, sources, heads, _, d = self.both.shape
        if self.width > 1:
            context = context.view(sources, heads, self.width, d).transpose(1, 2)
        return context.reshape(sources * self.width, heads * d)

    def move(self, count: int, to: Tensor, of: Tensor) -> None:
        """Put sources `of` in the places `to`, and keep the first `count` sources."""
        if len(to):
            self.both[:, to] = self.both[:, of]
        self.both = self.both[:, :count]
        self._look()

    def copy(self, length: int) -> "SearchKeys":
        """A copy of the first `length` keys."""
        return SearchKeys(self.both.clone(), length)


def key_positions(
    mask: Tensor | None, first: int | Tensor, num_rows: int, num_keys: int, device: torch.device
) -> Int[Tensor, "rows key"] | None:
    """The absolute position of each key, negative for padding; None if key k is at position k in every row.

    Args:
        mask: `(rows, key)` of a cache, or None. After prompts padded on the right, a cache has padding between a
            prompt and the keys that follow; padding has no position.
        first: Position of the first key, one number or one per row.
        num_rows: Number of rows.
        num_keys: Number of keys.
        device: Device of the result.
    """
    if not (isinstance(first, int) and first == 0):
        firsts = torch.as_tensor(first, device=device).reshape(-1, 1).expand(num_rows, 1)
        return firsts + torch.arange(num_keys, device=device) if firsts.any() else None
    if mask is None or mask.dim() != 2 or not (mask[:, 1:] & ~mask[:, :-1]).any():
        return None
    return (mask.long().cumsum(1) - 1).masked_fill(~mask, -1)


def at_positions(x: Tensor, positions: Int[Tensor, "rows key"], fill: float) -> Tensor:
    """Scatter keys to their positions: `(rows, heads, query, key)` to `(rows, heads, query, position)`.

    Positions without a key get `fill`; keys at negative positions are left out.
    """
    width = max(0, int(positions.max()) + 1) if positions.numel() else 0
    outside = positions.masked_fill(positions < 0, width)[:, None, None].expand_as(x)
    return x.new_full((*x.shape[:-1], width + 1), fill).scatter(-1, outside, x)[..., :width]


def from_positions(x: Tensor, positions: Int[Tensor, "rows key"]) -> Tensor:
    """Undo `at_positions`; keys at negative positions get zeros."""
    gathered = x.gather(-1, positions.clamp_min(0)[:, None, None].expand(*x.shape[:-1], -1))
    return gathered.masked_fill((positions < 0)[:, None, None], 0)


class Rows:
    """Which source each row belongs to.

    Several rows may belong to one source (the beams of a search). Their queries are concatenated along the query
    axis of that source, so that its keys need not be copied for each row.

    Attributes:
        source_of: `(rows,)`, index of each row's source.
        num_sources: Number of sources.
        width: Largest number of rows of any source.
    """

    def __init__(self, source_of: Int[Tensor, " rows"], num_sources: int, width: int | None = None) -> None:
        """Pass `width` if rows are known to lie source by source, `width` each: this avoids a GPU synchronisation."""
        self.source_of = source_of
        self.num_sources = num_sources
        self.width, self._slots, self._place = self._layout() if width is None else (width, None, None)

    @classmethod
    def repeat(cls, num_sources: int, times: int = 1, device: torch.device | str | None = None) -> "Rows":
        """`times` adjacent rows for each source; the identity if `times` is 1."""
        source_of = torch.arange(num_sources, device=device).repeat_interleave(times)
        return cls(source_of, num_sources, width=times if num_sources else 0)

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
        """Assign each row a slot of its source; slots and places are None if the rows are already in order.

        Returns:
            width, the largest number of rows of any source; slots `(sources, width)`, the row in each slot (unused
            slots repeat row 0, and `ungroup` discards them); place `(rows,)`, the flat slot of each row.
        """
        source_of, num_rows = host_copy(self.source_of), len(self)
        device, own_device = source_of.device, self.source_of.device
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
        return width, sent(slots.view(self.num_sources, width), own_device), sent(place, own_device)

    def group(
        self, x: Float[Tensor, "rows heads query d"] | Bool[Tensor, "rows heads query d"]
    ) -> Float[Tensor, "sources heads grouped d"] | Bool[Tensor, "sources heads grouped d"]:
        """Concatenate the queries of each source's rows: `(R, H, Q, d)` to `(B, H, width * Q, d)`."""
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
        """Rows for `rows[0], rows[1], ...`; sources that have no row left are dropped.

        Returns:
            The new rows, and the indices of the remaining sources (for `Keys.select`), or None if all remain.
        """
        in_order = torch.arange(self.num_sources).repeat_interleave(self.width)
        row_numbers, mine = host_copy(rows), in_order if self.in_order else host_copy(self.source_of)
        if row_numbers.device != mine.device:  # otherwise computed on the CPU: a GPU need not be waited for
            row_numbers, mine = rows, self.source_of
        source_of = mine.index_select(0, row_numbers)
        remaining, renumbered = torch.unique(source_of, return_inverse=True)
        renumbered = sent(renumbered, rows.device)
        if len(remaining) == self.num_sources:
            return Rows(renumbered, self.num_sources), None
        return Rows(renumbered, len(remaining)), sent(remaining, rows.device)


@dataclass(frozen=True, eq=False)
class Scope:
    """Which keys each row may attend to, and the positions of queries and keys for observers and edits."""

    causal: bool = False  # whether the future is masked; the last query is at the newest position
    rows: Rows | None = None  # which entry of the keys each row attends to; row i to entry i by default
    offset: int | Tensor = 0  # absolute position of the first query, one number or one per row
    key_offset: int | Tensor = 0  # the same for the first key
    seen: Bool[Tensor, "rows key"] | None = None  # the keys of its entry that each row may attend to; all by default

    def within(self, mask: Tensor | None, num_queries: int) -> Tensor | None:
        """Combine the mask of the keys, `(batch, key)`, with `seen`.

        The result is `(batch, key)` if row i attends to entry i, otherwise `(batch, query, key)` over the grouped
        queries.
        """
        if self.seen is None:
            return mask
        if self.rows is None or self.rows.is_identity:
            return self.seen if mask is None else mask & self.seen
        grouped = self.rows.group(self.seen[:, None, None].expand(-1, 1, num_queries, -1)).squeeze(1)
        return grouped if mask is None else grouped & mask.unsqueeze(1)

    def positions(self, queries: Tensor) -> Int[Tensor, "rows query"]:
        """The absolute position of each of the queries `(rows, heads, query, d)`."""
        first = torch.as_tensor(self.offset, device=queries.device).reshape(-1, 1).expand(len(queries), 1)
        return first + torch.arange(queries.shape[2], device=queries.device)
