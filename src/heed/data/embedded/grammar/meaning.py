"""Meanings of sentences, independent of language: who does what to whom, when, where and why."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from heed.data.embedded.grammar.lexicon import LEXICON

Tense = Literal["past", "perfect", "progressive", "wants", "can"]
"""She bought, has bought, is buying, wants to buy, can buy."""

Determiner = Literal["the", "a", "my", "two"]

Degree = Literal["", "very", "too"]


@dataclass(frozen=True, slots=True)
class Phrase:
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


@dataclass(frozen=True, slots=True)
class Place:
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


@dataclass(frozen=True, slots=True)
class State:
    """A state, present or past."""

    subject: Phrase
    adjective: str
    degree: Degree = ""
    past: bool = True


@dataclass(frozen=True, slots=True)
class Thought:
    """The subject knows, thinks or says that the sentence is true."""

    subject: Phrase
    verb: str


@dataclass(frozen=True, slots=True)
class Sentence:
    """The main clause, after a time and a `thought` ("... that"), before a reason or another action (`also`)."""

    main: Clause | State
    time: str = ""
    because: State | None = None
    also: Clause | None = None
    thought: Thought | None = None
    question: bool = False


def marks_object(clause: Clause) -> bool:
    """True if the object is marked, by `a` before it in Spanish and `ko` after it in Hindi: persons, definite animals.

    Goods are not marked (compró un caballo, ghoda khareeda); the objects of chasing, biting or helping always are.
    """
    if clause.object is None or clause.object.kind == "thing" or clause.recipient is not None:
        return False
    if LEXICON.verbs[clause.verb].affects or clause.object.kind == "person":
        return True
    return clause.verb not in ("buy", "sell") and clause.object.determiner in ("the", "my")
