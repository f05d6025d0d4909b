"""Conversations: the turns before a response, joined into one text or read turn by turn, as the model does."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import chain, islice
from pathlib import Path
from typing import Any, ClassVar, Self

import numpy as np

from heed.data.batch import TokenTurn, plan_pass
from heed.data.corpus import Rows as Numbers
from heed.data.corpus import joined, parts_of
from heed.data.examples import Conversation, take
from heed.data.findings import Findings
from heed.data.kinds.conversations import (
    END_OF_UTTERANCE,
    conversation_of,
    conversation_reader,
    hold_conversations,
)
from heed.data.kinds.kind import Kind
from heed.data.splits import Splits
from heed.data.tables import RepeatedKeyError, described, has_items, load_json
from heed.data.tokens.tokenizer import TextTokenizer
from heed.errors import DataError
from heed.storage.disk import write_whole
from heed.storage.files import damaged, read_list
from heed.tasks.base.report import SideCounts, counted, counted_are, printable, tokens_text
from heed.tasks.base.transfer import Parent
from heed.tasks.base.vocabulary import size_for
from heed.tasks.base.writing import ToWrite
from heed.tasks.contracts import Batch, Draw, Pass, Rows, Sized
from heed.tasks.inputs.histories import History, Reading, Response, Speakers, Talk, TurnReading
from heed.tasks.inputs.pairs import check_positions
from heed.tasks.inputs.tokens import Tokens, file_of
from heed.tasks.work import Work

BOTH = "both"
"""The value of `data.respond` for which the turns of every speaker are responses."""
_SPEAKERS = "speakers.json"
VALIDATE_AT_MOST = 300
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
    scored_at_once: ClassVar = 1
    is_encoded_once: ClassVar = True
    row_kinds: ClassVar = ("<i4",) * 3

    kind: Kind = CONVERSATIONS
    speakers: Speakers = None  # type: ignore[assignment]  # learned

    # Data -----------------------------------------------------------------------------------------------------

    def hold(self, data: Any, split: str, config: Any, findings: Findings) -> Sequence[Conversation]:
        return hold_conversations(data, split, config.data.columns, findings)

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
        text = json.dumps([*self.speakers.known], ensure_ascii=False) + "\n"
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
            return {**super().rows(), "speakers": Rows(["unknown", *self.speakers.known])}
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

    def fields(self, given: dict[str, Any], work: Work) -> dict[str, Any]:
        positions = work.head.positions  # type: ignore[attr-defined]
        if positions is not None:
            needed = {name: int(self.costs(work.encoded(name)).max(initial=1)) for name in work.split_names}
            check_positions(positions, needed, work.config.generation.max_length)
        return {}

    def size(self, work: Work) -> str:
        return size_for(len(self.responses_of("train", work)), _SIZES)

    # Conversations as tokens ----------------------------------------------------------------------------------

    def encode(self, examples: Sequence[Conversation], split: str = "", **further: Any) -> Any:
        """Conversations as tokens, and the responses in them."""
        encoded = [*super().encode(examples, split, **further)]
        every = zip(examples, encoded, strict=True)
        responses = [Response(n, turn, turns) for n, (one, turns) in enumerate(every) for turn in self.responses(one)]
        return Talk(encoded, responses, self.reading.units(responses))

    @property
    def rows_by(self) -> dict[str, Any]:
        return {**super().rows_by, "speakers": self.speakers.names}

    def numbers_of(self, examples: Sequence[Conversation]) -> list[Numbers]:
        """The tokens of each conversation, the number of them in each turn, and the speaker of each turn."""
        ids = iter(self.tokenizer.encode_all([turn for one in examples for turn in one.turns]))
        speakers = [[self.speakers.number(one.speaker(n)) for n in range(len(one.turns))] for one in examples]
        return [[*joined([*islice(ids, len(own))]), own] for own in speakers]

    def made_of(self, rows: Sequence[Numbers]) -> list[list[TokenTurn]]:
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

        def made() -> list[list[Response]]:
            talk, data = work.encoded("train"), work.config.data
            short = [one for one in talk.responses if len(one.target.ids) <= data.max_turn]  # type: ignore[attr-defined]
            if units := self.reading.units(short):
                return units
            respond = data.respond
            what = "has a turn after its first one" if respond == BOTH else f"has a response of '{respond}'"
            raise DataError(f"no training conversation {what} with at most data.max_turn {data.max_turn} tokens")

        return work.once("training set", made)  # type: ignore[no-any-return]

    def plan(self, work: Work, split: str, draw: Draw) -> Pass:
        units = self.training(work)
        costs = work.once("training costs", lambda: self.costs(units))
        plan = plan_pass(costs, work.config.training.batch_tokens, *draw)

        def described(pieces: Sequence[int]) -> str:
            first = units[pieces[0]][0]
            one = work.splits.examples["train"][first.conversation]
            where = one.origin or f"training conversation {first.conversation}"
            what = "conversations" if self.reads_turns else "responses"
            return f"{len(pieces)} {what}, the first in {where}: {one.turns[first.turn]!r}"

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
        return [turn for one in examples for turn in one.turns]

    def responses_of(self, split: str, work: Work) -> list[Response]:
        """The responses of a split."""
        talk: Any = work.encoded(split)
        return talk.responses  # type: ignore[no-any-return]

    def written_lengths(self, work: Work) -> list[int]:
        """Tokens of the validation references."""
        return [len(one.target.ids) for one in self.responses_of("valid", work)]

    def longest_trained(self, work: Work) -> int:
        """Tokens of the longest response that is trained on."""
        return max(len(one.target.ids) for unit in self.training(work) for one in unit)

    def to_write(self, work: Work) -> ToWrite[History]:
        """An even sample of the validation responses."""
        every, known = self.responses_of("valid", work), work.splits.examples["valid"]
        few = every[:: -(-len(every) // VALIDATE_AT_MOST) or 1]
        # An output longer than every reference is wrong whatever follows, so writing it out would only cost time.
        longest = max((len(one.target.ids) for one in few), default=0) + 2
        references = [known[one.conversation].turns[one.turn] for one in few]
        most = work.config.generation.max_length or longest
        return ToWrite([one.history for one in few], references, min(longest, most))

    # Questions ------------------------------------------------------------------------------------------------

    def questions(self, given: Any) -> tuple[list[Conversation], bool]:
        """A conversation (`Said`), or a list of lists, dicts or `Conversation`s."""
        if isinstance(given, str | Mapping | Conversation):
            return [self.conversation(given)], True
        if isinstance(given, bytes) or not has_items(given):
            raise DataError(f"conversation is {described(given)}, expected a text or a list of turns")
        several = list(given)
        if several and all(isinstance(one, str) for one in several):
            return [self.conversation(several)], True
        return [self.conversation(one) for one in several], False

    def conversation(self, said: Said) -> Conversation:
        """Convert user input to a conversation; turns without speakers alternate so that the model responds next.

        Raises:
            DataError: The input is not a conversation.
        """
        if isinstance(said, Conversation):
            return said
        if isinstance(said, str):
            said = self._typed(said)
        columns = self.config.data.columns
        made = conversation_of(said, columns, "the conversation", "conversation", "", Findings(hint=False))
        assert isinstance(made, Conversation), "without findings a bad conversation is an error"
        if made.speakers or not made.turns or not self.speakers.known:
            return made
        responds, user = self.parts(None)
        pair = responds, user if user != responds else ""
        names = tuple(pair[n % 2] for n in range(len(made.turns), 0, -1))
        return Conversation(made.turns, names if any(names) else ())

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
        for one in filter(None, (separator, END_OF_UTTERANCE, "\t")):
            if one in text:
                return text.split(one)
        return [text]

    def parts(self, speaker: str | None) -> tuple[str, str]:
        """The names of the model and of the user as speakers in a conversation; "" if the data names no speakers.

        Raises:
            ConfigError: The speaker does not exist.
        """
        speakers, respond = self.speakers, self.config.data.respond
        if speaker is not None:
            speakers.check(speaker, "speaker")
        first = speakers.known[0] if speakers.known else ""
        own = speaker or speakers.next_after(first, respond)
        return own, next((name for name in speakers.known if name != own), own)

    def who_responds(self, conversation: Conversation, speaker: str | None = None) -> str:
        """The next speaker: the given one; else the one in `data.respond`; else one who did not speak last."""
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
        yield f"\nspeakers: {', '.join(self.speakers.known) or 'none named'}; responses of {data.respond}"
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
            one, read = conversations[number], talk.conversations[number]  # type: ignore[attr-defined]
            yield f"  {one.origin}"
            for n, text in enumerate(one.turns[:_TURNS]):
                who = f"{one.speaker(n)}: " if one.speaker(n) else ""
                yield f"    {printable(who)}{printable(text[:120])}{' ...' if len(text) > 120 else ''}"
                yield f"      [{tokens_text(self.tokenizer, read[n].ids)}]"
            if len(one.turns) > _TURNS:
                yield f"    ... {counted(len(one.turns) - _TURNS, 'more turn')}"

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
        reading, most = self.reading, self.config.data.max_turn
        lengths = [[len(turn.ids) for turn in turns] for turns in talk.conversations]
        read = [[min(length, most) for length in each] for each in lengths]
        return {
            **super().counts(split, work),
            "turns": sum(map(len, lengths)),
            "responses": len(talk.responses),
            "history_cut": sum(reading.first_read(read[one.conversation][: one.turn]) > 0 for one in talk.responses),
            "turns_cut": sum(length > most for each in lengths for length in each),
        }
