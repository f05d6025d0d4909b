"""JSON of users: an object with a key twice is an error, where Python would take the last value silently."""

from __future__ import annotations

import json
from typing import Any


class RepeatedKeyError(ValueError):
    """An object of JSON has a key twice."""


def load_json(text: str) -> Any:
    """A value of JSON.

    Raises:
        RepeatedKeyError: An object in it has a key twice; the message says which.
        ValueError: It is no JSON.
        RecursionError: It is too deep.
    """
    return json.loads(text, object_pairs_hook=_once)


def _once(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    made = dict(pairs)
    if len(made) < len(pairs):
        keys = [key for key, _ in pairs]
        raise RepeatedKeyError(f"the key '{next(key for key in keys if keys.count(key) > 1)}' occurs twice")
    return made
