"""Tagging: sentences of words with one tag each, and an encoder with a head over the words' states."""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import chain, groupby
from pathlib import Path
from typing import Any, Literal, Self

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn
from torch.nn.functional import cross_entropy, pad

from heed.attention.host import chosen
from heed.config import TokenizerConfig
from heed.data.batch import (
    DistinctWords,
    TokenWords,
    WordBatch,
    collate_words,
    frame_size,
    framed,
    framed_features,
    unframed,
)
from heed.data.corpus import Lengths, Rows, joined, parts_of, sample_of
from heed.data.embedded.texts import draw_sentences
from heed.data.examples import Sentence, is_entity_tag
from heed.data.findings import Findings
from heed.data.kinds.tagged import entities, may_follow, sentence_reader
from heed.data.readers import hold
from heed.data.splits import Splits, open_splits
from heed.data.tokens.special import Special
from heed.data.tokens.tokenizer import TextTokenizer
from heed.errors import ConfigError, DataError, suggest
from heed.evaluation.labels import tag_measures
from heed.evaluation.measures import values_of
from heed.layers import AffixFeatures, CharacterFeatures, LinearChainCRF
from heed.models.base import TextEncoder, TokenEncoder
from heed.registry import body_class, learned_positions
from heed.tasks import suggest_task
from heed.tasks.base.predictions import Prediction, in_line, one_line, short
from heed.tasks.base.text_task import LabelledTask, drawn
from heed.tasks.tagging.config import TaggingConfig, TaggingHead
from heed.training.processes import current

_CHARACTERS = "characters.json"
_CHARACTERS_PER_POSITION = 32
"""Characters counted as one position of a batch: far more than ordinary words have, so that only very long
words count."""


_AFFIXES = 30_000
"""Most affixes that have an embedding; each occurs in two different words of the training set."""
_WORD_DROPOUT = 0.1
"""Default of `model.word_dropout` with affixes."""


def affixes_of(word: str) -> list[str]:
    """The first 1 to 3 and last 1 to 4 letters, shape and lower-case form of a word, as distinct texts.

    A shape has X for upper case, x for lower case and 9 for digits, runs as one: "McDonald's" is XxXx'x.
    """
    low = word.lower()
    kinds = ("X" if c.isupper() else "x" if c.isalpha() else "9" if c.isdigit() else c for c in word)
    shape = "".join(kind for kind, _ in groupby(kinds))
    first, last = (range(1, min(most, len(low)) + 1) for most in (3, 4))
    return [*(f"{low[:n]}-" for n in first), *(f"-{low[-n:]}" for n in last), f"={low}", f"shape {shape}"]


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


def _as_columns(data: Any) -> Any:
    """Convert lists of (word, tag), one per sentence, to lists of words and lists of tags; keep other forms."""
    rows = data if isinstance(data, list) else ()
    if not rows or not all(isinstance(row, list) and all(_is_word(word) for word in row) for row in rows):
        return data
    return [tuple(zip(*row, strict=True)) if row else ((), ()) for row in rows]


def _is_word(word: Any) -> bool:
    return isinstance(word, tuple) and len(word) == 2 and isinstance(word[0], str)


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
    def choose(self, probabilities: Tensor) -> list[int]:
        """The best tags of a sentence, from the probability of every tag of every word, `(W, K)`."""


class SoftmaxHead(TagHead):
    """Tags each word independently: `softmax(V h + b)`."""

    def __init__(self, d: int, labels: Sequence[str]) -> None:
        super().__init__()
        self.output = nn.Linear(d, len(labels))

    def loss(self, hidden: Tensor, tags: Tensor, mask: Tensor, label_smoothing: float) -> Tensor:
        logits = self.output(chosen(hidden, mask)).float()
        return cross_entropy(logits, chosen(tags, mask), reduction="sum", label_smoothing=label_smoothing)

    def decode(self, hidden: Tensor, mask: Tensor) -> tuple[Tensor, Tensor]:
        probabilities = torch.softmax(self.output(hidden).float(), dim=-1)
        return probabilities.argmax(-1), probabilities

    def choose(self, probabilities: Tensor) -> list[int]:
        return probabilities.argmax(-1).tolist()


class CrfHead(TagHead):
    """Tags all words of a sentence jointly: a linear-chain CRF over `V h + b`.

    If the tags mark entities in BIO, only legal sequences are allowed: I-x follows only B-x or I-x.
    """

    def __init__(self, d: int, labels: Sequence[str], entities: bool) -> None:
        super().__init__()
        self.output = nn.Linear(d, len(labels))
        self.crf = LinearChainCRF(
            torch.tensor([not entities or may_follow(None, tag) for tag in labels]),
            torch.tensor([[not entities or may_follow(before, tag) for tag in labels] for before in labels]),
        )

    def loss(self, hidden: Tensor, tags: Tensor, mask: Tensor, label_smoothing: float) -> Tensor:
        emissions = self.output(hidden).float()
        return (self.crf.log_partition(emissions, mask) - self.crf.score(emissions, tags, mask)).sum()

    def decode(self, hidden: Tensor, mask: Tensor) -> tuple[Tensor, Tensor]:
        emissions = self.output(hidden).float()
        return self.crf.best(emissions, mask), self.crf.marginals(emissions, mask)

    def choose(self, probabilities: Tensor) -> list[int]:
        if not len(probabilities):
            return []
        scores = probabilities.clamp_min(1e-30).log().unsqueeze(0)
        legal = LinearChainCRF(self.crf.may_start.cpu(), self.crf.may_follow.cpu()).to(scores.device)
        everything = torch.ones(1, len(probabilities), dtype=torch.bool, device=scores.device)
        return legal.best(scores, everything)[0].tolist()


TAG_HEADS: dict[str, Callable[[int, Sequence[str], bool], TagHead]] = {
    "softmax": lambda d, labels, entities: SoftmaxHead(d, labels),
    "crf": CrfHead,
}
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


class Tagging(LabelledTask[TaggingConfig, Sentence, TokenWords, WordBatch]):
    """The tagging task: words, model, loss and scores."""

    targets = "words"
    head_class = TaggingHead

    characters: TextTokenizer | None = None

    @classmethod
    def prepare(cls, config: TaggingConfig, given: Mapping[str, Sequence[Sentence]] | None = None) -> Self:
        if issubclass(body_class(config.model.name, cls.interfaces), TextEncoder):
            raise ConfigError(
                f"model {config.model.name} produces one vector per text, so it cannot tag words; use another"
            )
        task = super().prepare(config, given)
        task.learn_features()
        task._leave_out_long()
        return task

    def learn_features(self) -> None:
        words = [word for sentence in sample_of(self.splits.examples["train"]) for word in sentence.words]
        if self.word_features == "cnn":
            self.characters = TextTokenizer.train_characters({*words}, TokenizerConfig(normalization="nfc"))
        elif self.word_features == "affixes":
            section = TokenizerConfig(kind="word", vocab_size=_AFFIXES)
            self.characters = TextTokenizer.train_words(map(affixes_of, dict.fromkeys(words)), section)

    @classmethod
    def restore(cls, config: TaggingConfig, folder: Path) -> Self:
        task = super().restore(config, folder)
        if (folder / _CHARACTERS).is_file():
            task.characters = TextTokenizer.load(folder / _CHARACTERS)
        return task

    @classmethod
    def resume(cls, config: TaggingConfig, folder: Path, given: Mapping[str, Sequence[Sentence]] | None = None) -> Self:
        task = super().resume(config, folder, given)
        task._leave_out_long()
        return task

    def save(self, folder: Path) -> None:
        super().save(folder)
        if self.characters is not None:
            self.characters.save(folder / _CHARACTERS)

    def _leave_out_long(self) -> None:
        most, splits = min(self.config.data.max_length, self.room or self.config.data.max_length), self.splits
        corpus = self.corpus("train")
        short = np.flatnonzero(corpus.lengths[:, 0] <= most)
        limit = "data.max_length" if most == self.config.data.max_length else "the model's"
        if not len(short):
            raise DataError(f"every training sentence is longer than {limit} {most} tokens; give shorter sentences")
        if len(short) < len(corpus):
            splits.keep("train", short, f"longer than {limit} {most} tokens")
            self._costs.pop("train", None)
            self._corpora["train"] = corpus.select(short)

    @classmethod
    def open_splits(
        cls, config: TaggingConfig, given: Mapping[str, Sequence[Sentence]] | None = None
    ) -> Splits[Sentence]:
        data = config.data
        if data.is_embedded:
            seed, mirrored = data.seed, data.mirrored
            return drawn(data, lambda name, size: draw_sentences(name, size, seed, mirrored), "sentences")
        return open_splits(data, sentence_reader(data, suggest_task), given)

    @classmethod
    def hold(cls, data: Any, split: str, config: Any, findings: Findings) -> Sequence[Sentence]:
        return hold(_as_columns(data), split, sentence_reader(config.data), ("words", "tags"), findings)

    @classmethod
    def texts_of(cls, example: Sentence) -> Sequence[str]:
        return example.words

    @classmethod
    def labels_of(cls, example: Sentence) -> Iterable[str]:
        return example.tags

    @classmethod
    def complete(cls, labels: Iterable[str]) -> list[str]:
        known = set(labels)
        types = {label[2:] for label in known if is_entity_tag(label)}
        return super().complete(known | {f"{letter}-{kind}" for letter in "BI" for kind in types})

    @classmethod
    def train_tokenizer(cls, config: TaggingConfig, examples: Sequence[Sentence]) -> TextTokenizer:
        return TextTokenizer.train_words([example.words for example in examples], config.tokenizer)

    @property
    def row_kinds(self) -> Sequence[str]:
        return ("<i4",) * 5

    def rows_of(self, examples: Sequence[Sentence]) -> list[Rows]:
        """Tokens, their number in each word, the same of characters, and tags, -1 for one that no training word has."""
        encoded = self.encode_words([example.words for example in examples])
        tags = ([self._number.get(tag, -1) for tag in example.tags] for example in examples)
        return [[*joined(e.words), *joined(e.characters), own] for e, own in zip(encoded, tags, strict=True)]

    @property
    def rows_by(self) -> dict[str, Any]:
        characters = None if self.characters is None else self.characters.text
        return {**super().rows_by, "characters": characters, "features": self.word_features}

    def made_of(self, rows: Sequence[Any]) -> list[TokenWords]:
        return [
            TokenWords(parts_of(words, sizes), tags, parts_of(letters, counts))
            for words, sizes, letters, counts, tags in rows
        ]

    def encoded(self, split: str) -> Sequence[TokenWords]:
        corpus = self.corpus(split)
        if split == "valid" and corpus.values[-1].min(initial=0) < 0:  # a test set may have unknown tags
            for example in self.splits.examples[split]:
                for tag in example.tags:
                    self.number_of(tag, example.origin)
        return corpus

    def encode_words(self, sentences: Sequence[Sequence[str]]) -> list[TokenWords]:
        """Convert words without tags to tokens."""
        words = self.tokenizer.encode_words(sentences)
        characters: list[list[list[int]]] = [[] for _ in sentences]
        if self.characters is not None and self.word_features == "cnn":
            characters = self.characters.encode_words(sentences)
        elif self.characters is not None:
            distinct = {*chain.from_iterable(sentences)}
            ids = self.characters.encode_words([affixes_of(word) for word in distinct])
            known = {word: [one for (one,) in each] for word, each in zip(distinct, ids, strict=True)}
            characters = [[known[word] for word in sentence] for sentence in sentences]
        return [TokenWords(w, [], c) for w, c in zip(words, characters, strict=True)]

    def tokens_of(self, encoded: TokenWords) -> list[int]:
        return [token for word in encoded.words for token in word]

    def positions(self, lengths: Lengths) -> NDArray[np.int64]:
        return np.maximum(super().positions(lengths), -(-lengths[:, 2] // _CHARACTERS_PER_POSITION))

    def cost(self, encoded: TokenWords) -> int:
        characters = sum(map(len, encoded.characters))
        return max(super().cost(encoded), -(-characters // _CHARACTERS_PER_POSITION))

    def collate_encoded(self, encoded: Sequence[TokenWords], indices: list[int]) -> WordBatch:
        return collate_words(encoded, indices)

    @property
    def plain(self) -> bool:
        """True if the tags mark no entities."""
        return not any(is_entity_tag(label) for label in self.labels)

    @property
    def selected_by(self) -> str:
        return "accuracy" if self.plain else "entity_f1"

    @property
    def word_features(self) -> str:
        """The settled `model.characters`."""
        return str((self.config.model.model_extra or {}).get("characters", "none"))

    def fields_from_data(self, given: dict[str, Any]) -> dict[str, Any]:
        filters = given.get("num_filters", TaggingHead.model_fields["num_filters"].default)
        kind = given.get("characters", "auto")
        if kind == "auto":
            own = self.config.model.from_ is None and not self.config.data.is_embedded
            kind = "affixes" if own and self.tokenizer.unit == "word" else "none"
        fields = {"characters": kind, "d_features": 0 if kind == "none" else filters}
        return super().fields_from_data(given) | fields

    def head_fields(self, head: TaggingHead, given: dict[str, Any]) -> dict[str, Any]:
        if head.delay and issubclass(self.body_class, TokenEncoder) and self.body_class.framed:
            name = self.config.model.name
            raise ConfigError(f"model.delay is {head.delay}, but model {name} sees the whole text; remove model.delay")
        if head.head not in TAG_HEADS:
            raise ConfigError(f"model.head is '{head.head}'{suggest(head.head, TAG_HEADS)}")
        if self.config.evaluation.select_by == "entity_f1" and self.plain:
            raise ConfigError("evaluation.select_by is entity_f1, but the tags mark no entities; use accuracy")
        if head.head == "crf" and self.config.training.label_smoothing:
            raise ConfigError("training.label_smoothing does not apply to model.head crf; remove the field")
        used = _WORD_DROPOUT if head.characters == "affixes" else 0.0
        return head.model_dump() | ({"word_dropout": used} if head.word_dropout is None else {})

    def build_model(self) -> Tagger:
        config, head = self.model_and_head()
        body = self.build_body(config)
        assert isinstance(body, TokenEncoder)
        characters: CharacterFeatures | AffixFeatures | None = None
        if self.characters is not None:
            size = len(self.row_names("characters"))
            characters = (
                CharacterFeatures(size, head.d_character, head.num_filters)
                if head.characters == "cnn"
                else AffixFeatures(size, head.num_filters)
            )
        in_bio = not self.plain and self.config.data.scheme != "plain"  # plain tags are used unchanged
        tag_head = TAG_HEADS[head.head](body.d_output, self.row_names("labels"), in_bio)
        further = head.delay, head.word, head.word_dropout or 0.0, self.tokenizer.special
        return Tagger(body, tag_head, characters, *further)

    def axes(self) -> dict[str, list[str]]:
        return {**super().axes(), **({} if self.characters is None else {"characters": self.characters.tokens})}

    def hidden(self, model: Tagger, batch: WordBatch) -> Tensor:
        """The states of a batch's words."""
        return model(batch.tokens, batch.mask, batch.word_of, batch.word_mask, batch.characters)  # type: ignore[no-any-return]

    def loss(self, model: Tagger, batch: WordBatch, label_smoothing: float) -> Tensor:
        return model.head.loss(self.hidden(model, batch), batch.tags, batch.word_mask, label_smoothing)

    def validate(self, model: Tagger) -> dict[str, float]:
        encoded = self.validated_part(self.encoded("valid"))
        true = [e.tags for e in self.validated_part(self.splits.examples["valid"])]
        predicted = current().map(lambda part: [tags for tags, _ in self.tag(model, part)], encoded)
        scores = values_of(tag_measures(true, predicted, self.plain))
        kept = ("accuracy",) if self.plain else ("accuracy", "entity_f1")
        return {**super().validate(model), **{name: scores[name] for name in kept}}

    def tag(self, model: Tagger, encoded: Sequence[TokenWords]) -> list[tuple[list[str], Tensor]]:
        """The tags of each sentence, and the probability of every tag of every word, `(words, num_labels)`."""

        def of_batch(batch: WordBatch) -> Iterator[tuple[list[str], Tensor]]:
            best, probabilities = model.head.decode(self.hidden(model, batch), batch.word_mask)
            for row, count in enumerate(batch.word_mask.sum(1).tolist()):
                tags = [self.labels[tag] for tag in best[row, :count].tolist()]
                yield tags, probabilities[row, :count].float().cpu()

        known = [one for one in encoded if one.words]
        tagged = iter(self.scored(model, known, lambda batch: [*of_batch(batch)]))
        return [next(tagged) if one.words else ([], torch.zeros(0, len(self.labels))) for one in encoded]

    def prediction(
        self, text: str, spans: Sequence[tuple[int, int]], tags: Sequence[str], probabilities: Tensor
    ) -> TagPrediction:
        """The prediction for one text, from the tags returned by `tag` and the probabilities, `(words, num_labels)`."""
        words = tuple(text[start:end] for start, end in spans)
        rows, ranked = probabilities.tolist(), probabilities.argsort(dim=-1, descending=True)[:, :3].tolist()
        of_tags = tuple(row[self._number[tag]] for row, tag in zip(rows, tags, strict=True))
        others = tuple(
            tuple((self.labels[i], row[i]) for i in best if self.labels[i] != tag)[:2]
            for row, best, tag in zip(rows, ranked, tags, strict=True)
        )
        return TagPrediction(text, words, tuple(spans), tuple(tags), of_tags, others, self.plain)

    def unknown_in(self, words: Iterable[str]) -> list[str]:
        """The words of a text that contain a token unknown to the tokenizer."""
        given = list(words)
        (ids,) = self.tokenizer.encode_words([given])
        return [word for word, parts in zip(given, ids, strict=True) if self.tokenizer.special.unknown in parts]
