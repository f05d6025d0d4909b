"""Examples, which readers and generators make and tasks train on; and texts cut into sentences."""

from __future__ import annotations

import re
from abc import ABC, abstractmethod
from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import ClassVar, Self

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


OUTSIDE = "O"
"""The tag of a word outside entities."""
_TAG = re.compile(r"[BIESLUM]-.+")


def is_entity_tag(tag: str) -> bool:
    """True if a tag is a letter of one of the schemes of `heed.data.kinds.tagged`, a hyphen, and a type."""
    return _TAG.fullmatch(tag) is not None


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


_BREAKS = re.compile(r"\s*(?:<br\s*/?>|[\n\r\u2028\u2029])\s*", re.IGNORECASE)
_ENDS = re.compile(  # group 1: the first character of the next sentence
    r"(?<=[.!?\u2026])[\"'\u201d\u2019)\]]*\s+(?=[\"'\u201c\u2018(\[]*([^\W_]))"  # "... it." He | end! (Then
    r"|(?<=[\u3002\uff01\uff1f\u0964\u06d4\u061f\u1362])\s*"  # full stops of scripts without spaces or capitals
)
_NO_END = re.compile(r"(?:\b(?:mr|mrs|ms|dr|prof|st|vs|etc|no|jr|sr|inc|e\.g|i\.e)|\b[A-Z])\.$", re.IGNORECASE)


def without_breaks(text: str) -> str:
    """A text with a space for each line break and `<br />`, for models that do not read sentence by sentence."""
    return _BREAKS.sub(" ", text)


def is_blank(text: str) -> bool:
    """True if a text contains nothing but spaces and breaks."""
    return not without_breaks(text).strip()


def split_sentences(text: str, separator: str | None = None) -> list[tuple[int, int]]:
    """The spans `(start, end)` of the sentences of a document, in order, none blank.

    Without a separator, texts are cut at line breaks and `<br />`; after . ! ? ... followed by spaces and a letter or
    digit that is not lowercase, except after an initial or a common abbreviation; and after the full stops of Chinese,
    Japanese, Hindi, Urdu, Arabic and Amharic.
    """
    spans: list[tuple[int, int]] = []
    breaks = re.compile(re.escape(separator)) if separator is not None else _BREAKS
    start = 0
    for found in [*breaks.finditer(text), None]:
        end = len(text) if found is None else found.start()
        spans += [(start, end)] if separator is not None else _within(text, start, end)
        start = end if found is None else found.end()
    trimmed = []
    for start, end in spans:
        inside = text[start:end]
        start += len(inside) - len(inside.lstrip())
        end -= len(inside) - len(inside.rstrip())
        if start < end:
            trimmed.append((start, end))
    return trimmed


def _within(text: str, start: int, end: int) -> list[tuple[int, int]]:
    """The sentences between two breaks."""
    spans = []
    begin = start
    for found in _ENDS.finditer(text, start, end):
        if found.end() == begin or (found[1] or "").islower() or _NO_END.search(text[begin : found.start()]):
            continue
        spans.append((begin, found.end()))
        begin = found.end()
    return [*spans, (begin, end)]
