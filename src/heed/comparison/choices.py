"""What `--models a,b:field=value` asks for: one configuration per model and seed, alike in everything else."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass

from heed.config import RunConfig, apply_overrides
from heed.errors import ConfigError
from heed.tasks import check_config

_COMMON = ("training.minutes", "training.steps", "training.seed", "training.device")
_COMMON_SECTIONS = ("task", "data", "tokenizer", "evaluation")


@dataclass(frozen=True)
class Planned:
    """One run of a comparison."""

    label: str  # the model as it was asked for: "luong:score=dot"
    name: str  # of its folder: "luong_score=dot-seed1"
    config: RunConfig  # what to train


def plan_runs(base: RunConfig, models: Sequence[str], seeds: int) -> list[Planned]:
    """Every model under every seed, the seeds outermost: whatever time allows is then a whole comparison.

    Args:
        base: What all have in common: data, tokenizer, budget; its model section only gives the size.
        models: Each `name`, or `name:field=value:field=value`. A plain field is the model's; `section.field` may
            be any that does not decide what is compared on, as `training.learning_rate`.
        seeds: How many, from the configuration's own on.

    Raises:
        ConfigError: A model is named twice, or a field cannot be.
    """
    if not models:
        raise ConfigError("name the models to compare, as: --models bahdanau,bahdanau:cell=lstm")
    if len(set(models)) < len(models):
        twice = next(model for model in models if list(models).count(model) > 1)
        raise ConfigError(f"--models names '{twice}' twice")
    if len(models) < 2:
        raise ConfigError(f"--models names only '{models[0]}'; a comparison takes two or more")
    planned = []
    for seed in range(base.training.seed, base.training.seed + seeds):
        for model in models:
            config = _configured(base, model)
            training = config.training.model_copy(update={"seed": seed})
            folder = re.sub(r"[^\w.=+-]", "_", model)
            planned.append(Planned(model, f"{folder}-seed{seed}", config.model_copy(update={"training": training})))
    names = [one.name for one in planned]
    if len(set(names)) < len(names):
        raise ConfigError("two of the --models would be kept in one folder; write them so that they differ in letters")
    return planned


def split_models(text: str) -> list[str]:
    """The models of `a,b:field=[1,2],c`: a comma inside brackets does not part them."""
    return [model.strip() for model in re.split(r",(?![^\[]*\])", text) if model.strip()]


def _configured(base: RunConfig, model: str) -> RunConfig:
    name, *fields = model.split(":")
    overrides = []
    for field in fields:
        key, equals, _ = field.partition("=")
        if not equals:
            raise ConfigError(f"--models: '{field}' in '{model}' is not field=value")
        section = key.split(".")[0]
        if key in _COMMON or ("." in key and section in _COMMON_SECTIONS):
            raise ConfigError(f"--models: '{key}' in '{model}' must be the same for all; give it once for all of them")
        overrides.append(field if "." in key else f"model.{field}")
    values = base.model_dump(mode="json", by_alias=True)
    values["model"] = {"name": name, "size": base.model.size}
    return check_config(apply_overrides(values, overrides), f"--models {model}")
