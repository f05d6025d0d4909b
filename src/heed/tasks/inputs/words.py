"""Sentences of words: the tokens of each word and, for words never seen, its characters or its affixes and shape."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import chain, groupby
from pathlib import Path
from typing import Any, ClassVar, NamedTuple, Self

import numpy as np
from numpy.typing import NDArray

from heed.config import TokenizerConfig
from heed.data.batch import distinct_words, pad_rows
from heed.data.corpus import Lengths, joined, parts_of, sample_of
from heed.data.corpus import Rows as Numbers
from heed.data.embedded.texts import draw_sentences
from heed.data.examples import Sentence, take
from heed.data.kinds.kind import Kind
from heed.data.kinds.tagged import sentence_reader
from heed.data.tables import described, has_items
from heed.data.tokens.special import join_words, split_words
from heed.data.tokens.tokenizer import TextTokenizer
from heed.errors import DataError
from heed.tasks import suggest_task
from heed.tasks.base.head_options import TaggingHead
from heed.tasks.contracts import Batch, Draw, Rows
from heed.tasks.inputs.tokens import Tokens
from heed.tasks.work import Work

_CHARACTERS = "characters.json"
_CHARACTERS_PER_POSITION = 32
"""Characters counted as one position of a batch: far more than ordinary words have, so that only very long
words count."""
_AFFIXES = 30_000
"""Most affixes that have an embedding; each occurs in two different words of the training set."""


def _as_columns(data: Any) -> Any:
    """Convert lists of (word, tag), one per sentence, to lists of words and lists of tags; keep other forms."""
    rows = data if isinstance(data, list) else ()
    if not rows or not all(isinstance(row, list) and all(_is_word(word) for word in row) for row in rows):
        return data
    return [tuple(zip(*row, strict=True)) if row else ((), ()) for row in rows]


def _is_word(word: Any) -> bool:
    return isinstance(word, tuple) and len(word) == 2 and isinstance(word[0], str)


SENTENCES = Kind(
    reader=lambda data, labels: sentence_reader(data, suggest_task),
    fields=lambda data: ("words", "tags"),
    draw=lambda data: lambda name, size: draw_sentences(name, size, data.seed, data.mirrored),
    units="sentences",
    arranged=_as_columns,
)


def affixes_of(word: str) -> list[str]:
    """The first 1 to 3 and last 1 to 4 letters, shape and lower-case form of a word, as distinct texts.

    A shape has X for upper case, x for lower case and 9 for digits, runs as one: "McDonald's" is XxXx'x.
    """
    low = word.lower()
    kinds = ("X" if c.isupper() else "x" if c.isalpha() else "9" if c.isdigit() else c for c in word)
    shape = "".join(kind for kind, _ in groupby(kinds))
    first, last = (range(1, min(longest, len(low)) + 1) for longest in (3, 4))
    return [*(f"{low[:n]}-" for n in first), *(f"-{low[-n:]}" for n in last), f"={low}", f"shape {shape}"]


@dataclass(frozen=True, slots=True)
class TokenWords:
    """The token ids of each word (at least one), and its character ids, if used."""

    words: list[list[int]]
    characters: list[list[int]]


class Typed(NamedTuple):
    """A text as it was typed, or words joined by blanks: the words, and the characters `(start, end)` of each."""

    text: str
    spans: Sequence[tuple[int, int]]

    @property
    def words(self) -> tuple[str, ...]:
        """The words."""
        return tuple(self.text[start:end] for start, end in self.spans)


def typed(example: Typed | Sentence) -> Typed:
    """The text of an example; the words of a sentence of a data set are joined by blanks."""
    return example if isinstance(example, Typed) else Typed(*join_words(example.words))


@dataclass(frozen=True)
class Words(Tokens):
    """Sentences of at most `data.max_length` tokens in training; longer ones are left out, and counted."""

    is_encoded_once: ClassVar = True
    row_kinds: ClassVar = ("<i4",) * 4

    characters: TextTokenizer | None = None
    """Of the characters, or the affixes, of words; None for a model that reads tokens only."""

    def texts_of(self, example: Sentence) -> Sequence[str]:
        return example.words

    def train_tokenizer(self, examples: Sequence[Sentence]) -> TextTokenizer:
        return TextTokenizer.train_words([example.words for example in examples], self.config.tokenizer)

    # Characters -----------------------------------------------------------------------------------------------

    @property
    def features(self) -> str:
        """The kind of features read besides tokens, `model.characters`: "affixes", "cnn" or "none"."""
        return self._features(self.config.model.settings.get("characters", "auto"))

    def _features(self, kind: str) -> str:
        if kind != "auto":
            return kind
        is_new = self.config.model.from_ is None and not self.config.data.is_embedded
        return "affixes" if is_new and self.tokenizer.unit == "word" else "none"

    def fitted(self, work: Work) -> Self:
        words = super().fitted(work)
        if words.features == "none" or self.characters is not None:
            return words
        train = sample_of(work.splits.examples["train"])
        distinct = dict.fromkeys(chain.from_iterable(example.words for example in train))
        if words.features == "cnn":
            section = TokenizerConfig(normalization="nfc")
            return replace(words, characters=TextTokenizer.train_characters({*distinct}, section))
        section = TokenizerConfig(kind="word", vocab_size=_AFFIXES)
        return replace(words, characters=TextTokenizer.train_words(map(affixes_of, distinct), section))

    def fields(self, fields: dict[str, Any], work: Work) -> dict[str, Any]:
        width = fields.get("num_filters", TaggingHead.model_fields["num_filters"].default)
        features = self._features(fields.get("characters", "auto"))
        feature_fields = {"characters": features, "d_features": 0 if features == "none" else width}
        return super().fields(fields, work) | feature_fields

    def rows(self) -> Mapping[str, Rows]:
        feature_rows = {} if self.characters is None else {"characters": Rows(self.characters.tokens)}
        return {**super().rows(), **feature_rows}

    def save(self, folder: Path) -> None:
        super().save(folder)
        if self.characters is not None:
            self.characters.save(folder / _CHARACTERS)

    def restore(self, config: Any, folder: Path) -> Self:
        words, path = super().restore(config, folder), folder / _CHARACTERS
        return replace(words, characters=TextTokenizer.load(path)) if path.is_file() else words

    # Examples as tokens ---------------------------------------------------------------------------------------

    @property
    def rows_by(self) -> dict[str, Any]:
        characters = None if self.characters is None else self.characters.text
        return {**super().rows_by, "characters": characters, "features": self.features}

    def numbers_of(self, examples: Sequence[Sentence | Typed]) -> list[Numbers]:
        """Tokens, their number in each word, and the same of characters."""
        sentences = [example.words for example in examples]
        tokens = self.tokenizer.encode_words(sentences)
        return [[*joined(t), *joined(c)] for t, c in zip(tokens, self._characters_of(sentences), strict=True)]

    def _characters_of(self, sentences: Sequence[Sequence[str]]) -> Sequence[list[list[int]]]:
        if self.characters is None:
            return [[] for _ in sentences]
        if self.features == "cnn":
            return self.characters.encode_words(sentences)
        distinct = {*chain.from_iterable(sentences)}
        ids = self.characters.encode_words([affixes_of(word) for word in distinct])
        affix_ids = {word: [affix for (affix,) in each] for word, each in zip(distinct, ids, strict=True)}
        return [[affix_ids[word] for word in sentence] for sentence in sentences]

    def from_rows(self, rows: Sequence[Numbers]) -> list[TokenWords]:
        return [TokenWords(parts_of(*row[:2]), parts_of(*row[2:])) for row in rows]

    def tokens_of(self, encoded: TokenWords) -> list[int]:
        return [token for word in encoded.words for token in word]

    def costs_of(self, lengths: Lengths) -> NDArray[np.int64]:
        return np.maximum(super().costs_of(lengths), -(-lengths[:, 2] // _CHARACTERS_PER_POSITION))

    def leave_out(self, work: Work) -> None:
        encoded: Any = work.encoded("train")
        short = np.flatnonzero(encoded.lengths[:, 0] <= self.max_tokens)
        if not len(short):
            raise DataError(f"every training sentence is longer than {self.limit} tokens; give shorter sentences")
        work.keep("train", short, f"longer than {self.limit} tokens")

    def collate(self, encoded: Sequence[TokenWords], indices: list[int], draw: Draw | None) -> Batch:
        """The arguments of `heads.tags.Tagger`; `word_of` is None if every word is one token."""
        chosen = take(encoded, indices)
        tokens, mask = pad_rows([self.tokens_of(s) for s in chosen])
        word_of = None
        if any(len(word) > 1 for s in chosen for word in s.words):
            word_of, _ = pad_rows([[n for n, word in enumerate(s.words) for _ in word] for s in chosen])
        _, word_mask = pad_rows([[0] * len(s.words) for s in chosen])
        read = None if self.characters is None else [s.characters for s in chosen]
        characters = None if read is None else distinct_words(read)
        names = {"tokens": tokens, "mask": mask, "word_of": word_of, "word_mask": word_mask, "characters": characters}
        return Batch(indices, names)

    # Questions ------------------------------------------------------------------------------------------------

    def questions(self, texts: Any) -> tuple[list[Typed], bool]:
        if not isinstance(texts, list | tuple) or not texts or any(isinstance(text, str) for text in texts):
            return super().questions(texts)
        for n, words in enumerate(texts):
            if not has_items(words) or not all(isinstance(word, str) for word in words):
                raise DataError(f"texts[{n}] is {described(words)}, expected a list of words")
        return [*map(self.example_of, texts)], False

    def example_of(self, text: str | Sequence[str]) -> Typed:
        """A text, or words, as an example without tags."""
        return Typed(text, split_words(text)) if isinstance(text, str) else Typed(*join_words(text))

    def unknown_in(self, text: str | Sequence[str]) -> list[str]:
        """The words of a text that contain a token unknown to the tokenizer."""
        words = self.example_of(text).words
        (ids,) = self.tokenizer.encode_words([words])
        return [word for word, parts in zip(words, ids, strict=True) if self.tokenizer.special.unknown in parts]
