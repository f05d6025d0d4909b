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

Source: the lecture notes (SYSTEMS B5), which cite Cheng et al. 2016 (arXiv:1601.06733); the paper's own form, where the
query comes before the state, is `lstmn`. Widths as `rnn`, with which it is compared.
Differs from the notes: cells other than the simple one; a bias in the additive score; embeddings and states are dropped
out in training. c_n of the last token enters nothing.
"""

from __future__ import annotations

import torch
from pydantic import Field
from torch import Tensor, nn

from heed.attention import Attention, Keys, make_score
from heed.layers import Dropout, RecurrentCell, StepwiseRun, TokenInput
from heed.layers.recurrent import CellKind
from heed.models.base import TokenConfig, TokenEncoder, named_sizes


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
        (cell,) = self.forward_cells
        assert isinstance(cell, RecurrentCell)
        run = StepwiseRun(cell, cell.zero_state(embedded))
        context = torch.zeros_like(run.state[0])  # (B, d_hidden)
        tape: Keys | None = None
        for t, x in enumerate(embedded.unbind(1)):
            newest = run.step(torch.cat([x, context], dim=-1))[0].unsqueeze(1)  # (B, 1, d_hidden)
            new = self.attention.prepare(newest)
            tape = new if tape is None else tape.append(new)
            context = self.attention(newest, tape, offset=t).squeeze(1)
        return self.dropout(run.finish(mask))  # type: ignore[no-any-return]
