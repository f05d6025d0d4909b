"""Models that write: a language model, and models that read a text or a conversation first."""

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


class TurnDecoder(DecoderBody):
    """A model that reads conversations turn by turn and writes responses.

    Every utterance is read once, however many responses look back at it: a response says how many turns of its
    conversation it has been given, and knows nothing of later ones. Its configuration is a `TurnConfig`.
    """

    interface: ClassVar[Interface] = "turn_decoder"

    @property
    def aligns(self) -> bool:
        """Whether it attends to words or turns; if not, all it knows of them is the state of the dialogue."""
        return any(isinstance(module, Attends) for module in self.modules())

    @abstractmethod
    def encode(self, tokens: Tensor, mask: Tensor, turns: Tensor, speakers: Tensor) -> Memory:
        """Read conversations.

        Args:
            tokens: `(utterances, words)`, each utterance of the batch once.
            mask: `(utterances, words)`, True on real words, which come first; an utterance has at least one.
            turns: `(batch, turn)`, which utterance each turn of each conversation is; -1 behind its last turn.
            speakers: `(utterances,)`, who said it, a number below `num_speakers`.

        Returns:
            A memory of as many sources as there are conversations.
        """

    @abstractmethod
    def start(self, memory: Memory | None, rows: Rows, read: Tensor | None = None) -> Any:
        """The state before the first token of each response; see `DecoderBody.start`.

        `read` is the number of turns that each row has been given, `(rows,)`; None for all of its conversation.
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
        """Read conversations as `encode` and, by teacher forcing, whole responses.

        Args:
            tokens: As `mask`, `turns` and `speakers`, see `encode`.
            mask: See there.
            turns: See there.
            speakers: See there.
            target: `(rows, length)`, responses from the start token on.
            conversation: `(rows,)`, the conversation that each belongs to.
            read: `(rows,)`, how many of its turns come before it.

        Returns:
            hidden `(rows, length, d)`: position t predicts token t + 1.
        """
        memory = self.encode(tokens, mask, turns, speakers)
        return self.step(target, self.start(memory, Rows(conversation, len(turns)), read))[0]

    @classmethod
    def example(cls, config: Any, seed: int) -> dict[str, Tensor]:
        """Two conversations of three turns and of one, and three responses: two of the first, after one turn and all.

        No padding token is inside an utterance.
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
