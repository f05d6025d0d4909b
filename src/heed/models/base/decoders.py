"""Interfaces of models that generate text: from a source, from a conversation, or as a language model."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Mapping
from typing import Any, ClassVar

import torch
from torch import Tensor

from heed.attention import Rows
from heed.attention.modules import Attends
from heed.models.base.body import DecoderBody, Interface, Memory, ragged


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
        """Three pairs without padding tokens among their real tokens."""
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
        raise TypeError(f"{type(self).__name__} does not carry a state from batch to batch")

    def unpack(self, tensors: Mapping[str, Tensor]) -> Any:
        """Restore a state from the tensors of `pack`.

        Raises:
            TypeError: The model does not carry its state.
        """
        raise TypeError(f"{type(self).__name__} does not carry a state from batch to batch")

    @classmethod
    def example(cls, config: Any, seed: int) -> dict[str, Tensor]:
        """Three sequences of seven tokens."""
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
