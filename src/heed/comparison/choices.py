"""What `--models a,b:field=value` asks for: one configuration per model, seed and size of the training set."""

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

    label: str  # what the tables call it: the model as it was asked for, "luong:score=dot", or a name given to it
    name: str  # of its folder: "luong_score=dot-n1000-seed1"
    config: RunConfig  # what to train

    @property
    def train_size(self) -> int | None:
        """On how many training examples; None for all."""
        return self.config.training.train_size


def plan_runs(base: RunConfig, models: Sequence[str], seeds: int, sizes: Sequence[int | None] = ()) -> list[Planned]:
    """Every model under every seed and size, the seeds outermost: whatever time allows is then a whole comparison.

    Args:
        base: What all have in common: data, tokenizer, budget; its model section only gives the size.
        models: Each `name`, or `name@RUN` to start from the weights of a run, or `@RUN` for that run's model; then
            `:field=value:field=value`. A plain field is the model's; `section.field` may be any that does not decide
            what is compared on, as `training.learning_rate`. `LABEL=` before it names the row.
        seeds: How many, from the configuration's own on.
        sizes: Numbers of training examples, None for all (`training.train_size`); by default the configuration's.

    Raises:
        ConfigError: A model is named twice, or a field cannot be.
    """
    if sizes and base.training.train_size is not None:
        raise ConfigError(
            f"--train-size is given, and training.train_size is {base.training.train_size}; leave one of the two out"
        )
    sizes = sizes or [base.training.train_size]
    if not models:
        raise ConfigError("name the models to compare, as: --models bahdanau,bahdanau:cell=lstm")
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
                        f"--models: '{planned[name].label}' and '{label}' would share the folder '{name}'; write them "
                        "so that they differ in letters or digits"
                    )
                planned[name] = Planned(label, name, config.model_copy(update={"training": training}))
    return list(planned.values())


def read_sizes(given: str | int | Sequence[str | int | None]) -> list[int | None]:
    """The sizes of `100,1000,all` or of [100, 1000, "all"], rising; None, which is last, stands for all.

    Raises:
        ConfigError: One is no positive whole number, or stands there twice.
    """
    words = given.split(",") if isinstance(given, str) else [given] if isinstance(given, int) else given
    sizes: list[int | None] = []
    for word in words:
        text = "all" if word is None else str(word).strip()
        if text != "all" and not (text.isdecimal() and int(text) > 0):
            raise ConfigError(
                f"--train-size: '{text}' is no number of training examples; give whole numbers and perhaps all, as: "
                "100,1000,all"
            )
        size = None if text == "all" else int(text)
        if size in sizes:
            raise ConfigError(f"--train-size names {text} twice")
        sizes.append(size)
    return sorted(sizes, key=lambda size: (size is None, size))


def split_models(text: str) -> list[str]:
    """The models of `a,b:field=[1,2],c`: a comma inside brackets does not part them."""
    return [model.strip() for model in re.split(r",(?![^\[]*\])", text) if model.strip()]


def _label(model: str) -> tuple[str, str]:
    """What the tables call a model, and the model: of `vectors=rnn:word_vectors=FILE` "vectors" and the rest."""
    found = re.match(r"([^:@=]+)=(.*)", model, re.DOTALL)
    return (model, model) if found is None else (found[1].strip(), found[2].strip())


def _configured(base: RunConfig, model: str) -> RunConfig:
    """The common settings with one model. What the user left open stays open, as for `heed train`."""
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
            raise ConfigError(f"--models: '{key}' in '{model}' must be the same for all; give it once for all of them")
        overrides.append(field if "." in key else f"model.{field}")
    values = base.model_dump(mode="json", by_alias=True, exclude_unset=True)
    values["model"] = section
    values = with_paths(apply_overrides(values, overrides), Path.cwd())
    if (parent := values["model"].get("from")) is not None:
        if parent in ("", "last"):  # which run is the last one changes while the comparison trains
            raise ConfigError(f"--models: name the folder of the run that '{model}' starts from")
        values["model"]["from"] = str(Path(parent).absolute())
    return check_config(values, f"--models {model}")
