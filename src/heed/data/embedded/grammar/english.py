"""Writes a meaning in English."""

from __future__ import annotations

from heed.data.embedded.grammar.lexicon import LEXICON
from heed.data.embedded.grammar.meaning import Clause, Phrase, Place, Sentence, State
from heed.data.embedded.grammar.words import Word, say

_OBJECT_PRONOUNS = {"I": "me", "we": "us", "he": "him", "she": "her", "it": "it", "they": "them"}
_BE_PRESENT = ("am", "is", "are", "are")
_BE_PAST = ("was", "was", "were", "were")


def write(sentence: Sentence) -> list[Word]:
    """The words of a sentence."""
    words: list[Word] = []
    if sentence.time:
        words += say(sentence.time.split(), "time")
    if sentence.thought is not None:
        thought = sentence.thought
        verb = LEXICON.thoughts[thought.verb].en[0 if thought.subject.verb_form == 0 else 1]
        words += [*_phrase(thought.subject, "thought.subject"), Word(verb, ("thought.verb",)), Word("that", ("that",))]
    main = sentence.main
    words += _state(main, "main") if isinstance(main, State) else _clause(main, "main", sentence.question)
    if sentence.also is not None:
        words += [Word("and", ("and",)), *_verb_and_rest(sentence.also, "also")]
    if sentence.because is not None:
        words += [Word("because", ("because",)), *_state(sentence.because, "because")]
    return [*words, Word("?" if sentence.question else ".", ("end",))]


def _phrase(phrase: Phrase, part: str, as_object: bool = False) -> list[Word]:
    if phrase.pronoun:
        return [Word(_OBJECT_PRONOUNS[phrase.pronoun] if as_object else phrase.pronoun, (part,))]
    forms = LEXICON.nouns[phrase.noun].en
    noun = forms[1] if phrase.plural else forms[0]
    follows = phrase.adjective or noun
    article = "an" if phrase.determiner == "a" and follows[0] in "aeiou" else phrase.determiner
    words = [Word(article, (f"{part}.determiner",))]
    if phrase.adjective:
        words.append(Word(phrase.adjective, (f"{part}.adjective",)))
    return [*words, Word(noun, (part,))]


def _state(state: State, part: str) -> list[Word]:
    be = (_BE_PAST if state.past else _BE_PRESENT)[state.subject.verb_form]
    words = [*_phrase(state.subject, f"{part}.subject"), Word(be, (f"{part}.be",))]
    if state.degree:
        words.append(Word(state.degree, (f"{part}.degree",)))
    return [*words, Word(state.adjective, (f"{part}.state",))]


def _clause(clause: Clause, part: str, question: bool) -> list[Word]:
    subject = _phrase(clause.subject, f"{part}.subject")
    auxiliary, *rest = _verb_and_rest(clause, part)
    return [auxiliary, *subject, *rest] if question else [*subject, auxiliary, *rest]


def _verb_and_rest(clause: Clause, part: str) -> list[Word]:
    words = _verb(clause, part)
    if clause.recipient is not None:
        words += _phrase(clause.recipient, f"{part}.recipient", as_object=True)
    if clause.object is not None:
        thing = _phrase(clause.object, f"{part}.object", as_object=True)
        apart = clause.object.pronoun and LEXICON.verbs[clause.verb].particle
        if apart:  # picked it up
            words = [*words[:-1], *thing, Word(words[-1].text, (f"{part}.particle", f"{part}.verb"))]
        else:
            words += thing
    if clause.place is not None:
        words += _place(clause.place, f"{part}.place")
    return words


def _verb(clause: Clause, part: str) -> list[Word]:
    base, past, participle, ing = LEXICON.verbs[clause.verb].en
    form = clause.subject.verb_form
    third = form == 1
    auxiliary, verb = f"{part}.auxiliary", f"{part}.verb"
    if clause.tense == "past" and clause.negated:
        return [Word("did", (auxiliary,)), Word("not", (f"{part}.not",)), *say(base.split(), verb)]
    if clause.tense == "past":
        return say((_BE_PAST[form] if clause.verb == "be" else past).split(), verb)
    if clause.tense == "perfect":
        return [Word("has" if third else "have", (auxiliary,)), *say(participle.split(), verb)]
    if clause.tense == "progressive":
        return [Word(_BE_PRESENT[form], (auxiliary,)), *say(ing.split(), verb)]
    if clause.tense == "wants":
        return [*say(("wants" if third else "want", "to"), auxiliary), *say(base.split(), verb)]
    return [Word("can", (auxiliary,)), *say(base.split(), verb)]


def _place(place: Place, part: str) -> list[Word]:
    preposition = LEXICON.prepositions[place.preposition].en
    if place.ground is None:
        return say(preposition, part)
    return [*say(preposition, part), *_phrase(place.ground, f"{part}.ground")]
