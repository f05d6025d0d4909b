"""Base of tasks that learn from documents: one tokenizer, the counts for the report."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, ClassVar, Generic, Self, TypeVar

import numpy as np

from heed.config import RunConfig
from heed.config.sections import with_tokenizer
from heed.data.corpus import StoredExamples, sample_of
from heed.data.findings import Findings, found_table
from heed.data.kinds.documents import Document, document_reader, open_documents
from heed.data.kinds.encoded_documents import EncodedDocuments
from heed.data.readers import hold
from heed.data.splits import Splits
from heed.data.tokens.tokenizer import TextTokenizer
from heed.tasks.base.report import SideCounts, token_lines
from heed.tasks.base.task import Task
from heed.tasks.base.vocabulary import Learned, learned

TOKENIZER = "tokenizer.json"
"""The file of the tokenizer in a run folder."""

C = TypeVar("C", bound=RunConfig)


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

    def learn() -> Learned[C]:
        texts = [document.text for document in sample_of(documents)]
        amount = sum(map(len, texts))
        if isinstance(documents, StoredExamples):
            amount = max(amount, documents.num_bytes)
        decided = with_tokenizer(config, kind(amount), lambda: size(amount), words=None)
        return decided, [train(texts, decided.tokenizer)], len(texts)

    decided, (tokenizer,), used = learned(config, [documents], learn, **settings)
    total = len(documents)
    remark = f"tokenizer trained on a sample of {used:,} of {total:,} documents" if used < total else ""
    return decided, tokenizer, remark


def token_counts(split: str, encoded: EncodedDocuments, tokenizer: TextTokenizer) -> SideCounts:
    """Count tokens and document lengths of a split, without end tokens."""
    special, ends = tokenizer.special, encoded.end_token * encoded.num_documents
    tokens = np.bincount(encoded.ids, minlength=tokenizer.vocab_size)
    tokens[special.end] -= ends
    return SideCounts(split, "text", np.diff(encoded.starts) - encoded.end_token, tokens, special.unknown)


def document_lines(
    splits: Splits[Document], encoded: Mapping[str, EncodedDocuments], kind: str, tokenizer: TextTokenizer
) -> Iterator[str]:
    """Counts, problems found in the files, lengths and unknown tokens of all splits, for `heed check`."""
    yield splits.summary
    yield from found_table(splits.found)
    yield from token_lines(kind, tokenizer, [token_counts(name, one, tokenizer) for name, one in encoded.items()])


def counts_of(encoded: EncodedDocuments, read: Any, tokenizer: TextTokenizer) -> dict[str, Any]:
    """Counts of a split, for `report.json`, with those of reading it if there are any."""
    entry: dict[str, Any] = {"examples": encoded.num_documents, **({} if read is None else read.as_values())}
    unknown = int((np.asarray(encoded.ids) == tokenizer.special.unknown).sum())
    tokens = len(encoded) - encoded.end_token * encoded.num_documents
    return entry | {"tokens": tokens, "unknown": unknown}


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
        return cls(config, TextTokenizer.load(folder / TOKENIZER), None)

    def save(self, folder: Path) -> None:
        self.tokenizer.save(folder / TOKENIZER)

    def tokenizers(self) -> dict[str, TextTokenizer]:
        return {"tokens": self.tokenizer}

    @abstractmethod
    def encoded(self, split: str) -> EncodedDocuments:
        """The tokens of all documents of a split."""

    def overview(self) -> str:
        """Counts, problems found in the files, lengths, unknown tokens, and what `samples` adds."""
        encoded = {split: self.encoded(split) for split in self.splits.examples}
        lines = document_lines(self.splits, encoded, self.config.tokenizer.kind, self.tokenizer)
        return "\n".join([*lines, *self.samples()])

    @abstractmethod
    def samples(self) -> list[str]:
        """Documents as the model sees them, as lines."""

    @property
    def auto_size(self) -> str:
        count = len(self.encoded("train"))
        return next((name for name, most in self.tokens_of_size.items() if count <= most), "base")

    @property
    def selected_by(self) -> str:
        return "loss"

    def report_counts(self) -> dict[str, Any]:
        read = self.splits.counts
        return {name: counts_of(self.encoded(name), read.get(name), self.tokenizer) for name in self.splits.examples}
