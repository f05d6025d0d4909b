"""Errors in the user's input.

Every message has the user's file, line, field and value, and says what would be right. Errors in heed's own code are
assertions, not these.
"""

from __future__ import annotations

import difflib
import functools
import inspect
import re
from collections.abc import Callable, Iterable
from typing import Any, ParamSpec, TypeVar

P = ParamSpec("P")
R = TypeVar("R")


_LONGEST = 10_000
"""About the most characters of a line of a message, and ten times those of a word."""


def bounded(message: str) -> str:
    """A message without the middles of its longest words and lines: a name of thousands of letters helps nobody."""
    words = re.sub(r"\S+", lambda word: _cut(word[0], _LONGEST // 10), message)
    return re.sub(r".+", lambda line: _cut(line[0], _LONGEST), words)


def _cut(text: str, maximum: int) -> str:
    if len(text) <= maximum + maximum // 10:  # so that a line cut before is not cut again with "heed: " before it
        return text
    return f"{text[: maximum // 2]} ... ({len(text):,} characters) ... {text[-maximum // 2 :]}"


class HeedError(ValueError):
    """Base class of errors in the user's input; commands print them and exit with `exit_code`."""

    exit_code = 2

    def __str__(self) -> str:
        return bounded(super().__str__())


class ConfigError(HeedError):
    """A configuration field is unknown, missing or has an invalid value."""


class UnknownKeywordError(ConfigError, TypeError):
    """A function has no keyword of that name."""


class DataError(HeedError):
    """A data file, or a line or field of it, is not as expected."""


class InputError(ConfigError, DataError):
    """One input cannot be processed by a model; other inputs can."""


class RunError(HeedError):
    """A run folder is missing, incomplete, of another format, or already there."""


class ShapeError(HeedError):
    """A tensor has a shape or type that does not fit the others; the message names both."""


class TrainingError(HeedError):
    """Training cannot continue: a loss that is not finite, or no memory left."""

    exit_code = 3


class OutOfMemoryError(TrainingError):
    """Memory has run out, in training or elsewhere; the message says for what, how much, and what to lower."""


class DiskError(HeedError):
    """A file cannot be written: the disk is full, or writing fails."""

    exit_code = 3


class HeedWarning(UserWarning):
    """A warning to the user that stops nothing; commands print it in one line."""


def refuse_huge(name: str, value: int) -> None:
    """Refuse a number that no seed, size or tensor can hold.

    Raises:
        ConfigError: It has more than 64 bits.
    """
    if abs(value) >= 2**63:
        raise ConfigError(f"{name} has {value.bit_length()} bits, but must be less than 2 ** 63")


def whole_number(digits: str) -> int:
    """Digits that a user wrote, as a number; only the first 30 count, which already exceed every limit.

    Python's `int` refuses more than 4,300.
    """
    return int(digits[:30])


def counted(count: float, unit: str, ending: str = "s") -> str:
    """A count with its unit: "1 pair", "1,200 pairs", "2.5 passes"."""
    text = f"{count:,}" if isinstance(count, int) else f"{count:.1f}"
    return f"{text} {unit}{'' if text in ('1', '1.0') else ending}"


def nearest(wrong: str, valid: Iterable[str]) -> str:
    """A hint with the nearest valid word, `"; did you mean 'd_model'?"`; "" if none is near."""
    near = difflib.get_close_matches(wrong, sorted(set(valid)), n=1, cutoff=0.6)
    return f"; did you mean '{near[0]}'?" if near else ""


def suggest(wrong: str, valid: Iterable[str]) -> str:
    """As `nearest`, but with the list of valid words if none is near."""
    words = sorted(set(valid))
    return nearest(wrong, words) or (f"; valid: {', '.join(words)}" if words else "")


def suggests_keywords(hint: Callable[[str, Any], str] | None = None) -> Callable[[Callable[P, R]], Callable[P, R]]:
    """Decorator: the error for an unknown keyword names the nearest keyword.

    If no keyword is near, `hint` is called with the keyword and the first argument; it returns advice, or "".
    """

    def decorate(function: Callable[P, R]) -> Callable[P, R]:
        keywords = [name for name in inspect.signature(function).parameters if name != "self"]

        @functools.wraps(function)
        def call(*args: P.args, **kwargs: P.kwargs) -> R:
            for name in kwargs.keys() - set(keywords):
                advice = nearest(name, keywords)
                if not advice and hint is not None:
                    advice = hint(name, args[0] if args else None)
                advice = advice or suggest(name, keywords)
                raise UnknownKeywordError(f"{function.__name__} has no keyword '{name}'{advice}")
            return function(*args, **kwargs)

        return call

    return decorate
