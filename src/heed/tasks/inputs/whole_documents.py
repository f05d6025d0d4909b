"""Documents that one tokenizer reads, as the tokens of all of them: what blocks of a stream and rows of texts share."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, ClassVar, Self, TypeVar

import numpy as np

from heed.config import RunConfig
from heed.config.sections import with_tokenizer
from heed.data.corpus import StoredExamples, sample_of
from heed.data.findings import Findings, found_table
from heed.data.kinds.documents import Document, document_reader, open_documents
from heed.data.kinds.encoded_documents import EncodedDocuments
from heed.data.readers import hold, to_texts
from heed.data.splits import Splits
from heed.data.tokens.tokenizer import TextTokenizer
from heed.tasks.base.report import SideCounts, token_lines
from heed.tasks.base.vocabulary import Learned, learned
from heed.tasks.contracts import Input, Rows

_TOKENIZER = "tokenizer.json"

C = TypeVar("C", bound=RunConfig)


def learn_tokenizer(
    config: C,
    splits: Splits[Document],
    kind: Callable[[int], str],
    size: Callable[[int], int],
    train: Callable[[list[str], Any], TextTokenizer],
    **settings: Any,
) -> tuple[C, TextTokenizer]:
    """Decide the kind and size of the tokenizer and train it, or take it from the cache.

    For documents that are not held in memory a random sample is used, the same every time.

    Args:
        config: The configuration.
        splits: The documents; a remark of theirs says that only a sample was used.
        kind: The kind for an amount of text in characters, if none is configured.
        size: The vocabulary size for an amount of text, likewise.
        train: Trains a tokenizer on texts, by the `tokenizer` section.
        settings: What the result depends on besides the texts and the section.

    Returns:
        The configuration with kind and size, and the tokenizer.
    """
    documents = splits.examples["train"]

    def learn() -> Learned[C]:
        texts = [document.text for document in sample_of(documents)]
        amount = sum(map(len, texts))
        if isinstance(documents, StoredExamples):
            amount = max(amount, documents.num_bytes)
        decided = with_tokenizer(config, kind(amount), lambda: size(amount), words=None)
        return decided, [train(texts, decided.tokenizer)], len(texts)

    decided, (tokenizer,), used = learned(config, [documents], learn, **settings)
    if used < (total := len(documents)):
        splits.remarks.append(f"tokenizer trained on a sample of {used:,} of {total:,} documents")
    return decided, tokenizer


@dataclass(frozen=True)
class WholeDocuments(Input):
    """Documents, encoded as the tokens of all of them (`EncodedDocuments`)."""

    texts_are_examples: ClassVar = True
    positions_per_parameter: ClassVar = 4.0
    tokens_of_size: ClassVar[Mapping[str, int]]
    """Named size -> training tokens up to which it is chosen; base from there on."""
    asked_in: ClassVar[tuple[str, ...]] = ("text",)
    """Usual names of the data-frame column with the texts to predict, best first."""

    tokenizer: TextTokenizer = None  # type: ignore[assignment]  # learned

    def open(self, config: Any, given: Mapping[str, Sequence[Document]] | None) -> Splits[Document]:
        return open_documents(config.data, given)

    def hold(self, data: Any, split: str, config: Any, findings: Findings) -> Sequence[Document]:
        return hold(data, split, document_reader(config.data), ["text"], findings)

    def read_files(self, files: Sequence[str | Path], findings: Findings, labels: Sequence[str]) -> list[Document]:
        return list(document_reader(self.config.data).read([str(file) for file in files], findings))

    def taught(self, *learned: Any) -> Self:
        return replace(self, tokenizer=learned[0])

    def save(self, folder: Path) -> None:
        self.tokenizer.save(folder / _TOKENIZER)

    def restore(self, config: Any, folder: Path) -> Self:
        return replace(self, tokenizer=TextTokenizer.load(folder / _TOKENIZER))

    def tokenizers(self) -> Mapping[str, TextTokenizer]:
        return {"tokens": self.tokenizer}

    def rows(self) -> Mapping[str, Rows]:
        return {"tokens": Rows(self.tokenizer.tokens)}

    def size(self, work: Any) -> str:
        count = len(work.encoded("train"))
        return next((name for name, most in self.tokens_of_size.items() if count <= most), "base")

    def texts(self, given: Any) -> tuple[list[str], bool]:
        """The texts to predict of what was given, and whether it was a single one."""
        if isinstance(given, str):
            return [given], True
        column = getattr(getattr(self.config.data, "columns", None), "text", None)
        return to_texts(given, "texts", ([column] if column is not None else []) + [*self.asked_in]), False

    def unknown_in(self, given: Any) -> Sequence[str]:
        return self.tokenizer.unknown_in(given)

    def counts(self, split: str, work: Any) -> dict[str, Any]:
        encoded, read = work.encoded(split), work.splits.counts.get(split)
        entry: dict[str, Any] = {"examples": encoded.num_documents, **({} if read is None else read.as_values())}
        unknown = int((np.asarray(encoded.ids) == self.tokenizer.special.unknown).sum())
        tokens = len(encoded) - encoded.end_token * encoded.num_documents
        return entry | {"tokens": tokens, "unknown": unknown}

    def lines(self, work: Any) -> list[str]:
        sides = [self._counts(split, work.encoded(split)) for split in work.split_names]
        table = token_lines(self.config.tokenizer.kind, self.tokenizer, sides)
        return [work.splits.summary, *found_table(work.splits.found), *table, *self.samples(work)]

    def samples(self, work: Any) -> Iterable[str]:
        """Documents as the model sees them, as lines."""
        raise NotImplementedError

    def _counts(self, split: str, encoded: EncodedDocuments) -> SideCounts:
        """Tokens and document lengths of a split, without end tokens."""
        special, tokens = self.tokenizer.special, np.bincount(encoded.ids, minlength=self.tokenizer.vocab_size)
        tokens[special.end] -= encoded.end_token * encoded.num_documents
        return SideCounts(split, "text", np.diff(encoded.starts) - encoded.end_token, tokens, special.unknown)
