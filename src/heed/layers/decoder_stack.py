"""Stack of decoder blocks with explicit state: whole sequences, further tokens with caches, or fast decoding."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import torch
from torch import Tensor, nn

from heed.attention import Keys, Rotation, Rows, padding_mask, watch
from heed.kernels import enabled
from heed.layers.fast_decoding import FastDecoding, PromptState
from heed.layers.states import StackState
from heed.layers.transformer import CausalSelfAttention, DecoderBlock
from heed.shapes import Bool, Float, Int

Read = Callable[[Tensor, StackState | FastDecoding, Tensor | None], tuple[Tensor, StackState | FastDecoding]]

_GROUPS = 4
"""Number of groups into which prompts of unequal length are divided."""
_PADDING = 128
"""Positions of padding from which grouping pays off."""


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
        state: StackState | FastDecoding,
        lengths: Int[Tensor, " rows"] | None = None,
        turn: Rotation | None = None,
    ) -> tuple[Float[Tensor, "rows n d_model"], StackState | FastDecoding]:
        """Read further tokens of each row, attending to the earlier ones and to the memory.

        Args:
            x: `(rows, n, d_model)`, the embedded tokens at the state's `next_positions`.
            state: From `start` or the previous step.
            lengths: `(rows,)`, number of real tokens where rows are padded on the right.
            turn: Rotates the queries and keys of self-attention by the positions of x.

        Returns:
            The last block's output, `(rows, n, d_model)`, and the state after the tokens.
        """
        if x.shape[1] == 1 and lengths is None and self._decodes_fast(x):
            fast = state if isinstance(state, FastDecoding) else FastDecoding.of(list(self), state)
            if fast is not None:
                x, fast = fast.step(x.squeeze(1), turn)
                return x.unsqueeze(1), fast
        if isinstance(state, FastDecoding):
            state = state.plain()
        mask = None if lengths is None else padding_mask(lengths, x.shape[1])
        # Padding follows the prompts: the causal mask hides it from them, the caches' mask from later steps.
        hides = watch.observer.current is None and all(cache is None for cache in state.caches)
        given = None if hides else mask
        caches = []
        for n, (block, cache) in enumerate(zip(self, state.caches, strict=True)):
            if isinstance(block, CausalSelfAttention):
                x, grown = block.read(x, cache, state.position, given, turn)
            else:
                memory = state.memory[n] if state.memory else None
                assert isinstance(block, DecoderBlock)
                x, grown = block.run(x, cache, memory, state.rows, state.position, given, turn)
            x = watch.offered(self, "states", x)
            caches.append(replace(grown, mask=mask) if hides and mask is not None else grown)
        count = x.shape[1] if lengths is None else lengths
        after = state.memory, state.rows, tuple(caches), state.position + count
        return x, PromptState(*after, list(self)) if self._decodes_fast(x) else StackState(*after)

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
        self, read: Read, tokens: Int[Tensor, "rows n"], state: StackState | FastDecoding, lengths: Tensor | None
    ) -> tuple[Float[Tensor, "rows n d_model"], StackState | FastDecoding]:
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
        if lengths is None or not fresh or not self._decodes_fast(tokens):
            return read(tokens, state, lengths)
        if tokens.numel() - int(lengths.sum()) < _PADDING:
            return read(tokens, state, lengths)
        assert isinstance(state, StackState)
        rows, n = tokens.shape
        hidden: Tensor | None = None
        caches: list[Tensor] = []  # per block, keys and values
        for some in lengths.argsort(descending=True).chunk(_GROUPS):
            own = lengths.index_select(0, some)
            longest = int(own[0])
            start = self.start((), Rows.repeat(len(some), device=tokens.device))
            found, after = read(tokens[some, :longest], start, own)
            plain = after.plain() if isinstance(after, FastDecoding) else after
            keys = [cache for cache in plain.caches if cache is not None]
            if hidden is None:
                hidden = found.new_zeros(rows, n, found.shape[-1])
                shape = (2, rows, *keys[0].prepared.shape[1:2], n, keys[0].prepared.shape[3])
                caches = [found.new_zeros(shape) for _ in keys]
            hidden[some, :longest] = found
            for cache, new in zip(caches, keys, strict=True):
                cache[0, some, :, :longest], cache[1, some, :, :longest] = new.prepared, new.value
        assert hidden is not None
        mask = padding_mask(lengths, n)
        whole = tuple(Keys(cache[0], cache[1], mask) for cache in caches)
        return hidden, PromptState((), state.rows, whole, state.position + lengths, list(self))

    def _decodes_fast(self, x: Tensor) -> bool:
        """Whether fast decoding applies: unobserved inference without autocast, on a CPU (not measured elsewhere)."""
        unobserved = watch.observer.current is None and not self.training and not torch.is_grad_enabled()
        return enabled() and unobserved and x.device.type == "cpu" and not torch.is_autocast_enabled("cpu")
