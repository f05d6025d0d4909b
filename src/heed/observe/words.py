"""Maps of words from maps of subword tokens.

Policy, stated in the caption of every merged map: the weights of a word's parts are summed over keys (they are shares
of one whole) and averaged over queries (each part attends separately), so rows still sum to 1.
"""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor

from heed.observe.maps import Axis, Map

MERGED = "Words: weights are summed over the parts of the attended word and averaged over those of the attending word."


def merge_words(whole: Map, query: Axis, query_words: Sequence[range], key: Axis, key_words: Sequence[range]) -> Map:
    """The map of words, given as ranges of tokens; it has no scores, since scores of parts do not add up."""
    rows, columns = _membership(query_words, whole.weights), _membership(key_words, whole.weights)
    weights = rows / rows.sum(1, keepdim=True).clamp_min(1) @ whole.weights @ columns.T
    mask = None
    if whole.mask is not None:
        mask = (rows @ whole.mask.to(rows.dtype) @ columns.T) > 0
    caption = f"{whole.caption} {MERGED}".strip()
    return Map(whole.mechanism, whole.layer, whole.head, query, key, weights, None, mask, caption)


def _membership(words: Sequence[range], like: Tensor) -> Tensor:
    """`(words, tokens)`, 1 where a token belongs to a word."""
    result = torch.zeros(len(words), words[-1].stop if words else 0, dtype=like.dtype, device=like.device)
    for number, tokens in enumerate(words):
        result[number, tokens.start : tokens.stop] = 1.0
    return result
