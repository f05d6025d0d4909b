"""Tags of words: a head over the words' states, softmax or CRF, and predictions with entities and their places."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import chain, islice
from typing import Any, ClassVar, NamedTuple

import torch
from torch import Tensor, nn
from torch.nn.functional import cross_entropy, pad

from heed.attention.host import chosen
from heed.data.batch import DistinctWords, frame_size, pad_rows
from heed.data.corpus import Corpus, corpus_of
from heed.data.examples import Sentence, in_turn, is_entity_tag, label_order, take
from heed.data.kinds.tagged import entities, may_follow
from heed.data.splits import Splits
from heed.errors import ConfigError, suggest
from heed.evaluation.labels import entity_errors, mark_entities, score_words, tag_measures, tag_outcomes
from heed.evaluation.measures import Measure, Outcomes
from heed.layers import AffixFeatures, CharacterFeatures, LinearChainCRF
from heed.models.base import TokenEncoder
from heed.registry import learned_positions
from heed.tasks.base.head_options import TaggingHead
from heed.tasks.base.predictions import Prediction, in_line, one_line, short
from heed.tasks.base.report import interval, per_name, score_lines
from heed.tasks.contracts import Batch, Draw, Facts, Input
from heed.tasks.heads import states_of
from heed.tasks.heads.labels import Labels
from heed.tasks.inputs.words import Typed, typed
from heed.tasks.work import Work
from heed.visible import escaped

_WORD_DROPOUT = 0.1
"""Default of `model.word_dropout` with affixes."""


@dataclass(frozen=True)
class EntityPrediction:
    """One entity that a model found."""

    label: str  # its type
    text: str  # its characters
    start: int  # place of its first character in the text
    end: int  # place after its last
    probability: float  # product of the probabilities of its words' tags


@dataclass(frozen=True, repr=False)
class TagPrediction(Prediction):
    """The tags of one text; `others` are each word's next best tags with their probabilities, best first."""

    text: str  # for input given as words: the words, joined by blanks
    words: tuple[str, ...]
    spans: tuple[tuple[int, int], ...]  # the characters `(start, end)` of each word
    tags: tuple[str, ...]
    probabilities: tuple[float, ...]
    others: tuple[tuple[tuple[str, float], ...], ...]
    plain: bool  # True if the tags mark no entities

    def __repr__(self) -> str:
        if self.plain:
            return f"<{short(self.summary())[1:-1]}>"
        texts = "; ".join(f"{short(entity.text)} {entity.label} {entity.probability:.3f}" for entity in self.entities)
        return f"<{texts or 'no entity'}>"

    def rows(self) -> list[dict[str, Any]]:
        columns = zip(self.words, self.spans, self.tags, self.probabilities, strict=True)
        return [
            {"word": word, "start": start, "end": end, "tag": tag, "probability": p}
            for word, (start, end), tag, p in columns
        ]

    @property
    def entities(self) -> tuple[EntityPrediction, ...]:
        """The entities, in order."""
        if self.plain:
            return ()
        predictions = []
        for label, first, stop in entities(self.tags):
            start, end = self.spans[first][0], self.spans[stop - 1][1]
            probability = math.prod(self.probabilities[first:stop])
            predictions.append(EntityPrediction(label, self.text[start:end], start, end, probability))
        return tuple(predictions)

    @property
    def uncertainty(self) -> float:
        """1 - the geometric mean of the tags' probabilities; 1 for a blank text.

        Source: Shen et al. 2018 (arXiv:1707.05928), section 4, "maximum normalized log-probability".
        """
        if not self.words:
            return 1.0
        return 1.0 - math.exp(sum(math.log(max(p, 1e-30)) for p in self.probabilities) / len(self.words))

    def summary(self) -> str:
        """Entities as `start-end label probability text`, separated by tabs; plain tags as `word/tag`."""
        if self.plain:
            return " ".join(f"{word}/{in_line(tag)}" for word, tag in zip(self.words, self.tags, strict=True))
        return "\t".join(
            f"{e.start}-{e.end} {in_line(e.label)} {e.probability:.3f} {' '.join(e.text.split())}"
            for e in self.entities
        )

    def lines(self, source: str, options: Mapping[str, Any]) -> tuple[str, ...]:
        line = self.summary()
        if options.get("sort"):
            line = "\t".join([f"{self.uncertainty:.4f}", one_line(source), line])
        return (line,)

    def values(self) -> dict[str, Any]:
        words = [{"text": row.pop("word"), **row} for row in self.rows()]
        return {"words": words, "entities": [*map(vars, self.entities)]}


class TagHead(nn.Module):
    """Tags each word independently: `softmax(V h + b)`. Shapes: W words, K tags."""

    def __init__(self, d: int, labels: Sequence[str], entities: bool = False) -> None:
        super().__init__()
        self.output = nn.Linear(d, len(labels))

    def loss(self, hidden: Tensor, tags: Tensor, mask: Tensor, label_smoothing: float) -> Tensor:
        """Sum over the words of the negative log-likelihood in nats, with label smoothing if the head supports it.

        `hidden` is `(batch, W, d)`; `tags` and `mask` are `(batch, W)`, real words first.
        """
        logits = self.output(chosen(hidden, mask)).float()
        return cross_entropy(logits, chosen(tags, mask), reduction="sum", label_smoothing=label_smoothing)

    def nats(self, hidden: Tensor, tags: Tensor, mask: Tensor) -> Tensor:
        """The negative log-likelihood of each sentence, `(batch,)`; arguments as of `loss`."""
        each = cross_entropy(self.output(hidden).float().transpose(1, 2), tags, reduction="none")
        return (each.double() * mask).sum(1)

    def decode(self, hidden: Tensor, mask: Tensor) -> tuple[Tensor, Tensor]:
        """The best tags `(batch, W)`, and the probability of every tag of every word `(batch, W, K)`."""
        probabilities = torch.softmax(self.output(hidden).float(), dim=-1)
        return probabilities.argmax(-1), probabilities


class CrfHead(TagHead):
    """Tags all words of a sentence jointly: a linear-chain CRF over `V h + b`.

    If the tags mark entities in BIO, only legal sequences are allowed: I-x follows only B-x or I-x.
    """

    def __init__(self, d: int, labels: Sequence[str], entities: bool) -> None:
        super().__init__(d, labels)
        self.crf = crf_of(labels, entities)

    def loss(self, hidden: Tensor, tags: Tensor, mask: Tensor, label_smoothing: float) -> Tensor:
        return self.nats(hidden, tags, mask).sum()

    def nats(self, hidden: Tensor, tags: Tensor, mask: Tensor) -> Tensor:
        emissions = self.output(hidden).float()
        return self.crf.log_partition(emissions, mask) - self.crf.score(emissions, tags, mask)

    def decode(self, hidden: Tensor, mask: Tensor) -> tuple[Tensor, Tensor]:
        emissions = self.output(hidden).float()
        return self.crf.best(emissions, mask), self.crf.marginals(emissions, mask)


def crf_of(labels: Sequence[str], entities: bool) -> LinearChainCRF:
    """A CRF of equal scores; if tags mark entities in BIO, without those for illegal sequences."""
    return LinearChainCRF(
        torch.tensor([not entities or may_follow(None, tag) for tag in labels]),
        torch.tensor([[not entities or may_follow(before, tag) for tag in labels] for before in labels]),
    )


TAG_HEADS: dict[str, type[TagHead]] = {"softmax": TagHead, "crf": CrfHead}
"""Heads by name: each is built from the width of the states, the tag names, and True if they are BIO."""


class Tagger(nn.Module):
    """A body that reads tokens, and optionally features of words, with a head over the words' states.

    The state of a word is the mean of its tokens' states, or that of its first token. Texts are framed for a body that
    reads framed texts. A sentence longer than a table of learned positions is read in pieces.

    With a delay of n, the state of token t is the body's state at token t + n; n end tokens are appended to the text.

    Source: Graves and Schmidhuber 2005, "Framewise phoneme classification", for the delay.
    """

    def __init__(self, body: TokenEncoder, options: TaggingHead, facts: Facts, in_bio: bool) -> None:
        """`in_bio`: only legal sequences of tags are possible, for a CRF."""
        super().__init__()
        assert facts.special is not None
        self.delay, self.word, self.special = options.delay, options.word, facts.special
        self.word_dropout = options.word_dropout or 0.0
        self.body = body
        self._positions = learned_positions(body.config_class, vars(body.config))
        self.characters: CharacterFeatures | AffixFeatures | None = None
        if rows := facts.rows.get("characters"):
            if options.characters == "cnn":
                self.characters = CharacterFeatures(len(rows), options.d_character, options.num_filters)
            else:
                self.characters = AffixFeatures(len(rows), options.num_filters)
        self.head = TAG_HEADS[options.head](body.d_output, facts.rows["labels"], in_bio)
        body.without_last()

    def forward(
        self, tokens: Tensor, mask: Tensor, word_of: Tensor | None, word_mask: Tensor, characters: DistinctWords | None
    ) -> Tensor:
        """States of the words, `(batch, words, d_output)`.

        Args:
            tokens: `(batch, length)`.
            mask: `(batch, length)`, True on real tokens.
            word_of: `(batch, length)`, the word that each token belongs to; None if every word is one token.
            word_mask: `(batch, words)`, True on real words.
            characters: The characters of the words, for a model that reads them.
        """
        features = None
        if self.training and self.word_dropout:
            left_out = torch.rand(mask.shape, device=mask.device) < self.word_dropout
            tokens = tokens.masked_fill(mask & left_out, self.special.unseen)
        if self.characters is not None:
            assert characters is not None
            features = self.characters(characters.groups, characters.place)  # (B, W, num_filters)
            if word_of is not None:
                features = features.gather(1, word_of.unsqueeze(-1).expand(-1, -1, features.shape[-1]))
        hidden = self._states(tokens, mask, features)  # (B, T, d_output)
        if word_of is None:
            return hidden
        if self.word == "first":
            mask = mask & (word_of != pad(word_of, (1, 0), value=-1)[:, :-1])
        parts = mask.to(hidden.dtype).unsqueeze(-1)
        place = word_of.unsqueeze(-1)
        sums = hidden.new_zeros(*word_mask.shape, hidden.shape[-1])
        sums = sums.scatter_add(1, place.expand_as(hidden), hidden * parts)
        counts = hidden.new_zeros(*word_mask.shape, 1).scatter_add(1, place, parts)
        return sums / counts.clamp_min(1.0)

    def _states(self, tokens: Tensor, mask: Tensor, features: Tensor | None) -> Tensor:
        """The state used for each token, after framing and delay, `(batch, length, d_output)`."""
        if not self.delay:
            max_tokens = self._positions or tokens.shape[1]
            if self.body.framed:
                max_tokens = int(self.body.config.max_length) - frame_size(False)  # type: ignore[attr-defined]
            pieces = [None] * -(-tokens.shape[1] // max_tokens) if features is None else features.split(max_tokens, 1)
            parts = zip(tokens.split(max_tokens, 1), mask.split(max_tokens, 1), pieces, strict=True)
            states = [states_of(self.body, *part, self.special, further) for *part, further in parts]  # type: ignore[call-arg]
            return states[0] if len(states) == 1 else torch.cat(states, dim=1)
        read = pad(mask, (self.delay, 0), value=True)  # the added tokens are real
        ended = pad(tokens, (0, self.delay)).masked_fill(read & ~pad(mask, (0, self.delay)), self.special.end)
        if features is not None:
            features = pad(features * mask.unsqueeze(-1), (0, 0, 0, self.delay))
        return self.body(ended, read, features)[:, self.delay :]


class Tagged(NamedTuple):
    """The numbers of the tags of a sentence, and the probability of every tag of every word, `(words, tags)`."""

    tags: Sequence[int]
    probabilities: Tensor


class Truths(NamedTuple):
    """The numbers of the tags of each sentence, -1 for a tag never seen in training, and the sentences."""

    tags: Corpus[list[int]]
    sentences: Sequence[Sentence]


_ERRORS = 100
"""Largest number of errors in a report."""


@dataclass(frozen=True)
class Tags(Labels):
    """A tag for each word. The B- and I- of every type of entities are known, though training has only one of them."""

    options: ClassVar = TaggingHead
    names: ClassVar = "tags"
    numbered: ClassVar = "sentence"
    per_token: ClassVar = True

    targets: str = "words"

    @property
    def select(self) -> str:  # type: ignore[override]
        return "accuracy" if self.plain else "entity_f1"

    @property
    def plain(self) -> bool:
        """True if the tags mark no entities."""
        return not any(is_entity_tag(label) for label in self.labels)

    @property
    def in_bio(self) -> bool:
        """True if only legal sequences of tags are possible; plain tags are used unchanged."""
        return not self.plain and self.config.data.scheme != "plain"

    @property
    def decides(self) -> bool:  # type: ignore[override]
        """True for a CRF, which gives an ensemble a legal sequence of tags."""
        return bool(self.chosen.head == "crf")

    def learned_labels(self, config: Any, splits: Splits[Any]) -> list[str]:
        labels = super().learned_labels(config, splits)
        types = {label[2:] for label in labels if is_entity_tag(label)}
        return label_order({*labels, *(f"{letter}-{kind}" for letter in "BI" for kind in types)})

    def learn(self, config: Any, splits: Splits[Any]) -> tuple[Any, Any]:
        head: Any
        config, head = super().learn(config, splits)
        labels = {*head.labels}
        for sentence in splits.examples["valid"]:
            if not labels.issuperset(sentence.tags):
                head._refuse(sentence)
        return config, head

    def settled(self, options: TaggingHead, fields: dict[str, Any], work: Work) -> dict[str, Any]:
        if work.config.evaluation.select_by == "entity_f1" and self.plain:
            raise ConfigError("evaluation.select_by is entity_f1, but the tags mark no entities; use accuracy")
        body = work.body_class
        if options.delay and issubclass(body, TokenEncoder) and body.framed:
            name = work.config.model.name
            raise ConfigError(
                f"model.delay is {options.delay}, but model {name} sees the whole text; remove model.delay"
            )
        if options.head not in TAG_HEADS:
            raise ConfigError(f"model.head is '{options.head}'{suggest(options.head, TAG_HEADS)}")
        if options.head == "crf" and work.config.training.label_smoothing:
            raise ConfigError("training.label_smoothing does not apply to model.head crf; remove the field")
        used = _WORD_DROPOUT if options.characters == "affixes" else 0.0
        return options.model_dump() | ({"word_dropout": used} if options.word_dropout is None else {})

    # Truths -------------------------------------------------------------------------------------------------------

    def encode(self, examples: Sequence[Sentence], input: Input | None = None) -> Truths:
        number = {label: n for n, label in enumerate(self.labels)}
        chunks = lambda: ([[[number.get(tag, -1) for tag in e.tags]] for e in some] for some in in_turn(examples))  # noqa: E731
        return Truths(corpus_of(examples, chunks, ["<i4"], _alone, labels=self.labels), examples)

    def collate(self, truths: Truths, batch: Batch, draw: Draw | None) -> Batch:
        rows = take(truths.tags, batch.rows)
        for number, tags in zip(batch.rows, rows, strict=True):
            if -1 in tags:  # only a test set may have unknown tags
                self._refuse(truths.sentences[number])
        return replace(batch, targets={"tags": pad_rows(rows)[0]}, num_targets=sum(map(len, rows)))

    def notes(self, work: Work) -> list[str]:
        return []

    def _refuse(self, sentence: Sentence) -> None:
        """Refuse a sentence with a tag that the labels lack."""
        for tag in sentence.tags:
            self.number(tag, sentence.origin)

    # The model ----------------------------------------------------------------------------------------------------

    def build(self, body: Any, options: TaggingHead, facts: Facts) -> Tagger:
        return Tagger(body, options, facts, self.in_bio)

    def loss(self, model: Tagger, states: Tensor, batch: Batch, smoothing: float) -> Tensor:
        return model.head.loss(states, batch.targets["tags"], batch.inputs["word_mask"], smoothing)

    def judge(self, model: Tagger, states: Tensor, batch: Batch) -> Tensor:
        mask = batch.inputs["word_mask"]
        nats = model.head.nats(states, batch.targets["tags"], mask).double()
        return torch.stack([nats, torch.zeros_like(nats), mask.sum(1).double()], dim=1)

    def decode(self, model: Tagger, states: Tensor, batch: Batch) -> Sequence[Tagged]:
        mask = batch.inputs["word_mask"]
        best, probabilities = (tensor.cpu() for tensor in model.head.decode(states, mask))
        rows = zip(best, probabilities.float(), mask.sum(1).tolist(), strict=True)
        return [Tagged(tags[:count].tolist(), each[:count]) for tags, each, count in rows]

    # Answers ------------------------------------------------------------------------------------------------------

    def together(self, answers: Sequence[Tagged]) -> Tagged:
        """The tags of the largest mean probabilities; of a CRF, the legal sequence with their largest product."""
        mean = torch.stack([answer.probabilities for answer in answers]).mean(0)
        if not self.decides or not len(mean):
            return Tagged(mean.argmax(-1).tolist(), mean)
        everything = torch.ones(1, len(mean), dtype=torch.bool)
        best = crf_of(self.labels, self.in_bio).best(mean.clamp_min(1e-30).log().unsqueeze(0), everything)
        return Tagged(best[0].tolist(), mean)

    def predict(
        self, answer: Tagged, example: Sentence | Typed | None = None, input: Input | None = None
    ) -> TagPrediction:
        assert example is not None
        sentence = typed(example)
        rows, ranked = answer.probabilities.tolist(), answer.probabilities.argsort(-1, descending=True)[:, :3].tolist()
        others = tuple(
            tuple((self.labels[i], row[i]) for i in best if i != tag)[:2]
            for row, best, tag in zip(rows, ranked, answer.tags, strict=True)
        )
        tags = tuple(self.labels[tag] for tag in answer.tags)
        of_tags = tuple(row[tag] for row, tag in zip(rows, answer.tags, strict=True))
        return TagPrediction(sentence.text, sentence.words, tuple(sentence.spans), tags, of_tags, others, self.plain)

    # For people ---------------------------------------------------------------------------------------------------

    def counted(self, examples: Sequence[Sentence]) -> dict[str, int]:
        """How often each tag occurs."""
        return {**dict.fromkeys(self.labels, 0), **Counter(tag for example in examples for tag in example.tags)}

    # Scores -------------------------------------------------------------------------------------------------------

    def measures(self, predictions: Sequence[TagPrediction], examples: Sequence[Sentence]) -> Sequence[Measure]:
        entity_f1, *others = tag_measures([e.tags for e in examples], [p.tags for p in predictions], self.plain)
        return [*others[-1:], entity_f1]  # of plain tags, accuracy alone

    def outcomes(
        self, predictions: Sequence[TagPrediction], examples: Sequence[Sentence], input: Input, others: Any = None
    ) -> Outcomes:
        """The outcomes; `others` is True if any compared run has tags that mark no entities."""
        plain, evaluation = self.plain if others is None else others, self.config.evaluation
        words, true, predicted = [e.words for e in examples], [e.tags for e in examples], [p.tags for p in predictions]
        outcomes = tag_outcomes([*map(mark_entities, words, predicted)], true, predicted, plain)
        if evaluation.words:
            outcomes.details["per_word"] = score_words(words, true, predicted, evaluation.words, evaluation.bootstrap)
        if never := {*chain(*true)} - {*self.labels}:
            outcomes.details["never_seen"] = sorted(never)
        if plain:  # the most frequent confusions
            pairs = zip(chain(*true), chain(*predicted), strict=True)
            confused = Counter((t, p) for t, p in pairs if t != p).most_common(_ERRORS)
            errors: Any = ({"true": t, "predicted": p, "count": count} for (t, p), count in confused)
        else:
            errors = (
                {
                    "origin": example.origin,
                    "kind": error.kind,
                    "true": error.true[0] if error.true else "",
                    "predicted": error.predicted[0] if error.predicted else "",
                    "context": error.context(example.words),
                }
                for example, tags in zip(examples, predicted, strict=True)
                for error in entity_errors(example.tags, tags)
            )
        outcomes.details["errors"] = [*islice(errors, _ERRORS)]
        return outcomes

    def report(self, scores: dict[str, Any]) -> list[str]:
        labels = {name: name for name in ("words", "entity_f1", "precision", "recall", "accuracy")}
        lines = score_lines(scores, labels | {"entity_f1": "entity F1", "accuracy": "accuracy of tags"})
        lines += per_name(scores, "type" if "per_type" in scores else "tag")
        for word, values in scores.get("per_word", {}).items():
            lines.append(f"  the word {word!r:<11} {interval(values['accuracy'])}  ({values['support']:,} times)")
        if never := scores.get("never_seen"):
            lines.append(f"  never seen in training, so never predicted: {', '.join(map(escaped, never))}")
        return lines


def _alone(rows: Sequence[Any]) -> list[list[int]]:
    """The only row of each sentence."""
    return [tags for (tags,) in rows]
