"""Batches of pairs of texts, and of conversations: each utterance encoded once, responses to earlier turns."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import ClassVar, NamedTuple

import torch
from torch import Tensor

from heed.data.batch.texts import Batch, pad_rows, pad_shifted, positions_in_groups
from heed.data.sequences import take


class TokenPair(NamedTuple):
    """A pair as token ids, without start and end."""

    source: list[int]
    target: list[int]

    @property
    def cost(self) -> tuple[int, int]:
        """Lengths that are padded: target with its start or end token, and source."""
        return len(self.target) + 1, len(self.source)


@dataclass(frozen=True)
class PairBatch(Batch):
    """Padded pairs.

    Attributes:
        source: `(batch, source)`.
        source_mask: `(batch, source)`, True on real tokens.
        target: `(batch, target)`, decoder input, start token first.
        labels: `(batch, target)`, expected predictions, end token last.
        target_mask: `(batch, target)`, True on real tokens of both.
        num_targets: Number of real target tokens, the end token included.
        alignment: `(batch, target, source)`, weights to train attention towards, rows summing to at most 1; or None.
    """

    masks: ClassVar[tuple[str, ...]] = ("source_mask", "target_mask")

    indices: list[int]
    source: Tensor
    source_mask: Tensor
    target: Tensor
    labels: Tensor
    target_mask: Tensor
    num_targets: int
    alignment: Tensor | None = None


def collate_pairs(pairs: Sequence[TokenPair], indices: list[int]) -> PairBatch:
    """Pad the chosen pairs into one batch."""
    chosen = take(pairs, indices)
    source, source_mask = pad_rows([pair.source for pair in chosen])
    target, labels, target_mask = pad_shifted([pair.target for pair in chosen])
    num_targets = sum(len(pair.target) + 1 for pair in chosen)
    return PairBatch(indices, source, source_mask, target, labels, target_mask, num_targets)


class TokenTurn(NamedTuple):
    """A turn as token ids, without start and end, and the id of its speaker, 0 if unknown."""

    ids: list[int]
    speaker: int


@dataclass(frozen=True)
class TurnBatch(Batch):
    """Padded utterances of several conversations, and responses.

    Attributes:
        tokens: `(utterances, words)`, every utterance of the batch once.
        mask: `(utterances, words)`, True on real tokens, which come first.
        turns: `(batch, turn)`, the row of `tokens` at each turn of each conversation, -1 on padding.
        speakers: `(utterances,)`, speaker of each; 0 if unknown.
        target: `(responses, target)`, decoder input, start token first.
        labels: `(responses, target)`, expected predictions, end token last.
        target_mask: `(responses, target)`, True on real tokens of both.
        conversation: `(responses,)`, the row of `turns` of each response.
        read: `(responses,)`, number of turns before the response that are read.
        num_targets: Number of real target tokens, the end token included.
    """

    masks: ClassVar[tuple[str, ...]] = ("mask", "target_mask")

    indices: list[int]
    tokens: Tensor
    mask: Tensor
    turns: Tensor
    speakers: Tensor
    target: Tensor
    labels: Tensor
    target_mask: Tensor
    conversation: Tensor
    read: Tensor
    num_targets: int

    def positions(self, mask: Tensor) -> int:
        return positions_in_groups(mask)


class Histories(NamedTuple):
    """The first four tensors of a `TurnBatch`: utterances of several conversations, each once."""

    tokens: Tensor
    mask: Tensor
    turns: Tensor
    speakers: Tensor


def pad_histories(utterances: Sequence[TokenTurn], conversations: Sequence[Sequence[int]]) -> Histories:
    """Pad utterances and, for each conversation, the indices of its utterances."""
    tokens, mask = pad_rows([utterance.ids for utterance in utterances])
    turns = torch.full((len(conversations), max(1, max(map(len, conversations), default=1))), -1)
    for row, numbers in enumerate(conversations):
        turns[row, : len(numbers)] = torch.tensor(numbers, dtype=torch.long)
    return Histories(tokens, mask, turns, torch.tensor([utterance.speaker for utterance in utterances]))


def collate_turns(
    utterances: Sequence[TokenTurn],
    conversations: Sequence[Sequence[int]],
    responses: Sequence[tuple[int, int, list[int]]],
    indices: list[int],
) -> TurnBatch:
    """Pad conversations and the responses to them into one batch.

    Args:
        utterances: Utterances, each once.
        conversations: For each conversation, the indices of its utterances.
        responses: `(conversation, number of turns read, tokens)` for each response.
        indices: Indices of the batch's examples.
    """
    histories = pad_histories(utterances, conversations)
    target, labels, target_mask = pad_shifted([ids for _, _, ids in responses])
    conversation = torch.tensor([number for number, _, _ in responses])
    read = torch.tensor([count for _, count, _ in responses])
    num_targets = sum(len(ids) + 1 for _, _, ids in responses)
    return TurnBatch(indices, *histories, target, labels, target_mask, conversation, read, num_targets)
