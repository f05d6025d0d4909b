"""Linear classifier over hashed n-grams of a text: of its words, and of the characters within them.

    x_f = idf_f / |idf of the text's n-grams of that kind|  for each distinct n-gram f;  logits = x' W + b

Source: Cheng et al. 2016 (arXiv:1606.07792), section 3.1, for a wide linear part beside a deep one; Joulin et al. 2017
(arXiv:1607.01759), section 2.2, for hashed n-grams; Wang and Manning 2012 (ACL P12-2018) for the strength of word
bigrams alone.
Differs from them: features are binary TF-IDF (presence, not counts); W is not trained jointly with the deep part but
fitted before it (`heed.tasks.classification.ngrams`).
"""

from __future__ import annotations

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn
from torch.nn.functional import embedding_bag, normalize

_PRIME = 2**31 - 1
_STEP, _LAST = 1_000_003, 1_597_334_677
"""Factors below 2 ** 32, so that their products with numbers below the prime fit 64 bits."""


def hash_ngrams(ids: NDArray[np.int64], longest: int, num_buckets: int) -> list[NDArray[np.int64]]:
    """The buckets of the n-grams of n = 1 to `longest` ids, `(length - n + 1,)` each; ids are below 2 ** 31."""
    result, hashed = [], np.zeros(len(ids), dtype=np.int64)
    for n in range(1, longest + 1):
        ends = ids[n - 1 :]
        hashed = (hashed[: len(ends)] * _STEP + ends + n) % _PRIME
        result.append(hashed * _LAST % _PRIME % num_buckets)
    return result


class HashedNgrams(nn.Module):
    """Logits linear in the n-grams of a text. The weights are fitted, not trained by gradient descent.

    N-grams of words have the first `num_buckets` rows of the table; those of characters have as many rows after them.
    """

    weight: Tensor  # `(rows, num_outputs)`, W
    bias: Tensor  # `(num_outputs,)`, b
    idf: Tensor  # `(rows,)`, inverse document frequency; 0 for n-grams that occur in no training text

    def __init__(self, num_buckets: int, num_outputs: int, characters: bool) -> None:
        super().__init__()
        self.num_buckets = num_buckets
        rows = num_buckets * (1 + characters)
        self.register_buffer("weight", torch.zeros(rows, num_outputs))
        self.register_buffer("bias", torch.zeros(num_outputs))
        self.register_buffer("idf", torch.zeros(rows))

    def features(self, buckets: Tensor) -> Tensor:
        """The values x of each text for its distinct buckets, `(batch, n)`; -1 in unused places."""
        idf, of_words = self.idf[buckets.clamp_min(0)] * (buckets >= 0), buckets < self.num_buckets
        words, characters = normalize(idf * of_words, dim=-1), normalize(idf * ~of_words, dim=-1)
        return words + characters

    def forward(self, buckets: Tensor) -> Tensor:
        """Logits `(batch, num_outputs)` of texts by their buckets `(batch, n)`; b for a text without known n-grams."""
        values = self.features(buckets)
        return self.bias + embedding_bag(buckets.clamp_min(0), self.weight, per_sample_weights=values, mode="sum")
