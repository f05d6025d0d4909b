"""Base of tasks that learn from documents: their tokens as one array, one tokenizer, the counts for the report."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import ExitStack
from pathlib import Path
from typing import Any, ClassVar, Generic, Self, TypeVar

import numpy as np
from numpy.typing import NDArray

from heed.config import RunConfig
from heed.config.sections import with_tokenizer
from heed.data.corpus import mapped
from heed.data.findings import Findings, found_table
from heed.data.kinds.documents import Document, document_reader
from heed.data.readers import hold
from heed.data.splits.documents import open_documents, sample_texts
from heed.data.splits.splits import Splits
from heed.data.splits.stored import StoredExamples, kept_of, learn_cached
from heed.data.tokens.tokenizer import TextTokenizer
from heed.tasks.base.report import SideCounts, token_lines
from heed.tasks.base.task import Task

_TOKENIZER = "tokenizer.json"
_TOGETHER = 1 << 22
"""Characters that are encoded at once, or one document."""

C = TypeVar("C", bound=RunConfig)


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

    def document_at(self, places: NDArray[np.int64]) -> NDArray[np.int64]:
        """The number of the document that the token at each place belongs to."""
        return np.searchsorted(self.starts, places, side="right") - 1


def encode_documents(
    documents: Sequence[Document],
    tokenizer: TextTokenizer,
    encode: Callable[[list[str]], Iterable[tuple[NDArray[Any], ...]]],
    further: Mapping[str, str],
    **settings: Any,
) -> tuple[NDArray[Any], ...]:
    """Encode documents; the tokens of documents on disk, or of many, are stored on disk too, in the cache.

    Args:
        documents: The documents.
        tokenizer: Decides the type of the tokens.
        encode: Encodes some texts; yields the tokens of each, and arrays of the same length.
        further: Name and type of each of these arrays.
        settings: What the result depends on besides the documents and the tokenizer.

    Returns:
        Where each document begins, and the concatenated arrays, the tokens first.

    Raises:
        CacheError: The cache folder cannot be written to, for a corpus that is not held in memory.
    """
    kinds = {"ids": np.dtype("<u2" if tokenizer.vocab_size <= 1 << 16 else "<i4")}
    kinds |= {name: np.dtype(kind) for name, kind in further.items()}

    def encoded() -> Iterator[tuple[NDArray[Any], ...]]:
        texts, size = [], 0
        for document in documents:
            texts.append(document.text)
            size += len(document.text)
            if size > _TOGETHER:
                yield from encode(texts)
                texts, size = [], 0
        yield from encode(texts)

    def make(folder: Path) -> dict[str, Any]:
        starts = [0]
        with ExitStack() as stack:
            files = [stack.enter_context((folder / f"{name}.bin").open("wb")) for name in kinds]
            for parts in encoded():
                for file, part, kind in zip(files, parts, kinds.values(), strict=True):
                    file.write(part.astype(kind).tobytes())
                starts.append(starts[-1] + len(parts[0]))
        np.array(starts, dtype="<i8").tofile(folder / "starts.bin")
        return {}

    worth = tokenizer.unit not in ("character", "byte")
    entry = kept_of(documents, make, worth, tokenizer=tokenizer.text, **settings)
    if entry is not None:
        starts = np.fromfile(entry.path / "starts.bin", dtype="<i8").astype(np.int64)
        return starts, *(mapped(entry, name, kind) for name, kind in kinds.items())
    parts = list(encoded())
    starts = np.cumsum([0, *(len(part[0]) for part in parts)], dtype=np.int64)
    columns = [[part[n] for part in parts] for n in range(len(kinds))]
    arrays = (np.concatenate([np.zeros(0, k), *own]).astype(k) for k, own in zip(kinds.values(), columns, strict=True))
    return starts, *arrays


def learn_tokenizer(
    config: C,
    documents: Sequence[Document],
    kind: Callable[[int], str],
    size: Callable[[int], int],
    train: Callable[[list[str], Any], TextTokenizer],
    **settings: Any,
) -> tuple[C, TextTokenizer, str]:
    """Decide the kind and size of the tokenizer and train it, or take it from the cache.

    For documents that are not held in memory a random sample is used, the same every time.

    Args:
        config: The configuration.
        documents: The training documents.
        kind: The kind for an amount of text in characters, if none is configured.
        size: The vocabulary size for an amount of text, likewise.
        train: Trains a tokenizer on texts, by the `tokenizer` section.
        settings: What the result depends on besides the texts and the section.

    Returns:
        The configuration with kind and size; the tokenizer; and a remark for the user, or "".
    """
    texts, remark = sample_texts(documents)
    amount = sum(map(len, texts))
    if isinstance(documents, StoredExamples):
        amount = max(amount, documents.num_bytes)
    config = with_tokenizer(config, kind(amount), lambda: size(amount), words=None)
    section = config.tokenizer
    settings |= section.model_dump(mode="json", exclude={"sampling"})
    return config, learn_cached(texts, settings, lambda: train(texts, section)), remark


def read_documents(data: Any, files: Sequence[str | Path]) -> list[Document]:
    """The documents of files in the format of a `data` section, without blank ones."""
    documents = document_reader(data).read([str(file) for file in files], Findings.of(data, strict=True))
    return [document for document in documents if not document.blank]


class DocumentTask(Task[C, Document], Generic[C]):
    """A task whose examples are documents."""

    texts_are_examples = True
    size_fields: ClassVar = {"tokens": "vocab_size"}
    positions_per_parameter = 4.0
    tokens_of_size: ClassVar[dict[str, int]]
    """Named size -> training tokens up to which it is chosen; base from there on."""

    def __init__(self, config: C, tokenizer: TextTokenizer, splits: Splits[Document] | None) -> None:
        super().__init__(config, splits)
        self.tokenizer = tokenizer

    @classmethod
    def hold(cls, data: Any, split: str, config: Any, findings: Findings) -> Sequence[Document]:
        return hold(data, split, document_reader(config.data), ["text"], findings)

    @classmethod
    def open_splits(cls, config: C, given: Mapping[str, Sequence[Document]] | None = None) -> Splits[Document]:
        return open_documents(config.data, given)

    @classmethod
    def restore(cls, config: C, folder: Path) -> Self:
        return cls(config, TextTokenizer.load(folder / _TOKENIZER), None)

    def save(self, folder: Path) -> None:
        self.tokenizer.save(folder / _TOKENIZER)

    def tokenizers(self) -> dict[str, TextTokenizer]:
        return {"tokens": self.tokenizer}

    @abstractmethod
    def encoded(self, split: str) -> EncodedDocuments:
        """The tokens of all documents of a split."""

    def num_tokens(self, split: str) -> int:
        """Number of tokens of a split, without end tokens."""
        encoded = self.encoded(split)
        return len(encoded) - encoded.end_token * encoded.num_documents

    def overview(self) -> str:
        """Counts, problems found in the files, lengths, unknown tokens, and what `samples` adds."""
        counts = map(self._counts, self.splits.examples)
        return "\n".join(
            [
                self.splits.summary,
                *found_table(self.splits.found),
                *token_lines(self.config.tokenizer.kind, self.tokenizer, list(counts)),
                *self.samples(),
            ]
        )

    @abstractmethod
    def samples(self) -> list[str]:
        """Documents as the model sees them, as lines."""

    def _counts(self, split: str) -> SideCounts:
        """Count tokens and document lengths, without end tokens."""
        encoded, special = self.encoded(split), self.tokenizer.special
        counts = SideCounts(split, "text", unknown_token=special.unknown)
        own = np.bincount(encoded.ids, minlength=self.tokenizer.vocab_size)
        own[special.end] -= encoded.end_token * encoded.num_documents
        counts.tokens.update({token: int(count) for token, count in enumerate(own) if count})
        counts.lengths.update((np.diff(encoded.starts) - encoded.end_token).tolist())
        return counts

    @property
    def auto_size(self) -> str:
        count = len(self.encoded("train"))
        return next((name for name, most in self.tokens_of_size.items() if count <= most), "base")

    @property
    def selected_by(self) -> str:
        return "loss"

    def report_counts(self) -> dict[str, Any]:
        result: dict[str, Any] = {}
        for name in self.splits.examples:
            documents, counts = self.encoded(name), self.splits.counts.get(name)
            entry: dict[str, Any] = {"examples": documents.num_documents}
            if counts is not None:
                entry |= counts.as_values()
            unknown = int((np.asarray(documents.ids) == self.tokenizer.special.unknown).sum())
            result[name] = entry | {"tokens": self.num_tokens(name), "unknown": unknown}
        return result
