"""What every model promises: a typed configuration, one of a few interfaces, and how it is decoded step by step.

Models take plain tensors and masks. They know nothing of files, tokenizers, batches, beams or observers.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, ClassVar, Literal

import torch
from pydantic import BaseModel, ConfigDict, Field
from torch import Tensor, nn

from heed.attention import Keys, Rows, watch
from heed.attention.modules import Attends

Interface = Literal["encoder", "pair_encoder", "pair_decoder", "language_model", "image_encoder", "rows", "series"]


def named_sizes(
    tiny: dict[str, Any], small: dict[str, Any] | None = None, **others: dict[str, Any]
) -> dict[str, dict[str, Any]]:
    """Fields that differ from the defaults, per size; "base" is the defaults."""
    return {"tiny": tiny, "small": small or {}, "base": {}, **others}


class ModelConfig(BaseModel):
    """The fields of a model; the defaults are size base.

    The docstring of each begins with "Fields of `name`" and says after a semicolon whose widths the defaults are.
    """

    model_config = ConfigDict(frozen=True, extra="forbid", use_attribute_docstrings=True)

    sizes: ClassVar[dict[str, dict[str, Any]]] = named_sizes(tiny={})
    """Fields that differ from the defaults, per named size."""


class TextConfig(ModelConfig):
    """Of a model that reads one text."""

    vocab_size: int = Field(gt=0)
    """Number of tokens; set from the data."""


class TokenConfig(TextConfig):
    """Of a model with a state for each token."""

    d_features: int = Field(0, ge=0)
    """Width of what else is known of each token (characters); set by the task."""


class ImageConfig(ModelConfig):
    """Of a model that reads a picture."""

    num_channels: int = Field(gt=0)
    """Channels of a picture: 1 grey, 3 red, green and blue; set from the data."""
    height: int = Field(gt=0)
    """Pixels from top to bottom; set from the data."""
    width: int = Field(gt=0)
    """Pixels from left to right; set from the data."""


class TranslatorConfig(ModelConfig):
    """Of a model that reads a source and writes a target."""

    source_vocab_size: int = Field(gt=0)
    """Number of source tokens; set from the data."""
    target_vocab_size: int = Field(gt=0)
    """Number of target tokens; set from the data."""


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
    """What it is, in at most 40 characters (`heed models`)."""
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


class PairDecoder(DecoderBody):
    """A model that reads a source and writes a target."""

    interface: ClassVar[Interface] = "pair_decoder"

    @property
    def aligns(self) -> bool:
        """Whether it attends to the source; if not, all it knows of it is the memory's summary."""
        return any(isinstance(module, Attends) and module.mechanism == "cross" for module in self.modules())

    @abstractmethod
    def encode(self, source: Tensor, source_mask: Tensor) -> Memory:
        """Read tokens `(batch, source)`; the mask is True on real ones, which come first."""

    def forward(self, source: Tensor, source_mask: Tensor, target: Tensor) -> Tensor:
        """Read sources and, by teacher forcing, whole targets `(batch, target)` from the start token on.

        Returns:
            hidden `(batch, target, d)`: position t predicts token t + 1.
        """
        memory = self.encode(source, source_mask)
        rows = Rows.repeat(len(source), device=source.device)
        return self.step(target, self.start(memory, rows))[0]

    @classmethod
    def example(cls, config: Any, seed: int) -> dict[str, Tensor]:
        """Three sources and targets, no padding token inside them."""
        generator = torch.Generator().manual_seed(seed)
        source, mask = ragged(config.source_vocab_size, generator)
        target = torch.randint(4, config.target_vocab_size, (3, 6), generator=generator)
        return {"source": source, "source_mask": mask, "target": target}


class LanguageModel(DecoderBody):
    """A model that continues a sequence.

    Attributes:
        carries: Whether its state sums up all that it has read, so that it is trained on contiguous streams, the state
            carried from batch to batch, and text runs on from one document into the next. Others read each document
            from its start.
    """

    interface: ClassVar[Interface] = "language_model"
    carries: ClassVar[bool] = False

    def forward(self, tokens: Tensor, documents: Tensor | None = None) -> Tensor:
        """Read whole sequences.

        Args:
            tokens: `(batch, length)`.
            documents: `(batch, length)`, the number of the document within its row that each token lies in, never
                falling along a row; None where each row is one document. Attention stays within a document, and
                positions start again with each. A model that `carries` its state is never given it.

        Returns:
            hidden `(batch, length, d)`: position t predicts token t + 1.
        """
        assert documents is None, f"{type(self).__name__} reads one document a row"
        rows = Rows.repeat(len(tokens), device=tokens.device)
        return self.read(tokens, self.start(None, rows))[0]

    def read(self, tokens: Tensor, state: Any) -> tuple[Tensor, Any]:
        """Read on, as `step`: tokens `(rows, n)` to hidden `(rows, n, d)` and the state after them.

        The state is that of `start`, or of the batch before (`unpack`) in training with carried state.
        """
        return self.step(tokens, state)

    def pack(self, state: Any) -> dict[str, Tensor]:
        """A carried state as named tensors without their gradient, one row of each (dimension 0) per sequence.

        The inverse is `unpack`; only a model that `carries` has them.
        """
        raise TypeError(f"{type(self).__name__} does not carry a state from batch to batch")

    def unpack(self, tensors: Mapping[str, Tensor]) -> Any:
        """The state that `pack` gave, to read on from."""
        raise TypeError(f"{type(self).__name__} does not carry a state from batch to batch")

    @classmethod
    def example(cls, config: Any, seed: int) -> dict[str, Tensor]:
        """Three sequences of seven tokens."""
        generator = torch.Generator().manual_seed(seed)
        return {"tokens": torch.randint(4, config.vocab_size, (3, 7), generator=generator)}


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


def ragged(vocab_size: int, generator: torch.Generator) -> tuple[Tensor, Tensor]:
    """Three random texts of 7, 4 and 5 tokens, and their mask."""
    mask = torch.arange(7) < torch.tensor([7, 4, 5]).unsqueeze(1)
    return torch.randint(4, vocab_size, mask.shape, generator=generator).masked_fill(~mask, 0), mask
