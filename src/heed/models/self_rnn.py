"""A recurrent network with self-attention over its own states, in the form of the lecture notes.

| here | notes | meaning |
|---|---|---|
| input | x_t | embedding of the token, and its features if there are any |
| state | h_t | output for each token |
| query | h_t | the new state |
| tape: key = value | h_1 .. h_t | all states so far, including h_t |
| scores, weights | a~_i, a_i | row t of the map is over tokens 1 .. t |
| context | c_t | input of the next step, together with x |

    h_t = cell([x_t ; c_{t-1}], h_{t-1})                  h_0 = c_0 = 0
    a_i = align(h_i, h_t) for i = 1..t                    additive v' tanh(W [h_i ; h_t]), or (W_k h_i)'(W_q h_t)
    c_t = sum_i a_i h_i

As a language model, softmax(W_o h_t) predicts the token after t; the state, including the tape, is carried from batch
to batch, and i runs over the last `tape` tokens up to t.

Source: the lecture notes (docs/systems.md, B5), which cite Cheng et al. 2016 (arXiv:1601.06733); the paper's network,
which attends before the state update, is `lstmn`. Widths as in `rnn`, for comparison.
Differs from the notes: the choice of cell; a bias in the additive score; dropout of embeddings and states; a language
model's tape is limited to its newest tokens. The context c_n of a text's last token is unused.
"""

from __future__ import annotations

from collections.abc import Mapping

import torch
from pydantic import Field
from torch import Tensor, nn

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
from heed.layers.recurrent import CellKind
from heed.models.base import LanguageModel, Memory, TextConfig, TokenConfig, TokenEncoder, named_sizes


class SelfRNNConfig(TokenConfig):
    """Fields of `self_rnn`; the defaults are those of one direction of `rnn`, since the notes give no sizes."""

    d_embedding: int = Field(300, gt=0)
    """Width of the token embeddings."""
    d_hidden: int = Field(168, gt=0)
    """Width of the state."""
    d_attention: int = Field(168, gt=0)
    """Width of the layer that compares two states."""
    cell: CellKind = "lstm"
    """Recurrent cell: rnn (the notes' simple cell), lstm, gru or gru_notes."""
    score: str = "additive"
    """Score of two states: additive and key_query are the notes' two forms; `heed models --scores` lists all."""
    dropout: float = Field(0.5, ge=0, lt=1)
    """Dropout probability of embeddings and states."""

    sizes = named_sizes(
        tiny=dict(d_embedding=64, d_hidden=64, d_attention=64),
        small=dict(d_embedding=128, d_hidden=128, d_attention=128),
    )


class SelfRNN(TokenEncoder):
    """A recurrent cell that reads each token together with its context; a token's state depends on no later token."""

    config_class = SelfRNNConfig
    summary = "recurrent, attends to its own states"
    paper = "lecture notes"

    def __init__(self, config: SelfRNNConfig) -> None:
        super().__init__(config)
        c = config
        self.inputs = TokenInput(c.vocab_size, c.d_embedding, c.d_features)
        # The same name as in `layers.Recurrent`, by which looks recognise a network that reads from left to right.
        self.forward_cells = nn.ModuleList([RecurrentCell(self.inputs.d_output + c.d_hidden, c.d_hidden, c.cell)])
        self.attention = Attention(make_score(c.score, c.d_hidden, c.d_hidden, c.d_attention), mechanism="self")
        self.dropout = Dropout(c.dropout)
        self.d_output = c.d_hidden

    def forward(self, tokens: Tensor, mask: Tensor, features: Tensor | None = None) -> Tensor:
        """State of each token, `(batch, length, d_output)`; arguments as `TokenEncoder.forward`.

        The mask does not change the states of real tokens: padding follows the text, and attention is causal.
        """
        embedded = self.dropout(self.inputs(tokens, features))  # (B, T, d_embedding + d_features)
        cell = only_cell(self.forward_cells)
        hidden, _ = read_tape(cell, self.attention, embedded, start_tape(cell, embedded), mask=mask)
        return self.dropout(hidden)


class SelfRnnLanguageModelConfig(TextConfig):
    """Fields of `self_rnn` as a language model; the defaults are those of `lstmn`, since the notes give no sizes."""

    d_embedding: int = Field(150, gt=0)
    """Width of the token embeddings."""
    d_hidden: int = Field(300, gt=0)
    """Width of the state."""
    d_attention: int = Field(300, gt=0)
    """Width of the layer that compares two states."""
    cell: CellKind = "lstm"
    """Recurrent cell: rnn (the notes' simple cell), lstm, gru or gru_notes."""
    score: str = "additive"
    """Score of two states: additive and key_query are the notes' two forms; `heed models --scores` lists all."""
    tape: int | None = Field(256, gt=0)
    """Number of newest states kept on the tape; null for all. Time and memory per token grow with it, and a stream of
    text has no end."""
    tied_output: bool = False
    """Whether the output layer shares the embedding matrix; states of another width are projected to its width."""
    dropout: float = Field(0.0, ge=0, lt=1)
    """Dropout probability of embeddings and of the states that the output layer reads."""

    sizes = named_sizes(
        tiny=dict(d_embedding=128, d_hidden=128, d_attention=128),
        small=dict(d_embedding=200, d_hidden=200, d_attention=200),
    )


class SelfRnnLanguageModel(LanguageModel):
    """The same network over a stream of text, with an output layer."""

    config_class = SelfRnnLanguageModelConfig
    summary = "recurrent, attends to its own states"
    paper = "lecture notes"
    config: SelfRnnLanguageModelConfig
    carries = True

    def __init__(self, config: SelfRnnLanguageModelConfig) -> None:
        super().__init__(config)
        c = config
        self.embedding = TokenEmbedding(c.vocab_size, c.d_embedding)
        self.forward_cells = nn.ModuleList([RecurrentCell(c.d_embedding + c.d_hidden, c.d_hidden, c.cell)])
        self.attention = Attention(make_score(c.score, c.d_hidden, c.d_hidden, c.d_attention), mechanism="self")
        self.projection, self.output = output_layers(c.d_hidden, self.embedding, c.tied_output)
        self.dropout = Dropout(c.dropout)

    def start(self, memory: Memory | None, rows: Rows) -> TapeState:
        """Initial decoding state of each row: an empty tape, zero state and context."""
        return start_tape(only_cell(self.forward_cells), self.embedding.weight.new_empty(len(rows), 0))

    def step(self, tokens: Tensor, state: TapeState, lengths: Tensor | None = None) -> tuple[Tensor, TapeState]:
        embedded, cell = self.dropout(self.embedding(tokens)), only_cell(self.forward_cells)  # (R, n, d_embedding)
        hidden, state = read_tape(cell, self.attention, embedded, state, size=self.config.tape, lengths=lengths)
        return self.projection(self.dropout(hidden)), state

    def unpack(self, tensors: Mapping[str, Tensor]) -> TapeState:
        return TapeState.unpack(tensors, self.attention)


def only_cell(cells: nn.ModuleList) -> RecurrentCell:
    """The cell of a network with a single layer."""
    (cell,) = cells
    assert isinstance(cell, RecurrentCell)
    return cell


def start_tape(cell: RecurrentCell, like: Tensor) -> TapeState:
    """Initial state of each row of `like`, `(rows, ...)`."""
    zeros = cell.zero_state(like)
    return TapeState.start(zeros, zeros[:1])


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
        cell: The recurrent cell, with inputs of width d_input + d_hidden.
        attention: Attention from the query h_t to the tape.
        inputs: `(rows, n, d_input)`.
        before: The state before these inputs.
        size: Number of newest states of the tape to attend to, including h_t; None for all.
        lengths: `(rows,)`, number of real inputs when rows are padded on the right; None if all are real.
        mask: `(rows, n)`, True on real inputs; only passed on to the observer.

    Returns:
        hidden `(rows, n, d_hidden)`, the state h_t of each token, and the state after each row's last real input.
    """
    run, tape, (context,), contexts = StepwiseRun(cell, before.state), before.tape, before.summary, []
    for t, x in enumerate(inputs.unbind(1)):
        newest = run.step(torch.cat([x, context], dim=-1))[0].unsqueeze(1)  # (R, 1, d_hidden)
        tape = tape.append(attention.prepare(newest))
        keys, position = tape.newest(size), before.position + t
        context = attention(newest, keys, offset=position, key_offset=position + 1 - len(keys)).squeeze(1)
        contexts.append(context)
    if lengths is not None:
        context = last_of(torch.stack(contexts, dim=1), lengths)
    return run.finish(mask), before.after(run.state_at(lengths), (context,), tape, size, inputs.shape[1], lengths)
