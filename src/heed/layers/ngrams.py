"""Linear classifier over hashed n-grams of a text's tokens.

    x_f = idf_f / |idf of the text's n-grams|  for each distinct n-gram f of the text;  logits = x' W + b

Source: Cheng et al. 2016 (arXiv:1606.07792), section 3.1, for a wide linear part beside a deep one; Joulin et al. 2017
(arXiv:1607.01759), section 2.2, for hashed n-grams; Wang and Manning 2012 (ACL P12-2018) for the strength of word
bigrams alone.
Differs from them: features are binary TF-IDF (presence, not counts); W is not trained jointly with the deep part but
fitted before it (`heed.tasks.classification.ngrams`).
"""

from __future__ import annotations

import torch
from torch import Tensor, nn

_PRIME = 2**31 - 1
_STEP, _LAST = 1_000_003, 1_597_334_677
"""Factors below 2 ** 32, so that their products with numbers below the prime fit 64 bits."""


def hash_ngrams(tokens: Tensor, mask: Tensor, longest: int, num_buckets: int) -> Tensor:
    """The bucket of each n-gram of 1 to `longest` tokens.

    Args:
        tokens: `(..., length)`.
        mask: `(..., length)`, True on real tokens, which come first.
        longest: Length of the longest n-grams.
        num_buckets: Number of buckets.

    Returns:
        `(..., longest, length)`: at `[n - 1, i]` the bucket of the n tokens from i on; -1 if fewer tokens are left.
    """
    result = tokens.new_full((*tokens.shape[:-1], longest, tokens.shape[-1]), -1)
    hashed = torch.zeros_like(tokens)
    for n in range(1, min(longest, tokens.shape[-1]) + 1):
        ends = tokens[..., n - 1 :]
        begun = hashed[..., : ends.shape[-1]]
        hashed = (begun * _STEP + ends + n) % _PRIME
        buckets = hashed * _LAST % _PRIME % num_buckets
        result[..., n - 1, : ends.shape[-1]] = buckets.where(mask[..., n - 1 :], -1)
    return result


def distinct(buckets: Tensor) -> Tensor:
    """Sort the buckets of each row `(batch, n)`, and replace repeated ones by -1."""
    ordered = buckets.sort(dim=-1).values
    again = torch.zeros_like(ordered, dtype=torch.bool)
    again[:, 1:] = ordered[:, 1:] == ordered[:, :-1]
    return ordered.masked_fill(again, -1)


class HashedNgrams(nn.Module):
    """Logits linear in the n-grams of a text. The weights are fitted, not trained by gradient descent.

    Attributes:
        weight: `(num_buckets, num_outputs)`, W.
        bias: `(num_outputs,)`, b.
        idf: `(num_buckets,)`, inverse document frequency; 0 for n-grams that occur in no training text.
    """

    weight: Tensor
    bias: Tensor
    idf: Tensor

    def __init__(self, longest: int, num_buckets: int, num_outputs: int) -> None:
        super().__init__()
        self.longest = longest
        self.register_buffer("weight", torch.zeros(num_buckets, num_outputs))
        self.register_buffer("bias", torch.zeros(num_outputs))
        self.register_buffer("idf", torch.zeros(num_buckets))

    def buckets(self, tokens: Tensor, mask: Tensor) -> Tensor:
        """The distinct buckets of each text, `(batch, n)`; -1 in unused places.

        Texts are `(batch, length)`, or `(batch, sentences, words)`; then n-grams do not cross sentences.
        """
        found = hash_ngrams(tokens, mask, self.longest, len(self.idf))
        return distinct(found.flatten(1))

    def features(self, buckets: Tensor) -> Tensor:
        """The values x of each text for its distinct buckets, `(batch, n)`."""
        idf = self.idf[buckets.clamp_min(0)] * (buckets >= 0)
        lengths: Tensor = idf.norm(dim=-1, keepdim=True)
        return idf / lengths.clamp_min(1e-9)

    def forward(self, tokens: Tensor, mask: Tensor) -> Tensor:
        """Logits `(batch, num_outputs)`; b for a text without known n-grams."""
        buckets = self.buckets(tokens, mask)
        rows = self.weight[buckets.clamp_min(0)]  # (B, n, num_outputs)
        return self.bias + (self.features(buckets).unsqueeze(-1) * rows).sum(1)
