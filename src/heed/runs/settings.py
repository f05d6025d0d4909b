"""Hints for users who pass a configuration field as a keyword argument."""

from __future__ import annotations

from typing import Any

from pydantic import BaseModel

from heed.tasks import config_class, task_names


def setting_named(name: str, what: Any) -> str:
    """Hint on how to set the field `name` from Python, such as "settings={'training.clip': ...}"; "" for no field.

    `what` is the first argument of `heed.train`: a task or a configuration file.
    """
    task = what if what in task_names() else task_names()[0]
    for section, field in config_class(task).model_fields.items():
        kind = field.annotation
        if isinstance(kind, type) and issubclass(kind, BaseModel) and name in kind.model_fields:
            return f"; it is a field of the configuration: settings={{'{section}.{name}': ...}}"
    return ""
