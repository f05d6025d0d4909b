"""Pretraining: documents as framed rows, the loss over masked words and pairs, their scores, a baseline for pairs."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from operator import attrgetter
from typing import Any, ClassVar, Self

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor
from torch.nn.functional import cross_entropy, log_softmax

from heed.attention.host import here, sent
from heed.config.data import Documents
from heed.config.sections import TokenizerConfig
from heed.data.batch import plan_pass
from heed.data.kinds.documents import Document
from heed.data.splits import Splits
from heed.data.tokens.tokenizer import TextTokenizer
from heed.errors import ConfigError
from heed.evaluation.measures import Array, Outcomes, rate, share, values_of
from heed.models.base import TokenEncoder
from heed.tasks.base.documents import DocumentTask, learn_tokenizer
from heed.tasks.base.report import interval, printable, with_interval
from heed.tasks.base.task import scoring_tokens
from heed.tasks.base.transfer import Started, with_parents
from heed.tasks.base.vocabulary import embedding_of
from heed.tasks.pretraining.config import PretrainingConfig, PretrainingHead
from heed.tasks.pretraining.model import Pretrainer, fill_from_neighbours
from heed.tasks.pretraining.rows import (
    FOLLOWS,
    FOLLOWS_NOT,
    NO_QUESTION,
    Cut,
    MaskedBatch,
    Masking,
    Pass,
    Passages,
    Rows,
    collate_rows,
    draw_rows,
    plain_text,
)
from heed.threads import threads_for
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
            tokenizer = tokenizer_parent.tokenizer("tokens", cls.alternatives)
        task = cls(config, tokenizer, splits).settle(parent)
        task.pass_of(0)  # refuses documents without pairs before a run folder exists
        return task

    def passages(self, split: str) -> Passages:
        """The tokens of all documents of a split."""
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
                batch = collate_rows(
                    one.passages,
                    one.rows,
                    found,
                    self.masking,
                    (self.config.training.seed, 0),
                    self.double_separator,
                    self.tokenizer.special,
                )
                read, words = (
                    " ".join(map(self.tokenizer.token, ids)) for ids in (batch.tokens[0].tolist(), batch.words.tolist())
                )
                lines += [f"  {what}", f"    {printable(read)}", *([f"    {printable(words)}"] if words else [])]
        return lines

    @property
    def options(self) -> Documents:
        """How documents are cut into rows and masked."""
        return self.config.data

    @property
    def cut(self) -> Cut:
        """How documents are cut into rows."""
        frame = 2 + self.head.next_sentence * (1 + self.double_separator)
        return Cut(self.options.max_length - frame, self.options.side_words, self.head.next_sentence)

    def as_read(self, text: str) -> str:
        """A text as the tokenizer is given it: as in training, or, in an imported run, as it is."""
        return text if self.is_imported else plain_text(text)[0]

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
        """The rows of one pass over the training documents.

        Raises:
            DataError: No document has two texts, or there is only one document.
        """
        if epoch not in self._passes:
            words = self.head.masked_words
            before = {n: held for n, held in self._passes.items() if n == epoch - 1}
            rows = Pass.of(self.passages("train"), self.cut, self.config.training.seed, epoch, words)
            self._passes = before | {epoch: rows}
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
        batch = collate_rows(
            one.passages, one.rows, indices, self.masking, seeds, self.double_separator, self.tokenizer.special
        )
        return replace(batch, pair_weight=one.pair_weight)

    def work(self, indices: list[int]) -> int:
        return len(indices) * int(self.pass_of(0).rows.lengths[indices].max())  # costs are predicted from that pass

    def describe(self, indices: list[int], epoch: int) -> str:
        one, row = self.pass_of(epoch), indices[0]
        text = self.tokenizer.decode(one.passages.ids[one.rows.first[row] : one.rows.first_end[row]].tolist())
        return f"{len(indices)} rows, the first {text[:80]!r}"

    def loss(self, model: Pretrainer, batch: MaskedBatch, label_smoothing: float) -> Loss:
        hidden = model(batch.tokens, batch.mask)
        parts: dict[str, Tensor] = {}
        if model.words is not None:
            states = model.words.states(hidden.flatten(0, 1)[batch.places])
            parts["masked"] = vocabulary_loss(states, model.words.output, batch.words, label_smoothing)
        if model.order is not None:
            asked = sent((here(batch.order) != NO_QUESTION).nonzero().squeeze(1), hidden.device)
            logits = model.order_scores(hidden, batch.mask)[asked]
            nats = cross_entropy(logits.float(), batch.order[asked], reduction="none")
            parts["next"] = batch.pair_weight * (nats * batch.shares[asked]).sum()
        return Loss(sum(parts.values()), parts)  # type: ignore[arg-type]  # there is one at least

    def validate(self, model: Pretrainer) -> dict[str, float]:
        outcomes = outcomes_of(self.scores_of(model, self.passages("valid"), self.validated_part))
        values = values_of((*outcomes.measures, *outcomes.further))
        return {"loss": sum(values[name] for name in ("masked_loss", "next_loss") if name in values), **values}

    @torch.inference_mode()
    def scores_of(
        self, model: Pretrainer, passages: Passages, part: Callable[[Sequence[int]], Sequence[int]] = lambda rows: rows
    ) -> list[DocumentScores]:
        """Score documents given as tokens: masked words in one pass, pairs, unmasked, in another.

        `part` chooses among the numbers of the rows; what is not chosen counts for nothing.
        """
        rows, size, double = self.rows_of(passages), scoring_tokens(self.config.training), self.double_separator
        was_training, device, special = model.training, next(model.parameters()).device, self.tokenizer.special
        model.eval()
        words, order = np.zeros((len(rows), 3)), np.zeros((len(rows), 3))
        try:
            if model.words is not None:
                for indices in plan_pass(rows.lengths, size, chosen=np.asarray(part(range(len(rows))))):
                    batch = collate_rows(passages, rows, indices, self.masking, _SEEDS, double, special).to(device)
                    _words(model, batch, words)
            if model.order is not None:
                asked = part(np.flatnonzero(rows.labels != NO_QUESTION))  # type: ignore[arg-type]
                for indices in plan_pass(rows.lengths, size, chosen=np.asarray(asked)):
                    batch = collate_rows(passages, rows, indices, None, _SEEDS, double, special).to(device)
                    with threads_for(model, batch.tokens.numel()):
                        logits = model.order_scores(model(batch.tokens, batch.mask), batch.mask)
                    order[indices] = answers(log_softmax(logits.double(), dim=-1).cpu().numpy(), rows.labels[indices])
        finally:
            model.train(was_training)
        return by_document(passages, rows, words, order)

    def rows_of(self, passages: Passages) -> Rows:
        """The rows in which documents are scored, always the same."""
        return draw_rows(passages, self.cut, 0, None)

    @property
    def finishing_work(self) -> float:
        tested = sum(len(self.passages(name)) for name in self.split_names if name not in ("train", "valid"))
        return 1.2 * tested / max(1, len(self.passages("valid")))


_PIECE = 2**22
"""Numbers of one piece of logits."""
_SEEDS = 0, 2**32
"""Seed and pass number for masking in scoring; no training pass has that number."""


@dataclass(frozen=True)
class DocumentScores:
    """Scores of one document by a model, or of its pairs by a baseline; 0 of 0 if not learned."""

    masked: int = 0  # number of masked words
    masked_right: int = 0  # number of masked words that had the highest score
    masked_nats: float = 0.0  # negative sum of their log-probabilities
    pairs: int = 0  # number of pairs, which are read unmasked
    pairs_right: int = 0  # number of pairs that were answered right
    pairs_nats: float = 0.0  # negative sum of the log-probabilities of the right answers
    tokens: int = 0  # number of tokens read


def _words(model: Pretrainer, batch: MaskedBatch, found: Array) -> None:
    """Add to each row its number of masked words, how many were predicted right, and their nats, `(rows, 3)`."""
    assert model.words is not None
    with threads_for(model, batch.tokens.numel()):
        states = model.words.states(model(batch.tokens, batch.mask).flatten(0, 1)[batch.places])
    owner = np.asarray(batch.indices)[(batch.places // batch.tokens.shape[1]).cpu().numpy()]
    size = max(1, _PIECE // model.words.output.weight.shape[0])
    for start in range(0, len(states), size):
        part, targets = states[start : start + size], batch.words[start : start + size]
        with threads_for(model.words, len(part)):
            scores = log_softmax(model.words.output(part).float(), dim=-1)
        nats = -scores.gather(1, targets.unsqueeze(1)).squeeze(1).double()
        right = (scores.argmax(1) == targets).double()
        each = torch.stack([torch.ones_like(nats), right, nats], dim=1).cpu().numpy()
        np.add.at(found, owner[start : start + size], each)


def by_document(passages: Passages, rows: Rows, words: Array, order: Array) -> list[DocumentScores]:
    """Sums over the rows of each document, of `(rows, 3)` counts, right answers and nats."""
    owner = passages.document_at(rows.first)
    sums = np.zeros((passages.num_documents, 7))
    np.add.at(sums, owner, np.concatenate([words, order, rows.lengths[:, None]], axis=1))
    return [DocumentScores(int(a), int(b), c, int(d), int(e), f, int(g)) for a, b, c, d, e, f, g in sums.tolist()]


def answers(scores: Array, labels: NDArray[np.int64]) -> Array:
    """For each pair 1, 1 if it was answered right, and the nats, `(pairs, 3)`, from log-probabilities."""
    nats = -scores[np.arange(len(labels)), labels]
    right = nats < -scores[np.arange(len(labels)), 1 - labels]
    return np.stack([np.ones(len(labels)), right, nats], axis=1)


WORDS, PAIRS = ("masked_accuracy", "masked_loss"), ("next_accuracy", "next_loss")
"""Measures of masked words, and of pairs."""
_WORDS, _PAIRS = ("masked words right", "nats per masked word"), ("next sentences right", "nats per pair")
"""Their labels."""


def outcomes_of(scores: Sequence[DocumentScores]) -> Outcomes:
    """Accuracies, and losses in nats per masked word and per pair; only those that the model learns.

    A pair counts for the document of its first text.
    """

    def column(name: str) -> Array:
        return np.array([*map(attrgetter(name), scores)], dtype=np.float64)

    main, further, details = [], [], {}
    for (right, nats), names, kind in ((WORDS, _WORDS, "masked"), (PAIRS, _PAIRS, "pairs")):
        counts = column(kind)
        details[kind] = int(counts.sum())
        if details[kind]:
            main.append(share(right, names[0], column(f"{kind}_right").tolist(), counts.tolist()))
            further.append(rate(nats, names[1], column(f"{kind}_nats"), counts, 3))
    return Outcomes(tuple(map(_output, scores)), tuple(main), tuple(further), details=details)


def _output(one: DocumentScores) -> str:
    parts = [f"{one.masked_right} of {one.masked} masked words"] * bool(one.masked)
    return ", ".join(parts + [f"{one.pairs_right} of {one.pairs} pairs"] * bool(one.pairs))


NAME = "word overlap and lengths"
_WORD = re.compile(r"\w+")
_MOST = 20_000
"""Largest number of training pairs that the classifier is fitted to."""
_STEPS = 30


class OverlapClassifier:
    """A logistic regression on six numbers of a pair, fitted to pairs of the training set.

    The numbers are the count of shared words, their share of all words of the two, and the distinct words and the
    characters of each text, standardised.
    """

    def __init__(self, passages: Passages, rows: Rows, decode: Callable[[Sequence[int]], str]) -> None:
        self._decode = decode
        table, labels = self._table(passages, rows, _MOST)
        self._mean, self._std = table.mean(0), table.std(0) + 1e-9
        self._weights = _fitted(self._inputs(table), labels.astype(np.float64))

    def scores(self, passages: Passages, rows: Rows) -> Array:
        """Scores, for each row: 1 if it is a pair, 1 if it was answered right, and the nats, `(rows, 3)`."""
        found = np.zeros((len(rows), 3))
        asked = np.flatnonzero(rows.labels != NO_QUESTION)
        if len(asked):
            table, labels = self._table(passages, rows, len(asked))
            logits = self._inputs(table) @ self._weights
            found[asked] = answers(-np.logaddexp(0.0, np.stack([logits, -logits], axis=1)), labels)
        return found

    def _inputs(self, table: Array) -> Array:
        return np.concatenate([(table - self._mean) / self._std, np.ones((len(table), 1))], axis=1)

    def _table(self, passages: Passages, rows: Rows, most: int) -> tuple[Array, NDArray[np.int64]]:
        """The six numbers of at most `most` pairs, evenly spaced, and their labels."""
        asked = np.flatnonzero(rows.labels != NO_QUESTION)
        asked = asked[:: max(1, -(-len(asked) // max(1, most)))]
        table = np.zeros((len(asked), 6))
        for n, row in enumerate(asked.tolist()):
            texts = [
                self._decode(passages.ids[start[row] : stop[row]].tolist()).lower()
                for start, stop in ((rows.first, rows.first_end), (rows.second, rows.second_end))
            ]
            a, b = (set(_WORD.findall(text)) for text in texts)
            both = len(a & b)
            table[n] = both, both / max(1, len(a | b)), len(a), len(b), len(texts[0]), len(texts[1])
        return table, rows.labels[asked]


def _fitted(inputs: Array, labels: Array) -> Array:
    """Fit the weights of a logistic regression by Newton's method, with a little decay."""
    weights = np.zeros(inputs.shape[1])
    decay = np.full(len(weights), 1e-3)
    for _ in range(_STEPS):
        chance = 1 / (1 + np.exp(-np.clip(inputs @ weights, -30, 30)))
        gradient = inputs.T @ (chance - labels) + decay * weights
        curvature = (inputs * (chance * (1 - chance))[:, None]).T @ inputs + np.diag(decay)
        weights -= np.linalg.solve(curvature, gradient)
    return weights


def body(report: dict[str, Any]) -> list[str]:
    """Lines with the scores of one set: masked words, and pairs."""
    lines = []
    for (right, nats), names, count in ((WORDS, _WORDS, "masked"), (PAIRS, _PAIRS, "pairs")):
        if right in report:
            lines.append(f"  {names[0]:<22} {interval(report[right])}")
            lines.append(f"  {names[1]:<22}  {with_interval(report[nats])}  of {report[count]:,}")
    return lines
