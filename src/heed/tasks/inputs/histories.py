"""Conversations as tokens, and how the turns before a response are read: joined into one text, or turn by turn."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from itertools import chain
from typing import Any, NamedTuple

import numpy as np
import torch

from heed.data.batch import Histories, TokenTurn, pad_histories, pad_rows, plan_batches
from heed.data.corpus import Lengths
from heed.data.examples import Conversation
from heed.data.tokens.special import MASKS, Special
from heed.data.tokens.tokenizer import SPECIAL_TOKENS, TextTokenizer
from heed.errors import ConfigError, nearest
from heed.models.base import Memory
from heed.tasks.base.writing import TOGETHER
from heed.tasks.contracts import Batch

UNKNOWN_SPEAKER = 0
"""Number of an unknown speaker."""
MOST_SPEAKERS = 20
"""Most speakers that a model distinguishes: those with the most turns."""
_TURN = "<turn>"


class History(NamedTuple):
    """What is read before a response is written.

    Histories of one conversation share their `TokenTurn` objects, so that a model that reads turn by turn reads each of
    them once.
    """

    turns: Sequence[TokenTurn]  # at least one
    speaker: int  # number of the speaker who responds


class Response(NamedTuple):
    """A turn that the model learns to write."""

    conversation: int  # number of the conversation
    turn: int  # number of the turn in it, from 0
    turns: list[TokenTurn]  # all turns of the conversation, uncut

    @property
    def target(self) -> TokenTurn:
        """The turn itself."""
        return self.turns[self.turn]

    @property
    def history(self) -> History:
        """The turns before it."""
        return History(self.turns[: self.turn], self.target.speaker)


@dataclass(frozen=True)
class Talk(Sequence[list[Response]]):
    """Conversations as tokens, every turn once and uncut; and the responses in them, in order.

    Its items are the responses in groups that a batch keeps together.
    """

    conversations: list[list[TokenTurn]]
    responses: list[Response]
    units: list[list[Response]]

    def __len__(self) -> int:
        return len(self.units)

    def __getitem__(self, number: Any) -> Any:
        return self.units[number]


@dataclass(frozen=True)
class Speakers:
    """The speakers of the training conversations: the name of each number; 0 is an unknown speaker without a name.

    The speaker who begins most conversations comes first. `tags` are the tokens before the turns of each speaker in a
    joined history; the token of a known speaker also starts the response, in place of the start token.
    """

    names: tuple[str, ...]
    tags: tuple[int, ...] = ()

    @classmethod
    def of(cls, conversations: Iterable[Conversation]) -> Speakers:
        """The speakers with the most turns."""
        turns: Counter[str] = Counter()
        begins: Counter[str] = Counter()
        for one in conversations:
            turns.update(one.speakers)
            begins[one.speaker(0) if one.turns else ""] += 1
        del turns[""]
        known = [name for name, _ in turns.most_common(MOST_SPEAKERS)]
        return cls(("", *sorted(known, key=lambda name: (-begins[name], -turns[name], name))))

    def tagged(self, tokenizer: TextTokenizer) -> Speakers:
        """The speakers with their tokens, which are added to the tokenizer."""
        taken = {*SPECIAL_TOKENS, *MASKS}
        tags = [_TURN]
        for name in self.names[1:]:
            tag = "<" + re.sub(r"[<>\s]+", "_", name) + ">"
            while tag in taken or tag in tags:
                tag = f"{tag[:-1]}_>"
            tags.append(tag)
        tokenizer.add_tags(tags)
        return Speakers(self.names, tuple(tokenizer.tags[tag] for tag in tags))

    def number(self, name: str) -> int:
        """The number of a speaker; that of an unknown speaker for other names."""
        return self.names.index(name) if name in self.names else UNKNOWN_SPEAKER

    @property
    def known(self) -> tuple[str, ...]:
        """The names of all but the unknown speaker."""
        return self.names[1:]

    def check(self, name: str, field: str) -> None:
        """Refuse a name that is not a speaker's.

        Raises:
            ConfigError: The message lists the speakers.
        """
        if name in self.known:
            return
        if not self.known:
            raise ConfigError(f"{field} is '{name}', but the conversations name no speakers; remove it")
        raise ConfigError(
            f"{field} is '{name}', but the speakers of the training conversations are {', '.join(self.known)}"
            f"{nearest(name, self.known)}"
        )

    def next_after(self, speaker: str, respond: str) -> str:
        """The default speaker who responds to a speaker: the one in `data.respond`, or the first other speaker."""
        if respond in self.known:
            return respond
        return next((name for name in self.known if name != speaker), speaker if speaker in self.known else "")


class Read(NamedTuple):
    """The part of a history that is read."""

    first: int  # number of the first turn that is read
    turns: list[TokenTurn]  # the turns from `first` on, each cut to the tokens that are read


class Reading:
    """Conversion of turns to the input of a model: one text, with the token of its speaker before each turn."""

    def __init__(self, options: Any, speakers: Speakers, special: Special) -> None:
        self.options, self.speakers, self.special = options, speakers, special

    def read(self, history: Sequence[TokenTurn]) -> Read:
        """The last turns of a history, up to the limit, long ones cut."""
        most = self.options.max_turn
        first = self.first_read([min(len(turn.ids), most) for turn in history])
        return Read(first, [TokenTurn(turn.ids[:most], turn.speaker) for turn in history[first:]])

    def first_read(self, lengths: Sequence[int]) -> int:
        """The number of the first turn that is read, for turns of these lengths."""
        first, room = self._first_of_last(len(lengths)), self.options.max_length
        for place in range(len(lengths) - 1, first - 1, -1):
            room -= lengths[place] + 1
            if room < 0:
                return place + 1
        return first

    def _first_of_last(self, count: int) -> int:
        return 0 if self.options.history is None else max(0, count - self.options.history)

    def start(self, speaker: int) -> int:
        """The first token of a speaker's response."""
        return self.special.start if speaker == UNKNOWN_SPEAKER else self.speakers.tags[speaker]

    def source(self, history: Sequence[TokenTurn]) -> list[int]:
        """A history as one text."""
        turns = self.read(history).turns
        return [token for turn in turns for token in (self.speakers.tags[turn.speaker], *turn.ids)]

    def units(self, responses: Sequence[Response]) -> list[list[Response]]:
        """The responses in groups that are never split across batches."""
        return [[response] for response in responses]

    def num_read(self, history: Sequence[TokenTurn]) -> int:
        """The number of tokens of a history that are read."""
        most: int = self.options.max_turn
        lengths = [min(len(turn.ids), most) for turn in history]
        first = self.first_read(lengths)
        return sum(lengths[first:]) + len(lengths) - first

    def costs(self, units: Sequence[Sequence[Response]]) -> Lengths:
        """The cost of each group in a batch, `(groups, 2)`: target tokens, tokens that are read."""
        targets = [sum(len(response.target.ids) + 1 for response in unit) for unit in units]
        read = [self.num_read(unit[-1].history.turns) for unit in units]
        return np.array([targets, read], dtype=np.int32).T

    def batch(self, units: Sequence[Sequence[Response]], indices: list[int]) -> Batch:
        """One batch of groups of responses, in order."""
        responses = [response for unit in units for response in unit]
        source, mask = pad_rows([self.source(one.history.turns) for one in responses])
        inputs = {"source": source, "source_mask": mask}
        return Batch(indices, inputs, targets=self._targets(responses), masks=("source_mask",))

    def _targets(self, responses: Sequence[Response]) -> dict[str, Any]:
        """The texts to write, and the first token of each."""
        starts = torch.tensor([self.start(one.target.speaker) for one in responses])
        return {"written": [one.target.ids for one in responses], "starts": starts}

    def groups(self, histories: Sequence[History], rows: int) -> list[list[int]]:
        """Groups of histories to read together, if each becomes `rows` rows."""
        return plan_batches([self.num_read(history.turns) for history in histories], max(1, TOGETHER // rows))

    def positions_read(self, histories: Sequence[History]) -> int:
        """Number of positions that are computed when histories are read together."""
        return len(histories) * max(self.num_read(history.turns) for history in histories)

    def first_token(self, history: History) -> int:
        """The first token of the response to a history."""
        return self.start(history.speaker)

    def memory(self, model: Any, histories: Sequence[History], device: torch.device) -> Memory:
        """The model's memory of histories, a row each."""
        source, mask = (tensor.to(device) for tensor in pad_rows([self.source(turns) for turns, _ in histories]))
        return model.encode(source, mask)  # type: ignore[no-any-return]


class TurnReading(Reading):
    """The history turn by turn, each turn read once, however many responses follow it."""

    def first_read(self, lengths: Sequence[int]) -> int:
        return self._first_of_last(len(lengths))

    def units(self, responses: Sequence[Response]) -> list[list[Response]]:
        groups: dict[int, list[Response]] = {}
        for response in responses:
            groups.setdefault(response.conversation, []).append(response)
        return list(groups.values())

    def num_read(self, history: Sequence[TokenTurn]) -> int:
        most: int = self.options.max_turn
        return sum(min(len(turn.ids), most) for turn in history)

    def batch(self, units: Sequence[Sequence[Response]], indices: list[int]) -> Batch:
        window, whole = self.options.history, [unit[-1].history.turns for unit in units]
        responses = [response for unit in units for response in unit]
        if window is None:
            histories, owners = whole, [number for number, unit in enumerate(units) for _ in unit]
            counts = [response.turn for response in responses]
        else:
            histories, owners = [response.history.turns[-window:] for response in responses], [*range(len(responses))]
            counts = [*map(len, histories)]
        return Batch(
            indices,
            self._padded(chain(*whole), histories)._asdict(),
            forced={"conversation": torch.tensor(owners), "read": torch.tensor(counts)},
            targets=self._targets(responses),
            examples=[index for index, unit in zip(indices, units, strict=True) for _ in unit],
            in_groups=True,
        )

    def _padded(self, turns: Iterable[TokenTurn], histories: Sequence[Sequence[TokenTurn]]) -> Histories:
        """Histories of some turns, each of which is read once."""
        distinct = {id(turn): turn for turn in turns}
        places = {key: place for place, key in enumerate(distinct)}
        cut = [TokenTurn(turn.ids[: self.options.max_turn], turn.speaker) for turn in distinct.values()]
        return pad_histories(cut, [[places[id(turn)] for turn in history] for history in histories])

    def groups(self, histories: Sequence[History], rows: int) -> list[list[int]]:
        batches: list[list[int]] = [[]]
        seen: set[int] = set()
        size = 0
        for number, (history, _) in enumerate(histories):
            new = [turn for turn in history if id(turn) not in seen]
            size += sum(len(turn.ids) for turn in new) + 1
            if size * rows > TOGETHER and batches[-1]:
                batches.append([])
                seen, size = set(), sum(len(turn.ids) for turn in history)
            batches[-1].append(number)
            seen.update(map(id, history))
        return [batch for batch in batches if batch]

    def positions_read(self, histories: Sequence[History]) -> int:
        turns = {id(turn): len(turn.ids) for read, _ in histories for turn in read[-(self.options.history or 0) :]}
        return sum(min(length, self.options.max_turn) for length in turns.values())

    def memory(self, model: Any, histories: Sequence[History], device: torch.device) -> Memory:
        read = [turns[-(self.options.history or 0) :] for turns, _ in histories]
        return model.encode(*(tensor.to(device) for tensor in self._padded(chain(*read), read)))  # type: ignore[no-any-return]
