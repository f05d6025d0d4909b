"""Embeddings of tokens, of their characters, and of positions: added to embeddings, or rotary.

Rotary positions rotate queries and keys, so that scores depend on relative positions only.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence

import torch
from torch import Tensor, nn

from heed.attention.host import host_copy
from heed.errors import ConfigError, ShapeError
from heed.kernels import Linear
from heed.layers.elementwise import GELU, Activation, LayerNorm
from heed.shapes import Bool, Float, Int, ReturnsTensor

_CHUNK = 32
"""Positions whose sinusoids are computed at once when positions are requested one by one."""


class TokenEmbedding(ReturnsTensor, nn.Embedding):
    """Table of one vector per token; that of a padding token, if one is given, is zero and stays zero.

    Initialised from a normal distribution with standard deviation `d ** -0.5`, so that a vector has norm about 1 for
    every width.
    """

    def __init__(self, vocab_size: int, d: int, padding_token: int | None = None) -> None:
        super().__init__(vocab_size, d, padding_idx=padding_token)

    def reset_parameters(self) -> None:
        """Draw new random vectors."""
        nn.init.normal_(self.weight, std=self.embedding_dim**-0.5)
        self._fill_padding_idx_with_zero()


def output_layers(d_hidden: int, embedding: TokenEmbedding, tied: bool) -> tuple[nn.Module, nn.Linear]:
    """Projection and output layer, from states of width `d_hidden` to logits over the vocabulary.

    A tied output layer uses the embedding table as its matrix. States of another width are projected to that of the
    table by a matrix without bias; otherwise the projection is the identity.

    Source: Press and Wolf 2017 (arXiv:1608.05859), section 3; Inan et al. 2017 (arXiv:1611.01462), section 3.
    """
    vocab_size, d_embedding = embedding.weight.shape
    if not tied:
        return nn.Identity(), nn.Linear(d_hidden, vocab_size)
    projection = nn.Identity() if d_hidden == d_embedding else Linear(d_hidden, d_embedding, bias=False)
    output = nn.Linear(d_embedding, vocab_size)
    output.weight = embedding.weight
    return projection, output


class TokenInput(ReturnsTensor, nn.Module):
    """Input layer of a text model: the embedding of each token, concatenated with its other features, if any.

    A task may load given word vectors into `embedding`. The result has width `d_output = d_embedding + d_features`.
    """

    def __init__(self, vocab_size: int, d_embedding: int, d_features: int = 0) -> None:
        super().__init__()
        self.embedding = TokenEmbedding(vocab_size, d_embedding)
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


def fairseq_sinusoids(positions: Int[Tensor, "*shape"], d: int) -> Float[Tensor, "*shape d"]:
    """Sinusoids of fairseq: `sin((p + 2) / 10000^(i/(d/2-1)))` at index i, `cos` of the same angle at index d/2 + i.

    Rows 0 and 1 of its table are not positions. A last odd index is 0.

    Source: Fan et al. 2020 (M2M-100, arXiv:2010.11125); the form is that of `tensor2tensor`.
    """
    half = d // 2
    exponents = torch.arange(half, device=positions.device) * (-math.log(10000.0) / max(1, half - 1))
    angles = (positions.unsqueeze(-1) + 2) * torch.exp(exponents)
    return nn.functional.pad(torch.cat([angles.sin(), angles.cos()], dim=-1), (0, d % 2))


class SinusoidalPositions(ReturnsTensor, nn.Module):
    """Fixed sinusoidal positions of any length; `function` computes them."""

    def __init__(self, d: int, function: Callable[[Tensor, int], Tensor] = sinusoids) -> None:
        super().__init__()
        self.d, self.function = d, function
        self._chunk: tuple[int, Tensor] = -1, torch.empty(0)
        self._table = torch.empty(0)  # the first positions, on a GPU

    def forward(
        self, positions: Int[Tensor, "batch length"] | int, bound: int | None = None
    ) -> Float[Tensor, "batch length d"]:
        """Vectors of positions `(batch, length)`, all below `bound`; of a single one, `(1, 1, d)` on the CPU."""
        if not isinstance(positions, int):
            on_gpu = positions.device.type == "cuda" and not torch.compiler.is_compiling()
            if not on_gpu or bound is None:
                return self.function(positions, self.d)
            if self._table.device != positions.device or len(self._table) < bound:  # one kernel in place of eight
                with torch.inference_mode(False):
                    self._table = self.function(torch.arange(-(-bound // 256) * 256, device=positions.device), self.d)
            return self._table[positions]
        number, place = divmod(positions, _CHUNK)
        chunk_number, chunk = self._chunk
        if number != chunk_number:
            with torch.inference_mode(False):
                chunk = self.function(torch.arange(number * _CHUNK, (number + 1) * _CHUNK), self.d)
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
    on_host = host_copy(documents)
    if not (on_host[:, 1:] != on_host[:, :-1]).any():
        return place, None
    first = torch.where(begins, place, 0).cummax(dim=1).values
    return place - first, documents.unsqueeze(1) == documents.unsqueeze(2)


def _length(positions: Tensor, bound: int | None, enough: int | None = None) -> int:
    """One more than the largest position, or the given bound of that if it is at most `enough`.

    A bound spares reading the maximum, for which a GPU would be waited for.
    In a compiled pass it is the length of the rows, which begin at position 0: reading the maximum splits the graph.
    """
    if torch.compiler.is_compiling():
        return positions.shape[-1]
    if bound is not None and (enough is None or bound <= enough):
        return bound
    return int(positions.max()) + 1 if positions.numel() else 0


class LearnedPositions(ReturnsTensor, nn.Module):
    """Learned table of positions up to a fixed length.

    Source: Gehring et al. 2017 (arXiv:1705.03122), section 3.1; also used by BERT and GPT.
    """

    def __init__(self, max_length: int, d: int) -> None:
        super().__init__()
        self.table = nn.Embedding(max_length, d)
        nn.init.normal_(self.table.weight, std=0.02)

    def forward(
        self, positions: Int[Tensor, "batch length"] | int, bound: int | None = None
    ) -> Float[Tensor, "batch length d"]:
        """Vectors of positions `(batch, length)`, all below `bound`; of a single position, `(1, 1, d)`.

        Raises:
            ShapeError: A position lies beyond the table.
        """
        single = isinstance(positions, int)
        length = positions + 1 if isinstance(positions, int) else _length(positions, bound, self.table.num_embeddings)
        if length > self.table.num_embeddings:
            raise ShapeError(
                f"a sequence of length {length} does not fit {self.table.num_embeddings} learned positions; "
                "raise max_length, shorten the input, or use sinusoidal positions"
            )
        return self.table.weight[None, None, positions] if single else self.table(positions)


_BASE = 10_000.0
_ANGLES = 256
"""Number of positions whose angles are computed at once."""


class Rotation:
    """Rotates the queries or keys of given positions; shared by all layers of a forward pass.

    Attributes:
        turns: Cosine and sine of each pair's angle, `(rows, 1, positions, d_head / 2, 2)`; rows may be 1, for all.
    """

    def __init__(self, turns: Float[Tensor, "rows 1 positions pairs 2"]) -> None:
        self.turns = turns

    def __call__(self, x: Float[Tensor, "rows heads positions d_head"]) -> Float[Tensor, "rows heads positions d_head"]:
        """Rotate each pair `(a, b)` of neighbouring elements to `(a cos - b sin, a sin + b cos)`."""
        even, odd, cos, sin = x[..., 0::2], x[..., 1::2], self.turns[..., 0], self.turns[..., 1]
        return torch.stack([even * cos - odd * sin, even * sin + odd * cos], dim=-1).flatten(-2).to(x.dtype)


class RotaryPositions:
    """`R_p x`: elements 2i and 2i + 1 of a vector at position p, rotated by the angle `p / 10000^(2i/d)`.

    Then `(R_p q)'(R_s k) = q' R_(s - p) k`: a score depends on the distance of query and key, not on their absolute
    positions. There are no parameters and no maximum length.

    Raises:
        ConfigError: `d_head` is odd.

    Source: Su et al. 2021, RoFormer, arXiv:2104.09864, equations 15 and 34.
    """

    def __init__(self, d_head: int) -> None:
        if d_head % 2:
            raise ConfigError(
                f"rotary positions rotate pairs of elements, but a head is {d_head} wide (d_model / num_heads); "
                "choose an even width"
            )
        self.d_head = d_head
        self._table = torch.empty(0, d_head // 2, 2)

    def __call__(self, positions: Int[Tensor, "rows positions"] | int, bound: int | None = None) -> Rotation:
        """The rotation for positions `(rows, positions)`, all below `bound`, or for one of all rows, on the CPU."""
        if isinstance(positions, int):
            return Rotation(self._upto(positions + 1, torch.device("cpu"))[None, None, positions : positions + 1])
        return Rotation(self._upto(_length(positions, bound), positions.device)[positions].unsqueeze(1))

    def _upto(self, count: int, device: torch.device) -> Tensor:
        if len(self._table) < count or self._table.device != device:
            with torch.inference_mode(False):
                count = -(-count // _ANGLES) * _ANGLES
                powers = torch.arange(0, self.d_head, 2, dtype=torch.float64) / self.d_head
                angles = torch.arange(count, dtype=torch.float64).unsqueeze(1) * _BASE**-powers
                self._table = torch.stack([angles.cos(), angles.sin()], dim=-1).float().to(device)
        return self._table


_WIDTH = 3


class CharacterFeatures(nn.Module):
    """Convolution of width 3 over the character embeddings of each word, then the maximum over the word.

    Source: Ma and Hovy 2016 (arXiv:1603.01354), section 2.1, after dos Santos and Zadrozny 2014.
    Differs from the paper: words are padded with zeros at both ends.
    """

    def __init__(self, vocab_size: int, d_character: int, num_filters: int) -> None:
        super().__init__()
        self.embedding = TokenEmbedding(vocab_size, d_character, padding_token=0)
        self.filters = nn.Conv1d(d_character, num_filters, _WIDTH, padding=_WIDTH // 2)
        self.d_output = num_filters

    def forward(
        self, groups: Sequence[Int[Tensor, "_ _"]], place: Int[Tensor, "batch words"]
    ) -> Float[Tensor, "batch words d_output"]:
        """Features of each word, `(batch, words, d_output)`; zeros for a word without characters.

        Args:
            groups: Character ids `(distinct words, characters)`, 0 for padding, in groups of words of similar length.
            place: `(batch, words)`, each word's row in the concatenated groups, from 1; 0 where there is no word.

        Raises:
            ShapeError: A group does not have two dimensions.
        """
        features = [self.filters.weight.new_zeros(1, self.d_output)]
        for characters in groups:
            if characters.dim() != 2:
                raise ShapeError(f"characters have shape {tuple(characters.shape)}, expected (words, characters)")
            convolved = self.filters(self.embedding(characters).transpose(1, 2))  # (distinct words, num_filters, C)
            real = (characters != 0).unsqueeze(1)
            largest = convolved.masked_fill(~real, torch.finfo(convolved.dtype).min).amax(-1)
            features.append(largest.masked_fill(~real.any(-1), 0.0))
        return torch.cat([part.to(features[-1].dtype) for part in features])[place]


class AffixFeatures(nn.Module):
    """Sum of the embeddings of a word's affixes and shape: f(w) = sum_i E[a_i], with a_i from `data.batch`'s words.

    Source: Bojanowski et al. 2017 (arXiv:1607.04606), section 3.2, with affixes instead of all n-grams.
    """

    def __init__(self, vocab_size: int, d_output: int) -> None:
        super().__init__()
        self.embedding = TokenEmbedding(vocab_size, d_output, padding_token=0)
        self.d_output = d_output

    def forward(
        self, groups: Sequence[Int[Tensor, "_ _"]], place: Int[Tensor, "batch words"]
    ) -> Float[Tensor, "batch words d_output"]:
        """Features of each word; the arguments are those of `CharacterFeatures.forward`, with ids of affixes."""
        features = [self.embedding(affixes).sum(1) for affixes in groups]  # padding is a row of zeros
        return torch.cat([self.embedding.weight.new_zeros(1, self.d_output), *features])[place]


class MaskedWords(nn.Module):
    """States to logits over the vocabulary: `E norm(g(W h + b)) + b_vocabulary`.

    Pass only the states of predicted positions: with a large vocabulary the output layer is the most expensive product
    of the model. The loss takes `states` and the layer `output` separately, so that it can work in pieces
    (`heed.kernels.vocabulary_loss`).

    Args:
        embedding: The token embeddings, whose matrix is E if `tied`.
        activation: g above.
        eps: Epsilon of the layer normalisation.
        tied: Whether the output layer shares the embedding matrix, as BERT's does; otherwise it has its own.

    Source: Devlin et al. 2019 (arXiv:1810.04805), section 3.1, "Masked LM"; the layer before the output layer is that
    of the published checkpoints.
    """

    def __init__(
        self, embedding: TokenEmbedding, *, activation: Activation = GELU, eps: float = 1e-12, tied: bool = True
    ) -> None:
        super().__init__()
        vocab_size, d = embedding.weight.shape
        self.activation = activation
        self.dense = Linear(d, d)
        self.norm = LayerNorm(d, eps=eps)
        self.output = nn.Linear(d, vocab_size)
        for layer in (self.dense, self.output):
            nn.init.normal_(layer.weight, std=0.02)
            nn.init.zeros_(layer.bias)
        if tied:
            self.output.weight = embedding.weight

    def states(self, hidden: Float[Tensor, "*shape d"]) -> Float[Tensor, "*shape d"]:
        """The input of the output layer: `norm(g(W h + b))`."""
        return self.norm(self.activation.function(self.dense(hidden)))

    def forward(self, hidden: Float[Tensor, "*shape d"]) -> Float[Tensor, "*shape vocab_size"]:
        """Logits over the vocabulary."""
        return self.output(self.states(hidden))  # type: ignore[no-any-return]
