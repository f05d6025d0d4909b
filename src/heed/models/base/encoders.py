"""Interfaces of models that encode texts, rows of numbers, series or pictures."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Mapping
from typing import Any, ClassVar

import torch
from torch import Tensor

from heed.models.base.body import Body, Interface, ragged
from heed.models.base.config import ImageConfig


class TextReader(Body):
    """A model that encodes a text and applies dropout to the result; the task adds pooling, head and loss."""

    interface: ClassVar[Interface] = "encoder"
    d_output: int  # width of the result
    embedding_scale: float = 1.0  # factor applied to the token embeddings

    @classmethod
    def example(cls, config: Any, seed: int) -> dict[str, Tensor]:
        """Three texts of unequal length without padding tokens among their real tokens."""
        tokens, mask = ragged(config.vocab_size, torch.Generator().manual_seed(seed))
        return {"tokens": tokens, "mask": mask}


class TokenEncoder(TextReader):
    """A model that returns a state for each token: for tagging and, after pooling, for classification.

    Its configuration is a `TokenConfig`; its input layer is `layers.TokenInput`.
    """

    sees_all: ClassVar[bool] = False  # whether every state, even the first token's, depends on the whole text
    framed: ClassVar[bool] = False  # whether texts are put between a start and an end token, as in BERT
    fine_tuned: ClassVar[bool] = False  # whether the model is meant to be pretrained, then fine-tuned

    @abstractmethod
    def forward(self, tokens: Tensor, mask: Tensor, features: Tensor | None = None) -> Tensor:
        """Encode texts.

        Args:
            tokens: `(batch, length)`.
            mask: `(batch, length)`, True on real tokens, which come first; a row may have none.
            features: `(batch, length, d_features)`, additional features of each token, such as its characters; None if
                the configuration's `d_features` is 0.

        Returns:
            hidden `(batch, length, d_output)`, undefined outside the mask.

        Raises:
            ShapeError: Features do not have width `d_features`, or a text is longer than a learned position table.
        """

    def last(self, hidden: Tensor, mask: Tensor) -> Tensor:
        """One vector per text, `(batch, d_output)`: the state after the whole text; zeros for a text without tokens.

        By default the last token's state; models that do not read from left to right override it.
        """
        return state_at(hidden, mask, mask.sum(1) - 1)

    def pooled(self, vector: Tensor) -> Tensor:
        """Apply to vectors `(batch, d_output)` the layers that `last` applies to a state; none by default."""
        return vector

    def without_last(self) -> None:
        """Freeze the parameters that only `last` uses; called by tasks that do not use `last`.

        Distributed training waits for a gradient of every trainable parameter.
        """


class TextEncoder(TextReader):
    """A model that returns one vector per text, for classification. Its configuration is a `TextConfig`.

    Attributes:
        hierarchical: Whether the model reads sentence by sentence. Tokens and mask are then `(batch, sentences,
            words)`: real sentences come first, real words come first in each, and a real sentence has at least one.
    """

    hierarchical: ClassVar[bool] = False

    @abstractmethod
    def forward(self, tokens: Tensor, mask: Tensor) -> Tensor:
        """Tokens `(batch, length)` or `(batch, sentences, words)` to `(batch, d_output)`; a text may have none."""


class RowEncoder(Body):
    """A model that returns one vector of width `d_output` per row of numbers.

    The task sets the configuration's `num_columns` and adds head and loss.
    """

    interface: ClassVar[Interface] = "rows"
    d_output: int

    @abstractmethod
    def forward(self, values: Tensor) -> Tensor:
        """Rows `(batch, num_columns)`, standardised, to `(batch, d_output)`."""

    @classmethod
    def example(cls, config: Any, seed: int) -> dict[str, Tensor]:
        """Four random rows."""
        generator = torch.Generator().manual_seed(seed)
        return {"values": torch.randn(4, config.num_columns, generator=generator)}


class ImageEncoder(Body):
    """A model that returns one vector of width `d_output` per picture. Its configuration is an `ImageConfig`.

    The task adds normalisation, head and loss.
    """

    interface: ClassVar[Interface] = "image_encoder"
    d_output: int
    config: ImageConfig

    @abstractmethod
    def forward(self, pixels: Tensor) -> Tensor:
        """Normalised pictures `(batch, num_channels, height, width)` to `(batch, d_output)`."""

    @abstractmethod
    def features(self, pixels: Tensor) -> Tensor:
        """The last feature map, `(batch, d, rows, columns)`: one vector for each part of a picture."""

    def receptive_field(self) -> int | None:
        """Side in pixels of the square seen by one position of the last feature map; None for the whole picture."""
        return None

    @classmethod
    def adapted(cls, tensors: Mapping[str, Tensor], old: Any, new: Any) -> dict[str, Tensor]:
        """Adapt the tensors of a model of configuration `old` to `new`, for another picture size.

        Tensors that do not depend on the picture size, or that cannot be adapted, are returned unchanged.
        """
        return {**tensors}

    @classmethod
    def example(cls, config: Any, seed: int) -> dict[str, Tensor]:
        """Three random pictures."""
        generator = torch.Generator().manual_seed(seed)
        shape = (3, config.num_channels, config.height, config.width)
        return {"pixels": torch.randn(shape, generator=generator)}


class SeriesEncoder(Body):
    """A model that returns a state of width `d_output` after each row of a series, from that row and earlier ones.

    The task sets the configuration's `num_columns` and adds head and loss.
    """

    interface: ClassVar[Interface] = "series"
    d_output: int

    @abstractmethod
    def read(self, values: Tensor, states: Any = None) -> tuple[Tensor, Any]:
        """Read further rows, continuing from the states returned by an earlier call.

        Args:
            values: `(batch, length, num_columns)`, standardised.
            states: As returned by an earlier call; None at the start of a series.

        Returns:
            hidden `(batch, length, d_output)` and the states after the last row.
        """

    def forward(self, values: Tensor) -> Tensor:
        """Whole series `(batch, length, num_columns)` to states `(batch, length, d_output)`."""
        return self.read(values)[0]

    @classmethod
    def example(cls, config: Any, seed: int) -> dict[str, Tensor]:
        """Three random series of seven rows."""
        generator = torch.Generator().manual_seed(seed)
        return {"values": torch.randn(3, 7, config.num_columns, generator=generator)}


def state_at(hidden: Tensor, mask: Tensor, positions: Tensor) -> Tensor:
    """Hidden states `(batch, length, d)` at positions `(batch,)`, `(batch, d)`; zeros for a text without tokens."""
    rows = torch.arange(len(hidden), device=hidden.device)
    states = hidden[rows, positions.clamp_min(0)]
    return states.masked_fill(~mask.any(1, keepdim=True), 0.0)
