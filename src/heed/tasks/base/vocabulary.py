"""Use of another run's tokenizer: remarks on how it fits new texts, and its extension by unknown tokens."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from itertools import chain

from heed.data.tokens.extend import extended
from heed.data.tokens.tokenizer import SPECIAL_TOKENS, UNKNOWN, TextTokenizer


def overlap(tokenizer: TextTokenizer, texts: Sequence[str]) -> list[str]:
    """Remarks on how a tokenizer that was trained on other text fits these texts."""
    counts: Counter[int] = Counter(chain.from_iterable(tokenizer.encode_all(texts)))
    total, characters = counts.total(), sum(map(len, texts))
    used = sum(token >= len(SPECIAL_TOKENS) for token in counts)
    of = tokenizer.vocab_size - len(SPECIAL_TOKENS) - len(tokenizer.tags)
    lines = [
        f"the tokenizer comes from another run: {used:,} of its {of:,} tokens occur in the new text, "
        f"{characters / max(1, total):.2f} characters per token"
    ]
    if unknown := counts[UNKNOWN]:
        pieces = Counter(chain.from_iterable(map(tokenizer.unknown_in, texts)))
        listing = ", ".join(f"{piece!r} ({count:,})" for piece, count in pieces.most_common(10))
        lines.append(
            f"warning: {unknown:,} tokens of the new text ({unknown / total:.2%}) are unknown to this tokenizer, "
            f"{len(pieces):,} different ones: {listing}"
        )
    return lines


def taken(
    tokenizer: TextTokenizer, texts: Sequence[str], min_count: int | None = None, merges: int = 0
) -> tuple[TextTokenizer, list[str]]:
    """The tokenizer, extended by the tokens that these texts need if `min_count` is given, and remarks on both.

    `min_count` is how often a word must occur, for a tokenizer of words; `merges` is the number of merges to learn.
    """
    remarks = overlap(tokenizer, texts)
    if min_count is None:
        return tokenizer, remarks
    result = extended(tokenizer, texts, min_count=min_count if tokenizer.unit == "word" else 1, merges=merges)
    added = result.vocab_size - tokenizer.vocab_size
    return result, [*remarks, f"tokenizer extended by {added:,} tokens to {result.vocab_size:,}"]
