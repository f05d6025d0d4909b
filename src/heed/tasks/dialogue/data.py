"""The data of a dialogue: conversations as tokens, responses to train on, batches."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from heed.config.conversations import BookingsData, ConversationColumns, ConversationFiles
from heed.data.batch.pairs import PairBatch
from heed.data.batch.plan import plan_pass
from heed.data.batch.turns import TokenTurn, TurnBatch
from heed.data.embedded.bookings import sample
from heed.data.embedded.generated import SPLITS
from heed.data.examples import Conversation
from heed.data.read.conversations import conversation_reader, hold_conversations
from heed.data.read.findings import Findings
from heed.data.store.lengths import Lengths
from heed.data.store.splits import Splits, drawn_splits, open_splits
from heed.data.tokens.tokenizer import TextTokenizer
from heed.errors import DataError
from heed.tasks.base.task import Task
from heed.tasks.dialogue.config import DialogueConfig
from heed.tasks.dialogue.reading import Joined, Reading, TurnByTurn
from heed.tasks.dialogue.talk import Response, Speakers, Talk

BOTH = "both"
"""The value of `data.respond` for which the turns of every speaker are responses."""


class DialogueData(Task[DialogueConfig, Conversation]):
    """The data of a dialogue task: splits, tokens, responses, batches."""

    def __init__(
        self,
        config: DialogueConfig,
        tokenizer: TextTokenizer,
        speakers: Speakers,
        splits: Splits[Conversation] | None,
    ) -> None:
        super().__init__(config, splits)
        self.tokenizer, self.speakers = tokenizer, speakers.tagged(tokenizer)
        self._encoded: dict[str, Talk] = {}
        self._units: list[list[Response]] | None = None
        self._costs: Lengths | None = None

    @classmethod
    def open_splits(
        cls, config: DialogueConfig, given: Mapping[str, Sequence[Conversation]] | None = None
    ) -> Splits[Conversation]:
        """Read or generate the conversations, or take the `given` ones."""
        data = config.data
        if isinstance(data, BookingsData):
            sizes = {"train": data.train, "valid": data.valid, "test": data.test}
            return drawn_splits(
                {split: sample(split, sizes[split], data.seed) for split in SPLITS}, data.name, "conversations"
            )
        return open_splits(data, conversation_reader(data), given)

    @classmethod
    def hold(cls, data: Any, split: str, config: Any, findings: Findings) -> Sequence[Conversation]:
        """Conversations: each a list of turns (texts, or dicts with text and speaker), or a dict with that list."""
        section = config.data
        columns = section.columns if isinstance(section, ConversationFiles) else ConversationColumns()
        return hold_conversations(data, split, columns, findings)

    @property
    def reads_turns(self) -> bool:
        """True if the model reads turn by turn, not a joined history."""
        return self.body_class.interface == "turn_decoder"

    @property
    def reading(self) -> Reading:
        """The way in which the model reads the turns before a response."""
        return (TurnByTurn if self.reads_turns else Joined)(self.config.data, self.speakers)

    def tokenizers(self) -> dict[str, TextTokenizer]:
        """The only tokenizer."""
        return {"tokens": self.tokenizer}

    def encoded(self, split: str) -> Talk:
        """The conversations of a split as tokens."""
        if split not in self._encoded:
            self._encoded[split] = self.encode(self.splits.examples[split])
        return self._encoded[split]

    def encode(self, conversations: Sequence[Conversation]) -> Talk:
        """Conversations as tokens, and the responses in them."""
        ids = iter(self.tokenizer.encode_all([turn for one in conversations for turn in one.turns]))
        encoded = [
            [TokenTurn(next(ids), self.speakers.number(one.speaker(n))) for n in range(len(one.turns))]
            for one in conversations
        ]
        responses = [Response(n, turn) for n, one in enumerate(conversations) for turn in self.responses(one)]
        return Talk(encoded, responses)

    def responses(self, conversation: Conversation) -> list[int]:
        """Numbers of the turns that are responses: those of the speaker in `data.respond`, except the first turn."""
        respond = self.config.data.respond
        return [n for n in range(1, len(conversation.turns)) if respond in (BOTH, conversation.speaker(n))]

    @property
    def training(self) -> list[list[Response]]:
        """The responses that are trained on, in groups that are never split across batches."""
        if self._units is None:
            talk = self.encoded("train")
            self._units = self.reading.units(talk, self.reading.trained(talk))
            if not self._units:
                data = self.config.data
                what = (
                    "has a turn after its first one" if data.respond == BOTH else f"has a response of '{data.respond}'"
                )
                raise DataError(f"no training conversation {what} with at most data.max_turn {data.max_turn} tokens")
        return self._units

    @property
    def costs(self) -> Lengths:
        """The cost of each of these groups in a batch."""
        if self._costs is None:
            self._costs = self.reading.costs(self.encoded("train"), self.training)
        return self._costs

    def train_batches(self, epoch: int) -> Sequence[list[int]]:
        """The batches of one pass over the training set."""
        training = self.config.training
        return plan_pass(self.costs, training.batch_tokens, training.seed, epoch)

    def collate(self, indices: list[int], epoch: int = 0) -> PairBatch | TurnBatch:
        """One batch of the training set."""
        units = [self.training[index] for index in indices]
        return self.reading.batch(self.encoded("train"), units, indices)  # type: ignore[no-any-return]

    def work(self, indices: list[int]) -> int:
        """Padded positions of a training batch."""
        return len(indices) * int(self.costs[indices].max(0).sum())

    def describe(self, indices: list[int]) -> str:
        """Name the first of some training examples, and their number."""
        first = self.training[indices[0]][0]
        one = self.splits.examples["train"][first.conversation]
        where = one.origin or f"training conversation {first.conversation}"
        what = "conversations" if self.reads_turns else "responses"
        return f"{len(indices)} {what}, the first in {where}: {one.turns[first.turn]!r}"
