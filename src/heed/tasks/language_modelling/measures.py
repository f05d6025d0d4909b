"""The measures of a language model: what its scores of tokens add up to, over documents or pieces."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from heed.evaluation.measures import Array, Measure, Outcomes
from heed.tasks.language_modelling.scoring import TokenScores
from heed.tasks.language_modelling.units import Units

PER_TOKEN = ("perplexity", "loss")
"""Measures that cannot be compared between tokenizers."""


def outcomes_of(units: Units, scores: Sequence[TokenScores], changed: int = 0) -> Outcomes:
    """The measures of documents of which every token was scored.

    Args:
        units: The documents, or their pieces.
        scores: Of each document.
        changed: How many documents the tokenizer changes before it cuts them (case, normalisation).
    """
    nll, tokens, unknown = (np.zeros(len(units)) for _ in range(3))
    for number, one in enumerate(scores):
        places = units.at(number, np.array([start for start, _ in one.spans], dtype=np.int64))
        np.add.at(nll, places, -one.log_probs)
        np.add.at(tokens, places, 1.0)
        np.add.at(unknown, places, one.unknown)
    words, characters, num_bytes = units.sizes.T
    measures = (
        _rate("bits_per_byte", "bits per byte", nll / math.log(2), num_bytes),
        _rate("perplexity", "perplexity", nll, tokens, np.exp),
        _rate("word_perplexity", "perplexity per word", nll, words, np.exp),
        _rate("bits_per_character", "bits per character", nll / math.log(2), characters),
        _rate("loss", "loss", nll, tokens),
    )
    ends = [one.end for one in scores if one.end is not None]
    details: dict[str, Any] = {
        "examples": len(units.documents),
        "intervals_over": {"what": units.name, "count": len(units)},
        "tokens": int(tokens.sum()),
        "words": int(words.sum()),
        "characters": int(characters.sum()),
        "bytes": int(num_bytes.sum()),
        "unknown_tokens": int(unknown.sum()),
        "changed_documents": changed,
        "end_tokens": len(ends),
    }
    if ends:
        details["end_token_loss"] = -float(np.mean([end.log_probs.sum() for end in ends]))
    details["by_tokens_read"] = _by_position(scores)
    outputs = tuple(f"{bits:.3f} bits per byte" for bits in measures[0].each())
    return Outcomes(outputs, measures, details=details)


def _rate(
    name: str, label: str, total: Array, count: Array, last: Callable[[Array], Array] = lambda rates: rates
) -> Measure:
    """A function of a ratio of sums; NaN where nothing was counted."""

    def formula(sums: Array) -> Array:
        known = sums[:, 1] > 0
        rates = np.divide(sums[:, 0], sums[:, 1], out=np.full(len(sums), np.nan), where=known)
        return last(np.minimum(rates, 700.0))

    return Measure(name, label, np.stack([total, count], axis=1), formula, higher_is_better=False)


def _by_position(scores: Sequence[TokenScores]) -> list[dict[str, Any]]:
    """The loss by how many tokens each was predicted from, in ranges that double: 1, 2-3, 4-7, ..."""
    seen = np.concatenate([np.zeros(0, np.int32), *(one.seen for one in scores)])
    nll = -np.concatenate([np.zeros(0), *(one.log_probs for one in scores)])
    ranges: NDArray[np.int64] = np.frexp(seen)[1].astype(np.int64) - 1  # floor of the binary logarithm
    found = []
    for power in np.unique(ranges).tolist():
        inside = ranges == power
        last = int(min(2 ** (power + 1) - 1, seen.max()))
        found.append({"first": 2**power, "last": last, "tokens": int(inside.sum()), "loss": float(nll[inside].mean())})
    return found
