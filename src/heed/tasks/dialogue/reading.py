"""Reading of the turns before a response: joined into one text, or turn by turn."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence
from dataclasses import replace
from typing import Any, NamedTuple

import torch
from torch import Tensor

from heed.config.conversations import DialogueOptions
from heed.data.batch.pairs import PairBatch, TokenPair, collate_pairs
from heed.data.batch.plan import plan_batches
from heed.data.batch.turns import TokenTurn, TurnBatch, collate_turns, pad_histories
from heed.data.store.lengths import Lengths
from heed.data.tokens.tokenizer import START
from heed.models.base import Memory
from heed.tasks.dialogue.talk import UNKNOWN_SPEAKER, Response, Speakers, Talk

TOGETHER = 8_000
"""Most tokens of histories that are read together to write responses."""


class Read(NamedTuple):
    """The part of a history that is read."""

    first: int  # number of the first turn that is read
    turns: list[TokenTurn]  # the turns from `first` on, each cut to the tokens that are read


class Reading(ABC):
    """Conversion of turns to the input of a model."""

    def __init__(self, options: DialogueOptions, speakers: Speakers) -> None:
        self.options, self.speakers = options, speakers

    def read(self, history: Sequence[TokenTurn]) -> Read:
        """The last turns of a history, up to the limit, long ones cut."""
        most = self.options.max_turn
        first = self.first_read([min(len(turn.ids), most) for turn in history])
        return Read(first, [TokenTurn(turn.ids[:most], turn.speaker) for turn in history[first:]])

    def first_read(self, lengths: Sequence[int]) -> int:
        """The number of the first turn that is read, for turns of these lengths."""
        return 0 if self.options.history is None else max(0, len(lengths) - self.options.history)

    def trained(self, talk: Talk) -> list[Response]:
        """The responses that are short enough to be trained on."""
        return [one for one in talk.responses if len(talk.target(one).ids) <= self.options.max_turn]

    def start(self, speaker: int) -> int:
        """The first token of a speaker's response."""
        return START if speaker == UNKNOWN_SPEAKER else self.speakers.tags[speaker]

    def _starts(self, turns: Sequence[TokenTurn]) -> Tensor:
        return torch.tensor([self.start(turn.speaker) for turn in turns])

    @abstractmethod
    def units(self, talk: Talk, responses: Sequence[Response]) -> list[list[Response]]:
        """The responses in groups that are never split across batches."""

    @abstractmethod
    def costs(self, talk: Talk, units: Sequence[Sequence[Response]]) -> Lengths:
        """The cost of each group in a batch, `(groups, 2)`: target tokens, tokens that are read."""

    @abstractmethod
    def batch(self, talk: Talk, units: Sequence[Sequence[Response]], indices: list[int]) -> Any:
        """One batch of groups of responses, in order."""

    @abstractmethod
    def hidden(self, model: Any, batch: Any) -> Tensor:
        """The states that predict the tokens of a batch's labels, `(responses, target, d)`."""

    @abstractmethod
    def plan(self, histories: Sequence[Sequence[TokenTurn]], rows: int) -> list[list[int]]:
        """Groups of histories to read together, if each becomes `rows` rows."""

    @abstractmethod
    def positions(self, histories: Sequence[Sequence[TokenTurn]]) -> int:
        """Number of positions that are computed when histories are read together."""

    @abstractmethod
    def memory(self, model: Any, histories: Sequence[Sequence[TokenTurn]], device: torch.device) -> Memory:
        """The model's memory of histories, a row each."""


class Joined(Reading):
    """The history as one text, with the speaker's token before each turn."""

    def first_read(self, lengths: Sequence[int]) -> int:
        """The first turn within `data.history` turns and `data.max_length` tokens, including speakers' tokens."""
        first, room = super().first_read(lengths), self.options.max_length
        for place in range(len(lengths) - 1, first - 1, -1):
            room -= lengths[place] + 1
            if room < 0:
                return place + 1
        return first

    def source(self, history: Sequence[TokenTurn]) -> list[int]:
        """A history as one text."""
        turns = self.read(history).turns
        return [token for turn in turns for token in (self.speakers.tags[turn.speaker], *turn.ids)]

    def units(self, talk: Talk, responses: Sequence[Response]) -> list[list[Response]]:
        """Each response as its own group."""
        return [[response] for response in responses]

    def costs(self, talk: Talk, units: Sequence[Sequence[Response]]) -> Lengths:
        """Lengths of the target with its start or end token, and of the joined history."""
        most, costs = self.options.max_turn, []
        lengths = [[min(len(turn.ids), most) for turn in turns] for turns in talk.conversations]
        for (response,) in units:
            before = lengths[response.conversation][: response.turn]
            first = self.first_read(before)
            costs.append((len(talk.target(response).ids) + 1, sum(before[first:]) + len(before) - first))
        return _lengths(costs)

    def batch(self, talk: Talk, units: Sequence[Sequence[Response]], indices: list[int]) -> PairBatch:
        """Pairs of a joined history and a response."""
        responses = [response for unit in units for response in unit]
        targets = [talk.target(one) for one in responses]
        pairs = [
            TokenPair(self.source(talk.history(one)), target.ids)
            for one, target in zip(responses, targets, strict=True)
        ]
        batch = collate_pairs(pairs, list(range(len(pairs))))
        batch.target[:, 0] = self._starts(targets)
        return replace(batch, indices=indices)

    def hidden(self, model: Any, batch: PairBatch) -> Tensor:
        """The states of a pair decoder."""
        return model(batch.source, batch.source_mask, batch.target)  # type: ignore[no-any-return]

    def plan(self, histories: Sequence[Sequence[TokenTurn]], rows: int) -> list[list[int]]:
        """Groups of histories of similar length."""
        return plan_batches([len(self.source(history)) for history in histories], max(1, TOGETHER // rows))

    def positions(self, histories: Sequence[Sequence[TokenTurn]]) -> int:
        """Every history counts as long as the longest, because of padding."""
        return len(histories) * max(len(self.source(history)) for history in histories)

    def memory(self, model: Any, histories: Sequence[Sequence[TokenTurn]], device: torch.device) -> Memory:
        """The encoded source."""
        batch = collate_pairs([TokenPair(self.source(one), []) for one in histories], list(range(len(histories))))
        batch = batch.to(device)
        return model.encode(batch.source, batch.source_mask)  # type: ignore[no-any-return]


class TurnByTurn(Reading):
    """The history turn by turn, each turn read once, however many responses follow it."""

    def units(self, talk: Talk, responses: Sequence[Response]) -> list[list[Response]]:
        """The responses of each conversation as one group."""
        groups: dict[int, list[Response]] = {}
        for response in responses:
            groups.setdefault(response.conversation, []).append(response)
        return list(groups.values())

    def costs(self, talk: Talk, units: Sequence[Sequence[Response]]) -> Lengths:
        """Lengths of all targets with their start or end tokens, and of the turns that are read."""
        most, costs = self.options.max_turn, []
        for unit in units:
            turns = talk.conversations[unit[0].conversation]
            targets = sum(len(talk.target(response).ids) + 1 for response in unit)
            costs.append((targets, sum(min(len(turn.ids), most) for turn in turns[: unit[-1].turn])))
        return _lengths(costs)

    def batch(self, talk: Talk, units: Sequence[Sequence[Response]], indices: list[int]) -> TurnBatch:
        """Each turn once; a row of turns for a conversation, or for each response if not all turns are read."""
        most, window = self.options.max_turn, self.options.history
        utterances: list[TokenTurn] = []
        conversations: list[range] = []
        responses: list[tuple[int, int, list[int]]] = []
        targets: list[TokenTurn] = []
        for unit in units:
            begin, turns = len(utterances), talk.conversations[unit[0].conversation]
            utterances += [TokenTurn(turn.ids[:most], turn.speaker) for turn in turns[: unit[-1].turn]]
            whole = range(begin, len(utterances))
            if window is None:
                conversations.append(whole)
            for response in unit:
                target = talk.target(response)
                count = response.turn
                if window is not None:
                    conversations.append(whole[max(0, count - window) : count])
                    count = len(conversations[-1])
                responses.append((len(conversations) - 1, count, target.ids))
                targets.append(target)
        batch = collate_turns(utterances, conversations, responses, indices)
        batch.target[:, 0] = self._starts(targets)
        return batch

    def hidden(self, model: Any, batch: TurnBatch) -> Tensor:
        """The states of a turn decoder."""
        return model(  # type: ignore[no-any-return]
            batch.tokens, batch.mask, batch.turns, batch.speakers, batch.target, batch.conversation, batch.read
        )

    def plan(self, histories: Sequence[Sequence[TokenTurn]], rows: int) -> list[list[int]]:
        """Groups of histories in the given order, so that those of one conversation share their turns."""
        batches: list[list[int]] = [[]]
        seen: set[int] = set()
        size = 0
        for number, history in enumerate(histories):
            new = [turn for turn in history if id(turn) not in seen]
            size += sum(len(turn.ids) for turn in new) + 1
            if size * rows > TOGETHER and batches[-1]:
                batches.append([])
                seen, size = set(), sum(len(turn.ids) for turn in history)
            batches[-1].append(number)
            seen.update(map(id, history))
        return [batch for batch in batches if batch]

    def positions(self, histories: Sequence[Sequence[TokenTurn]]) -> int:
        """The tokens of each turn that is read, once: recurrent encoders skip padding."""
        turns = {id(turn): len(turn.ids) for history in histories for turn in history[-(self.options.history or 0) :]}
        return sum(min(length, self.options.max_turn) for length in turns.values())

    def memory(self, model: Any, histories: Sequence[Sequence[TokenTurn]], device: torch.device) -> Memory:
        """The memory of histories; turns that histories share are read once."""
        most, window = self.options.max_turn, self.options.history
        places: dict[int, int] = {}
        utterances: list[TokenTurn] = []
        conversations = []
        for history in histories:
            for turn in history if window is None else history[-window:]:
                if id(turn) not in places:
                    places[id(turn)] = len(utterances)
                    utterances.append(TokenTurn(turn.ids[:most], turn.speaker))
            read = history if window is None else history[-window:]
            conversations.append([places[id(turn)] for turn in read])
        padded = pad_histories(utterances, conversations)
        return model.encode(*(tensor.to(device) for tensor in padded))  # type: ignore[no-any-return]


def _lengths(costs: list[tuple[int, int]]) -> Lengths:
    import numpy as np

    return np.array(costs, dtype=np.int32).reshape(-1, 2)
