"""A score: the cosine of query and key, times a learned factor."""

from functools import partial

import torch
from torch import Tensor, nn
from torch.nn.functional import normalize

from heed.attention.scores import PairScore, Score, dot_scores


class Cosine(Score):
    """`s q'k / (|q| |k|)`, s a learned number.

    Source: Liu et al. 2022 (arXiv:2111.09883), section 3.1, "scaled cosine attention"; they learn 1 / s for each head.
    """

    formula = "s q'k / (|q| |k|)"
    source = "Liu et al. 2022, section 3.1"
    widths = 0  # how many of d_query, d_key and d the constructor takes

    def __init__(self) -> None:
        super().__init__()
        self.factor = nn.Parameter(torch.tensor(10.0))

    def project(self, query: Tensor) -> Tensor:  # once for each query
        return normalize(query, dim=-1)

    def prepare(self, key: Tensor) -> Tensor:  # once for each key of a source, whatever the number of queries
        return normalize(key, dim=-1)

    def scores(self, projected: Tensor, prepared: Tensor) -> Tensor:  # for every pair
        return self.factor * dot_scores(projected, prepared, 1.0)

    def snapshot(self, keep_graph: bool = False) -> PairScore:  # with copies of its parameters, for a look
        factor = self.factor if keep_graph else self.factor.detach().clone()
        return partial(_scores, factor)


def _scores(factor: Tensor, projected: Tensor, prepared: Tensor) -> Tensor:
    return factor * dot_scores(projected, prepared, 1.0)
