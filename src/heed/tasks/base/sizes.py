"""Tokenizer and model size by the number of labelled texts."""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeVar

from heed.config import RunConfig

C = TypeVar("C", bound=RunConfig)


def labelled_size(num_examples: int) -> str:
    """The named size for a number of labelled texts: tiny up to 3,000, small up to 100,000, then base."""
    return "tiny" if num_examples <= 3_000 else "small" if num_examples <= 100_000 else "base"


def with_tokenizer(config: C, auto: str, subwords: Callable[[], int], words: int | None = 30_000) -> C:
    """The configuration with the kind and vocabulary size of the tokenizer set.

    A word vocabulary has all words that occur often enough, up to `words` unless that is None; `subwords` returns the
    size of others.
    """
    tokenizer = config.tokenizer
    kind = auto if tokenizer.kind == "auto" else tokenizer.kind
    size = tokenizer.vocab_size
    if size is None and kind not in ("char", "byte"):
        size = words if kind == "word" and words is not None else subwords()
    changed = tokenizer.model_copy(update={"kind": kind, "vocab_size": size})
    return config.model_copy(update={"tokenizer": changed})


def num_subwords(num_texts: int, num_characters: int) -> int:
    """The size of a subword vocabulary: a quarter of the texts, 1,000 to 8,000, but at least twice the characters."""
    return max(min(8_000, max(1_000, num_texts // 4 // 500 * 500)), 2 * num_characters)
