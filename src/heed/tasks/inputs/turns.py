"""Conversations: the turns before a response, joined into one text or read turn by turn, as the model does."""

from __future__ import annotations

import json
import re
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import chain, islice
from pathlib import Path
from typing import Any, ClassVar, NamedTuple, Self

import numpy as np
import torch

from heed.data.batch import Histories, TokenTurn, pad_histories, pad_rows, plan_batches, plan_pass
from heed.data.corpus import Lengths, joined, parts_of
from heed.data.corpus import Rows as Numbers
from heed.data.examples import Conversation, take
from heed.data.findings import Findings
from heed.data.kinds import Kind
from heed.data.kinds.conversations import (
    END_OF_UTTERANCE,
    conversation_of,
    conversation_reader,
    conversations_from_python,
)
from heed.data.splits import Splits
from heed.data.tables import Items, RepeatedKeyError, Row, described, has_items, load_json
from heed.data.tokens import MASKS, SPECIAL_TOKENS, Special
from heed.data.tokens.tokenizer import TextTokenizer
from heed.errors import ConfigError, DataError, nearest
from heed.models.base import Memory
from heed.storage.disk import write_whole
from heed.storage.files import damaged, read_list
from heed.tasks.base.report import SideCounts, counted, counted_are, printable, tokens_text
from heed.tasks.base.transfer import Parent
from heed.tasks.base.vocabulary import size_for
from heed.tasks.base.writing import TOGETHER, ToWrite
from heed.tasks.contracts import Batch, Draw, Pass, Rows, Sized
from heed.tasks.inputs.pairs import check_positions
from heed.tasks.inputs.tokens import Tokens, file_of
from heed.tasks.work import Work

UNKNOWN_SPEAKER = 0
"""Number of an unknown speaker."""
MAX_SPEAKERS = 20
"""Most speakers that a model distinguishes: those with the most turns."""
_TURN = "<turn>"


class History(NamedTuple):
    """The turns that are read before a response is written.

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
        for conversation in conversations:
            turns.update(conversation.speakers)
            begins[conversation.speaker(0) if conversation.turns else ""] += 1
        del turns[""]
        frequent = [name for name, _ in turns.most_common(MAX_SPEAKERS)]
        return cls(("", *sorted(frequent, key=lambda name: (-begins[name], -turns[name], name))))

    def tagged(self, tokenizer: TextTokenizer) -> Speakers:
        """The speakers with their tokens, which are added to the tokenizer."""
        reserved = {*SPECIAL_TOKENS, *MASKS}
        tags = [_TURN]
        for name in self.names[1:]:
            tag = "<" + re.sub(r"[<>\s]+", "_", name) + ">"
            while tag in reserved or tag in tags:
                tag = f"{tag[:-1]}_>"
            tags.append(tag)
        tokenizer.add_tags(tags)
        return Speakers(self.names, tuple(tokenizer.tags[tag] for tag in tags))

    def number(self, name: str) -> int:
        """The number of a speaker; that of an unknown speaker for other names."""
        return self.names.index(name) if name in self.names else UNKNOWN_SPEAKER

    @property
    def named(self) -> tuple[str, ...]:
        """The names of all but the unknown speaker."""
        return self.names[1:]

    def check(self, name: str, field: str) -> None:
        """Refuse a name that is not a speaker's.

        Raises:
            ConfigError: The message lists the speakers.
        """
        if name in self.named:
            return
        if not self.named:
            raise ConfigError(f"{field} is '{name}', but the conversations name no speakers; remove it")
        raise ConfigError(
            f"{field} is '{name}', but the speakers of the training conversations are {', '.join(self.named)}"
            f"{nearest(name, self.named)}"
        )

    def next_after(self, speaker: str, respond: str) -> str:
        """The default speaker who responds to a speaker: the one in `data.respond`, or the first other speaker."""
        if respond in self.named:
            return respond
        return next((name for name in self.named if name != speaker), speaker if speaker in self.named else "")


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
        max_turn = self.options.max_turn
        first = self.first_read([min(len(turn.ids), max_turn) for turn in history])
        return Read(first, [TokenTurn(turn.ids[:max_turn], turn.speaker) for turn in history[first:]])

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
        max_turn: int = self.options.max_turn
        lengths = [min(len(turn.ids), max_turn) for turn in history]
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
        source, mask = pad_rows([self.source(response.history.turns) for response in responses])
        inputs = {"source": source, "source_mask": mask}
        return Batch(indices, inputs, targets=self._targets(responses), masks=("source_mask",))

    def _targets(self, responses: Sequence[Response]) -> dict[str, Any]:
        """The texts to write, and the first token of each."""
        starts = torch.tensor([self.start(response.target.speaker) for response in responses])
        return {"written": [response.target.ids for response in responses], "starts": starts}

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
        max_turn: int = self.options.max_turn
        return sum(min(len(turn.ids), max_turn) for turn in history)

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


BOTH = "both"
"""The value of `data.respond` for which the turns of every speaker are responses."""
_SPEAKERS = "speakers.json"
MAX_VALIDATED = 300
"""Most validation responses that are written; all are judged."""
_SIZES = {"tiny": 4_999, "small": 1_999_999}
"""Named size -> training responses up to which it is chosen; base from there on."""
_SAMPLES, _TURNS = 3, 6
"""Most conversations that are shown, and most turns of each."""
Said = str | Sequence[str] | Mapping[str, Any] | Conversation
"""A conversation: its turns; a dict, as in JSON lines; or a text with turns separated by tabs or `data.separator`."""


CONVERSATIONS = Kind(
    reader=lambda data, labels: conversation_reader(data, again=labels is not None),
    fields=lambda data: ("turns", "speakers"),
)


@dataclass(frozen=True)
class Turns(Tokens):
    """Conversations, and the responses in them: the turns of the speaker in `data.respond`, except the first turn."""

    key: ClassVar[str] = "conversation"
    sized: ClassVar = {
        "tokens": Sized("vocab_size", ("tokens", "target", "source")),
        "speakers": Sized("num_speakers"),
        "source": Sized("source_vocab_size", ("source", "tokens")),
        "target": Sized("target_vocab_size", ("target", "tokens")),
    }
    is_encoded_once: ClassVar = True
    row_kinds: ClassVar = ("<i4",) * 3

    kind: Kind = CONVERSATIONS
    speakers: Speakers = None  # type: ignore[assignment]  # learned

    # Data -----------------------------------------------------------------------------------------------------

    def read_data(self, data: Any, split: str, config: Any, findings: Findings) -> Sequence[Conversation]:
        return conversations_from_python(data, split, config.data.columns, findings)

    def scorable(self, examples: Sequence[Conversation], where: str) -> Sequence[Conversation]:
        if not any(map(self.responses, examples)):
            raise DataError(f"{where}: no conversation has a response (data.respond {self.config.data.respond})")
        return examples

    def learn(self, config: Any, splits: Splits[Conversation], parent: Parent | None) -> tuple[Any, Self]:
        speakers = Speakers.of(splits.examples["train"])
        if config.data.respond != BOTH:
            speakers.check(config.data.respond, "data.respond")
        if parent is None:
            config, turns = super().learn(config, splits, None)
        else:
            turns = replace(self, tokenizers={"tokens": parent.tokenizer("tokens", self.sized["tokens"].alike)})
        return config, replace(turns, speakers=speakers.tagged(turns.tokenizer))

    def texts_of(self, example: Conversation) -> Sequence[str]:
        return example.turns

    def decided(self, texts: Sequence[str], train: Sequence[Conversation], usual: str = "bpe") -> Any:
        return super().decided(texts, train, usual)

    def save(self, folder: Path) -> None:
        super().save(folder)
        text = json.dumps([*self.speakers.named], ensure_ascii=False) + "\n"
        write_whole(folder / _SPEAKERS, lambda part: part.write_text(text, encoding="utf-8"))

    def restore(self, config: Any, folder: Path) -> Self:
        names, turns = read_list(folder / _SPEAKERS, str), super().restore(config, folder)
        size = turns.tokenizer.vocab_size
        speakers = Speakers(("", *names)).tagged(turns.tokenizer)
        if turns.tokenizer.vocab_size > size:  # a speaker got a token for which the model has no row
            raise damaged(
                folder / _SPEAKERS, f"{file_of('tokens')} has no tokens for some of its {len(names)} speakers"
            )
        return replace(turns, speakers=speakers)

    def rows(self) -> Mapping[str, Rows]:
        if self.reads_turns:
            return {**super().rows(), "speakers": Rows(["unknown", *self.speakers.named])}
        return {side: Rows(self.tokenizer.tokens, unit="tokens") for side in ("source", "target")}

    @property
    def reads_turns(self) -> bool:
        """True if the model reads turn by turn, not a joined history."""
        return self.body is not None and self.body.interface == "turn_decoder"

    @property
    def reading(self) -> Reading:
        """The way in which the model reads the turns before a response."""
        kind = TurnReading if self.reads_turns else Reading
        return kind(self.config.data, self.speakers, self.tokenizer.special)

    # Settling -------------------------------------------------------------------------------------------------

    def fields(self, fields: dict[str, Any], work: Work) -> dict[str, Any]:
        positions = work.head.positions  # type: ignore[attr-defined]
        if positions is not None:
            needed = {name: int(self.costs(work.encoded(name)).max(initial=1)) for name in work.split_names}
            check_positions(positions, needed, work.config.generation.max_length)
        return {}

    def size(self, work: Work) -> str:
        return size_for(sum(map(len, work.encoded("train"))), _SIZES)

    # Conversations as tokens ----------------------------------------------------------------------------------

    def encode(self, examples: Sequence[Conversation], split: str = "", **further: Any) -> Any:
        """Conversations as tokens, and the responses in them."""
        encoded = [*super().encode(examples, split, **further)]
        every = enumerate(zip(examples, encoded, strict=True))
        responses = [Response(n, turn, turns) for n, (talk, turns) in every for turn in self.responses(talk)]
        return Talk(encoded, responses, self.reading.units(responses))

    @property
    def rows_by(self) -> dict[str, Any]:
        return {**super().rows_by, "speakers": self.speakers.names}

    def numbers_of(self, examples: Sequence[Conversation]) -> list[Numbers]:
        """The tokens of each conversation, the number of them in each turn, and the speaker of each turn."""
        ids = iter(self.tokenizer.encode_all(self.references(examples)))
        speakers = [[self.speakers.number(talk.speaker(n)) for n in range(len(talk.turns))] for talk in examples]
        return [[*joined([*islice(ids, len(numbers))]), numbers] for numbers in speakers]

    def from_rows(self, rows: Sequence[Numbers]) -> list[list[TokenTurn]]:
        return [[*map(TokenTurn, parts_of(tokens, sizes), speakers)] for tokens, sizes, speakers in rows]

    def responses(self, conversation: Conversation) -> list[int]:
        """Numbers of the turns that are responses."""
        respond = self.config.data.respond
        return [n for n in range(1, len(conversation.turns)) if respond in (BOTH, conversation.speaker(n))]

    def costs(self, encoded: Sequence[list[Response]]) -> Any:
        return self.reading.costs(encoded)

    def collate(self, encoded: Sequence[list[Response]], indices: list[int], draw: Draw | None) -> Batch:
        return self.reading.batch(take(encoded, indices), indices)

    # Training -------------------------------------------------------------------------------------------------

    def training(self, work: Work) -> list[list[Response]]:
        """The responses that are trained on, in groups that are never split across batches."""

        def collect() -> list[list[Response]]:
            talk, data = work.encoded("train"), work.config.data
            short = [response for response in talk.responses if len(response.target.ids) <= data.max_turn]  # type: ignore[attr-defined]
            if units := self.reading.units(short):
                return units
            respond = data.respond
            what = "has a turn after its first one" if respond == BOTH else f"has a response of '{respond}'"
            raise DataError(f"no training conversation {what} with at most data.max_turn {data.max_turn} tokens")

        return work.once("training set", collect)  # type: ignore[no-any-return]

    def plan(self, work: Work, split: str, draw: Draw) -> Pass:
        units = self.training(work)
        costs = work.once("training costs", lambda: self.costs(units))
        plan = plan_pass(costs, work.config.training.batch_tokens, *draw)

        def described(pieces: Sequence[int]) -> str:
            first = units[pieces[0]][0]
            conversation = work.splits.examples["train"][first.conversation]
            where = conversation.origin or f"training conversation {first.conversation}"
            what = "conversations" if self.reads_turns else "responses"
            return f"{len(pieces)} {what}, the first in {where}: {conversation.turns[first.turn]!r}"

        return Pass(plan, lambda pieces: self.collate(units, list(pieces), draw), costs, described=described)

    # Writing --------------------------------------------------------------------------------------------------

    groups = property(lambda self: self.reading.groups)
    memory = property(lambda self: self.reading.memory)
    positions_read = property(lambda self: self.reading.positions_read)
    first_token = property(lambda self: self.reading.first_token)

    def ids_read(self, source: History) -> list[int]:
        """The tokens of a history."""
        return [token for turn in source.turns for token in (turn.speaker, *turn.ids)]

    @property
    def target_tokenizer(self) -> TextTokenizer:
        """The tokenizer of responses."""
        return self.tokenizer

    def references(self, examples: Sequence[Conversation]) -> list[str]:
        """The texts of all turns."""
        return [turn for conversation in examples for turn in conversation.turns]

    def written_lengths(self, split: str, work: Work) -> Lengths:
        """Tokens of the responses of a split."""
        units = self.training(work) if split == "train" else work.encoded(split)
        return np.array([len(response.target.ids) for unit in units for response in unit], np.int32)

    def to_write(self, work: Work) -> ToWrite[History]:
        """An even sample of the validation responses."""
        talk: Any = work.encoded("valid")
        every, conversations = talk.responses, work.splits.examples["valid"]
        sample = every[:: -(-len(every) // MAX_VALIDATED) or 1]
        # An output longer than every reference is wrong whatever follows, so writing it out would only cost time.
        longest = max((len(response.target.ids) for response in sample), default=0) + 2
        references = [conversations[response.conversation].turns[response.turn] for response in sample]
        max_length = work.config.generation.max_length or longest
        return ToWrite([response.history for response in sample], references, min(longest, max_length))

    # Questions ------------------------------------------------------------------------------------------------

    def questions(self, conversations: Any) -> tuple[list[Conversation], bool]:
        """A conversation (`Said`), or a list of lists, dicts or `Conversation`s."""
        if isinstance(conversations, str | Mapping | Conversation):
            return [self.conversation(conversations)], True
        if isinstance(conversations, bytes) or not has_items(conversations):
            raise DataError(f"conversation is {described(conversations)}, expected a text or a list of turns")
        several = list(conversations)
        if several and all(isinstance(item, str) for item in several):
            return [self.conversation(several)], True
        return [self.conversation(item) for item in several], False

    def conversation(self, value: Said) -> Conversation:
        """Convert user input to a conversation; turns without speakers alternate so that the model responds next.

        Raises:
            DataError: The input is not a conversation.
        """
        if isinstance(value, Conversation):
            return value
        if isinstance(value, str):
            value = self._typed(value)
        columns = self.config.data.columns
        row = Row(Items([], Findings(hint=False), ""), 0, value)
        conversation = conversation_of(row, columns, "the conversation")
        assert conversation is not None, "a row with a value"
        if conversation.speakers or not conversation.turns or not self.speakers.named:
            return conversation
        responds, user = self.parts(None)
        pair = responds, user if user != responds else ""
        names = tuple(pair[n % 2] for n in range(len(conversation.turns), 0, -1))
        return Conversation(conversation.turns, names if any(names) else ())

    def _typed(self, text: str) -> Any:
        """The turns of a text, or its JSON object."""
        if text.lstrip().startswith("{"):
            try:
                value = load_json(text)
            except RepeatedKeyError as error:
                raise DataError(f"{error}: {text[:60]!r}") from None
            except ValueError:
                value = None
            if isinstance(value, dict):
                return value
        separator = getattr(self.config.data, "separator", None) or ""
        for mark in filter(None, (separator, END_OF_UTTERANCE, "\t")):
            if mark in text:
                return text.split(mark)
        return [text]

    def parts(self, speaker: str | None) -> tuple[str, str]:
        """The names of the model and of the user as speakers in a conversation; "" if the data names no speakers.

        Raises:
            ConfigError: The speaker does not exist.
        """
        speakers, respond = self.speakers, self.config.data.respond
        if speaker is not None:
            speakers.check(speaker, "speaker")
        first = speakers.named[0] if speakers.named else ""
        model_speaker = speaker or speakers.next_after(first, respond)
        return model_speaker, next((name for name in speakers.named if name != model_speaker), model_speaker)

    def who_responds(self, conversation: Conversation, speaker: str | None = None) -> str:
        """The next speaker: `speaker`, else the one in `data.respond`, else one who did not speak last."""
        if speaker is not None:
            return speaker
        last = conversation.speaker(len(conversation.turns) - 1)
        return self.speakers.next_after(last, self.config.data.respond) if last else ""

    def num_cut(self, conversation: Conversation) -> int:
        """The number of first turns that the model does not read when it responds to a conversation."""
        return self.reading.read(self.encode([conversation]).conversations[0]).first

    # For people -----------------------------------------------------------------------------------------------

    def about(self, work: Work) -> Iterator[str]:
        """Speakers; of each split turns, responses, and the numbers of those not read in full or not trained on."""
        data = self.config.data
        yield f"\nspeakers: {', '.join(self.speakers.named) or 'none named'}; responses of {data.respond}"
        for split, counts in work.report_counts().items():
            turns = counts["turns"] / max(1, counts["examples"])
            yield (
                f"{split}: {counted(counts['turns'], 'turn')} ({turns:.1f} per conversation), "
                f"{counted(counts['responses'], 'response')}"
            )
            if counts["history_cut"]:
                window = [] if data.history is None else [f"data.history {data.history} turns"]
                limits = [*window, *([] if self.reads_turns else [f"data.max_length {data.max_length} tokens"])]
                yield (
                    f"  {counted(counts['history_cut'], 'response')} to a history whose first turns are not read "
                    f"({' and '.join(limits)})"
                )
            if counts["turns_cut"]:
                trained = ", and they are not trained on as responses" if split == "train" else ""
                yield (
                    f"  {counted_are(counts['turns_cut'], 'turn')} longer than data.max_turn {data.max_turn} tokens; "
                    f"the rest is not read{trained}"
                )

    def samples(self, work: Work) -> Iterator[str]:
        """A few training conversations, and one as the model sees it."""
        yield "\nas read and, in brackets, as the model sees them:"
        conversations, talk = work.splits.examples["train"], work.encoded("train")
        for number in range(0, len(conversations), max(1, len(conversations) // _SAMPLES))[:_SAMPLES]:
            conversation, read = conversations[number], talk.conversations[number]  # type: ignore[attr-defined]
            yield f"  {conversation.origin}"
            for n, text in enumerate(conversation.turns[:_TURNS]):
                who = f"{conversation.speaker(n)}: " if conversation.speaker(n) else ""
                yield f"    {printable(who)}{printable(text[:120])}{' ...' if len(text) > 120 else ''}"
                yield f"      [{tokens_text(self.tokenizer, read[n].ids)}]"
            if len(conversation.turns) > _TURNS:
                yield f"    ... {counted(len(conversation.turns) - _TURNS, 'more turn')}"

    def token_counts(self, split: str, work: Work) -> list[SideCounts]:
        """The tokens of all turns of a split."""
        talk: Any = work.encoded(split)
        ids = [turn.ids for turns in talk.conversations for turn in turns]
        lengths = np.fromiter(map(len, ids), np.int64, len(ids))
        tokens = np.bincount(np.fromiter(chain.from_iterable(ids), np.int64), minlength=self.tokenizer.vocab_size)
        return [SideCounts(split, "turns", lengths, tokens, self.tokenizer.special.unknown)]

    def counts(self, split: str, work: Work) -> dict[str, Any]:
        """Also turns, responses, cut histories and cut turns."""
        talk: Any = work.encoded(split)
        reading, max_turn = self.reading, self.config.data.max_turn
        lengths = [[len(turn.ids) for turn in turns] for turns in talk.conversations]
        read = [[min(length, max_turn) for length in each] for each in lengths]
        return {
            **super().counts(split, work),
            "turns": sum(map(len, lengths)),
            "responses": len(talk.responses),
            "history_cut": sum(reading.first_read(read[r.conversation][: r.turn]) > 0 for r in talk.responses),
            "turns_cut": sum(length > max_turn for each in lengths for length in each),
        }
