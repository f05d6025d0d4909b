"""Contract of every model: a typed configuration, one of a few interfaces, and step-by-step decoding.

Models take plain tensors and masks; they do not depend on files, tokenizers, beam search or observers. The classes of
configurations come first, with the fields set from the data and named sizes; then the interfaces: bodies that encode
texts, rows, series or pictures, and bodies that generate text.
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
from heed.shapes import ReturnsTensor

Interface = Literal[
    "encoder", "pair_encoder", "pair_decoder", "turn_decoder", "language_model", "image_encoder", "rows", "series"
]


def named_sizes(
    tiny: dict[str, Any], small: dict[str, Any] | None = None, **others: dict[str, Any]
) -> dict[str, dict[str, Any]]:
    """Fields that differ from the defaults, by size; size "base" has the defaults."""
    return {"tiny": tiny, "small": small or {}, "base": {}, **others}


class ModelConfig(BaseModel):
    """Configuration of a model; the defaults are size base.

    The docstring of a subclass begins with "Fields of `name`" and, after a semicolon, names the source of the default
    widths; `heed models` prints that part.
    """

    model_config = ConfigDict(frozen=True, extra="forbid", use_attribute_docstrings=True)

    sizes: ClassVar[dict[str, dict[str, Any]]] = named_sizes(tiny={})
    """Fields that differ from the defaults, by size."""


class TextConfig(ModelConfig):
    """Configuration of a model that reads one text."""

    vocab_size: int = Field(gt=0)
    """Size of the vocabulary; set from the data."""


class TokenConfig(TextConfig):
    """Configuration of a model that returns a state for each token."""

    d_features: int = Field(0, ge=0)
    """Width of additional features of each token, such as its characters; set by the task."""


class ImageConfig(ModelConfig):
    """Configuration of a model that reads a picture."""

    num_channels: int = Field(gt=0)
    """Channels of a picture: 1 (grey) or 3 (RGB); set from the data."""
    height: int = Field(gt=0)
    """Height of a picture in pixels; set from the data."""
    width: int = Field(gt=0)
    """Width of a picture in pixels; set from the data."""


class TranslatorConfig(ModelConfig):
    """Configuration of a model that reads a source and generates a target."""

    source_vocab_size: int = Field(gt=0)
    """Size of the source vocabulary; set from the data."""
    target_vocab_size: int = Field(gt=0)
    """Size of the target vocabulary; set from the data."""


class TurnConfig(ModelConfig):
    """Configuration of a model that reads a conversation turn by turn and generates a response."""

    vocab_size: int = Field(gt=0)
    """Size of the vocabulary; set from the data."""
    num_speakers: int = Field(gt=0)
    """Number of distinct speakers, including the unknown speaker; set from the data."""


@dataclass(frozen=True)
class Memory:
    """The encoded source, as a decoder reads it."""

    keys: tuple[Keys, ...]  # one entry per attention over the source; empty for a model without attention
    summary: Tensor | None  # `(batch, d)`, the source as one vector, or None

    def select(self, sources: Tensor) -> Memory:
        """Reorder the sources: the new source i is the old `sources[i]`; repeats and omissions allowed."""
        summary = None if self.summary is None else self.summary.index_select(0, sources)
        return Memory(tuple(keys.select(sources) for keys in self.keys), summary)


class Body(ReturnsTensor, nn.Module, ABC):
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
        """Offer a tensor to the observer, if there is one; returns the tensor to go on with."""
        return watch.offered(self, kind, value)


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


class TextReader(Body):
    """A model that encodes a text and applies dropout to the result; the task adds pooling, head and loss."""

    interface: ClassVar[Interface] = "encoder"
    d_output: int  # width of the result
    embedding_scale: float = 1.0  # factor applied to the token embeddings

    @classmethod
    def example(cls, config: Any, seed: int) -> dict[str, Tensor]:
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
        generator = torch.Generator().manual_seed(seed)
        return {"values": torch.randn(3, 7, config.num_columns, generator=generator)}


def state_at(hidden: Tensor, mask: Tensor, positions: Tensor) -> Tensor:
    """Hidden states `(batch, length, d)` at positions `(batch,)`, `(batch, d)`; zeros for a text without tokens."""
    rows = torch.arange(len(hidden), device=hidden.device)
    states = hidden[rows, positions.clamp_min(0)]
    return states.masked_fill(~mask.any(1, keepdim=True), 0.0)


class PairDecoder(DecoderBody):
    """A model that reads a source and generates a target; its configuration is a `TranslatorConfig`."""

    interface: ClassVar[Interface] = "pair_decoder"

    @property
    def aligns(self) -> bool:
        """Whether the decoder attends to the source; if not, it reads only `Memory.summary`."""
        return any(isinstance(module, Attends) and module.mechanism == "cross" for module in self.modules())

    @abstractmethod
    def encode(self, source: Tensor, source_mask: Tensor) -> Memory:
        """Encode sources.

        Args:
            source: `(batch, source)`, tokens.
            source_mask: `(batch, source)`, True on real tokens, which come first.

        Raises:
            ShapeError: A source is longer than a learned position table.
        """

    def forward(self, source: Tensor, source_mask: Tensor, target: Tensor) -> Tensor:
        """Encode sources and read whole targets (teacher forcing).

        Args:
            source: As `encode`.
            source_mask: As `encode`.
            target: `(batch, target)`, tokens, beginning with the start token.

        Returns:
            hidden `(batch, target, d)`: position t predicts token t + 1.
        """
        memory = self.encode(source, source_mask)
        rows = Rows.repeat(len(source), device=source.device)
        return self.step(target, self.start(memory, rows))[0]

    @classmethod
    def example(cls, config: Any, seed: int) -> dict[str, Tensor]:
        generator = torch.Generator().manual_seed(seed)
        source, mask = ragged(config.source_vocab_size, generator)
        target = torch.randint(4, config.target_vocab_size, (3, 6), generator=generator)
        return {"source": source, "source_mask": mask, "target": target}


class LanguageModel(DecoderBody):
    """A model that continues a sequence; its configuration is a `TextConfig`.

    Attributes:
        carries: Whether training carries the state from batch to batch over contiguous streams, across document
            boundaries, because the state summarises everything read so far. A model that does not carry its state
            reads each document from its start.
    """

    interface: ClassVar[Interface] = "language_model"
    carries: ClassVar[bool] = False

    def forward(self, tokens: Tensor, documents: Tensor | None = None) -> Tensor:
        """Read whole sequences.

        Args:
            tokens: `(batch, length)`.
            documents: `(batch, length)`, index of each token's document within the row, non-decreasing; None if each
                row is one document. Attention stays within a document, and positions restart at each. Always None for
                a model that `carries` its state.

        Returns:
            hidden `(batch, length, d)`: position t predicts token t + 1.

        Raises:
            ShapeError: A sequence is longer than a learned position table.
        """
        assert documents is None, f"{type(self).__name__} reads one document per row: documents must be None"
        rows = Rows.repeat(len(tokens), device=tokens.device)
        return self.read(tokens, self.start(None, rows))[0]

    def read(self, tokens: Tensor, state: Any) -> tuple[Tensor, Any]:
        """Read further tokens, as `step`: `(rows, n)` to hidden `(rows, n, d)` and the new state.

        The state is from `start`, or from the previous batch (`unpack`) when training carries it.
        """
        return self.step(tokens, state)

    def pack(self, state: Any) -> dict[str, Tensor]:
        """Convert a carried state to named, detached tensors whose dimension 0 is the row; undone by `unpack`.

        Raises:
            TypeError: The model does not carry its state.
        """
        if not self.carries:
            raise TypeError(f"{type(self).__name__} does not carry a state from batch to batch")
        return state.pack()  # type: ignore[no-any-return]

    def unpack(self, tensors: Mapping[str, Tensor]) -> Any:
        """Restore a state from the tensors of `pack`.

        Raises:
            TypeError: The model does not carry its state.
        """
        raise TypeError(f"{type(self).__name__} does not carry a state from batch to batch")

    @classmethod
    def example(cls, config: Any, seed: int) -> dict[str, Tensor]:
        generator = torch.Generator().manual_seed(seed)
        return {"tokens": torch.randint(4, config.vocab_size, (3, 7), generator=generator)}


class TurnDecoder(DecoderBody):
    """A model that reads conversations turn by turn and generates responses; its configuration is a `TurnConfig`.

    Every utterance is encoded once, even if several responses depend on it. A response reads a given number of turns of
    its conversation and does not depend on later ones.
    """

    interface: ClassVar[Interface] = "turn_decoder"

    @property
    def aligns(self) -> bool:
        """Whether the decoder attends to words or turns; if not, it reads only the dialogue state."""
        return any(isinstance(module, Attends) for module in self.modules())

    @abstractmethod
    def encode(self, tokens: Tensor, mask: Tensor, turns: Tensor, speakers: Tensor) -> Memory:
        """Encode conversations.

        Args:
            tokens: `(utterances, words)`, each utterance of the batch once.
            mask: `(utterances, words)`, True on real words, which come first; an utterance has at least one.
            turns: `(batch, turn)`, index of the utterance of each turn; -1 after the last turn of a conversation.
            speakers: `(utterances,)`, index of the speaker, below `num_speakers`.

        Returns:
            A memory with one source per conversation.
        """

    @abstractmethod
    def start(self, memory: Memory | None, rows: Rows, read: Tensor | None = None) -> Any:
        """Initial decoding state of each response; see `DecoderBody.start`.

        Args:
            memory: The encoded conversations.
            rows: The conversation of each row.
            read: `(rows,)`, number of turns that each row may read; None for all turns of its conversation.
        """

    def forward(
        self,
        tokens: Tensor,
        mask: Tensor,
        turns: Tensor,
        speakers: Tensor,
        target: Tensor,
        conversation: Tensor,
        read: Tensor,
    ) -> Tensor:
        """Encode conversations and read whole responses (teacher forcing).

        Args:
            tokens: As `encode`.
            mask: As `encode`.
            turns: As `encode`.
            speakers: As `encode`.
            target: `(rows, length)`, responses, beginning with the start token.
            conversation: `(rows,)`, index of each response's conversation.
            read: `(rows,)`, number of turns that precede each response.

        Returns:
            hidden `(rows, length, d)`: position t predicts token t + 1.
        """
        memory = self.encode(tokens, mask, turns, speakers)
        return self.step(target, self.start(memory, Rows(conversation, len(turns)), read))[0]

    @classmethod
    def example(cls, config: Any, seed: int) -> dict[str, Tensor]:
        """Two conversations, of three turns and of one, and three responses.

        The first conversation has two of the responses: after its first turn and after all three. Utterances have no
        padding tokens among their real tokens.
        """
        generator = torch.Generator().manual_seed(seed)
        mask = torch.arange(7) < torch.tensor([7, 2, 4, 5]).unsqueeze(1)
        tokens = torch.randint(4, config.vocab_size, mask.shape, generator=generator).masked_fill(~mask, 0)
        return {
            "tokens": tokens,
            "mask": mask,
            "turns": torch.tensor([[3, 0, 2], [1, -1, -1]]),
            "speakers": torch.arange(4) % config.num_speakers,
            "target": torch.randint(4, config.vocab_size, (3, 6), generator=generator),
            "conversation": torch.tensor([0, 1, 0]),
            "read": torch.tensor([1, 1, 3]),
        }
