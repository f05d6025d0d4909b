"""Word alignment learned from pairs of texts: IBM model 1 in both directions, trained to agree.

Each direction explains every token of one side by one of the other or by nothing. After two iterations apart, expected
counts are the product of both posteriors, so that both learn from links on which they agree.

    p(j | i)  =  t(y_i | x_j) / (sum_j' t(y_i | x_j') + n(y_i) * J * null / (1 - null))      target i, source j of J

Source: Brown et al. 1993 (Computational Linguistics 19(2)), model 1; Liang, Taskar and Klein 2006 (N06-1014), section
4.1, for the product. Differs: words explained by nothing have one distribution n with a fixed share `null`, and counts
are smoothed.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import torch
from torch import Tensor

from heed.data.batch.pairs import TokenPair

_APART, _TOGETHER = 2, 4
"""Iterations in which the directions learn apart, and together."""
_NULL = 0.2
"""Share of tokens that nothing on the other side says, before anything is learned."""
_SMOOTHING = 0.01
"""Counts added, shared evenly by the vocabulary."""


@dataclass
class _Direction:
    """One side explained by the other; the cells (i, j) of all pairs in one row.

    Attributes:
        token: Per cell, which token of the corpus is explained.
        kind: Per token of the corpus, its vocabulary number.
        rivals: Per token of the corpus, how many tokens may explain it.
        given: Per pair of vocabulary numbers that meet somewhere, the one that explains.
        probs: Per such pair, the probability of the explained one.
        nothing: Per vocabulary number, its probability where nothing explains it.
    """

    token: Tensor
    kind: Tensor
    rivals: Tensor
    given: Tensor
    probs: Tensor
    nothing: Tensor

    def posteriors(self, met: Tensor) -> Tensor:
        """Per cell, the probability that its token is explained by its partner."""
        probs = self.probs[met]
        nothing = self.nothing[self.kind] * self.rivals * (_NULL / (1 - _NULL))
        return probs / (_sum_by(self.token, probs, len(self.kind)) + nothing)[self.token]

    def learn(self, met: Tensor, links: Tensor) -> None:
        """New probabilities from expected links."""
        vocab_size = len(self.nothing)
        counts = _sum_by(met, links, len(self.given))
        totals = _sum_by(self.given, counts, int(self.given.max()) + 1)
        self.probs = (counts + _SMOOTHING / vocab_size) / (totals[self.given] + _SMOOTHING)
        left = (1 - _sum_by(self.token, links, len(self.kind))).clamp_min(0)
        nothing = _sum_by(self.kind, left, vocab_size) + _SMOOTHING / vocab_size
        self.nothing = nothing / nothing.sum()


def align_tokens(pairs: Sequence[TokenPair]) -> list[Tensor]:
    """Align the tokens of a corpus of pairs, which may be empty on a side.

    Returns:
        Per pair the link strengths `(target, source)`, in 0 .. 1: the geometric mean of the posteriors of both
        directions, float32. A row or a column of zeros is an unaligned token.
    """
    sizes = [(len(pair.target), len(pair.source)) for pair in pairs]
    source = torch.tensor([token for pair in pairs for token in pair.source], dtype=torch.long)
    target = torch.tensor([token for pair in pairs for token in pair.target], dtype=torch.long)
    if not len(source) or not len(target):
        return [torch.zeros(size) for size in sizes]
    rows, columns, row, column = [], [], 0, 0
    for num_targets, num_sources in sizes:
        rows.append(torch.arange(row, row + num_targets).repeat_interleave(num_sources))
        columns.append(torch.arange(column, column + num_sources).repeat(num_targets))
        row, column = row + num_targets, column + num_sources
    of_target, of_source = torch.cat(rows), torch.cat(columns)  # (cells,)
    num_sources, num_targets = int(source.max()) + 1, int(target.max()) + 1
    kinds, met = torch.unique(source[of_source] * num_targets + target[of_target], return_inverse=True)
    lengths = torch.tensor(sizes)
    directions = []
    for token, kind, rivals, given, vocab_size in (
        (of_target, target, lengths[:, 1].repeat_interleave(lengths[:, 0]), kinds // num_targets, num_targets),
        (of_source, source, lengths[:, 0].repeat_interleave(lengths[:, 1]), kinds % num_targets, num_sources),
    ):
        even = torch.full((max(len(kinds), vocab_size),), 1 / vocab_size, dtype=torch.float64)
        directions.append(_Direction(token, kind, rivals, given, even[: len(kinds)], even[:vocab_size]))
    for iteration in range(_APART + _TOGETHER):
        posteriors = [direction.posteriors(met) for direction in directions]
        both = posteriors[0] * posteriors[1]
        for direction, own in zip(directions, posteriors, strict=True):
            direction.learn(met, own if iteration < _APART else both)
    strengths = both.sqrt().float().split([rows * columns for rows, columns in sizes])
    return [strength.view(size) for strength, size in zip(strengths, sizes, strict=True)]


def _sum_by(index: Tensor, values: Tensor, size: int) -> Tensor:
    return torch.bincount(index, weights=values, minlength=size)
