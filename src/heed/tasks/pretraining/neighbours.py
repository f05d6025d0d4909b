"""Initial embeddings from the co-occurrence of tokens.

    M[i, j] = max(0, ln(n_ij N / (n_i m_j)))        n_ij: nearby pairs (i, j); m_j = N n_j^0.75 / sum_k n_k^0.75
    M ~ U S V^T with the d largest singular values;   e_i = U_i sqrt(S)

Two tokens are near if they are at most five positions apart in a document; the weight of a pair falls with its distance
(5/5, 4/5, ..., 1/5).

Source: Levy and Goldberg 2014, Neural Word Embedding as Implicit Matrix Factorization (what skip-gram with negative
samples factorises); Levy, Goldberg and Dagan 2015, Improving Distributional Similarity (Q15-1016), sections 3.2 and 3.3
(the power 0.75, the root of S, weights by distance).
Differs from the paper: the factors are scaled as a whole to one deviation.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import nn

from heed.tasks.pretraining.rows import Passages

_WINDOW = 5
_MOST = 20_000_000
"""Tokens that are counted, from the beginning of the text: more would change the embeddings of rare tokens only."""
_TOGETHER = 4_000_000
"""Tokens whose neighbours are counted at once."""
_POWER = 0.75
DEVIATION = 0.1
"""Standard deviation of the embeddings: five times that of the positions, so that equal tokens resemble each other at
any position."""


@dataclass(frozen=True)
class Counted:
    """Counts of the tokens that embeddings were made from."""

    tokens: int  # tokens of text that were counted
    filled: int  # tokens of the vocabulary that occur there
    vocab_size: int

    def __str__(self) -> str:
        return (
            f"embeddings of {self.filled:,} of {self.vocab_size:,} tokens initialised from their neighbours in "
            f"{self.tokens:,} tokens of the training text"
        )

    def as_report(self) -> dict[str, Any]:
        """The counts for `report.json`."""
        return dict(vars(self))


def fill_from_neighbours(embedding: nn.Embedding, passages: Passages) -> Counted:
    """Fill an embedding table `(vocab_size, d)` from the tokens of some documents.

    Rows of tokens that do not occur, and columns beyond the rank of the counts, keep their random values; all are
    scaled to the same deviation.
    """
    size, width = embedding.weight.shape
    ids, starts = passages.ids[:_MOST], passages.starts
    counts = _neighbours(ids, starts, size)
    vectors = _factors(counts, width)
    present = np.flatnonzero(np.asarray(counts.sum(1)).ravel())
    with torch.no_grad():
        weight = embedding.weight
        weight.mul_(DEVIATION / weight.std(correction=0))
        if len(present) and vectors.shape[1]:
            chosen = vectors[present]
            found = torch.from_numpy(chosen * (DEVIATION / chosen.std())).to(weight)
            weight[torch.from_numpy(present).to(weight.device), : found.shape[1]] = found
    return Counted(len(ids), len(present), size)


def _neighbours(ids: NDArray[Any], starts: NDArray[np.int64], size: int) -> Any:
    """Counts of nearby tokens, weighted by distance: a sparse symmetric matrix `(size, size)`."""
    from scipy.sparse import coo_matrix, csr_matrix  # heavy, and only needed once

    total = csr_matrix((size, size), dtype=np.float64)
    for begin in range(0, len(ids), _TOGETHER):
        part = np.asarray(ids[begin : begin + _TOGETHER + _WINDOW], dtype=np.int64)
        document = np.searchsorted(starts, np.arange(begin, begin + len(part)), side="right")
        for apart in range(1, _WINDOW + 1):
            pairs = max(0, min(_TOGETHER, len(part) - apart))
            near = slice(0, pairs), slice(apart, apart + pairs)
            same = document[near[0]] == document[near[1]]
            left, right = (part[side][same] for side in near)
            weight = np.full(len(left), (_WINDOW + 1 - apart) / _WINDOW)
            total += coo_matrix((weight, (left, right)), shape=(size, size)).tocsr()
    return total + total.T


def _factors(counts: Any, width: int) -> NDArray[np.float64]:
    """The leading factors of the positive mutual information, `(size, at most width)`."""
    from scipy.sparse import csr_matrix
    from sklearn.utils.extmath import randomized_svd

    pairs = counts.tocoo()
    each = np.asarray(counts.sum(1)).ravel()
    smoothed = each**_POWER
    with np.errstate(divide="ignore"):
        information = np.log(pairs.data) - np.log(each[pairs.row]) - np.log(smoothed[pairs.col] / smoothed.sum())
    kept = information > 0
    matrix = csr_matrix((information[kept], (pairs.row[kept], pairs.col[kept])), shape=counts.shape)
    rank = min(width, int(np.count_nonzero(each)))
    if not rank or not matrix.nnz:
        return np.zeros((counts.shape[0], 0))
    left, values, _ = randomized_svd(matrix, rank, n_iter=4, random_state=0)
    return np.asarray(left * np.sqrt(values))
