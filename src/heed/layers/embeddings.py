"""Token and position embeddings."""

import math

import torch
from torch import Tensor, nn

from heed.errors import ShapeError
from heed.kernels import Linear
from heed.shapes import Bool, Float, Int

_CHUNK = 32
"""Positions whose sinusoids are computed at once when positions are requested one by one."""


class TokenEmbedding(nn.Embedding):
    """Table of one vector per token; the vector of the padding token is zero and stays zero.

    Initialised from a normal distribution with standard deviation `d ** -0.5`, so that a vector has norm about 1 for
    every width.
    """

    def __init__(self, vocab_size: int, d: int, padding_token: int | None = 0) -> None:
        super().__init__(vocab_size, d, padding_idx=padding_token)

    def reset_parameters(self) -> None:
        """Draw new random vectors."""
        nn.init.normal_(self.weight, std=self.embedding_dim**-0.5)
        self._fill_padding_idx_with_zero()


def output_layers(d_hidden: int, embedding: TokenEmbedding, tied: bool) -> tuple[nn.Module, nn.Linear]:
    """Projection and output layer, from states of width `d_hidden` to logits over the vocabulary.

    A tied output layer uses the embedding table as its matrix; the table must then have no padding token, since every
    row is an output. States of another width are projected to that of the table by a matrix without bias; otherwise the
    projection is the identity.

    Source: Press and Wolf 2017 (arXiv:1608.05859), section 3; Inan et al. 2017 (arXiv:1611.01462), section 3.
    """
    vocab_size, d_embedding = embedding.weight.shape
    if not tied:
        return nn.Identity(), nn.Linear(d_hidden, vocab_size)
    projection = nn.Identity() if d_hidden == d_embedding else Linear(d_hidden, d_embedding, bias=False)
    output = nn.Linear(d_embedding, vocab_size)
    output.weight = embedding.weight
    return projection, output


class TokenInput(nn.Module):
    """Input layer of a text model: the embedding of each token, concatenated with its other features, if any.

    A task may load given word vectors into `embedding`. The result has width `d_output = d_embedding + d_features`.
    With a padding token of None every row of the table is learned, as a tied output layer requires.
    """

    def __init__(self, vocab_size: int, d_embedding: int, d_features: int = 0, padding_token: int | None = 0) -> None:
        super().__init__()
        self.embedding = TokenEmbedding(vocab_size, d_embedding, padding_token)
        self.d_features = d_features
        self.d_output = d_embedding + d_features

    def forward(
        self, tokens: Int[Tensor, "*shape"], features: Float[Tensor, "*shape d_features"] | None = None
    ) -> Float[Tensor, "*shape d_output"]:
        """Tokens of any shape to vectors of width `d_output`.

        Raises:
            ShapeError: Features are missing, unexpected, or of another width.
        """
        width = 0 if features is None else features.shape[-1]
        if width != self.d_features:
            raise ShapeError(f"features have width {width}, expected {self.d_features} (0 = no features)")
        embedded: Tensor = self.embedding(tokens)
        return embedded if features is None else torch.cat([embedded, features], dim=-1)


def sinusoids(positions: Int[Tensor, "*shape"], d: int) -> Float[Tensor, "*shape d"]:
    """Sinusoidal positions: `sin(p / 10000^(2i/d))` at index 2i, `cos` of the same angle at index 2i + 1.

    Source: Vaswani et al. 2017 (arXiv:1706.03762), section 3.5.
    """
    even = torch.arange(0, d, 2, device=positions.device)
    angles = positions.unsqueeze(-1) * torch.exp(even * (-math.log(10000.0) / d))  # (..., ceil(d / 2))
    return torch.stack([angles.sin(), angles.cos()], dim=-1).flatten(-2)[..., :d]


class SinusoidalPositions(nn.Module):
    """Fixed sinusoidal positions of any length."""

    def __init__(self, d: int) -> None:
        super().__init__()
        self.d = d
        self._chunk: tuple[int, Tensor] = -1, torch.empty(0)

    def forward(self, positions: Int[Tensor, "batch length"] | int) -> Float[Tensor, "batch length d"]:
        """Vectors of positions `(batch, length)`; of a single position, `(1, 1, d)` on the CPU."""
        if not isinstance(positions, int):
            return sinusoids(positions, self.d)
        number, place = divmod(positions, _CHUNK)
        known, chunk = self._chunk
        if number != known:
            with torch.inference_mode(False):
                chunk = sinusoids(torch.arange(number * _CHUNK, (number + 1) * _CHUNK), self.d)
            self._chunk = number, chunk
        return chunk[None, None, place]


def places_within(
    tokens: Int[Tensor, "batch length"], documents: Int[Tensor, "batch length"] | None
) -> tuple[Int[Tensor, "rows length"], Bool[Tensor, "batch length length"] | None]:
    """Positions within packed documents, and a mask of pairs in the same document; None if each row is one document.

    For documents (4, 4, 4, 5, 5) the positions are 0 1 2 0 1, and the mask

        1 1 1 . .
        1 1 1 . .
        1 1 1 . .
        . . . 1 1
        . . . 1 1

    Args:
        tokens: The packed tokens, `(batch, length)`.
        documents: Index of each token's document, non-decreasing along a row; None if each row is one document.

    Returns:
        Positions `(batch, length)`, or `(1, length)` if each row is one document; mask `(batch, length, length)`.
    """
    place = torch.arange(tokens.shape[1], device=tokens.device).unsqueeze(0)
    if documents is None:
        return place, None
    begins = torch.ones_like(documents, dtype=torch.bool)
    begins[:, 1:] = documents[:, 1:] != documents[:, :-1]
    if not begins[:, 1:].any():
        return place, None
    first = torch.where(begins, place, 0).cummax(dim=1).values
    return place - first, documents.unsqueeze(1) == documents.unsqueeze(2)


class LearnedPositions(nn.Module):
    """Learned table of positions up to a fixed length.

    Source: Gehring et al. 2017 (arXiv:1705.03122), section 3.1; also used by BERT and GPT.
    """

    def __init__(self, max_length: int, d: int) -> None:
        super().__init__()
        self.table = nn.Embedding(max_length, d)
        nn.init.normal_(self.table.weight, std=0.02)

    def forward(self, positions: Int[Tensor, "batch length"] | int) -> Float[Tensor, "batch length d"]:
        """Vectors of positions `(batch, length)`; of a single position, `(1, 1, d)`.

        Raises:
            ShapeError: A position lies beyond the table.
        """
        single = isinstance(positions, int)
        last = positions if isinstance(positions, int) else int(positions.max()) if positions.numel() else 0
        if last >= self.table.num_embeddings:
            raise ShapeError(
                f"a sequence of length {last + 1} does not fit {self.table.num_embeddings} learned positions; "
                "raise max_length, shorten the input, or use sinusoidal positions"
            )
        return self.table.weight[None, None, positions] if single else self.table(positions)
