"""Errors that heed raises for what a user gave it.

Every message carries the user's own input (file, line, field, value) and says what would be right.
Broken promises of our own code are assertions, not these.
"""

from __future__ import annotations

import difflib
import functools
import inspect
from collections.abc import Callable, Iterable
from typing import Any, ParamSpec, TypeVar

P = ParamSpec("P")
R = TypeVar("R")


class HeedError(ValueError):
    """Base of every error that is about the user's input; commands print it and exit with `exit_code`."""

    exit_code = 2


class ConfigError(HeedError):
    """A configuration field is unknown, missing or has a value that cannot be."""


class UnknownKeywordError(ConfigError, TypeError):
    """A function has no keyword of that name."""


class DataError(HeedError):
    """A data file, or a line or field of it, is not what was promised."""


class InputError(ConfigError, DataError):
    """A text cannot be answered by a model that answers others."""


class RunError(HeedError):
    """A run folder is missing, incomplete, of another format, or already there."""


class ShapeError(HeedError):
    """A tensor has a shape or type that does not fit the others; the message names both."""


class TrainingError(HeedError):
    """Training cannot go on: a loss that is not finite, or no memory left."""

    exit_code = 3


class OutOfMemoryError(TrainingError):
    """There is no memory left, in training or elsewhere; the message says for what, how much, and what to lower."""


class DiskError(HeedError):
    """What must be kept cannot be written: the disk is full, or refuses."""

    exit_code = 3


class HeedWarning(UserWarning):
    """Something that a user should know and that stops nothing; commands print it in one line."""


def suggest(wrong: str, valid: Iterable[str]) -> str:
    """The nearest valid word, as `"; did you mean 'd_model'?"`; the list of valid words if none is near."""
    words = sorted(set(valid))
    near = difflib.get_close_matches(wrong, words, n=1, cutoff=0.6)
    if near:
        return f"; did you mean '{near[0]}'?"
    return f"; valid: {', '.join(words)}" if words else ""


def suggests_keywords(hint: Callable[[str, Any], str] | None = None) -> Callable[[Callable[P, R]], Callable[P, R]]:
    """Decorator of functions: an unknown keyword is an error that names the nearest one.

    `hint` is asked first: given the keyword and the first argument, it returns what to write instead, or "".
    """

    def decorate(function: Callable[P, R]) -> Callable[P, R]:
        known = [name for name in inspect.signature(function).parameters if name != "self"]

        @functools.wraps(function)
        def call(*args: P.args, **kwargs: P.kwargs) -> R:
            for name in kwargs.keys() - set(known):
                near = suggest(name, known)
                if hint is not None and "did you mean" not in near:
                    near = hint(name, args[0] if args else None) or near
                raise UnknownKeywordError(f"{function.__name__} has no keyword '{name}'{near}")
            return function(*args, **kwargs)

        return call

    return decorate
