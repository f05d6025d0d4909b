"""The numbers of a lesson. `heed.attention` computes them; this module only asks for each intermediate result."""

from __future__ import annotations

import re
from dataclasses import dataclass

import torch
from torch import Tensor

from heed.attention import Dot, ScaledDot, Score, attend, causal_mask
from heed.errors import ConfigError
from heed.lessons.parts import find
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


def compute(query: Tensor, key: Tensor, value: Tensor, mask: Tensor | None, score: Score) -> Numbers:
    """Attention with every intermediate result: scores before and after the scale of `score`, the rest by `attend`."""
    context, weights = attend(query, key, value, mask, score)
    scaled = score.scores(score.project(query), score.prepare(key))
    return Numbers(query, key, value, Dot().scores(query, key), scaled, weights, context, mask)


def divisor(score: Score) -> float:
    """The divisor of a score's products."""
    assert score.scale is not None
    return 1.0 / score.scale


class Bench:
    """The common basis of all stages: a file, its projected rows, and attention over all of them.

    Attributes:
        where: Name of the file in messages.
        tokens: One per row.
        x: The rows in float64, `(rows, d_model)`.
        learned: Attention over all rows: `q = x W_Q`, or `q = x` without weights.
        unlearned: Attention with q = k = v = x and no scale.
        chosen: The row for stages of one row; by default the first with a query other than zero and several keys.
        asked: True if the user chose that row.
        rule: Text of the divisor of the scores: "sqrt(d_k)"; empty for none.

    Raises:
        ConfigError: There is no such row, or the numbers overflow.
    """

    def __init__(self, file: LessonFile, where: str, row: int | str | None) -> None:
        self.file, self.where, self.tokens, self.asked = file, where, tuple(file.tokens), row is not None
        self.x = x = torch.tensor(file.input, dtype=torch.float64)
        weights = (file.w_query, file.w_key, file.w_value)
        self._projected = tuple(x if w is None else x @ torch.tensor(w, dtype=torch.float64) for w in weights)
        self._mask = None if file.mask is None else torch.tensor(file.mask)
        if file.causal:
            earlier = causal_mask(len(x), len(x))
            self._mask = earlier if self._mask is None else self._mask & earlier
        self.score = self.named_score(file.scale)
        self.learned, self.unlearned = self.under(self.score), compute(x, x, x, self._mask, Dot())
        self.chosen = self._telling_row() if row is None else find(row, self.tokens, f"{where}: --row")
        for numbers in (self.unlearned, self.learned):
            if not bool(numbers.scores.isfinite().all() & numbers.context.isfinite().all()):
                raise ConfigError(f"{where}: a score or context overflows; make the input or the weights smaller")
        self.rule = _RULES.get(file.scale, file.scale) if isinstance(file.scale, str) else f"{file.scale:g}"

    def _telling_row(self) -> int:
        """The first row whose query is not zero and that may attend to several keys."""
        telling = self._projected[0].any(dim=-1)
        if self._mask is not None:
            telling = telling & (self._mask.sum(dim=-1) > 1)
        return int(telling.double().argmax())

    def under(self, score: Score) -> Numbers:
        """Attention over all rows with another score."""
        query, key, value = self._projected
        return compute(query, key, value, self._mask, score)

    def part(self, rows: list[int], keys: list[int]) -> Numbers:
        """The same attention, restricted to some queries and keys."""
        query, key, value = self._projected
        mask = None if self._mask is None else self._mask[rows][:, keys]
        return compute(query[rows], key[keys], value[keys], mask, self.score)

    def named_score(self, scale: str | float) -> Score:
        """The score with any scale that a file may name, for these rows."""
        if scale == "none":
            return Dot()
        if isinstance(scale, str):
            d_query, d_model = self._projected[0].shape[-1], self.x.shape[-1]
            widths = {"query_width": d_query, "model_width": d_model, "rows": len(self.tokens)}
            root = re.fullmatch(r"sqrt\((\d+)\)", scale)
            return ScaledDot(int(root[1]) if root else widths[scale])
        divided = Dot()
        divided.scale = 1.0 / scale  # a divisor that is no root of a width
        return divided

    @property
    def scale(self) -> str:
        """The rule with its value: "sqrt(d_k) = 1.732"."""
        number = not isinstance(self.file.scale, str)
        return self.rule if number or not self.rule else f"{self.rule} = {divisor(self.score):.3f}"

    def over(self, product: str) -> str:
        """A product as in an equation, divided by the scale if there is one."""
        return f"{product} / {self.rule}" if self.rule else product
