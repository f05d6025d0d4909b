"""One recurrent network: encoder of texts or series, language model, or translator with shared weights.

Over a text, in one direction or both, with the task's head on the states:

    h(t) = cell(x(t), h(t-1)) from left to right;  g(t) = cell(x(t), g(t+1)) from right to left, with its own weights
    hidden(t) = [h(t) ; g(t)]        y(t) = act(V hidden(t) + b) is the head

As a translator it reads the source, then generates the target, as one sequence:

    h_0 = 0;  h_j = cell(x_j, h_{j-1}) over the source;  s_0 = h_m;  s_t = cell(x'_t, s_{t-1}), the same weights
    y_t from softmax(W_o s_t)        with d_readout: softmax(W_o tanh(W_r [s_t ; x'_t]))

As a language model it reads from left to right, and its state is carried from batch to batch:

    h^0_t = x_t;  h^l_t = cell(D(h^{l-1}_t), h^l_{t-1})  for layers l = 1 .. L;  next token from softmax(W_o D(h^L_t))

where D is dropout: on inputs, between layers and before the output, never from h_{t-1} to h_t.

Over a series of numbers, from left to right only: h(t) = cell(x(t), h(t-1)), and a head predicts x(t+1).

The translator is `seq2seq` with the same weights in encoder and decoder: the control for the claim that a single RNN is
not enough. Source and target have separate vocabularies, so each has its own embeddings.

Source: Elman 1990 for the network, Schuster and Paliwal 1997 for both directions (equations of the cells:
`heed.layers.recurrent`); the lecture notes, docs/systems.md, A3-A7, for labels and for the comparison; sizes over a
text: Tai, Socher and Manning 2015 (arXiv:1503.00075), section 4; the language model, its dropout and its sizes:
Zaremba, Sutskever and Vinyals 2014 (arXiv:1409.2329), sections 3.2 and 4.1.
Differs from Zaremba et al.: initial weights of cells are uniform within 1 / sqrt(d_hidden) of 0 (0.039 at 650 units;
theirs are within 0.05), those of embeddings normal with a standard deviation of d ** -0.5.
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
    """Recurrent cell: rnn (tanh), lstm, gru or gru_notes (gated as in the lecture notes)."""
    bidirectional: bool = True
    """Whether a second network reads from right to left."""
    backward: bool = False
    """Whether a single direction reads from right to left; needs bidirectional=false."""
    num_layers: int = Field(1, gt=0)
    """Number of layers."""
    dropout: float = Field(0.5, ge=0, lt=1)
    """Dropout probability of embeddings and states."""

    sizes = named_sizes(tiny=dict(d_embedding=64, d_hidden=64), small=dict(d_embedding=128, d_hidden=128))

    @model_validator(mode="after")
    def _one_direction(self) -> Self:
        if self.backward and self.bidirectional:
            raise ValueError("model.backward needs a single direction; set model.bidirectional=false")
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
        """State of each token, `(batch, length, d_output)`, zeros outside the mask; see `TokenEncoder.forward`."""
        embedded = self.dropout(self.inputs(tokens, features))  # (B, T, d_embedding + d_features)
        hidden, _ = self.encoder(embedded, mask)  # (B, T, d_output)
        return self.dropout(hidden)

    def last(self, hidden: Tensor, mask: Tensor) -> Tensor:
        """`[h(T) ; g(1)]`, the last state of each direction, `(batch, d_output)`; zeros for a text without tokens."""
        ends = state_at(hidden[..., : self.num_forward], mask, mask.sum(1) - 1)
        starts = state_at(hidden[..., self.num_forward :], mask, torch.zeros_like(mask[:, 0], dtype=torch.long))
        return torch.cat([ends, starts], dim=-1)


class RnnTranslatorConfig(TranslatorConfig):
    """Fields of `rnn` as a translator; the defaults are the widths of `seq2seq`, for comparison."""

    d_embedding: int = Field(620, gt=0)
    """Width of the token embeddings."""
    d_hidden: int = Field(1000, gt=0)
    """Width of each layer's state."""
    cell: CellKind = "gru"
    """Recurrent cell: rnn (the notes' simple cell), lstm, gru or gru_notes."""
    num_layers: int = Field(1, gt=0)
    """Number of layers."""
    d_readout: int | None = Field(None, gt=0)
    """Width of a tanh layer before the output layer, which also reads the previous output; null for none."""
    dropout: float = Field(0.0, ge=0, lt=1)
    """Dropout probability of embeddings and hidden states."""

    sizes = named_sizes(tiny=dict(d_embedding=64, d_hidden=128), small=dict(d_embedding=256, d_hidden=256, dropout=0.3))


class RnnTranslator(PairDecoder):
    """The same recurrent layers over the source, then over the target."""

    config_class = RnnTranslatorConfig
    summary = "one recurrent network, shared weights"
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
        """Encode sources to a summary, their packed final states; arguments as `PairDecoder.encode`."""
        _, finals = self.layers(self.dropout(self.source_embedding(source)), source_mask)
        return Memory((), pack_states(finals))

    def start(self, memory: Memory | None, rows: Rows) -> RecurrentState:
        assert memory is not None and memory.summary is not None
        states = unpack_states(memory.summary[rows.source_of], self.config.num_layers, self.config.cell)
        return RecurrentState(states, None)

    def step(
        self, tokens: Tensor, state: RecurrentState, lengths: Tensor | None = None
    ) -> tuple[Tensor, RecurrentState]:
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
    """Recurrent cell: rnn (tanh), lstm, gru or gru_notes (gated as in the lecture notes)."""
    num_layers: int = Field(2, gt=0)
    """Number of layers."""
    tied_output: bool = False
    """Whether the output layer shares the embedding matrix; states of another width are projected to its width."""
    dropout: float = Field(0.5, ge=0, lt=1)
    """Dropout probability of embeddings, and of states passed to the next layer or the output, but not of states passed
    to the next token."""

    sizes = named_sizes(
        tiny=dict(d_embedding=128, d_hidden=128, num_layers=1, dropout=0.0),
        small=dict(d_embedding=200, d_hidden=200, dropout=0.0),  # the paper's small LSTM
        large=dict(d_embedding=1500, d_hidden=1500, dropout=0.65),
    )


class RnnLanguageModel(LanguageModel):
    """Recurrent layers from left to right, and an output layer."""

    config_class = RnnLanguageModelConfig
    summary = "recurrent, left to right"
    paper = "Zaremba et al. 2014"
    config: RnnLanguageModelConfig
    carries = True

    def __init__(self, config: RnnLanguageModelConfig) -> None:
        super().__init__(config)
        c = config
        self.embedding = TokenEmbedding(c.vocab_size, c.d_embedding)
        self.layers = Recurrent(c.d_embedding, c.d_hidden, cell=c.cell, num_layers=c.num_layers, dropout=c.dropout)
        self.projection, self.output = output_layers(c.d_hidden, self.embedding, c.tied_output)
        self.dropout = Dropout(c.dropout)

    def start(self, memory: Memory | None, rows: Rows) -> RecurrentState:
        return RecurrentState(self.layers.zero_states(self.embedding.weight.new_empty(len(rows), 0)), None)

    def step(
        self, tokens: Tensor, state: RecurrentState, lengths: Tensor | None = None
    ) -> tuple[Tensor, RecurrentState]:
        mask = None if lengths is None else padding_mask(lengths, tokens.shape[1])
        hidden, states = self.layers(self.dropout(self.embedding(tokens)), mask, state.states)  # (R, n, d_hidden)
        return self.projection(self.dropout(hidden)), RecurrentState(states, None)

    def unpack(self, tensors: Mapping[str, Tensor]) -> RecurrentState:
        return RecurrentState.unpack(tensors)


class RnnSeriesConfig(ModelConfig):
    """Fields of `rnn` over a series of numbers."""

    num_columns: int = Field(gt=0)
    """Number of columns; set from the data."""
    d_hidden: int = Field(128, gt=0)
    """Width of the state."""
    cell: CellKind = "lstm"
    """Recurrent cell: rnn (tanh), lstm, gru or gru_notes (gated as in the lecture notes)."""
    num_layers: int = Field(1, gt=0)
    """Number of layers."""
    dropout: float = Field(0.0, ge=0, lt=1)
    """Dropout probability of states."""

    sizes = named_sizes(tiny=dict(d_hidden=32), small=dict(d_hidden=64))


class RnnSeries(SeriesEncoder):
    """Recurrent layers from left to right."""

    config_class = RnnSeriesConfig
    summary = "recurrent, left to right"
    paper = "Elman 1990"

    def __init__(self, config: RnnSeriesConfig) -> None:
        super().__init__(config)
        c = config
        self.encoder = Recurrent(c.num_columns, c.d_hidden, cell=c.cell, num_layers=c.num_layers, dropout=c.dropout)
        self.dropout = Dropout(c.dropout)
        self.d_output = c.d_hidden

    def read(self, values: Tensor, states: States | None = None) -> tuple[Tensor, States]:
        """Read further rows; as `SeriesEncoder.read`, with the states of each layer."""
        hidden, states = self.encoder(values, None, states)
        return self.dropout(hidden), states
