"""Feed-forward network on a window of fixed length, with separate weights for each position.

    z = tanh(W [x_1 ; x_2 ; ... ; x_n] + b)          x_i the embedding of token i, zeros after the end of a text

W has `d_hidden * window * d_embedding` entries: the number of parameters grows with the window, a word learned at one
position is not recognised at another, and longer texts are refused.

Over rows of numbers x there are no embeddings: z = tanh(W x + b), once per layer.

Source: the lecture notes (docs/systems.md, A1 and A2), as the network that cannot handle sequences; Bengio et al. 2003
for concatenated embeddings and the widths.
Differs from the notes: words are embedded. Shorter texts are padded with zeros; a longer text is an error
(`data.max_length` truncates texts and counts the truncated ones).
"""

from __future__ import annotations

import torch
from pydantic import Field
from torch import Tensor, nn
from torch.nn.functional import pad

from heed.attention import watch
from heed.attention.host import host_copy
from heed.errors import ShapeError
from heed.kernels import Linear
from heed.layers import Dropout, TokenEmbedding
from heed.models.base import ModelConfig, RowEncoder, TextConfig, TextEncoder, named_sizes


class MLPConfig(TextConfig):
    """Fields of `mlp`; the defaults are the widths of Bengio et al. 2003, over a window of 50 tokens."""

    window: int = Field(50, gt=0)
    """Number of tokens read, each with separate weights; longer texts are an error unless data.max_length truncates
    them."""
    d_embedding: int = Field(60, gt=0)
    """Width of the token embeddings."""
    d_hidden: int = Field(100, gt=0)
    """Width of the hidden layer."""
    dropout: float = Field(0.0, ge=0, lt=1)
    """Dropout probability of the hidden layer."""

    sizes = named_sizes(tiny=dict(d_embedding=32, d_hidden=32))


class MLP(TextEncoder):
    """Concatenated embeddings and one hidden layer."""

    config_class = MLPConfig
    summary = "feed-forward over a window of words"
    paper = "Bengio et al. 2003"

    def __init__(self, config: MLPConfig) -> None:
        super().__init__(config)
        c = config
        self.embedding = TokenEmbedding(c.vocab_size, c.d_embedding)
        self.hidden = Linear(c.window * c.d_embedding, c.d_hidden)
        self.dropout = Dropout(c.dropout)
        self.window = c.window
        self.d_output = c.d_hidden

    def forward(self, tokens: Tensor, mask: Tensor) -> Tensor:
        """Tokens `(batch, length)` to one vector per text, `(batch, d_hidden)`.

        Raises:
            ShapeError: A text is longer than the window.
        """
        if host_copy(mask)[:, self.window :].any():
            raise ShapeError(
                f"a text of {int(mask.sum(1).max())} tokens is longer than the window of mlp ({self.window} tokens); "
                f"set data.max_length={self.window} to truncate texts, or increase model.window"
            )
        embedded = self.embedding(tokens) * mask.unsqueeze(-1)  # (B, T, d_embedding)
        if watch.observer.current is not None:
            watch.observer.current.tensor(self, "shares", self._shares(embedded[:, : self.window]))
        # A negative pad width crops padding beyond the window.
        window = pad(embedded, (0, 0, 0, self.window - tokens.shape[1]))  # (B, window, d_embedding)
        return self.dropout(torch.tanh(self.hidden(window.flatten(1))))

    def _shares(self, embedded: Tensor) -> Tensor:
        """W_i x_i, the contribution of each position to the input of tanh without b, `(batch, positions, d_hidden)`."""
        weight = self.hidden.weight.unflatten(1, (self.window, -1))  # (d_hidden, window, d_embedding)
        return torch.einsum("hte,bte->bth", weight[:, : embedded.shape[1]], embedded)


class RowMLPConfig(ModelConfig):
    """Fields of `mlp` over rows of numbers."""

    num_columns: int = Field(gt=0)
    """Number of columns; set from the data."""
    d_hidden: int = Field(100, gt=0)
    """Width of the hidden layers."""
    num_layers: int = Field(1, gt=0)
    """Number of hidden layers."""
    dropout: float = Field(0.0, ge=0, lt=1)
    """Dropout probability of the hidden layers."""

    sizes = named_sizes(tiny=dict(d_hidden=32))


class RowMLP(RowEncoder):
    """Hidden layers over the columns."""

    config_class = RowMLPConfig
    summary = "feed-forward over the columns"
    paper = "lecture notes"
    config: RowMLPConfig

    def __init__(self, config: RowMLPConfig) -> None:
        super().__init__(config)
        c = config
        widths = [c.num_columns] + [c.d_hidden] * (c.num_layers - 1)
        self.layers = nn.ModuleList(Linear(width, c.d_hidden) for width in widths)
        self.dropout = Dropout(c.dropout)
        self.d_output = c.d_hidden

    def forward(self, values: Tensor) -> Tensor:
        """Rows `(batch, num_columns)` to one vector per row, `(batch, d_hidden)`.

        Raises:
            ShapeError: The number of columns is not `num_columns`.
        """
        if values.shape[-1] != self.config.num_columns:
            raise ShapeError(f"rows have {values.shape[-1]} columns, expected {self.config.num_columns}")
        z = values
        for layer in self.layers:
            z = self.dropout(torch.tanh(layer(z)))
        return z
