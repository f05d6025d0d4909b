"""Models that read: texts, rows of numbers, series, pictures."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Mapping
from typing import Any, ClassVar

import torch
from torch import Tensor

from heed.models.base.body import Body, Interface, ragged
from heed.models.base.config import ImageConfig


class TextReader(Body):
    """A model that reads a text. Pooling, heads and losses belong to the tasks; dropout on its result is its own."""

    interface: ClassVar[Interface] = "encoder"
    d_output: int  # width of the result
    embedding_scale: float = 1.0  # factor on embeddings before they are read

    @classmethod
    def example(cls, config: Any, seed: int) -> dict[str, Tensor]:
        """Three texts of unequal length, no padding token inside them."""
        tokens, mask = ragged(config.vocab_size, torch.Generator().manual_seed(seed))
        return {"tokens": tokens, "mask": mask}


class TokenEncoder(TextReader):
    """A model that gives a state for each token: it can tag, and with a pooling over its states classify.

    Its configuration is a `TokenConfig`; `layers.TokenInput` is the input layer that fits it.
    """

    sees_all: ClassVar[bool] = False  # whether the state of every token, of the first one too, has seen the whole text
    framed: ClassVar[bool] = False  # whether a text stands between the start token and an end token, as in BERT
    fine_tuned: ClassVar[bool] = False  # whether it is made to be trained on much text first, and then fine-tuned

    @abstractmethod
    def forward(self, tokens: Tensor, mask: Tensor, features: Tensor | None = None) -> Tensor:
        """Read texts.

        Args:
            tokens: `(batch, length)`.
            mask: `(batch, length)`, True on real tokens, which come first; a row may have none.
            features: `(batch, length, d_features)`, what else is known of each token (its characters); None where
                the configuration's `d_features` is 0.

        Returns:
            hidden `(batch, length, d_output)`, undefined outside the mask.
        """

    def last(self, hidden: Tensor, mask: Tensor) -> Tensor:
        """One vector per text, `(batch, d_output)`: the states after everything was read.

        That of the last token here; a model whose states were read in another order has its own. Zeros for a text
        without tokens.
        """
        return state_at(hidden, mask, mask.sum(1) - 1)

    def pooled(self, vector: Tensor) -> Tensor:
        """One vector per text `(batch, d_output)` through what `last` puts behind a state; nothing here."""
        return vector

    def without_last(self) -> None:
        """Stop training the parameters that only `last` reads; a task that never calls `last` says so here.

        Every parameter that is trained must get a gradient (several processes wait for each one).
        """


class TextEncoder(TextReader):
    """A model that gives one vector for a whole text: it can classify. Its configuration is a `TextConfig`.

    Attributes:
        hierarchical: Whether it reads sentence by sentence: its tokens and mask are `(batch, sentences, words)`,
            where real sentences come first, real words come first in each, and a real sentence has at least one.
    """

    hierarchical: ClassVar[bool] = False

    @abstractmethod
    def forward(self, tokens: Tensor, mask: Tensor) -> Tensor:
        """Tokens `(batch, length)` or `(batch, sentences, words)` to `(batch, d_output)`; a text may have none."""


class RowEncoder(Body):
    """A model that gives one vector of width `d_output` for a row of numbers.

    The field `num_columns` of its configuration is set by the task, which has head and loss.
    """

    interface: ClassVar[Interface] = "rows"
    d_output: int

    @abstractmethod
    def forward(self, values: Tensor) -> Tensor:
        """Rows `(batch, num_columns)`, standardised, to `(batch, d_output)`."""

    @classmethod
    def example(cls, config: Any, seed: int) -> dict[str, Tensor]:
        """Four rows."""
        generator = torch.Generator().manual_seed(seed)
        return {"values": torch.randn(4, config.num_columns, generator=generator)}


class ImageEncoder(Body):
    """A model that gives one vector of width `d_output` for a picture. Its configuration is an `ImageConfig`.

    The task has normalisation, head and loss.
    """

    interface: ClassVar[Interface] = "image_encoder"
    d_output: int
    config: ImageConfig

    @abstractmethod
    def forward(self, pixels: Tensor) -> Tensor:
        """Normalised pictures `(batch, num_channels, height, width)` to `(batch, d_output)`."""

    @abstractmethod
    def features(self, pixels: Tensor) -> Tensor:
        """The last feature map, `(batch, d, rows, columns)`: what is known of each part of a picture."""

    def receptive_field(self) -> int | None:
        """Side in pixels of the square that a place of the last feature map can see; None for the whole picture."""
        return None

    @classmethod
    def adapted(cls, tensors: Mapping[str, Tensor], old: Any, new: Any) -> dict[str, Tensor]:
        """The tensors of a model of one configuration for a model of another, which reads pictures of another size.

        Tensors that do not depend on that size are left as they are, and so are those that cannot be brought over.
        """
        return {**tensors}

    @classmethod
    def example(cls, config: Any, seed: int) -> dict[str, Tensor]:
        """Three pictures."""
        generator = torch.Generator().manual_seed(seed)
        shape = (3, config.num_channels, config.height, config.width)
        return {"pixels": torch.randn(shape, generator=generator)}


class SeriesEncoder(Body):
    """A model that gives a state of width `d_output` after each row of a series, from the rows up to it.

    The field `num_columns` of its configuration is set by the task, which has head and loss.
    """

    interface: ClassVar[Interface] = "series"
    d_output: int

    @abstractmethod
    def read(self, values: Tensor, states: Any = None) -> tuple[Tensor, Any]:
        """Read on, from the states that an earlier call returned.

        Standardised rows `(batch, length, num_columns)` to hidden `(batch, length, d_output)` and the next states.
        """

    def forward(self, values: Tensor) -> Tensor:
        """Whole series `(batch, length, num_columns)` to states `(batch, length, d_output)`."""
        return self.read(values)[0]

    @classmethod
    def example(cls, config: Any, seed: int) -> dict[str, Tensor]:
        """Three series of seven rows."""
        generator = torch.Generator().manual_seed(seed)
        return {"values": torch.randn(3, 7, config.num_columns, generator=generator)}


def state_at(hidden: Tensor, mask: Tensor, positions: Tensor) -> Tensor:
    """Hidden states `(batch, length, d)` at positions `(batch,)`: `(batch, d)`, zeros for a text without tokens."""
    rows = torch.arange(len(hidden), device=hidden.device)
    states = hidden[rows, positions.clamp_min(0)]
    return states.masked_fill(~mask.any(1, keepdim=True), 0.0)
