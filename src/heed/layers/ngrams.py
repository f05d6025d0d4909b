"""A linear classifier over the n-grams of a text's tokens, each at the place of a table that its hash says.

    x_f = idf_f / |idf of the text's n-grams|  for each n-gram f that the text holds, however often;  logits = x' W + b

Source: Cheng et al. 2016 (arXiv:1606.07792), section 3.1, for a wide linear part beside a deep one; Joulin et al. 2017
(arXiv:1607.01759), section 2.2, for n-grams by hashing; Wang and Manning 2012 (ACL P12-2018) for how far word bigrams
alone go.
Differs from them: a text is what TF-IDF makes of it (presence, not counts); W is not trained with the deep part but
fitted before it (`heed.tasks.classification.ngrams`).
"""

from __future__ import annotations

import torch
from torch import Tensor, nn

_PRIME = 2**31 - 1
_STEP, _LAST = 1_000_003, 1_597_334_677
"""Factors below 2 ** 32, so that no product of one and a number below the prime leaves 64 bits."""


def hash_ngrams(tokens: Tensor, mask: Tensor, longest: int, num_buckets: int) -> Tensor:
    """The bucket of each n-gram of 1 to `longest` tokens.

    Args:
        tokens: `(..., length)`.
        mask: `(..., length)`, True on real tokens, which come first.
        longest: The longest n-gram.
        num_buckets: Rows of the table.

    Returns:
        `(..., longest, length)`: at `[n - 1, i]` the bucket of the n tokens from i on; -1 where there are not so many.
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
    """Buckets of each row `(batch, n)` in order, -1 where one occurs again."""
    ordered = buckets.sort(dim=-1).values
    again = torch.zeros_like(ordered, dtype=torch.bool)
    again[:, 1:] = ordered[:, 1:] == ordered[:, :-1]
    return ordered.masked_fill(again, -1)


class HashedNgrams(nn.Module):
    """Logits that are linear in which n-grams a text holds. Its numbers are fitted, not trained by gradients.

    Attributes:
        weight: `(num_buckets, num_outputs)`, W.
        bias: `(num_outputs,)`, b.
        idf: `(num_buckets,)`, inverse document frequency; 0 for n-grams that no training text holds.
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
        """The buckets that each text holds, `(batch, n)`; -1 for none, and where one was counted already.

        Texts `(batch, length)`, or `(batch, sentences, words)`: then n-grams lie within a sentence.
        """
        found = hash_ngrams(tokens, mask, self.longest, len(self.idf))
        return distinct(found.flatten(1))

    def features(self, buckets: Tensor) -> Tensor:
        """The numbers x of each text by its distinct buckets, `(batch, n)`."""
        idf = self.idf[buckets.clamp_min(0)] * (buckets >= 0)
        lengths: Tensor = idf.norm(dim=-1, keepdim=True)
        return idf / lengths.clamp_min(1e-9)

    def forward(self, tokens: Tensor, mask: Tensor) -> Tensor:
        """Logits `(batch, num_outputs)`; b for a text without a known n-gram."""
        buckets = self.buckets(tokens, mask)
        rows = self.weight[buckets.clamp_min(0)]  # (B, n, num_outputs)
        return self.bias + (self.features(buckets).unsqueeze(-1) * rows).sum(1)
