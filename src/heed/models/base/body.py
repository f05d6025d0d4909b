"""Base classes of all models (`Body`) and of the models that generate text (`DecoderBody`)."""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass
from typing import Any, ClassVar, Literal

import torch
from torch import Tensor, nn

from heed.attention import Keys, Rows, watch
from heed.models.base.config import ModelConfig

Interface = Literal[
    "encoder", "pair_encoder", "pair_decoder", "turn_decoder", "language_model", "image_encoder", "rows", "series"
]


@dataclass(frozen=True)
class Memory:
    """The encoded source, as a decoder reads it."""

    keys: tuple[Keys, ...]  # one entry per attention over the source; empty for a model without attention
    summary: Tensor | None  # `(batch, d)`, the source as one vector, or None

    def select(self, sources: Tensor) -> Memory:
        """Reorder the sources: the new source i is the old `sources[i]`; repeats and omissions allowed."""
        summary = None if self.summary is None else self.summary.index_select(0, sources)
        return Memory(tuple(keys.select(sources) for keys in self.keys), summary)


class Body(nn.Module, ABC):
    """A model without the task's head and loss; each file of `models/` defines one for every interface it supports.

    A constructor raises `ConfigError` for fields that do not fit together, such as 3 heads for a d_model of 8.
    """

    interface: ClassVar[Interface]
    config_class: ClassVar[type[ModelConfig]]
    summary: ClassVar[str]
    """Description of at most 39 characters, shown by `heed models`."""
    paper: ClassVar[str]
    """Source: authors and year, or the lecture notes."""

    def __init__(self, config: ModelConfig) -> None:
        super().__init__()
        self.config = config

    @classmethod
    @abstractmethod
    def example(cls, config: Any, seed: int) -> dict[str, Tensor]:
        """A small ragged batch: the arguments of `forward` by name, from which conformance tests build their inputs."""

    def observe_tensor(self, kind: str, value: Tensor) -> Tensor:
        """Report a tensor to the observer, if there is one, and return it unchanged."""
        if watch.slot is not None:
            watch.slot.tensor(self, kind, value)
        return value


class DecoderBody(Body):
    """A model that generates a sequence from left to right.

    `output` is the layer from hidden states to the vocabulary. `forward` and `step` return hidden states without
    applying it, so that the loss can apply it in chunks and generation to the last position only.
    """

    output: nn.Module

    def logits(self, hidden: Tensor) -> Tensor:
        """Hidden states `(..., d)` to logits `(..., vocab_size)`."""
        return self.observe_tensor("logits", self.output(hidden))

    @abstractmethod
    def start(self, memory: Memory | None, rows: Rows) -> Any:
        """Initial decoding state of each row.

        A state has a method `select(rows)`: row i of the result continues row `rows[i]`, repeats and omissions allowed.
        The old state must not be used afterwards.

        Args:
            memory: The encoded sources; None for a language model.
            rows: The source of each row.
        """

    @abstractmethod
    def step(self, tokens: Tensor, state: Any, lengths: Tensor | None = None) -> tuple[Tensor, Any]:
        """Read the next n tokens of each row.

        Args:
            tokens: `(rows, n)`, n >= 1; a whole prompt can be read in one step.
            state: Decoding state before these tokens.
            lengths: `(rows,)`, number of real tokens of each row when prompts are padded on the right; None if all n
                are real. Hidden states of padding are undefined.

        Returns:
            hidden `(rows, n, d)`, where position t predicts the token after token t, and the new decoding state.

        Raises:
            ShapeError: A sequence is longer than a learned position table.
        """


def ragged(vocab_size: int, generator: torch.Generator) -> tuple[Tensor, Tensor]:
    """Three random texts of 7, 4 and 5 tokens, padded with 0, and their mask, `(3, 7)` each."""
    mask = torch.arange(7) < torch.tensor([7, 4, 5]).unsqueeze(1)
    return torch.randint(4, vocab_size, mask.shape, generator=generator).masked_fill(~mask, 0), mask
