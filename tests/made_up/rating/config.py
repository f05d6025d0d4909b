"""The configuration of rating."""

from __future__ import annotations

from typing import Literal

from heed.config import ModelSection, OwnData, RunConfig, Section
from heed.config.sections import DataPath, EvaluationConfig


class RatingData(OwnData):
    """Texts with a number before each, `4.5 TAB text`."""

    scale: DataPath | None = None
    """File of the smallest and the largest rating; predictions stay between them."""


class RatingModel(ModelSection):
    """Which model."""

    name: str = "rnn"
    """File in `heed/models`."""


class RatingHead(Section):
    """From the states of tokens to a number; these fields stand in `model` beside the body's own."""

    pooling: Literal["mean", "max"] = "mean"
    """The vector that is rated: the mean or the maximum of the states."""


class RatingEvaluation(EvaluationConfig):
    """How a rating is scored."""

    select_by: Literal["auto", "loss"] = "auto"
    """Validation score that chooses the best checkpoint: auto is the loss."""


class RatingConfig(RunConfig):
    """Everything that decides a run of rating."""

    task: Literal["rating"] = "rating"
    """What is learned."""
    data: RatingData
    """Where the examples come from."""
    model: RatingModel = RatingModel()
    """Which model."""
    evaluation: RatingEvaluation = RatingEvaluation()
    """How it is scored."""
