"""Descriptions of values for messages."""

from __future__ import annotations

from typing import Any

_KINDS = {str: "text", int: "number", float: "number", list: "list", tuple: "tuple", dict: "dict", bool: "value"}


def described(value: Any) -> str:
    """Type and beginning of a value: "the text 'Hi'", "the number 3", "missing (None)"."""
    if value is None or value != value or type(value).__name__ == "NAType":  # nan differs from itself
        return f"missing ({value})"
    shown = " ".join(repr(value).split())
    kind = _KINDS.get(type(value), type(value).__name__)
    return f"the {kind} {shown if len(shown) <= 40 else shown[:37] + '...'}"


def kind_of(value: Any) -> str:
    """Type of a JSON value: "a text", "a number", "a list", "an object", "null", "true" or "false"."""
    if value is None or isinstance(value, bool):
        return {None: "null", True: "true", False: "false"}[value]
    return "an object" if isinstance(value, dict) else f"a {_KINDS[type(value)]}"
