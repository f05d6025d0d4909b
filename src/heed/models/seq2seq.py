"""Encoder-decoder without attention: the decoder reads a source of any length as one vector.

| here | Cho et al. | notes | meaning |
|---|---|---|---|
| source, target | x_j, y_t | x_j, x'_t | tokens; x'_t is the embedding of the previous output |
| summary | c | h_m | the encoder's last states, the decoder's only view of the source |
| state | h_<t> | s_t | the decoder's hidden state |
| hidden | - | s_t, or [s_t ; c] | input of the output layer for output t |

    s_0 = h_m                               two directions: s_0 = tanh(W [h->_m ; h<-_1]) (`heed.layers.Bridge`)
    s_t = cell(x'_t, s_{t-1})               summary: start; the notes' simple cell: tanh(A' [x'_t ; s_{t-1}] + b)
    s_t = cell([x'_t ; c], s_{t-1})         summary: each_step, c = s_0 of the last layer
    y_t from softmax(W_o s_t)               each_step: softmax(W_o [s_t ; c])
                                            with d_readout: softmax(W_o tanh(W_r [s_t ; x'_t])), or of [s_t ; c ; x'_t]

Source: Cho et al. 2014, arXiv:1406.1078, section 2.2 and appendix (summary at each step, gru); Sutskever, Vinyals and
Le 2014, arXiv:1409.3215 (summary at the start, four layers of lstm); the lecture notes, docs/systems.md, A7 (at the
start, rnn). The base size is RNNencdec, the baseline of Bahdanau et al. 2015, arXiv:1409.0473, section 4.2.
Differs from the papers: no maxout layer (`d_readout` puts a tanh layer in its place); no tanh layers between h_m, c and
s_0 (Cho et al.); the source is not reversed (Sutskever et al.).
"""

from __future__ import annotations

from typing import Any, Literal

import torch
from pydantic import Field
from torch import Tensor, nn

from heed.attention import Rows, padding_mask
from heed.layers import Bridge, Dropout, Recurrent, RecurrentState, TokenEmbedding, pack_states, unpack_states
from heed.layers.recurrent import CellKind
from heed.models.base import Memory, PairDecoder, TranslatorConfig, named_sizes


class Seq2SeqConfig(TranslatorConfig):
    """Fields of `seq2seq`; the defaults are RNNencdec."""

    d_embedding: int = Field(620, gt=0)
    """Width of the token embeddings."""
    d_hidden: int = Field(1000, gt=0)
    """Width of each layer of the decoder and of each direction of the encoder."""
    cell: CellKind = "gru"
    """Recurrent cell: rnn (the notes' simple cell), gru (Cho et al.'s), lstm (Sutskever et al.'s) or gru_notes."""
    num_layers: int = Field(1, gt=0)
    """Number of layers in the encoder and in the decoder, each; a decoder layer starts from the last state of its
    encoder layer."""
    bidirectional: bool = False
    """Whether a second network reads the source from right to left."""
    summary: Literal["start", "each_step"] = "each_step"
    """Use of the encoder's summary: as the decoder's initial state only, or also as an input of each step."""
    d_readout: int | None = Field(None, gt=0)
    """Width of a tanh layer before the output layer, which also reads the previous output; null for none. A width below
    that of its input saves computation in the output layer."""
    dropout: float = Field(0.0, ge=0, lt=1)
    """Dropout probability of embeddings and hidden states."""

    sizes = named_sizes(
        tiny=dict(d_embedding=64, d_hidden=128),
        small=dict(d_embedding=256, d_hidden=256, d_readout=256, dropout=0.3),
    )


class Seq2Seq(PairDecoder):
    """A recurrent encoder, and a recurrent decoder that starts from its last states."""

    config_class = Seq2SeqConfig
    summary = "recurrent, one vector for the source"
    paper = "Cho et al. 2014"
    config: Seq2SeqConfig

    def __init__(self, config: Seq2SeqConfig) -> None:
        super().__init__(config)
        c = config
        self.source_embedding = TokenEmbedding(c.source_vocab_size, c.d_embedding)
        self.target_embedding = TokenEmbedding(c.target_vocab_size, c.d_embedding)
        layers: dict[str, Any] = {"cell": c.cell, "num_layers": c.num_layers, "dropout": c.dropout}
        self.encoder = Recurrent(c.d_embedding, c.d_hidden, bidirectional=c.bidirectional, **layers)
        self.bridge = Bridge(c.d_hidden, c.num_layers, c.cell, c.bidirectional)
        self.feeds = c.summary == "each_step"
        d_fed = c.d_hidden if self.feeds else 0
        self.decoder = Recurrent(c.d_embedding + d_fed, c.d_hidden, **layers)
        d_seen = c.d_hidden + d_fed
        self.readout = nn.Linear(d_seen + c.d_embedding, c.d_readout) if c.d_readout else None
        self.output = nn.Linear(c.d_readout or d_seen, c.target_vocab_size)
        self.dropout = Dropout(c.dropout)

    def encode(self, source: Tensor, source_mask: Tensor) -> Memory:
        """Encode sources to a summary, the decoder's packed initial states; arguments as `PairDecoder.encode`."""
        _, finals = self.encoder(self.dropout(self.source_embedding(source)), source_mask)
        return Memory((), pack_states(self.bridge(finals)))

    def start(self, memory: Memory | None, rows: Rows) -> RecurrentState:
        assert memory is not None and memory.summary is not None
        states = unpack_states(memory.summary[rows.source_of], self.config.num_layers, self.config.cell)
        return RecurrentState(states, states[-1][0][0] if self.feeds else None)

    def step(
        self, tokens: Tensor, state: RecurrentState, lengths: Tensor | None = None
    ) -> tuple[Tensor, RecurrentState]:
        """Read the next tokens in one run of the recurrent layers; arguments and result as `DecoderBody.step`."""
        embedded = self.dropout(self.target_embedding(tokens))  # (R, n, d_embedding)
        fed = [] if state.fed is None else [state.fed.unsqueeze(1).expand(-1, tokens.shape[1], -1)]
        mask = None if lengths is None else padding_mask(lengths, tokens.shape[1])
        hidden, states = self.decoder(torch.cat([embedded, *fed], dim=-1), mask, state.states)  # (R, n, d_hidden)
        out = torch.cat([hidden, *fed], dim=-1)  # (R, n, d_hidden or 2 * d_hidden)
        if self.readout is not None:
            out = torch.tanh(self.readout(torch.cat([self.dropout(out), embedded], dim=-1)))
        return self.dropout(out), RecurrentState(states, state.fed)
