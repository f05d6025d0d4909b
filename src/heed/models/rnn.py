"""One recurrent network: over a text for its labels or tags, over a source and on over the target, or to go on writing.

For a text, one direction or both, with a task's head on the states:

    h(t) = cell(x(t), h(t-1)) from left to right;  g(t) = cell(x(t), g(t+1)) from right to left, with its own weights
    hidden(t) = [h(t) ; g(t)]        y(t) = act(V hidden(t) + b) is the head

As a translator it reads the source and then writes the target, as one sequence:

    h_0 = 0;  h_j = cell(x_j, h_{j-1}) over the source;  s_0 = h_m;  s_t = cell(x'_t, s_{t-1}), the same weights
    y_t from softmax(W_o s_t)        with d_readout: softmax(W_o tanh(W_r [s_t ; x'_t]))

As a language model it reads from left to right and its state is carried from each batch of text to the next:

    h^0_t = x_t;  h^l_t = cell(D(h^{l-1}_t), h^l_{t-1})  for layers l = 1 .. L;  next token from softmax(W_o D(h^L_t))

where D drops numbers at random: inputs, between layers and before the output, never from h_{t-1} to h_t.

Over a series of numbers, from left to right only: h(t) = cell(x(t), h(t-1)), and a head says x(t+1).

As a translator it is `seq2seq` with one set of weights for reading and writing: the control for the claim that one RNN
is not enough.

Source: Elman 1990 for the network, Schuster and Paliwal 1997 for both directions (the cells' equations stand in
`heed.layers.recurrent`); the lecture notes, docs/systems.md, A3-A7, for labels and for the comparison; sizes over a
text as in Tai, Socher and Manning 2015 (arXiv:1503.00075), section 4; the language model, its dropout and its sizes as
in Zaremba, Sutskever and Vinyals 2014 (arXiv:1409.2329), sections 3.2 and 4.1.
Differs from one table over a joint vocabulary in nothing: source and target tokens are counted separately, so each side
has an embedding table of its own. Embeddings and states are dropped out in training. The language model's parameters
are drawn as those of the layers elsewhere: cells uniformly within 1 / sqrt(d_hidden) of 0 (0.039 at 650 units, where
the paper draws everything within 0.05), embeddings from a normal distribution of standard deviation d ** -0.5.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Self

import torch
from pydantic import Field, model_validator
from torch import Tensor, nn

from heed.attention import Rows, padding_mask
from heed.layers import (
    Dropout,
    Recurrent,
    RecurrentState,
    TokenEmbedding,
    TokenInput,
    output_layers,
    pack_states,
    unpack_states,
)
from heed.layers.recurrent import CellKind, States
from heed.models.base import (
    LanguageModel,
    Memory,
    ModelConfig,
    PairDecoder,
    SeriesEncoder,
    TextConfig,
    TokenConfig,
    TokenEncoder,
    TranslatorConfig,
    named_sizes,
    state_at,
)


class RNNConfig(TokenConfig):
    """Fields of `rnn`; the defaults are the bidirectional LSTM of Tai et al. 2015."""

    d_embedding: int = Field(300, gt=0)
    """Width of the token embeddings."""
    d_hidden: int = Field(168, gt=0)
    """Width of the state of each direction."""
    cell: CellKind = "lstm"
    """Recurrent cell: rnn (tanh), lstm, gru, or gru_notes, the notes' gating."""
    bidirectional: bool = True
    """Whether a second network reads from the end."""
    backward: bool = False
    """Of one direction: whether it reads from the end (with bidirectional false)."""
    num_layers: int = Field(1, gt=0)
    """Layers, each reading the states of the one before."""
    dropout: float = Field(0.5, ge=0, lt=1)
    """Probability with which a number of an embedding or of a state is dropped in training."""

    sizes = named_sizes(tiny=dict(d_embedding=64, d_hidden=64), small=dict(d_embedding=128, d_hidden=128))

    @model_validator(mode="after")
    def _one_direction(self) -> Self:
        if self.backward and self.bidirectional:
            raise ValueError("model.backward is for one direction; set model.bidirectional=false too")
        return self


class RNN(TokenEncoder):
    """Embeddings and recurrent layers."""

    config_class = RNNConfig
    summary = "recurrent, one direction or both"
    paper = "Elman 1990"

    def __init__(self, config: RNNConfig) -> None:
        super().__init__(config)
        c = config
        self.inputs = TokenInput(c.vocab_size, c.d_embedding, c.d_features)
        self.encoder = Recurrent(
            self.inputs.d_output,
            c.d_hidden,
            cell=c.cell,
            num_layers=c.num_layers,
            bidirectional=c.bidirectional,
            backward=c.backward,
            dropout=c.dropout,
        )
        self.dropout = Dropout(c.dropout)
        self.num_forward = 0 if c.backward and not c.bidirectional else c.d_hidden
        self.d_output = self.encoder.d_output

    def forward(self, tokens: Tensor, mask: Tensor, features: Tensor | None = None) -> Tensor:
        """States of each token, `(batch, length, d_output)`, zeros outside the mask."""
        embedded = self.dropout(self.inputs(tokens, features))  # (B, T, d_embedding + d_features)
        hidden, _ = self.encoder(embedded, mask)  # (B, T, d_output)
        return self.dropout(hidden)  # type: ignore[no-any-return]

    def last(self, hidden: Tensor, mask: Tensor) -> Tensor:
        """`[h(T) ; g(1)]`: each direction's state after its own last token."""
        ends = state_at(hidden[..., : self.num_forward], mask, mask.sum(1) - 1)
        starts = state_at(hidden[..., self.num_forward :], mask, torch.zeros_like(mask[:, 0], dtype=torch.long))
        return torch.cat([ends, starts], dim=-1)


class RnnTranslatorConfig(TranslatorConfig):
    """Fields of `rnn` as a translator; the defaults are the widths of `seq2seq`, with which it is compared."""

    d_embedding: int = Field(620, gt=0)
    """Width of the token embeddings."""
    d_hidden: int = Field(1000, gt=0)
    """Width of each layer's state."""
    cell: CellKind = "gru"
    """Recurrent cell: rnn is the notes' simple cell; lstm, gru or gru_notes."""
    num_layers: int = Field(1, gt=0)
    """Layers, each reading the states of the one before."""
    d_readout: int | None = Field(None, gt=0)
    """Width of a tanh layer before the vocabulary, which also sees the previous output; null for none."""
    dropout: float = Field(0.0, ge=0, lt=1)
    """Probability with which an embedding or hidden state is dropped in training."""

    sizes = named_sizes(tiny=dict(d_embedding=64, d_hidden=128), small=dict(d_embedding=256, d_hidden=256, dropout=0.3))


class RnnTranslator(PairDecoder):
    """The same layers over the source and on over the target."""

    config_class = RnnTranslatorConfig
    summary = "one recurrent network for both sides"
    paper = "lecture notes"
    config: RnnTranslatorConfig

    def __init__(self, config: RnnTranslatorConfig) -> None:
        super().__init__(config)
        c = config
        self.source_embedding = TokenEmbedding(c.source_vocab_size, c.d_embedding)
        self.target_embedding = TokenEmbedding(c.target_vocab_size, c.d_embedding)
        self.layers = Recurrent(c.d_embedding, c.d_hidden, cell=c.cell, num_layers=c.num_layers, dropout=c.dropout)
        self.readout = nn.Linear(c.d_hidden + c.d_embedding, c.d_readout) if c.d_readout else None
        self.output = nn.Linear(c.d_readout or c.d_hidden, c.target_vocab_size)
        self.dropout = Dropout(c.dropout)

    def encode(self, source: Tensor, source_mask: Tensor) -> Memory:
        """The states after the source, packed into one vector."""
        _, finals = self.layers(self.dropout(self.source_embedding(source)), source_mask)
        return Memory((), pack_states(finals))

    def start(self, memory: Memory | None, rows: Rows) -> RecurrentState:
        """The states after each row's source: the sequence goes on."""
        assert memory is not None and memory.summary is not None
        states = unpack_states(memory.summary[rows.source_of], self.config.num_layers, self.config.cell)
        return RecurrentState(states, None)

    def step(
        self, tokens: Tensor, state: RecurrentState, lengths: Tensor | None = None
    ) -> tuple[Tensor, RecurrentState]:
        """Read on."""
        embedded = self.dropout(self.target_embedding(tokens))  # (R, n, d_embedding)
        mask = None if lengths is None else padding_mask(lengths, tokens.shape[1])
        out, states = self.layers(embedded, mask, state.states)  # (R, n, d_hidden)
        if self.readout is not None:
            out = torch.tanh(self.readout(torch.cat([self.dropout(out), embedded], dim=-1)))
        return self.dropout(out), RecurrentState(states, None)


class RnnLanguageModelConfig(TextConfig):
    """Fields of `rnn` as a language model; the defaults are the medium LSTM of Zaremba et al. 2014."""

    d_embedding: int = Field(650, gt=0)
    """Width of the token embeddings."""
    d_hidden: int = Field(650, gt=0)
    """Width of each layer's state."""
    cell: CellKind = "lstm"
    """Recurrent cell: rnn (tanh), lstm, gru, or gru_notes, the notes' gating."""
    num_layers: int = Field(2, gt=0)
    """Layers, each reading the states of the one before."""
    tied_output: bool = False
    """The output layer's matrix is the embedding table; states of another width are projected to it."""
    dropout: float = Field(0.5, ge=0, lt=1)
    """Probability with which a number is dropped in training: of an embedding, of a state on its way to the next layer
    or to the output, never of a state on its way to the next token."""

    sizes = named_sizes(
        tiny=dict(d_embedding=128, d_hidden=128, num_layers=1, dropout=0.0),
        small=dict(d_embedding=200, d_hidden=200, dropout=0.0),  # the paper's small one
        large=dict(d_embedding=1500, d_hidden=1500, dropout=0.65),
    )


class RnnLanguageModel(LanguageModel):
    """Recurrent layers from left to right, and an output layer."""

    config_class = RnnLanguageModelConfig
    summary = "recurrent, from left to right"
    paper = "Zaremba et al. 2014"
    config: RnnLanguageModelConfig
    carries = True

    def __init__(self, config: RnnLanguageModelConfig) -> None:
        super().__init__(config)
        c = config
        self.embedding = TokenEmbedding(c.vocab_size, c.d_embedding, padding_token=None)
        self.layers = Recurrent(c.d_embedding, c.d_hidden, cell=c.cell, num_layers=c.num_layers, dropout=c.dropout)
        self.projection, self.output = output_layers(c.d_hidden, self.embedding, c.tied_output)
        self.dropout = Dropout(c.dropout)

    def start(self, memory: Memory | None, rows: Rows) -> RecurrentState:
        """States of zeros."""
        return RecurrentState(self.layers.zero_states(self.embedding.weight.new_empty(len(rows), 0)), None)

    def step(
        self, tokens: Tensor, state: RecurrentState, lengths: Tensor | None = None
    ) -> tuple[Tensor, RecurrentState]:
        """Read on."""
        mask = None if lengths is None else padding_mask(lengths, tokens.shape[1])
        hidden, states = self.layers(self.dropout(self.embedding(tokens)), mask, state.states)  # (R, n, d_hidden)
        return self.projection(self.dropout(hidden)), RecurrentState(states, None)

    def pack(self, state: RecurrentState) -> dict[str, Tensor]:
        """The hidden and cell state of each layer."""
        return state.pack()

    def unpack(self, tensors: Mapping[str, Tensor]) -> RecurrentState:
        """Undo `pack`."""
        return RecurrentState.unpack(tensors)


class RnnSeriesConfig(ModelConfig):
    """Fields of `rnn` over a series of numbers."""

    num_columns: int = Field(gt=0)
    """Numbers in a row; set from the data."""
    d_hidden: int = Field(128, gt=0)
    """Width of the state."""
    cell: CellKind = "lstm"
    """Recurrent cell: rnn (tanh), lstm, gru, or gru_notes, the notes' gating."""
    num_layers: int = Field(1, gt=0)
    """Layers, each reading the states of the one before."""
    dropout: float = Field(0.0, ge=0, lt=1)
    """Probability with which a number of a state is dropped in training."""

    sizes = named_sizes(tiny=dict(d_hidden=32), small=dict(d_hidden=64))


class RnnSeries(SeriesEncoder):
    """Recurrent layers from left to right."""

    config_class = RnnSeriesConfig
    summary = "recurrent, from left to right"
    paper = "Elman 1990"

    def __init__(self, config: RnnSeriesConfig) -> None:
        super().__init__(config)
        c = config
        self.encoder = Recurrent(c.num_columns, c.d_hidden, cell=c.cell, num_layers=c.num_layers, dropout=c.dropout)
        self.dropout = Dropout(c.dropout)
        self.d_output = c.d_hidden

    def read(self, values: Tensor, states: States | None = None) -> tuple[Tensor, States]:
        """Read on: hidden `(batch, length, d_hidden)`, and the state of each layer."""
        hidden, states = self.encoder(values, None, states)
        return self.dropout(hidden), states
