"""English."""

from __future__ import annotations

from heed.data.embedded.grammar.language import Language, Word, say
from heed.data.embedded.grammar.meaning import LEXICON, Clause, Phrase, Place, Sentence, State

_OBJECT_PRONOUNS = {"I": "me", "we": "us", "he": "him", "she": "her", "it": "it", "they": "them"}
_BE = {False: ("am", "is", "are", "are"), True: ("was", "was", "were", "were")}


class English(Language):
    """Writes a meaning in English."""

    code = "en"
    conjunctions = ("and", "that", "because")
    degrees = {"very": "very", "too": "too"}  # noqa: RUF012

    def time(self, sentence: Sentence) -> list[Word]:
        return say(sentence.time.split(), "time")

    def subject(self, phrase: Phrase, part: str) -> list[Word]:
        return self._phrase(phrase, part)

    def _phrase(self, phrase: Phrase, part: str, as_object: bool = False) -> list[Word]:
        if phrase.pronoun:
            return [Word(_OBJECT_PRONOUNS[phrase.pronoun] if as_object else phrase.pronoun, (part,))]
        noun = LEXICON.nouns[phrase.noun]["en"][phrase.plural]
        article = "an" if phrase.determiner == "a" and (phrase.adjective or noun)[0] in "aeiou" else phrase.determiner
        adjective = say([phrase.adjective] if phrase.adjective else [], f"{part}.adjective")
        return [Word(article, (f"{part}.determiner",)), *adjective, Word(noun, (part,))]

    def state(self, state: State, part: str) -> list[Word]:
        be = Word(_BE[state.past][state.subject.verb_form], (f"{part}.be",))
        subject = self._phrase(state.subject, f"{part}.subject")
        return [*subject, be, *self.degree(state, part), Word(state.adjective, (f"{part}.state",))]

    def clause(self, clause: Clause, part: str, question: bool) -> list[Word]:
        subject = self._phrase(clause.subject, f"{part}.subject")
        auxiliary, *rest = self.second(clause, part)
        return [auxiliary, *subject, *rest] if question else [*subject, auxiliary, *rest]

    def second(self, clause: Clause, part: str) -> list[Word]:
        words = self._verb(clause, part)
        if clause.recipient is not None:
            words += self._phrase(clause.recipient, f"{part}.recipient", as_object=True)
        if clause.object is not None:
            thing = self._phrase(clause.object, f"{part}.object", as_object=True)
            if clause.object.pronoun and LEXICON.verbs[clause.verb]["particle"]:  # picked it up
                words = [*words[:-1], *thing, Word(words[-1].text, (f"{part}.particle", f"{part}.verb"))]
            else:
                words += thing
        return [*words, *(self._place(clause.place, f"{part}.place") if clause.place is not None else [])]

    def _verb(self, clause: Clause, part: str) -> list[Word]:
        base, past, participle, ing = LEXICON.verbs[clause.verb]["en"]
        form, third = clause.subject.verb_form, clause.subject.verb_form == 1
        auxiliary, verb = f"{part}.auxiliary", f"{part}.verb"
        if clause.tense == "past" and not clause.negated:
            return say((_BE[True][form] if clause.verb == "be" else past).split(), verb)
        before, main = {
            "past": (say(["did"], auxiliary) + say(["not"], f"{part}.not"), base),
            "perfect": (say(["has" if third else "have"], auxiliary), participle),
            "progressive": (say([_BE[False][form]], auxiliary), ing),
            "wants": (say(["wants" if third else "want", "to"], auxiliary), base),
            "can": (say(["can"], auxiliary), base),
        }[clause.tense]
        return [*before, *say(main.split(), verb)]

    def _place(self, place: Place, part: str) -> list[Word]:
        ground = [] if place.ground is None else self._phrase(place.ground, f"{part}.ground")
        return [*say(self.words_of(place), part), *ground]
