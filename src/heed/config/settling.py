"""Settling: fields that the user left open get values from the configuration and the data, each with its reason.

Every value is decided once, and `heed train --dry-run` prints why. The order:

1. The runs of `model.from` and `tokenizer.from` give their fields (`tasks.base.transfer.with_parents`).
2. The data has been read: what it says of itself (columns, kind of target, season), and settings for few examples.
3. The tokenizer has been trained: its kind and size (`sections.with_tokenizer`).
4. The device: the batch of a GPU (`with_gpu_batch`).
5. The time budget, with the measured cost of updates: size and batch (`tasks.base.sizing.with_choice`).
6. The size by the amount of data, fields of the model that follow from the data, the score to select by, and what else
   suits the task (`Task.settled`). A trial of step 5 has the same.
7. The learning rate of fine-tuning (`with_rate`).
8. Updates of a pass: the batch of a GPU for little data, and `training.epochs` as steps (`with_share_of_pass`,
   `with_steps`); a resumed run has this step only.

A field that the user gave is kept, and one that an earlier step decided too.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, TypeVar

import yaml

from heed.config.sections import RunConfig

C = TypeVar("C", bound=RunConfig)

GPU_BATCH = 32_000
"""Tokens of a batch on a GPU unless another number is given: with few, a GPU waits for the processor."""
LEAST_UPDATES = 100
"""Updates of a pass below which the default batch is not larger on a GPU than elsewhere."""
_WIDTH = 128
"""Width of a body up to which the learning rate is the whole one; that of a wider one is proportionally smaller."""


def default_batch(config: RunConfig, field: str) -> int:
    """The default of the field of `training` with the size of a batch."""
    return int(type(config.training).model_fields[field].default)


def with_gpu_batch(config: C, field: str) -> C:
    """The configuration with the default batch of a GPU, which later steps may change."""
    if field != "batch_tokens" or config.has("training.batch_tokens"):
        return config
    config = config.settle("large enough for a GPU", {"training.batch_tokens": GPU_BATCH})
    config.training.model_fields_set.discard(field)
    return config


def with_model(config: C, size: str, fields: Mapping[str, Any], whys: Mapping[str, str], selected_by: str) -> C:
    """The configuration with its `model` section written out, and `select_by` "auto" replaced by a score."""
    values = {**config.model.model_dump(by_alias=True), "size": size, **fields}
    section = type(config.model).model_validate(values)
    config = config.model_copy(update={"model": section})
    for name, why in whys.items():
        config = config.because(why, f"model.{name}")
    if config.evaluation.select_by == "auto":
        config = config.settle("usual for this task", {"evaluation.select_by": selected_by})
    return config


def with_rate(config: C, rate: float, why: str) -> C:
    """The configuration with a learning rate, unless it has one: for bodies wider than 128 proportionally less."""
    width = config.model.settings.get("d_model", _WIDTH)
    if width > _WIDTH:
        rate, why = rate * _WIDTH / width, f"{why}; {rate:g} x {_WIDTH} / model.d_model"
    return config.settle_open(why, {"training.learning_rate": float(f"{rate:.2g}")})


def with_share_of_pass(config: C, field: str, positions: int) -> C:
    """The configuration with no more than a share of a pass in the default batch of a GPU; `positions` are a pass."""
    usual, batch = default_batch(config, field), getattr(config.training, field)
    share = max(usual, min(batch, positions // LEAST_UPDATES))
    return config.settle(f"on a GPU, but at least {LEAST_UPDATES} batches in a pass", {f"training.{field}": share})


def has_open_gpu_batch(config: RunConfig, field: str) -> bool:
    """True if the batch is the default one of a GPU."""
    return not config.has(f"training.{field}") and getattr(config.training, field) > default_batch(config, field)


def with_steps(config: C, updates: int) -> C:
    """The configuration with its passes as steps; `updates` are those of a pass."""
    epochs = config.training.epochs
    assert epochs is not None
    steps = {"steps": max(1, round(epochs * updates)), "epochs": None, "minutes": None}
    training = config.training.model_copy(update=steps)
    return config.model_copy(update={"training": training}).because(
        f"{epochs:g} pass{'es' * (epochs != 1)} of {updates:,} update{'s' * (updates != 1)}", "training.steps"
    )


def reasons_text(config: RunConfig) -> str:
    """Each value that was settled and why, as lines of comments; "" if there are none."""
    lines = []
    for field, why in config.reasons.items():
        value: Any = config
        for name in field.split("."):
            value = getattr(value, name)
        shown = yaml.safe_dump(value, default_flow_style=True, width=10**6, allow_unicode=True).split("\n")[0]
        lines.append((f"{field.removesuffix('_')}={shown}", why))
    if not lines:
        return ""
    width = min(40, max(len(setting) for setting, _ in lines))
    return "\n".join(["# Settled for you:", *(f"# {setting:{width}}  {why}" for setting, why in lines)])
