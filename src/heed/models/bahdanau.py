"""Encoder-decoder with attention: Bahdanau, Cho and Bengio 2015, in the form of the lecture notes.

| here | paper | notes | what |
|---|---|---|---|
| source, target | x_j, y_i | x_j, x'_t | tokens; x'_t is the embedding of the previous output |
| key = value = encoder states | h_j = [h->_j ; h<-_j] | h_i | both directions, m positions |
| summary | h<-_1 | h_m | the backward net's state at the first word; of a one-way encoder, the state at the last |
| state | s_i | s_t | the decoder's hidden state |
| query | s_{i-1} | s_{t-1} | what asks |
| scores, weights, context | e_ij, alpha_ij, c_i | a~_i, a_i, c_{t-1} | row t of the map is c_{t-1} |
| hidden | t_i | [s_t ; c_{t-1}] | what predicts output t |

    s_0     = tanh(W_s h<-_1)                        or, with first_state: copied, h<-_1 itself; h_m in one direction
    c_{t-1} = attend(s_{t-1}, h, h)                  v' tanh(W [h_i ; s]), once per output token over m keys
    s_t     = cell([x'_t ; c_{t-1}], s_{t-1})        simple cell: tanh(A' [x'_t ; s_{t-1} ; c_{t-1}] + b)
    y_t     from softmax(W_o [s_t ; c_{t-1}])        or, with d_readout, softmax(W_o tanh(W_r [s_t ; c_{t-1} ; x'_t]))

With `lexical`, what predicts y_t is joined by the words looked at themselves, f_j the source embeddings:

    l_t     = tanh(sum_j a_tj f_j),    z_t = tanh(W_l l_t) + l_t,    y_t from softmax(W_o [... ; z_t])

The notes' own set-up is `cell: rnn, bidirectional: false, first_state: copied, score: concat`: a simple cell, an
encoder of one direction, s_0 = h_m, and an alignment without a bias.

Source: arXiv:1409.0473, sections 3.1-3.2 and appendix A; the lecture notes (docs/systems.md, B1 and B4). The lexical
part: Nguyen and Chiang 2018 (arXiv:1710.01329), lexical translation; whole tokens dropped: Sennrich and Zhang 2019
(arXiv:1905.11901).
Differs from the paper: the output layer is one matrix on [s_t ; c_{t-1}], or `d_readout` puts a tanh layer between
that also sees x'_t, where the paper has maxout. Differs from the notes, in their set-up: y_t also sees the context.
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
from heed.layers.aligned import read_aligned
from heed.layers.recurrent import CellKind
from heed.models.base import Memory, PairDecoder, TranslatorConfig, named_sizes


class BahdanauConfig(TranslatorConfig):
    """Fields of `bahdanau`; the defaults are RNNsearch-50 of the paper."""

    d_embedding: int = Field(620, gt=0)
    """Width of the token embeddings (paper: m)."""
    d_hidden: int = Field(1000, gt=0)
    """Width of the decoder's state and of each direction of the encoder (paper: n)."""
    d_attention: int = Field(1000, gt=0)
    """Width in which query and key are compared (paper: n')."""
    cell: CellKind = "gru"
    """Recurrent cell: rnn is the notes' simple cell, gru the paper's, also lstm and gru_notes."""
    num_layers: int = Field(1, gt=0)
    """Layers of the encoder; the decoder has one."""
    bidirectional: bool = True
    """Whether a second network reads the source from its end, as in the paper; false is the notes' encoder, whose
    states have seen the words up to their own only."""
    first_state: Literal["layer", "copied"] = "layer"
    """How the decoder starts: from a tanh layer on the encoder's last state (the paper's), or from that state itself
    (the notes' s_0 = h_m). The last state is the backward net's at the first word where there are two directions."""
    score: str = "additive"
    """How state and encoder states are compared: additive is the paper's with a bias, concat the notes' first form,
    which has none, key_query their second."""
    d_readout: int | None = Field(None, gt=0)
    """Width of a tanh layer before the vocabulary: smaller than the state and context it reads, it saves most of the
    output layer's work; null for none."""
    dropout: float = Field(0.0, ge=0, lt=1)
    """Probability with which an embedding, hidden state or attention weight is dropped in training."""
    attention_dropout: float | None = Field(None, ge=0, lt=1)
    """Probability with which an attention weight is dropped in training; null for that of `dropout`."""
    token_dropout: float = Field(0.0, ge=0, lt=1)
    """Probability with which the whole embedding of a source or target token is dropped in training."""
    lexical: bool = False
    """Whether the output layer also reads the embeddings of the source tokens looked at: a path from word to word
    that does not pass the recurrent nets, for rare words and small corpora."""

    sizes = named_sizes(
        tiny=dict(d_embedding=64, d_hidden=128, d_attention=128),
        small=dict(d_embedding=256, d_hidden=256, d_attention=256, d_readout=256, dropout=0.3),
        scarce=dict(
            **dict(d_embedding=128, d_hidden=128, d_attention=128, d_readout=128),
            **dict(dropout=0.3, attention_dropout=0.0, token_dropout=0.1, lexical=True),
        ),
    )


class Bahdanau(PairDecoder):
    """Recurrent encoder, alignment at every output token, decoder fed with the context."""

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
        """The encoder's states as keys and values; the last state of its last net as summary, packed if copied."""
        words = self.token_dropout(self.source_embedding(source))  # (B, S, d_embedding)
        states, finals = self.encoder(self.dropout(words), source_mask)  # (B, S, d_memory)
        last = finals[-1][-1]  # (B, d_hidden), and an LSTM's cell: the backward net's, where there is one
        states = self.dropout(states)
        values = states if self.lexical is None else torch.cat([states, words], dim=-1)
        keys = self.attention.prepare(states, values, mask=source_mask)
        return Memory((keys,), pack_states([[last]]) if self.initial is None else last[0])

    def start(self, memory: Memory | None, rows: Rows) -> AlignedState:
        """`s_0` for each row's source; an LSTM's cell starts at zero, or is copied as well."""
        assert memory is not None and memory.summary is not None
        if self.initial is None:
            states = unpack_states(memory.summary[rows.source_of], 1, self.cell.cell)
        else:
            s_0 = torch.tanh(self.initial(memory.summary))[rows.source_of]
            states = [[(s_0, torch.zeros_like(s_0)) if self.cell.cell == "lstm" else (s_0,)]]
        return AlignedState(states, None, memory.keys[0], rows, torch.zeros_like(rows.source_of))

    def step(self, tokens: Tensor, state: AlignedState, lengths: Tensor | None = None) -> tuple[Tensor, AlignedState]:
        """Align, move the state, for each further token."""
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
