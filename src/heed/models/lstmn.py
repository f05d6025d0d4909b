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

Source: arXiv:1601.06733, section 3.1, equations 4-9; widths of section 5.2; SYSTEMS B5.
Differs from the paper: one layer; biases in the cell are torch's two; embeddings are dropped out in training too. The
score `concat` is the paper's (no bias); others may stand.
"""

from __future__ import annotations

import torch
from pydantic import Field
from torch import Tensor

from heed.attention import Attention, Keys, make_score
from heed.layers import Dropout, RecurrentCell, StepwiseRun, TokenInput
from heed.models.base import TokenConfig, TokenEncoder, named_sizes


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
        run = StepwiseRun(self.cell, self.cell.zero_state(embedded))
        summary = run.state  # h~, c~: (B, d_hidden) each
        tape: Keys | None = None
        for t, x in enumerate(embedded.unbind(1)):
            if tape is not None:
                query = torch.cat([x, summary[0]], dim=-1).unsqueeze(1)  # (B, 1, d_input + d_hidden)
                hidden, cell = self.attention(query, tape, offset=t).squeeze(1).chunk(2, dim=-1)
                summary = (hidden, cell)
            state = run.step(x, summary)
            new = self.attention.prepare(state[0].unsqueeze(1), torch.cat(state, dim=-1).unsqueeze(1))
            tape = new if tape is None else tape.append(new)
        return self.dropout(run.finish(mask))  # type: ignore[no-any-return]
