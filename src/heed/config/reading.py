"""Configurations as YAML files and `section.key=value` words, with paths made absolute.

In a configuration file, paths are relative to the file; on the command line, to the current folder. The run folder
keeps absolute paths.
"""

from __future__ import annotations

from collections.abc import Callable
from copy import deepcopy
from pathlib import Path
from typing import Annotated, Any, cast, get_args, get_origin

import yaml
from pydantic import BaseModel, Discriminator, Tag

from heed.config.once import RepeatedFieldError, load_yaml
from heed.config.sections import IsPath, RunConfig
from heed.errors import ConfigError


def read_config(path: str | Path) -> dict[str, Any]:
    """Read a YAML file into plain values.

    Raises:
        ConfigError: The file is missing, is not YAML, or has no fields.
    """
    try:
        text = Path(path).read_text(encoding="utf-8")
    except FileNotFoundError:
        raise ConfigError(f"no file '{path}'") from None
    except (OSError, UnicodeDecodeError) as error:
        raise ConfigError(f"cannot read '{path}': {getattr(error, 'strerror', None) or error}") from None
    try:
        values = load_yaml(text)
    except yaml.YAMLError as error:
        mark = getattr(error, "problem_mark", None)
        where = f"'{path}'" + (f" line {mark.line + 1}" if mark is not None else "")
        problem = getattr(error, "problem", error)
        is_yaml = isinstance(error, RepeatedFieldError)
        raise ConfigError(f"{where}: {problem}" if is_yaml else f"{where} is not YAML: {problem}") from None
    if not isinstance(values, dict):
        found = {str: "text", list: "a list", type(None): "nothing"}.get(type(values), f"the value {values!r}")
        raise ConfigError(f"'{path}' contains {found}, expected fields such as 'task: translation'")
    return values


def with_paths_from(values: Any, folder: Path, annotation: Any) -> Any:
    """Make paths in values absolute, relative to a folder: a run must find its data from any current folder.

    `annotation` is the section's class, or the type of the field; values that do not fit it stay as they are.
    """

    def absolute(path: str, mark: IsPath) -> str:
        return str(folder / path) if not mark.if_folder or (folder / path).is_dir() else path

    return _map_paths(values, annotation, absolute)


def data_files(config: RunConfig) -> dict[str, str]:
    """Every data file and folder that a configuration names, with the field that names it, such as "data.train"."""
    found: dict[str, str] = {}
    for section in type(config).model_fields:
        part = getattr(config, section)
        if not isinstance(part, BaseModel):
            continue
        values, types = part.model_dump(mode="json", by_alias=True), _types(type(part))
        for name, value in values.items():

            def note(path: str, mark: IsPath, field: str = f"{section}.{name}") -> str:
                found.setdefault(path, field)
                return path

            _map_paths(value, types.get(name, Any), note)
    return found


def _map_paths(values: Any, annotation: Any, function: Callable[[str, IsPath], str]) -> Any:
    """Apply a function to the values whose type marks them as paths."""
    if get_origin(annotation) is Annotated:
        inner, *marks = get_args(annotation)
        for mark in marks:
            if isinstance(mark, IsPath) and isinstance(values, str):
                return function(values, mark)
            if isinstance(mark, Discriminator):
                tag = cast(Callable[[Any], str], mark.discriminator)(values)
                inner = next((one for one in get_args(inner) if tag in _tags(one)), Any)
        return _map_paths(values, inner, function)
    if isinstance(annotation, type) and issubclass(annotation, BaseModel) and isinstance(values, dict):
        types = _types(annotation)
        return {key: _map_paths(value, types.get(key, Any), function) for key, value in values.items()}
    if isinstance(values, list):
        (inner,) = [get_args(one)[0] for one in (annotation, *get_args(annotation)) if get_origin(one) is list] or [Any]
        return [_map_paths(one, inner, function) for one in values]
    for member in get_args(annotation):  # a union, in which at most one member has paths
        if isinstance(values, str) and get_origin(member) is list:  # one file may be given without brackets
            member = get_args(member)[0]
        if (made := _map_paths(values, member, function)) != values:
            return made
    return values


def _types(section: type[BaseModel]) -> dict[str, Any]:
    """The types of a section's fields, by their names in a file."""
    return {
        field.alias or name: Annotated[(field.annotation, None, *field.metadata, field.discriminator)]
        for name, field in section.model_fields.items()
    }


def _tags(member: Any) -> set[str]:
    return {mark.tag for mark in get_args(member) if isinstance(mark, Tag)}


def apply_overrides(values: dict[str, Any], overrides: list[str]) -> dict[str, Any]:
    """Apply `section.key=value` words from a command line; values are YAML.

    Raises:
        ConfigError: A word has no '='.
    """
    result = deepcopy(values)
    for word in overrides:
        name, equals, text = word.partition("=")
        if not equals or not name:
            raise ConfigError(f"'{word}' is neither a file nor section.key=value")
        try:
            set_field(result, name, yaml.safe_load(text))
        except yaml.YAMLError as error:
            raise ConfigError(f"'{word}': {text!r} is not YAML: {getattr(error, 'problem', error)}") from None
        except ConfigError as error:
            raise ConfigError(f"'{word}': {error}") from None
    return result


def set_field(values: dict[str, Any], name: str, value: Any) -> None:
    """Set `section.key`; a missing or empty section is created.

    Raises:
        ConfigError: `section` is not a section.
    """
    *sections, key = name.split(".")
    for section in sections:
        if values.get(section) is None:
            values[section] = {}
        values = values[section]
        if not isinstance(values, dict):
            raise ConfigError(f"'{section}' is not a section")
    values[key] = value


def write_config(config: RunConfig, path: Path) -> None:
    """Write a configuration with every default in it."""
    path.write_text(config_text(config), encoding="utf-8")


def config_text(config: RunConfig) -> str:
    """The configuration as YAML, every default written."""
    return yaml.safe_dump(config.model_dump(mode="json", by_alias=True), sort_keys=False, allow_unicode=True)
