"""Random normal queries and keys: variance of q'k and shape of the weights, divided by the root of d or not."""

from __future__ import annotations

import math

import torch
from torch import Tensor

from heed.attention import attend
from heed.attention.scores import Dot, ScaledDot, Score
from heed.claims.experiment import Cell, Experiment, Plot, Results, Row, Verdict, cells

WIDTHS, KEYS, _QUERIES = (2, 4, 16, 64, 512), 64, 2000


def measure(cell: Cell) -> list[Row]:
    """Numbers of 2,000 rows of weights over 64 keys."""
    d = cell["d"]
    score = ScaledDot(d) if cell["divided"] == "by the root of d" else Dot()
    return [numbers_of(score, d, cell.seed)]


def numbers_of(score: Score, d: int, seed: int) -> Row:
    """What random normal queries and keys of width d give.

    Returns:
        The variance of the scores; of the weights, entropy as a share of the uniform one, the largest, and the share of
        rows whose softmax has a Jacobian of Frobenius norm below 0.01.
    """
    generator = torch.Generator().manual_seed(seed)
    query = torch.randn(_QUERIES, 1, d, generator=generator)
    key = torch.randn(_QUERIES, KEYS, d, generator=generator)  # new keys for each query, so that rows are independent
    weights = attend(query, key, key, score=score)[1][:, 0].double()  # (queries, keys)
    scores = score.scores(score.project(query), score.prepare(key))
    return {
        "variance": float(scores.double().var()),
        "entropy": float(torch.special.entr(weights).sum(-1).mean() / math.log(KEYS)),
        "largest": float(weights.amax(-1).mean()),
        "flat": float((_jacobian(weights) < 0.01).double().mean()),
    }


def _jacobian(weights: Tensor) -> Tensor:
    """Frobenius norm of diag(a) - a a' for each row a: |a|^2 - 2 sum a^3 + |a|^4, under the root."""
    square = weights.square().sum(-1)
    return (square - 2 * weights.pow(3).sum(-1) + square.square()).clamp(min=0).sqrt()


def decide(results: Results) -> Verdict:
    """The rule of `texts.yaml`."""
    by_root, plain = {"divided": "by the root of d"}, {"divided": "not"}
    widest = WIDTHS[-1]
    effect = results.difference("entropy", by_root, plain, d=widest)
    variances = all(
        0.9 < end / expected < 1.1
        for d in WIDTHS
        for chosen, expected in ((by_root, 1), (plain, d))
        for interval in [results.mean("variance", **chosen, d=d)]
        for end in (interval.low, interval.high)
    )
    kept = results.mean("entropy", **by_root, d=widest).low > 0.8
    lost = results.mean("entropy", **plain, d=widest).high < 0.2
    what = f"entropy of the weights as a share of the uniform one at d = {widest}, divided minus not"
    if not (variances and kept and lost):
        return Verdict("does not hold here", effect, what)
    if all(results.difference("entropy", by_root, plain, d=d).high < 0.2 for d in WIDTHS if d <= 16):
        return Verdict("holds only", effect, what, "when d is at least 64")
    return Verdict("holds", effect, what)


EXPERIMENT = Experiment(
    grid=cells(divided=("by the root of d", "not"), d=WIDTHS),
    measure=measure,
    decide=decide,
    plots=(
        Plot("entropy", "entropy as a share of uniform", "d", "divided"),
        Plot("largest", "largest weight", "d", "divided"),
        Plot("flat", "rows with a Jacobian below 0.01", "d", "divided"),
    ),
)
