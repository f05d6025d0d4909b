"""Base of tasks that learn from documents: their tokens as one array, one tokenizer, the counts for the report."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Sequence
from pathlib import Path
from typing import Any, ClassVar, Generic, Self, TypeVar

import numpy as np
from numpy.typing import NDArray

from heed.config import RunConfig
from heed.config.documents import DocumentReading
from heed.data.read.documents import Document, document_reader
from heed.data.read.findings import Findings
from heed.data.read.memory import hold
from heed.data.store.splits import Splits
from heed.data.tokens.tokenizer import UNKNOWN, TextTokenizer
from heed.tasks.base.task import Task

_TOKENIZER = "tokenizer.json"

C = TypeVar("C", bound=RunConfig)


class EncodedDocuments:
    """The tokens of all documents, concatenated.

    Attributes:
        ids: `(tokens,)`.
        starts: `(documents + 1,)`, where each document begins in `ids`; the last is the number of tokens.
    """

    ids: NDArray[Any]
    starts: NDArray[np.int64]

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


def read_documents(data: Any, files: Sequence[str | Path]) -> list[Document]:
    """The documents of files in the format of a `data` section, without blank ones."""
    documents = document_reader(data).read([str(file) for file in files], Findings.of(data, strict=True))
    return [document for document in documents if not document.blank]


class DocumentTask(Task[C, Document], Generic[C]):
    """A task whose examples are documents."""

    texts_are_examples = True
    size_fields: ClassVar = {"tokens": "vocab_size"}
    tokens_of_size: ClassVar[dict[str, int]]
    """Named size -> training tokens up to which it is chosen; base from there on."""

    def __init__(self, config: C, tokenizer: TextTokenizer, splits: Splits[Document] | None) -> None:
        super().__init__(config, splits)
        self.tokenizer = tokenizer

    @classmethod
    def hold(cls, data: Any, split: str, config: Any, findings: Findings) -> Sequence[Document]:
        """Documents from memory: a list of texts, or a column `text`."""
        column = config.data.columns.text if isinstance(config.data, DocumentReading) else None
        return hold(data, split, document_reader(config.data), {"text": column}, findings)

    @classmethod
    def restore(cls, config: C, folder: Path) -> Self:
        """Load the task of a run folder; its data is opened only when needed."""
        return cls(config, TextTokenizer.load(folder / _TOKENIZER), None)

    def save(self, folder: Path) -> None:
        """Write the tokenizer into a run folder."""
        self.tokenizer.save(folder / _TOKENIZER)

    def tokenizers(self) -> dict[str, TextTokenizer]:
        """The only tokenizer, `tokens`."""
        return {"tokens": self.tokenizer}

    @abstractmethod
    def encoded(self, split: str) -> EncodedDocuments:
        """The tokens of all documents of a split; for a stream, those of its newest window."""

    def num_tokens(self, split: str) -> int:
        """Number of tokens of a split, without end tokens."""
        return len(self.encoded(split))

    @property
    def auto_size(self) -> str:
        """The size for the number of training tokens; base for a stream, whose length is unknown."""
        if self.splits.stream is not None:
            return "base"
        count = len(self.encoded("train"))
        return next((name for name, most in self.tokens_of_size.items() if count <= most), "base")

    @property
    def selected_by(self) -> str:
        """The loss."""
        return "loss"

    def report_counts(self) -> dict[str, Any]:
        """Per split: documents, and those left out by each rule; tokens without end tokens; unknown tokens."""
        result: dict[str, Any] = {}
        for name in self.splits.examples:
            documents, counts = self.encoded(name), self.splits.counts.get(name)
            entry: dict[str, Any] = {"examples": documents.num_documents}
            if counts is not None:
                endless = name == "train" and self.splits.stream is not None
                entry |= counts.as_values()
                entry["examples"] = counts.kept if endless else documents.num_documents
            unknown = int((np.asarray(documents.ids) == UNKNOWN).sum())
            result[name] = entry | {"tokens": self.num_tokens(name), "unknown": unknown}
        return result
