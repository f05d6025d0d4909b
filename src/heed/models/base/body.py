"""What every model is, and what every model that writes is."""

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
    """What a decoder may look at: the encoded source."""

    keys: tuple[Keys, ...]  # one entry per attention that reads the source; empty for a model without attention
    summary: Tensor | None  # `(batch, d)`, the source in one vector, or None

    def select(self, sources: Tensor) -> Memory:
        """The memory of the given sources."""
        summary = None if self.summary is None else self.summary.index_select(0, sources)
        return Memory(tuple(keys.select(sources) for keys in self.keys), summary)


class Body(nn.Module, ABC):
    """A model without the task's head and loss. One file in `models/` gives one."""

    interface: ClassVar[Interface]
    config_class: ClassVar[type[ModelConfig]]
    summary: ClassVar[str]
    """What it is, in at most 39 characters (`heed models`)."""
    paper: ClassVar[str]
    """Where it comes from: authors and year, or the lecture notes."""

    def __init__(self, config: ModelConfig) -> None:
        super().__init__()
        self.config = config

    @classmethod
    @abstractmethod
    def example(cls, config: Any, seed: int) -> dict[str, Tensor]:
        """A small ragged batch for `forward`, by argument name; conformance tests build their inputs from it."""

    def observe_tensor(self, kind: str, value: Tensor) -> Tensor:
        """Offer a tensor to whoever watches; returns it unchanged."""
        if watch.slot is not None:
            watch.slot.tensor(self, kind, value)
        return value


class DecoderBody(Body):
    """A model that writes a sequence from left to right.

    `output` is the layer from hidden states to the vocabulary: the loss takes hidden states and that layer, so that
    it can work in pieces; generation asks for the last position only.
    """

    output: nn.Module

    def logits(self, hidden: Tensor) -> Tensor:
        """Hidden states `(..., d)` to scores over the vocabulary `(..., vocab_size)`."""
        return self.observe_tensor("logits", self.output(hidden))

    @abstractmethod
    def start(self, memory: Memory | None, rows: Rows) -> Any:
        """The state before the first token, over the encoded sources (None for a language model).

        A state has a method `select(rows)`: row i of the result continues row `rows[i]`, repeats and omissions allowed;
        the old state is not used again.
        """

    @abstractmethod
    def step(self, tokens: Tensor, state: Any, lengths: Tensor | None = None) -> tuple[Tensor, Any]:
        """Read one or more further tokens of each row.

        Args:
            tokens: `(rows, n)`, n >= 1; a prompt is one step.
            state: Before them.
            lengths: `(rows,)`, number of real tokens of each row where prompts of unequal length are padded on the
                right; None where all n are real. Hidden states of padding are undefined.

        Returns:
            hidden `(rows, n, d)`, the state that predicts the token after each of them, and the new state.
        """


def ragged(vocab_size: int, generator: torch.Generator) -> tuple[Tensor, Tensor]:
    """Three random texts of 7, 4 and 5 tokens, and their mask."""
    mask = torch.arange(7) < torch.tensor([7, 4, 5]).unsqueeze(1)
    return torch.randint(4, vocab_size, mask.shape, generator=generator).masked_fill(~mask, 0), mask
