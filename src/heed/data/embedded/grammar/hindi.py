"""Romanised Hindi.

The verb is last, its auxiliary after it; postpositions follow oblique nouns. The subject of a transitive verb takes
`ne` in the past and the perfect; the verb then agrees with the object, or with nothing if the object is marked by `ko`.
Otherwise the verb agrees with the subject; `main` and `ham` are masculine. "The" has no counterpart.
"""

from __future__ import annotations

from collections.abc import Sequence

from heed.data.embedded.grammar.language import Language, Word, say
from heed.data.embedded.grammar.meaning import LEXICON, Clause, Phrase, Place, State, Thought

_DIRECT = {"I": "main", "we": "ham", "they": "ve", "": "vah"}  # "": all others
_ERGATIVE = {"I": "maine", "we": "hamne", "they": "unhone", "": "usne"}
_DATIVE = {"I": "mujhe", "we": "hamen", "they": "unhen", "": "use"}
_AM = ("hoon", "hai", "hain", "hain")

Agreement = tuple[str, bool]
"""Gender, and True for plural."""


class Hindi(Language):
    """Writes a meaning in romanised Hindi."""

    code = "hi"
    conjunctions = ("aur", "ki", "kyonki")
    degrees = {"very": "bahut", "too": "bahut"}  # noqa: RUF012
    question = ("kya",)

    def thought(self, thought: Thought) -> list[Word]:
        subject = thought.subject
        verb = _inflect(LEXICON.thoughts[thought.verb]["hi"][0], self._agreement(subject))
        return [*self.subject(subject, "thought.subject"), *say([verb, _AM[subject.verb_form]], "thought.verb")]

    def _agreement(self, phrase: Phrase) -> Agreement:
        """Gender and number of a phrase, with which a verb or an adjective agrees."""
        return self.gender(phrase), phrase.plural

    def _phrase(self, phrase: Phrase, part: str, oblique: bool) -> list[Word]:
        taken = self._agreement(phrase)
        determiner = {"the": [], "a": ["ek"], "two": ["do"], "my": [_inflect("mera", taken, oblique)]}
        words = say(determiner[phrase.determiner], f"{part}.determiner")
        if phrase.adjective:
            both = LEXICON.adjectives[phrase.adjective]["hi"]
            words += say([_inflect(word, taken, oblique) for word in both], f"{part}.adjective")
        return [*words, Word(_decline(LEXICON.nouns[phrase.noun]["hi"], phrase.plural, oblique), (part,))]

    def subject(self, phrase: Phrase, part: str) -> list[Word]:
        return say([_pronoun(_DIRECT, phrase)], part) if phrase.pronoun else self._phrase(phrase, part, oblique=False)

    def state(self, state: State, part: str) -> list[Word]:
        taken = self._agreement(state.subject)
        adjective = [_inflect(word, taken) for word in LEXICON.adjectives[state.adjective]["hi"]]
        be = _was(taken) if state.past else _AM[state.subject.verb_form]
        words = [*self.subject(state.subject, f"{part}.subject"), *self.degree(state, part)]
        return [*words, *say(adjective, f"{part}.state"), Word(be, (f"{part}.be",))]

    def clause(self, clause: Clause, part: str, question: bool) -> list[Word]:
        words = self._doer(clause, f"{part}.subject")
        if clause.place is not None:
            words += self._place(clause.place, f"{part}.place")
        if clause.recipient is not None:
            words += self._marked(clause.recipient, f"{part}.recipient", _DATIVE, "ko")
        return [*words, *self._object(clause, f"{part}.object"), *self._verb(clause, part)]

    def second(self, clause: Clause, part: str) -> list[Word]:
        words, verb = self._object(clause, f"{part}.object"), LEXICON.verbs[clause.verb]
        if not verb["completed"]:
            return [*words, *self._verb(clause, part)]
        completed = _inflect(verb["completed"][0], self._verb_agreement(clause))  # kha liya
        return [*words, *say([*verb["fixed"][:1], verb["hi"][0], completed], f"{part}.verb")]

    def _doer(self, clause: Clause, part: str) -> list[Word]:
        if _takes_ne(clause):
            return self._marked(clause.subject, part, _ERGATIVE, "ne")
        return self.subject(clause.subject, part)

    def _marked(self, phrase: Phrase, part: str, pronouns: dict[str, str], postposition: str) -> list[Word]:
        """A phrase with `ne` or `ko`."""
        if phrase.pronoun:
            return [Word(_pronoun(pronouns, phrase), (part,))]
        return [*self._phrase(phrase, part, oblique=True), Word(postposition, (part,))]

    def _object(self, clause: Clause, part: str) -> list[Word]:
        verb, phrase = LEXICON.verbs[clause.verb], clause.object
        if phrase is None:
            return []
        if verb["possessive"]:
            of = _inflect("ka", (verb["fixed"][1], False))
            pronoun = ("un" if phrase.plural else "us") + of
            return self._marked(phrase, part, {"they": pronoun, "": pronoun}, of)
        if phrase.pronoun or clause.marks_object:
            return self._marked(phrase, part, _DATIVE, "ko")
        return self._phrase(phrase, part, oblique=False)

    def _verb_agreement(self, clause: Clause) -> Agreement:
        """Agreement of the verb: with the subject; with `ne`, with an unmarked object, or masculine singular."""
        verb, thing = LEXICON.verbs[clause.verb], clause.object
        if thing is None or not _takes_ne(clause):
            return self._agreement(clause.subject)
        if verb["possessive"]:
            return verb["fixed"][1], False
        return ("m", False) if thing.pronoun or clause.marks_object else self._agreement(thing)

    def _verb(self, clause: Clause, part: str) -> list[Word]:
        verb, taken = LEXICON.verbs[clause.verb], self._verb_agreement(clause)
        stem, perfective = verb["hi"]
        said, auxiliary = f"{part}.verb", f"{part}.auxiliary"
        words = [*say(verb["fixed"][:1], said), *say(["nahin"] if clause.negated else [], f"{part}.not")]
        present, done = _AM[clause.subject.verb_form], _inflect(perfective, taken)
        if clause.tense == "past":
            if verb["held"]:
                return [*words, *say([done, _was(taken)], said)]
            return [*words, Word(done + ("n" if taken == ("f", True) else ""), (said,))]
        if clause.tense == "perfect":
            if _takes_ne(clause):
                present = "hain" if taken[1] else "hai"
            return [*words, Word(done, (said,)), Word(present, (auxiliary,))]
        if clause.tense == "progressive":
            return [*words, *say([stem, _inflect("raha", taken)], said), Word(present, (auxiliary,))]
        main, modal = (f"{stem}na", "chahta") if clause.tense == "wants" else (stem, "sakta")
        return [*words, Word(main, (said,)), *say([_inflect(modal, taken), present], auxiliary)]

    def _place(self, place: Place, part: str) -> list[Word]:
        ground = [] if place.ground is None else self._phrase(place.ground, f"{part}.ground", oblique=True)
        return [*ground, *say(self.words_of(place), part)]


def _takes_ne(clause: Clause) -> bool:
    return clause.tense in ("past", "perfect") and clause.object is not None


def _pronoun(table: dict[str, str], phrase: Phrase) -> str:
    return table.get(phrase.pronoun, table["they" if phrase.plural else ""])


def _was(taken: Agreement) -> str:
    return _inflect("tha", taken) + ("n" if taken == ("f", True) else "")


def _inflect(word: str, agreement: Agreement, oblique: bool = False) -> str:
    """An adjective or participle in -a: bada, bade, badi; others do not change."""
    gender, plural = agreement
    if not word.endswith("a"):
        return word
    if gender == "f":
        return word[:-2] if word.endswith("iya") else word[:-1] + "i"  # diya, di
    return word[:-1] + "e" if plural or oblique else word


def _decline(words: Sequence[str], plural: bool, oblique: bool) -> str:
    """The form of a noun, given its direct singular, its gender and, if irregular, both plurals."""
    noun, gender, *plurals = words
    if plural and plurals:
        return plurals[oblique]
    if gender == "m" and noun.endswith("a"):
        return noun[:-1] + ("on" if plural and oblique else "e" if plural or oblique else "a")
    if not plural or (gender == "m" and not oblique):
        return noun
    if noun.endswith("i"):
        return noun[:-1] + ("iyon" if oblique else "iyan")
    if noun.endswith("iya"):
        return noun[:-1] + ("on" if oblique else "an")
    return noun + ("on" if oblique else "en")
