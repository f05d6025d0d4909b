"""What `auto` means: sizes chosen from the amount of data."""

from __future__ import annotations

from collections.abc import Sequence

from heed.config import FilesData, GrammarData, RunConfig
from heed.data.examples import Pair

__all__ = ["auto_size", "with_tokenizer"]


def auto_size(config: RunConfig, num_examples: int) -> str:
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


def with_tokenizer(config: RunConfig, pairs: Sequence[Pair]) -> RunConfig:
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
        size = max(min(8_000, max(1_000, len(pairs) // 4 // 500 * 500)), 2 * characters)
    changed = tokenizer.model_copy(update={"kind": kind, "vocab_size": size})
    return config.model_copy(update={"tokenizer": changed})
