"""Writes a meaning in Spanish.

Adjectives follow their noun and agree with it; "I", "we" and "it" are expressed by the verb alone; people and definite
animals as objects take `a`; the recipient is doubled (le dio el libro al niño); a question begins with its verb.
"""

from __future__ import annotations

from collections.abc import Sequence

from heed.data.embedded.grammar.lexicon import LEXICON, Verb
from heed.data.embedded.grammar.meaning import Clause, Phrase, Place, Sentence, State, marks_object
from heed.data.embedded.grammar.words import Word, say

_ARTICLES = {"m": ("el", "los"), "f": ("la", "las")}
_CONTRACTED = {("de", "el"): "del", ("a", "el"): "al"}
_SUBJECTS = {"I": (), "we": (), "it": (), "he": ("él",), "she": ("ella",), "they": ("ellos",)}
_RECIPIENTS = {"I": "me", "we": "nos"}
_REFLEXIVES = ("me", "se", "nos", "se")
_AUXILIARIES = {
    "perfect": ("he", "ha", "hemos", "han"),
    "progressive": ("estoy", "está", "estamos", "están"),
    "wants": ("quiero", "quiere", "queremos", "quieren"),
    "can": ("puedo", "puede", "podemos", "pueden"),
}
_WAS = ("estaba", "estaba", "estábamos", "estaban")
_BE = {  # by (a passing state, past)
    (False, False): ("soy", "es", "somos", "son"),
    (False, True): ("era", "era", "éramos", "eran"),
    (True, False): _AUXILIARIES["progressive"],
    (True, True): _WAS,
}


def write(sentence: Sentence) -> list[Word]:
    """The words of a sentence."""
    words: list[Word] = []
    if sentence.time:
        words += say(LEXICON.times[sentence.time].es, "time")
    if sentence.thought is not None:
        thought = sentence.thought
        verb = LEXICON.thoughts[thought.verb].es[thought.subject.verb_form]
        subject = _subject(thought.subject, "thought.subject")
        said = say([verb], "thought.verb")
        words += [*subject, *(said if subject else _carry(said, "thought.subject")), Word("que", ("that",))]
    main = sentence.main
    words += _state(main, "main") if isinstance(main, State) else _clause(main, "main", sentence.question)
    if sentence.also is not None:
        words += [Word("y", ("and",)), *_verb_and_rest(sentence.also, "also", [])]
    if sentence.because is not None:
        words += [Word("porque", ("because",)), *_state(sentence.because, "because", said=False)]
    if sentence.question:
        return [Word("¿", ("end",)), *words, Word("?", ("end",))]
    return [*words, Word(".", ("end",))]


def _gender(phrase: Phrase) -> str:
    """The gender "m" or "f"; of pronouns without a noun, that of the pronoun."""
    if phrase.noun:
        return LEXICON.nouns[phrase.noun].es[1]
    return "f" if phrase.pronoun == "she" else "m"


def _pluralize(word: str) -> str:
    """The plural by rule: gato, gatos; pared, paredes."""
    return word + ("s" if word[-1] in "aeiouáéíóú" else "es")


def _agree(adjective: Sequence[str], gender: str, plural: bool) -> str:
    """The form of an adjective, given its masculine singular and, if irregular, its plural."""
    singular, *plurals = adjective
    if plural and plurals:
        return plurals[0]
    form = singular[:-1] + "a" if gender == "f" and singular.endswith("o") else singular
    return _pluralize(form) if plural else form


def _phrase(phrase: Phrase, part: str) -> list[Word]:
    noun, kind, *plurals = LEXICON.nouns[phrase.noun].es
    if phrase.determiner == "the":
        article = _ARTICLES[kind][phrase.plural]
        if noun == "agua" and not phrase.plural:
            article = "el"  # before a stressed a, though feminine
    elif phrase.determiner == "a":
        article = "una" if kind == "f" else "un"
    else:
        article = {"my": "mis" if phrase.plural else "mi", "two": "dos"}[phrase.determiner]
    if phrase.plural:
        noun = plurals[0] if plurals else _pluralize(noun)
    words = [Word(article, (f"{part}.determiner",)), Word(noun, (part,))]
    if phrase.adjective:
        adjective = _agree(LEXICON.adjectives[phrase.adjective].es, kind, phrase.plural)
        words.append(Word(adjective, (f"{part}.adjective",)))
    return words


def _after(prepositions: Sequence[Word], phrase: list[Word]) -> list[Word]:
    """Prepositions and a phrase, contracted where required: de + el = del."""
    *before, last = prepositions
    article, *rest = phrase
    both = _CONTRACTED.get((last.text, article.text))
    if both is None:
        return [*prepositions, *phrase]
    return [*before, Word(both, (*article.says, *last.says)), *rest]


def _subject(phrase: Phrase, part: str, said: bool = True, imperfect: bool = False) -> list[Word]:
    """The subject; no word for an omitted pronoun, or one that the verb expresses (except in `yo estaba`)."""
    if not phrase.pronoun:
        return _phrase(phrase, part)
    if phrase.pronoun == "I" and imperfect:
        return [Word("yo", (part,))]  # he and I have the same form
    return say(_SUBJECTS[phrase.pronoun] if said else (), part)


def _carry(verb: list[Word], part: str) -> list[Word]:
    """The verb, whose finite form also expresses a subject without a separate word."""
    return [Word(verb[0].text, (*verb[0].says, part)), *verb[1:]]


def _state(state: State, part: str, said: bool = True) -> list[Word]:
    adjective = LEXICON.adjectives[state.adjective]
    subject = _subject(state.subject, f"{part}.subject", said, imperfect=state.past)
    be = say([_BE[adjective.estar, state.past][state.subject.verb_form]], f"{part}.be")
    words = [*subject, *(be if subject else _carry(be, f"{part}.subject"))]
    if state.degree:
        words.append(Word({"very": "muy", "too": "demasiado"}[state.degree], (f"{part}.degree",)))
    form = _agree(adjective.es, _gender(state.subject), state.subject.plural)
    return [*words, Word(form, (f"{part}.state",))]


def _clause(clause: Clause, part: str, question: bool) -> list[Word]:
    subject = _subject(clause.subject, f"{part}.subject", imperfect=bool(LEXICON.verbs[clause.verb].was))
    if question:
        return _verb_and_rest(clause, part, subject)
    return [*subject, *_verb_and_rest(clause, part, [])]


def _verb_and_rest(clause: Clause, part: str, subject_after: list[Word]) -> list[Word]:
    words = say(["no"] if clause.negated else [], f"{part}.not")
    words += _clitics(clause, part)
    words += _verb(clause, part)
    words += subject_after
    if clause.object is not None and not clause.object.pronoun:
        phrase = _phrase(clause.object, f"{part}.object")
        marked = marks_object(clause)
        words += _after([Word("a", (f"{part}.object",))], phrase) if marked else phrase
    if clause.recipient is not None and not clause.recipient.pronoun:
        recipient = f"{part}.recipient"
        words += _after([Word("a", (recipient,))], _phrase(clause.recipient, recipient))
    if clause.place is not None:
        words += _place(clause.place, f"{part}.place")
    return words


def _clitics(clause: Clause, part: str) -> list[Word]:
    """The clitic pronouns before the verb, for an object pronoun and for every recipient."""
    words = []
    if clause.recipient is not None:
        to = clause.recipient
        words.append(Word(_RECIPIENTS.get(to.pronoun, "les" if to.plural else "le"), (f"{part}.recipient",)))
    if clause.object is not None and clause.object.pronoun:
        weak = {"m": ("lo", "los"), "f": ("la", "las")}[_gender(clause.object)][clause.object.plural]
        words.append(Word(weak, (f"{part}.object",)))
    return words


def _conjugate(verb: Verb) -> tuple[str, str, tuple[str, ...]]:
    """Participle, gerund and the past of I, he, we and they; by rule if only the infinitive is given."""
    if len(verb.es) > 1:
        return verb.es[1], verb.es[2], verb.es[3:]
    stem, ending = verb.es[0][:-2], verb.es[0][-2:]
    if ending == "ar":
        return stem + "ado", stem + "ando", tuple(stem + end for end in ("é", "ó", "amos", "aron"))
    return stem + "ido", stem + "iendo", tuple(stem + end for end in ("í", "ió", "imos", "ieron"))


def _verb(clause: Clause, part: str) -> list[Word]:
    verb, form = LEXICON.verbs[clause.verb], clause.subject.verb_form
    participle, gerund, past = _conjugate(verb)
    auxiliary, said = f"{part}.auxiliary", f"{part}.verb"
    if verb.was:  # estaba acostada
        agreed = [_agree(verb.was, _gender(clause.subject), clause.subject.plural)]
        words = say([_WAS[form], *(verb.was if len(verb.was) > 1 else agreed)], said)
    elif clause.tense == "past":
        words = say([past[form]], said)
    elif clause.tense == "progressive" and verb.present:
        words = say([verb.present[form]], said, auxiliary)
    else:
        main = {"perfect": participle, "progressive": gerund}.get(clause.tense, verb.es[0])
        words = [Word(_AUXILIARIES[clause.tense][form], (auxiliary,)), Word(main, (said,))]
    if clause.subject.speaks and not (verb.was and clause.subject.pronoun == "I"):
        words = _carry(words, f"{part}.subject")
    if verb.es[0].endswith("se"):
        words = [Word(_REFLEXIVES[form], (said,)), *words]
    return words


def _place(place: Place, part: str) -> list[Word]:
    entry = LEXICON.prepositions[place.preposition]
    if place.ground is None:
        return say(entry.es, part)
    living = place.ground.kind != "thing" and entry.es_living
    return _after(say(living or entry.es, part), _phrase(place.ground, f"{part}.ground"))
