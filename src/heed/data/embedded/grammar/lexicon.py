"""The words of the grammar, read from `lexicon.yaml`, where comments explain each list."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any

import yaml
from pydantic import BaseModel, BeforeValidator, ConfigDict


def _words(value: Any) -> Any:
    return tuple(value.split()) if isinstance(value, str) else value


Words = Annotated[tuple[str, ...], BeforeValidator(_words)]
"""A list, or a string of words separated by spaces."""


class _Entry(BaseModel):
    model_config = ConfigDict(frozen=True, extra="forbid")


class _Translated(_Entry):
    en: Words
    es: Words
    de: Words
    hi: Words


class Noun(_Translated):
    """A noun, and the English pronoun of a person."""

    pronoun: str = ""


class Adjective(_Entry):
    """An adjective, named by its English word."""

    es: Words
    de: str
    hi: Words
    estar: bool = False
    absolute: bool = False


class Verb(_Translated):
    """A verb, and the groups of nouns that can be its subject and object."""

    particle: bool = False
    present: Words = ()
    was: Words = ()
    being: bool = False
    dative: bool = False
    fixed: Words = ()
    completed: str = ""
    possessive: bool = False
    held: bool = False
    affects: bool = False
    subjects: Words = ()
    objects: Words = ()
    gifts: Words = ()
    tenses: Words = ("past", "perfect", "progressive", "wants", "can")
    definite: bool = False


class Thinking(_Entry):
    """A verb before "that", in the present tense."""

    en: Words
    es: Words
    de: Words
    hi: str


class Preposition(_Translated):
    """A preposition, or "home" alone."""

    es_living: Words = ()


class Time(_Entry):
    """A time expression, and its tenses."""

    es: Words
    de: Words
    hi: Words
    tenses: Words


class SamePair(_Entry):
    """Two successive verbs with the same object."""

    verbs: tuple[str, str]
    objects: Words


class ObjectReason(_Entry):
    """Adjectives of objects that are reasons not to do an action."""

    verb: str
    objects: Words
    adjectives: Words


class Reasons(_Entry):
    """Reasons why something was not done, in the subject or in the object."""

    subject: Words
    object: list[ObjectReason]


class Lexicon(_Entry):
    """The whole file."""

    nouns: dict[str, Noun]
    groups: dict[str, Words]
    adjectives: dict[str, Adjective]
    attributes: dict[str, Words]
    states: dict[str, Words]
    verbs: dict[str, Verb]
    thoughts: dict[str, Thinking]
    prepositions: dict[str, Preposition]
    times: dict[str, Time]
    places: dict[str, dict[str, Words]]
    pairs: list[SamePair]
    reasons: Reasons

    def members(self, names: Words) -> list[str]:
        """The distinct nouns of these groups, and these nouns themselves."""
        nouns = [noun for name in names for noun in self.groups.get(name, (name,))]
        return list(dict.fromkeys(nouns))

    def said_of(self, table: dict[str, Words], noun: str) -> list[str]:
        """The distinct adjectives that a table has for a noun or its groups."""
        groups = [name for name in table if name == noun or noun in self.groups.get(name, ())]
        return list(dict.fromkeys(adjective for name in groups for adjective in table[name]))


LEXICON = Lexicon.model_validate(yaml.safe_load((Path(__file__).parent / "lexicon.yaml").read_text(encoding="utf-8")))
