"""A short configuration as YAML: only the fields that differ from their defaults."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any, Literal, get_args, get_origin

import yaml
from pydantic import BaseModel

from heed.config.sections import ModelSection, RunConfig


class _Dumper(yaml.SafeDumper):
    """Writes lists of plain values on one line."""


def _list(dumper: yaml.SafeDumper, values: list[Any]) -> yaml.Node:
    plain = not any(isinstance(value, dict | list) for value in values)
    return dumper.represent_sequence("tag:yaml.org,2002:seq", values, flow_style=plain)


_Dumper.add_representer(list, _list)


def short_config_text(config: RunConfig, model_defaults: Mapping[str, Any] | None = None) -> str:
    """The task and every field that differs from its default, as YAML that gives the same configuration.

    Args:
        config: The configuration.
        model_defaults: Default fields of the model and of the head for the model's name and size; fields of the `model`
            section with these values are left out.
    """
    values = {"task": config.task, **_differing(config, model_defaults or {})}
    return yaml.dump(values, Dumper=_Dumper, sort_keys=False, allow_unicode=True, width=120)


def _differing(section: BaseModel, model_defaults: Mapping[str, Any]) -> dict[str, Any]:
    written = section.model_dump(mode="json", by_alias=True)
    found: dict[str, Any] = {}
    for name, field in type(section).model_fields.items():
        key, value = field.alias or name, getattr(section, name)
        default = ... if field.is_required() else field.get_default(call_default_factory=True)
        if isinstance(value, BaseModel):
            fields = _differing(value, model_defaults)
            if fields or value != default:
                found[key] = fields
        elif isinstance(value, list) and value and all(isinstance(one, BaseModel) for one in value):
            found[key] = [_differing(one, model_defaults) for one in value]
        elif value != default or _is_tag(field.annotation):
            found[key] = written[key]
    if isinstance(section, ModelSection):
        for key in section.model_extra or {}:
            if key not in model_defaults or json.loads(json.dumps(model_defaults[key])) != written[key]:
                found[key] = written[key]
    return found


def _is_tag(annotation: Any) -> bool:
    """True for a field with one possible value, which identifies the section: `name: dates`."""
    values = get_args(annotation) if get_origin(annotation) is Literal else ()
    return len(values) == 1 and isinstance(values[0], str)
