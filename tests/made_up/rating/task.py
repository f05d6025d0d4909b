"""Rating: a body over characters, pooling and one output; the loss is the squared error."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
from heed.tasks.rating.config import RatingConfig, RatingHead
from heed.tasks.rating.kind import Rated, rating_reader
from torch import Tensor, nn

from heed.data.batch import Batch, pad_rows
from heed.data.corpus import Rows
from heed.data.splits import Splits, open_splits
from heed.layers import max_pooling, mean_pooling
from heed.tasks.base.text_task import TextTask


@dataclass(frozen=True)
class RatingBatch(Batch):
    """A batch of texts as characters, with their ratings."""

    indices: list[int]
    tokens: Tensor  # `(batch, length)`
    mask: Tensor  # `(batch, length)`, True on real tokens
    ratings: Tensor  # `(batch,)`

    @property
    def num_targets(self) -> int:
        return len(self.indices)


class Rater(nn.Module):
    """A body, pooling and one output, limited to the scale."""

    def __init__(self, body: Any, pooling: str, ends: tuple[float, float] | None) -> None:
        super().__init__()
        self.body = body
        self.pool = {"mean": mean_pooling, "max": max_pooling}[pooling]
        self.output = nn.Linear(body.d_output, 1)
        self.ends = ends

    def forward(self, tokens: Tensor, mask: Tensor) -> Tensor:
        rated = self.output(self.pool(self.body(tokens, mask), mask))[:, 0]
        return rated if self.ends is None or self.training else rated.clamp(*self.ends)


class Rating(TextTask[RatingConfig, Rated, tuple[list[int], float], RatingBatch]):
    """The rating task. Reading, tokens, batches, devices, processes, transfer and overviews are those of `TextTask`."""

    head_class = RatingHead
    selected_by = "loss"

    @classmethod
    def usual_tokens(cls, texts: Sequence[str]) -> str:
        return "char"

    @classmethod
    def open_splits(cls, config: RatingConfig, given: Mapping[str, Sequence[Rated]] | None = None) -> Splits[Rated]:
        return open_splits(config.data, rating_reader(config.data), given)

    row_kinds = ("<i4", "<f8")

    def rows_of(self, examples: Sequence[Rated]) -> list[Rows]:
        return [[*row, [one.rating]] for row, one in zip(super().rows_of(examples), examples, strict=True)]

    def made_of(self, rows: Sequence[Any]) -> list[tuple[list[int], float]]:
        return [(tokens, rating) for tokens, (rating,) in rows]

    def tokens_of(self, encoded: tuple[list[int], float]) -> list[int]:
        return encoded[0]

    def collate_encoded(self, encoded: Sequence[tuple[list[int], float]], indices: list[int]) -> RatingBatch:
        tokens, mask = pad_rows([encoded[i][0] for i in indices])
        return RatingBatch(indices, tokens, mask, torch.tensor([encoded[i][1] for i in indices]))

    def build_model(self) -> Rater:
        config, head = self.model_and_head()
        scale = self.config.data.scale
        ends = None if scale is None else tuple(map(float, Path(scale).read_text().split()))
        return Rater(self.build_body(config), head.pooling, ends)

    def loss(self, model: Rater, batch: RatingBatch, label_smoothing: float) -> Tensor:
        return (model(batch.tokens, batch.mask) - batch.ratings).square().sum()
