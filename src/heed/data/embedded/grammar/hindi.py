"""Writes a meaning in romanised Hindi.

The verb is last, its auxiliary after it; postpositions follow oblique nouns. The subject of a transitive verb takes
`ne` in the past and the perfect; the verb then agrees with the object, or with nothing if the object is marked by `ko`.
Otherwise the verb agrees with the subject; `main` and `ham` are masculine. "The" has no counterpart.
"""

from __future__ import annotations

from collections.abc import Sequence

from heed.data.embedded.grammar.lexicon import LEXICON, Verb
from heed.data.embedded.grammar.meaning import Clause, Phrase, Place, Sentence, State, marks_object
from heed.data.embedded.grammar.words import Word, say

_DIRECT = {"I": "main", "we": "ham", "they": "ve"}  # others: vah
_ERGATIVE = {"I": "maine", "we": "hamne", "they": "unhone"}  # others: usne
_DATIVE = {"I": "mujhe", "we": "hamen", "they": "unhen"}  # others: use
_AM = ("hoon", "hai", "hain", "hain")

Agreement = tuple[str, bool]
"""Gender, and True for plural."""


def write(sentence: Sentence) -> list[Word]:
    """The words of a sentence."""
    words = say(["kya"] if sentence.question else [], "end")
    if sentence.time:
        words += say(LEXICON.times[sentence.time].hi, "time")
    if sentence.thought is not None:
        subject = sentence.thought.subject
        words += _subject(subject, "thought.subject")
        verb = _inflect(LEXICON.thoughts[sentence.thought.verb].hi, _agreement(subject))
        words += [*say([verb, _AM[subject.verb_form]], "thought.verb"), Word("ki", ("that",))]
    main = sentence.main
    words += _state(main, "main") if isinstance(main, State) else _clause(main, "main")
    if sentence.also is not None:
        words += [Word("aur", ("and",)), *_object(sentence.also, "also"), *_completed(sentence.also, "also")]
    if sentence.because is not None:
        words += [Word("kyonki", ("because",)), *_state(sentence.because, "because")]
    return [*words, Word("?" if sentence.question else ".", ("end",))]


def _agreement(phrase: Phrase) -> Agreement:
    """Gender and number of a phrase, with which a verb or an adjective agrees."""
    if phrase.noun:
        return LEXICON.nouns[phrase.noun].hi[1], phrase.plural
    return "f" if phrase.pronoun == "she" else "m", phrase.plural


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
    if not plural:
        return noun
    if gender == "m" and not oblique:
        return noun
    if noun.endswith("i"):
        return noun[:-1] + ("iyon" if oblique else "iyan")
    if noun.endswith("iya"):
        return noun[:-1] + ("on" if oblique else "an")
    return noun + ("on" if oblique else "en")


def _phrase(phrase: Phrase, part: str, oblique: bool) -> list[Word]:
    entry = LEXICON.nouns[phrase.noun].hi
    taken = _agreement(phrase)
    determiner = {"the": "", "a": "ek", "two": "do", "my": _inflect("mera", taken, oblique)}[phrase.determiner]
    words = say([determiner] if determiner else [], f"{part}.determiner")
    if phrase.adjective:
        adjective = [_inflect(word, taken, oblique) for word in LEXICON.adjectives[phrase.adjective].hi]
        words += say(adjective, f"{part}.adjective")
    return [*words, Word(_decline(entry, phrase.plural, oblique), (part,))]


def _subject(phrase: Phrase, part: str) -> list[Word]:
    if phrase.pronoun:
        return [Word(_pronoun(_DIRECT, phrase, "vah"), (part,))]
    return _phrase(phrase, part, oblique=False)


def _pronoun(table: dict[str, str], phrase: Phrase, other: str) -> str:
    return table.get(phrase.pronoun, table["they"] if phrase.plural else other)


def _state(state: State, part: str) -> list[Word]:
    taken = _agreement(state.subject)
    words = _subject(state.subject, f"{part}.subject")
    words += say(["bahut"] if state.degree else [], f"{part}.degree")
    words += say([_inflect(word, taken) for word in LEXICON.adjectives[state.adjective].hi], f"{part}.state")
    be = _was(taken) if state.past else _AM[state.subject.verb_form]
    return [*words, Word(be, (f"{part}.be",))]


def _was(taken: Agreement) -> str:
    return _inflect("tha", taken) + ("n" if taken == ("f", True) else "")


def _clause(clause: Clause, part: str) -> list[Word]:
    words = _doer(clause, f"{part}.subject")
    if clause.place is not None:
        words += _place(clause.place, f"{part}.place")
    if clause.recipient is not None:
        words += _to(clause.recipient, f"{part}.recipient")
    if clause.object is not None:
        words += _object(clause, part)
    return [*words, *_verb(clause, part)]


def _takes_ne(clause: Clause) -> bool:
    return clause.tense in ("past", "perfect") and clause.object is not None


def _doer(clause: Clause, part: str) -> list[Word]:
    subject = clause.subject
    if not _takes_ne(clause):
        return _subject(subject, part)
    if subject.pronoun:
        return [Word(_pronoun(_ERGATIVE, subject, "usne"), (part,))]
    return [*_phrase(subject, part, oblique=True), Word("ne", (part,))]


def _to(phrase: Phrase, part: str) -> list[Word]:
    """A phrase with `ko`."""
    if phrase.pronoun:
        return [Word(_pronoun(_DATIVE, phrase, "use"), (part,))]
    return [*_phrase(phrase, part, oblique=True), Word("ko", (part,))]


def _object(clause: Clause, part: str) -> list[Word]:
    assert clause.object is not None
    verb, phrase, part = LEXICON.verbs[clause.verb], clause.object, f"{part}.object"
    if verb.possessive:
        of = _inflect("ka", (verb.fixed[1], False))
        if phrase.pronoun:
            return [Word(("un" if phrase.plural else "us") + of, (part,))]
        return [*_phrase(phrase, part, oblique=True), Word(of, (part,))]
    if phrase.pronoun or marks_object(clause):
        return _to(phrase, part)
    return _phrase(phrase, part, oblique=False)


def _verb_agreement(clause: Clause) -> Agreement:
    """Agreement of the verb: with the subject; with `ne`, with an unmarked object, or masculine singular."""
    verb = LEXICON.verbs[clause.verb]
    if not _takes_ne(clause):
        return _agreement(clause.subject)
    assert clause.object is not None
    if verb.possessive:
        return verb.fixed[1], False
    if clause.object.pronoun or marks_object(clause):
        return "m", False
    return _agreement(clause.object)


def _fixed(verb: Verb, part: str) -> list[Word]:
    return say(verb.fixed[:1], f"{part}.verb")


def _verb(clause: Clause, part: str) -> list[Word]:
    verb = LEXICON.verbs[clause.verb]
    stem, perfective = verb.hi
    taken = _verb_agreement(clause)
    plural_women = taken == ("f", True)
    said, auxiliary = f"{part}.verb", f"{part}.auxiliary"
    words = [*_fixed(verb, part), *say(["nahin"] if clause.negated else [], f"{part}.not")]
    present = _AM[clause.subject.verb_form]
    if clause.tense == "past":
        done = _inflect(perfective, taken)
        if verb.held:
            return [*words, *say([done, _was(taken)], said)]
        return [*words, Word(done + ("n" if plural_women else ""), (said,))]
    if clause.tense == "perfect":
        if _takes_ne(clause):
            present = "hain" if taken[1] else "hai"
        return [*words, Word(_inflect(perfective, taken), (said,)), Word(present, (auxiliary,))]
    if clause.tense == "progressive":
        return [*words, *say([stem, _inflect("raha", taken)], said), Word(present, (auxiliary,))]
    if clause.tense == "wants":
        wants = [_inflect("chahta", taken), present]
        return [*words, Word(stem + "na", (said,)), *say(wants, auxiliary)]
    return [*words, Word(stem, (said,)), *say([_inflect("sakta", taken), present], auxiliary)]


def _completed(clause: Clause, part: str) -> list[Word]:
    """The second verb on the same object, in its completed form if it has one: kha liya."""
    verb = LEXICON.verbs[clause.verb]
    if not verb.completed:
        return _verb(clause, part)
    return [*_fixed(verb, part), *say([verb.hi[0], _inflect(verb.completed, _verb_agreement(clause))], f"{part}.verb")]


def _place(place: Place, part: str) -> list[Word]:
    entry = LEXICON.prepositions[place.preposition].hi
    if place.ground is None:
        return say(entry, part)
    return [*_phrase(place.ground, f"{part}.ground", oblique=True), *say(entry, part)]
