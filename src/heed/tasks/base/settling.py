"""The `model` section of a task, settled: every field of the model and of the head decided and written out.

A model with a table of positions reads and writes no more tokens than the table has: training texts that do not fit
`model.max_length` are left out, and training begins only if all held-out texts fit.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any, TypeVar

from pydantic import BaseModel

from heed.config import RunConfig, check_section, config_text, short_config_text
from heed.errors import ConfigError, suggest
from heed.models.base import Body, Interface, ModelConfig
from heed.registry import body_class, model_config


def check_positions(positions: int | None, needed: Mapping[str, int], written: int | None) -> None:
    """Refuse a table of positions that is too short, before anything is trained.

    Args:
        positions: Positions in the table; None for a model without one.
        needed: Positions that the longest text of each split needs.
        written: `generation.max_length`, if the user gave it.

    Raises:
        ConfigError: The message names the split and the number that it needs.
    """
    if positions is None or not needed:
        return
    table = f"model.max_length is {positions}, the number of learned positions, but"
    most, split = max((most, split) for split, most in needed.items())
    if most > positions:
        raise ConfigError(
            f"{table} a text of {split} needs {most}; set model.max_length={most}, or model.positions=sinusoidal"
        )
    if written is not None and written > positions:
        raise ConfigError(
            f"generation.max_length is {written}, but the model has {positions} learned positions (model.max_length); "
            f"set generation.max_length={positions} or less, or a larger model.max_length"
        )


C = TypeVar("C", bound=RunConfig)
H = TypeVar("H", bound=BaseModel)
_SOME = 1_000
"""Placeholder for a size that follows from the data."""


class NoHead(BaseModel):
    """A head without fields."""


def model_and_head(body: type[Body], head: type[H], size: str, fields: dict[str, Any]) -> tuple[ModelConfig, H]:
    """Split the fields of a `model` section into the model's own and the head's.

    Raises:
        ConfigError: A field belongs to neither, or its value is not allowed.
    """
    own, heads = body.config_class.model_fields, head.model_fields
    for name in fields:
        if name not in own and name not in heads:
            raise ConfigError(
                f"unknown field 'model.{name}' for {body.config_class.__name__}{suggest(name, [*own, *heads])}"
            )
    shared = set(own) & set(heads)
    assert not shared, f"{body.__name__} and {head.__name__} both have {shared}"
    config = model_config(body, size, {name: value for name, value in fields.items() if name in own})
    return config, check_section(head, {name: fields[name] for name in fields if name in heads}, "model")


def check_model_section(
    config: RunConfig, interfaces: tuple[Interface, ...], head: type[BaseModel], from_data: Iterable[str]
) -> None:
    """Refuse an unknown name, size or field of the `model` section before any data is read.

    Fields that follow from the data (`from_data`) may be missing; those that the model lacks are ignored.

    Raises:
        ConfigError: The message names the field.
    """
    section = config.model
    body = body_class(section.name, interfaces)
    size = next(iter(body.config_class.sizes)) if section.size == "auto" else section.size
    known = body.config_class.model_fields.keys() | head.model_fields.keys()
    fields = {**dict.fromkeys((name for name in from_data if name in known), _SOME), **(section.model_extra or {})}
    model_and_head(body, head, size, fields)


def from_data(fields: dict[str, Any], name: str, value: int, unit: str) -> None:
    """Set a field of the model that follows from the data.

    Raises:
        ConfigError: The user gave another value.
    """
    given = fields.setdefault(name, value)
    if given != value:
        raise ConfigError(f"model.{name} is {given}, but the data has {value} {unit}; leave the field out")


def with_model(config: C, size: str, model: ModelConfig, head: dict[str, Any], selected_by: str) -> C:
    """The configuration with its `model` section written out, and `select_by` "auto" replaced by a score."""
    values = {**config.model.model_dump(by_alias=True), "size": size, **model.model_dump(), **head}
    update: dict[str, Any] = {"model": type(config.model).model_validate(values)}
    if config.evaluation.select_by == "auto":
        update["evaluation"] = config.evaluation.model_copy(update={"select_by": selected_by})
    return config.model_copy(update=update)


def settings_text(task: Any, whole: bool = False) -> str:
    """The settled settings of a run as YAML: those that differ from the defaults, or all of them."""
    if whole:
        return config_text(task.config)
    told = "# Settings that differ from the defaults; --verbose prints all of them.\n"
    return told + short_config_text(task.config, task.model_defaults)
