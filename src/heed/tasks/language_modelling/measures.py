"""The measures of a language model, from its scores of tokens, over documents or pieces."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from heed.evaluation.measures import Array, Measure, Outcomes
from heed.tasks.language_modelling.scoring import TokenScores
from heed.tasks.language_modelling.units import Units

PER_TOKEN = ("perplexity",)
"""Measures that cannot be compared between tokenizers."""


def outcomes_of(units: Units, scores: Sequence[TokenScores], changed: int = 0) -> Outcomes:
    """Compute the measures of documents whose every token was scored.

    Args:
        units: The documents, or their pieces.
        scores: Scores of the tokens of each document.
        changed: Number of documents whose text the tokenizer changes (case, normalisation).
    """
    nll, tokens, unknown = (np.zeros(len(units)) for _ in range(3))
    for number, one in enumerate(scores):
        places = units.at(number, one.spans[:, 0].astype(np.int64))
        np.add.at(nll, places, -one.log_probs)
        np.add.at(tokens, places, 1.0)
        np.add.at(unknown, places, one.unknown)
    words, characters, num_bytes = units.sizes.T
    measures = (
        _rate("bits_per_byte", "bits per byte", nll / math.log(2), num_bytes, 3),
        _rate("perplexity", "perplexity", nll, tokens, 2, np.exp),
        _rate("word_perplexity", "perplexity per word", nll, words, 1, np.exp),
    )
    further = (
        _rate("bits_per_character", "bits per character", nll / math.log(2), characters, 3),
        _rate("loss", "loss", nll, tokens, 3),
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
    details["by_place"] = _by_place(scores)
    outputs = tuple(f"{bits:.3f} bits per byte" for bits in measures[0].each())
    return Outcomes(outputs, measures, further, details=details)


def _rate(
    name: str, label: str, total: Array, count: Array, digits: int, last: Callable[[Array], Array] = lambda rates: rates
) -> Measure:
    """A function of a ratio of sums; NaN where nothing was counted."""

    def formula(sums: Array) -> Array:
        known = sums[:, 1] > 0
        rates = np.divide(sums[:, 0], sums[:, 1], out=np.full(len(sums), np.nan), where=known)
        return last(np.minimum(rates, 700.0))

    return Measure(name, label, np.stack([total, count], axis=1), formula, higher_is_better=False, digits=digits)


def _by_place(scores: Sequence[TokenScores]) -> list[dict[str, Any]]:
    """The loss by position in the context, from 0, in ranges of doubling width: 0, 1, 2-3, 4-7, ..."""
    places = np.concatenate([np.zeros(0, np.int32), *(one.seen for one in scores)]) - 1
    nll = -np.concatenate([np.zeros(0), *(one.log_probs for one in scores)])
    ranges: NDArray[np.int64] = np.frexp(places)[1].astype(np.int64)  # 0 for 0, else 1 + floor of the binary logarithm
    found = []
    for power in np.unique(ranges).tolist():
        inside = ranges == power
        first, last = (2 ** (power - 1), 2**power - 1) if power else (0, 0)
        last = int(min(last, places.max()))
        found.append({"first": first, "last": last, "tokens": int(inside.sum()), "loss": float(nll[inside].mean())})
    return found
