"""Text to tokens and back, by the `tokenizers` library; its JSON travels with the run.

Kinds: `char` (one Unicode character), `byte` (one byte of UTF-8), `word` (words and punctuation marks), `bpe`
(Sennrich et al. 2016, arXiv:1508.07909), `unigram` (Kudo 2018, arXiv:1804.10959) and `byte_bpe` (bpe over bytes, with
the cut into words of GPT-2, Radford et al. 2019, section 2.2).

In `word`, `bpe` and `unigram` a token that begins a word carries the mark of a blank before it, so that decoding gives
raw text back, blanks where they were (but for one at the very start of a text, unless trained as `exact`). A text that
holds this mark itself, U+2581, holds a blank there. To `byte` and `byte_bpe` nothing is unknown, and every text comes
back as it is; the library names their bytes by letters, which people are never shown (`label`, `piece`).
"""

from __future__ import annotations

import json
import re
import unicodedata
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from itertools import chain, pairwise
from pathlib import Path
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray
from tokenizers import AddedToken, Regex, Tokenizer, decoders, models, normalizers, pre_tokenizers, trainers

from heed.config import TokenizerConfig
from heed.data.tokens.byte_letters import BYTES, LETTERS, readable
from heed.data.tokens.subwords import SubwordSampler
from heed.data.tokens.words import WORD
from heed.errors import ConfigError, RunError
from heed.storage.disk import write_whole

SPECIAL_TOKENS = ("<pad>", "<unk>", "<s>", "</s>")
PADDING, UNKNOWN, START, END = range(4)
_BLANK = "\u2581"
"""Stands for the blank before a word, as in SentencePiece."""
_SIGNS = "$+<=>^`|~\u20ac\u00a3"
_ALL = len(SPECIAL_TOKENS) + len(LETTERS)
"""Tokens of a tokenizer of bytes without merges."""
_ALONE = rf"[\p{{P}}{_SIGNS}]|\s"
"""Punctuation, and blanks other than the space: never part of a word's tokens."""


_LONG, _TOGETHER = 1 << 16, 1 << 20
"""Texts of more characters than the first are encoded in parts, about as many characters at once as the second."""
_BETWEEN = re.compile(r"(?<=[!-~\w])\n(?=[!-~\w])")
"""A line end between characters that are no blanks for any library."""


@dataclass(frozen=True, slots=True)
class Encoded:
    """A text as tokens: their ids, and the span of characters `(start, end)` each stands for.

    Tokens that are parts of one character (`byte`, `byte_bpe`) have its span each.
    """

    ids: list[int]
    spans: list[tuple[int, int]]


class TextTokenizer:
    """A trained tokenizer. Ids 0 to 3 are padding, unknown, start and end; the last ones may be tags."""

    def __init__(self, tokenizer: Tokenizer) -> None:
        self._tokenizer = tokenizer
        self._bytes = isinstance(tokenizer.decoder, decoders.ByteLevel)
        self._table: NDArray[np.int32] | None = None  # character or byte -> id, where that is all there is to it
        # A text that says "</s>" must not end a sequence. The library does not keep this in its JSON.
        tokenizer.encode_special_tokens = True

    @classmethod
    def train(
        cls,
        texts: Iterable[str],
        config: TokenizerConfig,
        side: Literal["source", "target"] = "source",
        *,
        exact: bool = False,
    ) -> TextTokenizer:
        """Train a tokenizer of the configured kind (not "auto") on texts of a side.

        With `exact` no blank is put before a text, so that decoding gives it back to the last character where nothing
        is unknown or normalised (U+2581 aside); a word at the start of a text is another token than after a blank.

        Raises:
            ConfigError: The vocabulary cannot hold what it must.
        """
        if config.lowercase == "source":
            config = config.model_copy(update={"lowercase": side == "source"})
        if config.kind == "char":
            return cls.train_characters(texts, config)
        if config.kind == "byte":
            return cls._of_bytes(config)
        unknown = SPECIAL_TOKENS[UNKNOWN]
        size = config.vocab_size or 8_000
        common: dict[str, Any] = {"vocab_size": size, "special_tokens": list(SPECIAL_TOKENS), "show_progress": False}
        if config.kind == "word":
            tokenizer, trainer = _word_level(), _word_trainer(config)
        elif config.kind == "bpe":
            tokenizer = Tokenizer(models.BPE(unk_token=unknown))
            trainer = trainers.BpeTrainer(limit_alphabet=size - len(SPECIAL_TOKENS), **common)
        elif config.kind == "byte_bpe":
            if size < _ALL:
                hint = (
                    f"byte_bpe needs {_ALL} (256 bytes and {len(SPECIAL_TOKENS)} special tokens) and one for each merge"
                )
                raise ConfigError(f"tokenizer.vocab_size is {size}, but {hint}")
            tokenizer = Tokenizer(models.BPE(unk_token=unknown))
            trainer = trainers.BpeTrainer(initial_alphabet=list(LETTERS), **common)
        else:
            tokenizer, trainer = Tokenizer(models.Unigram()), trainers.UnigramTrainer(unk_token=unknown, **common)
        if config.kind == "byte_bpe":
            tokenizer.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=True)
            tokenizer.decoder = decoders.ByteLevel()
        else:
            scheme = "never" if exact else "always"
            blanks = pre_tokenizers.Metaspace(replacement=_BLANK, prepend_scheme=scheme)
            marks = pre_tokenizers.Split(Regex(_ALONE), behavior="isolated")
            tokenizer.pre_tokenizer = pre_tokenizers.Sequence([blanks, marks])
            tokenizer.decoder = decoders.Metaspace(replacement=_BLANK, prepend_scheme=scheme)
        _normalize(tokenizer, config)
        try:
            tokenizer.train_from_iterator(texts, trainer)
        except Exception as error:  # the library has no narrower one
            if "not large enough" not in str(error):
                raise
            problem = f"tokenizer.vocab_size {size} is less than the number of different characters"
            hint = "unigram needs each; give more, or tokenizer.kind=bpe, which leaves rare characters out"
            raise ConfigError(f"{problem}, and {hint}") from None
        return cls(tokenizer)

    @classmethod
    def train_characters(cls, texts: Iterable[str], config: TokenizerConfig | None = None) -> TextTokenizer:
        """One token per Unicode character that occurs in the texts."""
        tokenizer = _word_level()
        if config is not None:
            _normalize(tokenizer, config)
        normal = tokenizer.normalizer
        texts = texts if normal is None else (normal.normalize_str(text) for text in texts)
        characters = sorted(set(chain.from_iterable(texts)))
        vocabulary = {token: i for i, token in enumerate([*SPECIAL_TOKENS, *characters])}
        tokenizer.model = models.WordLevel(vocabulary, unk_token=SPECIAL_TOKENS[UNKNOWN])
        tokenizer.pre_tokenizer = pre_tokenizers.Split(Regex(r"[\s\S]"), behavior="isolated")
        tokenizer.decoder = decoders.Fuse()
        return cls(tokenizer)

    @classmethod
    def _of_bytes(cls, config: TokenizerConfig) -> TextTokenizer:
        """One token for each byte, in their order; there is nothing to learn."""
        vocabulary = {token: i for i, token in enumerate([*SPECIAL_TOKENS, *LETTERS])}
        tokenizer = Tokenizer(models.BPE(vocab=vocabulary, merges=[], unk_token=SPECIAL_TOKENS[UNKNOWN]))
        tokenizer.add_special_tokens(list(SPECIAL_TOKENS))
        tokenizer.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=False)
        tokenizer.decoder = decoders.ByteLevel()
        _normalize(tokenizer, config)
        return cls(tokenizer)

    @classmethod
    def train_words(cls, sentences: Iterable[Sequence[str]], config: TokenizerConfig) -> TextTokenizer:
        """A tokenizer of texts that are given as words: of the kind "word" one token is one of these words."""
        words = chain.from_iterable(sentences)
        return cls._train_words(_word_level(), words, config) if config.kind == "word" else cls.train(words, config)

    @classmethod
    def train_to_read(cls, texts: Iterable[str], config: TokenizerConfig) -> TextTokenizer:
        """A tokenizer of texts that are read only: of the kind "word" one token is a word as `split_words` cuts them.

        Blanks are nothing then, and a word is the same token after a blank and after a mark.
        """
        if config.kind != "word":
            return cls.train(texts, config)
        tokenizer = _word_level()
        tokenizer.pre_tokenizer = pre_tokenizers.Split(Regex(WORD), behavior="removed", invert=True)
        return cls._train_words(tokenizer, texts, config)

    @classmethod
    def _train_words(cls, tokenizer: Tokenizer, texts: Iterable[str], config: TokenizerConfig) -> TextTokenizer:
        _normalize(tokenizer, config)
        tokenizer.train_from_iterator(texts, _word_trainer(config))
        return cls(tokenizer)

    @property
    def vocab_size(self) -> int:
        """Number of tokens, special ones included."""
        return self._tokenizer.get_vocab_size()

    @property
    def tags(self) -> dict[str, int]:
        """Tokens that mark where a text comes from; no text is ever cut into one."""
        added = self._tokenizer.get_added_tokens_decoder()
        return {token.content: i for i, token in sorted(added.items()) if i >= len(SPECIAL_TOKENS)}

    def add_tags(self, tags: Iterable[str]) -> None:
        """Append tags such as "<bt>" to the vocabulary; one that is there already stays as it is."""
        self._tokenizer.add_special_tokens([AddedToken(tag, special=True, normalized=False) for tag in tags])

    def first_difference(self, other: TextTokenizer) -> str:
        """The first difference between two tokenizers, for people; "" if they agree on all texts (tags aside)."""
        sizes = [one.vocab_size - len(one.tags) for one in (self, other)]
        for i in range(min(sizes)):
            if self.token(i) != other.token(i):
                return f"token {i} is {self.token(i)!r} in one and {other.token(i)!r} in the other"
        if sizes[0] != sizes[1]:
            longer = self if sizes[0] > sizes[1] else other
            return f"{sizes[0]:,} tokens and {sizes[1]:,}; only one has {longer.token(min(sizes))!r}"
        ways = [{**json.loads(one._tokenizer.to_str()), "added_tokens": None} for one in (self, other)]
        return "" if ways[0] == ways[1] else "they have the same tokens, but normalise or cut a text differently"

    @property
    def unit(self) -> str:
        """What one token is: "character", "byte", "word" or "token" (a part of a word)."""
        if isinstance(self._tokenizer.model, models.WordLevel):
            return "character" if isinstance(self._tokenizer.decoder, decoders.Fuse) else "word"
        return "byte" if self._bytes and self._tokenizer.get_vocab_size(with_added_tokens=False) == _ALL else "token"

    def encode(self, text: str) -> Encoded:
        """One text to tokens, without start and end."""
        encoding = self._tokenizer.encode(text, add_special_tokens=False)
        return Encoded(encoding.ids, encoding.offsets)

    def encode_all(self, texts: Sequence[str]) -> list[list[int]]:
        """Many texts to ids, without start and end."""
        return [e.ids for e in self._tokenizer.encode_batch_fast(list(texts), add_special_tokens=False)]

    def encode_arrays(self, texts: Sequence[str]) -> list[NDArray[np.int32]]:
        """Many texts to ids, without start and end, int32: `encode_all` for long texts.

        Characters and bytes are looked up in a table; long texts are encoded in parts where that makes no difference,
        so that the library's objects are held for some only, and several processors work on one text.
        """
        if self.unit not in ("character", "byte"):
            return self._encoded_in_parts(texts)
        if self._table is None:
            self._table = self._make_table()
        table, (encoding, kind) = self._table, ("utf-8", np.uint8) if self._bytes else ("utf-32-le", np.dtype("<u4"))
        codes = (np.frombuffer(self.normalize(text).encode(encoding), kind) for text in texts)
        return [table[np.minimum(code, len(table) - 1)] for code in codes]

    def _encoded_in_parts(self, texts: Sequence[str]) -> list[NDArray[np.int32]]:
        """What the ids of texts are, encoded about `_TOGETHER` characters at once."""
        divisible = self._bytes or self._never_prepends
        parts: list[str] = []
        ends = []  # parts up to the last of each text
        for text in texts:
            parts += _in_parts(text) if divisible and len(text) > _LONG else [text]
            ends.append(len(parts))
        encoded: list[NDArray[np.int32]] = []
        sizes = np.fromiter(map(len, parts), np.int64, len(parts))
        for chunk in np.split(np.arange(len(parts)), np.flatnonzero(np.diff(np.cumsum(sizes) // _TOGETHER)) + 1):
            together = [parts[n] for n in chunk]
            encoded += [np.array(ids, dtype=np.int32) for ids in self.encode_all(together)]
        return [np.concatenate(encoded[a:b]) for a, b in pairwise([0, *ends])]

    def _make_table(self) -> NDArray[np.int32]:
        """The id of each byte, or of each character up to the last that is known, and the unknown one for others."""
        if self._bytes:
            return np.array([self._tokenizer.token_to_id(letter) for letter in LETTERS], dtype=np.int32)
        known = {ord(token): i for i, token in enumerate(self.tokens) if len(token) == 1}
        table = np.full(max(known, default=0) + 2, UNKNOWN, dtype=np.int32)
        table[list(known)] = list(known.values())
        return table

    def encode_words(self, sentences: Sequence[Sequence[str]]) -> list[list[list[int]]]:
        """Texts that are given as words: the ids of each word of each text, at least one a word."""
        ids = iter(self.encode_all([*chain.from_iterable(sentences)]))
        return [[next(ids) or [UNKNOWN] for _ in words] for words in sentences]

    def normalize(self, text: str) -> str:
        """A text as the model sees it: normalised, and lower-cased where so configured."""
        normal = self._tokenizer.normalizer
        return text if normal is None else str(normal.normalize_str(text))

    def decode(self, ids: Sequence[int], instead: Mapping[int, str] | None = None) -> str:
        """Tokens back to raw text without special tokens; `instead` has words for some positions (unknown words)."""
        if not instead:
            return self._tokenizer.decode([i for i in ids if i >= len(SPECIAL_TOKENS)])
        pieces = [instead.get(n, "" if i < len(SPECIAL_TOKENS) else self.token(i)) for n, i in enumerate(ids)]
        if self._bytes:
            raw = (piece.encode() if n in instead else self._raw(piece) for n, piece in enumerate(pieces))
            return b"".join(raw).decode("utf-8", "replace")
        if self.unit == "character":
            return "".join(pieces)
        text = "".join(pieces).replace(_BLANK, " ")
        return text if self._never_prepends else text.removeprefix(" ")

    @property
    def is_of_bytes(self) -> bool:
        """Whether tokens are bytes or joined from bytes, so that nothing is unknown and no blank is marked."""
        return self._bytes

    @property
    def is_exact(self) -> bool:
        """Whether decoding gives back every text without unknown tokens to the last character (U+2581 aside)."""
        return self._tokenizer.normalizer is None and (self._bytes or self.unit == "character" or self._never_prepends)

    @property
    def _never_prepends(self) -> bool:
        """Whether blanks are marked, and none is put before a text."""
        decoder = self._tokenizer.decoder
        return isinstance(decoder, decoders.Metaspace) and decoder.prepend_scheme == "never"

    @staticmethod
    def _raw(token: str) -> bytes:
        """The bytes of a token that the library names by letters."""
        return bytes(BYTES[letter] for letter in token if letter in BYTES)

    def token(self, token: int) -> str:
        """The text of one token as the vocabulary has it."""
        return self._tokenizer.id_to_token(token) or SPECIAL_TOKENS[UNKNOWN]

    @property
    def tokens(self) -> list[str]:
        """The text of every token, in order."""
        return [self.token(i) for i in range(self.vocab_size)]

    def piece(self, token: int) -> str:
        """The text of one token for people, with U+2581 for a blank before it.

        Bytes that are only a part of a character are shown by number in angle brackets, as U+27E8 e2 U+27E9.
        """
        return self._text([token])

    def label(self, token: int) -> str:
        """The text of one token for people, without the mark of the blank before it."""
        text = self.piece(token)
        return text if self.unit == "character" else text.removeprefix(_BLANK) or text

    def characters(self, ids: Sequence[int]) -> list[range]:
        """The tokens in groups of whole characters: each by itself, or those of one character's bytes together."""
        if not self._bytes:
            return [range(n, n + 1) for n in range(len(ids))]
        groups, start, waiting = [], 0, b""
        for n, i in enumerate(ids):
            raw = b"" if i < len(SPECIAL_TOKENS) else self._raw(self.token(i))
            if waiting and not (raw and 0x80 <= raw[0] < 0xC0):  # broken off, and this is no part of it
                groups.append(range(start, n))
                start, waiting = n, b""
            waiting = _unfinished(waiting + raw)
            if not waiting:
                groups.append(range(start, n + 1))
                start = n + 1
        return [*groups, range(start, len(ids))] if waiting else groups

    def words(self, ids: Sequence[int]) -> list[range]:
        """The tokens of each word: a word begins at a blank, and a punctuation mark stands alone.

        A blank before a mark goes with the mark, blanks at the end go with the last word.
        """
        if self.unit == "character" or self._tokenizer.decoder is None:  # words without the blanks between them
            return [range(n, n + 1) for n in range(len(ids))]
        starts: list[int] = []
        only_blank = closed = False
        for n, group in ((group.start, group) for group in self.characters(ids)):
            i = ids[n]
            text = self._text(ids[group.start : group.stop])
            special = i < len(SPECIAL_TOKENS) and i != UNKNOWN
            blank = not special and text.replace(_BLANK, " ").isspace()
            # A word tokenizer's unknown token is a word, a subword tokenizer's is a character within a word.
            alone = special or self._is_alone(text) or (i == UNKNOWN and self.unit == "word")
            if only_blank and special and len(starts) > 1:
                starts.pop()
            if only_blank and not special:
                only_blank = blank
            elif not starts or closed or alone or blank or text.startswith(_BLANK):
                starts.append(n)
                only_blank = blank
            closed = alone
        if only_blank and len(starts) > 1:
            starts.pop()
        return [range(a, b) for a, b in zip(starts, [*starts[1:], len(ids)], strict=bool(ids))]

    def _is_alone(self, text: str) -> bool:
        """Whether a token is a mark; of bytes also several marks, or with a blank before them."""
        if not self._bytes:
            return _is_mark(text)
        marks = text.removeprefix(_BLANK)
        return bool(marks) and all(map(_is_mark, marks))

    def word_label(self, ids: Sequence[int]) -> str:
        """The text of one word's tokens for people, without the blanks around it."""
        text = self._text(ids)
        return text if self.unit == "character" else text.replace(_BLANK, " ").strip() or text

    def _text(self, ids: Sequence[int]) -> str:
        """The text of some tokens for people, special ones by name, with the mark of a blank at its start."""
        text = "".join(map(self.token, ids))
        if not self._bytes:
            return text
        raw = self._raw(text)
        text = readable(raw) if len(raw) == len(text) else text  # else a tag that no letters of bytes could write
        return _BLANK + text[1:] if text.startswith(" ") else text

    def unknown_in(self, text: str) -> list[str]:
        """The pieces of a text that are unknown tokens, in order."""
        encoded = self.encode(text)
        pairs = zip(encoded.ids, encoded.spans, strict=True)
        return [text[start:end].strip() or text[start:end] for token, (start, end) in pairs if token == UNKNOWN]

    def sampler(self, amount: float) -> SubwordSampler:
        """Subword sampling, for training; see `SubwordSampler`."""
        return SubwordSampler(self._tokenizer, amount)

    @property
    def library(self) -> Tokenizer:
        """The library's object."""
        return self._tokenizer

    @property
    def text(self) -> str:
        """The tokenizer as JSON."""
        return self._tokenizer.to_str()

    def save(self, path: Path) -> None:
        """Write the tokenizer as JSON."""
        write_whole(path, lambda part: self._tokenizer.save(str(part)))

    @classmethod
    def load(cls, path: Path) -> TextTokenizer:
        """Read a tokenizer from JSON.

        Raises:
            RunError: The file is missing or is not a tokenizer.
        """
        if not path.is_file():
            raise RunError(f"{path} is missing")
        try:
            return cls(Tokenizer.from_file(str(path)))
        except Exception as error:
            raise RunError(f"{path} is not a tokenizer: {error}") from None


def _in_parts(text: str) -> list[str]:
    """A text in parts of about `_LONG` characters that are cut into tokens as the whole is.

    They begin after a line end between two characters that are no blanks, where every kind of tokenizer begins a word.
    """
    cuts = [0]
    while (found := _BETWEEN.search(text, cuts[-1] + _LONG)) is not None:
        cuts.append(found.end())
    return [text[a:b] for a, b in pairwise([*cuts, len(text)])]


def _unfinished(raw: bytes) -> bytes:
    """The last bytes where they are the beginning of a character that is not whole yet."""
    for size in range(1, min(3, len(raw)) + 1):
        byte = raw[-size]
        if byte >= 0xC0:
            needed = 2 if byte < 0xE0 else 3 if byte < 0xF0 else 4
            return raw[-size:] if size < needed else b""
        if byte < 0x80:
            return b""
    return b""


def _is_mark(text: str) -> bool:
    """Whether a token is one mark of punctuation (a vowel sign of an Indian script is none)."""
    return len(text) == 1 and text != _BLANK and (text in _SIGNS or unicodedata.category(text).startswith("P"))


def _word_level() -> Tokenizer:
    return Tokenizer(models.WordLevel(unk_token=SPECIAL_TOKENS[UNKNOWN]))


def _word_trainer(config: TokenizerConfig) -> Any:
    return trainers.WordLevelTrainer(
        vocab_size=config.vocab_size or 8_000,
        min_frequency=config.min_count,
        special_tokens=list(SPECIAL_TOKENS),
        show_progress=False,
    )


def _normalize(tokenizer: Tokenizer, config: TokenizerConfig) -> None:
    steps: list[Any] = []
    if config.normalization != "none":
        steps.append({"nfc": normalizers.NFC, "nfkc": normalizers.NFKC}[config.normalization]())
    if config.lowercase:
        steps.append(normalizers.Lowercase())
    if steps:
        tokenizer.normalizer = normalizers.Sequence(steps)
