"""Input of `heed predict` for language models: prompts, prompts with choices, or texts, plain or as JSON lines."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from heed.data.read.objects import RepeatedKeyError, load_json
from heed.errors import ConfigError


@dataclass(frozen=True)
class Question:
    """A prompt (or a text to score), and the continuations to rank, or None."""

    prompt: str
    choices: tuple[str, ...] | None = None


def choices_of(given: Sequence[str], file: str | None) -> tuple[str, ...]:
    """Return the choices that were typed, or those of a file with one per line; none without either.

    Raises:
        ConfigError: Both were given, a choice is blank, or the file cannot be read.
    """
    if file is None:
        for n, choice in enumerate(given, start=1):
            if not choice.strip():
                raise ConfigError(f"--choice {n} is blank: {choice!r}")
        return tuple(given)
    if given:
        raise ConfigError("give choices with --choice or in a file with --choices, not both")
    try:
        text = Path(file).read_text(encoding="utf-8-sig")
    except OSError as error:
        raise ConfigError(f"cannot read --choices '{file}': {error.strerror}") from None
    except UnicodeDecodeError as error:
        raise ConfigError(f"--choices '{file}': byte {error.start + 1} is not UTF-8") from None
    lines = text.split("\n")
    lines = lines[:-1] if not lines[-1] else lines
    for n, line in enumerate(lines, start=1):
        if not line.strip():
            raise ConfigError(f"--choices '{file}' line {n}: the choice is blank")
    if not lines:
        raise ConfigError(f"--choices '{file}' is empty; give one choice per line")
    return tuple(lines)


def is_object(line: str) -> bool:
    """True if a line is a JSON object; if the first line of a file is one, all must be."""
    return isinstance(_parsed(line), dict)


def has_choices(line: str) -> bool:
    """True if a line with a JSON object has choices to rank."""
    return _parsed(line).get("choices") is not None


def question_of(line: str, place: str, field: str, ranked: bool, chooses: bool) -> Question:
    """Parse the question in a JSON line.

    Args:
        line: The line.
        place: Name of the line in messages.
        field: The name of the text: "prompt", or "text" where texts are scored.
        ranked: True if choices were given for all prompts.
        chooses: True if the first line of the file has choices.

    Raises:
        ConfigError: The line is not an object with the field, its choices are invalid, or it has choices and the first
            line none, or the reverse.
    """
    value = _parsed(line)
    if not isinstance(value, dict) or not isinstance(value.get(field), str):
        raise ConfigError(
            f"{place}: the file has JSON lines, so each line must be an object with the text '{field}', such as "
            f'{{"{field}": "I love"}}; this line is {line[:60]!r}'
        )
    choices = value.get("choices")
    if choices is not None:
        _check(choices, place)
        if ranked:
            raise ConfigError(f"{place} has its own choices; omit --choice and --choices")
        if field == "text":
            raise ConfigError(f"{place} has choices, but --score reads whole texts")
    if (choices is None) == chooses:
        has, first = ("no choices", "some") if choices is None else ("choices", "none")
        raise ConfigError(f"{place} has {has}, but line 1 has {first}; give every line choices, or none")
    return Question(value[field], None if choices is None else tuple(choices))


def _check(choices: Any, place: str) -> None:
    if not isinstance(choices, list) or not choices or not all(isinstance(choice, str) for choice in choices):
        raise ConfigError(f"{place}: choices is {choices!r}, expected a list of texts")
    for n, choice in enumerate(choices, start=1):
        if not choice.strip():
            raise ConfigError(f"{place}: choice {n} is blank: {choice!r}")
        if choice in choices[: n - 1]:
            raise ConfigError(f"{place}: choice {choice!r} occurs twice")


def texts_of(line: str) -> list[str]:
    """The texts in a JSON line: the prompt with its choices, or the text."""
    value = _parsed(line)
    return [value.get("text", value.get("prompt", "")), *(value.get("choices") or [])]


def _parsed(line: str) -> Any:
    try:
        return load_json(line)
    except RepeatedKeyError as error:
        raise ConfigError(f"{error}: {line[:60]!r}") from None
    except (ValueError, RecursionError):
        return None
