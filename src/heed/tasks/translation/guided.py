"""Automatic links of guided attention: a word alignment that is learned from the training pairs.

With few pairs a model learns words, but not where to look for them; the alignment, which pools all pairs, supplies
that. A link's strength is its confidence: a row sums to at most 1, and a row of zeros has no effect.

Source: Chen et al. 2016 (arXiv:1607.01628), who take the links of a statistical aligner.
"""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor

from heed.data.batch.pairs import TokenPair
from heed.data.tokens.tokenizer import TextTokenizer
from heed.data.tokens.word_alignment import align_tokens

_STEM = 5
"""First letters that identify a word: few pairs contain few of its forms, and these letters identify most of them."""
_LONGEST = 4.0
"""With more tokens per word on average, a text has no spaces between words; then tokens are aligned."""


def guides(
    pairs: Sequence[TokenPair], source: TextTokenizer, target: TextTokenizer, least: float = 0.3
) -> list[Tensor]:
    """Alignment of target to source tokens: each token of a word to all tokens of the words it is aligned with.

    Links weaker than `least` are ignored.

    Returns:
        For each pair `(target + 1, source)`, the end token's row last and zero; rows sum to at most 1.
    """
    sources = _Words([pair.source for pair in pairs], source)
    targets = _Words([pair.target for pair in pairs], target)
    links = align_tokens([TokenPair(s, t) for s, t in zip(sources.stems, targets.stems, strict=True)])
    result = []
    for word_links, s, t in zip(links, sources.owners, targets.owners, strict=True):
        strength = word_links[t][:, s]  # (target, source)
        sure = strength * (strength > least)
        rows = sure / sure.sum(1, keepdim=True).clamp_min(1.0)
        result.append(torch.cat([rows, rows.new_zeros(1, rows.shape[1])]))
    return result


class _Words:
    """The words of texts, numbered by their stems; `owners` gives the word of each token."""

    def __init__(self, texts: Sequence[list[int]], tokenizer: TextTokenizer) -> None:
        words = [tokenizer.words(ids) for ids in texts]
        if sum(map(len, texts)) > _LONGEST * sum(map(len, words)):
            words = [[range(n, n + 1) for n in range(len(ids))] for ids in texts]
        numbers: dict[str, int] = {}
        self.stems: list[list[int]] = []
        self.owners: list[Tensor] = []
        for ids, ranges in zip(texts, words, strict=True):
            labels = [tokenizer.word_label(ids[word.start : word.stop]) for word in ranges]
            self.stems.append([numbers.setdefault(label.lower()[:_STEM], len(numbers)) for label in labels])
            self.owners.append(torch.tensor([n for n, word in enumerate(ranges) for _ in word], dtype=torch.long))
