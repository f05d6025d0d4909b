"""Growth of texts by subword sampling, measured on a sample, so that batches can be planned for it.

A text of n tokens has about `mean * n` when it is cut at random, with a variance of `variance * n`, since words are cut
independently. `bound` is two standard deviations above that; the few texts that exceed it have some of their words cut
without sampling.

It is measured on 200 texts. `training.batch_tokens` and `data.max_length` apply to the sampled tokens.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from heed.data.tokens.subwords import SubwordSampler

MEASURED = 200
"""Number of texts on which growth is measured."""


@dataclass(frozen=True)
class Growth:
    """Mean and variance of the number of tokens with sampling, for each token without."""

    mean: float = 1.0
    variance: float = 0.0

    @classmethod
    def measured(cls, sampler: SubwordSampler, texts: Sequence[str]) -> Growth:
        """The growth measured on texts."""
        known = [(text, length) for text in texts if (length := sampler.count(text)) > 0]
        if not known or not sampler.samples:
            return cls()
        drawn = np.array([len(sampler.encode(text, seed)) for seed, (text, _) in enumerate(known)])
        plain = np.array([length for _, length in known])
        mean = drawn.sum() / plain.sum()
        return cls(float(mean), float(np.mean((drawn - mean * plain) ** 2 / plain)))

    def bound(self, lengths: NDArray[np.int32]) -> NDArray[np.int32]:
        """Most tokens of texts of these lengths: two standard deviations above the mean, at least the lengths."""
        grown = np.ceil(self.mean * lengths + 2 * np.sqrt(self.variance * lengths))
        most: NDArray[np.int32] = np.maximum(grown, lengths).astype(np.int32)
        return most
