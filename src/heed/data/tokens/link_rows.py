"""A known alignment of two texts as attention weights between their tokens, for any tokenizer."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from heed.data.examples import Link, Span


def rows_of(links: Sequence[Link], source_spans: Sequence[Span], target_spans: Sequence[Span]) -> Tensor:
    """Target attention weights of each target token, from links between character spans.

        A_tj = 1 / |L_t| * sum over the links l in L_t of [j in S_l] / |S_l|

    L_t are the links whose target text overlaps token t, S_l the source tokens that overlap the source text of link l.
    So a word that is linked to two words attends to both equally, and to all tokens of each equally.

    Args:
        links: The alignment, between character spans.
        source_spans: The character span of each source token (`TextTokenizer.encode`).
        target_spans: The character span of each target token.

    Returns:
        `(target, source)`, float32: rows sum to 1, or to 0 for a token without a link.
    """
    if not links or not source_spans or not target_spans:
        return torch.zeros(len(target_spans), len(source_spans))
    sources = _overlaps([link.source for link in links], source_spans)
    targets = _overlaps([link.target for link in links], target_spans)
    targets *= sources.any(1, keepdims=True)  # ignore links that no source token overlaps
    shares = sources / np.maximum(sources.sum(1, keepdims=True), 1)
    rows = targets.T @ shares / np.maximum(targets.sum(0)[:, None], 1)
    return torch.from_numpy(rows.astype(np.float32))


def _overlaps(texts: Sequence[Span], tokens: Sequence[Span]) -> NDArray[np.float64]:
    """1 where a token overlaps a text, else 0: `(texts, tokens)`."""
    start, end = np.array(texts).T[:, :, None]
    first, last = np.array(tokens).T[:, None, :]
    shared: NDArray[np.float64] = (np.minimum(end, last) > np.maximum(start, first)).astype(np.float64)
    return shared
