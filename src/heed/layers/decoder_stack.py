"""Stack of decoder blocks with explicit state: whole sequences, further tokens with caches, or steps of a search."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any

import torch
from torch import Tensor, nn

from heed.attention import Keys, Rotation, Rows, SearchKeys, padding_mask, watch
from heed.kernels import enabled
from heed.layers.transformer import CausalSelfAttention, DecoderBlock
from heed.shapes import Bool, Float, Int

_GROUPS = 4
"""Number of groups into which prompts of unequal length are divided."""
_PADDING = 128
"""Positions of padding from which grouping pays off."""


Block = DecoderBlock | CausalSelfAttention


@dataclass(frozen=True)
class StackState:
    """Decoding state of a stack: memory and key-value cache of each block."""

    memory: tuple[Keys, ...]  # keys of each block's cross-attention; empty without cross-attention
    rows: Rows  # which source each row belongs to
    caches: tuple[Keys | None, ...]  # per block, keys of the positions so far; None before the first token
    position: Int[Tensor, " rows"]  # tokens read by each row
    blocks: Sequence[Block] | None = None  # after tokens from which an unobserved search may go on

    def select(self, rows: Int[Tensor, " selected"]) -> StackState | SearchState:
        """Row i of the result continues row `rows[i]`; in a search, rows of one source then share its keys."""
        if self.blocks is not None and (search := SearchState.of(self.blocks, self)) is not None:
            return search.select(rows)
        remaining, sources = self.rows.select(rows)
        memory = self.memory if sources is None else tuple(keys.select(sources) for keys in self.memory)
        caches = tuple(cache and cache.select(rows) for cache in self.caches)
        return StackState(memory, remaining, caches, self.position.index_select(0, rows))

    def next_positions(self, count: int) -> Int[Tensor, "rows count"]:
        """Absolute positions of the next `count` tokens of each row."""
        return self.position.unsqueeze(1) + torch.arange(count, device=self.position.device)

    def bound(self, count: int) -> int:
        """A number above the next `count` positions."""
        return count if self.caches[0] is None else len(self.caches[0]) + count  # also counts padding


class SearchState:
    """Decoding state of a stack in a search on a CPU that nobody observes: one token a step, keys shared by beams.

    Attributes:
        position: Tokens read by each row; one number if it is the same for all.
    """

    def __init__(self, blocks: Sequence[Block], state: StackState) -> None:
        """Continue a state; see `of`."""
        self._blocks = blocks
        self._memory = state.memory
        self._width = state.rows.width if state.memory else 1  # rows of each source
        self._sources = list(range(len(state.position) // self._width))  # of the sources of `state`
        attentions = [block if isinstance(block, CausalSelfAttention) else block.attention for block in blocks]
        pairs = zip(attentions, state.caches, strict=True)
        self._caches = [attention.cache_for_search(cache, len(self._sources)) for attention, cache in pairs]
        crosses = [block.cross for block in blocks if isinstance(block, DecoderBlock) and block.cross is not None]
        self._crosses = [cross.for_search(keys) for cross, keys in zip(crosses, state.memory, strict=False)]
        self._length = self._caches[0].length
        self.position: int | Tensor = self._length
        # Added to scores: -inf where a row may not attend to a place, else 0; None if every row attends to all.
        self._blocked: Tensor | None = None
        first, like = state.caches[0], self._caches[0].both
        if first is not None and first.mask is not None:
            self._blocked = like.new_zeros(first.mask.shape).masked_fill_(~first.mask, -math.inf)
            self.position = first.mask.sum(1)
        elif self._width > 1:
            self._blocked = like.new_zeros(len(state.position), 0)
        for keys in self._crosses:
            mask, keys.width = state.memory[0].mask, self._width
            if mask is not None:
                keys.blocked = like.new_zeros(mask.shape).masked_fill_(~mask, -math.inf)[:, None, None]
        self._bind()

    @classmethod
    def of(cls, blocks: Sequence[Block], state: StackState) -> SearchState | None:
        """Continue a state in a search.

        None if rows do not lie in the order of their sources, a source has nothing to attend to, or several rows of one
        source have caches already.
        """
        if state.memory:
            mask = state.memory[0].mask
            blind = mask is not None and not bool(mask.any(1).all())
            if not state.rows.in_order or blind or (state.rows.width > 1 and state.caches[0] is not None):
                return None
        return cls(blocks, state)

    def _bind(self) -> None:
        crosses: Sequence[SearchKeys | None] = self._crosses or [None] * len(self._blocks)
        bound = zip(self._blocks, self._caches, crosses, strict=True)
        self._parts = [part for block, cache, cross in bound for part in block.bind_step(cache, cross)]

    def _changed(self, **changes: Any) -> SearchState:
        state = SearchState.__new__(SearchState)
        state.__dict__.update(self.__dict__, **changes)
        return state

    def next_positions(self, count: int) -> Int[Tensor, "rows count"] | int:
        """Absolute positions of the next `count` tokens of each row; a number for one token at the same position."""
        if isinstance(self.position, Tensor):
            return self.position.unsqueeze(1) + torch.arange(count)
        return self.position if count == 1 else torch.arange(self.position, self.position + count).unsqueeze(0)

    def bound(self, count: int) -> None:
        """None: on a CPU the largest position can be read."""

    def step(
        self, x: Float[Tensor, "rows d_model"], turn: Rotation | None = None
    ) -> tuple[Float[Tensor, "rows d_model"], SearchState]:
        """Read one embedded token of each row, rotated to its position by `turn`; this state stays usable."""
        state = self._changed(_length=self._length + self._width, position=self.position + 1)
        if self._length != self._caches[0].length:  # an earlier step already continued this state
            state._caches = [keys.copy(self._length) for keys in self._caches]
            state._bind()
        blocked = None
        if self._blocked is not None:  # each new key is seen by the row that writes it, and by those that continue it
            new = self._blocked.new_full((self._width, self._width), -math.inf).fill_diagonal_(0.0)
            new = new.expand(len(self._sources), -1, -1).flatten(0, 1)
            state._blocked = torch.cat([self._blocked, new], dim=1)
            blocked = state._blocked.view(len(self._sources), 1, self._width, -1)
        for keys in state._caches:
            keys.width, keys.blocked, keys.turn = self._width, blocked, turn
        for part in state._parts:
            x = part(x)
        return x, state

    def select(self, rows: Int[Tensor, " rows"]) -> SearchState | StackState:
        """Row i of the result continues row `rows[i]`; a `StackState` if sources differ in their number of rows."""
        source_of = [row // self._width for row in rows.tolist()]
        sources = list(dict.fromkeys(source_of))
        width = len(source_of) // len(sources)
        if source_of != [source for source in sources for _ in range(width)]:
            return self.apart().select(rows)
        state = self._changed(_width=width)
        if self._blocked is not None:
            state._blocked = self._blocked.index_select(0, rows)
        elif width > 1:
            state._blocked = self._caches[0].both.new_zeros(len(rows), self._length)
        if isinstance(self.position, Tensor):
            state.position = self.position.index_select(0, rows)
        if sources != list(range(len(self._sources))):
            moves = torch.tensor([(to, of) for to, of in enumerate(sources) if to != of], dtype=torch.long).view(-1, 2)
            for keys in (*self._caches, *self._crosses):
                keys.move(len(sources), *moves.unbind(1))
            for keys in self._crosses:
                keys.blocked = None if keys.blocked is None else keys.blocked[sources]
            state._sources = [self._sources[source] for source in sources]
        for keys in self._crosses:
            keys.width = width
        return state

    def apart(self) -> StackState:
        """The same state with keys of its own for each row, to go on through the blocks, which can be observed."""
        sources = torch.tensor(self._sources)
        rows = Rows.repeat(len(sources), self._width)
        like = self._caches[0].both
        seen = like.new_ones(len(rows), self._length) if self._blocked is None else self._blocked == 0.0
        position = seen.long().sum(1)
        mask = padding_mask(position) if isinstance(self.position, Tensor) else None
        places = seen.to(torch.uint8).argsort(dim=1, descending=True, stable=True)[:, : int(position.max())]
        caches = []
        for keys in self._caches:
            both = keys.both[:, rows.source_of].take_along_dim(places[None, :, None, :, None], dim=3)
            caches.append(Keys(both[0], both[1], mask))
        return StackState(tuple(keys.select(sources) for keys in self._memory), rows, tuple(caches), position)


Read = Callable[[Tensor, StackState | SearchState, Tensor | None], tuple[Tensor, StackState | SearchState]]


class DecoderStack(nn.ModuleList):
    """`DecoderBlock` or `CausalSelfAttention` modules, each with its own key-value cache."""

    def prepare(
        self, memory: Float[Tensor, "batch key d_model"], mask: Bool[Tensor, "batch key"] | None = None
    ) -> tuple[Keys, ...]:
        """Keys and values of a memory `(batch, key, d_model)` for the cross-attention of each block."""
        return tuple(block.prepare(memory, mask) for block in self if isinstance(block, DecoderBlock))

    def start(self, memory: tuple[Keys, ...], rows: Rows) -> StackState:
        """Initial decoding state with empty caches; `memory` from `prepare`, empty without cross-attention."""
        return StackState(memory, rows, (None,) * len(self), torch.zeros_like(rows.source_of))

    def forward(
        self,
        x: Float[Tensor, "rows n d_model"],
        state: StackState | SearchState,
        lengths: Int[Tensor, " rows"] | None = None,
        turn: Rotation | None = None,
    ) -> tuple[Float[Tensor, "rows n d_model"], StackState | SearchState]:
        """Read further tokens of each row, attending to the earlier ones and to the memory.

        Args:
            x: `(rows, n, d_model)`, the embedded tokens at the state's `next_positions`.
            state: From `start` or the previous step.
            lengths: `(rows,)`, number of real tokens where rows are padded on the right.
            turn: Rotates the queries and keys of self-attention by the positions of x.

        Returns:
            The last block's output, `(rows, n, d_model)`, and the state after the tokens.
        """
        searches = self._searches(x)
        if searches and x.shape[1] == 1 and lengths is None:
            search = state if isinstance(state, SearchState) else SearchState.of(self._blocks(), state)
            if search is not None:
                x, state = search.step(x.squeeze(1), turn)
                return x.unsqueeze(1), state
        if isinstance(state, SearchState):
            state = state.apart()
        mask = None if lengths is None else padding_mask(lengths, x.shape[1])
        # Padding follows the prompts: the causal mask hides it from them, the caches' mask from later steps.
        hides = watch.observer.current is None and all(cache is None for cache in state.caches)
        visible = None if hides else mask
        caches = []
        for n, (block, cache) in enumerate(zip(self, state.caches, strict=True)):
            if isinstance(block, CausalSelfAttention):
                x, grown = block.read(x, cache, state.position, visible, turn)
            else:
                memory = state.memory[n] if state.memory else None
                assert isinstance(block, DecoderBlock)
                x, grown = block.run(x, cache, memory, state.rows, state.position, visible, turn)
            x = watch.offered(self, "states", x)
            caches.append(replace(grown, mask=mask) if hides and mask is not None else grown)
        count = x.shape[1] if lengths is None else lengths
        blocks = self._blocks() if searches else None
        return x, StackState(state.memory, state.rows, tuple(caches), state.position + count, blocks)

    def whole(
        self,
        x: Float[Tensor, "batch length d_model"],
        turn: Rotation | None = None,
        seen: Bool[Tensor, "batch length length"] | None = None,
    ) -> Float[Tensor, "batch length d_model"]:
        """Read whole sequences without a memory, as `forward` from the start, but keep no caches.

        Args:
            x: `(batch, length, d_model)`, embedded tokens.
            turn: Rotates queries and keys by their positions.
            seen: `(batch, length, length)`, which positions each may attend to; later positions are masked in any case.
        """
        first = torch.zeros(len(x), dtype=torch.long, device=x.device)
        for block in self:
            if isinstance(block, CausalSelfAttention):
                x, _ = block.read(x, None, first, seen, turn)
            else:
                assert isinstance(block, DecoderBlock)
                x, _ = block.run(x, None, None, None, first, seen, turn)
            x = watch.offered(self, "states", x)
        return x

    def by_length(
        self, read: Read, tokens: Int[Tensor, "rows n"], state: StackState | SearchState, lengths: Tensor | None
    ) -> tuple[Float[Tensor, "rows n d_model"], StackState | SearchState]:
        """Read prompts of very unequal length, without a memory, in a few groups of similar length to reduce padding.

        Args:
            read: Reads prompts, `(tokens, state, lengths) -> (hidden, state)`.
            tokens: `(rows, n)`.
            state: Before the prompts.
            lengths: `(rows,)`, number of real tokens where rows are padded on the right.

        Returns:
            The result of `read` for all rows; hidden states of padding are zero if the rows were grouped.
        """
        fresh = isinstance(state, StackState) and not state.memory and all(cache is None for cache in state.caches)
        if lengths is None or not fresh or not self._searches(tokens):
            return read(tokens, state, lengths)
        if tokens.numel() - int(lengths.sum()) < _PADDING:
            return read(tokens, state, lengths)
        assert isinstance(state, StackState)
        rows, n = tokens.shape
        hidden: Tensor | None = None
        caches: list[Tensor] = []  # per block, keys and values
        for group in lengths.argsort(descending=True).chunk(_GROUPS):
            group_lengths = lengths.index_select(0, group)
            longest = int(group_lengths[0])
            start = self.start((), Rows.repeat(len(group), device=tokens.device))
            group_hidden, after = read(tokens[group, :longest], start, group_lengths)
            plain = after.apart() if isinstance(after, SearchState) else after
            keys = [cache for cache in plain.caches if cache is not None]
            if hidden is None:
                hidden = group_hidden.new_zeros(rows, n, group_hidden.shape[-1])
                shape = (2, rows, *keys[0].prepared.shape[1:2], n, keys[0].prepared.shape[3])
                caches = [group_hidden.new_zeros(shape) for _ in keys]
            hidden[group, :longest] = group_hidden
            for cache, new in zip(caches, keys, strict=True):
                cache[0, group, :, :longest], cache[1, group, :, :longest] = new.prepared, new.value
        assert hidden is not None
        mask = padding_mask(lengths, n)
        whole = tuple(Keys(cache[0], cache[1], mask) for cache in caches)
        return hidden, StackState((), state.rows, whole, state.position + lengths, self._blocks())

    def _blocks(self) -> list[Block]:
        return [block for block in self if isinstance(block, DecoderBlock | CausalSelfAttention)]

    def _searches(self, x: Tensor) -> bool:
        """Whether steps are those of a search: unobserved, without gradient or autocast, on a CPU (measured there)."""
        unobserved = watch.observer.current is None and not self.training and not torch.is_grad_enabled()
        return enabled() and unobserved and x.device.type == "cpu" and not torch.is_autocast_enabled("cpu")
