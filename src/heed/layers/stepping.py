"""A stack of decoder blocks that writes one token at a time, as fast as torch's operations allow.

The blocks of `heed.layers.transformer` are the specification, and tests hold this to them. What it does otherwise:

- Queries, keys and values of self-attention come from one product.
- Keys and values are written in place, into memory with room for more.
- The beams of one source share its keys: those that any of them wrote lie side by side, and a mask says which of them
  each beam descends from. So nothing is copied when beams move, and what they have in common is there once.
- Two batched products and a softmax instead of the fused kernel, which on a CPU takes longer for a single query.
- There are at least 16 keys, those at the end masked: a softmax over fewer numbers takes longer.

Shapes: B sources, W beams a source, R = B * W rows, H heads, C room for keys, S source positions.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from copy import copy
from dataclasses import dataclass
from typing import NamedTuple

import torch
from torch import Tensor, nn

from heed.attention import Keys, MultiHeadAttention, Rows
from heed.kernels import large_empty, linear
from heed.layers.transformer import DecoderBlock, Residual
from heed.shapes import Float, Int

__all__ = ["PlainState", "SteppingBlock", "SteppingState"]

_FEWEST = 16
_STEPS = 16
"""Steps that there is room for at a time: what is copied for more is little, and so is what lies empty in between."""


class _Linear(NamedTuple):
    weight: Tensor
    bias: Tensor

    @classmethod
    def of(cls, *layers: nn.Linear) -> _Linear:
        """One layer, or several over one input as one."""
        if len(layers) == 1:
            return cls(layers[0].weight, layers[0].bias)
        return cls(torch.cat([layer.weight for layer in layers]), torch.cat([layer.bias for layer in layers]))


class _Around(NamedTuple):
    """A residual connection with its normalisation."""

    first: bool
    shape: tuple[int, ...]
    weight: Tensor
    bias: Tensor
    eps: float

    @classmethod
    def of(cls, around: Residual) -> _Around:
        norm = around.norm
        return cls(around.first, norm.normalized_shape, norm.weight, norm.bias, norm.eps)

    def before(self, x: Tensor) -> Tensor:
        return torch.layer_norm(x, *self[1:]) if self.first else x

    def after(self, x: Tensor, new: Tensor) -> Tensor:
        new.add_(x)
        return new if self.first else torch.layer_norm(new, *self[1:])


class SteppingBlock(NamedTuple):
    """The parameters of a block, looked up once and not at every step."""

    scale: float
    around_attention: _Around
    query_key_value: _Linear
    out: _Linear
    around_cross: _Around
    cross_query: _Linear
    cross_out: _Linear
    around_feed_forward: _Around
    inner: _Linear
    outer: _Linear

    @classmethod
    def of(cls, block: DecoderBlock) -> SteppingBlock:
        """Those of a block that looks at a memory."""
        own, cross, ahead = block.attention, block.cross, block.feed_forward
        assert isinstance(cross, MultiHeadAttention)
        assert own.score.scale is not None
        return cls(
            own.score.scale,
            _Around.of(block.around_attention),
            _Linear.of(own.w_query, own.w_key, own.w_value),
            _Linear.of(own.w_out),
            _Around.of(block.around_cross),
            _Linear.of(cross.w_query),
            _Linear.of(cross.w_out),
            _Around.of(block.around_feed_forward),
            _Linear.of(ahead.inner),
            _Linear.of(ahead.outer),
        )


class _Memory:
    """The keys and values of every block for some sources, written and moved in place.

    Attributes:
        blocks: Per block, keys and values `(2, B, H, C, d)`; of B the first `num_sources` are in use.
        num_sources: Number of sources.
        num_keys: Keys of each source.
        views: Per block, keys and values as batches of matrices, `(B * H, C, d)` each.
    """

    def __init__(self, blocks: list[Tensor], num_sources: int, num_keys: int) -> None:
        self.blocks = blocks
        self.num_sources = num_sources
        self.num_keys = num_keys
        self.views: list[tuple[Tensor, Tensor]] = []
        self._look()

    @classmethod
    def of(cls, keys: Sequence[Keys | None], shape: tuple[int, int, int], like: Tensor) -> _Memory:
        """From each block's keys, or empty."""
        num_sources, heads, d = shape
        num_keys = 0 if keys[0] is None else len(keys[0])
        blocks = []
        for own in keys:
            block = large_empty((2, num_sources, heads, max(num_keys, _FEWEST), d), like)
            if own is not None:
                block[0, :, :, :num_keys], block[1, :, :, :num_keys] = own.prepared, own.value
            block[:, :, :, num_keys:_FEWEST] = 0.0  # no weight is put on them, but 0 times NaN would be NaN
            blocks.append(block)
        return cls(blocks, num_sources, num_keys)

    @property
    def room(self) -> int:
        """Keys that there is room for."""
        return self.blocks[0].shape[3]

    @property
    def width(self) -> int:
        """Number of keys that are looked at."""
        return max(self.num_keys, _FEWEST)

    def _look(self) -> None:
        halves = (block[:, : self.num_sources].flatten(1, 2).unbind() for block in self.blocks)
        self.views = [(keys, values) for keys, values in halves]

    def make_room(self, count: int) -> None:
        """See that `count` further keys fit."""
        if self.num_keys + count > self.room:
            room = self.num_keys + count * _STEPS
            for n, block in enumerate(self.blocks):
                heads, _, d = block.shape[2:]
                self.blocks[n] = large_empty((2, self.num_sources, heads, room, d), block)
                self.blocks[n][:, :, :, : self.num_keys] = block[:, : self.num_sources, :, : self.num_keys]
            self._look()

    def select(self, sources: list[int], moved: tuple[Tensor, Tensor]) -> None:
        """Source i becomes what source `sources[i]` is, each at most once; `moved` as `_moves` gives it."""
        to, of = moved
        if len(to):
            for block in self.blocks:
                block[:, to] = block[:, of]
        self.num_sources = len(sources)
        self._look()

    def copy(self, num_keys: int) -> _Memory:
        """Memory of its own with the first keys only."""
        return _Memory([block.clone() for block in self.blocks], self.num_sources, num_keys)


@dataclass(frozen=True)
class PlainState:
    """What a stack is at, in the terms of its blocks.

    Attributes:
        memory: Per block, what its cross-attention looks at.
        rows: Which source each row belongs to.
        caches: Per block, keys and values of the positions so far.
        position: Tokens read by each row.
    """

    memory: tuple[Keys, ...]
    rows: Rows
    caches: tuple[Keys, ...]
    position: int


class SteppingState:
    """A stack in the middle of writing: its parameters, what was written, the sources.

    Args:
        blocks: The parameters.
        memory: Per block, what its cross-attention looks at; no source without anything to look at.
        caches: Per block, keys and values of the positions so far; None before the first, and where `beams` is not 1.
        beams: Rows of each source, which lie side by side.

    Attributes:
        position: Tokens read by each row.
    """

    def __init__(
        self, blocks: Sequence[SteppingBlock], memory: tuple[Keys, ...], caches: Sequence[Keys | None], beams: int
    ) -> None:
        keys = memory[0]
        num_sources, heads, num_keys, d = keys.prepared.shape
        self.blocks = blocks
        self.beams = beams
        self._given = memory
        self._source_of = list(range(num_sources))
        self._cross = _Memory.of(memory, (num_sources, heads, d), keys.prepared)
        self._own = _Memory.of(caches, (num_sources, heads, d), keys.prepared)
        self.position = self._num_keys = self._own.num_keys
        seen = keys.prepared.new_full((num_sources, heads, 1, self._cross.width), -math.inf)
        seen[..., :num_keys] = 0.0
        if keys.mask is not None:
            seen[..., :num_keys].masked_fill_(~keys.mask[:, None, None], -math.inf)
        self._cross_mask = seen  # (B, H, 1, S)
        own_rows = 1 if beams == 1 else num_sources * beams
        self._own_mask = seen.new_full((own_rows, self._own.room), -math.inf)  # one row while every row sees every key
        self._own_mask[:, : self._num_keys] = 0.0

    def step(self, x: Float[Tensor, "rows d_model"]) -> tuple[Float[Tensor, "rows d_model"], SteppingState]:
        """Read one further position of each row.

        Args:
            x: `(rows, d_model)`, the embedded tokens.

        Returns:
            The last block's output, and the state after it; this one stays as it is.
        """
        state = copy(self)
        if self._num_keys != self._own.num_keys:  # another step was made from here before
            state._own = self._own.copy(self._num_keys)
        state._grow()
        own_mask = state._spread_mask()
        cross_mask = state._cross_mask[: state._cross.num_sources].flatten(0, 1)
        for layer, block in enumerate(state.blocks):
            x = state._look_back(layer, block, x, own_mask)
            x = state._look_at_source(layer, block, x, cross_mask)
            inner = linear(block.around_feed_forward.before(x), *block.inner).relu_()
            x = block.around_feed_forward.after(x, linear(inner, *block.outer))
        state.position += 1
        return x, state

    def _grow(self) -> None:
        """Take room for the next position's keys, which only the row that writes them and what continues it may see."""
        own, first = self._own, self._num_keys
        own.make_room(self.beams)
        if self._own_mask.shape[1] < own.room:
            grown = self._own_mask.new_full((len(self._own_mask), own.room), -math.inf)
            grown[:, : self._own_mask.shape[1]] = self._own_mask
            self._own_mask = grown
        new = self._own_mask[:, first : first + self.beams]
        if len(self._own_mask) == 1:
            new.fill_(0.0)
        else:
            new.view(-1, self.beams, self.beams).diagonal(dim1=1, dim2=2).fill_(0.0)
        self._num_keys = own.num_keys = first + self.beams

    def _spread_mask(self) -> Tensor:
        """The mask over what was written as scores lie: `(B * H, W, width)`, or `(1, 1, width)`."""
        mask = self._own_mask[:, : self._own.width]
        if len(mask) == 1:
            return mask.unsqueeze(0)
        num_sources, heads = self._own.num_sources, self._cross_mask.shape[1]
        mask = mask.view(num_sources, 1, self.beams, -1).expand(-1, heads, -1, -1)
        return mask.reshape(num_sources * heads, self.beams, -1)

    def _look_back(self, layer: int, block: SteppingBlock, x: Tensor, mask: Tensor) -> Tensor:
        own, beams = self._own, self.beams
        new = linear(block.around_attention.before(x), *block.query_key_value)  # (R, 3 * d_model)
        three = new.view(own.num_sources, beams, 3, self._cross_mask.shape[1], -1).permute(2, 0, 3, 1, 4)
        first = self._num_keys - beams
        own.blocks[layer][:, : own.num_sources, :, first : self._num_keys] = three[1:]  # (2, B, H, W, d)
        keys, values = (half.narrow(1, 0, own.width) for half in own.views[layer])
        context = self._attend(block.scale, three[0], keys, values, mask)
        return block.around_attention.after(x, linear(context, *block.out))

    def _look_at_source(self, layer: int, block: SteppingBlock, x: Tensor, mask: Tensor) -> Tensor:
        query = linear(block.around_cross.before(x), *block.cross_query)
        query = query.view(self._cross.num_sources, self.beams, self._cross_mask.shape[1], -1).transpose(1, 2)
        context = self._attend(block.scale, query, *self._cross.views[layer], mask)
        return block.around_cross.after(x, linear(context, *block.cross_out))

    def _attend(self, scale: float, query: Tensor, keys: Tensor, values: Tensor, mask: Tensor) -> Tensor:
        """From queries `(B, H, W, d)` to contexts `(R, d_model)`."""
        num_sources, heads, beams, d = query.shape
        scores = torch.baddbmm(mask, query.reshape(-1, beams, d), keys.transpose(1, 2), alpha=scale)
        context = torch.bmm(torch.softmax(scores, dim=-1), values)  # (B * H, W, d)
        if beams > 1:
            context = context.view(num_sources, heads, beams, d).transpose(1, 2)
        return context.reshape(num_sources * beams, -1)

    def select(self, rows: Int[Tensor, " rows"]) -> SteppingState | None:
        """Row i of the result continues row `rows[i]`; None where sources would have unlike numbers of rows."""
        source_of = [row // self.beams for row in rows.tolist()]
        kept = list(dict.fromkeys(source_of))
        beams = len(source_of) // len(kept)
        if source_of != [source for source in kept for _ in range(beams)]:
            return None
        state = copy(self)
        if len(self._own_mask) > 1 or beams > 1:
            mask = self._own_mask.expand(self._own.num_sources * self.beams, -1)
            state._own_mask = mask.index_select(0, rows)
        if kept != list(range(self._own.num_sources)):
            to, of = _moves(kept, rows.device)
            state._own.select(kept, (to, of))
            state._cross.select(kept, (to, of))
            state._cross_mask[to] = state._cross_mask[of]
            state._source_of = [self._source_of[source] for source in kept]
        state.beams = beams
        return state

    def plain(self) -> PlainState:
        """The same state in the terms of the blocks, which can be watched."""
        device = self._own_mask.device
        sources = torch.tensor(self._source_of, device=device)
        rows = Rows.repeat(len(sources), self.beams, device=device)
        mask = self._own_mask[:, : self._num_keys].expand(len(rows), -1)
        seen = (mask == 0.0).nonzero()[:, 1].view(len(rows), self.position)  # the keys that each row descends from
        caches = []
        for block in self._own.blocks:
            both = block[:, rows.source_of].take_along_dim(seen[None, :, None, :, None], dim=3)
            caches.append(Keys(both[0], both[1]))
        return PlainState(tuple(keys.select(sources) for keys in self._given), rows, tuple(caches), self.position)


def _moves(sources: list[int], device: torch.device) -> tuple[Tensor, Tensor]:
    """Where to and where from, of those that do not stay where they are."""
    moved = [(to, of) for to, of in enumerate(sources) if to != of]
    to, of = torch.tensor(moved, dtype=torch.long, device=device).view(-1, 2).unbind(1)
    return to, of
