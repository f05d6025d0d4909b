"""What every model promises: a typed configuration, one of a few interfaces, and how it is decoded step by step.

Models take plain tensors and masks. They know nothing of files, tokenizers, batches, beams or observers.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass
from typing import Any, ClassVar, Literal, Protocol, Self

import torch
from pydantic import BaseModel, ConfigDict
from torch import Tensor, nn

from heed.attention import Keys, Rows, watch
from heed.attention.modules import Attends

Interface = Literal["encoder", "pair_encoder", "pair_decoder", "language_model", "image_encoder", "rows", "series"]


class ModelConfig(BaseModel):
    """The fields of a model. Class defaults are the paper's base size."""

    model_config = ConfigDict(frozen=True, extra="forbid", use_attribute_docstrings=True)

    sizes: ClassVar[dict[str, dict[str, Any]]] = {"tiny": {}, "small": {}, "base": {}}
    """Fields that differ from the defaults, per named size."""


@dataclass(frozen=True)
class Memory:
    """What a decoder may look at: the encoded source.

    Attributes:
        keys: Prepared keys, one entry per attention (or per level of a hierarchy) that reads the source; empty
            for a model without attention and for a language model.
        summary: `(batch, d)`, the source in one vector, or None.
    """

    keys: tuple[Keys, ...]
    summary: Tensor | None

    def select(self, sources: Tensor) -> Memory:
        """The memory of the given sources."""
        summary = None if self.summary is None else self.summary.index_select(0, sources)
        return Memory(tuple(keys.select(sources) for keys in self.keys), summary)


class DecoderState(Protocol):
    """Everything a decoder carries from one step to the next."""

    def select(self, rows: Tensor) -> Self:
        """Row i of the result continues row `rows[i]`; repeats and omissions allowed; self is not used again."""
        ...


class Body(nn.Module, ABC):
    """A model without the task's head and loss. One file in `models/` gives one."""

    interface: ClassVar[Interface]
    config_class: ClassVar[type[ModelConfig]]

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
        """The state before the first token.

        Args:
            memory: The encoded sources; None for a language model.
            rows: Which source each row writes for.
        """

    @abstractmethod
    def step(self, tokens: Tensor, state: Any, lengths: Tensor | None = None) -> tuple[Tensor, Any]:
        """Read one or more further tokens of each row.

        Args:
            tokens: `(rows, n)`, n >= 1; a prompt is one step.
            state: The state before them.
            lengths: `(rows,)`, number of real tokens of each row where prompts of unequal length are padded on the
                right; None where all n are real. Hidden states of padding are undefined.

        Returns:
            hidden `(rows, n, d)`, the state that predicts the token after each of them, and the new state.
        """


class PairDecoder(DecoderBody):
    """A model that reads a source and writes a target."""

    interface: ClassVar[Interface] = "pair_decoder"

    @property
    def aligns(self) -> bool:
        """Whether it attends to the source; if not, all it knows of it is the memory's summary."""
        return any(isinstance(module, Attends) and module.mechanism == "cross" for module in self.modules())

    @abstractmethod
    def encode(self, source: Tensor, source_mask: Tensor) -> Memory:
        """Read sources.

        Args:
            source: Tokens, `(batch, source)`.
            source_mask: `(batch, source)`, True on real tokens, which come first.
        """

    def forward(self, source: Tensor, source_mask: Tensor, target: Tensor) -> Tensor:
        """Read sources and, by teacher forcing, whole targets.

        Args:
            source: Tokens, `(batch, source)`.
            source_mask: `(batch, source)`, True on real tokens.
            target: Tokens, `(batch, target)`, from the start token on.

        Returns:
            hidden `(batch, target, d)`: position t predicts token t + 1.
        """
        memory = self.encode(source, source_mask)
        rows = Rows.repeat(len(source), device=source.device)
        return self.step(target, self.start(memory, rows))[0]

    @classmethod
    def example(cls, config: Any, seed: int) -> dict[str, Tensor]:
        """Two to four sources and targets of unequal length, no padding token inside them."""
        generator = torch.Generator().manual_seed(seed)
        lengths = torch.tensor([7, 4, 5])
        source = torch.randint(4, config.source_vocab_size, (3, 7), generator=generator)
        source_mask = torch.arange(7) < lengths.unsqueeze(1)
        target = torch.randint(4, config.target_vocab_size, (3, 6), generator=generator)
        return {"source": source.masked_fill(~source_mask, 0), "source_mask": source_mask, "target": target}


class LanguageModel(DecoderBody):
    """A model that continues a sequence."""

    interface: ClassVar[Interface] = "language_model"

    def forward(self, tokens: Tensor) -> Tensor:
        """Whole sequences at once.

        Args:
            tokens: `(batch, length)`.

        Returns:
            hidden `(batch, length, d)`: position t predicts token t + 1.
        """
        rows = Rows.repeat(len(tokens), device=tokens.device)
        return self.step(tokens, self.start(None, rows))[0]

    @classmethod
    def example(cls, config: Any, seed: int) -> dict[str, Tensor]:
        """Three sequences of seven tokens."""
        generator = torch.Generator().manual_seed(seed)
        return {"tokens": torch.randint(4, config.vocab_size, (3, 7), generator=generator)}


class TokenEncoder(Body):
    """A model that gives a state for each token: it can tag, and with a pooling over its states classify.

    Pooling, heads and losses belong to the tasks. Its configuration has the fields `vocab_size` and `d_features`, both
    set by the task; `layers.TokenInput` is the input layer that fits them. Dropout on the states returned is its own.

    Attributes:
        d_output: Width of the states.
        embedding_scale: What embeddings are multiplied by before they are read.
        sees_all: Whether the state of every token, of the first one too, has seen the whole text.
    """

    interface: ClassVar[Interface] = "encoder"
    sees_all: ClassVar[bool] = False
    d_output: int
    embedding_scale: float = 1.0

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

    @classmethod
    def example(cls, config: Any, seed: int) -> dict[str, Tensor]:
        """Three texts of unequal length, no padding token inside them."""
        generator = torch.Generator().manual_seed(seed)
        mask = torch.arange(7) < torch.tensor([7, 4, 5]).unsqueeze(1)
        tokens = torch.randint(4, config.vocab_size, (3, 7), generator=generator)
        return {"tokens": tokens.masked_fill(~mask, 0), "mask": mask}


class TextEncoder(Body):
    """A model that gives one vector for a whole text: it can classify.

    Heads and losses belong to the tasks; dropout on the vector is the model's own. The field `vocab_size` of its
    configuration is set by the task.

    Attributes:
        hierarchical: Whether it reads sentence by sentence: its tokens and mask are `(batch, sentences, words)`,
            where real sentences come first, real words come first in each, and a real sentence has at least one.
        d_output: Width of the vector.
        embedding_scale: What embeddings are multiplied by before they are read.
    """

    interface: ClassVar[Interface] = "encoder"
    hierarchical: ClassVar[bool] = False
    d_output: int
    embedding_scale: float = 1.0

    @abstractmethod
    def forward(self, tokens: Tensor, mask: Tensor) -> Tensor:
        """Read texts.

        Args:
            tokens: `(batch, length)`, or `(batch, sentences, words)`.
            mask: As the tokens, True on real ones; a text may have none.

        Returns:
            `(batch, d_output)`.
        """

    @classmethod
    def example(cls, config: Any, seed: int) -> dict[str, Tensor]:
        """Three texts of unequal length, or of unequal numbers of sentences of unequal length."""
        generator = torch.Generator().manual_seed(seed)
        if cls.hierarchical:
            words = torch.tensor([[5, 3, 4, 1], [2, 5, 0, 0], [4, 0, 0, 0]])
            mask = torch.arange(5) < words.unsqueeze(-1)
        else:
            mask = torch.arange(7) < torch.tensor([7, 4, 5]).unsqueeze(1)
        tokens = torch.randint(4, config.vocab_size, mask.shape, generator=generator)
        return {"tokens": tokens.masked_fill(~mask, 0), "mask": mask}


class RowEncoder(Body):
    """A model that gives one vector for a row of numbers. Heads and losses belong to the tasks.

    The field `num_columns` of its configuration is set by the task.

    Attributes:
        d_output: Width of the vector.
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


class SeriesEncoder(Body):
    """A model that gives a state after each row of a series, from the rows up to it. Heads belong to the tasks.

    The field `num_columns` of its configuration is set by the task.

    Attributes:
        d_output: Width of the states.
    """

    interface: ClassVar[Interface] = "series"
    d_output: int

    @abstractmethod
    def read(self, values: Tensor, states: Any = None) -> tuple[Tensor, Any]:
        """Read on.

        Args:
            values: `(batch, length, num_columns)`, standardised.
            states: What an earlier call returned; None at the beginning.

        Returns:
            hidden `(batch, length, d_output)`, and what the next call needs.
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
    """The state of one token of each text.

    Args:
        hidden: `(batch, length, d)`.
        mask: `(batch, length)`, True on real tokens.
        positions: `(batch,)`, which token; any number for a text without tokens.

    Returns:
        `(batch, d)`, zeros for a text without tokens.
    """
    rows = torch.arange(len(hidden), device=hidden.device)
    states = hidden[rows, positions.clamp_min(0)]
    return states.masked_fill(~mask.any(1, keepdim=True), 0.0)
