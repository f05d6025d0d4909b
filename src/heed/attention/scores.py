"""Scores: how well a key matches a query. Papers on attention differ mainly in the score.

A score has three parts, so that nothing is computed more often than needed: `project` for each query, `prepare` for
each key (once per source, whatever the number of queries), `scores` for every pair. If `scores` is a scaled dot
product, `scale` is its factor and a fused kernel may compute it; otherwise `scale` is None. `SCORES` has them by name.
"""

import math
from collections.abc import Callable
from functools import partial
from typing import Any, ClassVar

import torch
from torch import Tensor, nn

from heed.errors import ConfigError, ShapeError, suggest
from heed.kernels import Linear
from heed.shapes import Float

PairScore = Callable[[Tensor, Tensor], Tensor]
"""From projected queries `(..., query, d)` and prepared keys `(..., key, d)` to scores `(..., query, key)`."""


def check_widths(projected: Tensor, prepared: Tensor) -> None:
    """Refuse a dot product of vectors of different widths.

    Raises:
        ShapeError: The widths differ.
    """
    if projected.shape[-1] != prepared.shape[-1]:
        raise ShapeError(
            f"a dot product needs equal widths, but the query has {projected.shape[-1]} and the key "
            f"{prepared.shape[-1]}; score 'general' (q'Wk) allows unequal widths"
        )


def dot_scores(
    projected: Float[Tensor, "*batch query d"], prepared: Float[Tensor, "*batch key d"], scale: float
) -> Float[Tensor, "*batch query key"]:
    """`scale * q'k` for every pair."""
    check_widths(projected, prepared)
    return (projected * scale) @ prepared.transpose(-2, -1)


def additive_scores(
    projected: Float[Tensor, "*batch query d"], prepared: Float[Tensor, "*batch key d"], v: Float[Tensor, " d"]
) -> Float[Tensor, "*batch query key"]:
    """`v' tanh(q + k)` for every pair of a projected query q and a projected key k."""
    return torch.tanh(projected.unsqueeze(-2) + prepared.unsqueeze(-3)) @ v  # (..., Q, 1, d) + (..., 1, K, d)


class Score(nn.Module):
    """Compares queries with keys. Subclasses override the parts that differ.

    Attributes:
        formula: The score of query q and key k, for `heed models --scores`.
        source: Paper and place, for the same table.
        widths: How many of the widths of query, key and projection its constructor takes.
        scale: The factor if `scores(p, k) = scale * p k'`, which a fused kernel can compute; None otherwise.
    """

    formula: ClassVar[str]
    source: ClassVar[str]
    widths: ClassVar[int] = 3
    scale: float | None = None

    def project(self, query: Tensor) -> Tensor:
        """Queries `(..., query, d_query)` to `(..., query, d)`."""
        return query

    def prepare(self, key: Tensor) -> Tensor:
        """Keys `(..., key, d_key)` to `(..., key, d)`; called once per source."""
        return key

    def snapshot(self, keep_graph: bool = False) -> PairScore:
        """`scores` as a function with copies of its parameters; `keep_graph` keeps them in the autograd graph."""
        assert self.scale is not None, "a score without a scale must define snapshot()"
        return partial(dot_scores, scale=self.scale)

    def scores(self, projected: Tensor, prepared: Tensor) -> Tensor:
        """Projected `(..., query, d)` and prepared `(..., key, d)` to scores `(..., query, key)`."""
        assert self.scale is not None, "a score without a scale must define scores()"
        return dot_scores(projected, prepared, self.scale)


class Dot(Score):
    """`q'k`. Widths must be equal.

    Source: Luong et al. 2015 (arXiv:1508.04025), section 3.1, "dot".
    """

    formula = "q'k"
    source = "Luong et al. 2015, section 3.1"
    widths = 0
    scale = 1.0


class ScaledDot(Score):
    """`q'k / sqrt(d)`, d the width of the queries.

    Products of independent unit-variance vectors have variance d; the scale brings it back to 1.
    Source: Vaswani et al. 2017 (arXiv:1706.03762), equation 1.
    """

    formula = "q'k / sqrt(d)"
    source = "Vaswani et al. 2017, equation 1"
    widths = 1

    def __init__(self, d: int) -> None:
        super().__init__()
        self.scale = 1.0 / math.sqrt(d)


class General(Score):
    """`scale * q'Wk`: a bilinear form, any two widths.

    W is applied to the keys, once per source, instead of to every query; the product is the same.
    Source: Luong et al. 2015 (arXiv:1508.04025), section 3.1, "general" (scale 1).
    """

    formula = "q'Wk"
    source = "Luong et al. 2015, section 3.1"
    widths = 2

    def __init__(self, d_query: int, d_key: int, scale: float = 1.0) -> None:
        super().__init__()
        self.w_key = Linear(d_key, d_query, bias=False)
        self.scale = scale

    def prepare(self, key: Tensor) -> Tensor:
        return self.w_key(key)


class Projected(Score):
    """Base of scores that project both sides to width `d`; the bias is on the keys, which are projected once."""

    def __init__(self, d_query: int, d_key: int, d: int, bias: bool = False) -> None:
        super().__init__()
        self.w_query = Linear(d_query, d, bias=False)
        self.w_key = Linear(d_key, d, bias=bias)

    def project(self, query: Tensor) -> Tensor:
        return self.w_query(query)

    def prepare(self, key: Tensor) -> Tensor:
        return self.w_key(key)


class KeyQuery(Projected):
    """`(W_q q)'(W_k k)`, unscaled.

    Source: the lecture notes on attention (docs/systems.md, B2: k_i = W_k h_i, q = W_q s, score k_i'q).
    """

    formula = "(W_q q)'(W_k k)"
    source = "lecture notes (docs/systems.md, B2)"
    scale = 1.0


class Additive(Projected):
    """`v' tanh(W_q q + W_k k + b)`: a one-layer network on each pair.

    The paper writes `v_a' tanh(W_a s_{i-1} + U_a h_j)`; the notes write one matrix on the pair, `v' tanh(W [h ; s])`,
    which is the same with W split in two.

    Source: Bahdanau et al. 2015 (arXiv:1409.0473), appendix A.1.2.
    Differs from the paper: a bias b is added unless `bias=False`.
    """

    formula = "v' tanh(W_q q + W_k k + b)"
    source = "Bahdanau et al. 2015, appendix A.1.2"

    def __init__(self, d_query: int, d_key: int, d: int, bias: bool = True) -> None:
        super().__init__(d_query, d_key, d, bias)
        self.v = nn.Parameter(torch.empty(d))
        nn.init.uniform_(self.v, -1 / math.sqrt(d), 1 / math.sqrt(d))

    def scores(self, projected: Tensor, prepared: Tensor) -> Tensor:
        return additive_scores(projected, prepared, self.v)

    def snapshot(self, keep_graph: bool = False) -> PairScore:
        return partial(additive_scores, v=self.v.clone() if keep_graph else self.v.detach().clone())


class Concat(Additive):
    """`v' tanh(W [q ; k])`: additive attention without a bias.

    Source: Luong et al. 2015 (arXiv:1508.04025), section 3.1, "concat".
    """

    formula = "v' tanh(W [q ; k])"
    source = "Luong et al. 2015, section 3.1"

    def __init__(self, d_query: int, d_key: int, d: int) -> None:
        super().__init__(d_query, d_key, d, bias=False)


SCORES: dict[str, type[Score]] = {
    "dot": Dot,
    "scaled_dot": ScaledDot,
    "general": General,
    "key_query": KeyQuery,
    "additive": Additive,
    "concat": Concat,
}


def make_score(name: str, d_query: int, d_key: int, d: int) -> Score:
    """Build a score by name; `d` is the width to which `key_query`, `additive` and `concat` project both sides.

    Raises:
        ConfigError: The score is unknown, or is a dot product and the widths differ.
    """
    if name not in SCORES:
        raise ConfigError(f"unknown score '{name}'{suggest(name, SCORES)}")
    if name in ("dot", "scaled_dot") and d_query != d_key:
        raise ConfigError(
            f"score '{name}' needs equal widths, but the query has {d_query} and the key {d_key}; "
            "score 'general' (q'Wk) allows unequal widths"
        )
    kind: Any = SCORES[name]
    score: Score = kind(*(d_query, d_key, d)[: kind.widths])
    return score
