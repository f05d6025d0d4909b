"""The two tokenizers of a run: trained, written into its folder, read again."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path

from heed.config import TokenizerConfig
from heed.data.examples import Pair
from heed.data.tokenizer import TextTokenizer

__all__ = ["Tokenizers", "load_tokenizers", "save_tokenizers", "train_tokenizers"]

Tokenizers = tuple[TextTokenizer, TextTokenizer]
"""Source and target; the same object twice where the vocabulary is shared."""

_SOURCE, _TARGET = "tokenizer.source.json", "tokenizer.target.json"


def train_tokenizers(config: TokenizerConfig, pairs: Iterable[Pair]) -> Tokenizers:
    """Train both on pairs, which are read twice."""
    if config.shared:
        both = TextTokenizer.train((text for pair in pairs for text in (pair.source, pair.target)), config)
        return both, both
    source = TextTokenizer.train((pair.source for pair in pairs), config)
    return source, TextTokenizer.train((pair.target for pair in pairs), config, "target")


def load_tokenizers(folder: Path, config: TokenizerConfig) -> Tokenizers:
    """Read those of a run folder.

    Raises:
        RunError: A file is missing or is not a tokenizer.
    """
    source = TextTokenizer.load(folder / _SOURCE)
    return source, source if config.shared else TextTokenizer.load(folder / _TARGET)


def save_tokenizers(folder: Path, tokenizers: Tokenizers) -> None:
    """Write them into a run folder."""
    for name, tokenizer in zip((_SOURCE, _TARGET), tokenizers, strict=True):
        tokenizer.save(folder / name)
