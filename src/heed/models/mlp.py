"""The plain neural network on a window of fixed length: each place has weights of its own.

    z = tanh(W [x_1 ; x_2 ; ... ; x_n] + b)          x_i the embedding of the i-th token, zeros behind a text's end

W has `d_hidden * window * d_embedding` numbers: the parameters grow with the length, what is learned of a word at one
place says nothing of it at another, and a longer text does not fit.

Over rows of numbers there is nothing to embed: z = tanh(W x + b), once for each layer.

Source: the lecture notes (docs/systems.md, A1, A2), for which it is the network that sequences break; Bengio et al.
2003 for embeddings side by side and for their widths.
Differs from the notes: words are embedded. A shorter text is filled up with zeros; a longer one is an error (the field
`data.max_length` cuts texts, and counts those that were cut).
"""

from __future__ import annotations

import torch
from pydantic import Field
from torch import Tensor, nn
from torch.nn.functional import pad

from heed.attention import watch
from heed.errors import ShapeError
from heed.kernels import Linear
from heed.layers import Dropout, TokenEmbedding
from heed.models.base import ModelConfig, RowEncoder, TextConfig, TextEncoder, named_sizes


class MLPConfig(TextConfig):
    """Fields of `mlp`; the defaults are the widths of Bengio et al. 2003, over a window of 50 tokens."""

    window: int = Field(50, gt=0)
    """Tokens read, each by weights of its own; longer texts are an error, data.max_length cuts them."""
    d_embedding: int = Field(60, gt=0)
    """Width of the token embeddings."""
    d_hidden: int = Field(100, gt=0)
    """Width of the hidden layer."""
    dropout: float = Field(0.0, ge=0, lt=1)
    """Probability with which a number of the hidden layer is dropped in training."""

    sizes = named_sizes(tiny=dict(d_embedding=32, d_hidden=32))


class MLP(TextEncoder):
    """Embeddings side by side and one hidden layer."""

    config_class = MLPConfig
    summary = "plain network over a window of words"
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
        """One vector per text, `(batch, d_hidden)`.

        Raises:
            ShapeError: A text is longer than the window.
        """
        if mask[:, self.window :].any():
            raise ShapeError(
                f"a text of {int(mask.sum(1).max())} tokens does not fit the {self.window} inputs of mlp; set "
                f"data.max_length={self.window} to read only the first ones, or raise model.window"
            )
        embedded = self.embedding(tokens) * mask.unsqueeze(-1)  # (B, T, d_embedding)
        if watch.slot is not None:
            watch.slot.tensor(self, "shares", self._shares(embedded[:, : self.window]))
        window = pad(embedded, (0, 0, 0, self.window - tokens.shape[1]))  # (B, window, d_embedding); cuts padding too
        return self.dropout(torch.tanh(self.hidden(window.flatten(1))))  # type: ignore[no-any-return]

    def _shares(self, embedded: Tensor) -> Tensor:
        """W_i x_i, what each place adds to the sums behind tanh, `(batch, places, d_hidden)`; b is the rest of them."""
        weight = self.hidden.weight.unflatten(1, (self.window, -1))  # (d_hidden, window, d_embedding)
        return torch.einsum("hte,bte->bth", weight[:, : embedded.shape[1]], embedded)


class RowMLPConfig(ModelConfig):
    """Fields of `mlp` over rows of numbers."""

    num_columns: int = Field(gt=0)
    """Numbers in a row; set from the data."""
    d_hidden: int = Field(100, gt=0)
    """Width of the hidden layers."""
    num_layers: int = Field(1, gt=0)
    """Hidden layers."""
    dropout: float = Field(0.0, ge=0, lt=1)
    """Probability with which a number of a hidden layer is dropped in training."""

    sizes = named_sizes(tiny=dict(d_hidden=32))


class RowMLP(RowEncoder):
    """Hidden layers over the columns."""

    config_class = RowMLPConfig
    summary = "plain network, hidden layers"
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
        """One vector per row, `(batch, d_hidden)`.

        Raises:
            ShapeError: A row has another number of columns.
        """
        if values.shape[-1] != self.config.num_columns:
            raise ShapeError(f"a row of {values.shape[-1]} numbers does not fit the {self.config.num_columns} inputs")
        z = values
        for layer in self.layers:
            z = self.dropout(torch.tanh(layer(z)))
        return z
