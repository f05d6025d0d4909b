"""Encoder-decoder with attention: Bahdanau, Cho and Bengio 2015, in the form of the lecture notes.

| here | paper | notes | meaning |
|---|---|---|---|
| source, target | x_j, y_i | x_j, x'_t | tokens; x'_t is the embedding of the previous output |
| key = value = encoder states | h_j = [h->_j ; h<-_j] | h_i | both directions, m positions |
| summary | h<-_1 | h_m | backward network's state at the first word; of a unidirectional encoder, the last state |
| state | s_i | s_t | the decoder's hidden state |
| query | s_{i-1} | s_{t-1} | the decoder's previous state |
| scores, weights, context | e_ij, alpha_ij, c_i | a~_i, a_i, c_{t-1} | row t of the map has the weights of c_{t-1} |
| hidden | t_i | [s_t ; c_{t-1}] | input of the output layer for output t |

    s_0     = tanh(W_s h<-_1)                        or, with first_state: copied, h<-_1; unidirectional: h_m
    c_{t-1} = attend(s_{t-1}, h, h)                  v' tanh(W [h_i ; s]), once per output token over m keys
    s_t     = cell([x'_t ; c_{t-1}], s_{t-1})        simple cell: tanh(A' [x'_t ; s_{t-1} ; c_{t-1}] + b)
    y_t     from softmax(W_o [s_t ; c_{t-1}])        or, with d_readout, softmax(W_o tanh(W_r [s_t ; c_{t-1} ; x'_t]))

With `lexical`, the output layer also reads the attended source embeddings f_j:

    l_t     = tanh(sum_j a_tj f_j),    z_t = tanh(W_l l_t) + l_t,    y_t from softmax(W_o [... ; z_t])

The notes' setup is `cell: rnn, bidirectional: false, first_state: copied, score: concat`: a simple cell, a
unidirectional encoder, s_0 = h_m and an alignment without bias.

Source: arXiv:1409.0473, sections 3.1-3.2 and appendix A; the lecture notes (docs/systems.md, B1 and B4). `lexical`:
the lexical model of Nguyen and Chiang 2018 (arXiv:1710.01329); `token_dropout`: Sennrich and Zhang 2019
(arXiv:1905.11901).
Differs from the paper: the output layer is one matrix on [s_t ; c_{t-1}], or `d_readout` inserts a tanh layer that also
reads x'_t; the paper has a maxout layer. Differs from the notes, in their setup: y_t also depends on the context.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any, Literal

import torch
from pydantic import Field
from torch import Tensor, nn

from heed.attention import Attention, Rows, make_score
from heed.kernels import Linear
from heed.layers import AlignedState, Dropout, Recurrent, RecurrentCell, TokenEmbedding, pack_states, unpack_states
from heed.layers.recurrent import CellKind, read_aligned
from heed.models.base import Memory, PairDecoder, TranslatorConfig, named_sizes


class BahdanauConfig(TranslatorConfig):
    """Fields of `bahdanau`; the defaults are RNNsearch-50 of the paper."""

    d_embedding: int = Field(620, gt=0)
    """Width of the token embeddings (paper: m)."""
    d_hidden: int = Field(1000, gt=0)
    """Width of the decoder's state and of each direction of the encoder (paper: n)."""
    d_attention: int = Field(1000, gt=0)
    """Width of the layer that compares query and key (paper: n')."""
    cell: CellKind = "gru"
    """Recurrent cell: rnn (the notes' simple cell), gru (the paper's), lstm or gru_notes."""
    num_layers: int = Field(1, gt=0)
    """Number of layers in the encoder; the decoder has one."""
    bidirectional: bool = True
    """Whether a second network reads the source from right to left, as in the paper. With false, as in the notes, the
    encoder state of a word depends only on that word and those before it."""
    first_state: Literal["layer", "copied"] = "layer"
    """Initial state of the decoder: a tanh layer on the encoder's last state (the paper's), or a copy of that state
    (the notes' s_0 = h_m). With two directions, the last state is the backward network's at the first word."""
    score: str = "additive"
    """Score of decoder state and encoder state: additive (the paper's, with a bias), concat (the notes' first form,
    without a bias) or key_query (the notes' second); `heed models --scores` lists all."""
    d_readout: int | None = Field(None, gt=0)
    """Width of a tanh layer before the output layer; null for none. A width below that of state and context saves most
    of the output layer's computation."""
    dropout: float = Field(0.0, ge=0, lt=1)
    """Dropout probability of embeddings, hidden states and attention weights."""
    attention_dropout: float | None = Field(None, ge=0, lt=1)
    """Dropout probability of attention weights; null for the value of `dropout`."""
    token_dropout: float = Field(0.0, ge=0, lt=1)
    """Probability of dropping the whole embedding of a source or target token in training."""
    lexical: bool = False
    """Whether the output layer also reads the attended source embeddings: a path from source word to target word that
    bypasses the recurrent networks, for rare words and small corpora."""

    sizes = named_sizes(
        tiny=dict(d_embedding=64, d_hidden=128, d_attention=128),
        small=dict(d_embedding=256, d_hidden=256, d_attention=256, d_readout=256, dropout=0.3),
        scarce=dict(
            **dict(d_embedding=128, d_hidden=128, d_attention=128, d_readout=128),
            **dict(dropout=0.3, attention_dropout=0.0, token_dropout=0.1, lexical=True),
        ),
    )


class Bahdanau(PairDecoder):
    """Recurrent encoder and a recurrent decoder that attends to the source before every step."""

    config_class = BahdanauConfig
    summary = "recurrent, additive attention"
    paper = "Bahdanau et al. 2015"

    def __init__(self, config: BahdanauConfig) -> None:
        super().__init__(config)
        c = config
        self.source_embedding = TokenEmbedding(c.source_vocab_size, c.d_embedding)
        self.target_embedding = TokenEmbedding(c.target_vocab_size, c.d_embedding)
        layers: dict[str, Any] = {"cell": c.cell, "num_layers": c.num_layers, "dropout": c.dropout}
        self.encoder = Recurrent(c.d_embedding, c.d_hidden, bidirectional=c.bidirectional, **layers)
        self.d_memory = d_memory = self.encoder.d_output
        score = make_score(c.score, c.d_hidden, d_memory, c.d_attention)
        attention_dropout = c.dropout if c.attention_dropout is None else c.attention_dropout
        self.attention = Attention(score, dropout=attention_dropout, mechanism="cross")
        self.initial = nn.Linear(c.d_hidden, c.d_hidden, bias=False) if c.first_state == "layer" else None
        self.cell = RecurrentCell(c.d_embedding + d_memory, c.d_hidden, c.cell)
        d_seen = c.d_hidden + d_memory
        self.readout = Linear(d_seen + c.d_embedding, c.d_readout) if c.d_readout else None
        self.lexical = Linear(c.d_embedding, c.d_embedding) if c.lexical else None
        d_words = c.d_embedding if c.lexical else 0
        self.output = nn.Linear((c.d_readout or d_seen) + d_words, c.target_vocab_size)
        self.dropout = Dropout(c.dropout)
        self.token_dropout = nn.Dropout1d(c.token_dropout)

    def encode(self, source: Tensor, source_mask: Tensor) -> Memory:
        """Encode sources; arguments as `PairDecoder.encode`.

        Returns:
            The encoder states as keys and values (with `lexical`, values end with the source embeddings). The summary
            is the state from which s_0 is made: `(batch, d_hidden)`, or the packed state with `first_state: copied`.
        """
        words = self.token_dropout(self.source_embedding(source))  # (B, S, d_embedding)
        states, finals = self.encoder(self.dropout(words), source_mask)  # (B, S, d_memory)
        last = finals[-1][-1]  # (B, d_hidden), and an LSTM's cell; of the backward network, if there is one
        states = self.dropout(states)
        values = states if self.lexical is None else torch.cat([states, words], dim=-1)
        keys = self.attention.prepare(states, values, mask=source_mask)
        return Memory((keys,), pack_states([[last]]) if self.initial is None else last[0])

    def start(self, memory: Memory | None, rows: Rows) -> AlignedState:
        """Initial decoding state of each row: `s_0` of its source; an LSTM's cell is zero, or copied like `s_0`."""
        assert memory is not None and memory.summary is not None
        if self.initial is None:
            states = unpack_states(memory.summary[rows.source_of], 1, self.cell.cell)
        else:
            s_0 = torch.tanh(self.initial(memory.summary))[rows.source_of]
            states = [[(s_0, torch.zeros_like(s_0)) if self.cell.cell == "lstm" else (s_0,)]]
        return AlignedState(states, None, memory.keys[0], rows, torch.zeros_like(rows.source_of))

    def step(self, tokens: Tensor, state: AlignedState, lengths: Tensor | None = None) -> tuple[Tensor, AlignedState]:
        """Attend, then update the state, for each of the next tokens; arguments and result as `DecoderBody.step`."""
        embedded = self.dropout(self.token_dropout(self.target_embedding(tokens)))  # (R, n, d_embedding)
        hidden, seen, cell = read_aligned(
            self.cell, self.attention, embedded, state.keys, state.rows, state.states[0][0], state.position, lengths
        )  # (R, n, d_hidden), (R, n, d_value)
        context = seen[..., : self.d_memory]
        position = state.position + (tokens.shape[1] if lengths is None else lengths)
        out = torch.cat([hidden, context], dim=-1)  # (R, n, d_hidden + d_memory)
        if self.readout is not None:
            out = torch.tanh(self.readout(torch.cat([self.dropout(out), embedded], dim=-1)))
        if self.lexical is not None:
            looked_at = torch.tanh(seen[..., self.d_memory :])  # (R, n, d_embedding)
            out = torch.cat([out, torch.tanh(self.lexical(looked_at)) + looked_at], dim=-1)
        return self.dropout(out), replace(state, states=[[cell]], position=position)
