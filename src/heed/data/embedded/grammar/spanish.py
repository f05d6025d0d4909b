"""Spanish.

Adjectives follow their noun and agree with it; "I", "we" and "it" are expressed by the verb alone; people and definite
animals as objects take `a`; the recipient is doubled (le dio el libro al niño); a question begins with its verb.
"""

from __future__ import annotations

from collections.abc import Sequence

from heed.data.embedded.grammar.language import Language, Word, say
from heed.data.embedded.grammar.meaning import LEXICON, Clause, Entry, Phrase, Place, State, Thought

_ARTICLES = {"m": ("el", "los"), "f": ("la", "las")}
_CONTRACTED = {"de el": "del", "a el": "al"}
_SUBJECTS = {"he": "él", "she": "ella", "they": "ellos"}  # others are not said
_RECIPIENTS = {"I": "me", "we": "nos"}
_REFLEXIVES = ("me", "se", "nos", "se")
_AUXILIARIES = {
    "perfect": ("he", "ha", "hemos", "han"),
    "progressive": ("estoy", "está", "estamos", "están"),
    "wants": ("quiero", "quiere", "queremos", "quieren"),
    "can": ("puedo", "puede", "podemos", "pueden"),
}
_WAS = ("estaba", "estaba", "estábamos", "estaban")
_SER = {False: ("soy", "es", "somos", "son"), True: ("era", "era", "éramos", "eran")}
_ESTAR = {False: _AUXILIARIES["progressive"], True: _WAS}


class Spanish(Language):
    """Writes a meaning in Spanish."""

    code = "es"
    conjunctions = ("y", "que", "porque")
    degrees = {"very": "muy", "too": "demasiado"}  # noqa: RUF012
    question = ("¿",)

    def thought(self, thought: Thought) -> list[Word]:
        *subject, verb = super().thought(thought)
        return [*subject, verb] if subject else _carry([verb], "thought.subject")

    def subject(self, phrase: Phrase, part: str) -> list[Word]:
        return self._subject(phrase, part)

    def _subject(self, phrase: Phrase, part: str, said: bool = True, imperfect: bool = False) -> list[Word]:
        """The subject; no word for an omitted pronoun, or one that the verb expresses (except in `yo estaba`)."""
        if not phrase.pronoun:
            return self._phrase(phrase, part)
        if phrase.pronoun == "I" and imperfect:
            return [Word("yo", (part,))]  # he and I have the same form
        return say([_SUBJECTS[phrase.pronoun]] if said and phrase.pronoun in _SUBJECTS else [], part)

    def _phrase(self, phrase: Phrase, part: str) -> list[Word]:
        noun, kind, *plurals = LEXICON.nouns[phrase.noun]["es"]
        article = {"my": "mis" if phrase.plural else "mi", "two": "dos", "a": "una" if kind == "f" else "un"}
        article["the"] = _ARTICLES[kind][phrase.plural]
        if noun == "agua" and not phrase.plural:
            article["the"] = "el"  # before a stressed a, though feminine
        if phrase.plural:
            noun = plurals[0] if plurals else _pluralize(noun)
        words = [Word(article[phrase.determiner], (f"{part}.determiner",)), Word(noun, (part,))]
        if phrase.adjective:
            words += say([self._agree(LEXICON.adjectives[phrase.adjective]["es"], phrase)], f"{part}.adjective")
        return words

    def _agree(self, adjective: Sequence[str], phrase: Phrase) -> str:
        """The form of an adjective, given its masculine singular and, if irregular, its plural."""
        singular, *plurals = adjective
        if phrase.plural and plurals:
            return plurals[0]
        form = singular[:-1] + "a" if self.gender(phrase) == "f" and singular.endswith("o") else singular
        return _pluralize(form) if phrase.plural else form

    def state(self, state: State, part: str) -> list[Word]:
        return self._state(state, part, said=True)

    def reason(self, state: State, part: str) -> list[Word]:
        return self._state(state, part, said=False)

    def _state(self, state: State, part: str, said: bool) -> list[Word]:
        adjective = LEXICON.adjectives[state.adjective]
        subject = self._subject(state.subject, f"{part}.subject", said, imperfect=state.past)
        be = say([(_ESTAR if adjective["estar"] else _SER)[state.past][state.subject.verb_form]], f"{part}.be")
        words = [*subject, *(be if subject else _carry(be, f"{part}.subject")), *self.degree(state, part)]
        return [*words, Word(self._agree(adjective["es"], state.subject), (f"{part}.state",))]

    def clause(self, clause: Clause, part: str, question: bool) -> list[Word]:
        imperfect = bool(LEXICON.verbs[clause.verb]["was"])
        subject = self._subject(clause.subject, f"{part}.subject", imperfect=imperfect)
        return self._rest(clause, part, subject) if question else [*subject, *self._rest(clause, part, [])]

    def second(self, clause: Clause, part: str) -> list[Word]:
        return self._rest(clause, part, [])

    def _rest(self, clause: Clause, part: str, subject: list[Word]) -> list[Word]:
        """Everything but a subject before the verb; `subject` comes after it."""
        recipient, thing = f"{part}.recipient", f"{part}.object"
        words = say(["no"] if clause.negated else [], f"{part}.not")
        if (to := clause.recipient) is not None:  # the clitic pronoun doubles every recipient
            words += say([_RECIPIENTS.get(to.pronoun, "les" if to.plural else "le")], recipient)
        if clause.object is not None and clause.object.pronoun:
            weak = {"m": ("lo", "los"), "f": ("la", "las")}[self.gender(clause.object)]
            words += say([weak[clause.object.plural]], thing)
        words += [*self._verb(clause, part), *subject]
        if clause.object is not None and not clause.object.pronoun:
            phrase = self._phrase(clause.object, thing)
            words += _after(say(["a"], thing), phrase) if clause.marks_object else phrase
        if to is not None and not to.pronoun:
            words += _after(say(["a"], recipient), self._phrase(to, recipient))
        return [*words, *(self._place(clause.place, f"{part}.place") if clause.place is not None else [])]

    def _verb(self, clause: Clause, part: str) -> list[Word]:
        verb, form = LEXICON.verbs[clause.verb], clause.subject.verb_form
        participle, gerund, *past = _conjugate(verb)
        auxiliary, said = f"{part}.auxiliary", f"{part}.verb"
        if was := verb["was"]:  # estaba acostada
            words = say([_WAS[form], *(was if len(was) > 1 else [self._agree(was, clause.subject)])], said)
        elif clause.tense == "past":
            words = say([past[form]], said)
        elif clause.tense == "progressive" and verb["present"]:
            words = say([verb["present"][form]], said, auxiliary)
        else:
            main = {"perfect": participle, "progressive": gerund}.get(clause.tense, verb["es"][0])
            words = [Word(_AUXILIARIES[clause.tense][form], (auxiliary,)), Word(main, (said,))]
        if clause.subject.speaks and not (was and clause.subject.pronoun == "I"):
            words = _carry(words, f"{part}.subject")
        return [*say([_REFLEXIVES[form]] if verb["es"][0].endswith("se") else [], said), *words]

    def _place(self, place: Place, part: str) -> list[Word]:
        if place.ground is None:
            return say(self.words_of(place), part)
        living = LEXICON.prepositions[place.preposition]["es_living"] if place.ground.kind != "thing" else ()
        return _after(say(living or self.words_of(place), part), self._phrase(place.ground, f"{part}.ground"))


def _pluralize(word: str) -> str:
    """The plural by rule: gato, gatos; pared, paredes."""
    return word + ("s" if word[-1] in "aeiouáéíóú" else "es")


def _after(prepositions: Sequence[Word], phrase: list[Word]) -> list[Word]:
    """Prepositions and a phrase, contracted where required: de + el = del."""
    *before, last = prepositions
    article, *rest = phrase
    if both := _CONTRACTED.get(f"{last.text} {article.text}"):
        return [*before, Word(both, (*article.says, *last.says)), *rest]
    return [*prepositions, *phrase]


def _carry(verb: list[Word], part: str) -> list[Word]:
    """The verb, whose finite form also expresses a subject without a separate word."""
    return [Word(verb[0].text, (*verb[0].says, part)), *verb[1:]]


def _conjugate(verb: Entry) -> tuple[str, ...]:
    """Participle, gerund and the past of I, he, we and they; by rule if only the infinitive is given."""
    infinitive, *forms = verb["es"]
    endings = "ado ando é ó amos aron" if infinitive.endswith("ar") else "ido iendo í ió imos ieron"
    return tuple(forms or (infinitive[:-2] + ending for ending in endings.split()))
