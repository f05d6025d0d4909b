"""Dialogue: conversations as tokens, a decoder that writes responses, loss and scores."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from functools import cached_property, partial
from itertools import chain, islice
from pathlib import Path
from typing import Any, ClassVar, Self

import numpy as np
import torch
from torch import Tensor

from heed.config.sections import num_subwords, with_tokenizer
from heed.data.batch import PairBatch, TokenTurn, TurnBatch, plan_pass
from heed.data.corpus import Corpus, Lengths, Rows, corpus_of, joined, parts_of
from heed.data.examples import Conversation, in_turn
from heed.data.findings import Findings, found_table
from heed.data.kinds.conversations import conversation_reader, hold_conversations
from heed.data.splits import Splits, open_splits
from heed.data.tokens.tokenizer import TextTokenizer
from heed.errors import DataError
from heed.generation import SamplingOptions
from heed.models.base import DecoderBody, Memory
from heed.storage.disk import write_whole
from heed.storage.files import damaged, read_list
from heed.tasks.base.report import SideCounts, counted, counted_are, printable, token_lines, tokens_text
from heed.tasks.base.task import check_positions
from heed.tasks.base.transfer import with_parents
from heed.tasks.base.vocabulary import Learned, learned
from heed.tasks.base.writing import ToWrite, Writing, WrittenText
from heed.tasks.dialogue.config import DialogueConfig
from heed.tasks.dialogue.reading import History, Reading, Response, Speakers, Talk, TurnReading

BOTH = "both"
"""The value of `data.respond` for which the turns of every speaker are responses."""
_TOKENIZER, _SPEAKERS = "tokenizer.json", "speakers.json"
VALIDATE_AT_MOST = 300
"""Most validation responses that are decoded; the loss uses all responses."""
_SMALL, _BASE = 5_000, 2_000_000
"""Numbers of training responses from which size small, and size base, is chosen."""
_SAMPLES, _TURNS = 3, 6
"""Most conversations that are shown, and most turns of each."""


class Dialogue(Writing[DialogueConfig, Conversation, History, list[Response]]):
    """The task of dialogue: conversations as tokens, responses to train on, model, writing."""

    interfaces = ("turn_decoder", "pair_decoder")
    size_fields: ClassVar = {
        "tokens": "vocab_size",
        "speakers": "num_speakers",
        "source": "source_vocab_size",
        "target": "target_vocab_size",
    }
    units: ClassVar = {"source": "tokens", "target": "tokens"}
    alternatives: ClassVar = {
        "tokens": ("tokens", "target", "source"),
        "source": ("source", "tokens"),
        "target": ("target", "tokens"),
    }
    longest_output = 100

    def __init__(
        self,
        config: DialogueConfig,
        tokenizer: TextTokenizer,
        speakers: Speakers,
        splits: Splits[Conversation] | None,
    ) -> None:
        super().__init__(config, splits)
        self.tokenizer = self.target_tokenizer = tokenizer
        self.speakers = speakers.tagged(tokenizer)
        self._encoded: dict[str, Talk] = {}

    @property
    def sizes(self) -> Mapping[str, str]:
        kinds = ("tokens", "speakers") if self.reads_turns else ("source", "target")
        return {kind: self.size_fields[kind] for kind in kinds}

    # Data -----------------------------------------------------------------------------------------------------

    @classmethod
    def prepare(cls, config: DialogueConfig, given: Mapping[str, Sequence[Conversation]] | None = None) -> Self:
        config, parent, tokenizer_parent = with_parents(config, cls)
        splits = cls.read_splits(config, given)
        train = splits.examples["train"]
        speakers = Speakers.of(train)
        if config.data.respond != BOTH:
            speakers.check(config.data.respond, "data.respond")
        if tokenizer_parent is None:
            config, (tokenizer,), _ = learned(config, [train], partial(cls.learn, config, train))
        else:
            tokenizer = tokenizer_parent.tokenizer("tokens", cls.alternatives)
        task = cls(config, tokenizer, speakers, splits)
        if task.positions is not None:
            costs = {name: task.unit_costs(task.units_of(task.encoded(name))) for name in task.split_names}
            needed = {name: int(cost.max(initial=1)) for name, cost in costs.items()}
            check_positions(task.positions, needed, config.generation.max_length)
        return task.settle(parent)

    @classmethod
    def learn(cls, config: DialogueConfig, train: Sequence[Conversation]) -> Learned[DialogueConfig]:
        """Decide the kind and size of the tokenizer, and train it on all turns."""
        texts = [turn for one in train for turn in one.turns]
        config = with_tokenizer(config, "bpe", lambda: num_subwords(len(texts), len(set().union(*texts))))
        return config, [TextTokenizer.train(texts, config.tokenizer)], len(train)

    @classmethod
    def restore(cls, config: DialogueConfig, folder: Path) -> Self:
        names, tokenizer = read_list(folder / _SPEAKERS, str), TextTokenizer.load(folder / _TOKENIZER)
        size = tokenizer.vocab_size
        task = cls(config, tokenizer, Speakers(("", *names)), None)
        if tokenizer.vocab_size > size:  # a speaker got a token for which the model has no row
            raise damaged(folder / _SPEAKERS, f"{_TOKENIZER} has no tokens for some of its {len(names)} speakers")
        return task

    def save(self, folder: Path) -> None:
        self.tokenizer.save(folder / _TOKENIZER)
        text = json.dumps([*self.speakers.known], ensure_ascii=False) + "\n"
        write_whole(folder / _SPEAKERS, lambda part: part.write_text(text, encoding="utf-8"))

    @classmethod
    def open_splits(
        cls, config: DialogueConfig, given: Mapping[str, Sequence[Conversation]] | None = None
    ) -> Splits[Conversation]:
        return open_splits(config.data, conversation_reader(config.data), given)

    @classmethod
    def hold(cls, data: Any, split: str, config: Any, findings: Findings) -> Sequence[Conversation]:
        return hold_conversations(data, split, config.data.columns, findings)

    @property
    def reads_turns(self) -> bool:
        """True if the model reads turn by turn, not a joined history."""
        return self.body_class.interface == "turn_decoder"

    @property
    def reading(self) -> Reading:
        """The way in which the model reads the turns before a response."""
        kind = TurnReading if self.reads_turns else Reading
        return kind(self.config.data, self.speakers, self.tokenizer.special)

    def tokenizers(self) -> dict[str, TextTokenizer]:
        return {"tokens": self.tokenizer}

    def encoded(self, split: str) -> Talk:
        """The conversations of a split as tokens."""
        if split not in self._encoded:
            conversations = self.splits.examples[split]
            encode = lambda: map(self.rows_of, in_turn(conversations))  # noqa: E731
            what: dict[str, Any] = {"tokenizer": self.tokenizer.text, "speakers": self.speakers.names}
            rows: Corpus[Rows] = corpus_of(conversations, encode, ["<i4"] * 3, lambda rows: rows, **what)
            self._encoded[split] = self.encode(conversations, rows)
        return self._encoded[split]

    def rows_of(self, conversations: Sequence[Conversation]) -> list[Rows]:
        """The tokens of each conversation, the number of them in each turn, and the speaker of each turn."""
        ids = iter(self.tokenizer.encode_all([turn for one in conversations for turn in one.turns]))
        speakers = [[self.speakers.number(one.speaker(n)) for n in range(len(one.turns))] for one in conversations]
        return [[*joined([*islice(ids, len(own))]), own] for own in speakers]

    def encode(self, conversations: Sequence[Conversation], rows: Iterable[Rows] | None = None) -> Talk:
        """Conversations as tokens, and the responses in them; `rows` are those of `rows_of`, if known."""
        encoded = [
            [*map(TokenTurn, parts_of(tokens, sizes), speakers)]
            for tokens, sizes, speakers in (self.rows_of(conversations) if rows is None else rows)
        ]
        every = zip(conversations, encoded, strict=True)
        responses = [Response(n, turn, turns) for n, (one, turns) in enumerate(every) for turn in self.responses(one)]
        return Talk(encoded, responses)

    def responses(self, conversation: Conversation) -> list[int]:
        """Numbers of the turns that are responses: those of the speaker in `data.respond`, except the first turn."""
        respond = self.config.data.respond
        return [n for n in range(1, len(conversation.turns)) if respond in (BOTH, conversation.speaker(n))]

    def who_responds(self, conversation: Conversation, speaker: str | None = None) -> str:
        """The next speaker: the given one; else the one in `data.respond`; else one who did not speak last."""
        if speaker is not None:
            return speaker
        last = conversation.speaker(len(conversation.turns) - 1)
        return self.speakers.next_after(last, self.config.data.respond) if last else ""

    @cached_property
    def training(self) -> list[list[Response]]:
        """The responses that are trained on, in groups that are never split across batches."""
        data = self.config.data
        units = self.reading.units(
            [one for one in self.encoded("train").responses if len(one.target.ids) <= data.max_turn]
        )
        if not units:
            what = "has a turn after its first one" if data.respond == BOTH else f"has a response of '{data.respond}'"
            raise DataError(f"no training conversation {what} with at most data.max_turn {data.max_turn} tokens")
        return units

    @cached_property
    def costs(self) -> Lengths:
        """The cost of each of these groups in a batch."""
        return self.reading.costs(self.training)

    def train_batches(self, epoch: int) -> Sequence[list[int]]:
        training = self.config.training
        return plan_pass(self.costs, training.batch_tokens, training.seed, epoch)

    def collate(self, indices: list[int], epoch: int = 0) -> PairBatch | TurnBatch:
        return self.unit_batch(self.training, indices)

    def work(self, indices: list[int]) -> int:
        return len(indices) * int(self.costs[indices].max(0).sum())

    def describe(self, indices: list[int], epoch: int) -> str:
        first = self.training[indices[0]][0]
        one = self.splits.examples["train"][first.conversation]
        where = one.origin or f"training conversation {first.conversation}"
        what = "conversations" if self.reads_turns else "responses"
        return f"{len(indices)} {what}, the first in {where}: {one.turns[first.turn]!r}"

    # Model ----------------------------------------------------------------------------------------------------

    @property
    def selected_by(self) -> str:
        return "loss"

    @property
    def auto_size(self) -> str:
        count = len(self.encoded("train").responses)
        if count < _SMALL:
            return "tiny"
        return "small" if count < _BASE else "base"

    def axes(self) -> dict[str, list[str]]:
        tokens = self.tokenizer.tokens
        if self.reads_turns:
            return {"tokens": tokens, "speakers": ["unknown", *self.speakers.known]}
        return {"source": tokens, "target": tokens}

    # Writing --------------------------------------------------------------------------------------------------

    def plan(self, sources: Sequence[History], rows: int) -> list[list[int]]:
        return self.reading.plan([source.turns for source in sources], rows)

    def memory(self, model: DecoderBody, sources: Sequence[History], device: torch.device) -> Memory:
        return self.reading.memory(model, [source.turns for source in sources], device)

    def positions_read(self, sources: Sequence[History]) -> int:
        return self.reading.positions([source.turns for source in sources])

    def ids_read(self, source: History) -> list[int]:
        return [token for turn in source.turns for token in (turn.speaker, *turn.ids)]

    def first_token(self, source: History) -> int:
        return self.reading.start(source.speaker)

    def units_of(self, talk: Talk) -> list[list[Response]]:
        """All responses, in the groups that a batch keeps together."""
        return self.reading.units(talk.responses)

    def rows_in(self, unit: list[Response]) -> int:
        return len(unit)

    def unit_costs(self, units: Sequence[list[Response]]) -> Lengths:
        return self.reading.costs(units)

    def unit_batch(self, units: Sequence[list[Response]], indices: list[int]) -> PairBatch | TurnBatch:
        return self.reading.batch([units[index] for index in indices], indices)  # type: ignore[no-any-return]

    def hidden(self, model: DecoderBody, batch: Any) -> Tensor:
        return self.reading.hidden(model, batch)

    def valid_units(self) -> list[list[Response]]:
        return self.units_of(self.encoded("valid"))

    def valid_lengths(self) -> list[int]:
        return [len(one.target.ids) for one in self.encoded("valid").responses]

    def num_references(self, split: str) -> int:
        return len(self.encoded(split).responses)

    @property
    def num_validated(self) -> int:
        return min(super().num_validated, VALIDATE_AT_MOST)

    def to_validate(self) -> ToWrite[History]:
        """An even sample of the validation responses."""
        every = self.encoded("valid").responses
        few = every[:: -(-len(every) // VALIDATE_AT_MOST) or 1]
        # An output longer than every reference is wrong whatever follows, so writing it out would only cost time.
        longest = max((len(one.target.ids) for one in few), default=0) + 2
        known = self.splits.examples["valid"]
        references = [known[one.conversation].turns[one.turn] for one in few]
        return ToWrite(
            [one.history for one in few], references, min(longest, self.config.generation.max_length or longest)
        )

    @property
    def longest_trained(self) -> int:
        return max(len(one.target.ids) for unit in self.training for one in unit)

    @property
    def quick_scores(self) -> tuple[str, ...]:
        return ("bleu", "chrf")

    def training_references(self) -> Sequence[str]:
        return [turn for one in self.few_trained() for turn in one.turns]

    def respond(
        self,
        model: DecoderBody,
        histories: Sequence[History],
        sampling: SamplingOptions | None = None,
        **search: Any,
    ) -> list[list[WrittenText]]:
        """The candidates for the response to each history, best first; `search` are options of `search_options`."""
        return self.write(model, histories, self.search_options(model, **search), sampling)

    # Overview -------------------------------------------------------------------------------------------------

    def overview(self) -> str:
        """Counts, findings in the files, lengths, unknown tokens, samples as the model sees them."""
        rows = [*map(self.token_counts, self.split_names)]
        known = ", ".join(self.speakers.known) or "none named"
        return "\n".join(
            [
                self.splits.summary,
                *found_table(self.splits.found),
                f"\nspeakers: {known}; responses of {self.config.data.respond}",
                *self._counts(),
                *token_lines(self.config.tokenizer.kind, self.tokenizer, rows),
                *self._samples(),
            ]
        )

    def _counts(self) -> list[str]:
        """Turns and responses of each split, and the numbers of those that are not read in full or not trained on."""
        lines = []
        data = self.config.data
        for split, counts in self.report_counts().items():
            turns = counts["turns"] / max(1, counts["examples"])
            lines.append(
                f"{split}: {counted(counts['turns'], 'turn')} ({turns:.1f} per conversation), "
                f"{counted(counts['responses'], 'response')}"
            )
            if counts["history_cut"]:
                lines.append(
                    f"  {counted(counts['history_cut'], 'response')} to a history whose first turns are not read "
                    f"({self._limits()})"
                )
            if counts["turns_cut"]:
                trained = ", and they are not trained on as responses" if split == "train" else ""
                lines.append(
                    f"  {counted_are(counts['turns_cut'], 'turn')} longer than data.max_turn {data.max_turn} tokens; "
                    f"the rest is not read{trained}"
                )
        return lines

    def _limits(self) -> str:
        data = self.config.data
        window = [] if data.history is None else [f"data.history {data.history} turns"]
        return " and ".join([*window, *([] if self.reads_turns else [f"data.max_length {data.max_length} tokens"])])

    def _samples(self) -> list[str]:
        """A few training conversations, and one as the model sees it."""
        lines = ["\nas read and, in brackets, as the model sees them:"]
        conversations, talk = self.splits.examples["train"], self.encoded("train")
        for number in range(0, len(conversations), max(1, len(conversations) // _SAMPLES))[:_SAMPLES]:
            one = conversations[number]
            lines.append(f"  {one.origin}")
            for n, text in enumerate(one.turns[:_TURNS]):
                who = f"{one.speaker(n)}: " if one.speaker(n) else ""
                lines.append(f"    {printable(who)}{printable(text[:120])}{' ...' if len(text) > 120 else ''}")
                lines.append(f"      [{tokens_text(self.tokenizer, talk.conversations[number][n].ids)}]")
            if len(one.turns) > _TURNS:
                lines.append(f"    ... {counted(len(one.turns) - _TURNS, 'more turn')}")
        return lines

    def token_counts(self, split: str) -> SideCounts:
        """The tokens of all turns of a split."""
        ids = [turn.ids for turns in self.encoded(split).conversations for turn in turns]
        lengths = np.fromiter(map(len, ids), np.int64, len(ids))
        tokens = np.bincount(np.fromiter(chain.from_iterable(ids), np.int64), minlength=self.tokenizer.vocab_size)
        return SideCounts(split, "turns", lengths, tokens, self.tokenizer.special.unknown)

    def report_counts(self) -> dict[str, Any]:
        """For each split: conversations, turns, responses, tokens, unknown tokens, cut histories and turns."""
        counts, most = {}, self.config.data.max_turn
        for split in self.split_names:
            talk, reading, tokens = self.encoded(split), self.reading, self.token_counts(split)
            lengths = [[min(len(turn.ids), most) for turn in turns] for turns in talk.conversations]
            counts[split] = {
                "examples": len(talk.conversations),
                **(self.splits.counts[split].as_values() if split in self.splits.counts else {}),
                "turns": len(tokens.lengths),
                "responses": len(talk.responses),
                "tokens": tokens.total,
                "unknown": tokens.unknown,
                "history_cut": sum(
                    reading.first_read(lengths[one.conversation][: one.turn]) > 0 for one in talk.responses
                ),
                "turns_cut": int((tokens.lengths > most).sum()),
            }
        return counts
