"""JSON from users: a repeated key is an error, where Python would silently take the last value."""

from __future__ import annotations

import json
from typing import Any


class RepeatedKeyError(ValueError):
    """A JSON object has a key twice."""


def load_json(text: str) -> Any:
    """Parse a JSON value.

    Raises:
        RepeatedKeyError: An object in it has a key twice; the message names the key.
        ValueError: The text is not JSON.
        RecursionError: The value is nested too deeply.
    """
    return json.loads(text, object_pairs_hook=_once)


def _once(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    made = dict(pairs)
    if len(made) < len(pairs):
        keys = [key for key, _ in pairs]
        raise RepeatedKeyError(f"the key '{next(key for key in keys if keys.count(key) > 1)}' occurs twice")
    return made
