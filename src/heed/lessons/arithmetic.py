"""The numbers of a lesson: `heed.attention` computes them, and this module keeps every intermediate result."""

from __future__ import annotations

import math
import re
from dataclasses import dataclass

import torch
from torch import Tensor

from heed.attention import Dot, attend, causal_mask
from heed.errors import ConfigError
from heed.lessons.parts import double, find
from heed.lessons.schema import LessonFile

_RULES = {"query_width": "sqrt(d_k)", "model_width": "sqrt(d_model)", "rows": "sqrt(rows)", "none": ""}


@dataclass(frozen=True)
class Numbers:
    """Every intermediate result of one attention; `mask` is True where a query may attend, or None."""

    query: Tensor  # (query, d)
    key: Tensor  # (key, d)
    value: Tensor  # (key, d_value)
    scores: Tensor  # (query, key), products q k'
    scaled: Tensor  # (query, key), scores divided by the scale
    weights: Tensor  # (query, key), their softmax
    context: Tensor  # (query, d_value)
    mask: Tensor | None  # (query, key)

    def as_dict(self) -> dict[str, Tensor]:
        """The results by name, without the mask."""
        return {name: value for name, value in vars(self).items() if name != "mask"}

    def under(self, divisor: float) -> Numbers:
        """The same attention with scores divided by another number."""
        return compute(self.query, self.key, self.value, self.mask, divisor)


def compute(query: Tensor, key: Tensor, value: Tensor, mask: Tensor | None, divisor: float = 1.0) -> Numbers:
    """Attention with every intermediate result: the scores before and after division, the rest by `attend`."""
    score = Dot()
    score.scale = 1.0 / divisor
    context, weights = attend(query, key, value, mask, score)
    return Numbers(query, key, value, Dot().scores(query, key), score.scores(query, key), weights, context, mask)


class Bench:
    """The common basis of all stages: a file, its projected rows, and attention over all of them.

    Attributes:
        tokens: One per row.
        x: The rows in float64, `(rows, d_model)`.
        learned: Attention over all rows: `q = x W_Q`, or `q = x` without weights.
        unlearned: Attention with q = k = v = x and no scale.
        sizes: The numbers whose roots are in use as scales, by the names that files have for them.
        chosen: The row for stages of one row; by default the first with a query other than zero and several keys.
        asked: True if the user chose that row.
        rule: Text of the divisor of the scores: "sqrt(d_k)"; empty for none.

    Raises:
        ConfigError: There is no such row, or the numbers overflow.
    """

    def __init__(self, file: LessonFile, row: int | str | None) -> None:
        self.file, self.tokens, self.asked = file, tuple(file.tokens), row is not None
        self.x = x = double(file.input)
        mask = None if file.mask is None else torch.tensor(file.mask)
        if file.causal:
            earlier = causal_mask(len(x), len(x))
            mask = earlier if mask is None else mask & earlier
        query, key, value = (x if w is None else x @ double(w) for w in (file.w_query, file.w_key, file.w_value))
        self.sizes = {"query_width": query.shape[-1], "model_width": x.shape[-1], "rows": len(x)}
        self.learned = compute(query, key, value, mask, self.divisor(file.scale))
        self.unlearned = compute(x, x, x, mask)
        for numbers in (self.unlearned, self.learned):
            if not bool(numbers.scores.isfinite().all() & numbers.context.isfinite().all()):
                raise ConfigError("a score or context overflows; make the input or the weights smaller")
        telling = query.any(dim=-1) if mask is None else query.any(dim=-1) & (mask.sum(dim=-1) > 1)
        self.chosen = int(telling.double().argmax()) if row is None else find(row, self.tokens, "--row")
        self.rule = _RULES.get(file.scale, file.scale) if isinstance(file.scale, str) else f"{file.scale:g}"

    def part(self, rows: list[int], keys: list[int]) -> Numbers:
        """The same attention, restricted to some queries and keys."""
        every = self.learned
        mask = None if every.mask is None else every.mask[rows][:, keys]
        return compute(every.query[rows], every.key[keys], every.value[keys], mask, self.divisor(self.file.scale))

    def divisor(self, scale: str | float) -> float:
        """The divisor that a scale of a file names."""
        if not isinstance(scale, str):
            return scale
        if scale == "none":
            return 1.0
        root = re.fullmatch(r"sqrt\((\d+)\)", scale)
        return math.sqrt(int(root[1]) if root else self.sizes[scale])

    @property
    def scale(self) -> str:
        """The rule with its value: "sqrt(d_k) = 1.732"."""
        named = isinstance(self.file.scale, str) and self.rule
        return f"{self.rule} = {self.divisor(self.file.scale):.3f}" if named else self.rule

    def over(self, product: str) -> str:
        """A product as in an equation, divided by the scale if there is one."""
        return f"{product} / {self.rule}" if self.rule else product
