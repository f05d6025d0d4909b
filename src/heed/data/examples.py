"""Examples: what readers and generators make, and tasks train on."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import ClassVar, Self

from heed.data.sentences import is_blank

Span = tuple[int, int]
"""Half-open range `(start, end)` of character positions in a string."""


class Example(ABC):
    """One example: any number of texts, perhaps labels, and its origin ("train.en:17", "dates:es:full").

    A new kind of data subclasses this with a `unit` (its name) and `sides` (the names of its texts); filtering, holding
    out, counting, stored corpora, streams and lengths then work for it.
    """

    __slots__ = ()
    unit: ClassVar[str]
    sides: ClassVar[tuple[str, ...]]
    origin: str

    @property
    @abstractmethod
    def fields(self) -> tuple[str, ...]:
        """All but the origin as a fixed number of strings: texts, then the rest; the first decides the split."""

    @classmethod
    @abstractmethod
    def of(cls, fields: tuple[str, ...], origin: str) -> Self:
        """The example with these fields."""

    @property
    def texts(self) -> tuple[str, ...]:
        """Its texts."""
        return self.fields[: len(self.sides)]

    @property
    def source(self) -> str:
        """What the model is given, for readers and comparisons."""
        return self.texts[0]

    @property
    def truth(self) -> str:
        """The correct output, for readers and comparisons."""
        return self.fields[-1]

    @property
    def stratum(self) -> str:
        """Labels, whose proportions a subset of the training set preserves; "" if there are none."""
        return ""

    @property
    def blank(self) -> str:
        """The rule that leaves the example out because of blank texts; "" if no rule does."""
        texts = self.texts
        if all(map(str.strip, texts)):  # the common case
            return ""
        sides = [side for side, text in zip(self.sides, texts, strict=True) if not text.strip()]
        if len(sides) < len(texts):
            return f"{sides[0]} blank"
        return {1: "blank", 2: "both sides blank"}.get(len(texts), "all sides blank")


@dataclass(frozen=True, slots=True)
class Link:
    """A known alignment: this span of the target translates that span of the source."""

    target: Span
    source: Span


@dataclass(frozen=True, slots=True)
class Pair(Example):
    """One example of a sequence-to-sequence task; `links`, its true alignment if known, are not stored."""

    unit = "pair"
    sides = ("source", "target")

    source: str = field()  # replaces the property
    target: str
    links: tuple[Link, ...] | None = None
    origin: str = field(default="", compare=False)

    @property
    def fields(self) -> tuple[str, ...]:
        return self.source, self.target

    texts = fields

    @classmethod
    def of(cls, fields: tuple[str, ...], origin: str) -> Self:
        return cls(fields[0], fields[1], origin=origin)


@dataclass(frozen=True, slots=True)
class Text(Example):
    """A text and its labels: one, any number in multi-label data, none in unlabelled data."""

    unit = "text"
    sides = ("text",)

    text: str
    labels: tuple[str, ...] = ()
    origin: str = field(default="", compare=False)

    @property
    def fields(self) -> tuple[str, ...]:
        return self.text, "\0".join(self.labels)

    @property
    def truth(self) -> str:
        return ",".join(label_order(self.labels))

    @classmethod
    def of(cls, fields: tuple[str, ...], origin: str) -> Self:
        return cls(fields[0], tuple(fields[1].split("\0")) if fields[1] else (), origin)

    @property
    def stratum(self) -> str:
        return "\0".join(sorted(self.labels))

    @property
    def blank(self) -> str:
        return "blank" if is_blank(self.text) else ""


@dataclass(frozen=True, slots=True)
class Picture(Example):
    """A picture and its label.

    The digest of the file's content decides the split and identifies duplicates, whatever the file is called. `place`
    locates the pixels (`heed.data.pictures.source`); like `origin` it is ignored when pictures are compared. These
    objects are always kept in memory, the pixels are not.
    """

    unit = "picture"
    sides = ("picture",)

    digest: str
    label: str
    place: str = field(compare=False)
    origin: str = field(default="", compare=False)

    @property
    def fields(self) -> tuple[str, ...]:
        return self.digest, self.label

    @property
    def source(self) -> str:
        return self.origin

    @property
    def labels(self) -> tuple[str, ...]:
        """Its one label."""
        return (self.label,)

    @classmethod
    def of(cls, fields: tuple[str, ...], origin: str) -> Self:
        return cls(fields[0], fields[1], origin, origin)

    @property
    def stratum(self) -> str:
        return self.label


@dataclass(frozen=True, slots=True)
class Sentence(Example):
    """A tagging example: words and the tag of each."""

    unit = "sentence"
    sides = ("text",)

    words: tuple[str, ...]
    tags: tuple[str, ...]
    origin: str = field(default="", compare=False)

    @property
    def fields(self) -> tuple[str, ...]:
        return " ".join(self.words), "\0".join((*self.words, *self.tags))

    @classmethod
    def of(cls, fields: tuple[str, ...], origin: str) -> Self:
        both = fields[1].split("\0")
        return cls(tuple(both[: len(both) // 2]), tuple(both[len(both) // 2 :]), origin)

    @property
    def stratum(self) -> str:
        return "\0".join(sorted({tag[2:] if tag[1:2] == "-" else tag for tag in self.tags}))

    @property
    def blank(self) -> str:
        return "blank" if is_blank(self.fields[0]) else ""


@dataclass(frozen=True, slots=True)
class Conversation(Example):
    """A conversation: its turns and their speakers.

    Turns contain no line breaks. `speakers` has an entry for each turn, "" if unknown; it is empty if all are unknown.
    """

    unit = "conversation"
    sides = ("conversation",)

    turns: tuple[str, ...]
    speakers: tuple[str, ...] = ()
    origin: str = field(default="", compare=False)

    @property
    def fields(self) -> tuple[str, ...]:
        return "\n".join(self.turns), "\0".join(self.speakers)

    @property
    def source(self) -> str:
        names = [f"{name}: " if name else "" for name in self.speakers or [""] * len(self.turns)]
        return "\n".join(f"{name}{turn}" for name, turn in zip(names, self.turns, strict=True))

    @property
    def truth(self) -> str:
        return "\n".join(self.turns[1:])

    @classmethod
    def of(cls, fields: tuple[str, ...], origin: str) -> Self:
        speakers = tuple(fields[1].split("\0")) if fields[1] else ()
        return cls(tuple(fields[0].split("\n")), speakers, origin)

    @property
    def blank(self) -> str:
        return "fewer than two turns" if len(self.turns) < 2 else ""

    def speaker(self, turn: int) -> str:
        """The speaker of a turn; "" if unknown."""
        return self.speakers[turn] if self.speakers else ""


def label_order(labels: Iterable[str]) -> list[str]:
    """Distinct labels in the order of their ids: numeric labels by value, then the others alphabetically."""

    def key(label: str) -> tuple[bool, float, str]:
        is_number = label.removeprefix("-").isdecimal()
        return not is_number, float(label) if is_number else 0.0, label

    return sorted(set(labels), key=key)
