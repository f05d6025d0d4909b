"""Configurations as YAML files and `section.key=value` words, with paths made absolute."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import yaml

from heed.config.sections import RunConfig
from heed.errors import ConfigError


def read_config(path: str | Path) -> dict[str, Any]:
    """Read a YAML file into plain values.

    Raises:
        ConfigError: The file is missing, is not YAML, or does not hold fields.
    """
    try:
        text = Path(path).read_text(encoding="utf-8")
    except FileNotFoundError:
        raise ConfigError(f"no file '{path}'") from None
    except (OSError, UnicodeDecodeError) as error:
        raise ConfigError(f"cannot read '{path}': {error}") from None
    try:
        values = yaml.safe_load(text)
    except yaml.YAMLError as error:
        mark = getattr(error, "problem_mark", None)
        where = f" line {mark.line + 1}" if mark is not None else ""
        raise ConfigError(f"{path}{where} is not YAML: {getattr(error, 'problem', error)}") from None
    if not isinstance(values, dict):
        raise ConfigError(f"{path} holds {type(values).__name__}, expected fields such as 'task: translation'")
    return with_paths_from(values, Path(path).absolute().parent)


def with_paths_from(values: dict[str, Any], folder: Path) -> dict[str, Any]:
    """Values whose data files are relative to a folder, with absolute paths: a run must find them from anywhere."""
    model = values.get("model")
    if isinstance(model, dict) and isinstance(model.get("word_vectors"), str):
        values = {**values, "model": {**model, "word_vectors": str(folder / model["word_vectors"])}}
    data = values.get("data")
    if not isinstance(data, dict) or "name" in data:
        return values

    def absolute(given: Any) -> Any:
        if isinstance(given, list):
            return [absolute(one) for one in given]
        return str(folder / given) if isinstance(given, str) else given

    if "hub" not in data:
        files = {key: absolute(data[key]) for key in ("train", "valid", "test") if key in data}
    else:  # these are names of splits; the data set itself may be a folder
        files = {"hub": absolute(data["hub"])} if (folder / str(data["hub"])).is_dir() else {}
    if isinstance(data.get("extra"), list):
        files["extra"] = [
            {**one, "files": absolute(one["files"])} if isinstance(one, dict) and "files" in one else one
            for one in data["extra"]
        ]
    return {**values, "data": {**data, **files}}


def apply_overrides(values: dict[str, Any], overrides: list[str]) -> dict[str, Any]:
    """Apply `section.key=value` words from a command line; values are YAML.

    Raises:
        ConfigError: A word has no '='.
    """
    result = yaml.safe_load(yaml.safe_dump(values)) or {}
    for word in overrides:
        name, equals, text = word.partition("=")
        if not equals or not name:
            raise ConfigError(f"'{word}' is neither a file nor section.key=value")
        *sections, key = name.split(".")
        place = result
        for section in sections:
            if place.get(section) is None:  # absent, or a heading with nothing under it
                place[section] = {}
            place = place[section]
            if not isinstance(place, dict):
                raise ConfigError(f"'{word}': '{section}' is not a section")
        try:
            place[key] = yaml.safe_load(text)
        except yaml.YAMLError as error:
            raise ConfigError(f"'{word}': {text!r} is not YAML: {getattr(error, 'problem', error)}") from None
    return result


def write_config(config: RunConfig, path: Path) -> None:
    """Write a configuration with every default in it."""
    path.write_text(config_text(config), encoding="utf-8")


def config_text(config: RunConfig) -> str:
    """The configuration as YAML, every default written."""
    return yaml.safe_dump(config.model_dump(mode="json", by_alias=True), sort_keys=False, allow_unicode=True)
