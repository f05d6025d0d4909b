"""Word alignments: error against gold links.

A gold alignment marks links as sure or possible; every sure link is also possible. With A the scored links, S the sure
and P the possible gold links:

    precision = |A and P| / |A|        recall = |A and S| / |S|        AER = 1 - (|A and S| + |A and P|) / (|A| + |S|)

Source: Och and Ney 2003 (Computational Linguistics 29(1)), section 2.3.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

import numpy as np

from heed.data.kinds.links import WordLink
from heed.errors import DataError
from heed.evaluation.measures import Array, Measure, ratio

Cell = tuple[int, int]
"""A link (source word, target word), counted from 0."""


def alignment_measures(links: Sequence[Iterable[Cell]], gold: Sequence[Iterable[WordLink]]) -> list[Measure]:
    """Alignment error rate, precision and recall of the links of some pairs.

    Args:
        links: For each pair, the links to score.
        gold: For each pair, the gold links.

    Returns:
        `aer` (lower is better), `alignment_precision` and `alignment_recall`, with statistics for each pair, so that
        all of them have intervals.

    Raises:
        DataError: The numbers of alignments and of gold alignments differ.
    """
    if len(links) != len(gold):
        raise DataError(f"{len(links):,} alignments but {len(gold):,} gold alignments; give as many of both")
    counts = [_counts(set(pair_links), [*true]) for pair_links, true in zip(links, gold, strict=True)]
    statistics = np.array(counts, dtype=np.float64).reshape(-1, 4)
    return [
        Measure("aer", "alignment error rate", statistics, _error_rate, higher_is_better=False, is_share=True),
        Measure("alignment_precision", "alignment precision", statistics, _precision, is_share=True),
        Measure("alignment_recall", "alignment recall", statistics, _recall, is_share=True),
    ]


def _counts(links: set[Cell], gold: Sequence[WordLink]) -> tuple[int, int, int, int]:
    """|A and S|, |A and P|, |A| and |S| of one pair."""
    sure = {(link.source, link.target) for link in gold if link.sure}
    possible = {(link.source, link.target) for link in gold}
    return len(links & sure), len(links & possible), len(links), len(sure)


def _error_rate(sums: Array) -> Array:
    return 1 - ratio(sums[:, 0] + sums[:, 1], sums[:, 2] + sums[:, 3])


def _precision(sums: Array) -> Array:
    return ratio(sums[:, 1], sums[:, 2])


def _recall(sums: Array) -> Array:
    return ratio(sums[:, 0], sums[:, 3])
