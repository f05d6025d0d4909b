"""Word alignment learned from pairs of texts, and known alignments as attention weights between tokens.

IBM model 1 with a prior on the diagonal, in both directions. Each direction explains every token of one side by one of
the other or by none. They are trained to agree: after two separate iterations, expected counts are the product of both
posteriors.

    p(j | i)  =  t(y_i | x_j) d(j | i) / (sum_j' t(y_i | x_j') d(j' | i) + n(y_i) * null / (1 - null))
    d(j | i)  ~  exp(-s |(i + 1/2) / I - (j + 1/2) / J|)      target i of I, source j of J, summing to 1 over j

Repeated words of a pair, mostly articles, are distinguished by their positions alone. The sharpness of the diagonal, s,
is learned with the words: 0 (model 1) in the first two iterations and where word order is free.

Source: Brown et al. 1993 (Computational Linguistics 19(2)), model 1; Dyer, Chahuneau and Smith 2013 (N13-1073),
section 2, for d; Liang, Taskar and Klein 2006 (N06-1014), section 4.1, for the product. Differs: unaligned words have
one distribution n with a fixed share `null`, counts are smoothed, and s is 1 / (mean distance of the links) minus 1 /
(mean distance of all cells), which is close to its maximum-likelihood value.

10,000 pairs take about a second; memory has an entry for each source word with each target word of a pair.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from heed.data.examples import Link, Span

_APART, _TOGETHER = 2, 4
"""Iterations in which the directions learn separately, and jointly."""
_NULL = 0.2
"""Prior share of tokens without a counterpart on the other side."""
_LEAST = 0.01
"""Lower limit of the mean distance from the diagonal (of length 1), which limits the sharpness."""
_SMOOTHING = 0.01
"""Total of added counts, spread evenly over the vocabulary."""


@dataclass
class _Direction:
    """One side explained by the other; the cells (i, j) of all pairs are flattened into one axis.

    Attributes:
        token: Per cell, the index of the explained token in the corpus.
        kind: Per token of the corpus, its vocabulary id.
        near: Per cell, the prior d; the cells of a token sum to 1.
        given: Per pair of vocabulary ids that occur together, the id that explains.
        probs: Per such pair, the probability of the explained id.
        nothing: Per vocabulary id, its probability without a counterpart.
    """

    token: Tensor
    kind: Tensor
    near: Tensor
    given: Tensor
    probs: Tensor
    nothing: Tensor

    def posteriors(self, met: Tensor) -> Tensor:
        """Per cell, the probability that its token is explained by its partner."""
        probs = self.probs[met] * self.near
        nothing = self.nothing[self.kind] * (_NULL / (1 - _NULL))
        return probs / (_sum_by(self.token, probs, len(self.kind)) + nothing)[self.token]

    def place(self, decay: Tensor) -> None:
        """Set the prior to `decay` per cell, normalised over the partners of each token."""
        self.near = decay / _sum_by(self.token, decay, len(self.kind))[self.token]

    def learn(self, met: Tensor, links: Tensor) -> None:
        """Set the probabilities from expected links."""
        vocab_size = len(self.nothing)
        counts = _sum_by(met, links, len(self.given))
        totals = _sum_by(self.given, counts, int(self.given.max()) + 1)
        self.probs = (counts + _SMOOTHING / vocab_size) / (totals[self.given] + _SMOOTHING)
        left = (1 - _sum_by(self.token, links, len(self.kind))).clamp_min(0)
        nothing = _sum_by(self.kind, left, vocab_size) + _SMOOTHING / vocab_size
        self.nothing = nothing / nothing.sum()


def align_tokens(sources: Sequence[Sequence[int]], targets: Sequence[Sequence[int]]) -> list[Tensor]:
    """Align the tokens of a corpus of pairs, whose sides may be empty.

    Returns:
        Link strengths `(target, source)` of each pair, in 0 .. 1: the geometric mean of the posteriors of both
        directions, float32. A row or a column of zeros is an unaligned token.
    """
    sizes = [(len(target), len(source)) for source, target in zip(sources, targets, strict=True)]
    source = torch.tensor([token for tokens in sources for token in tokens], dtype=torch.long)
    target = torch.tensor([token for tokens in targets for token in tokens], dtype=torch.long)
    if not len(source) or not len(target):
        return [torch.zeros(size) for size in sizes]
    rows, columns, distances, row, column = [], [], [], 0, 0
    for num_targets, num_sources in sizes:
        places = [(torch.arange(n, dtype=torch.float64) + 0.5) / n for n in (num_targets, num_sources)]
        distances.append((places[0].unsqueeze(1) - places[1]).abs().flatten())
        rows.append(torch.arange(row, row + num_targets).repeat_interleave(num_sources))
        columns.append(torch.arange(column, column + num_sources).repeat(num_targets))
        row, column = row + num_targets, column + num_sources
    of_target, of_source, distance = torch.cat(rows), torch.cat(columns), torch.cat(distances)  # (cells,)
    num_sources, num_targets = int(source.max()) + 1, int(target.max()) + 1
    kinds, met = torch.unique(source[of_source] * num_targets + target[of_target], return_inverse=True)
    directions = []
    for token, kind, given, vocab_size in (
        (of_target, target, kinds // num_targets, num_targets),
        (of_source, source, kinds % num_targets, num_sources),
    ):
        even = torch.full((max(len(kinds), vocab_size),), 1 / vocab_size, dtype=torch.float64)
        directions.append(_Direction(token, kind, distance, given, even[: len(kinds)], even[:vocab_size]))
        directions[-1].place(torch.ones_like(distance))
    for iteration in range(_APART + _TOGETHER):
        posteriors = [direction.posteriors(met) for direction in directions]
        both = posteriors[0] * posteriors[1]
        for direction, own in zip(directions, posteriors, strict=True):
            direction.learn(met, own if iteration < _APART else both)
            if iteration >= _APART - 1:
                direction.place(torch.exp(-_sharpness(both, distance) * distance))
    strengths = both.sqrt().float().split([rows * columns for rows, columns in sizes])
    return [strength.view(size) for strength, size in zip(strengths, sizes, strict=True)]


def _sharpness(links: Tensor, distance: Tensor) -> float:
    """Rate at which links become rarer with their distance from the diagonal."""
    of_links, of_all = float((links * distance).sum() / links.sum()), float(distance.mean())
    return max(0.0, 1 / max(of_links, _LEAST) - 1 / max(of_all, _LEAST))


def _sum_by(index: Tensor, values: Tensor, size: int) -> Tensor:
    return torch.bincount(index, weights=values, minlength=size)


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
