"""YAML without repeated fields: PyYAML silently takes the last value, against YAML 1.2, section 3.2.1.3."""

from __future__ import annotations

from typing import Any

import yaml


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
            if key.tag == "tag:yaml.org,2002:merge":
                continue
            if not isinstance(key.value, str):
                continue
            if key.value in seen:
                raise RepeatedFieldError(None, None, f"the field '{key.value}' occurs twice", key.start_mark)
            seen.add(key.value)
        return super().construct_mapping(node, deep)


def load_yaml(text: str) -> Any:
    """The plain values of a YAML document.

    Raises:
        yaml.YAMLError: It is not YAML, or a mapping in it has a key twice.
    """
    loader = _OnceLoader(text)
    try:
        return loader.get_single_data()
    finally:
        loader.dispose()
