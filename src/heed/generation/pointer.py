"""Pointer-generator: a decoder that writes a word of its vocabulary or copies one from the document.

    a_t  = softmax_j(s_t' W h_j / sqrt(d))                     copying attention, over the document's tokens x_j
    g_t  = sigmoid(w' s_t + b)                                 share that is generated, not copied
    p(y) = g_t softmax(W_o s_t)_y + (1 - g_t) sum_{j: x_j = y} a_tj

s_t is the hidden state that predicts output t, h_j the values of the decoder's last attention to the source.

Source: See, Liu and Manning 2017 (arXiv:1704.04368), section 2.2.
Differs from the paper: a_t has a separate query and keys (as in Gu et al. 2016, arXiv:1603.06393), so that the
mechanism fits every decoder with attention and keeps its fast paths; g_t is computed from s_t alone; there is no
coverage loss. Copied tokens are of a vocabulary that both sides share; with subwords, it has no unknown words.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor, nn

from heed.attention import Attention, Keys, Rows
from heed.attention.scores import General
from heed.models.base import Memory, PairDecoder

COPY = "copy"
"""Name of the copying attention as a mechanism in maps."""


@dataclass(frozen=True)
class PointerMemory(Memory):
    """Encoded documents, their tokens, and the keys of the copying attention."""

    body: Memory | None = None
    tokens: Tensor | None = None  # `(batch, source)`
    places: Keys | None = None  # their values are unit vectors

    def select(self, sources: Tensor) -> PointerMemory:
        assert self.body is not None and self.tokens is not None and self.places is not None
        body = self.body.select(sources)
        return PointerMemory(
            body.keys, body.summary, body, self.tokens.index_select(0, sources), self.places.select(sources)
        )


@dataclass(frozen=True)
class PointerState:
    """The body's state, and the document that each row copies from."""

    body: Any
    tokens: Tensor  # `(sources, source)`
    places: Keys
    rows: Rows
    written: Tensor  # `(rows,)`, tokens read so far

    def select(self, rows: Tensor) -> PointerState:
        """Reorder the rows: the new row i continues the old `rows[i]`."""
        row_sources, remaining = self.rows.select(rows)
        tokens = self.tokens if remaining is None else self.tokens.index_select(0, remaining)
        places = self.places if remaining is None else self.places.select(remaining)
        return PointerState(self.body.select(rows), tokens, places, row_sources, self.written.index_select(0, rows))


class PointerGenerator(PairDecoder):
    """A pair decoder with a copying attention over its source; both sides have one vocabulary.

    Its hidden states are log-probabilities `(..., vocab_size)`, which `output` leaves as they are, so that everything
    that reads logits (the loss, a search, an ensemble) works as with any other decoder.
    """

    def __init__(self, body: PairDecoder) -> None:
        """Wrap a decoder that attends to its source."""
        super().__init__(body.config)
        self.body = body
        d_hidden, d_memory = _widths(body)
        score = General(d_hidden, d_memory, scale=1.0 / math.sqrt(d_hidden))
        self.attention = Attention(score, mechanism=COPY)
        self.gate = nn.Linear(d_hidden, 1)
        self.output = nn.Identity()

    def encode(self, source: Tensor, source_mask: Tensor) -> PointerMemory:
        encoded = self.body.encode(source, source_mask)
        # A weighted sum of unit vectors is the weights, so traces, edits and beams need no special code.
        width = source.shape[1]
        units = torch.eye(width, device=source.device).expand(len(source), width, width)
        places = self.attention.prepare(_read(encoded), units, mask=source_mask)
        return PointerMemory(encoded.keys, encoded.summary, encoded, source, places)

    def start(self, memory: Memory | None, rows: Rows) -> PointerState:
        assert isinstance(memory, PointerMemory) and memory.tokens is not None and memory.places is not None
        started = self.body.start(memory.body, rows)
        return PointerState(started, memory.tokens, memory.places, rows, torch.zeros_like(rows.source_of))

    def step(self, tokens: Tensor, state: PointerState, lengths: Tensor | None = None) -> tuple[Tensor, PointerState]:
        hidden, after = self.body.step(tokens, state.body, lengths)
        weights = self.attention(hidden, state.places, rows=state.rows, offset=state.written)  # (R, n, S)
        generated = torch.softmax(self.body.output(hidden).float(), dim=-1)  # (R, n, V)
        share = torch.sigmoid(self.gate(hidden).float())  # (R, n, 1)
        copied = state.tokens[state.rows.source_of].unsqueeze(1).expand_as(weights)
        mixed = (share * generated).scatter_add(-1, copied, (1.0 - share) * weights.float())
        log_probs = mixed.clamp_min(torch.finfo(mixed.dtype).tiny).log()
        read = tokens.shape[1] if lengths is None else lengths
        return log_probs, PointerState(after, state.tokens, state.places, state.rows, state.written + read)


def _read(memory: Memory) -> Tensor:
    """The values of the last attention to the source, its heads concatenated: `(batch, source, d)`."""
    return memory.keys[-1].value.transpose(1, 2).flatten(2)


@torch.no_grad()
def _widths(body: PairDecoder) -> tuple[int, int]:
    """The widths of a decoder's hidden states and of the values it attends to, found by running one step.

    It is a step of another decoder of the same widths: `body` itself may have no numbers yet (device "meta").
    """
    config = body.config.model_copy(update={"source_vocab_size": 5, "target_vocab_size": 5})
    with torch.device("cpu"), torch.random.fork_rng(devices=[]):
        like = type(body)(config).eval()
        token = torch.ones(1, 1, dtype=torch.long)
        memory = like.encode(token, token.bool())
        hidden, _ = like.step(token, like.start(memory, Rows.repeat(1)))
    return hidden.shape[-1], _read(memory).shape[-1]
