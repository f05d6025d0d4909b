"""Writes a meaning in German.

The finite verb is second in a main clause and last after `dass` and `weil`; participles, infinitives and separated
prefixes are last; articles, adjectives and nouns decline by case, gender and number.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from heed.data.embedded.grammar.lexicon import LEXICON
from heed.data.embedded.grammar.meaning import Clause, Phrase, Place, Sentence, State
from heed.data.embedded.grammar.words import Word, say

Case = Literal["nominative", "accusative", "dative"]

_THE = {
    "nominative": {"m": "der", "f": "die", "n": "das", "plural": "die"},
    "accusative": {"m": "den", "f": "die", "n": "das", "plural": "die"},
    "dative": {"m": "dem", "f": "der", "n": "dem", "plural": "den"},
}
_A_ENDINGS = {  # ein, mein
    "nominative": {"m": "", "f": "e", "n": "", "plural": "e"},
    "accusative": {"m": "en", "f": "e", "n": "", "plural": "e"},
    "dative": {"m": "em", "f": "er", "n": "em", "plural": "en"},
}
_PRONOUNS = {
    "nominative": {"I": "ich", "we": "wir", "m": "er", "f": "sie", "n": "es", "plural": "sie"},
    "accusative": {"I": "mich", "we": "uns", "m": "ihn", "f": "sie", "n": "es", "plural": "sie"},
    "dative": {"I": "mir", "we": "uns", "m": "ihm", "f": "ihr", "n": "ihm", "plural": "ihnen"},
}
_CONTRACTED = {
    ("in", "dem"): "im",
    ("an", "dem"): "am",
    ("zu", "dem"): "zum",
    ("zu", "der"): "zur",
    ("in", "das"): "ins",
}
_BE = {False: ("bin", "ist", "sind", "sind"), True: ("war", "war", "waren", "waren")}
_HAVE = ("habe", "hat", "haben", "haben")
_WANT = ("will", "will", "wollen", "wollen")
_CAN = ("kann", "kann", "können", "können")


@dataclass(frozen=True, slots=True)
class _Verb:
    """The verbs of a clause: the finite verb, the part at the end, and both together in a final position."""

    finite: list[Word]
    end: list[Word]
    last: list[Word]


def write(sentence: Sentence) -> list[Word]:
    """The words of a sentence."""
    end = Word("?" if sentence.question else ".", ("end",))
    main = sentence.main
    if sentence.thought is not None:
        thought = sentence.thought
        verb = LEXICON.thoughts[thought.verb].de[thought.subject.verb_form]
        words = [*_phrase(thought.subject, "thought.subject", "nominative"), Word(verb, ("thought.verb",))]
        words += [Word(","), Word("dass", ("that",))]
        return [*words, *(_state(main, "main", []) if isinstance(main, State) else _final(main)), end]
    first = say(LEXICON.times[sentence.time].de, "time") if sentence.time else []
    if isinstance(main, State):
        words = _state(main, "main", first, final=False)
    else:
        words = _second(main, first, sentence.question)
    if sentence.also is not None:
        second = _verb(sentence.also, "also")
        words += [Word("und", ("and",)), *second.finite, *_middle(sentence.also, "also"), *second.end]
    if sentence.because is not None:
        words += [Word(","), Word("weil", ("because",)), *_state(sentence.because, "because", [])]
    return [*words, end]


def _gender(phrase: Phrase) -> str:
    """Column of the tables: "m", "f", "n" or "plural"; a pronoun of a person has the person's gender."""
    if phrase.plural:
        return "plural"
    if phrase.pronoun in ("he", "she") or not phrase.noun:
        return "f" if phrase.pronoun == "she" else "m"
    return LEXICON.nouns[phrase.noun].de[1]


def _decline(adjective: str, determiner: str, case: Case, gender: str) -> str:
    """An adjective before its noun: weak after der, mixed after ein and mein, strong after zwei."""
    if gender == "plural":
        ending = "e" if determiner == "two" and case != "dative" else "en"
    elif case == "dative" or (case == "accusative" and gender == "m"):
        ending = "en"
    elif determiner == "the":
        ending = "e"
    else:
        ending = {"m": "er", "f": "e", "n": "es"}[gender]
    return adjective.removesuffix("e") + ending


def _phrase(phrase: Phrase, part: str, case: Case) -> list[Word]:
    kind = _gender(phrase)
    if phrase.pronoun:
        return [Word(_PRONOUNS[case].get(phrase.pronoun) or _PRONOUNS[case][kind], (part,))]
    singular, _, plural, *weak = LEXICON.nouns[phrase.noun].de
    noun = plural if phrase.plural or (weak and case != "nominative") else singular
    if phrase.plural and case == "dative" and noun[-1] not in "ns":
        noun += "n"
    if phrase.determiner == "the":
        article = _THE[case][kind]
    elif phrase.determiner == "two":
        article = "zwei"
    else:
        article = {"a": "ein", "my": "mein"}[phrase.determiner] + _A_ENDINGS[case][kind]
    words = [Word(article, (f"{part}.determiner",))]
    if phrase.adjective:
        adjective = _decline(LEXICON.adjectives[phrase.adjective].de, phrase.determiner, case, kind)
        words.append(Word(adjective, (f"{part}.adjective",)))
    return [*words, Word(noun, (part,))]


def _state(state: State, part: str, first: list[Word], final: bool = True) -> list[Word]:
    subject = _phrase(state.subject, f"{part}.subject", "nominative")
    be = [Word(_BE[state.past][state.subject.verb_form], (f"{part}.be",))]
    rest = say([{"very": "sehr", "too": "zu"}[state.degree]] if state.degree else [], f"{part}.degree")
    rest.append(Word(LEXICON.adjectives[state.adjective].de, (f"{part}.state",)))
    if final:
        return [*subject, *rest, *be]
    return [*first, *be, *subject, *rest] if first else [*subject, *be, *rest]


def _second(clause: Clause, first: list[Word], question: bool) -> list[Word]:
    subject = _phrase(clause.subject, "main.subject", "nominative")
    verb = _verb(clause, "main")
    if question or first:
        begin = [*first, *verb.finite, *subject]
    else:
        begin = [*subject, *verb.finite]
    return [*begin, *_middle(clause, "main"), *verb.end]


def _final(clause: Clause) -> list[Word]:
    subject = _phrase(clause.subject, "main.subject", "nominative")
    return [*subject, *_middle(clause, "main"), *_verb(clause, "main").last]


def _middle(clause: Clause, part: str) -> list[Word]:
    words: list[Word] = []
    if clause.recipient is not None:
        words += _phrase(clause.recipient, f"{part}.recipient", "dative")
    if clause.object is not None:
        case: Case = "dative" if LEXICON.verbs[clause.verb].dative else "accusative"
        words += _phrase(clause.object, f"{part}.object", case)
    if clause.place is not None:
        words += _place(clause.place, f"{part}.place")
    return [*words, *say(["nicht"] if clause.negated else [], f"{part}.not")]


def _verb(clause: Clause, part: str) -> _Verb:
    entry, form = LEXICON.verbs[clause.verb], clause.subject.verb_form
    infinitive, past, participle, i, he = entry.de
    prefix, _, simple = infinitive.rpartition("|")
    infinitive = prefix + simple
    said, auxiliary = [f"{part}.verb"], f"{part}.auxiliary"
    if clause.tense in ("past", "progressive"):  # one tense in German for "buys" and "is buying"
        if clause.tense == "past":
            finite = past if form < 2 else past + ("n" if past.endswith("e") else "en")
        else:
            finite = (i, he, simple, simple)[form]
            said.append(auxiliary)
        end = say([prefix] if prefix else [], f"{part}.particle", *said)
        return _Verb(say([finite], *said), end, say([prefix + finite], *said))
    if clause.tense == "perfect":
        helper, main = (_BE[False] if entry.being else _HAVE)[form], participle
    else:
        helper, main = (_WANT if clause.tense == "wants" else _CAN)[form], infinitive
    finite_word, main_word = Word(helper, (auxiliary,)), Word(main, tuple(said))
    return _Verb([finite_word], [main_word], [main_word, finite_word])


def _place(place: Place, part: str) -> list[Word]:
    entry = LEXICON.prepositions[place.preposition].de
    if place.ground is None:
        return say(entry, part)
    preposition, case = entry
    assert case in ("accusative", "dative")
    article, *rest = _phrase(place.ground, f"{part}.ground", case)  # type: ignore[arg-type]
    both = _CONTRACTED.get((preposition, article.text))
    if both is not None:
        return [Word(both, (part, *article.says)), *rest]
    return [Word(preposition, (part,)), article, *rest]
