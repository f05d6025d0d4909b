"""The numbers of a lesson. Attention itself is `heed.attention`: here its parts are only asked for one by one."""

from __future__ import annotations

import re
from dataclasses import dataclass, replace

import torch
from torch import Tensor

from heed.attention import Dot, ScaledDot, Score, attend, causal_mask
from heed.lessons.schema import LessonFile


@dataclass(frozen=True)
class Inputs:
    """Inputs of attention in float64: x `(rows, d_model)`, query and key `(rows, d)`, value `(rows, d_value)`.

    `mask` is `(rows, rows)`, True = may attend, or None.
    """

    x: Tensor
    query: Tensor
    key: Tensor
    value: Tensor
    mask: Tensor | None

    def unlearned(self) -> Inputs:
        """The same rows with q = k = v = x."""
        return replace(self, query=self.x, key=self.x, value=self.x)

    def part(self, rows: list[int], keys: list[int]) -> Inputs:
        """Some queries and some keys."""
        mask = None if self.mask is None else self.mask[rows][:, keys]
        return replace(self, query=self.query[rows], key=self.key[keys], value=self.value[keys], mask=mask)


@dataclass(frozen=True)
class Numbers:
    """Every intermediate result of one attention; `mask` is `(query, key)`, True = may attend, or None.

    Attributes:
        query: `(query, d)`.
        key: `(key, d)`.
        value: `(key, d_value)`.
        scores: Products `q k'`, `(query, key)`.
        scaled: Scores divided by the scale, `(query, key)`.
        weights: Their softmax, `(query, key)`.
        context: `(query, d_value)`.
    """

    query: Tensor
    key: Tensor
    value: Tensor
    scores: Tensor
    scaled: Tensor
    weights: Tensor
    context: Tensor
    mask: Tensor | None

    def as_dict(self) -> dict[str, Tensor]:
        """The results by name, without the mask."""
        return {name: value for name, value in vars(self).items() if name != "mask"}


def score_for(scale: str | float, *, d_model: int, d_query: int, rows: int) -> Score:
    """The score that a file's `scale` names."""
    widths = {"query_width": d_query, "model_width": d_model, "rows": rows}
    if scale == "none":
        return Dot()
    if isinstance(scale, str):
        root = re.fullmatch(r"sqrt\((\d+)\)", scale)
        return ScaledDot(int(root[1]) if root else widths[scale])
    divided = Dot()
    divided.scale = 1.0 / scale  # a divisor that is no root of a width
    return divided


def divisor(score: Score) -> float:
    """What a score divides its products by."""
    assert score.scale is not None
    return 1.0 / score.scale


def inputs(file: LessonFile) -> Inputs:
    """The matrices of a file, projected: `q = x W_Q`, or `q = x` where there are no weights."""
    x = torch.tensor(file.input, dtype=torch.float64)
    weights = (file.w_query, file.w_key, file.w_value)
    query, key, value = (x if w is None else x @ torch.tensor(w, dtype=torch.float64) for w in weights)
    mask = None if file.mask is None else torch.tensor(file.mask)
    if file.causal:
        earlier = causal_mask(len(x), len(x))
        mask = earlier if mask is None else mask & earlier
    return Inputs(x, query, key, value, mask)


def compute(given: Inputs, score: Score) -> Numbers:
    """Attention with every intermediate result: scores by `score` before and after its scale, the rest by `attend`."""
    query, key, value = given.query, given.key, given.value
    context, weights = attend(query, key, value, given.mask, score)
    scores = Dot().scores(query, key)
    scaled = score.scores(score.project(query), score.prepare(key))
    return Numbers(query, key, value, scores, scaled, weights, context, given.mask)
