"""Measures of responses; intervals resample whole conversations."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from heed.evaluation.diversity import commonest_outputs, commonest_share, distinct
from heed.evaluation.measures import Array, Measure, length_buckets
from heed.tasks.translation.task import output_measures

PER_TOKEN = ("perplexity", "token_accuracy")
"""Measures that cannot be compared across tokenizers."""


def text_measures(texts: Sequence[str], references: Sequence[str], of_people: bool) -> list[Measure]:
    """Scores of written responses, an entry for each response, the most important first.

    For conversations of people (`of_people`), BLEU, chrF and the variety of the outputs come before exact match; for
    embedded data, where every response follows from the turns before it, exact match comes first.
    """
    *of_texts, exact = output_measures(texts, references, ("bleu", "chrf"))
    varied = [distinct(texts, 1), distinct(texts, 2), commonest_share(texts)]
    return [*of_texts, *varied, exact] if of_people else [exact, *of_texts, *varied]


def perplexity(nll: Sequence[float], tokens: Sequence[int]) -> Measure:
    """The exponential of the mean negative log-likelihood of a token, in nats; end tokens are tokens."""

    def formula(sums: Array) -> Array:
        known = sums[:, 1] > 0
        rates = np.divide(sums[:, 0], sums[:, 1], out=np.full(len(sums), np.nan), where=known)
        result: Array = np.exp(np.minimum(rates, 700.0))
        return result

    statistics = np.stack([np.asarray(nll, dtype=np.float64), np.asarray(tokens, dtype=np.float64)], axis=1)
    return Measure("perplexity", "perplexity", statistics, formula, higher_is_better=False, digits=2)


def by_conversation(measures: Sequence[Measure], owners: Sequence[int], count: int) -> tuple[Measure, ...]:
    """Measures of responses as measures of conversations, whose responses are not independent of one another.

    Args:
        measures: An entry for each response.
        owners: The conversation of each response.
        count: Number of conversations; those without a response have zeros.
    """
    made = []
    for measure in measures:
        sums = np.zeros((count, measure.statistics.shape[1]))
        np.add.at(sums, np.asarray(owners, dtype=np.int64), measure.statistics)
        made.append(replace(measure, statistics=sums))
    return tuple(made)


def by_turns_read(measure: Measure, read: Sequence[int]) -> list[dict[str, Any]]:
    """The score of responses by the number of turns before them, in at most five ranges."""
    found = []
    for first, last in length_buckets(read):
        inside = [n for n, count in enumerate(read) if first <= count <= last]
        found.append({"first": first, "last": last, "responses": len(inside), measure.name: measure.of(inside).score()})
    return found


def common(texts: Sequence[str]) -> list[dict[str, Any]]:
    """The most common outputs, for a report."""
    return [{"text": text, "count": count} for text, count in commonest_outputs(texts)]
