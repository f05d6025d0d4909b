"""The runs requested by `--models a,b:field=value`: one configuration per model, seed and size of the training set."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from heed.config import RunConfig, apply_overrides
from heed.errors import ConfigError
from heed.tasks import check_config, with_paths

_COMMON = ("training.minutes", "training.steps", "training.seed", "training.device", "training.train_size")
_COMMON_SECTIONS = ("task", "data", "tokenizer", "evaluation")


@dataclass(frozen=True)
class Planned:
    """One run of a comparison."""

    label: str  # label in tables: the model as requested, "luong:score=dot", or a name given to it
    name: str  # name of its folder: "luong_score=dot-n1000-seed1"
    config: RunConfig  # what to train

    @property
    def train_size(self) -> int | None:
        """Number of training examples; None for all."""
        return self.config.training.train_size


def plan_runs(base: RunConfig, models: Sequence[str], seeds: int, sizes: Sequence[int | None] = ()) -> list[Planned]:
    """Plan every model with every seed and size; seeds are the outer loop, so that a part is a complete comparison.

    Args:
        base: The common settings: data, tokenizer, budget; of its model section only the size is used.
        models: Each `name`, or `name@RUN` to start from the weights of a run, or `@RUN` for that run's model; then
            `:field=value:field=value`. A plain field is the model's; `section.field` may be any field that need not be
            the same for all, such as `training.learning_rate`. `LABEL=` before it names the row.
        seeds: Number of seeds, starting from the configuration's.
        sizes: Numbers of training examples, None for all (`training.train_size`); by default the configuration's.

    Raises:
        ConfigError: A model is named twice, or a field is invalid.
    """
    if sizes and base.training.train_size is not None:
        raise ConfigError(
            f"--train-size and training.train_size={base.training.train_size} both set the number of training "
            "examples; give only one"
        )
    sizes = sizes or [base.training.train_size]
    if not models:
        raise ConfigError("name the models to compare, for example: --models bahdanau,bahdanau:cell=lstm")
    labels = [_label(model)[0] for model in models]
    if len(set(labels)) < len(labels):
        twice = next(label for label in labels if labels.count(label) > 1)
        raise ConfigError(f"--models names '{twice}' twice")
    if len(models) * len(sizes) < 2:
        raise ConfigError(f"--models names only '{models[0]}'; a comparison takes two or more, or several --train-size")
    planned: dict[str, Planned] = {}
    for seed in range(base.training.seed, base.training.seed + seeds):
        for size in sizes:
            for label, model in map(_label, models):
                config = _configured(base, model)
                training = config.training.model_copy(update={"seed": seed, "train_size": size})
                part = "" if size is None else f"-n{size}"
                name = re.sub(r"[^\w.=+-]", "_", label) + f"{part}-seed{seed}"
                if name in planned:
                    raise ConfigError(
                        f"--models: '{planned[name].label}' and '{label}' would share the folder '{name}'; rename one "
                        "so that they differ in letters or digits"
                    )
                planned[name] = Planned(label, name, config.model_copy(update={"training": training}))
    return list(planned.values())


def read_sizes(given: str | int | Sequence[str | int | None]) -> list[int | None]:
    """Parse the sizes `100,1000,all` or [100, 1000, "all"]; in rising order, with None (last) for all.

    Raises:
        ConfigError: A size is not a positive whole number, or is given twice.
    """
    words = given.split(",") if isinstance(given, str) else [given] if isinstance(given, int) else given
    sizes: list[int | None] = []
    for word in words:
        text = "all" if word is None else str(word).strip()
        if text != "all" and not (text.isdecimal() and int(text) > 0):
            raise ConfigError(
                f"--train-size: '{text}' is not a number of training examples; give whole numbers, and all for the "
                "whole set, such as 100,1000,all"
            )
        size = None if text == "all" else int(text)
        if size in sizes:
            raise ConfigError(f"--train-size names {text} twice")
        sizes.append(size)
    return sorted(sizes, key=lambda size: (size is None, size))


def split_models(text: str) -> list[str]:
    """Split `a,b:field=[1,2],c` into models; a comma inside brackets does not separate them."""
    return [model.strip() for model in re.split(r",(?![^\[]*\])", text) if model.strip()]


def _label(model: str) -> tuple[str, str]:
    """The label of a model in tables, and the model: `vectors=rnn:word_vectors=FILE` gives "vectors" and the rest."""
    found = re.match(r"([^:@=]+)=(.*)", model, re.DOTALL)
    return (model, model) if found is None else (found[1].strip(), found[2].strip())


def _configured(base: RunConfig, model: str) -> RunConfig:
    """The common settings with one model. Fields that the user has not set stay unset, as for `heed train`."""
    start, *fields = model.split(":")
    name, at, parent = start.partition("@")
    section: dict[str, Any] = {**({"name": name} if name else {}), **({"from": parent} if at else {})}
    if not section:
        raise ConfigError(f"--models: '{model}' names no model; write NAME, NAME@RUN or @RUN before the fields")
    if "size" in base.model.model_fields_set:
        section["size"] = base.model.size
    overrides = []
    for field in fields:
        key, equals, _ = field.partition("=")
        if not equals:
            raise ConfigError(f"--models: '{field}' in '{model}' is not field=value")
        over = key.split(".")[0]
        if key in _COMMON or ("." in key and over in _COMMON_SECTIONS):
            raise ConfigError(
                f"--models: '{key}' in '{model}' must be the same for all models; give it outside --models"
            )
        overrides.append(field if "." in key else f"model.{field}")
    values = base.model_dump(mode="json", by_alias=True, exclude_unset=True)
    values["model"] = section
    values = with_paths(apply_overrides(values, overrides), Path.cwd())
    if (parent := values["model"].get("from")) is not None:
        if parent in ("", "last"):  # the last run changes while the comparison trains
            raise ConfigError(f"--models: name the folder of the run that '{model}' starts from")
        values["model"]["from"] = str(Path(parent).absolute())
    return check_config(values, f"--models {model}")
