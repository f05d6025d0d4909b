"""How many tokens texts have, from the tokens of their words: what batches are planned by before texts are encoded.

No token of a word or subword tokenizer reaches over a blank, so a text has as many tokens as its words have. Each word
that a chunk of texts holds is encoded once; that is several times faster than encoding the texts.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from itertools import islice

import numpy as np
from numpy.typing import NDArray

from heed.data.examples import Pair
from heed.data.tokenizer import TextTokenizer

__all__ = ["CHUNK", "Lengths", "pair_lengths"]

Lengths = NDArray[np.int32]
"""`(pairs, 2)`: target with its start or end token, and source, as a batch pays for them."""
CHUNK = 50_000
"""Pairs whose words are encoded together."""
_TOGETHER = 2_000
"""Texts that are cut into words together."""
_ASKED = 100_000
"""Different words of a chunk that are encoded; the others (of a script without blanks, say) are estimated by these."""


def pair_lengths(
    pairs: Sequence[Pair], source: TextTokenizer, target: TextTokenizer, exact_from: int, tag: bool = False
) -> Lengths:
    """The lengths of at most `CHUNK` pairs; a function of these pairs and the tokenizers only.

    Args:
        pairs: The chunk.
        source: Tokenizer of sources.
        target: Tokenizer of targets.
        exact_from: Texts that seem to have more tokens than this are encoded, so that these lengths are beyond doubt.
        tag: Whether a tag comes before each source.
    """
    sources = _lengths([pair.source for pair in pairs], source, exact_from - tag) + tag
    targets = _lengths([pair.target for pair in pairs], target, exact_from) + 1
    return np.stack([targets, sources], axis=1)


def _lengths(texts: Sequence[str], tokenizer: TextTokenizer, exact_from: int) -> NDArray[np.int32]:
    if tokenizer.unit == "character":
        return np.array([len(t) if t.isascii() else len(tokenizer.normalize(t)) for t in texts], dtype=np.int32)
    blocks = [texts[start : start + _TOGETHER] for start in range(0, len(texts), _TOGETHER)]
    known = _word_lengths((_words(block) for block in blocks), tokenizer)
    result = np.concatenate([_sums(block, known) for block in blocks])
    doubtful = np.flatnonzero(result > exact_from).tolist()
    for i, ids in zip(doubtful, tokenizer.encode_all([texts[i] for i in doubtful]), strict=True):
        result[i] = len(ids)
    return result


def _words(texts: Sequence[str]) -> list[str]:
    return " ".join(texts).split(" ")


def _sums(texts: Sequence[str], known: dict[str, int]) -> NDArray[np.int32]:
    words = _words(texts)
    lengths = np.fromiter(map(known.__getitem__, words), dtype=np.int32, count=len(words))
    counts = [text.count(" ") + 1 for text in texts]
    return np.add.reduceat(lengths, np.cumsum([0, *counts[:-1]]), dtype=np.int32)


def _word_lengths(texts: Iterable[list[str]], tokenizer: TextTokenizer) -> dict[str, int]:
    """Tokens of every word of some texts."""
    words: dict[str, None] = {}
    for some in texts:
        words.update(dict.fromkeys(some))
    words.pop("", None)
    asked = list(islice(words, _ASKED))
    known = dict(zip(asked, map(len, tokenizer.encode_all(asked)), strict=True))
    share = sum(known.values()) / max(1, sum(map(len, asked)))
    for word in islice(words, _ASKED, None):
        known[word] = max(1, round(share * len(word)))
    known[""] = 1  # a blank beside a blank
    return known
