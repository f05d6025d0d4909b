"""Attention pooling: one vector from many, by attention whose queries are learned parameters.

Shapes: B batch, K keys, N learned queries, d width of the keys.
"""

import math

import torch
from torch import Tensor, nn

from heed.attention.modules import Attention
from heed.attention.scores import Dot
from heed.kernels import Linear
from heed.shapes import Bool, Float, ReturnsTensor


class AttentionPooling(ReturnsTensor, nn.Module):
    """`softmax(score(u, h)) h` for learned queries u; the context vectors are concatenated.

    | score | of u and h_i | learned queries |
    |---|---|---|
    | additive | `u' tanh(W h_i + b)` (Yang et al. 2016, equations 5-7; the notes' v' tanh(...) with u for v) | 1 |
    | dot | `u' h_i` | 1 |
    | self_attentive | `u_n' tanh(W h_i)` (Lin et al. 2017, arXiv:1703.03130, equation 6) | `num_queries` |

    Differs from Lin et al.: no penalty on similar queries.
    """

    def __init__(
        self,
        d: int,
        *,
        score: str = "additive",
        d_attention: int | None = None,
        num_queries: int = 1,
        mechanism: str = "pooling",
        layer: int = 0,
    ) -> None:
        """Build the layer over states of width d; `d_attention` is the width of `tanh(W h + b)`, d by default."""
        super().__init__()
        d_query = d if score == "dot" else d_attention or d
        self.key = None if score == "dot" else Linear(d, d_query, bias=score == "additive")
        self.query = nn.Parameter(torch.empty(num_queries, d_query))
        nn.init.uniform_(self.query, -1 / math.sqrt(d_query), 1 / math.sqrt(d_query))
        self.attention = Attention(Dot(), mechanism=mechanism, layer=layer)
        self.d_output = num_queries * d

    def forward(
        self, states: Float[Tensor, "batch key d"], mask: Bool[Tensor, "batch key"] | None = None
    ) -> Float[Tensor, "batch d_output"]:
        """Pool each row into one vector; zeros for a row whose mask is False everywhere."""
        key = states if self.key is None else torch.tanh(self.key(states))
        keys = self.attention.prepare(key, states, mask)
        query = self.query.expand(len(states), -1, -1)  # (B, N, d_query)
        return self.attention(query, keys).flatten(1)
