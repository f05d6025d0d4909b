"""Conversations as tokens, and the responses in them."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import NamedTuple

from heed.data.batch.turns import TokenTurn
from heed.data.examples import Conversation
from heed.data.tokens.special import MASKS
from heed.data.tokens.tokenizer import SPECIAL_TOKENS, TextTokenizer
from heed.errors import ConfigError, nearest

UNKNOWN_SPEAKER = 0
"""Number of an unknown speaker."""
MOST_SPEAKERS = 20
"""Most speakers that a model distinguishes: those with the most turns."""
_TURN = "<turn>"


class Response(NamedTuple):
    """A turn that the model learns to write."""

    conversation: int  # number of the conversation
    turn: int  # number of the turn in it, from 0


@dataclass(frozen=True)
class Talk:
    """Conversations as tokens, every turn once and uncut; and the responses in them, in order."""

    conversations: list[list[TokenTurn]]
    responses: list[Response]

    def target(self, response: Response) -> TokenTurn:
        """The turn that is the response."""
        return self.conversations[response.conversation][response.turn]

    def history(self, response: Response) -> list[TokenTurn]:
        """The turns before the response."""
        return self.conversations[response.conversation][: response.turn]

    @property
    def owners(self) -> list[int]:
        """The number of the conversation of each response."""
        return [response.conversation for response in self.responses]


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


def alternate(speakers: Speakers, turns: Sequence[str], responds: str) -> Conversation:
    """Assign speakers to turns without them, so that `responds` is next to speak.

    Two speakers alternate: the one who responds, and the first other one.
    """
    other = next((name for name in speakers.known if name != responds), "")
    names = [responds if (len(turns) - n) % 2 == 0 else other for n in range(len(turns))]
    return Conversation(tuple(turns), tuple(names) if any(names) else ())
