"""What tasks that learn from documents share: how the tokenizer is learned, and the counts of a split."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any, TypeVar

import numpy as np

from heed.config import RunConfig
from heed.config.sections import with_tokenizer
from heed.data.corpus import StoredExamples, sample_of
from heed.data.findings import found_table
from heed.data.kinds.documents import Document
from heed.data.kinds.encoded_documents import EncodedDocuments
from heed.data.splits import Splits
from heed.data.tokens.tokenizer import TextTokenizer
from heed.tasks.base.report import SideCounts, token_lines
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
