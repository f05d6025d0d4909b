"""Documents as numbers: the tokens of all of them as one array, encoded once."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from heed.data.corpus import corpus_of
from heed.data.kinds.documents import Document
from heed.data.tokens.tokenizer import TextTokenizer

_TOGETHER = 1 << 22
"""Characters that are encoded at once, or one document."""


class EncodedDocuments:
    """The tokens of all documents, concatenated."""

    ids: NDArray[Any]  # `(tokens,)` uint16 or int32, in memory or memory-mapped
    # `(documents + 1,)` int64, where each document begins in `ids`; the last is the number of tokens
    starts: NDArray[np.int64]
    end_token: bool = False  # True if each document ends with END, which counts as its last token

    def __len__(self) -> int:
        """Number of tokens."""
        return len(self.ids)

    @property
    def num_documents(self) -> int:
        """Number of documents."""
        return len(self.starts) - 1

    @property
    def lengths(self) -> NDArray[np.int64]:
        """The tokens of each document, without end tokens, `(documents, 1)`."""
        lengths: NDArray[np.int64] = np.diff(self.starts)[:, None] - self.end_token
        return lengths

    def counts(self, row: int, size: int, lengths: NDArray[np.int64]) -> NDArray[np.int64]:
        """How often each number below `size` is among all tokens, without end tokens; as `Corpus.counts`."""
        counts: NDArray[np.int64] = np.bincount(self.ids, minlength=size)
        if self.end_token:
            counts[self.ids[-1]] -= self.num_documents
        return counts

    def document_at(self, places: NDArray[np.int64]) -> NDArray[np.int64]:
        """The number of the document that the token at each place belongs to."""
        return np.searchsorted(self.starts, places, side="right") - 1


def encode_documents(
    documents: Sequence[Document],
    tokenizer: TextTokenizer,
    encode: Callable[[list[str]], Iterable[tuple[NDArray[Any], ...]]],
    further: Sequence[str],
    **settings: Any,
) -> tuple[NDArray[Any], ...]:
    """Encode documents; the tokens of documents on disk, or of many, are stored on disk too, in the cache.

    Args:
        documents: The documents.
        tokenizer: Decides the type of the tokens.
        encode: Encodes some texts; yields the tokens of each, and arrays of the same length.
        further: The type of each of these arrays.
        settings: What the result depends on besides the documents and the tokenizer.

    Returns:
        Where each document begins, and the concatenated arrays, the tokens first.

    Raises:
        CacheError: The cache folder cannot be written to, for a corpus that is not held in memory.
    """
    kinds = ["<u2" if tokenizer.vocab_size <= 1 << 16 else "<i4", *further]

    def encoded() -> Iterator[list[Any]]:
        texts, size = [], 0
        for document in documents:
            texts.append(document.text)
            size += len(document.text)
            if size > _TOGETHER:
                yield rows(texts)
                texts, size = [], 0
        if texts:
            yield rows(texts)

    def rows(texts: list[str]) -> list[Any]:
        return [[part.astype(kind) for part, kind in zip(parts, kinds, strict=True)] for parts in encode(texts)]

    worth = tokenizer.unit not in ("character", "byte")
    settings["tokenizer"] = tokenizer.text
    corpus = corpus_of(documents, encoded, kinds, lambda rows: rows, worth, **settings)
    return np.array(corpus.offsets[:, 0]), *corpus.values
