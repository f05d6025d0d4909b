"""What a task's data is made of once it has been read: examples, whatever file or generator they came from."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import ClassVar, Self

from heed.data.read.sentences import is_blank

Span = tuple[int, int]
"""Half-open range `(start, end)` of character positions in a string."""


class Example(ABC):
    """One example: any number of texts, perhaps labels, and where it came from.

    A new kind of data defines one of these, and has reading, filtering, holding out, counting, stored corpora, streams
    and lengths with it.

    Attributes:
        unit: What one is called.
        sides: Names of its texts, in their order; none where it holds no text.
        origin: The file and line it came from, or the generator: "train.en:17", "dates:es:full".
    """

    __slots__ = ()
    unit: ClassVar[str]
    sides: ClassVar[tuple[str, ...]]
    origin: str

    @property
    @abstractmethod
    def fields(self) -> tuple[str, ...]:
        """All of it but its origin, the same number of strings for all of a kind: its texts, then the rest.

        By the first it is held out; two examples with the same fields are the same.
        """

    @classmethod
    @abstractmethod
    def of(cls, fields: tuple[str, ...], origin: str) -> Self:
        """The example with these fields."""

    @property
    def texts(self) -> tuple[str, ...]:
        """Its texts."""
        return self.fields[: len(self.sides)]

    @property
    def blank(self) -> str:
        """Which of its texts hold nothing, as a rule that leaves it out; "" where all hold something."""
        texts = self.texts
        if all(map(str.strip, texts)):  # as nearly always
            return ""
        sides = [side for side, text in zip(self.sides, texts, strict=True) if not text.strip()]
        every = "blank" if len(texts) == 1 else "both sides blank" if len(texts) == 2 else "all sides blank"
        return every if len(sides) == len(texts) else f"{sides[0]} blank"


@dataclass(frozen=True, slots=True)
class Link:
    """A known alignment: this span of the target says what that span of the source says."""

    target: Span
    source: Span


@dataclass(frozen=True, slots=True)
class Pair(Example):
    """One example of a sequence-to-sequence task.

    `links` is the true alignment where it is known (generated data), else None; it is not stored.
    """

    unit = "pair"
    sides = ("source", "target")

    source: str
    target: str
    links: tuple[Link, ...] | None = None
    origin: str = field(default="", compare=False)

    @property
    def fields(self) -> tuple[str, ...]:
        """Both sides."""
        return self.source, self.target

    texts = fields

    @classmethod
    def of(cls, fields: tuple[str, ...], origin: str) -> Self:
        """The pair of two sides."""
        return cls(fields[0], fields[1], origin=origin)


@dataclass(frozen=True, slots=True)
class Text(Example):
    """A text and its labels: one, any number where texts may have several, none where they have none."""

    unit = "text"
    sides = ("text",)

    text: str
    labels: tuple[str, ...] = ()
    origin: str = field(default="", compare=False)

    @property
    def fields(self) -> tuple[str, ...]:
        """The text and its labels."""
        return self.text, "\0".join(self.labels)

    @classmethod
    def of(cls, fields: tuple[str, ...], origin: str) -> Self:
        """The text with its labels."""
        return cls(fields[0], tuple(fields[1].split("\0")) if fields[1] else (), origin)

    @property
    def blank(self) -> str:
        """Line breaks, also as `<br />`, are nothing."""
        return "blank" if is_blank(self.text) else ""


@dataclass(frozen=True, slots=True)
class Sentence(Example):
    """One example of tagging: words and the tag of each."""

    unit = "sentence"
    sides = ("text",)

    words: tuple[str, ...]
    tags: tuple[str, ...]
    origin: str = field(default="", compare=False)

    @property
    def fields(self) -> tuple[str, ...]:
        """The words with blanks between them, by which it is held out; words, and tags, that may hold blanks."""
        return " ".join(self.words), "\0".join((*self.words, *self.tags))

    @classmethod
    def of(cls, fields: tuple[str, ...], origin: str) -> Self:
        """The sentence of as many words as tags."""
        both = fields[1].split("\0")
        return cls(tuple(both[: len(both) // 2]), tuple(both[len(both) // 2 :]), origin)

    @property
    def blank(self) -> str:
        """Words that hold nothing."""
        return "blank" if is_blank(self.fields[0]) else ""


def label_order(labels: Iterable[str]) -> list[str]:
    """Labels in the order in which they are numbered and shown: numbers by value, then names by letter."""

    def key(label: str) -> tuple[bool, float, str]:
        is_number = label.removeprefix("-").isdecimal()
        return not is_number, float(label) if is_number else 0.0, label

    return sorted(set(labels), key=key)
