"""German.

The finite verb is second in a main clause and last after `dass` and `weil`; participles, infinitives and separated
prefixes are last; articles, adjectives and nouns decline by case, gender and number.
"""

from __future__ import annotations

from typing import Literal, NamedTuple

from heed.data.embedded.grammar.language import Language, Word, say
from heed.data.embedded.grammar.meaning import LEXICON, Clause, Phrase, Place, Sentence, State

Case = Literal["nominative", "accusative", "dative"]


def _table(columns: str, **rows: str) -> dict[str, dict[str, str]]:
    return {row: dict(zip(columns.split(), forms.split(), strict=True)) for row, forms in rows.items()}


_THE = _table("m f n plural", nominative="der die das die", accusative="den die das die", dative="dem der dem den")
_A = _table(
    "m f n plural", nominative="ein eine ein eine", accusative="einen eine ein eine", dative="einem einer einem einen"
)
_PRONOUNS = _table(
    "I we m f n plural",
    nominative="ich wir er sie es sie",
    accusative="mich uns ihn sie es sie",
    dative="mir uns ihm ihr ihm ihnen",
)
_CONTRACTED = {"in dem": "im", "an dem": "am", "zu dem": "zum", "zu der": "zur", "in das": "ins"}
_BE = {False: ("bin", "ist", "sind", "sind"), True: ("war", "war", "waren", "waren")}
_HAVE = ("habe", "hat", "haben", "haben")
_MODAL = {"wants": ("will", "will", "wollen", "wollen"), "can": ("kann", "kann", "können", "können")}


class _Verb(NamedTuple):
    """The verbs of a clause: the finite verb, the part at the end, and both together in a final position."""

    finite: list[Word]
    end: list[Word]
    last: list[Word]


class German(Language):
    """Writes a meaning in German."""

    code = "de"
    conjunctions = ("und", "dass", "weil")
    degrees = {"very": "sehr", "too": "zu"}  # noqa: RUF012
    comma = [Word(",")]  # noqa: RUF012

    def main(self, sentence: Sentence) -> list[Word]:
        main, first = sentence.main, self.time(sentence)
        if isinstance(main, State):
            subject, be, rest = self._parts(main, "main")
            if sentence.thought is not None:
                return [*subject, *rest, *be]
            return [*first, *be, *subject, *rest] if first else [*subject, *be, *rest]
        subject, verb, middle = (
            self.subject(main.subject, "main.subject"),
            self._verb(main, "main"),
            self._middle(main, "main"),
        )
        if sentence.thought is not None:
            return [*subject, *middle, *verb.last]
        begin = [*first, *verb.finite, *subject] if sentence.question or first else [*subject, *verb.finite]
        return [*begin, *middle, *verb.end]

    def second(self, clause: Clause, part: str) -> list[Word]:
        verb = self._verb(clause, part)
        return [*verb.finite, *self._middle(clause, part), *verb.end]

    def reason(self, state: State, part: str) -> list[Word]:
        subject, be, rest = self._parts(state, part)
        return [*subject, *rest, *be]

    def subject(self, phrase: Phrase, part: str) -> list[Word]:
        return self._phrase(phrase, part, "nominative")

    def gender(self, phrase: Phrase) -> str:
        if phrase.pronoun in ("he", "she"):
            return "f" if phrase.pronoun == "she" else "m"
        return super().gender(phrase)

    def _parts(self, state: State, part: str) -> tuple[list[Word], list[Word], list[Word]]:
        """Subject, form of `sein`, and the rest."""
        be = say([_BE[state.past][state.subject.verb_form]], f"{part}.be")
        rest = [*self.degree(state, part), *say(LEXICON.adjectives[state.adjective]["de"], f"{part}.state")]
        return self.subject(state.subject, f"{part}.subject"), be, rest

    def _phrase(self, phrase: Phrase, part: str, case: Case) -> list[Word]:
        kind = "plural" if phrase.plural else self.gender(phrase)
        if phrase.pronoun:
            return [Word(_PRONOUNS[case].get(phrase.pronoun) or _PRONOUNS[case][kind], (part,))]
        singular, _, plural, *weak = LEXICON.nouns[phrase.noun]["de"]
        noun = plural if phrase.plural or (weak and case != "nominative") else singular
        if phrase.plural and case == "dative" and noun[-1] not in "ns":
            noun += "n"
        article = {"the": _THE[case][kind], "two": "zwei", "a": _A[case][kind], "my": f"m{_A[case][kind]}"}
        words = [Word(article[phrase.determiner], (f"{part}.determiner",))]
        if phrase.adjective:
            adjective = _decline(LEXICON.adjectives[phrase.adjective]["de"][0], phrase.determiner, case, kind)
            words.append(Word(adjective, (f"{part}.adjective",)))
        return [*words, Word(noun, (part,))]

    def _middle(self, clause: Clause, part: str) -> list[Word]:
        words: list[Word] = []
        if clause.recipient is not None:
            words += self._phrase(clause.recipient, f"{part}.recipient", "dative")
        if clause.object is not None:
            case: Case = "dative" if LEXICON.verbs[clause.verb]["dative"] else "accusative"
            words += self._phrase(clause.object, f"{part}.object", case)
        if clause.place is not None:
            words += self._place(clause.place, f"{part}.place")
        return [*words, *say(["nicht"] if clause.negated else [], f"{part}.not")]

    def _verb(self, clause: Clause, part: str) -> _Verb:
        entry, form = LEXICON.verbs[clause.verb], clause.subject.verb_form
        infinitive, past, participle, i, he = entry["de"]
        prefix, _, simple = infinitive.rpartition("|")
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
            helper, main = (_BE[False] if entry["being"] else _HAVE)[form], participle
        else:
            helper, main = _MODAL[clause.tense][form], prefix + simple
        first, last = say([helper], auxiliary), say([main], *said)
        return _Verb(first, last, last + first)

    def _place(self, place: Place, part: str) -> list[Word]:
        if place.ground is None:
            return say(self.words_of(place), part)
        preposition, case = self.words_of(place)
        assert case in ("accusative", "dative")
        article, *rest = self._phrase(place.ground, f"{part}.ground", case)  # type: ignore[arg-type]
        if both := _CONTRACTED.get(f"{preposition} {article.text}"):
            return [Word(both, (part, *article.says)), *rest]
        return [Word(preposition, (part,)), article, *rest]


def _decline(adjective: str, determiner: str, case: Case, gender: str) -> str:
    """An adjective before its noun: weak after der, mixed after ein and mein, strong after zwei."""
    if gender == "plural":
        ending = "e" if determiner == "two" and case != "dative" else "en"
    elif case == "dative" or (case == "accusative" and gender == "m"):
        ending = "en"
    else:
        ending = "e" if determiner == "the" else {"m": "er", "f": "e", "n": "es"}[gender]
    return adjective.removesuffix("e") + ending
