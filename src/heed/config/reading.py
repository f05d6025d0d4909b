"""Configurations as YAML files and `section.key=value` words: read, checked, with paths made absolute, and written.

In a configuration file, paths are relative to the file; on the command line, to the current folder. The run folder
keeps absolute paths. A repeated field is an error (YAML 1.2, section 3.2.1.3), where PyYAML takes the last value. A
short configuration has only the fields that differ from their defaults.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from copy import deepcopy
from functools import reduce
from operator import getitem
from pathlib import Path
from typing import Annotated, Any, get_args, get_origin

import yaml
from pydantic import BaseModel

from heed.config.data import Sources
from heed.config.sections import IsPath, RunConfig
from heed.errors import ConfigError
from heed.storage.files import open_regular, plain

_LARGEST = 1 << 20
"""Largest size in bytes of a user's YAML file, which is read in seconds."""


class RepeatedFieldError(yaml.constructor.ConstructorError):
    """A mapping has a key twice."""


class _OnceLoader(yaml.SafeLoader):
    """Loads plain values, and refuses a mapping with a repeated key; a merged key (`<<`) may be overridden."""

    def construct_mapping(self, node: yaml.MappingNode, deep: bool = False) -> dict[Any, Any]:
        """A mapping as a dict.

        Raises:
            yaml.YAMLError: A key occurs twice.
        """
        seen: set[str] = set()
        for key, _ in node.value:
            if key.tag == "tag:yaml.org,2002:merge" or not isinstance(key.value, str):
                continue
            if key.value in seen:
                raise RepeatedFieldError(None, None, f"the field '{key.value}' occurs twice", key.start_mark)
            seen.add(key.value)
        return super().construct_mapping(node, deep)


def read_config(path: str | Path) -> dict[str, Any]:
    """Read a YAML file into plain values.

    Raises:
        ConfigError: The file is missing, is not YAML, or has no fields.
    """
    try:
        with open_regular(Path(path)) as file:
            content = file.read(_LARGEST + 1)
        text = content.decode("utf-8")
    except FileNotFoundError:
        raise ConfigError(f"no file '{path}'") from None
    except (OSError, UnicodeDecodeError) as error:
        raise ConfigError(f"cannot read '{path}': {getattr(error, 'strerror', None) or error}") from None
    if len(content) > _LARGEST:
        raise ConfigError(f"'{path}' has more than {_LARGEST:,} bytes, expected a file of settings")
    try:
        values = plain(text, lambda text: _OnceLoader(text).get_single_data())
    except (yaml.YAMLError, ValueError) as error:
        mark = getattr(error, "problem_mark", None)
        where = f"'{path}'" + (f" line {mark.line + 1}" if mark is not None else "")
        where += ":" if isinstance(error, RepeatedFieldError) else " is not YAML:"
        raise ConfigError(f"{where} {getattr(error, 'problem', error)}") from None
    if not isinstance(values, dict):
        kind = {str: "text", list: "a list", type(None): "nothing"}.get(type(values), f"the value {values!r}")
        raise ConfigError(f"'{path}' contains {kind}, expected fields such as 'task: translation'")
    return values


def with_paths_from(values: Any, folder: Path, annotation: Any) -> Any:
    """Make paths in values absolute, relative to a folder: a run must find its data from any current folder.

    `annotation` is the section's class, or the type of the field; values that do not fit it stay as they are.
    """
    result: Any = [deepcopy(values)]
    for (*outer, key), path, mark in _paths_in(values, annotation, (0,)):
        if not mark.if_folder or (folder / path).is_dir():
            reduce(getitem, outer, result)[key] = str(folder / path)
    return result[0]


def data_files(config: RunConfig) -> dict[str, str]:
    """Every data file and folder that a configuration names, with the field that names it, such as "data.train"."""
    files: dict[str, str] = {}
    for place, path, _ in _paths_in(config.model_dump(mode="json", by_alias=True), type(config)):
        files.setdefault(path, ".".join(map(str, place[:2])))
    return files


_Place = tuple[int | str, ...]
"""The keys and indices that lead to a value, such as ("data", "train", 0)."""


def _paths_in(values: Any, annotation: Any, place: _Place = ()) -> Iterator[tuple[_Place, str, IsPath]]:
    """The values whose type marks them as paths, with their places and marks."""
    if get_origin(annotation) is Annotated:
        inner, *marks = get_args(annotation)
        for mark in marks:
            if isinstance(mark, IsPath) and isinstance(values, str):
                yield place, values, mark
                return
            if isinstance(mark, Sources):
                inner = mark.classes.get(mark.source(values), Any)
        yield from _paths_in(values, inner, place)
    elif isinstance(annotation, type) and issubclass(annotation, BaseModel) and isinstance(values, dict):
        fields = {field.alias or name: field for name, field in annotation.model_fields.items()}
        for key in filter(fields.__contains__, values):
            annotated: Any = Annotated[(fields[key].annotation, None, *fields[key].metadata)]
            yield from _paths_in(values[key], annotated, (*place, key))
    elif isinstance(values, list):
        members = (annotation, *get_args(annotation))
        item = next((get_args(member)[0] for member in members if get_origin(member) is list), Any)
        for index, value in enumerate(values):
            yield from _paths_in(value, item, (*place, index))
    else:
        for member in get_args(annotation):  # a union, in which at most one member has paths
            is_single = isinstance(values, str) and get_origin(member) is list  # one file, given without brackets
            if paths := [*_paths_in(values, get_args(member)[0] if is_single else member, place)]:
                yield from paths
                return


def apply_overrides(values: dict[str, Any], overrides: list[str]) -> dict[str, Any]:
    """Apply `section.key=value` words from a command line; values are YAML, but `|` and `>` are characters.

    Raises:
        ConfigError: A word has no '='.
    """
    result = deepcopy(values)
    for word in overrides:
        name, equals, text = word.partition("=")
        if not equals or not name:
            raise ConfigError(f"'{word}' is neither a file nor section.key=value")
        try:
            block = text.startswith(("|", ">")) and "\n" not in text  # in YAML the head of a text that follows
            set_field(result, name, text if block else plain(text, yaml.safe_load))
        except UnicodeEncodeError:
            raise ConfigError(f"'{word}' is not UTF-8, as config.yaml must be; rename the file") from None
        except ConfigError as error:
            raise ConfigError(f"'{word}': {error}") from None
        except (yaml.YAMLError, ValueError) as error:
            raise ConfigError(f"'{word}': {text!r} is not YAML: {getattr(error, 'problem', error)}") from None
    return result


def set_field(values: dict[str, Any], name: str, value: Any) -> None:
    """Set `section.key`; a missing or empty section is created, and another budget of training is removed.

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
    if name in _BUDGETS and value is not None:
        for other in _BUDGETS:
            values.pop(other.removeprefix("training."), None)
    values[key] = value


_BUDGETS = "training.minutes", "training.steps", "training.epochs"
"""One choice: setting one replaces the others, of which a configuration file may have given one."""


def write_config(config: RunConfig, path: Path) -> None:
    """Write a configuration with every default in it."""
    path.write_text(config_text(config), encoding="utf-8")


def config_text(config: RunConfig) -> str:
    """The configuration as YAML, every default written."""
    return yaml.safe_dump(config.model_dump(mode="json", by_alias=True), sort_keys=False, allow_unicode=True)


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
    sections = {name: value for name, value in config if isinstance(value, BaseModel)}
    options: dict[str, Any] = {"mode": "json", "by_alias": True, "exclude_defaults": True}
    dumped = {name: section.model_dump(**options) for name, section in sections.items()}
    if config.data.is_embedded:  # the name says which data it is, though each has only its own
        dumped["data"] = {"name": config.data.name, **dumped["data"]}
    values: dict[str, Any] = {"task": config.task, **{name: fields for name, fields in dumped.items() if fields}}
    usual, extra = json.loads(json.dumps(dict(model_defaults or {}))), config.model.settings
    if "model" in values:
        written = values["model"].items()
        values["model"] = {k: v for k, v in written if k not in extra or k not in usual or usual[k] != v}
    return yaml.dump(values, Dumper=_Dumper, sort_keys=False, allow_unicode=True, width=120)
