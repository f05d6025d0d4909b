"""Heads of width 64 in a model of width 512: which divisor brings the variance of q'k back to 1?"""

from __future__ import annotations

import math

from heed.attention.scores import Dot
from heed.claims.experiment import Cell, Experiment, Plot, Results, Row, Verdict, cells
from heed.claims.scaling import numbers_of

D_K, D_MODEL = 64, 512
_DIVISORS = {"root of d_k": math.sqrt(D_K), "root of d_model": math.sqrt(D_MODEL), "none": 1.0}


def measure(cell: Cell) -> list[Row]:
    """Variance of the scores and shape of the weights with this divisor."""
    score = Dot()
    score.scale = 1 / _DIVISORS[cell["divisor"]]
    return [{"weights": f"{D_K} wide heads", **numbers_of(score, D_K, cell.seed)}]


def decide(results: Results) -> Verdict:
    """The rule of `texts.yaml`."""
    of_model, of_key = (results.mean("variance", divisor=name) for name in ("root of d_model", "root of d_k"))
    what = "variance of the scores divided by the root of d_model"
    smoother = results.difference("entropy", {"divisor": "root of d_model"}, {"divisor": "root of d_k"}).low > 0
    if 0.9 < of_model.low and of_model.high < 1.1:
        return Verdict("holds", of_model, what)
    if 0.9 < of_key.low and of_key.high < 1.1 and smoother:
        return Verdict("does not hold here", of_model, what)
    return Verdict("holds only", of_model, what, "when d_k = d_model")


EXPERIMENT = Experiment(
    grid=cells(divisor=tuple(_DIVISORS)),
    measure=measure,
    decide=decide,
    plots=(
        Plot("entropy", "entropy as a share of uniform", "divisor", "weights"),
        Plot("variance", "variance of the scores", "divisor", "weights", (1.0, "1")),
    ),
)
