"""Documents as one array of tokens, with the beginnings of documents, sentences and words."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from heed.data.read.documents import Document
from heed.data.read.sentences import split_sentences
from heed.data.store.store import StoredExamples
from heed.data.tokens.token_cache import are_many, digest_of
from heed.data.tokens.tokenizer import TextTokenizer
from heed.storage.cache import CacheError, key_of, make_entry
from heed.tasks.base.documents import EncodedDocuments

PIECE, WORD, SENTENCE = 1, 2, 4
"""Flags of a token: it begins a unit of the tokenizer (a word or a mark), a word after a space, a sentence."""
_BLANKS = [9, 10, 11, 12, 13, 32, 0xA0, 0x3000]
_TOGETHER = 1 << 20
"""Characters of documents that are encoded at once."""


@dataclass(frozen=True)
class Passages(EncodedDocuments):
    """The tokens of all documents, concatenated, without start and end tokens.

    Attributes:
        ids: `(tokens,)`, integers of the smallest type that fits the vocabulary.
        flags: `(tokens,)` uint8, what begins at each token: `PIECE`, `WORD`, `SENTENCE`.
        starts: `(documents + 1,)` int64, where each document begins; the last is the number of tokens.
        widths: `(vocab_size,)` uint8, number of characters of each token of the vocabulary.
    """

    ids: NDArray[Any]
    flags: NDArray[np.uint8]
    starts: NDArray[np.int64]
    widths: NDArray[np.uint8]

    @classmethod
    def of(cls, documents: Sequence[Document], tokenizer: TextTokenizer) -> Passages:
        """Encode documents; large corpora are stored in the cache and memory-mapped.

        Raises:
            CacheError: The cache folder cannot be written to, for a corpus that is not held in memory.
        """
        widths = np.minimum([len(token) for token in tokenizer.tokens], 255).astype(np.uint8)
        kind = np.dtype("<u2" if tokenizer.vocab_size <= 1 << 16 else "<i4")
        stored = isinstance(documents, StoredExamples) and documents.key
        if stored or are_many(document.text for document in documents):
            texts = (document.text for document in documents)
            corpus = documents.key if isinstance(documents, StoredExamples) and stored else digest_of(texts)

            def make(folder: Path) -> dict[str, Any]:
                starts = [0]
                with (folder / "ids.bin").open("wb") as ids, (folder / "flags.bin").open("wb") as flags:
                    for one, begins in _encoded(documents, tokenizer):
                        ids.write(one.astype(kind).tobytes())
                        flags.write(begins.tobytes())
                        starts.append(starts[-1] + len(one))
                np.array(starts, dtype="<i8").tofile(folder / "starts.bin")
                return {}

            try:
                folder = make_entry(key_of(kind="passages", corpus=corpus, tokenizer=tokenizer.text), make).path
                starts = np.fromfile(folder / "starts.bin", dtype="<i8").astype(np.int64)
                if not starts[-1]:
                    return cls(np.zeros(0, kind), np.zeros(0, np.uint8), starts, widths)
                ids, flags = np.memmap(folder / "ids.bin", kind, "r"), np.memmap(folder / "flags.bin", "u1", "r")
                return cls(ids, flags, starts, widths)
            except CacheError:
                if stored:
                    raise
        parts = list(_encoded(documents, tokenizer))
        return cls(
            np.concatenate([np.zeros(0, kind), *(ids for ids, _ in parts)]).astype(kind),
            np.concatenate([np.zeros(0, np.uint8), *(flags for _, flags in parts)]),
            np.cumsum([0, *(len(ids) for ids, _ in parts)], dtype=np.int64),
            widths,
        )

    def characters(self, starts: NDArray[np.int64], stops: NDArray[np.int64]) -> NDArray[np.int64]:
        """Number of characters in each of some ranges of tokens, none empty."""
        if not len(starts):
            return np.zeros(0, np.int64)
        widths = np.append(self.widths[self.ids], 0)  # a range may end with the last token
        ends = np.stack([starts, stops], axis=1).reshape(-1)
        return np.add.reduceat(widths, ends, dtype=np.int64)[::2]

    def begins(self, flag: int) -> NDArray[np.int64]:
        """Positions of the tokens with a flag, in order; every document begins with all flags."""
        return np.flatnonzero(self.flags & flag)


def plain_text(text: str) -> tuple[str, list[int]]:
    """A document as the model reads it: its sentences separated by one space; and where each begins."""
    sentences = [text[start:end] for start, end in split_sentences(text)]
    lengths = [0, *(len(sentence) + 1 for sentence in sentences[:-1])]
    return " ".join(sentences), np.cumsum(lengths).tolist() if sentences else []


def _encoded(documents: Iterable[Document], tokenizer: TextTokenizer) -> Iterator[tuple[Any, NDArray[np.uint8]]]:
    """The tokens of each document, and their flags."""
    texts: list[tuple[str, list[int]]] = []
    size = 0
    for document in documents:
        texts.append(plain_text(document.text))
        size += len(document.text)
        if size > _TOGETHER:
            yield from _flagged(texts, tokenizer)
            texts, size = [], 0
    yield from _flagged(texts, tokenizer)


def _flagged(texts: list[tuple[str, list[int]]], tokenizer: TextTokenizer) -> Iterator[tuple[Any, NDArray[np.uint8]]]:
    encodings = tokenizer.library.encode_batch([text for text, _ in texts], add_special_tokens=False)
    for (text, sentences), encoding in zip(texts, encodings, strict=True):
        ids = np.array(encoding.ids, dtype=np.int32)
        flags = np.zeros(len(ids), dtype=np.uint8)
        if len(ids):
            starts, stops = np.array(encoding.offsets, dtype=np.int64).T
            words = np.array([-1 if one is None else one for one in encoding.word_ids])
            flags |= PIECE * (np.diff(words, prepend=-2) != 0).astype(np.uint8)
            characters = np.frombuffer(text.encode("utf-32-le"), dtype="<u4")
            blank = np.append(_is_blank(characters), True)
            # A token that begins with a space or follows one; never within a character's bytes.
            fresh = np.diff(starts, prepend=-1) > 0
            flags |= WORD * (fresh & (blank[starts] | blank[starts - 1] | (starts == 0))).astype(np.uint8)
            # The first token that ends after the beginning of a sentence.
            first = np.searchsorted(stops, np.array(sentences), side="right")
            flags[np.unique(first[first < len(ids)])] |= SENTENCE
            flags[0] |= PIECE | WORD | SENTENCE
        yield ids, flags


def _is_blank(characters: NDArray[Any]) -> NDArray[np.bool_]:
    blanks: NDArray[np.bool_] = np.isin(characters, _BLANKS)
    return blanks
