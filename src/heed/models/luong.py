"""Encoder-decoder with attention from the current decoder state: Luong, Pham and Manning 2015, the global model.

| here | paper | meaning |
|---|---|---|
| source, target | x_j, y_t | tokens; x'_t below is the embedding of the previous output y_{t-1} |
| key = value = encoder states | h-bar_s | top layer, m positions |
| query = state | h_t | top layer of the decoder, after reading x'_t |
| scores, weights, context | score, a_t, c_t | row t of the map is a_t |
| hidden | h~_t | the attentional state: input of the output layer for output t |

    s_0  = the encoder's last states        layer by layer (`heed.layers.Bridge`)
    s_t  = cell(x'_t, s_{t-1})              input feeding: cell([x'_t ; h~_{t-1}], s_{t-1}), h~_0 = 0
    c_t  = attend(s_t, h, h)                dot: h_i's; general: h_i'W s; concat: v' tanh(W [h_i ; s])
    h~_t = tanh(W_c [c_t ; s_t])
    y_t  from softmax(W_o h~_t)

`bahdanau` attends before the state update, `luong` after it: without input feeding no state depends on a context, so a
whole target takes one run of the recurrent layers and one call of attention.

Source: arXiv:1508.04025, sections 2, 3.1 and 3.3; docs/systems.md, B3.
Differs from the paper: the source is not reversed; all scores of `heed.attention` are available ("key_query" is the
notes' B2); the score "location" and the local models are not implemented.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import torch
from pydantic import Field
from torch import Tensor, nn

from heed.attention import Attention, Rows, make_score, padding_mask
from heed.layers import (
    AlignedState,
    Bridge,
    Dropout,
    Recurrent,
    RecurrentCell,
    StepwiseRun,
    TokenEmbedding,
    last_of,
    pack_states,
    unpack_states,
)
from heed.layers.recurrent import CellKind, States
from heed.models.base import Memory, PairDecoder, TranslatorConfig, named_sizes


class LuongConfig(TranslatorConfig):
    """Fields of `luong`; the defaults are the paper's."""

    d_embedding: int = Field(1000, gt=0)
    """Width of the token embeddings."""
    d_hidden: int = Field(1000, gt=0)
    """Width of each layer of the decoder, of each direction of the encoder, and of the attentional state."""
    d_attention: int = Field(1000, gt=0)
    """Width of the layer that compares query and key, for the scores that project both: concat, additive, key_query."""
    cell: CellKind = "lstm"
    """Recurrent cell: rnn, lstm (the paper's), gru or gru_notes."""
    num_layers: int = Field(4, gt=0)
    """Number of layers in the encoder and in the decoder, each; a decoder layer starts from the last state of its
    encoder layer."""
    bidirectional: bool = False
    """Whether a second network reads the source from right to left. Keys are then twice as wide as queries, which the
    score dot does not support."""
    score: str = "general"
    """Score of decoder state and encoder state: dot, general and concat are the paper's; `heed models --scores` lists
    all."""
    input_feeding: bool = True
    """Whether each step also reads the previous attentional state. Without it, training reads whole targets at once."""
    dropout: float = Field(0.2, ge=0, lt=1)
    """Dropout probability of embeddings, hidden states and attention weights."""

    sizes = named_sizes(
        tiny=dict(d_embedding=64, d_hidden=128, d_attention=128, num_layers=1, dropout=0.0),
        small=dict(d_embedding=256, d_hidden=256, d_attention=256, num_layers=1, dropout=0.3),
    )


class Luong(PairDecoder):
    """Stacked recurrent encoder and decoder; attention from the top layer, its context combined with the state."""

    config_class = LuongConfig
    summary = "recurrent, attention from the new state"
    paper = "Luong et al. 2015"
    config: LuongConfig

    def __init__(self, config: LuongConfig) -> None:
        super().__init__(config)
        c = config
        self.source_embedding = TokenEmbedding(c.source_vocab_size, c.d_embedding)
        self.target_embedding = TokenEmbedding(c.target_vocab_size, c.d_embedding)
        layers: dict[str, Any] = {"cell": c.cell, "num_layers": c.num_layers, "dropout": c.dropout}
        self.encoder = Recurrent(c.d_embedding, c.d_hidden, bidirectional=c.bidirectional, **layers)
        self.bridge = Bridge(c.d_hidden, c.num_layers, c.cell, c.bidirectional)
        self.decoder = Recurrent(c.d_embedding + (c.d_hidden if c.input_feeding else 0), c.d_hidden, **layers)
        d_memory = self.encoder.d_output
        score = make_score(c.score, c.d_hidden, d_memory, c.d_attention)
        self.attention = Attention(score, dropout=c.dropout, mechanism="cross")
        self.combine = nn.Linear(d_memory + c.d_hidden, c.d_hidden, bias=False)
        self.output = nn.Linear(c.d_hidden, c.target_vocab_size)
        self.dropout = Dropout(c.dropout)

    def encode(self, source: Tensor, source_mask: Tensor) -> Memory:
        """Encode sources; arguments as `PairDecoder.encode`.

        Returns:
            The top layer's states as keys and values; the decoder's initial states, packed, as summary.
        """
        states, finals = self.encoder(self.dropout(self.source_embedding(source)), source_mask)  # (B, S, d_memory)
        keys = self.attention.prepare(self.dropout(states), mask=source_mask)
        return Memory((keys,), pack_states(self.bridge(finals)))

    def start(self, memory: Memory | None, rows: Rows) -> AlignedState:
        """Initial decoding state of each row: `s_0` of every layer and, with input feeding, `h~_0 = 0`."""
        assert memory is not None and memory.summary is not None
        states = unpack_states(memory.summary[rows.source_of], self.config.num_layers, self.config.cell)
        fed = torch.zeros_like(states[-1][0][0]) if self.config.input_feeding else None
        return AlignedState(states, fed, memory.keys[0], rows, torch.zeros_like(rows.source_of))

    def step(self, tokens: Tensor, state: AlignedState, lengths: Tensor | None = None) -> tuple[Tensor, AlignedState]:
        """Update the states, then attend; arguments and result as `DecoderBody.step`.

        All tokens are read at once, or, with input feeding, one by one.
        """
        embedded = self.dropout(self.target_embedding(tokens))  # (R, n, d_embedding)
        if state.fed is None:
            mask = None if lengths is None else padding_mask(lengths, tokens.shape[1])
            hidden, states = self.decoder(embedded, mask, state.states)  # (R, n, d_hidden)
            out, fed = self._look(hidden, state, state.position), None
        else:
            out, states, fed = self._one_by_one(embedded, state, lengths)
        position = state.position + (tokens.shape[1] if lengths is None else lengths)
        return self.dropout(out), replace(state, states=states, fed=fed, position=position)

    def _look(self, hidden: Tensor, state: AlignedState, position: Tensor) -> Tensor:
        """`h~ = tanh(W_c [c ; s])` of states `(rows, n, d_hidden)`."""
        context = self.attention(hidden, state.keys, rows=state.rows, offset=position)  # (R, n, d_memory)
        return torch.tanh(self.combine(torch.cat([context, hidden], dim=-1)))

    def _one_by_one(
        self, embedded: Tensor, state: AlignedState, lengths: Tensor | None
    ) -> tuple[Tensor, States, Tensor]:
        """Input feeding: each step reads the token's embedding and the `h~` of the previous token.

        Returns:
            `h~` of every token, `(rows, n, d_hidden)`; and the states and `h~` after each row's last real token.
        """
        cells = [cell for cell in self.decoder.forward_cells if isinstance(cell, RecurrentCell)]
        runs = [StepwiseRun(cell, initial) for cell, (initial,) in zip(cells, state.states, strict=True)]
        fed = state.fed
        assert fed is not None
        outs = []
        for t in range(embedded.shape[1]):
            x = torch.cat([embedded[:, t], fed], dim=-1)
            for layer, run in enumerate(runs):
                x = run.step(self.decoder.dropout(x) if layer else x)[0]
            fed = self._look(x.unsqueeze(1), state, state.position + t).squeeze(1)
            outs.append(fed)
        for run in runs:
            run.finish()
        out, states = torch.stack(outs, dim=1), [[run.state_at(lengths)] for run in runs]
        return out, states, last_of(out, lengths)
