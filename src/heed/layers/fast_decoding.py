"""Fast decoding: a stack of decoder blocks reads one token at a time, without a gradient, on a CPU.

The blocks of `heed.layers.transformer` are the specification, and tests check that the results agree. Differences:

- Queries, keys and values of self-attention come from one product.
- Keys and values are written in place, into preallocated memory.
- The beams of one source share one cache: the keys of all its beams lie side by side, and a mask selects those from
  which each beam descends. Reordering beams therefore copies no keys, and common prefixes are stored once.
- Two batched products and a softmax replace the fused kernel, which is slower for a single query on a CPU.
- Keys are padded to at least 16 and masked, because a softmax over fewer numbers takes longer.

Parameters are looked up once, not at every step. They are shared with the blocks, and copied only where several layers
over one input are merged into one product; the score's scale is then folded into the query weights.

Without cross-attention (a language model) a source is a prompt. Prompts may differ in length: the mask hides the
padding of shorter prompts, and each row counts its own positions.

Shapes: B sources, W beams per source, R = B * W rows, H heads, C capacity in keys, S source positions.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from copy import copy
from dataclasses import dataclass
from typing import Any, NamedTuple

import torch
from torch import Tensor, nn
from torch.nn.functional import relu

from heed.attention import Keys, MultiHeadAttention, Rotation, Rows, padding_mask
from heed.kernels import linear
from heed.kernels.linear import is_large
from heed.layers.elementwise import RELU, Activation, RMSNorm
from heed.layers.states import StackState
from heed.layers.transformer import CausalSelfAttention, DecoderBlock, FeedForward, Residual
from heed.shapes import Float, Int

VECTOR = 16
"""Elements in a vector register: over fewer, torch's softmax is not vectorised and takes ten times as long."""


def attend_few(query: Tensor, keys: Tensor, value: Tensor, blocked: Tensor | None) -> Tensor:
    """`softmax(query keys + blocked) value` without a gradient, for one or a few queries of each head.

    Two batched products and a softmax, which for few queries on a CPU are faster than torch's fused kernel.

    Args:
        query: `(batch * heads, queries, d)`; the score's scale is already in the queries or keys.
        keys: `(batch * heads, d, keys)`; with many rows, padding to `VECTOR` keys is faster.
        value: `(batch * heads, keys, d)`.
        blocked: `(batch, 1, queries or 1, keys)`, -inf where a query may not attend, otherwise 0; None allows all.
    """
    scores = torch.bmm(query, keys)
    if blocked is not None:
        scores.view(len(blocked), -1, *scores.shape[1:]).add_(blocked)
    return torch.bmm(torch.softmax(scores, dim=-1), value)


class FastLinear(NamedTuple):
    """Weight and bias of a linear layer, and the transposed weight."""

    weight: Tensor  # (d_out, d_in)
    bias: Tensor | None
    transposed: Tensor  # a view of the weight, (d_in, d_out)

    @classmethod
    def of(cls, *layers: nn.Linear, scale: float = 1.0) -> FastLinear:
        """One layer, or several over one input merged into one, with the outputs of the first multiplied by `scale`."""
        weight: Tensor = layers[0].weight
        bias: Tensor | None = layers[0].bias
        if len(layers) > 1:
            weight = torch.cat((weight * scale, *(layer.weight for layer in layers[1:])))
            biases = [layer.bias for layer in layers[1:] if layer.bias is not None]
            bias = None if bias is None else torch.cat((bias * scale, *biases))
        return cls(weight, bias, weight.t())

    def __call__(self, x: Tensor) -> Tensor:
        """`x W^T + b`."""
        if is_large(x, self.weight):
            return linear(x, self.weight, self.bias)
        product = torch.mm(x, self.transposed)
        return product if self.bias is None else product.add_(self.bias)  # `addmm` would first fill the result

    def plus(self, x: Tensor, total: Tensor) -> Tensor:
        """`total + x W^T + b`."""
        if is_large(x, self.weight):
            return linear(x, self.weight, self.bias).add_(total)
        total = torch.addmm(total, x, self.transposed)
        return total if self.bias is None else total.add_(self.bias)


class FastResidual(NamedTuple):
    """A residual connection, with its normalisation if there is one."""

    first: bool = True
    norm: tuple[Any, ...] | None = None  # shape, weight, bias of layer normalisation, eps
    normalise: Callable[..., Tensor] = torch.layer_norm

    @classmethod
    def of(cls, around: Residual) -> FastResidual:
        """From a block's residual connection, with layer normalisation or RMS normalisation."""
        norm = around.norm
        if isinstance(norm, RMSNorm):
            return cls(around.first, (norm.weight.shape, norm.weight, norm.eps), torch.rms_norm)
        return cls(around.first, (norm.normalized_shape, norm.weight, norm.bias, norm.eps))

    def before(self, x: Tensor) -> Tensor:
        """The input of the sublayer: normalised if pre-norm."""
        return self.normalise(x, *self.norm) if self.first and self.norm is not None else x

    def after(self, x: Tensor, last: FastLinear, inner: Tensor) -> Tensor:
        """`x + last(inner)`, normalised if post-norm."""
        new = last.plus(inner, x)
        return new if self.first or self.norm is None else self.normalise(new, *self.norm)


class FastAttention(NamedTuple):
    """Parameters of attention; for self-attention, `query` also computes keys and values."""

    around: FastResidual
    query: FastLinear
    out: FastLinear

    @classmethod
    def of(cls, around: FastResidual, attention: MultiHeadAttention, *together: nn.Linear) -> FastAttention:
        """From an attention module; layers in `together` are merged into `query`, and its queries are then scaled."""
        assert attention.score.scale is not None
        query = FastLinear.of(attention.w_query, *together, scale=attention.score.scale)
        return cls(around, query, FastLinear.of(attention.w_out))


class FastFeedForward(NamedTuple):
    """Parameters of a feed-forward network."""

    around: FastResidual
    inner: FastLinear
    outer: FastLinear
    activation: Activation

    @classmethod
    def of(cls, around: FastResidual, net: FeedForward) -> FastFeedForward:
        """From a feed-forward network."""
        return cls(around, FastLinear.of(net.inner), FastLinear.of(net.outer), net.activation)

    def __call__(self, x: Tensor) -> Tensor:
        """The feed-forward network with its residual connection."""
        inner = self.inner(self.around.before(x))
        active = relu(inner, inplace=True) if self.activation == RELU else self.activation.function(inner)
        return self.around.after(x, self.outer, active)


class FastBlock(NamedTuple):
    """Parameters of a block."""

    attention: FastAttention
    cross: FastAttention | None
    feed_forward: FastFeedForward | None
    heads: int
    scale: float  # score scale of cross-attention, applied to its keys

    @classmethod
    def of(cls, block: nn.Module) -> FastBlock | None:
        """From a decoder block or causal self-attention alone; None for any other module."""
        if isinstance(block, CausalSelfAttention):
            own: MultiHeadAttention = block
            around, cross, feed_forward = FastResidual(), None, None
        elif isinstance(block, DecoderBlock):
            own, around, cross = block.attention, FastResidual.of(block.around_attention), None
            if block.cross is not None:
                cross = FastAttention.of(FastResidual.of(block.around_cross), block.cross)
            feed_forward = FastFeedForward.of(FastResidual.of(block.around_feed_forward), block.feed_forward)
        else:
            return None
        attention = FastAttention.of(around, own, own.w_key, own.w_value)
        assert own.score.scale is not None
        return cls(attention, cross, feed_forward, own.num_heads, own.score.scale)


_STEPS = 16
"""Steps by which the capacity grows: a compromise between copying and unused memory."""


class _KeyValues:
    """The keys and values of every block, written and reordered in place.

    `blocks` holds keys and values of each block, `(2, B, H, C, d)`; `used` holds views of the first `num_sources`
    sources, which are in use; `views` are the same as batches of matrices, keys `(B * H, d, C)` and values
    `(B * H, C, d)`.
    """

    def __init__(self, blocks: list[Tensor], num_sources: int, num_keys: int) -> None:
        self.blocks = blocks
        self.num_sources = num_sources
        self.num_keys = num_keys
        self.used: list[Tensor] = []
        self.views: list[tuple[Tensor, Tensor]] = []
        self._make_views()

    @classmethod
    def of(
        cls,
        keys: Sequence[Keys | None],
        shape: tuple[int, int, int],
        like: Tensor,
        further: int = 0,
        scale: float = 1.0,
    ) -> _KeyValues:
        """From each block's keys times `scale`, or empty, with room for `further` keys.

        `shape` is (sources, heads, d_head).
        """
        num_sources, heads, d = shape
        num_keys = 0 if keys[0] is None else len(keys[0])
        blocks = []
        for own in keys:
            block = like.new_empty(2, num_sources, heads, max(num_keys + further, VECTOR), d)
            if own is not None:
                torch.mul(own.prepared, scale, out=block[0, :, :, :num_keys])
                block[1, :, :, :num_keys] = own.value
            block[:, :, :, num_keys:VECTOR] = 0.0  # masked, but a weight of 0 times NaN would be NaN
            blocks.append(block)
        return cls(blocks, num_sources, num_keys)

    @property
    def room(self) -> int:
        """Capacity in keys."""
        return self.blocks[0].shape[3]

    @property
    def width(self) -> int:
        """Number of keys in the scores: padded to `VECTOR` for several sources, since fewer make the softmax slower."""
        return self.num_keys if self.num_sources == 1 else max(self.num_keys, VECTOR)

    def _make_views(self) -> None:
        self.used = [block[:, : self.num_sources] for block in self.blocks]
        halves = (used.flatten(1, 2).unbind() for used in self.used)
        self.views = [(keys.transpose(1, 2), values) for keys, values in halves]

    def up_to(self, width: int) -> list[tuple[Tensor, Tensor]]:
        """The views of the first keys, `(B * H, d, width)` and `(B * H, width, d)`."""
        return [(keys.narrow(2, 0, width), values.narrow(1, 0, width)) for keys, values in self.views]

    def make_room(self, count: int) -> None:
        """Make room for `count` further keys."""
        if self.num_keys + count > self.room:
            room = self.num_keys + count * _STEPS
            for n, block in enumerate(self.blocks):
                heads, _, d = block.shape[2:]
                self.blocks[n] = block.new_empty(2, self.num_sources, heads, room, d)
                self.blocks[n][:, :, :, : self.num_keys] = block[:, : self.num_sources, :, : self.num_keys]
            self._make_views()

    def select(self, sources: list[int], moved: tuple[Tensor, Tensor]) -> None:
        """Reorder the sources: the new source i is the old `sources[i]`, each at most once; `moved`: `_moves`."""
        to, of = moved
        if len(to):
            for block in self.blocks:
                block[:, to] = block[:, of]
        self.num_sources = len(sources)
        self._make_views()

    def copy(self, num_keys: int) -> _KeyValues:
        """A copy truncated to the first `num_keys` keys."""
        return _KeyValues([block.clone() for block in self.blocks], self.num_sources, num_keys)


class FastDecoding:
    """Decoding state of a stack: parameters, key-value caches, and the memory.

    Args:
        blocks: Parameters of each block.
        memory: Per block, the keys and values of its cross-attention, at least one key per source; empty without
            cross-attention.
        caches: Per block, keys and values of the positions so far, with a mask if prompts were padded; None before
            the first position, and if `beams` is not 1.
        num_sources: Number of sources, or of prompts.
        beams: Number of rows of each source; the rows of a source are adjacent.
    """

    def __init__(
        self,
        blocks: Sequence[FastBlock],
        memory: tuple[Keys, ...],
        caches: Sequence[Keys | None],
        num_sources: int,
        beams: int,
    ) -> None:
        self.blocks = blocks
        self.beams = beams
        self._given = memory
        self._source_of = list(range(num_sources))
        self._heads = blocks[0].heads
        like = blocks[0].attention.out.weight
        shape = num_sources, self._heads, like.shape[1] // self._heads
        further = 0 if caches[0] is None else _STEPS
        self._own = _KeyValues.of(caches, shape, like, further)
        self._num_keys = self._own.num_keys
        self.position: int | Tensor = self._num_keys  # tokens read by each row; `(rows,)` if they differ
        padding = None if caches[0] is None else caches[0].mask
        self._sees_all = beams == 1 and padding is None  # all rows see all keys: one mask row suffices
        own_rows = 1 if self._sees_all else num_sources * beams
        self._own_mask = like.new_full((own_rows, self._own.room), -math.inf)
        self._own_mask[:, : self._num_keys] = 0.0
        if padding is not None:
            self._own_mask[:, : self._num_keys].masked_fill_(~padding, -math.inf)
            self.position = padding.sum(1)
        self._cross: _KeyValues | None = None
        self._cross_mask: Tensor | None = None  # None if every row sees every key of its source
        if memory:
            keys = memory[0]
            self._cross = _KeyValues.of(memory, shape, like, scale=blocks[0].scale)
            width = self._cross.width
            self._cross_views = self._cross.up_to(width)
            if keys.mask is not None or len(keys) < width:
                seen = like.new_full((num_sources, 1, 1, width), -math.inf)
                seen[..., : len(keys)] = 0.0
                if keys.mask is not None:
                    seen[..., : len(keys)].masked_fill_(~keys.mask[:, None, None], -math.inf)
                self._cross_mask = seen  # (B, 1, 1, S)

    @classmethod
    def of(cls, blocks: Sequence[nn.Module], state: StackState) -> FastDecoding | None:
        """Continue a state with fast decoding; None if the blocks or the state do not allow it.

        Requires known blocks, rows in the order of their sources, at least one visible key per source, and one row per
        source if there are caches already. Without a memory each row is its own source.
        """
        known = [found for block in blocks if (found := FastBlock.of(block)) is not None]
        if len(known) < len(blocks):
            return None
        if not state.memory:
            return cls(known, (), state.caches, len(state.position), 1)
        mask = state.memory[0].mask
        blind = mask is not None and not bool(mask.any(1).all())
        branched = state.rows.width > 1 and state.caches[0] is not None
        if not state.rows.in_order or blind or branched:
            return None
        return cls(known, state.memory, state.caches, state.rows.num_sources, state.rows.width)

    def next_positions(self, count: int) -> Int[Tensor, "rows count"] | int:
        """Absolute positions of the next `count` tokens of each row; an int for one token at the same position."""
        if isinstance(self.position, Tensor):
            return self.position.unsqueeze(1) + torch.arange(count, device=self.position.device)
        if count == 1:
            return self.position
        return torch.arange(self.position, self.position + count, device=self._own_mask.device).unsqueeze(0)

    def step(
        self, x: Float[Tensor, "rows d_model"], turn: Rotation | None = None
    ) -> tuple[Float[Tensor, "rows d_model"], FastDecoding]:
        """Read one embedded token of each row, rotated to its position by `turn`; this state stays usable."""
        state = copy(self)
        if self._num_keys != self._own.num_keys:  # an earlier step already continued this state
            state._own = self._own.copy(self._num_keys)
        state._grow()
        own, mask = state._own, state._mask_of_scores()
        first, width = own.num_keys - self.beams, own.width
        for n, (block, views) in enumerate(zip(state.blocks, own.up_to(width), strict=True)):
            x = state._self_attention(block, x, own.used[n].narrow(3, first, self.beams), views, mask, turn)
            if block.cross is not None and state._cross is not None:
                x = state._cross_attention(block.cross, x, state._cross_views[n])
            if block.feed_forward is not None:
                x = block.feed_forward(x)
        state.position = state.position + 1  # not in place: the previous state keeps its position
        return x, state

    def _grow(self) -> None:
        """Add the next position's keys; each is visible only to the row that writes it and its continuations."""
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

    def _mask_of_scores(self) -> Tensor | None:
        """Additive mask over the keys, `(B, 1, W, width)` or `(1, 1, 1, width)`; None if all are visible."""
        own = self._own
        if self._sees_all and own.width == own.num_keys:
            return None
        mask = self._own_mask.narrow(1, 0, own.width)
        return mask.view(1, 1, 1, -1) if len(mask) == 1 else mask.view(own.num_sources, 1, self.beams, -1)

    def _self_attention(
        self,
        block: FastBlock,
        x: Tensor,
        place: Tensor,
        views: tuple[Tensor, Tensor],
        mask: Tensor | None,
        turn: Rotation | None,
    ) -> Tensor:
        """Self-attention that writes new keys and values to `place`, `(2, B, H, W, d)`, which is part of `views`."""
        attention = block.attention
        new = attention.query(attention.around.before(x))  # (R, 3 * d_model)
        if turn is not None:
            heads = new.view(len(new), 3 * self._heads, 1, -1)
            heads[:, : -self._heads] = turn(heads[:, : -self._heads])
        three = new.view(len(place[0]), self.beams, 3, self._heads, -1).permute(2, 0, 3, 1, 4)
        place.copy_(three[1:])
        return attention.around.after(x, attention.out, self._attend(three[0], views, mask))

    def _cross_attention(self, attention: FastAttention, x: Tensor, views: tuple[Tensor, Tensor]) -> Tensor:
        query = attention.query(attention.around.before(x))
        query = query.view(self._own.num_sources, self.beams, self._heads, -1).transpose(1, 2)
        return attention.around.after(x, attention.out, self._attend(query, views, self._cross_mask))

    def _attend(self, query: Tensor, views: tuple[Tensor, Tensor], mask: Tensor | None) -> Tensor:
        """Queries `(B, H, W, d)` to contexts `(R, d_model)`."""
        num_sources, heads, beams, d = query.shape
        context = attend_few(query.reshape(-1, beams, d), *views, mask)  # (B * H, W, d)
        if beams > 1:
            context = context.view(num_sources, heads, beams, d).transpose(1, 2)
        return context.reshape(num_sources * beams, -1)

    def select(self, rows: Int[Tensor, " rows"]) -> FastDecoding | StackState:
        """Row i of the result continues row `rows[i]`; a `StackState` if sources differ in their number of rows."""
        source_of = [row // self.beams for row in rows.tolist()]
        kept = list(dict.fromkeys(source_of))
        beams = len(source_of) // len(kept)
        if source_of != [source for source in kept for _ in range(beams)]:
            return self.plain().select(rows)
        state = copy(self)
        if len(self._own_mask) > 1 or beams > 1:
            mask = self._own_mask.expand(self._own.num_sources * self.beams, -1)
            state._own_mask, state._sees_all = mask.index_select(0, rows), False
        if isinstance(self.position, Tensor):
            state.position = self.position.index_select(0, rows)
        if kept != list(range(self._own.num_sources)):
            to, of = _moves(kept, rows.device)
            state._own.select(kept, (to, of))
            if state._cross is not None:
                width = self._cross_views[0][0].shape[2]
                state._cross.select(kept, (to, of))
                state._cross_views = state._cross.up_to(width)
                if self._cross_mask is not None:
                    state._cross_mask = self._cross_mask[kept]
            state._source_of = [self._source_of[source] for source in kept]
        state.beams = beams
        return state

    def plain(self) -> StackState:
        """The same state as a `StackState`, to continue through the blocks, which can be observed."""
        device = self._own_mask.device
        sources = torch.tensor(self._source_of, device=device)
        rows = Rows.repeat(len(sources), self.beams, device=device)
        visible = self._own_mask[:, : self._num_keys].expand(len(rows), -1) == 0.0  # keys that each row descends from
        position = visible.sum(1)
        mask = padding_mask(position) if isinstance(self.position, Tensor) else None
        longest = int(position.max())
        seen = visible.to(torch.uint8).argsort(dim=1, descending=True, stable=True)[:, :longest]
        caches = []
        for block in self._own.blocks:
            both = block[:, rows.source_of].take_along_dim(seen[None, :, None, :, None], dim=3)
            caches.append(Keys(both[0], both[1], mask))
        return StackState(tuple(keys.select(sources) for keys in self._given), rows, tuple(caches), position)


@dataclass(frozen=True)
class PromptState(StackState):
    """State after a prompt; `select` switches to fast decoding, so that rows of one prompt share its keys."""

    blocks: Sequence[nn.Module] = ()

    def select(self, rows: Int[Tensor, " selected"]) -> FastDecoding | StackState:  # type: ignore[override]
        fast = FastDecoding.of(self.blocks, self)
        return super().select(rows) if fast is None else fast.select(rows)


def _moves(sources: list[int], device: torch.device) -> tuple[Tensor, Tensor]:
    """New and old indices of the sources that move."""
    moved = [(to, of) for to, of in enumerate(sources) if to != of]
    to, of = torch.tensor(moved, dtype=torch.long, device=device).view(-1, 2).unbind(1)
    return to, of
