"""Long short-term memory-network: an LSTM that reads its tape in place of its last state. Cheng et al. 2016.

| here | paper | what |
|---|---|---|
| input | x_t | embedding of the token, with its features where there are any |
| tape: key | h_i | hidden state of each token before t (the hidden tape) |
| tape: value | [h_i ; c_i] | with its cell state (the memory tape): one set of weights for both |
| query | x_t and h~_{t-1} | the input and the previous summary |
| scores, weights | a_i^t, s_i^t | row t of the map is over tokens 1 .. t-1 |
| context | [h~_t ; c~_t] | the summaries, which stand where h_{t-1} and c_{t-1} do in an LSTM |
| state | h_t | what is returned for each token |

    a_i^t       = v' tanh(W_h h_i + W_x x_t + W_h~ h~_{t-1})    for i = 1 .. t-1
    [h~_t ; c~_t] = sum_i softmax(a^t)_i [h_i ; c_i]            zeros at t = 1
    h_t, c_t    = LSTM(x_t, h~_t, c~_t)                         c_t = f c~_t + i c^_t;  h_t = o tanh(c_t)

As a language model, softmax(W_o h_t) gives the token after t, and the state, tape included, is carried from each batch
of text to the next; i then runs over the last `tape` tokens before t.

Source: arXiv:1601.06733, section 3.1, equations 4-9; widths of section 5.2, of section 5.1 as a language model;
docs/systems.md, B5.
Differs from the paper: one layer; biases in the cell are torch's two; embeddings are dropped out in training too; the
tape has an end. The score `concat` is the paper's (no bias); others may stand.
"""

from __future__ import annotations

from collections.abc import Mapping

import torch
from pydantic import Field
from torch import Tensor

from heed.attention import Additive, Attention, Keys, Rows, make_score, watch
from heed.kernels import enabled, tape_lstm
from heed.layers import (
    Dropout,
    RecurrentCell,
    StepwiseRun,
    Tape,
    TapeState,
    TokenEmbedding,
    TokenInput,
    last_of,
    output_layers,
)
from heed.models.base import LanguageModel, Memory, TextConfig, TokenConfig, TokenEncoder, named_sizes


class LSTMNConfig(TokenConfig):
    """Fields of `lstmn`; the defaults are the one-layer network that the paper classifies sentiment with."""

    d_embedding: int = Field(300, gt=0)
    """Width of the token embeddings."""
    d_hidden: int = Field(168, gt=0)
    """Width of hidden and cell state."""
    d_attention: int = Field(168, gt=0)
    """Width in which query and key are compared."""
    score: str = "concat"
    """How query and key are compared: concat is the paper's `v' tanh(W [q ; k])`."""
    dropout: float = Field(0.5, ge=0, lt=1)
    """Probability with which a number of an embedding or of a state is dropped in training."""

    sizes = named_sizes(
        tiny=dict(d_embedding=64, d_hidden=64, d_attention=64),
        small=dict(d_embedding=128, d_hidden=128, d_attention=128),
    )


class LSTMN(TokenEncoder):
    """An LSTM over tapes of hidden and cell states; tokens see no later ones."""

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
        """States of each token, `(batch, length, d_output)`.

        Padding comes last and no token sees a later one, so the mask changes nothing inside it.
        """
        embedded = self.dropout(self.inputs(tokens, features))  # (B, T, d_embedding + d_features)
        hidden, _ = read_tape(self.cell, self.attention, embedded, start_tape(self.cell, embedded), mask=mask)
        return self.dropout(hidden)  # type: ignore[no-any-return]


class LstmnLanguageModelConfig(TextConfig):
    """Fields of `lstmn` as a language model; the defaults are ours, the paper's widths were not checked."""

    d_embedding: int = Field(150, gt=0)
    """Width of the token embeddings."""
    d_hidden: int = Field(300, gt=0)
    """Width of hidden and cell state."""
    d_attention: int = Field(300, gt=0)
    """Width in which query and key are compared."""
    score: str = "concat"
    """How query and key are compared: concat is the paper's `v' tanh(W [q ; k])`."""
    tape: int | None = Field(256, gt=0)
    """Tokens that the tape remembers, the newest ones; null for all. Time and memory of a token grow with it, and a
    stream of text has no end."""
    tied_output: bool = False
    """The output layer's matrix is the embedding table; states of another width are projected to it."""
    dropout: float = Field(0.0, ge=0, lt=1)
    """Probability with which a number of an embedding, or of a state before the output, is dropped in training."""

    sizes = named_sizes(
        tiny=dict(d_embedding=128, d_hidden=128, d_attention=128),
        small=dict(d_embedding=200, d_hidden=200, d_attention=200),
    )


class LstmnLanguageModel(LanguageModel):
    """The same network from left to right over a stream of text, and an output layer."""

    config_class = LstmnLanguageModelConfig
    summary = "LSTM that attends to its earlier states"
    paper = "Cheng et al. 2016"
    config: LstmnLanguageModelConfig
    carries = True

    def __init__(self, config: LstmnLanguageModelConfig) -> None:
        super().__init__(config)
        c = config
        self.embedding = TokenEmbedding(c.vocab_size, c.d_embedding, padding_token=None)
        self.cell = RecurrentCell(c.d_embedding, c.d_hidden, "lstm")
        self.attention = Attention(
            make_score(c.score, c.d_embedding + c.d_hidden, c.d_hidden, c.d_attention), mechanism="self"
        )
        self.projection, self.output = output_layers(c.d_hidden, self.embedding, c.tied_output)
        self.dropout = Dropout(c.dropout)

    def start(self, memory: Memory | None, rows: Rows) -> TapeState:
        """An empty tape, and summaries of zeros."""
        return start_tape(self.cell, self.embedding.weight.new_empty(len(rows), 0))

    def step(self, tokens: Tensor, state: TapeState, lengths: Tensor | None = None) -> tuple[Tensor, TapeState]:
        """Read on, token by token."""
        embedded = self.dropout(self.embedding(tokens))  # (R, n, d_embedding)
        hidden, state = read_tape(self.cell, self.attention, embedded, state, size=self.config.tape, lengths=lengths)
        return self.projection(self.dropout(hidden)), state

    def pack(self, state: TapeState) -> dict[str, Tensor]:
        """The tape, the summaries, and the state after the last token."""
        return state.pack()

    def unpack(self, tensors: Mapping[str, Tensor]) -> TapeState:
        """Undo `pack`."""
        return TapeState.unpack(tensors, self.attention)


def start_tape(cell: RecurrentCell, like: Tensor) -> TapeState:
    """The state before the first token of each row of `like`."""
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
    """The network's equations over further tokens.

    Args:
        cell: The LSTM.
        attention: Asked with [x_t ; h~_{t-1}]; its keys are the tape.
        inputs: `(rows, n, d_input)`.
        before: The state before them.
        size: Tokens of the tape that are looked at, the newest; None for all.
        lengths: `(rows,)`, number of real inputs where rows are padded on the right.
        mask: `(rows, n)`, True on real inputs; shown to whoever watches.

    Returns:
        hidden `(rows, n, d_hidden)`, the state h_t after each token, and the state after each row's last real one.
    """
    if _in_one_call(attention, inputs, before):
        return _all_at_once(cell, attention, inputs, before, size, lengths, mask)
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


def _in_one_call(attention: Attention, inputs: Tensor, before: TapeState) -> bool:
    """Whether there is a kernel for it: several tokens on a CPU, the paper's score, no padding, no weight edited."""
    return (
        enabled()
        and isinstance(attention.score, Additive)
        and inputs.shape[1] > 1
        and inputs.numel() > 0
        and inputs.device.type == "cpu"
        and inputs.dtype in (torch.float32, torch.float64)
        and not torch.is_autocast_enabled("cpu")
        and not torch.compiler.is_compiling()
        and (before.tape.keys is None or before.tape.keys.mask is None)
        and (watch.slot is None or not watch.slot.edits(attention))
    )


def _all_at_once(
    cell: RecurrentCell,
    attention: Attention,
    inputs: Tensor,
    before: TapeState,
    size: int | None,
    lengths: Tensor | None,
    mask: Tensor | None,
) -> tuple[Tensor, TapeState]:
    score, first = attention.score, torch.cat(before.summary, dim=-1)
    assert isinstance(score, Additive)
    old = before.tape.cut(size).keys
    if old is None:
        nothing = first.new_empty(len(first), 0, 2 * cell.d_hidden)
        old = attention.prepare(nothing[..., : cell.d_hidden], nothing)
    made, keys, summaries = tape_lstm(
        inputs,
        first,
        old.prepared.squeeze(1),
        old.value.squeeze(1),
        size,
        score.w_query.weight,
        score.w_key.weight,
        score.w_key.bias,
        score.v,
        (cell.w_ih, cell.w_hh, cell.b_ih, cell.b_hh),
    )
    tape = Tape(old.append(Keys(keys.unsqueeze(1), made.unsqueeze(1))))
    hidden, state = made[..., : cell.d_hidden], last_of(made, lengths).chunk(2, dim=-1)
    if watch.slot is not None:
        _observe(cell, attention, inputs, before, tape, size, summaries)
        started = summaries.chunk(2, dim=-1)
        final = state if lengths is None else made[:, -1].chunk(2, dim=-1)
        cell.observe(inputs, hidden, before.state, final, None, mask, started)
    summary = last_of(summaries, lengths).chunk(2, dim=-1)
    return hidden, before.after(state, summary, tape, size, inputs.shape[1], lengths)


def _observe(
    cell: RecurrentCell,
    attention: Attention,
    inputs: Tensor,
    before: TapeState,
    tape: Tape,
    size: int | None,
    summaries: Tensor,
) -> None:
    """Show each step's look at the tape to whoever watches."""
    assert watch.slot is not None and tape.keys is not None
    earlier = torch.cat([before.summary[0].unsqueeze(1), summaries[:, :-1, : cell.d_hidden]], dim=1)
    asked = attention.score.project(torch.cat([inputs, earlier], dim=-1)).unsqueeze(1)  # (R, 1, n, d_attention)
    prepared, value, num_tokens = tape.keys.prepared, tape.keys.value, inputs.shape[1]
    for t in range(num_tokens):
        now = len(tape) - num_tokens + t
        if now == 0:
            continue
        places = slice(0 if size is None else max(0, now - size), now)
        keys = Keys(prepared[:, :, places], value[:, :, places], None, tape.keys.origin)
        position, seen = before.position + t, summaries[:, None, t : t + 1]
        parts = asked[:, :, t : t + 1], keys, None, False, position, seen, None, 0.0, attention.score
        watch.slot.attention(attention, watch.AttentionCall(*parts, key_offset=position - len(keys)))
