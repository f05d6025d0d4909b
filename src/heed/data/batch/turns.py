"""Batches of conversations: utterances that are read once, and the responses to the turns so far."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import ClassVar, NamedTuple

import torch
from torch import Tensor

from heed.data.batch.rows import Batch, pad_rows, pad_shifted, positions_in_groups


class TokenTurn(NamedTuple):
    """A turn as token ids, without start and end, and the number of its speaker, 0 where that is not known."""

    ids: list[int]
    speaker: int


@dataclass(frozen=True)
class TurnBatch(Batch):
    """Padded utterances of several conversations, and responses.

    Attributes:
        tokens: `(utterances, words)`, every utterance of the batch once.
        mask: `(utterances, words)`, True on real tokens, which come first.
        turns: `(batch, turn)`, the row of `tokens` at each turn of each conversation, -1 where there is none.
        speakers: `(utterances,)`, who says each; 0 for unknown.
        target: `(responses, target)`, start token first: what the decoder reads.
        labels: `(responses, target)`, end token last: what it should predict.
        target_mask: `(responses, target)`, True on real tokens of both.
        conversation: `(responses,)`, the row of `turns` that each responds to.
        read: `(responses,)`, how many of its turns are read.
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
        """Utterances and responses are each computed in groups of like length."""
        return positions_in_groups(mask)


class Histories(NamedTuple):
    """Utterances of several conversations, each once, as the first four tensors of a `TurnBatch`."""

    tokens: Tensor
    mask: Tensor
    turns: Tensor
    speakers: Tensor


def pad_histories(utterances: Sequence[TokenTurn], conversations: Sequence[Sequence[int]]) -> Histories:
    """Pad utterances and, for each conversation, the numbers of its utterances."""
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
        utterances: Each once.
        conversations: For each conversation the numbers of its utterances.
        responses: Each `(conversation, turns that are read, tokens)`.
        indices: What the batch is made of.
    """
    histories = pad_histories(utterances, conversations)
    target, labels, target_mask = pad_shifted([ids for _, _, ids in responses])
    conversation = torch.tensor([number for number, _, _ in responses])
    read = torch.tensor([count for _, count, _ in responses])
    num_targets = sum(len(ids) + 1 for _, _, ids in responses)
    return TurnBatch(indices, *histories, target, labels, target_mask, conversation, read, num_targets)
