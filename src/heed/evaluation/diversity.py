"""Diversity of outputs: distinct n-grams, and the share of the most common outputs."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import replace

import numpy as np

from heed.evaluation.measures import Measure, share
from heed.evaluation.rouge import rouge_words

COMMONEST = 10
"""Number of outputs that count as most common."""


def distinct(outputs: Sequence[str], n: int) -> Measure:
    """distinct-n: the number of different n-grams in all outputs, divided by the number of n-grams.

    Words are those of ROUGE. Each occurrence of an n-gram counts 1 / (its occurrences in all outputs), so that the
    numerators of the examples add up to the number of different n-grams, and resampling gives an interval. The interval
    takes these counts as given. More outputs have a lower distinct-n, so only sets of the same size are comparable.

    Source: Li et al. 2016 (arXiv:1510.03055), section 5.2 (there divided by words, whatever n).
    """
    grams = [list(zip(*(words[i:] for i in range(n)), strict=False)) for words in map(rouge_words, outputs)]
    counts = Counter(gram for one in grams for gram in one)
    new = [sum(1 / counts[gram] for gram in one) for one in grams]
    made = share(f"distinct_{n}", f"distinct-{n}", new, [len(one) for one in grams])
    return replace(made, formula=lambda sums: np.nan_to_num(made.formula(sums)))  # 0 if there are no n-grams


def commonest_outputs(outputs: Sequence[str]) -> list[tuple[str, int]]:
    """The ten most common outputs with their counts, most frequent first, ties in order of first occurrence."""
    return Counter(outputs).most_common(COMMONEST)


def commonest_share(outputs: Sequence[str]) -> Measure:
    """The share of outputs that are among the ten most common ones: near 1 if a model always says the same."""
    common = {text for text, _ in commonest_outputs(outputs)}
    inside = [float(text in common) for text in outputs]
    return share("commonest", f"{COMMONEST} commonest outputs", inside, higher_is_better=False)
