"""`config.json` of a checkpoint: fields with their kinds, and errors that name file, field and value."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from heed.errors import ConfigError, RunError
from heed.storage.files import MissingFileError, read_object

CONFIG = "config.json"


class Settings:
    """The fields of a configuration file, read by name and kind.

    Attributes:
        path: The file.
        values: Its unchecked fields.
    """

    def __init__(self, path: Path, values: Mapping[str, Any]) -> None:
        self.path = path
        self.values = dict(values)

    @classmethod
    def read(cls, path: Path) -> Settings:
        """Read a file.

        Raises:
            RunError: It is missing or damaged.
        """
        return cls(path, read_json(path))

    @property
    def model_type(self) -> str:
        """The family (`model_type`).

        Raises:
            ConfigError: The file has no such field.
        """
        return self.text("model_type")

    def wrong(self, name: str, expected: str) -> ConfigError:
        """The error for a field that cannot be used."""
        return ConfigError(f"{self.path}: {name} is {json.dumps(self.values.get(name))}, expected {expected}")

    def get(self, name: str, default: Any = ...) -> Any:
        """The value of a field; if it is missing or null, the default, if there is one."""
        value = self.values.get(name)
        if value is not None:
            return value
        if default is ...:
            raise ConfigError(f"{self.path} lacks the field '{name}'")
        return default

    def text(self, name: str, default: Any = ...) -> str:
        """A text field."""
        value = self.get(name, default)
        if value is not default and not isinstance(value, str):
            raise self.wrong(name, "a word")
        return value  # type: ignore[no-any-return]

    def flag(self, name: str, default: Any = ...) -> bool:
        """A field that is true or false."""
        value = self.get(name, default)
        if value is not default and not isinstance(value, bool):
            raise self.wrong(name, "true or false")
        return value  # type: ignore[no-any-return]

    def count(self, name: str, default: Any = ..., least: int = 1) -> int:
        """A field that is a whole number."""
        value = self.get(name, default)
        if value is not default and (isinstance(value, bool) or not isinstance(value, int) or value < least):
            raise self.wrong(name, f"a whole number of at least {least}")
        return value  # type: ignore[no-any-return]

    def number(self, name: str, default: Any = ...) -> float:
        """A field that is a number of at least 0."""
        value = self.get(name, default)
        if value is not default and (isinstance(value, bool) or not isinstance(value, int | float) or value < 0):
            raise self.wrong(name, "a number of at least 0")
        return value  # type: ignore[no-any-return]

    def one_of(self, name: str, known: Mapping[str, Any], default: str) -> Any:
        """Look up a text field in a table of the supported values."""
        word = self.text(name, default)
        if word not in known:
            raise ConfigError(
                f"{self.path}: {name} is '{word}', which heed does not support; supported: "
                f"{', '.join(dict.fromkeys(known))}"
            )
        return known[word]

    def accept(self, fields: Mapping[str, Sequence[Any]]) -> None:
        """Check the fields that change what the model computes.

        Raises:
            ConfigError: A field has an unsupported value; the message names field, value and supported values.
        """
        for name, values in fields.items():
            if (value := self.values.get(name)) is not None and value not in values:
                right = " or ".join(json.dumps(one) for one in values)
                raise ConfigError(
                    f"{self.path}: {name} is {json.dumps(value)}, which heed does not support; it must be {right} or "
                    "missing"
                )


def read_json(path: Path) -> dict[str, Any]:
    """A file of one JSON object.

    Raises:
        RunError: It is missing or damaged.
    """
    try:
        return read_object(path, links=True)  # the cache of the Hub consists of links
    except MissingFileError:
        raise RunError(
            f"{path} is missing; a checkpoint is a folder with config.json, tensors and a tokenizer"
        ) from None
