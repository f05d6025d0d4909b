"""Documents as one stream of tokens, in memory or on disk.

`tokenizer.normalization` is none by default, and no space is put before a text, so that tokens decode to the text
itself where nothing is unknown (except U+2581, a space to `word`, `bpe` and `unigram`). With end tokens even the first
token of a file has a token before it, so that all are scored.
"""

from __future__ import annotations

import shutil
import weakref
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from heed.data.read.documents import Document
from heed.data.store.store import StoredExamples
from heed.data.tokens.token_cache import are_many, digest_of
from heed.data.tokens.tokenizer import END, TextTokenizer
from heed.storage.cache import CacheError, Entry, key_of, make_entry, temporary_folder
from heed.tasks.base.documents import EncodedDocuments

_TOGETHER = 1 << 22
"""Characters that are encoded at once, or one document."""


@dataclass(frozen=True, eq=False)
class TokenStream(EncodedDocuments):
    """The tokens of all documents, concatenated, each document followed by END if `end_token` is True.

    Attributes:
        ids: `(tokens,)` uint16 or int32, in memory or memory-mapped.
        starts: `(documents + 1,)` int64, where each document begins in `ids`; the last is `len(ids)`.
        end_token: True if each document ends with END, which counts as its last token.
    """

    ids: NDArray[Any]
    starts: NDArray[np.int64]
    end_token: bool = True

    @classmethod
    def of(cls, documents: Sequence[Document], tokenizer: TextTokenizer, end_token: bool) -> TokenStream:
        """Encode documents; the tokens of documents on disk are stored on disk too, in the cache.

        Raises:
            CacheError: The cache folder cannot be written to, for a corpus that is not held in memory.
        """
        kind = np.dtype("<u2" if tokenizer.vocab_size <= 1 << 16 else "<i4")

        def make(folder: Path) -> dict[str, Any]:
            starts = [0]
            with (folder / "ids.bin").open("wb") as file:
                for ids in _encoded(documents, tokenizer, end_token):
                    file.write(ids.astype(kind).tobytes())
                    starts.append(starts[-1] + len(ids))
            np.array(starts, dtype="<i8").tofile(folder / "starts.bin")
            return {}

        stored = isinstance(documents, StoredExamples)
        slow = tokenizer.unit not in ("character", "byte")
        if stored or (slow and are_many(document.text for document in documents)):
            texts = (document.text for document in documents)
            corpus = documents.key if isinstance(documents, StoredExamples) else digest_of(texts)
            what = {"corpus": corpus, "tokenizer": tokenizer.text, "end_token": end_token}
            try:
                if corpus:
                    return cls._mapped(make_entry(key_of(kind="token stream", **what), make), kind, end_token)
                folder = temporary_folder()
                try:
                    return cls._mapped(Entry(folder, "", make(folder)), kind, end_token)
                except BaseException:
                    shutil.rmtree(folder, ignore_errors=True)
                    raise
            except CacheError:
                if stored:
                    raise
        parts = list(_encoded(documents, tokenizer, end_token))
        starts = np.cumsum([0, *map(len, parts)], dtype=np.int64)
        return cls(np.concatenate([np.zeros(0, kind), *parts]).astype(kind), starts, end_token)

    @classmethod
    def _mapped(cls, entry: Entry, kind: np.dtype[Any], end_token: bool) -> TokenStream:
        """Memory-map the stream in a folder; a temporary folder is removed with the stream."""
        starts = np.fromfile(entry.path / "starts.bin", dtype="<i8").astype(np.int64)
        size = int(starts[-1])
        ids = np.memmap(entry.path / "ids.bin", kind, "r", shape=(size,)) if size else np.zeros(0, kind)
        if not entry.key:
            weakref.finalize(ids, shutil.rmtree, entry.path, ignore_errors=True)
        return cls(ids, starts, end_token)

    def document(self, number: int) -> NDArray[Any]:
        """The tokens of one document, its END included."""
        return self.ids[self.starts[number] : self.starts[number + 1]]


def _encoded(documents: Sequence[Document], tokenizer: TextTokenizer, end_token: bool) -> Iterator[NDArray[np.int32]]:
    """The tokens of each document, one array for each."""
    end = np.array([END] if end_token else [], dtype=np.int32)
    texts: list[str] = []
    size = 0
    for document in documents:
        texts.append(document.text)
        size += len(document.text)
        if size > _TOGETHER:
            yield from (np.append(ids, end) for ids in tokenizer.encode_arrays(texts))
            texts, size = [], 0
    yield from (np.append(ids, end) for ids in tokenizer.encode_arrays(texts))
