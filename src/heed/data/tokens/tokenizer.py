"""Text to tokens and back, by the `tokenizers` library; its JSON is saved in the run.

Kinds: `char` (one Unicode character), `byte` (one byte of UTF-8), `word` (words and punctuation marks), `bpe`
(Sennrich et al. 2016, arXiv:1508.07909), `unigram` (Kudo 2018, arXiv:1804.10959), `byte_bpe` (bpe over bytes, with
the cut into words of GPT-2, Radford et al. 2019, section 2.2) and `wordpiece` (Devlin et al. 2019).

In `word`, `bpe` and `unigram` a token that begins a word includes the mark of the space before it, so that decoding
restores the raw text with its spaces (except one at the very start of a text, unless trained as `exact`). The mark
itself, U+2581, in a text is read as a space. With `byte` and `byte_bpe` nothing is unknown, and every text is restored
exactly; the library represents their bytes by letters, which are never shown to people (`label`, `piece`).

`wordpiece` does not keep spaces: a piece within a word begins with "##", and decoding puts spaces between words. A word
with a character that the vocabulary lacks is one unknown token.

A `MappedTokenizer` cuts by one vocabulary and numbers by another, like Marian's pairs of SentencePiece models. Each
side has its own model that cuts texts into pieces; the ids of the pieces are looked up in a table, shared by both sides
or one for each. A piece missing from the table is the unknown token, even if the cutting model knows it; a piece
unknown to the cutting model may be in the table. A text may begin with a language code such as ">>fra<<", which is a
separate token and is not cut.
"""

from __future__ import annotations

import base64
import json
import re
import unicodedata
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from functools import cached_property
from itertools import chain, pairwise
from pathlib import Path
from typing import Any, Literal, NamedTuple

import numpy as np
from numpy.typing import NDArray
from tokenizers import AddedToken, Tokenizer, decoders, models, pre_tokenizers

from heed.config import TokenizerConfig
from heed.data.tokens import (
    BLANK,
    BYTES,
    CONTINUED,
    LETTERS,
    MASKS,
    OWN,
    SIGNS,
    SPECIAL_TOKENS,
    UNKNOWN,
    Special,
    around_masks,
    is_continued,
    joined,
    library_of,
    readable,
    refused_texts,
    whole_characters,
    without_prefix,
)
from heed.data.tokens.subwords import NUM_BYTES, ends_at_spaces, learn, learn_characters, learn_words
from heed.errors import ConfigError, RunError
from heed.storage.disk import write_whole
from heed.storage.files import read_text

_MANY_TEXTS, _MAX_WORDS = 100, 1 << 16
"""Texts from which on words are encoded once, and words whose ids are kept."""
_LONG, _CHUNK = 1 << 16, 1 << 20
"""Characters above which a text is encoded in parts, and characters encoded at once."""
_BETWEEN = re.compile(r"(?<=[!-~\w])\n(?=[!-~\w])")
"""A line end between characters that no library treats as whitespace."""


def _in_parts(text: str) -> list[str]:
    """Parts of about `_LONG` characters that have the same tokens as in the whole text.

    They begin after a line end between two characters that are not whitespace, where all tokenizers begin a word.
    """
    cuts = [0]
    while (match := _BETWEEN.search(text, cuts[-1] + _LONG)) is not None:
        cuts.append(match.end())
    return [text[a:b] for a, b in pairwise([*cuts, len(text)])]


_CUTTER = '{"cutter":'
"""Beginning of the file of a `MappedTokenizer`, which numbers with its own table."""
_IMPORTED = '{"special": '
"""Beginning of the file of an imported tokenizer, which keeps its ids."""
NAMELESS = "\ufdd0"
"""First character of the name of a piece that texts are never cut into (control, unused, unknown): no character."""
UNUSED = "<unused row {}>"
"""Name of a row of an imported embedding that its tokenizer has no token for."""
_MOST_BYTES = 1 << 29
"""Most bytes of a tokenizer's file; with 250,000 pieces it has 20 million."""


class Encoded(NamedTuple):
    """A text as tokens: the id and the character span `(start, end)` of each.

    Tokens that are parts of one character (`byte`, `byte_bpe`) all have its span.
    """

    ids: list[int]
    spans: list[tuple[int, int]]


def is_mark(text: str) -> bool:
    """True if a token is one punctuation mark (vowel signs of Indian scripts are not)."""
    return len(text) == 1 and text != BLANK and (text in SIGNS or unicodedata.category(text).startswith("P"))


class TextTokenizer:
    """A trained tokenizer; its last ids may be tags.

    Attributes:
        special: Ids of padding, unknown, start and end; 0 to 3 except in imported vocabularies.
        rows: Rows of an imported checkpoint's embedding, which may be more than its tokens; 0 for heed's own.
    """

    def __init__(self, tokenizer: Tokenizer, special: Special = OWN, rows: int = 0) -> None:
        self.special, self.rows = special, rows
        self.library = tokenizer
        """The library's object."""
        self.is_of_bytes = isinstance(tokenizer.decoder, decoders.ByteLevel)
        """True if tokens are bytes or joined from bytes, so that nothing is unknown and spaces have no mark."""
        self._added = dict(tokenizer.get_added_tokens_decoder())
        self.is_of_pieces = isinstance(tokenizer.model, models.WordPiece)
        """True if tokens are word pieces, with "##" before those within a word; spaces are not kept."""
        self._word_ids: dict[str, list[int]] = {}  # ids of words that have been encoded
        # "</s>" in a text must not end a sequence. The library does not keep this setting in its JSON.
        tokenizer.encode_special_tokens = True

    @classmethod
    def train(
        cls,
        texts: Iterable[str],
        config: TokenizerConfig,
        side: Literal["source", "target"] = "source",
        *,
        exact: bool = False,
        mask: bool = False,
    ) -> TextTokenizer:
        """Train a tokenizer of the configured kind (not "auto") on texts of a side.

        With `exact` no space is put before a text, so that decoding restores it exactly if nothing is unknown or
        normalised (except U+2581); a word at the start of a text is then another token than after a space. With
        `mask` id 4 is the token "[MASK]".

        Raises:
            ConfigError: `tokenizer.vocab_size` is too small for the required tokens.
        """
        if config.lowercase == "source":
            config = config.model_copy(update={"lowercase": side == "source"})
        return cls(learn(texts, config, exact, mask))

    @classmethod
    def train_characters(cls, texts: Iterable[str], config: TokenizerConfig | None = None) -> TextTokenizer:
        """One token per Unicode character that occurs in the texts."""
        return cls(learn_characters(texts, config))

    @classmethod
    def train_words(cls, sentences: Iterable[Sequence[str]], config: TokenizerConfig) -> TextTokenizer:
        """A tokenizer of texts given as words; of the kind "word", each of these words is one token."""
        words = chain.from_iterable(sentences)
        return cls(learn_words(words, config, cut=False)) if config.kind == "word" else cls.train(words, config)

    @classmethod
    def train_to_read(cls, texts: Iterable[str], config: TokenizerConfig, *, mask: bool = False) -> TextTokenizer:
        """A tokenizer of texts that are only read; of the kind "word", each word of `split_words` is one token.

        Spaces are then left out, and a word is the same token after a space and after a mark.
        """
        if config.kind != "word":
            return cls.train(texts, config, mask=mask)
        return cls(learn_words(texts, config, cut=True, mask=mask))

    @property
    def vocab_size(self) -> int:
        """Number of tokens, special ones and unused rows included."""
        return max(self.rows, self.library.get_vocab_size())

    @property
    def added(self) -> tuple[int, ...]:
        """The ids of tokens that were added to those of the library's model."""
        return tuple(self._added)

    @property
    def tags(self) -> dict[str, int]:
        """Tokens that mark where a text comes from; no text is ever cut into one."""
        last = [(i, token.content) for i, token in sorted(self._added.items()) if token.special]
        return {name: i for i, name in last if i not in self.special and name not in MASKS}

    @property
    def mask(self) -> int | None:
        """Id of the mask token, "[MASK]" or "<mask>", or None; no text is ever tokenized into it."""
        return next((i for i, token in self._added.items() if token.special and token.content in MASKS), None)

    @property
    def masks_spaces(self) -> bool:
        """True if a space before a mask is part of it: the mask replaces a token with its space.

        An imported tokenizer says so of its mask token; of those trained here, all but characters and bytes do.
        """
        if self.rows and self.mask is not None:
            return bool(self._added[self.mask].lstrip)
        return self.unit not in ("character", "byte")

    def encode_masked(self, text: str) -> list[int]:
        """One text to ids, without start and end, in which "[MASK]" (or the mask's own name) is the mask token."""
        mask = self.mask
        assert mask is not None, "this tokenizer has no mask token"
        first, *others = around_masks(text, self.token(mask), self.masks_spaces)
        ids = self.encode(first).ids
        for part in others:
            with refused_texts(part):
                inside = self._inside.encode(part, add_special_tokens=False).ids if part else ()
            ids += [mask, *inside]
        return ids

    @cached_property
    def _inside(self) -> Tokenizer:
        """For text after a mask."""
        return without_prefix(self.library)

    def add_tags(self, tags: Iterable[str]) -> None:
        """Append tags such as "<bt>" to the vocabulary; existing ones stay as they are."""
        self.library.add_special_tokens([AddedToken(tag, special=True, normalized=False) for tag in tags])
        self._added = dict(self.library.get_added_tokens_decoder())

    def first_difference(self, other: TextTokenizer) -> str:
        """The first difference between two tokenizers, for people; "" if they agree on all texts (except tags)."""
        sizes = [tokenizer.vocab_size - len(tokenizer.tags) for tokenizer in (self, other)]
        for i in range(min(sizes)):
            if self.token(i) != other.token(i):
                return f"token {i} is {self.token(i)!r} in one and {other.token(i)!r} in the other"
        if sizes[0] != sizes[1]:
            longer = self if sizes[0] > sizes[1] else other
            return f"{sizes[0]:,} tokens and {sizes[1]:,}; only one has {longer.token(min(sizes))!r}"
        ways = [{**json.loads(tokenizer.library.to_str()), "added_tokens": None} for tokenizer in (self, other)]
        return "" if ways[0] == ways[1] else "they have the same tokens, but normalise or cut a text differently"

    @property
    def unit(self) -> str:
        """Unit of a token: "character", "byte", "word" or "token" (a part of a word)."""
        if isinstance(self.library.model, models.WordLevel):
            return "character" if isinstance(self.library.decoder, decoders.Fuse) else "word"
        size = self.library.get_vocab_size(with_added_tokens=False)
        return "byte" if self.is_of_bytes and size == NUM_BYTES + (self.mask is not None) else "token"

    def encode(self, text: str) -> Encoded:
        """One text to tokens, without start and end."""
        with refused_texts(text):
            encoding = self.library.encode(text, add_special_tokens=False)
        return Encoded(encoding.ids, encoding.offsets)

    def encode_all(self, texts: Sequence[str]) -> list[list[int]]:
        """Many texts to ids, without start and end; where tokens end at spaces, different words are encoded once."""
        if len(texts) < _MANY_TEXTS or not self._ends_at_spaces:
            return self._encode(texts, texts)
        plain = [BLANK not in text and "  " not in f" {text} " for text in texts]
        words = [text.split(" ") if is_plain else [] for text, is_plain in zip(texts, plain, strict=True)]
        # Not cleared: another thread may look words up in it.
        ids_of = self._word_ids = self._word_ids if len(self._word_ids) < _MAX_WORDS else {}
        new = [word for word in dict.fromkeys(chain.from_iterable(words)) if word not in ids_of]
        ids_of.update(zip(new, self._encode(new, texts), strict=True))
        others = iter(self._encode([text for text, is_plain in zip(texts, plain, strict=True) if not is_plain], texts))
        return [[*chain.from_iterable(map(ids_of.__getitem__, some))] if some else next(others) for some in words]

    def _encode(self, texts: Sequence[str], of: Sequence[str]) -> list[list[int]]:
        with refused_texts(*of):
            return [e.ids for e in self.library.encode_batch_fast(list(texts), add_special_tokens=False)]

    @cached_property
    def _ends_at_spaces(self) -> bool:
        return ends_at_spaces(self.library)

    def encode_arrays(self, texts: Sequence[str]) -> list[NDArray[np.int32]]:
        """Many texts to ids, without start and end, int32: `encode_all` for long texts.

        Characters and bytes are looked up in a table; long texts are encoded in parts where that gives the same ids,
        which bounds memory for the library's objects and lets several cores work on one text.
        """
        if self.unit in ("character", "byte"):
            encoding, kind = ("utf-8", np.uint8) if self.is_of_bytes else ("utf-32-le", np.dtype("<u4"))
            codes = (np.frombuffer(self.normalize(text).encode(encoding), kind) for text in texts)
            with refused_texts(*texts):
                return [self._table[np.minimum(code, len(self._table) - 1)] for code in codes]
        divisible = self.is_of_bytes or self.is_of_pieces or self._never_prepends
        parts: list[str] = []
        ends = []  # number of parts up to the end of each text
        for text in texts:
            parts += _in_parts(text) if divisible and len(text) > _LONG else [text]
            ends.append(len(parts))
        encoded: list[NDArray[np.int32]] = []
        sizes = np.fromiter(map(len, parts), np.int64, len(parts))
        for chunk in np.split(np.arange(len(parts)), np.flatnonzero(np.diff(np.cumsum(sizes) // _CHUNK)) + 1):
            encoded += [np.array(ids, dtype=np.int32) for ids in self.encode_all([parts[n] for n in chunk])]
        return [np.concatenate(encoded[a:b]) for a, b in pairwise([0, *ends])]

    @cached_property
    def _table(self) -> NDArray[np.int32]:
        """The id of each byte; or of each character up to the last that is a token, and one more, that of others."""
        if self.is_of_bytes:
            return np.array([self.library.token_to_id(letter) for letter in LETTERS], dtype=np.int32)
        ids = {ord(token): i for i, token in enumerate(self.tokens) if len(token) == 1}
        table = np.full(max(ids, default=0) + 2, self.special.unknown, dtype=np.int32)
        table[list(ids)] = list(ids.values())
        return table

    def encode_words(self, sentences: Sequence[Sequence[str]]) -> list[list[list[int]]]:
        """The ids of each word of each text, at least one, for texts given as words; equal words share a list."""
        words = [*dict.fromkeys(chain.from_iterable(sentences))]
        ids = self.encode_all([f" {word}" if word else word for word in words] if self.spaces_words else words)
        ids_of = {word: word_ids or [self.special.unseen] for word, word_ids in zip(words, ids, strict=True)}
        return [[ids_of[word] for word in of_text] for of_text in sentences]

    def normalize(self, text: str) -> str:
        """A text as the model sees it: normalised, and lower-cased if so configured."""
        normal = self.library.normalizer
        with refused_texts(text):
            return text if normal is None else str(normal.normalize_str(text))

    @property
    def lowercases(self) -> bool:
        """True if capitals are read, and written, as small letters."""
        return self.normalize("Ab") == "ab"

    def decode(self, ids: Sequence[int], instead: Mapping[int, str] | None = None) -> str:
        """Raw text of tokens, without special ones; `instead` has words for some positions (unknown words)."""
        if self.is_of_pieces:
            instead, silent = instead or {}, {*self.special, self.mask, *self.tags.values()}
            return joined(instead.get(n, self.token(i)) for n, i in enumerate(ids) if n in instead or i not in silent)
        if not instead:
            with refused_texts():
                return self.library.decode([i for i in ids if i not in self.special])
        silent = {*self.special, *self.tags.values()}
        pieces = [instead.get(n, "" if i in silent else self.token(i)) for n, i in enumerate(ids)]
        if self.is_of_bytes:
            raw = (piece.encode() if n in instead else self._raw(piece) for n, piece in enumerate(pieces))
            return b"".join(raw).decode("utf-8", "replace")
        if self.unit == "character":
            return "".join(pieces)
        text = "".join(pieces).replace(BLANK, " ")
        return text if self._never_prepends else text.removeprefix(" ")

    @property
    def spaces_words(self) -> bool:
        """True if a space is put before given words, since tokens of bytes include the space before a word.

        In the JSON, the pre-tokenizer is then a sequence of steps.
        """
        return self.is_of_bytes and isinstance(self.library.pre_tokenizer, pre_tokenizers.Sequence)

    @property
    def _never_prepends(self) -> bool:
        """True if spaces are marked and none is put before a text."""
        decoder = self.library.decoder
        return isinstance(decoder, decoders.Metaspace) and decoder.prepend_scheme == "never"

    @staticmethod
    def _raw(token: str) -> bytes:
        """The bytes of a token, which the library represents by letters."""
        return bytes(BYTES[letter] for letter in token if letter in BYTES)

    def token(self, token: int) -> str:
        """The text of one token as in the vocabulary."""
        if token in self._added:  # the library would give it normalised
            return self._added[token].content
        if (name := self.library.id_to_token(token)) is not None or self.rows:
            return UNUSED.format(token) if name is None else name
        return self.library.id_to_token(self.special.unknown) or SPECIAL_TOKENS[UNKNOWN]

    @property
    def tokens(self) -> list[str]:
        """The text of every token, in order."""
        return [self.token(i) for i in range(self.vocab_size)]

    def piece(self, token: int) -> str:
        """The text of one token for people, with U+2581 for a space before it.

        A word piece keeps its "##". Bytes that are only part of a character are shown by number in angle brackets:
        U+27E8 e2 U+27E9.
        """
        return self._text([token])

    def label(self, token: int) -> str:
        """The text of one token for people, without the mark of the space before it."""
        text = self.piece(token)
        return text if self.unit == "character" else text.removeprefix(BLANK) or text

    def characters(self, ids: Sequence[int]) -> list[range]:
        """The tokens in groups of whole characters: each alone, or the bytes of one character together."""
        if not self.is_of_bytes:
            return [range(n, n + 1) for n in range(len(ids))]
        return whole_characters(b"" if i in self.special else self._raw(self.token(i)) for i in ids)

    def words(self, ids: Sequence[int]) -> list[range]:
        """The tokens of each word: a word begins at a space, and a punctuation mark is a separate word.

        A space before a mark belongs to the mark, spaces at the end to the last word.
        """
        if self.unit == "character" or self.library.decoder is None:  # words without the spaces between them
            return [range(n, n + 1) for n in range(len(ids))]
        if self.is_of_pieces:
            begins = [i in self.special or not is_continued(self.token(i)) for i in ids]
            firsts = [n for n, _ in enumerate(ids) if not n or begins[n] or self._is_silent(ids[n - 1])]
            return [range(a, b) for a, b in pairwise([*firsts, len(ids)])]
        starts: list[int] = []
        only_blank = closed = False
        mask, tags = self.mask, {*self.tags.values()}
        for n, group in ((group.start, group) for group in self.characters(ids)):
            i = ids[n]
            text = self._text(ids[group.start : group.stop])
            special = self._is_silent(i) or i in tags
            blank = not special and text.replace(BLANK, " ").isspace()
            # A word tokenizer's unknown token is a word, a subword tokenizer's is a character within a word.
            alone = special or self._is_alone(text) or (i == self.special.unknown and self.unit == "word")
            if only_blank and special and len(starts) > 1:
                starts.pop()
            if only_blank and not special:
                only_blank = blank
            elif not starts or closed or alone or blank or text.startswith(BLANK) or i == mask:
                starts.append(n)
                only_blank = blank
            closed = alone
        if only_blank and len(starts) > 1:
            starts.pop()
        return [range(a, b) for a, b in pairwise([*starts, len(ids)])]

    def _is_silent(self, token: int) -> bool:
        return token in self.special and token != self.special.unknown

    def _is_alone(self, text: str) -> bool:
        """True if a token is a mark; with bytes also several marks, or a space before them."""
        if not self.is_of_bytes:
            return is_mark(text)
        marks = text.removeprefix(BLANK)
        return bool(marks) and all(map(is_mark, marks))

    def word_label(self, ids: Sequence[int]) -> str:
        """The text of one word's tokens for people, without spaces around it."""
        text = self._text(ids)
        return text if self.unit == "character" else text.replace(BLANK, " ").strip() or text

    def _text(self, ids: Sequence[int]) -> str:
        """The text of some tokens for people, special ones by name, with the mark of a space at its start."""
        if self.is_of_pieces and len(ids) > 1:
            return "".join([self.token(ids[0]), *(self.token(i).removeprefix(CONTINUED) for i in ids[1:])])
        text = "".join(map(self.token, ids))
        if not self.is_of_bytes:
            return text
        raw = self._raw(text)
        text = readable(raw) if len(raw) == len(text) else text  # else a tag with other characters than byte letters
        return BLANK + text[1:] if text.startswith(" ") else text

    def unknown_in(self, text: str) -> list[str]:
        """The pieces of a text that are unknown tokens, in order."""
        encoded = self.encode(text)
        pairs = zip(encoded.ids, encoded.spans, strict=True)
        return [
            text[start:end].strip() or text[start:end] for token, (start, end) in pairs if token == self.special.unknown
        ]

    @property
    def text(self) -> str:
        """The tokenizer as JSON."""
        text = self.library.to_str()
        return f'{_IMPORTED}{json.dumps(self.special)}, "rows": {self.rows}, "library": {text}}}' if self.rows else text

    def save(self, path: Path) -> None:
        """Write the tokenizer as JSON."""
        text = self.library.to_str(pretty=True) if self.text == self.library.to_str() else self.text
        write_whole(path, lambda part: part.write_text(text, encoding="utf-8"))

    @classmethod
    def load(cls, path: Path) -> TextTokenizer:
        """Read a tokenizer from JSON.

        Raises:
            RunError: The file is missing or is not a tokenizer.
        """
        text = read_text(path, _MOST_BYTES)
        try:
            if text.startswith(_CUTTER):
                return MappedTokenizer.of_text(text)
            if text.startswith(_IMPORTED):
                state = json.loads(text)
                return cls(library_of(state["library"]), Special(*state["special"]), state["rows"])
            return cls(library_of(json.loads(text)))
        except Exception as error:
            raise RunError(f"{path} is not a tokenizer: {error}") from None


CODE = re.compile(r">>.*?<<", re.DOTALL)
"""A language code at the start of a text."""
BYTE = re.compile(r"<0x[0-9A-F]{2}>")


class MappedTokenizer(TextTokenizer):
    """A tokenizer that cuts with one tokenizer and numbers with a table of tokens.

    Attributes:
        origin: Content of the file from which the cutting tokenizer was made; empty if there was none.
    """

    def __init__(
        self,
        cutter: Tokenizer,
        vocabulary: Sequence[str],
        origin: bytes = b"",
        tags: Sequence[str] = (),
        special: Special = OWN,
        codes: bool = True,
    ) -> None:
        """Combine both; the `tags` and special tokens of the `vocabulary` never occur in texts.

        With `codes`, a text may begin with a language code.
        """
        super().__init__(cutter, special)
        self.origin, self.codes = origin, codes
        self._vocabulary = list(vocabulary)
        self._tags = list(tags)
        self._number()

    def _number(self) -> None:
        marks, special = {*self._tags}, self.special
        self._places = {token: i for i, token in reversed([*enumerate(self._vocabulary)]) if i not in special}
        ids = {token: i for token, i in self._places.items() if token not in marks}
        cutter = self.library
        names = (cutter.id_to_token(i) or "" for i in range(cutter.get_vocab_size()))
        self._ids = [ids.get(name, special.unknown) for name in names]
        self._of_bytes = any(BYTE.fullmatch(token) for token in self._vocabulary)

    @property
    def vocab_size(self) -> int:
        return len(self._vocabulary)

    @property
    def tags(self) -> dict[str, int]:
        return {tag: self._places[tag] for tag in self._tags}

    def add_tags(self, tags: Iterable[str]) -> None:
        for tag in tags:
            if tag not in self._places:
                self._vocabulary.append(tag)
                self._tags.append(tag)
                self._number()

    def encode(self, text: str) -> Encoded:
        code, text_after = self.split_code(text)
        with refused_texts(text):
            encoding = self.library.encode(text_after, add_special_tokens=False)
        spans = [(a + len(code), b + len(code)) for a, b in encoding.offsets]
        ids = self._numbered(encoding, text_after)
        if not code:
            return Encoded(ids, spans)
        return Encoded([self._places.get(code, self.special.unknown), *ids], [(0, len(code)), *spans])

    def encode_all(self, texts: Sequence[str]) -> list[list[int]]:
        rests = [self.split_code(text)[1] for text in texts]
        with refused_texts(*texts):
            encodings = self.library.encode_batch_fast(rests, add_special_tokens=False)
        encoded = []
        for text, text_after, encoding in zip(texts, rests, encodings, strict=True):
            ids = [self._ids[i] for i in encoding.ids]
            whole = self.special.unknown not in ids and len(text_after) == len(text)
            encoded.append(ids if whole else self.encode(text).ids)  # the fast encoding has no text of tokens
        return encoded

    def split_code(self, text: str) -> tuple[str, str]:
        """The language code at the start of a text, and the rest."""
        match = CODE.match(text) if self.codes else None
        return ("", text) if match is None else (match[0], text[match.end() :])

    def _numbered(self, encoding: Any, text: str) -> list[int]:
        """Ids by the table; for pieces unknown to the cutting model, by their text."""
        ids, tokens = [self._ids[i] for i in encoding.ids], encoding.tokens
        if (unknown := self.special.unknown) in ids:
            if any(token.startswith(NAMELESS) for token in tokens):  # a model of pairs gives no text of what it lacks
                text = self.normalize(text)  # spans in a text that was not normalised may leave out accents
                again = self.library.encode(text, add_special_tokens=False)
                tokens = [text[a:b] for a, b in again.offsets] if again.ids == encoding.ids else tokens
            for n, token in enumerate(tokens):
                if ids[n] == unknown and token not in self._tags:
                    ids[n] = self._places.get(token, unknown)
        return ids

    def token(self, token: int) -> str:
        return self._vocabulary[token] if 0 <= token < len(self._vocabulary) else self._vocabulary[self.special.unknown]

    def decode(self, ids: Sequence[int], instead: Mapping[int, str] | None = None) -> str:
        words = instead or {}
        silent = {*self.special, *self.tags.values()}
        pieces = [words.get(n, self.token(i)) for n, i in enumerate(ids) if n in words or i not in silent]
        text = decoders.ByteFallback().decode(pieces) if self._of_bytes else "".join(pieces)
        return text.replace(BLANK, " ").strip()

    @property
    def text(self) -> str:
        state = {
            "cutter": json.loads(self.library.to_str()),
            "vocabulary": self._vocabulary,
            "tags": self._tags,
            "origin": base64.b64encode(self.origin).decode("ascii"),
            "special": [*self.special],
            **({} if self.codes else {"codes": False}),
        }
        return json.dumps(state, ensure_ascii=False)

    @classmethod
    def of_text(cls, text: str) -> MappedTokenizer:
        """From the JSON of `text`; a KeyError, ValueError or TypeError if it is something else."""
        state = json.loads(text)
        cutter = library_of(state["cutter"])
        origin = base64.b64decode(state["origin"], validate=True)
        special = Special(*state.get("special", OWN))
        return cls(cutter, list(state["vocabulary"]), origin, list(state["tags"]), special, state.get("codes", True))


def language_token(tokenizer: TextTokenizer, name: str) -> int | None:
    """The token of a language, by its name or, as in M2M-100, between underscores; None if there is none."""
    return tokenizer.tags.get(name, tokenizer.tags.get(f"__{name}__"))


class Beginning(NamedTuple):
    """The beginning of a text to be continued."""

    ids: Sequence[int]  # tokens of the beginning
    never_next: tuple[int, ...] = ()  # tokens that may not follow, since they would change the beginning


def beginning(tokenizer: TextTokenizer, text: str) -> Beginning:
    """The tokens of a beginning.

    If tokens of words include the space before them, a separate token for a space was hardly ever seen in training,
    and half a word would follow it. The last space is then left out of the tokens, and the next token must include
    it. With word pieces, the next token must begin a word.
    """
    if not text.strip() or not text.endswith(" ") or tokenizer.unit in ("character", "byte"):
        return Beginning(tokenizer.encode(text).ids if text else [])
    if tokenizer.is_of_pieces:
        within = tuple(i for i, token in enumerate(tokenizer.tokens) if is_continued(token))
        return Beginning(tokenizer.encode(text).ids, within)
    mark = next(letter for letter, byte in BYTES.items() if byte == ord(" ")) if tokenizer.is_of_bytes else BLANK
    without = tuple(i for i, token in enumerate(tokenizer.tokens) if not token.startswith(mark) or token == mark)
    return Beginning(tokenizer.encode(text[:-1]).ids, without)


def extended(tokenizer: TextTokenizer, texts: Sequence[str], min_count: int = 1) -> TextTokenizer:
    """A tokenizer with further tokens, after the others; texts without unknown tokens are cut as before.

    | kind | what is added |
    |---|---|
    | char, word | unknown characters or words |
    | bpe, unigram | unknown characters; in unigram as improbable as the least probable token |
    | wordpiece | unknown characters, at the start of a word and within one |
    | byte, byte_bpe | nothing: no text has unknown bytes |

    Args:
        tokenizer: The tokenizer to extend; it is not changed.
        texts: Texts that may contain unknown tokens.
        min_count: Least number of occurrences of a character or word to add.

    Raises:
        ConfigError: The tokenizer has tags or added tokens, which must be last in the vocabulary.
    """
    if tokenizer.tags:
        tags = ", ".join(tokenizer.tags)
        raise ConfigError(f"a tokenizer with tags ({tags}) cannot be extended: they must stay last")
    state = json.loads(tokenizer.library.to_str())
    size = tokenizer.library.get_vocab_size(with_added_tokens=False)
    if last := [token["content"] for token in state["added_tokens"] if token["id"] >= size]:
        raise ConfigError(f"a tokenizer with added tokens ({', '.join(last)}) cannot be extended: they must stay last")
    new = [] if tokenizer.is_of_bytes else _unknown_pieces(tokenizer, texts, min_count)
    vocabulary = state["model"]["vocab"]
    if isinstance(vocabulary, list):  # unigram
        lowest = min(score for _, score in vocabulary)
        vocabulary += [[piece, lowest] for piece in new]
    else:
        vocabulary.update((piece, i) for i, piece in enumerate(new, start=len(vocabulary)))
    return TextTokenizer(Tokenizer.from_str(json.dumps(state)), tokenizer.special, tokenizer.rows)


def _unknown_pieces(tokenizer: TextTokenizer, texts: Iterable[str], min_count: int) -> list[str]:
    """Unknown pieces in texts, as in a vocabulary: the most frequent first, then alphabetically."""
    counts: Counter[str] = Counter()
    library = tokenizer.library
    for text in map(tokenizer.normalize, texts):
        if tokenizer.is_of_pieces:
            for word, _ in library.pre_tokenizer.pre_tokenize_str(text):
                counts.update([word[:1], *(CONTINUED + character for character in word[1:])])
        elif tokenizer.unit != "word":
            counts.update(text)
        elif library.pre_tokenizer is not None:
            counts.update(piece for piece, _ in library.pre_tokenizer.pre_tokenize_str(text))
    if tokenizer.unit == "token":
        del counts[" "]  # known by its mark, U+2581
    vocabulary = library.get_vocab()
    # Characters of long words, which are unknown to WordPiece, are added too: other words have them.
    new = [piece for piece, count in counts.items() if count >= min_count and piece not in vocabulary]
    return sorted(new, key=lambda piece: (-counts[piece], piece))
