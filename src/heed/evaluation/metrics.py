"""Scores with intervals."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from typing import Any

import torch

from heed.evaluation.text import text_scores

__all__ = ["Interval", "PairScores", "bootstrap", "length_buckets", "summarise"]


@dataclass(frozen=True)
class Interval:
    """A score with its 95 % bootstrap interval."""

    value: float
    low: float
    high: float

    def __str__(self) -> str:
        return f"{self.value:.1%} [{self.low:.1%}, {self.high:.1%}]"


@dataclass(frozen=True)
class PairScores:
    """What was measured on each example of a test set; one entry per example.

    Attributes:
        exact: Whether the output equals the reference.
        correct: Target tokens (end token included) that are the most probable one, given the true ones before.
        tokens: Target tokens, end token included.
        nll: Negative log-likelihood of the reference in nats.
        source_lengths: Source tokens.
        aligned: Target characters with a known source whose largest weight lies in it; empty where unknown.
        linked: Target characters with a known source; empty where unknown.
    """

    exact: list[bool]
    correct: list[int]
    tokens: list[int]
    nll: list[float]
    source_lengths: list[int]
    aligned: list[int]
    linked: list[int]


def bootstrap(
    numerators: Sequence[float], denominators: Sequence[float], resamples: int = 1000, seed: int = 1
) -> Interval:
    """Ratio of sums over a test set, with a percentile bootstrap interval over examples.

    Args:
        numerators: Per example, as correct tokens.
        denominators: Per example, as tokens; ones for a mean over examples.
        resamples: Number of resamples.
        seed: Their seed.

    Returns:
        The ratio and the 2.5th and 97.5th percentile of its resamples. (Where every example has the same ratio the
        interval is a point: the bootstrap cannot see errors that no example shows.)

    Source: Efron and Tibshirani 1993, chapter 13; Koehn 2004 for test sets.
    """
    top = torch.tensor(list(numerators), dtype=torch.float64)
    bottom = torch.tensor(list(denominators), dtype=torch.float64)
    if not len(top) or bottom.sum() == 0:
        return Interval(math.nan, math.nan, math.nan)
    generator = torch.Generator().manual_seed(seed)
    ratios = []
    for _ in range(resamples):
        chosen = torch.randint(len(top), (len(top),), generator=generator)
        ratios.append(top[chosen].sum() / bottom[chosen].sum().clamp_min(1e-12))
    low, high = torch.stack(ratios).quantile(torch.tensor([0.025, 0.975], dtype=torch.float64)).tolist()
    return Interval(float(top.sum() / bottom.sum()), low, high)


def length_buckets(lengths: Sequence[int], most: int = 5) -> list[tuple[int, int]]:
    """Cut lengths into at most `most` ranges `(first, last)` with about equally many examples."""
    if not lengths:
        return []
    ordered = sorted(lengths)
    edges = sorted({ordered[(i * len(ordered)) // most] for i in range(most)})
    ends = [edge - 1 for edge in edges[1:]] + [ordered[-1]]
    return list(zip(edges, ends, strict=True))


def summarise(
    scores: PairScores, resamples: int = 1000, texts: tuple[Sequence[str], Sequence[str]] | None = None
) -> dict[str, Any]:
    """The report of one test set, as plain values.

    Args:
        scores: What was measured on each example.
        resamples: Bootstrap resamples for the intervals.
        texts: Outputs and references, for BLEU, chrF and TER; None to leave them out.

    Returns:
        examples; exact_match, token_accuracy with intervals; perplexity (exp of nats per token); alignment_error
        (share of target characters with a known source whose largest weight lies outside it) where the truth is
        known; and exact match by source length.
    """
    ones = [1.0] * len(scores.exact)
    report: dict[str, Any] = {
        "examples": len(scores.exact),
        "exact_match": asdict(bootstrap([float(e) for e in scores.exact], ones, resamples)),
        "token_accuracy": asdict(bootstrap(scores.correct, scores.tokens, resamples)),
        "perplexity": math.exp(min(700.0, sum(scores.nll) / max(1, sum(scores.tokens)))),
    }
    if sum(scores.linked):
        missed = [n - a for a, n in zip(scores.aligned, scores.linked, strict=True)]
        report["alignment_error"] = asdict(bootstrap(missed, scores.linked, resamples))
    if texts is not None:
        report |= text_scores(*texts, resamples=resamples)
    report["by_source_length"] = [
        _bucket(scores, first, last, resamples, texts) for first, last in length_buckets(scores.source_lengths)
    ]
    return report


def _bucket(
    scores: PairScores, first: int, last: int, resamples: int, texts: tuple[Sequence[str], Sequence[str]] | None
) -> dict[str, Any]:
    inside = [i for i, length in enumerate(scores.source_lengths) if first <= length <= last]
    exact = [float(scores.exact[i]) for i in inside]
    bucket: dict[str, Any] = {
        "first": first,
        "last": last,
        "examples": len(inside),
        "exact_match": asdict(bootstrap(exact, [1.0] * len(exact), resamples)),
    }
    if texts is not None:
        outputs, references = ([side[i] for i in inside] for side in texts)
        bucket |= text_scores(outputs, references, ("bleu", "chrf"), resamples)
    return bucket
