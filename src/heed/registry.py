"""Models by name: the file name is the registry.

`bahdanau` is `heed/models/bahdanau.py`; nothing outside that folder is ever loaded. A file may define several bodies,
one per interface: `rnn`, for example, is one network for translation and classification. The task picks the body that
it can use. This module is a layer above `config`, whose `check_section` checks a model's fields.
"""

from __future__ import annotations

import importlib
import inspect
import pkgutil
from collections.abc import Mapping
from functools import cache
from typing import Any, TypeVar

from pydantic import BaseModel

import heed.models
from heed.errors import ConfigError, suggest
from heed.models.base import Body, ModelConfig


def list_models() -> list[tuple[str, type[Body]]]:
    """Every body with the name of its file; a file with several bodies is listed once for each."""
    return [(name, body) for name in model_names() for body in bodies_of(name)]


def model_names() -> list[str]:
    """The names of all models, without importing them."""
    return sorted(module.name for module in pkgutil.iter_modules(heed.models.__path__) if module.name != "base")


@cache
def bodies_of(name: str) -> tuple[type[Body], ...]:
    """The bodies in one model's file, one per interface; none if there is no such model. Imports only that file."""
    if name not in model_names():
        return ()
    module = importlib.import_module(f"heed.models.{name}")
    bodies = tuple(
        value
        for value in vars(module).values()
        if isinstance(value, type)
        and issubclass(value, Body)
        and value.__module__ == module.__name__
        and not inspect.isabstract(value)
    )
    assert bodies, f"{module.__name__} defines no body"
    interfaces = [body.interface for body in bodies]
    assert len(set(interfaces)) == len(interfaces), f"{module.__name__} defines two bodies of one interface: {bodies}"
    return bodies


def body_class(name: str, interfaces: tuple[str, ...]) -> type[Body]:
    """Find the body in file `name` for a task that can use these interfaces, the preferred one first.

    Raises:
        ConfigError: There is no such model, or it has none of these interfaces; the message lists the models that fit,
            and says why a model that reads a whole text cannot be a language model.
    """
    bodies = {body.interface: body for body in bodies_of(name)}
    for interface in interfaces:
        if interface in bodies:
            return bodies[interface]
    fitting = list(dict.fromkeys(n for n, body in list_models() if body.interface in interfaces))
    if not bodies:
        raise ConfigError(f"unknown model '{name}'{suggest(name, fitting)}")
    kinds = ", ".join(interface.replace("_", " ") for interface in bodies)
    reason = ""
    if "language_model" in interfaces and "encoder" in bodies:
        reason = (
            ": it reads the whole text at once, and a model that has seen the token that it is asked to predict "
            "learns to copy it; a language model reads from left to right"
        )
    raise ConfigError(f"model '{name}' ({kinds}) does not fit this task{reason}; these do: {', '.join(fitting)}")


def model_config(body: type[Body], size: str, fields: dict[str, Any]) -> ModelConfig:
    """Build a model's configuration from a named size and the user's fields.

    Raises:
        ConfigError: A field is unknown or cannot have that value.
    """
    from heed.config import check_section

    if size not in body.config_class.sizes:
        sizes = ", ".join(body.config_class.sizes)
        raise ConfigError(f"model.size is '{size}', but {body.config_class.__name__} has only the sizes {sizes}")
    return check_section(body.config_class, {**body.config_class.sizes[size], **fields}, "model")


H = TypeVar("H", bound=BaseModel)


def model_and_head(body: type[Body], head: type[H], size: str, fields: dict[str, Any]) -> tuple[ModelConfig, H]:
    """The configurations of a model and of a task's head, from the fields of one `model` section.

    Raises:
        ConfigError: A field belongs to neither, or its value is not allowed.
    """
    from heed.config import check_section

    body_fields, heads = body.config_class.model_fields, head.model_fields
    for name in fields:
        if name == "absent_tokens":
            raise ConfigError("model.absent_tokens is no longer a field; import the checkpoint of this run again")
        if name not in body_fields and name not in heads:
            raise ConfigError(
                f"unknown field 'model.{name}' for {body.config_class.__name__}{suggest(name, [*body_fields, *heads])}"
            )
    shared = set(body_fields) & set(heads)
    assert not shared, f"{body.__name__} and {head.__name__} both have {shared}"
    config = model_config(body, size, {name: value for name, value in fields.items() if name in body_fields})
    return config, check_section(head, {name: fields[name] for name in fields if name in heads}, "model")


def learned_positions(config_class: type[BaseModel], fields: Mapping[str, Any]) -> int | None:
    """Length of the learned position table of a model with these fields; None if the model has no such table.

    Fields that are not given have their defaults.
    """
    known_fields = config_class.model_fields
    if "max_length" not in known_fields:
        return None
    kind = fields.get("positions", known_fields["positions"].default) if "positions" in known_fields else "learned"
    return int(fields.get("max_length", known_fields["max_length"].default)) if kind == "learned" else None
