"""Tags of words: a head over the words' states, softmax or CRF, and predictions with entities and their places."""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, ClassVar, Literal, NamedTuple, Self

import torch
from torch import Tensor, nn
from torch.nn.functional import cross_entropy, pad

from heed.attention.host import chosen
from heed.data.batch import DistinctWords, frame_size, framed, framed_features, pad_rows, unframed
from heed.data.corpus import Corpus, corpus_of
from heed.data.examples import Sentence, in_turn, is_entity_tag, take
from heed.data.kinds.tagged import entities, may_follow
from heed.data.splits import Splits
from heed.data.tokens.special import Special
from heed.errors import ConfigError, suggest
from heed.layers import AffixFeatures, CharacterFeatures, LinearChainCRF
from heed.models.base import TokenEncoder
from heed.registry import learned_positions
from heed.tasks.base.head_options import TaggingHead
from heed.tasks.base.labels import (
    check_labels,
    difference,
    label_lines,
    library_memory,
    load_labels,
    number_of,
    save_labels,
)
from heed.tasks.base.predictions import Prediction, in_line, one_line, short
from heed.tasks.contracts import Batch, Draw, Facts, Head, Input, Rows
from heed.tasks.heads.labels import labels_in
from heed.tasks.inputs.words import Typed, typed
from heed.tasks.work import Work

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
        found = "; ".join(f"{short(one.text)} {one.label} {one.probability:.3f}" for one in self.entities)
        return f"<{found or 'no entity'}>"

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
        found = []
        for label, first, stop in entities(self.tags):
            start, end = self.spans[first][0], self.spans[stop - 1][1]
            probability = math.prod(self.probabilities[first:stop])
            found.append(EntityPrediction(label, self.text[start:end], start, end, probability))
        return tuple(found)

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

    def lines(self, given: str, options: Mapping[str, Any]) -> tuple[str, ...]:
        line = self.summary()
        if options.get("sort"):
            line = "\t".join([f"{self.uncertainty:.4f}", one_line(given), line])
        return (line,)

    def as_json(self) -> dict[str, Any]:
        words = [{"text": row.pop("word"), **row, "probability": round(row["probability"], 6)} for row in self.rows()]
        entities = [{**vars(e), "probability": round(e.probability, 6)} for e in self.entities]
        return {"words": words, "entities": entities}


class TagHead(nn.Module, ABC):
    """Maps the states of words to tags. Shapes: W words, K tags."""

    @abstractmethod
    def loss(self, hidden: Tensor, tags: Tensor, mask: Tensor, label_smoothing: float) -> Tensor:
        """Sum over the words of the negative log-likelihood in nats, with label smoothing if the head supports it.

        `hidden` is `(batch, W, d)`; `tags` and `mask` are `(batch, W)`, real words first.
        """

    @abstractmethod
    def decode(self, hidden: Tensor, mask: Tensor) -> tuple[Tensor, Tensor]:
        """The best tags `(batch, W)`, and the probability of every tag of every word `(batch, W, K)`."""

    @abstractmethod
    def nats(self, hidden: Tensor, tags: Tensor, mask: Tensor) -> Tensor:
        """The negative log-likelihood of each sentence, `(batch,)`; arguments as of `loss`."""


class SoftmaxHead(TagHead):
    """Tags each word independently: `softmax(V h + b)`."""

    def __init__(self, d: int, labels: Sequence[str], entities: bool = False) -> None:
        super().__init__()
        self.output = nn.Linear(d, len(labels))

    def loss(self, hidden: Tensor, tags: Tensor, mask: Tensor, label_smoothing: float) -> Tensor:
        logits = self.output(chosen(hidden, mask)).float()
        return cross_entropy(logits, chosen(tags, mask), reduction="sum", label_smoothing=label_smoothing)

    def decode(self, hidden: Tensor, mask: Tensor) -> tuple[Tensor, Tensor]:
        probabilities = torch.softmax(self.output(hidden).float(), dim=-1)
        return probabilities.argmax(-1), probabilities

    def nats(self, hidden: Tensor, tags: Tensor, mask: Tensor) -> Tensor:
        each = cross_entropy(self.output(hidden).float().transpose(1, 2), tags, reduction="none")
        return (each.double() * mask).sum(1)


class CrfHead(TagHead):
    """Tags all words of a sentence jointly: a linear-chain CRF over `V h + b`.

    If the tags mark entities in BIO, only legal sequences are allowed: I-x follows only B-x or I-x.
    """

    def __init__(self, d: int, labels: Sequence[str], entities: bool) -> None:
        super().__init__()
        self.output = nn.Linear(d, len(labels))
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


TAG_HEADS: dict[str, Callable[[int, Sequence[str], bool], TagHead]] = {"softmax": SoftmaxHead, "crf": CrfHead}
"""Heads by name: each is built from the width of the states, the tag names, and True if they are BIO."""


class Tagger(nn.Module):
    """A body that reads tokens, and optionally features of words, with a head over the words' states.

    The state of a word is the mean of its tokens' states, or that of its first token. Texts are framed for a body that
    reads framed texts. A sentence longer than a table of learned positions is read in pieces.

    With a delay of n, the state of token t is the body's state at token t + n; n end tokens are appended to the text.

    Source: Graves and Schmidhuber 2005, "Framewise phoneme classification", for the delay.
    """

    def __init__(
        self,
        body: TokenEncoder,
        head: TagHead,
        characters: CharacterFeatures | AffixFeatures | None,
        delay: int,
        word: Literal["mean", "first"],
        word_dropout: float,
        special: Special,
    ) -> None:
        super().__init__()
        self.word_dropout = word_dropout
        self.special = special
        self.delay = delay
        self.word = word
        self.body = body
        self._positions = learned_positions(body.config_class, vars(body.config))
        body.without_last()
        self.characters = characters
        self.head = head

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
            most = self._positions or tokens.shape[1]
            if self.body.framed:
                most = int(self.body.config.max_length) - frame_size(False)  # type: ignore[attr-defined]
            pieces = [None] * -(-tokens.shape[1] // most) if features is None else features.split(most, 1)
            if len(pieces) == 1:
                return self._piece(tokens, mask, features)
            parts = zip(tokens.split(most, 1), mask.split(most, 1), pieces, strict=True)
            return torch.cat([self._piece(*part) for part in parts], dim=1)
        read = pad(mask, (self.delay, 0), value=True)  # as many more tokens are real
        ended = pad(tokens, (0, self.delay)).masked_fill(read & ~pad(mask, (0, self.delay)), self.special.end)
        if features is not None:
            features = pad(features * mask.unsqueeze(-1), (0, 0, 0, self.delay))
        return self.body(ended, read, features)[:, self.delay :]

    def _piece(self, tokens: Tensor, mask: Tensor, features: Tensor | None) -> Tensor:
        if not self.body.framed:
            return self.body(tokens, mask, features)
        further = None if features is None else framed_features(features)
        return unframed(self.body(*framed(tokens, mask, self.special), further))


class Tagged(NamedTuple):
    """The numbers of the tags of a sentence, and the probability of every tag of every word, `(words, tags)`."""

    tags: Sequence[int]
    probabilities: Tensor


class Truths(NamedTuple):
    """The numbers of the tags of each sentence, -1 for one that no training word has, and the sentences."""

    tags: Corpus[list[int]]
    sentences: Sequence[Sentence]


@dataclass(frozen=True)
class Tags(Head):
    """A tag for each word; a tag's number is its place in `labels`."""

    options: ClassVar = TaggingHead
    names: ClassVar = "tags"
    numbered: ClassVar = "sentence"
    per_token: ClassVar = True

    targets: str = "words"
    labels: tuple[str, ...] = ()

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
        return (self.config.model.model_extra or {}).get("head") == "crf"

    # Learning -----------------------------------------------------------------------------------------------------

    def learn(self, config: Any, splits: Splits[Any]) -> tuple[Any, Head]:
        labels = self.complete(labels_in(splits, isinstance(config.data.valid, list)))
        check_labels(labels)
        return config, replace(self, labels=tuple(labels))

    def complete(self, labels: Sequence[str]) -> Sequence[str]:
        """The labels of the model from those of the training examples, in order."""
        return labels

    def taught(self, *learned: Any) -> Self:
        return replace(self, labels=tuple(learned[0]))

    def save(self, folder: Path) -> None:
        save_labels(folder, self.labels)

    def restore(self, config: Any, folder: Path) -> Self:
        return replace(self, labels=tuple(load_labels(folder)))

    def rows(self) -> Mapping[str, Rows]:
        return {"labels": Rows(self.labels)}

    def settled(self, options: TaggingHead, given: dict[str, Any], work: Work) -> dict[str, Any]:
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
        made = corpus_of(examples, chunks, ["<i4"], _alone, labels=self.labels)
        return Truths(made, examples)

    def collate(self, truths: Truths, batch: Batch, draw: Draw | None) -> Batch:
        rows = take(truths.tags, batch.rows)
        for number, tags in zip(batch.rows, rows, strict=True):
            if -1 in tags:  # only a test set may have unknown tags
                _refuse(truths.sentences[number], self.labels)
        return replace(batch, targets={"tags": pad_rows(rows)[0]}, num_targets=sum(map(len, rows)))

    def remarks(self, work: Work) -> list[str]:
        truths = work.truths("valid")
        for sentence in truths.sentences if truths.tags.values[0].min(initial=0) < 0 else ():
            _refuse(sentence, self.labels)
        return []

    # The model ----------------------------------------------------------------------------------------------------

    def build(self, body: Any, options: TaggingHead, facts: Facts) -> Tagger:
        assert facts.special is not None
        characters: CharacterFeatures | AffixFeatures | None = None
        if known := facts.rows.get("characters"):
            width = options.num_filters
            is_cnn = options.characters == "cnn"
            characters = (
                CharacterFeatures(len(known), options.d_character, width)
                if is_cnn
                else AffixFeatures(len(known), width)
            )
        head = TAG_HEADS[options.head](body.d_output, facts.rows["labels"], self.in_bio)
        further = options.delay, options.word, options.word_dropout or 0.0, facts.special
        return Tagger(body, head, characters, *further)

    def loss(self, model: Tagger, states: Tensor, batch: Batch, smoothing: float) -> Tensor:
        return model.head.loss(states, batch.targets["tags"], batch.inputs["word_mask"], smoothing)

    def judge(self, model: Tagger, states: Tensor, batch: Batch) -> Tensor:
        mask = batch.inputs["word_mask"]
        nats = model.head.nats(states, batch.targets["tags"], mask).double()
        return torch.stack([nats, torch.zeros_like(nats), mask.sum(1).double()], dim=1)

    def decode(self, model: Tagger, states: Tensor, batch: Batch) -> Sequence[Tagged]:
        mask = batch.inputs["word_mask"]
        best, probabilities = (one.cpu() for one in model.head.decode(states, mask))
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
        one = typed(example)
        rows, ranked = answer.probabilities.tolist(), answer.probabilities.argsort(-1, descending=True)[:, :3].tolist()
        others = tuple(
            tuple((self.labels[i], row[i]) for i in best if i != tag)[:2]
            for row, best, tag in zip(rows, ranked, answer.tags, strict=True)
        )
        tags = tuple(self.labels[tag] for tag in answer.tags)
        of_tags = tuple(row[tag] for row, tag in zip(rows, answer.tags, strict=True))
        return TagPrediction(one.text, one.words, tuple(one.spans), tags, of_tags, others, self.plain)

    # For people ---------------------------------------------------------------------------------------------------

    def counted(self, examples: Sequence[Sentence]) -> dict[str, int]:
        """How often each tag occurs."""
        return {**dict.fromkeys(self.labels, 0), **Counter(tag for example in examples for tag in example.tags)}

    def lines(self, work: Work) -> list[str]:
        return label_lines({split: self.counted(work.splits.examples[split]) for split in work.split_names})

    def counts(self, split: str, work: Work) -> dict[str, Any]:
        return {"labels": self.counted(work.splits.examples[split])}

    def shown_truth(self, example: Sentence) -> str:
        return " ".join(dict.fromkeys(example.tags))

    def memory(self, batch: int, work: Work) -> int:
        return batch + library_memory(work.split_names)

    def check_alike(self, other: Head) -> str:
        return difference(self.labels, getattr(other, "labels", ()))


def _refuse(sentence: Sentence, labels: Sequence[str]) -> None:
    """Refuse a sentence with a tag that is none of these."""
    for tag in sentence.tags:
        number_of(tag, labels, sentence.origin)


def _alone(rows: Sequence[Any]) -> list[list[int]]:
    """The only row of each sentence."""
    return [tags for (tags,) in rows]
