"""Word alignments: error against gold links, and symmetrization of the alignments of both directions.

A gold alignment marks links as sure or possible; every sure link is also possible. With A the scored links, S the sure
and P the possible gold links:

    precision = |A and P| / |A|        recall = |A and S| / |S|        AER = 1 - (|A and S| + |A and P|) / (|A| + |S|)

Source: Och and Ney 2003 (Computational Linguistics 29(1)), section 2.3 for the error rate, section 5.1 for the growing
of an intersection; Koehn, Och and Marcu 2003 (N03-1017), section 4.5, for the neighbours.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Sequence
from typing import Literal, get_args

import numpy as np

from heed.data.kinds.links import WordLink
from heed.errors import ConfigError, DataError, suggest
from heed.evaluation.measures import Array, Measure

Cell = tuple[int, int]
"""A link (source word, target word), counted from 0."""
Symmetrization = Literal["intersection", "gd"]
SYMMETRIZATIONS: tuple[Symmetrization, ...] = get_args(Symmetrization)
_NEIGHBORS = ((-1, 0), (0, -1), (1, 0), (0, 1), (-1, -1), (-1, 1), (1, -1), (1, 1))


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
    counts = np.array([_counts(set(one), [*true]) for one, true in zip(links, gold, strict=True)], dtype=np.float64)
    counts = counts.reshape(-1, 4)
    return [
        Measure("aer", "alignment error rate", counts, _error_rate, higher_is_better=False, is_share=True),
        Measure("alignment_precision", "alignment precision", counts, _precision, is_share=True),
        Measure("alignment_recall", "alignment recall", counts, _recall, is_share=True),
    ]


def _counts(links: set[Cell], gold: Sequence[WordLink]) -> tuple[int, int, int, int]:
    """|A and S|, |A and P|, |A| and |S| of one pair."""
    sure = {(link.source, link.target) for link in gold if link.sure}
    possible = {(link.source, link.target) for link in gold}
    return len(links & sure), len(links & possible), len(links), len(sure)


def _error_rate(sums: Array) -> Array:
    return 1 - _ratio(sums[:, 0] + sums[:, 1], sums[:, 2] + sums[:, 3])


def _precision(sums: Array) -> Array:
    return _ratio(sums[:, 1], sums[:, 2])


def _recall(sums: Array) -> Array:
    return _ratio(sums[:, 0], sums[:, 3])


def _ratio(top: Array, bottom: Array) -> Array:
    ratio: Array = np.divide(top, bottom, out=np.full(len(top), np.nan), where=bottom > 0)
    return ratio


def symmetrize(
    forward: Sequence[Iterable[Cell]], reverse: Sequence[Iterable[Cell]], how: Symmetrization = "gd"
) -> list[list[Cell]]:
    """Combine the alignments of two directions.

    | how | the result |
    |---|---|
    | intersection | links in both |
    | gd | grow-diag: the intersection, then neighbours in the union that link a word which has no link yet |

    A neighbour differs by at most 1 in the source and in the target word. Links are visited by source word, then by
    target word; an added link takes effect immediately.

    Args:
        forward: For each pair, the links (source word, target word) of one direction.
        reverse: For each pair, the links of the other direction, also as (source word, target word).
        how: See the table.

    Returns:
        For each pair, its links, sorted.

    Raises:
        ConfigError: `how` is none of these methods.
        DataError: The two directions differ in number of pairs.
    """
    if how not in SYMMETRIZATIONS:
        raise ConfigError(f"unknown symmetrization '{how}'{suggest(how, SYMMETRIZATIONS)}")
    if len(forward) != len(reverse):
        raise DataError(f"the forward direction has {len(forward):,} pairs, the reverse direction {len(reverse):,}")
    return [sorted(_joined(set(one), set(other), how)) for one, other in zip(forward, reverse, strict=True)]


def _joined(forward: set[Cell], reverse: set[Cell], how: Symmetrization) -> Collection[Cell]:
    links = forward & reverse
    if how == "intersection":
        return links
    sources, targets = {i for i, _ in links}, {j for _, j in links}  # the words that have a link
    union, before = forward | reverse, -1
    ordered = sorted(union)
    while len(links) > before:
        before = len(links)
        for i, j in (cell for cell in ordered if cell in links):
            for cell in ((i + down, j + right) for down, right in _NEIGHBORS):
                is_free = cell[0] not in sources or cell[1] not in targets
                if is_free and cell in union and cell not in links:
                    links.add(cell)
                    sources.add(cell[0])
                    targets.add(cell[1])
    return links
