"""Pretraining: documents as framed rows, masked words and pairs of texts, the loss over both."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import cached_property
from typing import Any, ClassVar, Self

import numpy as np
from torch import Tensor
from torch.nn.functional import cross_entropy

from heed.config.sections import TokenizerConfig
from heed.data.batch.plan import plan_pass
from heed.data.embedded.generated import SPLITS
from heed.data.embedded.texts import draw_stories
from heed.data.kinds.documents import Document
from heed.data.splits.documents import open_documents
from heed.data.splits.splits import Splits, drawn_splits
from heed.data.tokens.tokenizer import TextTokenizer
from heed.errors import ConfigError
from heed.evaluation.measures import values_of
from heed.models.base import TokenEncoder
from heed.tasks.base.documents import DocumentTask, learn_tokenizer
from heed.tasks.base.report import printable
from heed.tasks.base.transfer import Started, with_parents
from heed.tasks.base.vocabulary import embedding_of
from heed.tasks.pretraining.batch import MaskedBatch, Masking, Pass, collate_rows
from heed.tasks.pretraining.config import PretrainingConfig, PretrainingHead, RowOptions, StoriesData
from heed.tasks.pretraining.model import Pretrainer, fill_from_neighbours
from heed.tasks.pretraining.passages import (
    FOLLOWS,
    FOLLOWS_NOT,
    NO_QUESTION,
    Cut,
    Passages,
    Rows,
    draw_rows,
    plain_text,
)
from heed.tasks.pretraining.scoring import DocumentScores, outcomes_of, score_passages
from heed.training.contracts import Loss
from heed.training.loss import vocabulary_loss


def num_pieces(characters: int) -> int:
    """The vocabulary size: one piece per 4,000 characters of text, from 1,000 to 30,000."""
    return min(30_000, max(1_000, characters // 4_000 // 500 * 500))


_SHOWN = {
    FOLLOWS: "the second text follows",
    FOLLOWS_NOT: "the second text is from another document",
    NO_QUESTION: "one text",
}


def _trained(texts: list[str], section: TokenizerConfig) -> TextTokenizer:
    return TextTokenizer.train_to_read([plain_text(text)[0] for text in texts], section, mask=True)


class Pretraining(DocumentTask[PretrainingConfig]):
    """The task: where documents, model, losses and scores meet."""

    interfaces = ("encoder",)
    head_class = PretrainingHead
    tokens_of_size: ClassVar = {"tiny": 20_000_000, "small": 300_000_000}
    alternatives: ClassVar = {"tokens": ("tokens", "source", "target")}

    def __init__(self, config: PretrainingConfig, tokenizer: TextTokenizer, splits: Splits[Document] | None) -> None:
        super().__init__(config, tokenizer, splits)
        self._passages: dict[str, Passages] = {}
        self._passes: dict[int, Pass] = {}

    # Data -----------------------------------------------------------------------------------------------------

    @classmethod
    def prepare(cls, config: PretrainingConfig, given: Mapping[str, Sequence[Document]] | None = None) -> Self:
        """Read or take the documents, train the tokenizer, and set the fields that depend on the data.

        Raises:
            ConfigError, DataError: The configuration or the data cannot be used.
        """
        config, parent, tokenizer_parent = with_parents(config, cls)
        if not any((config.model.model_extra or {}).get(name, True) for name in ("masked_words", "next_sentence")):
            raise ConfigError("model.masked_words and model.next_sentence are both false; set one of them to true")
        splits = cls.read_splits(config, given)
        if tokenizer_parent is None:
            config, tokenizer, remark = learn_tokenizer(
                config, splits.examples["train"], lambda size: "wordpiece", num_pieces, _trained, to="pretrain"
            )
            splits.remarks += [remark] if remark else []
        else:
            tokenizer = tokenizer_parent.tokenizer("tokens", cls)
        task = cls(config, tokenizer, splits).settle(parent)
        if splits.stream is None:
            task.pass_of(0)  # refuses documents without pairs before a run folder exists
        return task

    @classmethod
    def open_splits(
        cls, config: PretrainingConfig, given: Mapping[str, Sequence[Document]] | None = None
    ) -> Splits[Document]:
        if isinstance(data := config.data, StoriesData):
            drawn: dict[str, list[Document]] = {
                split: draw_stories(split, getattr(data, split), data.seed) for split in SPLITS
            }
            return drawn_splits(drawn, data.name, "documents")
        return open_documents(data, given)

    def passages(self, split: str) -> Passages:
        """The tokens of all documents of a split; for a stream, those of its newest window."""
        if split == "train" and self.splits.stream is not None:
            return self.pass_of(self.splits.stream.newest).passages
        if split not in self._passages:
            self._passages[split] = Passages.of(self.splits.examples[split], self.tokenizer)
        return self._passages[split]

    encoded = passages

    def samples(self) -> list[str]:
        one = self.pass_of(0)
        follow, other, single = (int((one.rows.labels == label).sum()) for label in _SHOWN)
        pairs = f"{follow:,} pairs that follow, {other:,} that do not, {single:,} single texts"
        lines = [
            f"\na pass has {len(one.rows):,} rows of {float(one.rows.lengths.mean()):.0f} tokens on average: "
            f"{pairs if follow + other else 'texts'}",
            "\nsamples as the model sees them in the first pass; below each, the masked words to predict:",
        ]
        for label, what in _SHOWN.items():
            found = np.flatnonzero(one.rows.labels == label)[:1].tolist()
            if found:
                batch = collate_rows(one.passages, one.rows, found, self.masking, (self.config.training.seed, 0))
                read, words = (
                    " ".join(map(self.tokenizer.token, ids)) for ids in (batch.tokens[0].tolist(), batch.words.tolist())
                )
                lines += [f"  {what}", f"    {printable(read)}", *([f"    {printable(words)}"] if words else [])]
        return lines

    @property
    def options(self) -> RowOptions:
        """How documents are cut into rows and masked."""
        return self.config.data

    @property
    def cut(self) -> Cut:
        """How documents are cut into rows."""
        frame = 2 + self.head.next_sentence * (1 + self.double_separator)
        return Cut(self.options.max_length - frame, self.options.side_words, self.head.next_sentence)

    @property
    def double_separator(self) -> bool:
        """True if two end tokens separate the texts of a pair."""
        return bool((self.config.model.model_extra or {}).get("double_separator", False))

    @property
    def positions(self) -> int:
        """Tokens that the model can read at once, start and end tokens included."""
        return int((self.config.model.model_extra or {}).get("max_length", self.options.max_length))

    @cached_property
    def masking(self) -> Masking | None:
        """How words are masked; None if no words are masked.

        Raises:
            ConfigError: The tokenizer has no mask token.
        """
        if not self.head.masked_words:
            return None
        return Masking.of(self.options, self.tokenizer)

    def pass_of(self, epoch: int) -> Pass:
        """The rows of one pass over the training documents; each window of a stream is one pass.

        Raises:
            DataError: No document has two texts, or there is only one document.
        """
        if epoch not in self._passes:
            stream = self.splits.stream
            window = None if stream is None else Passages.of(stream.window(epoch), self.tokenizer)
            passages = self.passages("train") if window is None else window
            words = self.head.masked_words
            before = {n: held for n, held in self._passes.items() if n == epoch - 1}
            self._passes = before | {epoch: Pass.of(passages, self.cut, self.config.training.seed, epoch, words)}
        return self._passes[epoch]

    # Model ----------------------------------------------------------------------------------------------------

    def count_of(self, kind: str) -> int:
        return self.tokenizer.vocab_size

    def fields_from_data(self, given: dict[str, Any]) -> dict[str, Any]:
        """Set as many positions as a row has and, with pairs, one head that initially attends to equal tokens.

        Raises:
            ConfigError: The model does not read framed texts, or has fewer positions.
        """
        body = self.body_class
        if not (issubclass(body, TokenEncoder) and body.framed):
            raise ConfigError(
                f"model.name is {self.config.model.name!r}, which does not put a start and an end token around a "
                "text, as pretraining needs; use bert"
            )
        asked, positions = self.options.max_length, given.get("max_length", self.options.max_length)
        if isinstance(positions, int) and positions < asked:
            raise ConfigError(
                f"data.max_length is {asked}, but model.max_length is {positions}; raise model.max_length or "
                "lower data.max_length"
            )
        fields = {"max_length": asked, "matching_heads": int(self.head.next_sentence)}
        own = body.config_class.model_fields
        return {name: value for name, value in fields.items() if name in own and name not in given}

    @property
    def head(self) -> PretrainingHead:
        """The fields of the head."""
        fields = self.config.model.model_extra or {}
        return PretrainingHead(**{name: fields[name] for name in PretrainingHead.model_fields if name in fields})

    def start(self, model: Pretrainer) -> dict[str, Started]:
        started: dict[str, Started] = {}
        table = embedding_of(model.body)
        if self.head.first_embeddings == "neighbours" and self.parent is None:
            started["embeddings"] = fill_from_neighbours(table, self.passages("train"))
        return {**started, **super().start(model)}

    def axes(self) -> dict[str, list[str]]:
        return {"tokens": self.tokenizer.tokens}

    def build_model(self) -> Pretrainer:
        config, head = self.model_and_head()
        body = self.body_class(config)
        assert isinstance(body, TokenEncoder)
        return Pretrainer(body, head)

    # What the training loop needs -----------------------------------------------------------------------------

    @property
    def targets(self) -> str:  # type: ignore[override]  # by what is learned
        """Name of a batch's targets."""
        return "masked words" if self.head.masked_words else "pairs"

    def train_batches(self, epoch: int) -> Sequence[list[int]]:
        training = self.config.training
        rows = self.pass_of(epoch).rows
        asked = None if self.head.masked_words else np.flatnonzero(rows.labels != NO_QUESTION)
        return plan_pass(rows.lengths, training.batch_tokens, training.seed, epoch, asked)

    def collate(self, indices: list[int], epoch: int = 0) -> MaskedBatch:
        one = self.pass_of(epoch)
        seeds = self.config.training.seed, epoch
        return collate_rows(one.passages, one.rows, indices, self.masking, seeds, self.double_separator)

    def work(self, indices: list[int]) -> int:
        return len(indices) * int(self._newest.rows.lengths[indices].max())

    @property
    def _newest(self) -> Pass:
        return self.pass_of(max(self._passes, default=0))

    def describe(self, indices: list[int]) -> str:
        one = self._newest
        row = indices[0]
        text = self.tokenizer.decode(one.passages.ids[one.rows.first[row] : one.rows.first_end[row]].tolist())
        return f"{len(indices)} rows, the first {text[:80]!r}"

    def loss(self, model: Pretrainer, batch: MaskedBatch, label_smoothing: float) -> Loss:
        hidden = model(batch.tokens, batch.mask)
        parts: dict[str, Tensor] = {}
        if model.words is not None:
            states = model.words.states(hidden.flatten(0, 1)[batch.places])
            parts["masked"] = vocabulary_loss(states, model.words.output, batch.words, label_smoothing)
        if model.order is not None:
            asked = batch.order != NO_QUESTION
            logits = model.order_scores(hidden, batch.mask)[asked]
            nats = cross_entropy(logits.float(), batch.order[asked], reduction="none")
            parts["next"] = self._newest.pair_weight * (nats * batch.shares[asked]).sum()
        return Loss(sum(parts.values()), parts)  # type: ignore[arg-type]  # there is one at least

    def validate(self, model: Pretrainer) -> dict[str, float]:
        outcomes = outcomes_of(self.scores_of(model, self.passages("valid")))
        values = values_of((*outcomes.measures, *outcomes.further))
        return {"loss": sum(values[name] for name in ("masked_loss", "next_loss") if name in values), **values}

    def scores_of(self, model: Pretrainer, passages: Passages) -> list[DocumentScores]:
        """Score documents given as tokens."""
        rows, size = self.rows_of(passages), 4 * self.config.training.batch_tokens
        return score_passages(model, passages, rows, self.masking, self.double_separator, size)

    def rows_of(self, passages: Passages) -> Rows:
        """The rows in which documents are scored, always the same."""
        return draw_rows(passages, self.cut, 0, None)

    @property
    def finishing_work(self) -> float:
        tested = sum(len(self.passages(name)) for name in self.split_names if name not in ("train", "valid"))
        return 1.2 * tested / max(1, len(self.passages("valid")))
