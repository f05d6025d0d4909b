"""Models by name: the file name is the registry.

`bahdanau` is `heed/models/bahdanau.py`; nothing outside that folder is ever loaded.
"""

from __future__ import annotations

import importlib
import pkgutil
from typing import Any

import heed.models
from heed.errors import ConfigError, suggest
from heed.models.base import Body, ModelConfig

__all__ = ["body_class", "list_models", "model_config"]


def list_models() -> dict[str, type[Body]]:
    """Every model by name."""
    names = sorted(module.name for module in pkgutil.iter_modules(heed.models.__path__) if module.name != "base")
    return {name: _body_in(name) for name in names}


def body_class(name: str, interfaces: tuple[str, ...]) -> type[Body]:
    """Find a model that a task can use.

    Args:
        name: File in `heed/models`; never a path or a dotted name.
        interfaces: The interfaces the task can work with.

    Raises:
        ConfigError: There is no such model, or it has another interface; the message lists those that fit.
    """
    models = list_models()
    fitting = [n for n, body in models.items() if body.interface in interfaces]
    if name not in models:
        raise ConfigError(f"unknown model '{name}'{suggest(name, fitting)}")
    if name not in fitting:
        raise ConfigError(
            f"model '{name}' is a {models[name].interface.replace('_', ' ')} and does not fit this task; "
            f"these do: {', '.join(fitting)}"
        )
    return models[name]


def model_config(body: type[Body], size: str, fields: dict[str, Any]) -> ModelConfig:
    """Build a model's configuration from a named size and the user's fields.

    Raises:
        ConfigError: A field is unknown or cannot have that value.
    """
    from heed.config import check_section

    return check_section(body.config_class, {**body.config_class.sizes[size], **fields}, "model")


def _body_in(name: str) -> type[Body]:
    module = importlib.import_module(f"heed.models.{name}")
    bodies = [
        value
        for value in vars(module).values()
        if isinstance(value, type) and issubclass(value, Body) and value.__module__ == module.__name__
    ]
    assert len(bodies) == 1, f"{module.__name__} must define one body, found {bodies}"
    return bodies[0]
