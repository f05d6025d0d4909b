"""How varied outputs are: distinct n-grams, and the share of the commonest outputs."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import replace

import numpy as np

from heed.evaluation.measures import Measure, share
from heed.evaluation.rouge import rouge_words

COMMONEST = 10
"""How many outputs are the commonest."""


def distinct(outputs: Sequence[str], n: int) -> Measure:
    """distinct-n: different n-grams of all outputs, divided by their n-grams. Words are those of ROUGE.

    Each occurrence of an n-gram counts 1 / (its occurrences in all outputs), so that the numerators of the examples add
    up to the number of different ones, and an interval can be drawn by resampling. The interval takes these counts as
    given; more outputs have a lower distinct-n, so only sets of the same size can be compared.

    Source: Li et al. 2016 (arXiv:1510.03055), section 5.2 (there divided by words, whatever n).
    """
    grams = [list(zip(*(words[i:] for i in range(n)), strict=False)) for words in map(rouge_words, outputs)]
    counts = Counter(gram for one in grams for gram in one)
    new = [sum(1 / counts[gram] for gram in one) for one in grams]
    made = share(f"distinct_{n}", f"distinct-{n}", new, [len(one) for one in grams])
    return replace(made, formula=lambda sums: np.nan_to_num(made.formula(sums)))  # without an n-gram none is distinct


def commonest_outputs(outputs: Sequence[str]) -> list[tuple[str, int]]:
    """The ten commonest outputs and how often each was written, the most frequent first, the first of equal ones."""
    return Counter(outputs).most_common(COMMONEST)


def commonest_share(outputs: Sequence[str]) -> Measure:
    """The share of outputs that are one of the ten commonest ones: near 1 where a model always says the same."""
    common = {text for text, _ in commonest_outputs(outputs)}
    inside = [float(text in common) for text in outputs]
    return share("commonest", f"{COMMONEST} commonest outputs", inside, higher_is_better=False)
