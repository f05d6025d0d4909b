"""What the languages of the grammar share: words with the meaning they express, links, the parts of a sentence."""

from __future__ import annotations

from collections.abc import Sequence
from typing import ClassVar, NamedTuple

from heed.data.embedded.grammar.meaning import LEXICON, Clause, Phrase, Place, Sentence, State, Thought, Words
from heed.data.examples import Link, Span


class Word(NamedTuple):
    """A word or punctuation mark, and the parts of the meaning it expresses ("main.subject"), most important first.

    Words of two languages that express the same part are linked.
    """

    text: str
    says: tuple[str, ...] = ()


def say(texts: Sequence[str], *parts: str) -> list[Word]:
    """Words that express the same parts together."""
    return [Word(text, parts) for text in texts]


class Language:
    """Writes a meaning in one language."""

    code: ClassVar[str]
    """Its field in the lexicon."""
    conjunctions: ClassVar[tuple[str, str, str]]
    """Its words for and, that, because."""
    degrees: ClassVar[dict[str, str]]
    """Its words for very and too."""
    comma: ClassVar[list[Word]] = []
    """Put before a subordinate clause."""
    question: ClassVar[tuple[str, ...]] = ()
    """Put before a question."""

    def write(self, sentence: Sentence) -> list[Word]:
        """The words of a sentence."""
        also, that, because = self.conjunctions
        words = say(self.question if sentence.question else (), "end")
        if sentence.thought is not None:
            words += [*self.thought(sentence.thought), *self.comma, Word(that, ("that",))]
        words += self.main(sentence)
        if sentence.also is not None:
            words += [Word(also, ("and",)), *self.second(sentence.also, "also")]
        if sentence.because is not None:
            words += [*self.comma, Word(because, ("because",)), *self.reason(sentence.because, "because")]
        return [*words, Word("?" if sentence.question else ".", ("end",))]

    def main(self, sentence: Sentence) -> list[Word]:
        """The time and the main clause."""
        main, words = sentence.main, self.time(sentence)
        if isinstance(main, State):
            return [*words, *self.state(main, "main")]
        return [*words, *self.clause(main, "main", sentence.question)]

    def time(self, sentence: Sentence) -> list[Word]:
        """The expression of time, if there is one."""
        return say(LEXICON.times[sentence.time][self.code] if sentence.time else (), "time")

    def thought(self, thought: Thought) -> list[Word]:
        """Who thinks."""
        verb = LEXICON.thoughts[thought.verb][self.code][thought.subject.verb_form]
        return [*self.subject(thought.subject, "thought.subject"), Word(verb, ("thought.verb",))]

    def degree(self, state: State, part: str) -> list[Word]:
        """Very or too, if the state has a degree."""
        return say([self.degrees[state.degree]] if state.degree else [], f"{part}.degree")

    def words_of(self, place: Place) -> Words:
        """The words of a preposition; with its case in German."""
        return LEXICON.prepositions[place.preposition][self.code]

    def gender(self, phrase: Phrase) -> str:
        """The gender of a phrase; of pronouns without a noun, that of the pronoun."""
        if phrase.noun:
            return LEXICON.nouns[phrase.noun][self.code][1]
        return "f" if phrase.pronoun == "she" else "m"

    def subject(self, phrase: Phrase, part: str) -> list[Word]:
        """A subject."""
        raise NotImplementedError

    def state(self, state: State, part: str) -> list[Word]:
        """A state as a main clause."""
        raise NotImplementedError

    def reason(self, state: State, part: str) -> list[Word]:
        """A state after because."""
        return self.state(state, part)

    def clause(self, clause: Clause, part: str, question: bool) -> list[Word]:
        """An action as a main clause."""
        raise NotImplementedError

    def second(self, clause: Clause, part: str) -> list[Word]:
        """A second action of the same subject, after and."""
        raise NotImplementedError


def join(words: Sequence[Word]) -> tuple[str, list[Span]]:
    """The sentence, with a capital first letter, and the span of each word."""
    text, spans = "", []
    for word in words:
        if text and word.text not in ".,?" and text != "¿":
            text += " "
        begin = len(text)
        text += word.text if begin > 1 else word.text[:1].upper() + word.text[1:]  # ¿Ha, El, The
        spans.append((begin, len(text)))
    return text, spans


def link(
    source: Sequence[Word], source_spans: Sequence[Span], target: Sequence[Word], target_spans: Sequence[Span]
) -> tuple[Link, ...]:
    """Link each target word to the source words that express the same parts.

    These are one run of adjacent words, around the first word that expresses the most important part found in the
    source. A target word without a counterpart in the source (the German comma) has no link.
    """
    said_at: dict[str, list[int]] = {}
    for i, word in enumerate(source):
        for part in word.says:
            said_at.setdefault(part, []).append(i)
    links = []
    for word, span in zip(target, target_spans, strict=True):
        if parts := [part for part in word.says if part in said_at]:
            same = {i for part in parts for i in said_at[part]}
            first = last = said_at[parts[0]][0]
            while first - 1 in same:
                first -= 1
            while last + 1 in same:
                last += 1
            links.append(Link(target=span, source=(source_spans[first][0], source_spans[last][1])))
    return tuple(links)
