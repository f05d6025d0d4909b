"""How many tokens subword sampling makes of a text, measured on some, so that batches can be planned for them.

A text of n tokens has about `mean * n` when it is cut at random, with a variance of `variance * n`: its words are cut
one by one. `bound` is two standard deviations above that; few texts come to it, and these are cut as always in some of
their words.

How many more is measured on 200 texts. `training.batch_tokens` and `data.max_length` hold for what is trained on.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from heed.data.tokens.subwords import SubwordSampler

MEASURED = 200
"""Texts that are cut to measure it."""


@dataclass(frozen=True)
class Growth:
    """Tokens of a text cut at random for each token of the text cut as always."""

    mean: float = 1.0
    variance: float = 0.0

    @classmethod
    def measured(cls, sampler: SubwordSampler, texts: Sequence[str]) -> Growth:
        """Measure it on texts."""
        known = [(text, length) for text in texts if (length := sampler.count(text)) > 0]
        if not known or not sampler.samples:
            return cls()
        drawn = np.array([len(sampler.encode(text, seed)) for seed, (text, _) in enumerate(known)])
        plain = np.array([length for _, length in known])
        mean = drawn.sum() / plain.sum()
        return cls(float(mean), float(np.mean((drawn - mean * plain) ** 2 / plain)))

    def bound(self, lengths: NDArray[np.int32]) -> NDArray[np.int32]:
        """Most tokens of texts of these lengths: two standard deviations above the mean, and never less than now."""
        grown = np.ceil(self.mean * lengths + 2 * np.sqrt(self.variance * lengths))
        most: NDArray[np.int32] = np.maximum(grown, lengths).astype(np.int32)
        return most
