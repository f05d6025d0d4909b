"""The input and the head of pretraining: rows of one or two texts whose words are masked, losses and scores.

The rows of a pass and the masks in them are drawn from (seed, pass). Scored are always the same rows: each masked, then
each pair as it is. The loss is the sum of that of masked words and that of whether the second text follows the first.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any, ClassVar, Self, cast

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn
from torch.nn.functional import cross_entropy, log_softmax, softmax

from heed.attention.host import host_copy, sent
from heed.config.sections import with_tokenizer
from heed.data.batch import frame_size, plan_pass
from heed.data.corpus import characters_of
from heed.data.kinds import Kind
from heed.data.kinds.documents import Document
from heed.data.kinds.texts import texts_of
from heed.data.splits import Splits
from heed.data.tokens import MASK
from heed.data.tokens.tokenizer import TextTokenizer
from heed.errors import ConfigError, InputError
from heed.evaluation.measures import Array, Outcomes, rate, share, values_of
from heed.kernels import vocabulary_loss
from heed.layers import mean_pooling
from heed.layers.embeddings import MaskedWords
from heed.models.base import TokenEncoder
from heed.models.bert import ACTIVATIONS
from heed.tasks.base.predictions import Prediction
from heed.tasks.base.report import interval, printable, with_interval
from heed.tasks.base.transfer import Parent, Started
from heed.tasks.base.vocabulary import embedding_of, size_for
from heed.tasks.contracts import Batch, Draw, Facts, Head, Input, Pass
from heed.tasks.heads import judged_tokens
from heed.tasks.inputs.stream import DOCUMENTS
from heed.tasks.inputs.tokens import Tokens
from heed.tasks.pretraining.filling import (
    NextSentence,
    PretrainingHead,
    check_masks,
    check_objective,
    filled,
    objectives,
)
from heed.tasks.pretraining.rows import (
    FOLLOWS,
    FOLLOWS_NOT,
    NO_QUESTION,
    Cut,
    Masking,
    Passages,
    Rows,
    check_pairs,
    collate_rows,
    draw_rows,
    fill_from_neighbours,
    plain_text,
)
from heed.tasks.work import Work
from heed.training.contracts import Loss
from heed.training.processes import current

Question = str | tuple[str, str]
"""A text with masks, or two texts."""
_SEEDS = 0, 2**32
"""Seed and pass number for masking in scoring; no training pass has that number."""
_SHOWN = {
    FOLLOWS: "the second text follows",
    FOLLOWS_NOT: "the second text is from another document",
    NO_QUESTION: "one text",
}


def num_pieces(characters: int) -> int:
    """The vocabulary size: one piece per 4,000 characters of text, from 1,000 to 30,000."""
    return min(30_000, max(1_000, characters // 4_000 // 500 * 500))


@dataclass(frozen=True)
class TextRows(Tokens):
    """Rows of one or two texts of documents."""

    is_encoded_once: ClassVar = True
    texts_are_examples: ClassVar = True
    sampled_bytes: ClassVar = 20_000_000

    kind: Kind = DOCUMENTS

    # Data -----------------------------------------------------------------------------------------------------

    def learn(self, config: Any, splits: Splits[Document], parent: Parent | None) -> tuple[Any, Self]:
        if parent is not None:
            return config, replace(self, tokenizers={"tokens": parent.tokenizer("tokens", self.sized["tokens"].alike)})
        return super().learn(config, splits, None)

    def decided(self, texts: Sequence[str], train: Sequence[Document], usual: str = "wordpiece") -> Any:
        amount = characters_of(train)
        return with_tokenizer(self.config, usual, lambda: num_pieces(amount), words=None)

    def train_tokenizer(self, examples: Sequence[Document]) -> TextTokenizer:
        plain = [plain_text(document.text)[0] for document in examples]
        return TextTokenizer.train_to_read(plain, self.config.tokenizer, mask=True)

    def size(self, work: Work) -> str:
        return size_for(len(work.encoded("train")), {"tiny": 20_000_000, "small": 300_000_000})

    # Settling -------------------------------------------------------------------------------------------------

    @property
    def objectives(self) -> PretrainingHead:
        """The training objectives."""
        return objectives(self.config)

    @property
    def double_separator(self) -> bool:
        """True if two end tokens separate the texts of a pair."""
        return bool(self.config.model.settings.get("double_separator", False))

    @property
    def positions(self) -> int:
        """Tokens that the model can read at once, start and end tokens included."""
        return int(self.config.model.settings.get("max_length", self.config.data.max_length))

    def room(self, is_pair: bool) -> int:
        """Tokens that the model can read at once of a text, or of two."""
        return self.positions - frame_size(is_pair, self.double_separator)

    @property
    def cut(self) -> Cut:
        """How documents are cut into rows."""
        data, pairs = self.config.data, self.objectives.next_sentence
        return Cut(data.max_length - frame_size(pairs, self.double_separator), data.side_words, pairs)

    @cached_property
    def masking(self) -> Masking | None:
        """How words are masked; None if no words are masked.

        Raises:
            ConfigError: The tokenizer has no mask token.
        """
        tokenizer = self.tokenizer
        if not self.objectives.masked_words:
            return None
        if tokenizer.mask is None:
            raise ConfigError(
                "the tokenizer has no mask token, so no words can be masked; train a tokenizer here (leave "
                "tokenizer.from out), or set model.masked_words=false"
            )
        never = {*tokenizer.special, tokenizer.mask, *tokenizer.tags.values()}
        others = [i for i in range(tokenizer.vocab_size) if i not in never]
        return Masking(self.config.data, tokenizer.mask, np.array(others, dtype=np.int64))

    def fields(self, fields: dict[str, Any], work: Work) -> dict[str, Any]:
        """`max_length` of the data and, with pairs, one head that initially attends to equal tokens.

        Raises:
            ConfigError: The model does not read framed texts, or has fewer positions.
        """
        body, asked = work.body_class, work.config.data.max_length
        if not (issubclass(body, TokenEncoder) and body.framed):
            raise ConfigError(
                f"model.name is {work.config.model.name!r}, which does not put a start and an end token around a "
                "text, as pretraining needs; use bert"
            )
        positions = fields.get("max_length", asked)
        if isinstance(positions, int) and positions < asked:
            raise ConfigError(
                f"data.max_length is {asked}, but model.max_length is {positions}; raise model.max_length or "
                "lower data.max_length"
            )
        defaults = {"max_length": asked, "matching_heads": int(objectives(work.config).next_sentence)}
        model_fields = body.config_class.model_fields
        return {name: value for name, value in defaults.items() if name in model_fields and name not in fields}

    def start(self, model: Any, work: Work) -> dict[str, Started]:
        if self.objectives.first_embeddings != "neighbours" or work.parent is not None:
            return {}
        passages: Any = work.encoded("train")
        return {"embeddings": fill_from_neighbours(embedding_of(model.body), passages)}

    def leave_out(self, work: Work) -> None:
        """Nothing: documents of which no rows can be made are refused, before a run folder exists."""
        passages: Any = work.encoded("train")
        check_pairs(draw_rows(passages, self.cut, work.config.training.seed, 0), self.cut)

    # Training -------------------------------------------------------------------------------------------------

    def encode(self, examples: Sequence[Document | Question], split: str = "", **further: Any) -> Any:
        """The tokens of all documents, as `Passages`; or questions as rows."""
        if len(examples) and not isinstance(examples[0], Document):
            return self.rows_of(cast(Sequence[Question], examples))
        return Passages.of(cast(Sequence[Document], examples), self.tokenizer)

    def plan(self, work: Work, split: str, draw: Draw) -> Pass:
        """A pass over rows. Without masked words only pairs are read.

        Each pair is weighted by its number of masked words, and by a factor of the whole pass, so that over the pass,
        and about so in each batch, pairs count as much as masked words, and the weight of a pair depends neither on the
        batch nor on the process.

        Raises:
            DataError: Pairs are needed, but no document has two texts, or there is only one document.
        """
        passages: Any = work.encoded(split)
        words, rows = self.objectives.masked_words, draw_rows(passages, self.cut, *draw)
        check_pairs(rows, self.cut)
        lengths, pairs = rows.lengths, rows.labels != NO_QUESTION
        weight = float(lengths.sum()) / float(lengths[pairs].sum()) if words and pairs.any() else 1.0

        def collate(pieces: Sequence[int]) -> Batch:
            batch = self.batch(rows.select(pieces), self.masking, draw)
            return replace(batch, targets={**batch.targets, "pair_weight": weight})

        def described(pieces: Sequence[int]) -> str:
            text = self.tokenizer.decode(passages.ids[rows.first[pieces[0]] : rows.first_end[pieces[0]]].tolist())
            return f"{len(pieces)} rows, the first {text[:80]!r}"

        chosen = None if words else np.flatnonzero(pairs)
        batches = plan_pass(lengths, work.config.training.batch_tokens, *draw, chosen)
        return Pass(batches, collate, lengths.reshape(-1, 1), described=described)

    def batch(self, rows: Rows, masking: Masking | None, seeds: tuple[int, int]) -> Batch:
        """Some rows, see `collate_rows`."""
        return collate_rows(rows, masking, seeds, self.double_separator, self.tokenizer.special)

    # Scoring --------------------------------------------------------------------------------------------------

    def scored_rows(self, passages: Passages) -> Rows:
        """The rows in which documents are scored, always the same."""
        return draw_rows(passages, self.cut, 0, None)

    def scored_units(self, encoded: Any) -> Rows:
        """The rows in which documents are scored: rows with masked words, then unmasked pairs."""
        rows, objectives = self.scored_rows(encoded), self.objectives
        masked = np.arange(len(rows) * objectives.masked_words)
        pairs = np.flatnonzero((rows.labels != NO_QUESTION) & objectives.next_sentence)
        chosen = rows.select(np.concatenate([masked, pairs]))
        return replace(chosen, masked=np.arange(len(chosen)) < len(masked))

    def scoring(self, encoded: Any, tokens: int) -> list[list[int]]:
        alike = (np.flatnonzero(encoded.masked == masked) for masked in (True, False))
        return [batch for chosen in alike for batch in plan_pass(encoded.lengths, tokens, chosen=chosen)]

    def collate(self, encoded: Any, indices: list[int], draw: Draw | None) -> Batch:
        """Rows that are all masked, all pairs or all texts with masks; targets are only those of their kind."""
        rows = encoded.select(indices)
        batch = self.batch(rows, self.masking if rows.masked[0] else None, _SEEDS)
        asked, tokens = batch.targets, batch.inputs["tokens"]
        if rows.masked[0]:
            targets = {name: asked[name] for name in ("places", "words")}
        elif rows.labels[0] != NO_QUESTION:
            targets = {"order": asked["order"]}
        else:
            targets = {"places": (tokens == self.tokenizer.mask).flatten().nonzero().squeeze(1)}
        return replace(batch, indices=indices, targets=targets)

    # Questions ------------------------------------------------------------------------------------------------

    def example_of(self, text: str) -> str:
        return text

    def rows_of(self, questions: Sequence[Question]) -> Rows:
        """Texts with masks, all of which are read, or pairs, of which the parts are read where the two meet.

        Raises:
            ConfigError: The run has no head for masks or pairs; a text has no mask, or its masks lie further apart than
                the model can read; a text of a pair is blank.
        """
        rows, unread = [], []
        for question in questions:
            check_objective(self.objectives, self.tokenizer, not isinstance(question, str))
            row, gone = self._masked(question) if isinstance(question, str) else self._pair(*question)
            rows.append(row)
            unread.append(gone)
        return self.rows_joined(rows, unread)

    def rows_joined(self, rows: Sequence[Sequence[list[int]]], unread: Sequence[int]) -> Rows:
        """Rows of the tokens of one text, or of two, as they are."""
        ids = np.array([token for row in rows for text in row for token in text], dtype=np.int64)
        lengths = np.array([[len(row[0]), sum(map(len, row[1:]))] for row in rows], dtype=np.int64).reshape(-1, 2)
        ends = lengths.cumsum().reshape(-1, 2)
        starts = ends - lengths
        labels = np.array([FOLLOWS if len(row) > 1 else NO_QUESTION for row in rows], dtype=np.int64)
        passages = Passages(ids, np.zeros(len(ids), np.uint8), np.array([0, len(ids)]), np.zeros(0, np.uint8))
        places, masked = (starts[:, 0], ends[:, 0], starts[:, 1], ends[:, 1]), np.zeros(len(rows), bool)
        return Rows(passages, *places, labels, np.arange(len(rows)), masked, np.array(unread, dtype=np.int64))

    def _masked(self, text: str) -> tuple[list[list[int]], int]:
        if not text.strip():
            return [[]], 0
        check_masks(text, self.tokenizer)
        ids = self.tokenizer.encode_masked(self.as_read(text))
        row = self.window(ids)
        return [row], len(ids) - len(row)

    def window(self, ids: list[int]) -> list[int]:
        """A part of a text, with all its masks, that fits into the model's positions.

        Raises:
            ConfigError: The masks lie further apart.
        """
        room, places = self.room(is_pair=False), [n for n, token in enumerate(ids) if token == self.tokenizer.mask]
        if (span := places[-1] - places[0] + 1) > room:
            raise InputError(
                f"the masks span {span:,} tokens, but the model reads at most {room} at once; fill them one by one"
            )
        start = max(0, min(places[0] - (room - span) // 2, len(ids) - room))
        return ids[start : start + room]

    def _pair(self, first: str, second: str) -> tuple[list[list[int]], int]:
        for name, text in (("first", first), ("second", second)):
            if not text.strip():
                raise InputError(f"the {name} text of a pair is blank")
        room = self.room(is_pair=True)
        a, b = (self.tokenizer.encode(self.as_read(text)).ids for text in (first, second))
        total = len(a) + len(b)
        b = b[: max(room // 2, room - len(a))]
        a = a[max(0, len(a) + len(b) - room) :]
        return [a, b], total - len(a) - len(b)

    def as_read(self, text: str) -> str:
        """A text as it is passed to the tokenizer: prepared as in training, or unchanged in an imported run."""
        return text if getattr(self.config.data, "imported", None) is not None else plain_text(text)[0]

    def finished(self, head: Head, predictions: Sequence[Any], examples: Sequence[Any], encoded: Rows) -> list[Any]:
        unread = () if encoded.unread is None else encoded.unread.tolist()
        return [replace(prediction, unread=gone) for prediction, gone in zip(predictions, unread, strict=True)]

    def unknown_in(self, question: Question) -> list[str]:
        mask = MASK if self.tokenizer.mask is None else self.tokenizer.token(self.tokenizer.mask)
        plain = (self.as_read(text).replace(MASK, " ").replace(mask, " ") for text in texts_of(question))
        return [piece for text in plain for piece in self.tokenizer.unknown_in(text)]

    # For people -----------------------------------------------------------------------------------------------

    def samples(self, work: Any) -> Iterator[str]:
        """Rows as the model sees them in the first pass."""
        passages: Any = work.encoded("train")
        seeds = self.config.training.seed, 0
        rows = draw_rows(passages, self.cut, *seeds)
        follow, other, single = (int((rows.labels == label).sum()) for label in _SHOWN)
        pairs = f"{follow:,} pairs that follow, {other:,} that do not, {single:,} single texts"
        yield (
            f"\na pass has {len(rows):,} rows of {float(rows.lengths.mean()):.0f} tokens on average: "
            f"{pairs if follow + other else 'texts'}"
        )
        yield "\nsamples as the model sees them in the first pass; below each, the masked words to predict:"
        for label, what in _SHOWN.items():
            if len(first := rows.select(np.flatnonzero(rows.labels == label)[:1])):
                batch = self.batch(first, self.masking, seeds)
                yield f"  {what}"
                for ids in (batch.inputs["tokens"][0], batch.targets["words"]):
                    if len(ids):
                        yield f"    {printable(' '.join(map(self.tokenizer.token, ids.tolist())))}"


_PIECE = 2**22
"""Numbers of one piece of logits."""
MEASURES = {
    "masked": (("masked_accuracy", "masked words right"), ("masked_loss", "nats per masked word"), "masked words"),
    "pairs": (("next_accuracy", "next sentences right"), ("next_loss", "nats per pair"), "pairs"),
}
"""For masked words and for pairs: name and label of the accuracy, of the loss, and the unit that is counted."""


class Pretrainer(nn.Module):
    """A body that reads framed texts, and heads that are dropped when another task starts from its weights.

    Attributes:
        body: Computes a state for each token.
        words: Scores over the vocabulary at masked places; None if no words are masked.
        order: Maps one vector of the row to two scores: 0, the second text follows the first; 1, it does not. None
            without pairs.

    Source: Devlin et al. 2019 (arXiv:1810.04805), section 3.1.
    Differs from the paper: the vector is the mean of the states (`pooling`) unless [CLS] is asked for. A small model
    learns to compare two texts in minutes from their mean and not at all from [CLS]: docs/pretraining.md.
    """

    def __init__(self, body: TokenEncoder, head: PretrainingHead) -> None:
        super().__init__()
        self.body = body
        self.words: MaskedWords | None = None
        self.order: nn.Linear | None = None
        if head.masked_words:
            config, inputs = body.config, body.inputs
            activation, eps = getattr(config, "activation", "gelu"), getattr(config, "norm_eps", 1e-12)
            self.words = MaskedWords(
                inputs.embedding,  # type: ignore[union-attr, arg-type]  # of a framed body, a TokenInput
                activation=ACTIVATIONS[activation],
                eps=eps,
                tied=head.tied_output,
            )
        self.pooling = head.pooling
        if not head.next_sentence:
            body.without_last()
        else:
            self.order = nn.Linear(body.d_output, 2)
            nn.init.normal_(self.order.weight, std=0.02)
            nn.init.zeros_(self.order.bias)

    def forward(self, tokens: Tensor, mask: Tensor) -> Tensor:
        """States of framed texts `(batch, length)`, `(batch, length, d)`."""
        return self.body(tokens, mask)

    def order_scores(self, hidden: Tensor, mask: Tensor) -> Tensor:
        """Scores of both answers `(batch, 2)` from the states of pairs; needs `order`."""
        assert self.order is not None
        body = self.body
        pooled = body.pooled(mean_pooling(hidden, mask)) if self.pooling == "mean" else body.last(hidden, mask)
        return self.order(pooled)  # type: ignore[no-any-return]


def by_document(rows: Rows, judged: Any) -> Array:
    """The scores of each document, `(documents, 2, 3)`: sums of the scores of its rows, `(rows, 3)`.

    They are nats, right answers and targets, of masked words and of pairs. A pair counts for the document of its first
    text.
    """
    sums = np.zeros((rows.passages.num_documents, 2, 3))
    np.add.at(sums, (rows.passages.document_at(rows.first), np.where(rows.masked, 0, 1)), np.reshape(judged, (-1, 3)))
    return sums


def answers(scores: Array, labels: NDArray[np.int64]) -> Array:
    """For each pair the nats, 1 if it was answered right, and 1, `(pairs, 3)`, from log-probabilities."""
    nats = -scores[np.arange(len(labels)), labels]
    right = nats < -scores[np.arange(len(labels)), 1 - labels]
    return np.stack([nats, right, np.ones(len(labels))], axis=1)


def outcomes_of(scores: Any) -> Outcomes:
    """Accuracies, and losses in nats per masked word and per pair, of `by_document`; only those that are learned."""
    table, main, further, details = np.array(scores).reshape(-1, 2, 3), [], [], {}
    for (kind, (right, loss, _)), (nats, correct, counts) in zip(
        MEASURES.items(), table.transpose(1, 2, 0), strict=True
    ):
        details[kind] = int(counts.sum())
        if details[kind]:
            main.append(share(*right, correct.tolist(), counts.tolist()))
            further.append(rate(*loss, nats, counts, 3))
    units = [unit for *_, unit in MEASURES.values()]
    ratios = ([f"{right:.0f} of {count:.0f}" * (count > 0) for _, right, count in both] for both in table.tolist())
    texts = (", ".join(f"{text} {unit}" for text, unit in zip(both, units, strict=True) if text) for both in ratios)
    return Outcomes(tuple(texts), tuple(main), tuple(further), details=details)


@dataclass(frozen=True)
class Masked(Head):
    """Masked words of rows, and whether the second text of a row follows the first."""

    options: ClassVar = PretrainingHead
    names: ClassVar = "length"
    keywords: ClassVar[Mapping[str, Any]] = {"most": 5}
    is_tuned: ClassVar[bool] = False
    has_outputs: ClassVar = False

    most: int = 5
    """Candidates for each mask."""

    def settled(self, options: PretrainingHead, fields: dict[str, Any], work: Work) -> dict[str, Any]:
        if not work.is_imported:  # a checkpoint may be a body alone
            _check(options)  # the fields of a parent run may be among them
        return super().settled(options, fields, work)

    def fitted(self, work: Work) -> Self:
        words = objectives(work.config).masked_words
        return replace(super().fitted(work), targets="masked words" if words else "pairs")

    def build(self, body: Any, options: PretrainingHead, facts: Facts) -> Pretrainer:
        return Pretrainer(body, options)

    def loss(self, model: Pretrainer, states: Tensor, batch: Batch, smoothing: float) -> Loss:
        targets, parts = batch.targets, dict[str, Tensor]()
        if model.words is not None:
            masked = model.words.states(states.flatten(0, 1)[targets["places"]])
            parts["masked"] = vocabulary_loss(masked, model.words.output, targets["words"], smoothing)
        if model.order is not None:
            asked = sent((host_copy(targets["order"]) != NO_QUESTION).nonzero().squeeze(1), states.device)
            logits = model.order_scores(states, batch.inputs["mask"])[asked]
            nats = cross_entropy(logits.float(), targets["order"][asked], reduction="none")
            parts["next"] = targets["pair_weight"] * (nats * targets["shares"][asked]).sum()
        return Loss(sum(parts.values()), parts)  # type: ignore[arg-type]  # there is one at least

    # Scores ---------------------------------------------------------------------------------------------------

    def judge(self, model: Pretrainer, states: Tensor, batch: Batch) -> Tensor:
        """Nats, right answers and number of the masked words of each row, or of the pair that it is."""
        if "order" in batch.targets:
            scores = log_softmax(model.order_scores(states, batch.inputs["mask"]).double(), dim=-1)
            return torch.from_numpy(answers(scores.cpu().numpy(), batch.targets["order"].cpu().numpy()))
        assert model.words is not None
        places, words = batch.targets["places"], batch.targets["words"]
        hidden, owners = model.words.states(states.flatten(0, 1)[places]), places // states.shape[1]
        max_positions = max(1, _PIECE // model.words.output.weight.shape[0])
        return judged_tokens(model.words.output, hidden, words, owners, len(states), max_positions)

    def validated(self, work: Work, model: Any) -> dict[str, float]:
        """Both losses, their sum and both accuracies; the processes share the rows."""
        input: Any = work.input
        units: Rows = input.scored_units(work.encoded("valid"))
        masked = np.count_nonzero(units.masked)
        numbers = [*work.validated_part(range(masked)), *work.validated_part(range(masked, len(units)))]
        judged = current().map(lambda part: work.judged_units(model, units, part), numbers)
        outcomes = outcomes_of(by_document(units.select(numbers), judged))
        values = values_of((*outcomes.measures, *outcomes.further))
        return {"loss": sum(values[name] for name in ("masked_loss", "next_loss") if name in values), **values}

    def document_scores(self, run: Any, examples: Sequence[Any]) -> Array:
        """Score the masked words and pairs of each document; the second text of a pair may be of another one."""
        units = run.input.scored_units(run.input.encode(examples))
        return by_document(units, run.task.judged(run.model, units))

    def scored(self, run: Any, examples: Sequence[Any], outputs: Sequence[Any] | None, others: Any) -> Outcomes:
        outcomes = outcomes_of(self.document_scores(run, examples) if outputs is None else outputs)
        if not outcomes.measures:
            raise ConfigError(
                "nothing can be scored: no document is long enough for a pair of texts (data.side_words, "
                "data.max_length), or there is only one document"
            )
        return outcomes

    def report(self, scores: dict[str, Any]) -> list[str]:
        lines = []
        for kind, ((right, label), (loss, unit), _) in MEASURES.items():
            if right in scores:
                lines.append(f"  {label:<22} {interval(scores[right])}")
                lines.append(f"  {unit:<22}  {with_interval(scores[loss])}  of {scores[kind]:,}")
        return lines

    # Answers --------------------------------------------------------------------------------------------------

    def decode(self, model: Pretrainer, states: Tensor, batch: Batch) -> Sequence[Any]:
        """Of a pair the probability that the second text follows; else log-probabilities of all words at each mask."""
        if "order" in batch.targets:
            logits = model.order_scores(states, batch.inputs["mask"])
            probabilities: list[float] = softmax(logits.float(), dim=-1)[:, FOLLOWS].tolist()
            return probabilities
        assert model.words is not None
        places = batch.targets["places"]
        scores = log_softmax(model.words(states.flatten(0, 1)[places]).float(), dim=-1).cpu()
        counts = torch.bincount(places // states.shape[1], minlength=len(states))
        return list(scores.split(counts.tolist()))

    def predict(self, answer: Any, example: Any = None, input: Input | None = None) -> Prediction:
        if not isinstance(example, str):
            return NextSentence(example[0], example[1], answer)
        assert isinstance(input, TextRows)
        return filled(example, answer, input.tokenizer, self.most)


def with_objective(config: Any) -> Any:
    """The configuration of a new run; a ConfigError if it has no objective, as only an imported body may."""
    _check(objectives(config))
    return config


def _check(options: PretrainingHead) -> None:
    if not (options.masked_words or options.next_sentence):
        raise ConfigError("model.masked_words and model.next_sentence are both false; set one of them to true")
