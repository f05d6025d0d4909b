"""Meanings of sentences, independent of language: who does what to whom, when, where and why; and their lexicon."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal, NamedTuple

import yaml

Tense = Literal["past", "perfect", "progressive", "wants", "can"]
"""She bought, has bought, is buying, wants to buy, can buy."""
Determiner = Literal["the", "a", "my", "two"]
Degree = Literal["", "very", "too"]
Words = tuple[str, ...]


class Entry(dict[str, Words]):
    """An entry of the lexicon: each field is words; those that it lacks have none."""

    def __init__(self, fields: Mapping[str, Any]) -> None:
        super().__init__({name: _words(value) for name, value in fields.items()})
        names = [f"{name}-{words[0]}" for name, words in self.items() if len(words) == 1]
        self.features = frozenset((*self, *names))  # such as "possessive" and "possessive-f"

    def __missing__(self, name: str) -> Words:
        return ()

    def __hash__(self) -> int:  # type: ignore[override]
        return id(self)

    def words(self, language: str, otherwise: str = "") -> Words:
        """Its words in a language, or else those of a name."""
        return self[language] if language in self else tuple(otherwise.split())


def _words(value: Any) -> Words:
    """A list, or a string of words separated by spaces; "true" for a flag."""
    return tuple(value) if isinstance(value, list) else tuple(str(value).split())


class Lexicon:
    """The words of `grammar_lexicon.yaml`, where comments explain each list."""

    def __init__(self, content: Mapping[str, Any]) -> None:
        def entries(name: str) -> dict[str, Entry]:
            return {word: Entry(fields) for word, fields in content[name].items()}

        def lists(table: Mapping[str, Any]) -> dict[str, Words]:
            return {word: _words(value) for word, value in table.items()}

        self.nouns, self.adjectives, self.verbs = entries("nouns"), entries("adjectives"), entries("verbs")
        self.thoughts, self.prepositions, self.times = entries("thoughts"), entries("prepositions"), entries("times")
        self.groups, self.attributes, self.states = (lists(content[key]) for key in ("groups", "attributes", "states"))
        self.places = {verb: lists(places) for verb, places in content["places"].items()}
        self.pairs = [Entry(pair) for pair in content["pairs"]]
        self.reasons_in_subject: Words = _words(content["reasons"]["subject"])
        self.reasons_in_object: list[tuple[str, Entry]] = [
            (one["verb"], Entry(one)) for one in content["reasons"]["object"]
        ]

    def members(self, names: Iterable[str]) -> list[str]:
        """The distinct nouns of these groups, and these nouns themselves."""
        return list(dict.fromkeys(noun for name in names for noun in self.groups.get(name, (name,))))

    def said_of(self, table: Mapping[str, Words], noun: str) -> list[str]:
        """The distinct adjectives that a table has for a noun or its groups."""
        groups = [name for name in table if name == noun or noun in self.groups.get(name, ())]
        return list(dict.fromkeys(adjective for name in groups for adjective in table[name]))


LEXICON = Lexicon(yaml.safe_load((Path(__file__).parent / "grammar_lexicon.yaml").read_text(encoding="utf-8")))


class Phrase(NamedTuple):
    """A noun of the lexicon with its determiner and adjective (or ""), or a pronoun (its noun is "" if unknown)."""

    noun: str = ""
    determiner: Determiner = "the"
    adjective: str = ""
    plural: bool = False
    pronoun: str = ""

    @property
    def speaks(self) -> bool:
        """True if the phrase is in the first person."""
        return self.pronoun in ("I", "we")

    @property
    def kind(self) -> Literal["person", "animal", "thing"]:
        """Kind of its referent."""
        if not self.noun or self.noun in LEXICON.groups["people"]:
            return "person"
        return "animal" if self.noun in LEXICON.groups["animals"] else "thing"

    @property
    def verb_form(self) -> int:
        """Index of its form in a verb's list: I, he or she, we, they."""
        return (0 if self.speaks else 1) + (2 if self.plural else 0)


class Place(NamedTuple):
    """A preposition of the lexicon and its noun, or "home" alone."""

    preposition: str
    ground: Phrase | None


@dataclass(frozen=True, slots=True)
class Clause:
    """An action."""

    subject: Phrase
    verb: str
    tense: Tense = "past"
    object: Phrase | None = None
    recipient: Phrase | None = None
    place: Place | None = None
    negated: bool = False

    @property
    def marks_object(self) -> bool:
        """True if the object is marked, by `a` before it in Spanish and `ko` after it in Hindi.

        Persons and definite animals are; goods are not (compró un caballo, ghoda khareeda), and the objects of chasing,
        biting or helping always are.
        """
        if self.object is None or self.object.kind == "thing" or self.recipient is not None:
            return False
        if LEXICON.verbs[self.verb]["affects"] or self.object.kind == "person":
            return True
        return self.verb not in ("buy", "sell") and self.object.determiner in ("the", "my")


@dataclass(frozen=True, slots=True)
class State:
    """A state, present or past."""

    subject: Phrase
    adjective: str
    degree: Degree = ""
    past: bool = True


class Thought(NamedTuple):
    """The subject knows, thinks or says that the sentence is true."""

    subject: Phrase
    verb: str


class Sentence(NamedTuple):
    """The main clause, after a time and a `thought` ("... that"), before a reason or another action (`also`)."""

    main: Clause | State
    time: str = ""
    because: State | None = None
    also: Clause | None = None
    thought: Thought | None = None
    question: bool = False
