"""Long short-term memory-network: an LSTM that attends to all its earlier states. Cheng et al. 2016.

| here | paper | meaning |
|---|---|---|
| input | x_t | embedding of the token, and its features if there are any |
| tape: key | h_i | hidden state of each token before t (hidden tape) |
| tape: value | [h_i ; c_i] | hidden and cell state (memory tape), summed with the same weights |
| query | x_t and h~_{t-1} | the input and the previous summary |
| scores, weights | a_i^t, s_i^t | row t of the map is over tokens 1 .. t-1 |
| context | [h~_t ; c~_t] | summaries, which replace h_{t-1} and c_{t-1} of an LSTM |
| state | h_t | output for each token |

    a_i^t       = v' tanh(W_h h_i + W_x x_t + W_h~ h~_{t-1})    for i = 1 .. t-1
    [h~_t ; c~_t] = sum_i softmax(a^t)_i [h_i ; c_i]            zeros at t = 1
    h_t, c_t    = LSTM(x_t, h~_t, c~_t)                         c_t = f c~_t + i c^_t;  h_t = o tanh(c_t)

As a language model, softmax(W_o h_t) predicts the token after t; the state, including the tape, is carried from batch
to batch, and i runs over the last `tape` tokens before t. Over a series of numbers x_t is a row, and a head predicts
the next one from h_t.

Source: arXiv:1601.06733, section 3.1, equations 4-9; widths of section 5.2 (language model: our own); docs/systems.md,
B5.
Differs from the paper: one layer; two bias vectors in the cell, as in torch; dropout of embeddings too; a language
model's tape is limited to its newest tokens; scores other than `concat`, which is the paper's (no bias).
"""

from __future__ import annotations

from collections.abc import Mapping

import torch
from pydantic import Field
from torch import Tensor

from heed.attention import Attention, Rows, make_score
from heed.layers import (
    Dropout,
    RecurrentCell,
    StepwiseRun,
    TapeState,
    TokenEmbedding,
    TokenInput,
    last_of,
    output_layers,
)
from heed.layers.states import read_at_once
from heed.models.base import (
    LanguageModel,
    Memory,
    ModelConfig,
    SeriesEncoder,
    TextConfig,
    TokenConfig,
    TokenEncoder,
    named_sizes,
)


class LSTMNConfig(TokenConfig):
    """Fields of `lstmn`; the defaults are the paper's one-layer network for sentiment classification."""

    d_embedding: int = Field(300, gt=0)
    """Width of the token embeddings."""
    d_hidden: int = Field(168, gt=0)
    """Width of hidden and cell state."""
    d_attention: int = Field(168, gt=0)
    """Width of the layer that compares query and key."""
    score: str = "concat"
    """Score of query and key: concat is the paper's `v' tanh(W [q ; k])`; `heed models --scores` lists all."""
    dropout: float = Field(0.5, ge=0, lt=1)
    """Dropout probability of embeddings and states."""

    sizes = named_sizes(
        tiny=dict(d_embedding=64, d_hidden=64, d_attention=64),
        small=dict(d_embedding=128, d_hidden=128, d_attention=128),
    )


class LSTMN(TokenEncoder):
    """An LSTM that attends to tapes of its hidden and cell states; a token's state depends on no later token."""

    config_class = LSTMNConfig
    summary = "LSTM that attends to its earlier states"
    paper = "Cheng et al. 2016"

    def __init__(self, config: LSTMNConfig) -> None:
        super().__init__(config)
        c = config
        self.inputs = TokenInput(c.vocab_size, c.d_embedding, c.d_features)
        self.cell = RecurrentCell(self.inputs.d_output, c.d_hidden, "lstm")
        score = make_score(c.score, self.inputs.d_output + c.d_hidden, c.d_hidden, c.d_attention)
        self.attention = Attention(score, mechanism="self")
        self.dropout = Dropout(c.dropout)
        self.d_output = c.d_hidden

    def forward(self, tokens: Tensor, mask: Tensor, features: Tensor | None = None) -> Tensor:
        """State of each token, `(batch, length, d_output)`; arguments as `TokenEncoder.forward`.

        The mask does not change the states of real tokens: padding follows the text, and attention is causal.
        """
        embedded = self.dropout(self.inputs(tokens, features))  # (B, T, d_embedding + d_features)
        hidden, _ = read_tape(self.cell, self.attention, embedded, start_tape(self.cell, embedded), mask=mask)
        return self.dropout(hidden)


class LstmnLanguageModelConfig(TextConfig):
    """Fields of `lstmn` as a language model; the defaults are our own and not checked against the paper."""

    d_embedding: int = Field(150, gt=0)
    """Width of the token embeddings."""
    d_hidden: int = Field(300, gt=0)
    """Width of hidden and cell state."""
    d_attention: int = Field(300, gt=0)
    """Width of the layer that compares query and key."""
    score: str = "concat"
    """Score of query and key: concat is the paper's `v' tanh(W [q ; k])`; `heed models --scores` lists all."""
    tape: int | None = Field(256, gt=0)
    """Number of newest tokens kept on the tape; null for all. Time and memory per token grow with it, and a stream of
    text has no end."""
    tied_output: bool = False
    """Whether the output layer shares the embedding matrix; states of another width are projected to its width."""
    dropout: float = Field(0.0, ge=0, lt=1)
    """Dropout probability of embeddings and of the states that the output layer reads."""

    sizes = named_sizes(
        tiny=dict(d_embedding=128, d_hidden=128, d_attention=128),
        small=dict(d_embedding=200, d_hidden=200, d_attention=200),
    )


class LstmnLanguageModel(LanguageModel):
    """The same network over a stream of text, with an output layer."""

    config_class = LstmnLanguageModelConfig
    summary = "LSTM that attends to its earlier states"
    paper = "Cheng et al. 2016"
    config: LstmnLanguageModelConfig
    carries = True

    def __init__(self, config: LstmnLanguageModelConfig) -> None:
        super().__init__(config)
        c = config
        self.embedding = TokenEmbedding(c.vocab_size, c.d_embedding)
        self.cell = RecurrentCell(c.d_embedding, c.d_hidden, "lstm")
        self.attention = Attention(
            make_score(c.score, c.d_embedding + c.d_hidden, c.d_hidden, c.d_attention), mechanism="self"
        )
        self.projection, self.output = output_layers(c.d_hidden, self.embedding, c.tied_output)
        self.dropout = Dropout(c.dropout)

    def start(self, memory: Memory | None, rows: Rows) -> TapeState:
        """Initial decoding state of each row: an empty tape, zero states and summaries."""
        return start_tape(self.cell, self.embedding.weight.new_empty(len(rows), 0))

    def step(self, tokens: Tensor, state: TapeState, lengths: Tensor | None = None) -> tuple[Tensor, TapeState]:
        embedded = self.dropout(self.embedding(tokens))  # (R, n, d_embedding)
        hidden, state = read_tape(self.cell, self.attention, embedded, state, size=self.config.tape, lengths=lengths)
        return self.projection(self.dropout(hidden)), state

    def unpack(self, tensors: Mapping[str, Tensor]) -> TapeState:
        return TapeState.unpack(tensors, self.attention)


class LstmnSeriesConfig(ModelConfig):
    """Fields of `lstmn` over a series of numbers; the widths are our own."""

    num_columns: int = Field(gt=0)
    """Number of columns; set from the data."""
    d_hidden: int = Field(128, gt=0)
    """Width of hidden and cell state."""
    d_attention: int = Field(128, gt=0)
    """Width of the layer that compares query and key."""
    score: str = "concat"
    """Score of query and key: concat is the paper's `v' tanh(W [q ; k])`; `heed models --scores` lists all."""
    tape: int | None = Field(256, gt=0)
    """Number of newest rows kept on the tape; null for all."""
    dropout: float = Field(0.0, ge=0, lt=1)
    """Dropout probability of states."""

    sizes = named_sizes(tiny=dict(d_hidden=32, d_attention=32), small=dict(d_hidden=64, d_attention=64))


class LstmnSeries(SeriesEncoder):
    """The same network over the rows of a series."""

    config_class = LstmnSeriesConfig
    summary = "LSTM that attends to its earlier states"
    paper = "Cheng et al. 2016"
    config: LstmnSeriesConfig

    def __init__(self, config: LstmnSeriesConfig) -> None:
        super().__init__(config)
        c = config
        self.cell = RecurrentCell(c.num_columns, c.d_hidden, "lstm")
        score = make_score(c.score, c.num_columns + c.d_hidden, c.d_hidden, c.d_attention)
        self.attention = Attention(score, mechanism="self")
        self.dropout = Dropout(c.dropout)
        self.d_output = c.d_hidden

    def read(self, values: Tensor, states: TapeState | None = None) -> tuple[Tensor, TapeState]:
        """Read further rows; as `SeriesEncoder.read`, with the tape of earlier rows as states."""
        before = start_tape(self.cell, values[:, 0]) if states is None else states
        hidden, after = read_tape(self.cell, self.attention, values, before, size=self.config.tape)
        return self.dropout(hidden), after


def start_tape(cell: RecurrentCell, like: Tensor) -> TapeState:
    """Initial state of each row of `like`, `(rows, ...)`."""
    zeros = cell.zero_state(like)
    return TapeState.start(zeros, zeros)


def read_tape(
    cell: RecurrentCell,
    attention: Attention,
    inputs: Tensor,
    before: TapeState,
    *,
    size: int | None = None,
    lengths: Tensor | None = None,
    mask: Tensor | None = None,
) -> tuple[Tensor, TapeState]:
    """Apply the module's equations to the next n inputs of each row.

    Args:
        cell: The LSTM.
        attention: Attention from the query [x_t ; h~_{t-1}] to the tape.
        inputs: `(rows, n, d_input)`.
        before: The state before these inputs.
        size: Number of newest tokens of the tape to attend to; None for all.
        lengths: `(rows,)`, number of real inputs when rows are padded on the right; None if all are real.
        mask: `(rows, n)`, True on real inputs; only passed on to the observer.

    Returns:
        hidden `(rows, n, d_hidden)`, the state h_t of each token, and the state after each row's last real input.
    """
    if (read := read_at_once(cell, attention, inputs, before, size, lengths, mask)) is not None:
        return read
    run, tape, summary, summaries = StepwiseRun(cell, before.state), before.tape, before.summary, []
    for t, x in enumerate(inputs.unbind(1)):
        if len(tape):
            query = torch.cat([x, summary[0]], dim=-1).unsqueeze(1)  # (R, 1, d_input + d_hidden)
            keys, position = tape.newest(size), before.position + t
            seen = attention(query, keys, offset=position, key_offset=position - len(keys)).squeeze(1)
            summary = seen.chunk(2, dim=-1)  # h~, c~: (R, d_hidden) each
        state = run.step(x, summary)
        summaries.append(summary)
        tape = tape.append(attention.prepare(state[0].unsqueeze(1), torch.cat(state, dim=-1).unsqueeze(1)))
    if lengths is not None:
        summary = tuple(last_of(torch.stack(parts, dim=1), lengths) for parts in zip(*summaries, strict=True))
    return run.finish(mask), before.after(run.state_at(lengths), summary, tape, size, inputs.shape[1], lengths)
