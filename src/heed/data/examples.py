"""Examples of every kind, as readers and generators make them; texts cut into sentences; and lazy sequences.

The items of a lazy sequence are made on access, several at once more cheaply than one by one.
"""

from __future__ import annotations

import hashlib
import json
import re
from abc import abstractmethod
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from decimal import Decimal
from functools import lru_cache
from itertools import chain
from typing import Any, ClassVar, Self, TypeVar, overload

import numpy as np
from numpy.typing import NDArray

Span = tuple[int, int]
"""Half-open range `(start, end)` of character positions in a string."""
LabelSet = tuple[str, ...]
"""Different labels, in order."""


_WITHOUT_WIDTH = dict.fromkeys(map(ord, "\u200b\u200c\u200d\u2060\ufeff"))
_BREAKS = re.compile(r"\s*(?:<br\s*/?>|[\n\r\u2028\u2029])\s*", re.IGNORECASE)


def without_breaks(text: str) -> str:
    """A text with a space for each line break and `<br />`, for models that do not read sentence by sentence."""
    return text if text.isprintable() and "<" not in text else _BREAKS.sub(" ", text)  # line ends are not printable


def is_empty(text: str) -> bool:
    """True if a text contains nothing but spaces and characters without width."""
    stripped = text.strip()
    return not stripped or (ord(stripped[0]) in _WITHOUT_WIDTH and not stripped.translate(_WITHOUT_WIDTH).strip())


def is_blank(text: str) -> bool:
    """As `is_empty`, also of breaks."""
    return is_empty(text) or (text.lstrip()[0] == "<" and is_empty(without_breaks(text)))


OUTSIDE = "O"
"""The tag of a word outside entities."""
_TAG = re.compile(r"[BIESLUM]-.+")


def is_entity_tag(tag: str) -> bool:
    """True if a tag is a letter of one of the schemes of `heed.data.kinds.tagged`, a hyphen, and a type."""
    return _TAG.fullmatch(tag) is not None


@dataclass(frozen=True)
class Role:
    """The role of a field of an example: a text, labels, or any other value that JSON can hold."""

    side: str = ""
    """Name of a text in messages, also of several that are one together; "" if the field is no text."""
    key: Callable[[Any], str] = str
    """Makes the string by which values are compared and hashed; `str` if they are strings."""
    stratum: Callable[[str], str] | None = None
    """Of labels: the part of a label whose share in the data a subset preserves."""
    is_empty: Callable[[str], bool] = is_empty
    """Whether a text counts as blank."""
    is_compared: bool = True
    """False for a value that is stored only, after the others."""

    def to_bytes(self, value: Any) -> bytes:
        """A value as it is stored: a string as it is, other values as JSON."""
        return (value if self.key is str else _JSON.encode(value)).encode()

    def from_bytes(self, stored: bytes) -> Any:
        """Inverse of `to_bytes`."""
        return stored.decode() if self.key is str else _decoded(stored)


@lru_cache(maxsize=1_000)  # labels repeat
def _decoded(stored: bytes) -> Any:
    value = json.loads(stored.decode())
    return tuple(value) if isinstance(value, list) else value


_JSON = json.JSONEncoder(ensure_ascii=False)
VALUE = Role(key=json.dumps)
NAMES = Role(key="\0".join)
LABEL = Role(stratum=str)
LABELS = Role(key="\0".join, stratum=str)
TAGS = Role(key="\0".join, stratum=lambda tag: tag[2:] if tag[1:2] == "-" else tag)  # of an entity, its type


class Example:
    """One example: texts, labels and other values, and its origin ("train.en:17", "dates:es:full").

    A kind of example is a frozen dataclass with slots that declares its `unit` (its name in messages), the `roles` of
    its fields, and which of them `groups` examples: those with equal values stay in one split. Reading, filtering,
    holding out, counting, storing and lengths follow from these.
    """

    __slots__ = ()
    unit: ClassVar[str]
    roles: ClassVar[Mapping[str, Role]]
    groups: ClassVar[str]
    compared: ClassVar[Mapping[str, Role]]
    sides: ClassVar[Mapping[str, Role]]
    """The fields that are compared and hashed, and those that are texts."""
    origin: str

    def __init_subclass__(cls) -> None:
        cls.compared = {name: role for name, role in cls.roles.items() if role.is_compared}
        cls.sides = {name: role for name, role in cls.roles.items() if role.side}

    @classmethod
    def of_groups(cls, hashes: Hashes) -> Hashes:
        """Of the hashes of all fields, `(examples, fields)`, those of the groups, `(examples,)`."""
        return hashes[:, [*cls.compared].index(cls.groups)]

    @classmethod
    def group_name(cls) -> str:
        """The name of the text that groups examples; `unit` if it is all of an example."""
        return cls.roles[cls.groups].side or cls.unit

    @classmethod
    def stratum_of(cls, label_set: LabelSet) -> LabelSet:
        """The parts of labels whose shares a subset of the data preserves; ("",) without labels."""
        strata = [role.stratum for role in cls.roles.values() if role.stratum is not None]
        return tuple(sorted({stratum(label) for stratum in strata for label in label_set})) or ("",)

    @property
    def keys(self) -> tuple[str, ...]:
        """Its fields as the strings by which they are compared and hashed."""
        return tuple([role.key(getattr(self, name)) for name, role in self.compared.items()])

    @property
    def texts(self) -> tuple[str, ...]:
        """Its texts."""
        return tuple([role.key(getattr(self, name)) for name, role in self.sides.items()])

    @property
    def source(self) -> str:
        """The input of the model, for readers and comparisons."""
        return self.texts[0]

    @property
    def truth(self) -> str:
        """The correct output, for readers and comparisons."""
        return self.keys[-1]

    @property
    def label_set(self) -> LabelSet:
        """Its different labels, in order."""
        values = [(getattr(self, name), role.key is str) for name, role in self.roles.items() if role.stratum]
        return tuple(sorted({label for value, single in values for label in ([value] if single else value)}))

    @property
    def blank(self) -> str:
        """The rule that leaves the example out because of blank texts; "" if no rule does."""
        blank = [role.side for name, role in self.sides.items() if role.is_empty(role.key(getattr(self, name)))]
        if not blank:
            return ""
        if len(blank) < len(self.sides):
            return f"{blank[0]} blank"
        return {1: "blank", 2: "both sides blank"}.get(len(blank), "all sides blank")

    def to_rows(self) -> list[bytes]:
        """The example as it is stored: a row of bytes for each field, and for the origin."""
        return [*(role.to_bytes(getattr(self, name)) for name, role in self.roles.items()), self.origin.encode()]

    @classmethod
    def from_rows(cls, rows: Sequence[bytes]) -> Self:
        """Inverse of `to_rows`."""
        fields = {name: role.from_bytes(row) for (name, role), row in zip(cls.roles.items(), rows, strict=False)}
        return cls(**fields, origin=rows[-1].decode())  # type: ignore[call-arg]  # those of the dataclass


@dataclass(frozen=True, slots=True)
class Link:
    """A known alignment: this span of the target translates that span of the source."""

    target: Span
    source: Span


@dataclass(frozen=True, slots=True)
class Pair(Example):
    """One example of a sequence-to-sequence task; `links`, its true alignment if known, are not stored."""

    unit, groups = "pair", "source"
    roles: ClassVar = {"source": Role("source"), "target": Role("target")}

    source: str = field()  # replaces the property
    target: str
    links: tuple[Link, ...] | None = None
    origin: str = field(default="", compare=False)


@dataclass(frozen=True, slots=True)
class Text(Example):
    """A text, or a pair of texts, and its labels: one, any number in multi-label data, none in unlabelled data."""

    unit, groups = "text", "text"
    roles: ClassVar = {"text": Role("text"), "labels": LABELS, "second": Role(key=json.dumps, is_compared=False)}

    text: str
    labels: tuple[str, ...] = ()
    origin: str = field(default="", compare=False)
    second: str | None = None
    """The second text of a pair."""

    @property
    def keys(self) -> tuple[str, ...]:
        return self.source, LABELS.key(self.labels)  # both texts of a pair decide the split together

    @property
    def texts(self) -> tuple[str, ...]:
        return (self.text,) if self.second is None else (self.text, self.second)

    @property
    def source(self) -> str:
        return "\t".join(self.texts)

    @property
    def truth(self) -> str:
        return ",".join(label_order(self.labels))

    @property
    def blank(self) -> str:
        return "blank" if any(map(is_blank, self.texts)) else ""


@dataclass(frozen=True, slots=True)
class Picture(Example):
    """A picture and its label.

    The digest of the file's content decides the split and identifies duplicates, whatever the file is called. `place`
    locates the pixels (`heed.data.pictures.decode`); like `origin` it is ignored when pictures are compared. These
    objects are always kept in memory, the pixels are not.
    """

    unit, groups = "picture", "digest"
    roles: ClassVar = {"digest": Role("picture"), "label": LABEL}

    digest: str
    label: str
    place: str = field(compare=False)
    origin: str = field(default="", compare=False)

    @property
    def source(self) -> str:
        return self.origin

    @property
    def labels(self) -> tuple[str, ...]:
        """Its one label."""
        return (self.label,)


@dataclass(frozen=True, slots=True)
class Sentence(Example):
    """A tagging example: words and the tag of each."""

    unit, groups = "sentence", "words"
    roles: ClassVar = {"words": Role("text", " ".join, is_empty=is_blank), "tags": TAGS}

    words: tuple[str, ...]
    tags: tuple[str, ...]
    origin: str = field(default="", compare=False)

    @property
    def keys(self) -> tuple[str, ...]:
        # A word may contain a space, so equal texts may have other words: these are compared with the tags.
        return " ".join(self.words), "\0".join((*self.words, *self.tags))


@dataclass(frozen=True, slots=True)
class Conversation(Example):
    """A conversation: its turns and their speakers.

    Turns contain no line breaks. `speakers` has an entry for each turn, "" if unknown; it is empty if all are unknown.
    """

    unit, groups = "conversation", "turns"
    roles: ClassVar = {"turns": Role("conversation", "\n".join), "speakers": NAMES}

    turns: tuple[str, ...]
    speakers: tuple[str, ...] = ()
    origin: str = field(default="", compare=False)

    @property
    def source(self) -> str:
        names = [f"{name}: " if name else "" for name in self.speakers or [""] * len(self.turns)]
        return "\n".join(f"{name}{turn}" for name, turn in zip(names, self.turns, strict=True))

    @property
    def truth(self) -> str:
        return "\n".join(self.turns[1:])

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


def spelt_alike(counts: Mapping[str, int]) -> list[dict[str, int]]:
    """Groups of labels that differ only in case, spaces or underscores, or that are the same number, as 01 and 1."""
    groups: dict[object, dict[str, int]] = {}
    for label, count in counts.items():
        number = Decimal(label.replace(",", ".")) if re.fullmatch(r"[-+]?\d+(?:[.,]\d+)?", label) else None
        key = " ".join(label.casefold().replace("_", " ").split()) if number is None else number
        groups.setdefault(key, {})[label] = count
    return [group for group in groups.values() if len(group) > 1]


_ENDS = re.compile(  # group 1: the first character of the next sentence
    r"(?<=[.!?\u2026])[\"'\u201d\u2019)\]]*\s+(?=[\"'\u201c\u2018(\[]*([^\W_]))"  # "... it." He | end! (Then
    r"|(?<=[\u3002\uff01\uff1f\u0964\u06d4\u061f\u1362])\s*"  # full stops of scripts without spaces or capitals
)
_NO_END = re.compile(r"(?:\b(?:mr|mrs|ms|dr|prof|st|vs|etc|no|jr|sr|inc|e\.g|i\.e)|\b[A-Z])\.$", re.IGNORECASE)


_FILLED = re.compile(r"\S(?:.*\S)?", re.DOTALL)


def split_sentences(text: str, separator: str | None = None) -> list[tuple[int, int]]:
    """The spans `(start, end)` of the sentences of a document, in order, none blank.

    Without a separator, texts are cut at line breaks and `<br />`; after . ! ? ... followed by spaces and a letter or
    digit that is not lowercase, except after an initial or a common abbreviation; and after the full stops of Chinese,
    Japanese, Hindi, Urdu, Arabic and Amharic.
    """
    breaks = _BREAKS if separator is None else re.compile(re.escape(separator))
    edges = [0, *chain.from_iterable(match.span() for match in breaks.finditer(text)), len(text)]
    spans: Iterable[Span] = zip(edges[::2], edges[1::2], strict=True)
    if separator is None:
        spans = chain.from_iterable(_within(text, start, end) for start, end in spans)
    return [match.span() for start, end in spans if (match := _FILLED.search(text, start, end)) is not None]


def _within(text: str, start: int, end: int) -> list[tuple[int, int]]:
    """The sentences between two breaks."""
    spans = []
    begin = start
    for match in _ENDS.finditer(text, start, end):
        if match.end() == begin or (match[1] or "").islower() or _NO_END.search(text[begin : match.start()]):
            continue
        spans.append((begin, match.end()))
        begin = match.end()
    return [*spans, (begin, end)]


T = TypeVar("T")
CHUNK = 1_000
"""Items made at once when iterating."""


class Lazy(Sequence[T]):
    """A sequence whose items are made on access."""

    @abstractmethod
    def take(self, indices: Sequence[int]) -> list[T]:
        """The items at these indices (not negative)."""

    def select(self, indices: Sequence[int] | NDArray[Any]) -> Sequence[T]:
        """The items at these indices as a sequence, lazy where possible."""
        return self.take(indices)  # type: ignore[arg-type]  # an array of integers does as well

    @overload
    def __getitem__(self, index: int) -> T: ...

    @overload
    def __getitem__(self, index: slice) -> list[T]: ...

    def __getitem__(self, index: int | slice) -> T | list[T]:
        places = range(len(self))[index]
        return self.take([places])[0] if isinstance(places, int) else self.take(places)

    def __iter__(self) -> Iterator[T]:
        return chain.from_iterable(in_turn(self))


Hashes = NDArray[np.uint64]
"""`(texts,)` or `(examples, fields)`; two different texts have equal hashes with probability 2 ** -64."""


def hashes_of(texts: Iterable[bytes]) -> Hashes:
    """The hash of each text in UTF-8."""
    every = list(texts)
    digests = {text: hashlib.blake2b(text, digest_size=8).digest() for text in set(every)}
    return np.frombuffer(b"".join(map(digests.__getitem__, every)), dtype=">u8").astype(np.uint64)


class HashedExamples(Lazy[T]):
    """Lazy examples that have the hashes and label sets by which they are split."""

    @property
    @abstractmethod
    def hashes(self) -> Hashes:
        """The hash of every field, `(examples, fields)`."""

    @property
    @abstractmethod
    def label_sets(self) -> tuple[list[LabelSet], NDArray[np.int64]]:
        """The label sets, and the number of each example's."""


def take(items: Sequence[T], indices: Sequence[int]) -> list[T]:
    """The items at these indices, made together if lazy."""
    return items.take(indices) if isinstance(items, Lazy) else [items[i] for i in indices]


def select(items: Sequence[T], indices: Sequence[int] | NDArray[Any]) -> Sequence[T]:
    """The items at these indices as a sequence; stored ones stay on disk."""
    return items.select(indices) if isinstance(items, Lazy) else [items[i] for i in indices]


def evenly(items: Sequence[T], count: int) -> Sequence[T]:
    """`count` of the items, evenly chosen, in their order; all of them if there are no more."""
    return items if count >= len(items) else select(items, [n * len(items) // count for n in range(count)])


def in_turn(items: Sequence[T], together: int | None = None) -> Iterator[list[T]]:
    """All items in chunks of `together`."""
    step = together or CHUNK
    return (take(items, range(start, min(start + step, len(items)))) for start in range(0, len(items), step))


STEP = np.uint64(0x9E3779B97F4A7C15)
"""An odd number without a pattern in its bits."""
_FACTORS = np.uint64(0xBF58476D1CE4E5B9), np.uint64(0x94D049BB133111EB)


def mixed(values: NDArray[np.uint64]) -> NDArray[np.uint64]:
    """A hash of each number; arithmetic is modulo 2 ** 64.

    Source: Steele et al. 2014, Fast splittable pseudorandom number generators (SplitMix64: its step and its finaliser).
    """
    values = (values ^ (values >> np.uint64(30))) * _FACTORS[0]
    values = (values ^ (values >> np.uint64(27))) * _FACTORS[1]
    return values ^ (values >> np.uint64(31))
