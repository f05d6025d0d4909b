"""The configuration of rating: only what differs from every task over texts. Without torch."""

from __future__ import annotations

from typing import Annotated, Any, Literal

from heed.config import Section, Source, Sources
from heed.config.data import section
from heed.config.sections import DataPath, EvaluationConfig, TextConfig


class RatingData(Source):
    """Texts and their ratings (`heed.tasks.rating.kind`)."""

    columns: Any = section("text", "rating")
    """Columns of text and rating.

    - text: Column of the text: a number from 0 or a name; by default recognised.
    - rating: Column of the rating: a number from 0 or a name; by default recognised.
    """
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
    data: Annotated[RatingData, Sources(RatingData)]
    """Where the examples come from."""
    evaluation: RatingEvaluation = RatingEvaluation()
    """How it is scored."""
