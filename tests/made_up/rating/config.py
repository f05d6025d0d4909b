"""The configuration of rating: only what differs from every task over texts. Without torch."""

from __future__ import annotations

from typing import Literal

from heed.config import OwnData, Section
from heed.config.sections import DataPath, EvaluationConfig, TextConfig


class RatingColumns(Section):
    """Columns of text and rating: a number from 0 or a name; by default recognised."""

    text: int | str | None = None
    rating: int | str | None = None


class RatingData(OwnData):
    """Texts and their ratings (`heed.tasks.rating.kind`)."""

    columns: RatingColumns = RatingColumns()
    """Columns of text and rating."""
    scale: DataPath | None = None
    """File with the smallest and the largest rating, the limits of predictions."""


class RatingHead(Section):
    """Head that maps the states of tokens to a number; its fields are in `model`, with the body's own."""

    pooling: Literal["mean", "max"] = "mean"
    """Pooling of the states: mean or maximum."""


class RatingEvaluation(EvaluationConfig):
    """How a rating is scored."""

    select_by: Literal["auto", "loss"] = "auto"
    """Validation score that chooses the best checkpoint: auto is the loss."""


class RatingConfig(TextConfig):
    """The configuration of a run of rating."""

    task: Literal["rating"] = "rating"
    """What is learned."""
    data: RatingData
    """Where the examples come from."""
    evaluation: RatingEvaluation = RatingEvaluation()
    """How it is scored."""
