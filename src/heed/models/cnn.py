"""Convolution over words and the largest value of each filter: Kim 2014.

| here | paper | what |
|---|---|---|
| filters | w of size h k | one bank per window of h = 3, 4, 5 words |
| found | c_i = f(w . x_{i:i+h-1} + b) | what a filter says of the window that begins at word i, f = relu |
| largest | c^ = max{c} | over the windows of the text ("max over time") |
| vector | z | all filters of all windows side by side |

Source: arXiv:1408.5882, section 2; sizes of section 3.1 (CNN-rand; `model.word_vectors` makes it CNN-non-static,
with `model.train_embeddings=false` CNN-static). A window lies inside the text; a text shorter than a window has one,
filled up with zeros.
Differs from the paper: no limit on the norm of the output layer's weights.
"""

from __future__ import annotations

import torch
from pydantic import Field, field_validator
from torch import Tensor, nn
from torch.nn.functional import pad, relu

from heed.attention import watch
from heed.layers import Dropout, TokenEmbedding, max_pooling
from heed.models.base import TextConfig, TextEncoder, named_sizes


class CNNConfig(TextConfig):
    """Fields of `cnn`; the defaults are the paper's."""

    d_embedding: int = Field(300, gt=0)
    """Width of the token embeddings (paper: k)."""
    windows: tuple[int, ...] = Field((3, 4, 5), min_length=1)
    """Numbers of words that filters read at once (paper: h)."""
    num_filters: int = Field(100, gt=0)
    """Filters of each window."""
    dropout: float = Field(0.5, ge=0, lt=1)
    """Probability with which a number of the text's vector is dropped in training."""

    sizes = named_sizes(tiny=dict(d_embedding=64, num_filters=32), small=dict(d_embedding=128, num_filters=64))

    @field_validator("windows")
    @classmethod
    def _whole_windows(cls, windows: tuple[int, ...]) -> tuple[int, ...]:
        if min(windows) < 1 or len(set(windows)) < len(windows):
            raise ValueError("windows must be different whole numbers from 1 on")
        return windows


class CNN(TextEncoder):
    """Embeddings, one bank of filters per window, the maximum over the text."""

    config_class = CNNConfig
    summary = "filters over neighbouring words"
    paper = "Kim 2014"

    def __init__(self, config: CNNConfig) -> None:
        super().__init__(config)
        c = config
        self.embedding = TokenEmbedding(c.vocab_size, c.d_embedding)
        self.filters = nn.ModuleList(nn.Conv1d(c.d_embedding, c.num_filters, width) for width in c.windows)
        self.windows = c.windows
        self.dropout = Dropout(c.dropout)
        self.d_output = c.num_filters * len(c.windows)

    def forward(self, tokens: Tensor, mask: Tensor) -> Tensor:
        """The largest value of each filter, `(batch, d_output)`; zeros for a text without tokens."""
        embedded = self.embedding(tokens) * mask.unsqueeze(-1)  # (B, T, d_embedding)
        lengths = mask.sum(1, keepdim=True)
        begins = torch.arange(tokens.shape[1], device=tokens.device)
        largest = []
        for width, bank in zip(self.windows, self.filters, strict=True):
            found = relu(bank(pad(embedded, (0, 0, 0, width - 1)).transpose(1, 2)))
            inside = mask & (begins < (lengths - width + 1).clamp_min(1))  # (B, T)
            found = found.transpose(1, 2)  # (B, T, num_filters)
            if watch.slot is not None:
                watch.slot.tensor(self, "ngrams", found.masked_fill(~inside.unsqueeze(-1), 0.0))
            largest.append(max_pooling(found, inside))
        return self.dropout(torch.cat(largest, dim=-1))  # type: ignore[no-any-return]
