"""What a task's data is made of once it has been read: examples, whatever file or generator they came from."""

from __future__ import annotations

from dataclasses import dataclass, field

__all__ = ["Link", "Pair", "Sentence", "Span", "Text"]

Span = tuple[int, int]
"""Half-open range `(start, end)` of character positions in a string."""


@dataclass(frozen=True, slots=True)
class Link:
    """A known alignment: this span of the target says what that span of the source says."""

    target: Span
    source: Span


@dataclass(frozen=True, slots=True)
class Pair:
    """One example of a sequence-to-sequence task.

    `links` is the true alignment where it is known (generated data), else None.
    `origin` names where the pair came from, for messages to people: "dates:es:full" or "train.en:17".
    """

    source: str
    target: str
    links: tuple[Link, ...] | None = None
    origin: str = field(default="", compare=False)


@dataclass(frozen=True, slots=True)
class Text:
    """One example of classification: a text and its labels (one, or any number where texts may have several)."""

    text: str
    labels: tuple[str, ...]
    origin: str = field(default="", compare=False)


@dataclass(frozen=True, slots=True)
class Sentence:
    """One example of tagging: words and the tag of each."""

    words: tuple[str, ...]
    tags: tuple[str, ...]
    origin: str = field(default="", compare=False)
