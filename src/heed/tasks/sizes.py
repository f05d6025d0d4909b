"""What `auto` means: sizes chosen from the amount of data."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TypeVar

from heed.config import FilesData, GrammarData, RunConfig, TranslationConfig
from heed.data.examples import Pair

__all__ = ["auto_size", "labelled_size", "with_tokenizer", "with_word_tokenizer"]

C = TypeVar("C", bound=RunConfig)


def auto_size(config: TranslationConfig, num_examples: int) -> str:
    """The named size for an amount of data: characters need little width; words more, the more there are of them.

    | training pairs | char tokenizer | others |
    |---|---|---|
    | up to 100,000 | tiny | small |
    | up to 2,000,000 | small | small |
    | more | small | base |
    """
    if config.tokenizer.kind == "char" and num_examples <= 100_000:
        return "tiny"
    return "small" if num_examples <= 2_000_000 or config.tokenizer.kind == "char" else "base"


def with_tokenizer(config: TranslationConfig, pairs: Sequence[Pair]) -> TranslationConfig:
    """The configuration with the kind and size of the tokenizer decided.

    About one vocabulary entry for four pairs, in steps of 500, from 1,000 to 8,000: rarer tokens are seen too seldom
    to learn anything. At least two for each different character, which matters where a script has thousands. A word
    vocabulary holds all words that occur often enough, up to 30,000.
    """
    tokenizer = config.tokenizer
    kind = tokenizer.kind
    if kind == "auto":
        words = isinstance(config.data, GrammarData)
        kind = "bpe" if isinstance(config.data, FilesData) else "word" if words else "char"
    size = tokenizer.vocab_size
    if size is None and kind == "word":
        size = 30_000
    elif size is None and kind != "char":
        sides = [set().union(*(pair.source for pair in pairs)), set().union(*(pair.target for pair in pairs))]
        characters = len(sides[0] | sides[1]) if tokenizer.shared else max(map(len, sides))
        size = _subwords(len(pairs), characters)
    changed = tokenizer.model_copy(update={"kind": kind, "vocab_size": size})
    return config.model_copy(update={"tokenizer": changed})


def labelled_size(num_examples: int) -> str:
    """The named size for an amount of labelled texts: tiny up to 3,000, small up to 100,000, then base."""
    return "tiny" if num_examples <= 3_000 else "small" if num_examples <= 100_000 else "base"


def with_word_tokenizer(config: C, texts: Sequence[str]) -> C:
    """The configuration with the kind and size of the tokenizer decided.

    Labels rest on words, so these are the default: all that occur often enough, up to 30,000. Subwords as many as for
    translation.
    """
    tokenizer = config.tokenizer
    kind = "word" if tokenizer.kind == "auto" else tokenizer.kind
    size = tokenizer.vocab_size
    if size is None and kind == "word":
        size = 30_000
    elif size is None and kind != "char":
        size = _subwords(len(texts), len(set().union(*texts)))
    changed = tokenizer.model_copy(update={"kind": kind, "vocab_size": size})
    return config.model_copy(update={"tokenizer": changed})


def _subwords(num_texts: int, num_characters: int) -> int:
    return max(min(8_000, max(1_000, num_texts // 4 // 500 * 500)), 2 * num_characters)
