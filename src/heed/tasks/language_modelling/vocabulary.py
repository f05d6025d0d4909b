"""The tokenizer of a language model: its kind and size by the amount of text, trained, or taken from another run."""

from __future__ import annotations

from collections.abc import Sequence

import torch

from heed.data.sequences import in_turn, select
from heed.data.store.store import StoredExamples
from heed.data.tokens.token_cache import learn_cached
from heed.data.tokens.tokenizer import TextTokenizer
from heed.tasks.language_modelling.config import LanguageModelConfig, MealsData
from heed.tasks.language_modelling.documents import Document

_SAMPLE = 20_000_000
"""Bytes of text that the tokenizer of a corpus in files is trained on."""
_FEW_CHARACTERS = 2_000_000
"""Up to so much text a token is a character."""


def learn_tokenizer(
    config: LanguageModelConfig, documents: Sequence[Document]
) -> tuple[LanguageModelConfig, TextTokenizer, str]:
    """Decide the kind and size of the tokenizer and train it, or take it from the cache.

    Of documents that are not held in memory a random sample is used, the same every time.

    Returns:
        The configuration, decided; the tokenizer; and what the user should know, or nothing.
    """
    texts, remark = _sample(documents)
    size = sum(map(len, texts))
    if isinstance(documents, StoredExamples):
        size = max(size, documents.num_bytes)
    section = config.tokenizer
    kind = section.kind
    if kind == "auto":
        few = "char" if size <= _FEW_CHARACTERS else "byte_bpe"
        kind = "word" if isinstance(config.data, MealsData) else few
    vocab_size = section.vocab_size
    if vocab_size is None and kind not in ("char", "byte"):
        vocab_size = num_tokens(size)
    section = section.model_copy(update={"kind": kind, "vocab_size": vocab_size})
    config = config.model_copy(update={"tokenizer": section})
    settings = {"to": "continue", **section.model_dump(mode="json", exclude={"sampling"})}
    tokenizer = learn_cached(texts, settings, lambda: TextTokenizer.train(texts, section, exact=True))
    return config, tokenizer, remark


def num_tokens(characters: int) -> int:
    """The vocabulary of subwords or words: one for 2,000 characters of text, from 1,000 to 32,000."""
    return min(32_000, max(1_000, characters // 2_000 // 500 * 500))


def _sample(documents: Sequence[Document]) -> tuple[list[str], str]:
    """The texts, or as many of them, drawn by a fixed seed, as hold the sample's size."""
    if not isinstance(documents, StoredExamples) or documents.num_bytes <= _SAMPLE:
        return [document.text for chunk in in_turn(documents) for document in chunk], ""
    generator = torch.Generator().manual_seed(0)
    count = max(1, len(documents) * _SAMPLE // documents.num_bytes)
    rows = torch.randperm(len(documents), generator=generator)[:count].sort().values.numpy()
    texts = [document.text for document in select(documents, rows)]
    return texts, f"tokenizer trained on a sample of {count:,} of {len(documents):,} documents"
