"""Self-attention in one recurrent network, in the form of the lecture notes.

| here | notes | what |
|---|---|---|
| input | x_t | embedding of the token, with its features where there are any |
| state | h_t | what is returned for each token |
| query | h_t | what asks, after it was computed |
| tape: key = value | h_1 .. h_t | all states so far, h_t itself included |
| scores, weights | a~_i, a_i | row t of the map is over tokens 1 .. t |
| context | c_t | enters the next step beside x |

    h_t = cell([x_t ; c_{t-1}], h_{t-1})                  h_0 = c_0 = 0
    a_i = align(h_i, h_t) for i = 1..t                    additive v' tanh(W [h_i ; h_t]), or (W_k h_i)'(W_q h_t)
    c_t = sum_i a_i h_i

As a language model, softmax(W_o h_t) gives the token after t, and the state, tape included, is carried from each batch
of text to the next; i then runs over the last `tape` tokens up to t.

Source: the lecture notes (docs/systems.md, B5), which cite Cheng et al. 2016 (arXiv:1601.06733); the paper's own form,
where the query comes before the state, is `lstmn`. Widths as `rnn`, with which it is compared.
Differs from the notes: cells other than the simple one; a bias in the additive score; embeddings and states are dropped
out in training; a language model's tape has an end. c_n of the last token of a text enters nothing.
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
    """Fields of `self_rnn`; the notes give no sizes, the defaults are those of one direction of `rnn`."""

    d_embedding: int = Field(300, gt=0)
    """Width of the token embeddings."""
    d_hidden: int = Field(168, gt=0)
    """Width of the state."""
    d_attention: int = Field(168, gt=0)
    """Width in which two states are compared."""
    cell: CellKind = "lstm"
    """Recurrent cell: rnn is the notes' simple cell, also lstm, gru and gru_notes."""
    score: str = "additive"
    """How two states are compared: additive and key_query are the notes' two forms; any other score may stand."""
    dropout: float = Field(0.5, ge=0, lt=1)
    """Probability with which a number of an embedding or of a state is dropped in training."""

    sizes = named_sizes(
        tiny=dict(d_embedding=64, d_hidden=64, d_attention=64),
        small=dict(d_embedding=128, d_hidden=128, d_attention=128),
    )


class SelfRNN(TokenEncoder):
    """A cell that reads each token beside a summary of its own earlier states; tokens see no later ones."""

    config_class = SelfRNNConfig
    summary = "recurrent, attends to its own states"
    paper = "lecture notes"

    def __init__(self, config: SelfRNNConfig) -> None:
        super().__init__(config)
        c = config
        self.inputs = TokenInput(c.vocab_size, c.d_embedding, c.d_features)
        # Named as the cells of `layers.Recurrent`, by which looks know a network from left to right.
        self.forward_cells = nn.ModuleList([RecurrentCell(self.inputs.d_output + c.d_hidden, c.d_hidden, c.cell)])
        self.attention = Attention(make_score(c.score, c.d_hidden, c.d_hidden, c.d_attention), mechanism="self")
        self.dropout = Dropout(c.dropout)
        self.d_output = c.d_hidden

    def forward(self, tokens: Tensor, mask: Tensor, features: Tensor | None = None) -> Tensor:
        """States of each token, `(batch, length, d_output)`.

        Padding comes last and no token sees a later one, so the mask changes nothing inside it.
        """
        embedded = self.dropout(self.inputs(tokens, features))  # (B, T, d_embedding + d_features)
        cell = only_cell(self.forward_cells)
        hidden, _ = read_tape(cell, self.attention, embedded, start_tape(cell, embedded), mask=mask)
        return self.dropout(hidden)  # type: ignore[no-any-return]


class SelfRnnLanguageModelConfig(TextConfig):
    """Fields of `self_rnn` as a language model; the notes give no sizes, the defaults are those of `lstmn`."""

    d_embedding: int = Field(150, gt=0)
    """Width of the token embeddings."""
    d_hidden: int = Field(300, gt=0)
    """Width of the state."""
    d_attention: int = Field(300, gt=0)
    """Width in which two states are compared."""
    cell: CellKind = "lstm"
    """Recurrent cell: rnn is the notes' simple cell, also lstm, gru and gru_notes."""
    score: str = "additive"
    """How two states are compared: additive and key_query are the notes' two forms; any other score may stand."""
    tape: int | None = Field(256, gt=0)
    """States that are looked at, the newest ones; null for all. Time and memory of a token grow with it, and a stream
    of text has no end."""
    tied_output: bool = False
    """The output layer's matrix is the embedding table; states of another width are projected to it."""
    dropout: float = Field(0.0, ge=0, lt=1)
    """Probability with which a number of an embedding, or of a state before the output, is dropped in training."""

    sizes = named_sizes(
        tiny=dict(d_embedding=128, d_hidden=128, d_attention=128),
        small=dict(d_embedding=200, d_hidden=200, d_attention=200),
    )


class SelfRnnLanguageModel(LanguageModel):
    """The same network from left to right over a stream of text, and an output layer."""

    config_class = SelfRnnLanguageModelConfig
    summary = "recurrent, attends to its own states"
    paper = "lecture notes"
    config: SelfRnnLanguageModelConfig
    carries = True

    def __init__(self, config: SelfRnnLanguageModelConfig) -> None:
        super().__init__(config)
        c = config
        self.embedding = TokenEmbedding(c.vocab_size, c.d_embedding, padding_token=None)
        self.forward_cells = nn.ModuleList([RecurrentCell(c.d_embedding + c.d_hidden, c.d_hidden, c.cell)])
        self.attention = Attention(make_score(c.score, c.d_hidden, c.d_hidden, c.d_attention), mechanism="self")
        self.projection, self.output = output_layers(c.d_hidden, self.embedding, c.tied_output)
        self.dropout = Dropout(c.dropout)

    def start(self, memory: Memory | None, rows: Rows) -> TapeState:
        """An empty tape, and state and summary of zeros."""
        return start_tape(only_cell(self.forward_cells), self.embedding.weight.new_empty(len(rows), 0))

    def step(self, tokens: Tensor, state: TapeState, lengths: Tensor | None = None) -> tuple[Tensor, TapeState]:
        """Read on, token by token."""
        embedded, cell = self.dropout(self.embedding(tokens)), only_cell(self.forward_cells)  # (R, n, d_embedding)
        hidden, state = read_tape(cell, self.attention, embedded, state, size=self.config.tape, lengths=lengths)
        return self.projection(self.dropout(hidden)), state

    def pack(self, state: TapeState) -> dict[str, Tensor]:
        """The tape, the summary, and the state after the last token."""
        return state.pack()

    def unpack(self, tensors: Mapping[str, Tensor]) -> TapeState:
        """Undo `pack`."""
        return TapeState.unpack(tensors, self.attention)


def only_cell(cells: nn.ModuleList) -> RecurrentCell:
    """The one cell of a network of one layer."""
    (cell,) = cells
    assert isinstance(cell, RecurrentCell)
    return cell


def start_tape(cell: RecurrentCell, like: Tensor) -> TapeState:
    """The state before the first token of each row of `like`."""
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
    """The network's equations over further tokens.

    Args:
        cell: Its inputs are as wide as `inputs` and a state.
        attention: Asked with h_t; its keys are the tape.
        inputs: `(rows, n, d_input)`.
        before: The state before them.
        size: States of the tape that are looked at, the newest, h_t among them; None for all.
        lengths: `(rows,)`, number of real inputs where rows are padded on the right.
        mask: `(rows, n)`, True on real inputs; shown to whoever watches.

    Returns:
        hidden `(rows, n, d_hidden)`, the state h_t after each token, and the state after each row's last real one.
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
