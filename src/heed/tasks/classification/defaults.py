"""Defaults of a classifier when no model is named and the training budget is not a number of updates."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any

from heed.errors import ConfigError
from heed.models.base import TextEncoder, TokenEncoder
from heed.tasks.classification.config import ClassificationConfig, ClassificationHead, PlantedData
from heed.tasks.classification.model import pooling_of

if TYPE_CHECKING:
    from heed.tasks.classification.task import Classification

_POOLING_FIELDS = ("pooling", "pooling_score", "d_pooling", "pooling_hops")
LONGEST = 2
"""Length of the longest n-grams by default: single words and pairs."""
_MOST_WORK = 400_000
"""Largest number of training texts times labels for n-grams by default: fitted in a minute or two."""
_RATE = 0.001
"""Learning rate of the body with n-grams: at 0.003 it has memorised small sets after two passes."""
_OFTEN = 400
"""Largest number of batches in a pass for validations twice a pass: a twelfth of the budget would be several passes."""


def is_default(config: ClassificationConfig) -> bool:
    """True if neither a model nor a number of updates is given; never for embedded data, meant for plain models."""
    section = config.model
    named = "name" in section.model_fields_set or section.from_ is not None
    return not named and config.training.steps is None and not isinstance(config.data, PlantedData)


def longest_ngram(task: Classification, head: ClassificationHead, given: dict[str, Any]) -> int:
    """`model.ngrams` of a new run."""
    if "ngrams" in given or task.tokenizer.unit != "word" or not is_default(task.config):
        return head.ngrams
    work = len(task.splits.examples["train"]) * len(task.labels)
    return LONGEST if work <= _MOST_WORK else head.ngrams


def with_training(task: Classification, settled: ClassificationConfig) -> ClassificationConfig:
    """The settled configuration; with n-grams by default, its `training` section is adapted to them."""
    if not is_default(task.config) or not (settled.model.model_extra or {})["ngrams"]:
        return settled
    training = settled.training
    tokens = sum(text.length for text in task.encoded("train"))
    batches = tokens / training.batch_tokens
    fields: dict[str, Any] = {"learning_rate": _RATE}
    if batches <= _OFTEN:
        fields["validate_every"] = max(1, math.ceil(batches / 2))
    update = {name: value for name, value in fields.items() if name not in training.model_fields_set}
    return settled.model_copy(update={"training": training.model_copy(update=update)})


def pooling_fields(
    task: Classification, head: ClassificationHead, fields: dict[str, Any], given: dict[str, Any]
) -> dict[str, Any]:
    """The head's fields without those that do not apply to the body.

    Raises:
        ConfigError: The user gave a field that does not apply, or a pooling that the body does not support.
    """
    name, body = task.config.model.name, task.body_class
    if issubclass(body, TextEncoder):
        if meant := [field for field in _POOLING_FIELDS if field in given]:
            raise ConfigError(f"model {name} produces one vector per text, so model.{meant[0]} does not apply")
        return {field: value for field, value in fields.items() if field not in _POOLING_FIELDS}
    assert issubclass(body, TokenEncoder)
    if head.pooling == "cls" and body.framed:
        raise ConfigError(
            f"model.pooling is cls, but model {name} already reads a start token before each text; use last "
            "(its state after the pooling layer) or first (its state)"
        )
    if head.pooling == "cls" and not body.sees_all:
        raise ConfigError(
            f"model.pooling is cls, but in model {name} a token before the text cannot read the text; use model "
            "encoder, or another pooling"
        )
    return {**fields, "pooling": _settled_pooling(task, head.pooling, body.framed)}


def _settled_pooling(task: Classification, pooling: str, framed: bool) -> str:
    """The pooling with "auto" resolved: for framed bodies mean, or last if their [CLS] was trained for this."""
    if pooling != "auto" or not framed:
        return pooling_of(pooling)
    known = {} if task.parent is None else task.parent.task.config.model.model_extra or {}
    return "last" if known.get("pooling") == "last" else "mean"
