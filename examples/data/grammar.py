"""A small grammar: English sentences and their translation into Spanish, German or romanised Hindi, either way.

    python examples/data/grammar.py german --language de
    heed train translation german/train.tsv --valid german/valid.tsv --test german/test.tsv tokenizer.kind=word

`data.name=grammar` has the first 8,000 sentences in Spanish. This file draws meanings (`grammar_meaning`), a writer for
each language writes them (`grammar_writing`), and a `GrammarSource` pairs two languages and links their words. The
words are in `grammar_lexicon.yaml`, the languages in `grammar_languages.yaml`.

There are nine kinds of sentences (positions and movements, actions, gifts, going, states, actions not done for a
reason, two actions on one thing, thoughts, questions) and about 500 English words. Of 100,000 drawn sentences 91,800
are distinct, and a sample repeats one only when 20 draws found no new one. Each English sentence has one translation:
"I", "we" and "they" are masculine, "doctor" and "farmer" are men, and "you" does not occur. The noun that "it" refers
to decides the pronoun in German (es, sie), the adjective in Spanish (cansado, congestionada) and the verb in Hindi
(tha, thi).

Into English, pairs and links are reversed. Of 10,000 English sentences 3.4 % share their Hindi with another one
("bahut" is both "very" and "too", "vah" both "he" and "she"), 0.5 % their Spanish and none their German; translations
of these into English are ambiguous.

A link joins one target word and the run of source words that it translates ("Voy": "I am going", "zur": "to the").
Words without a counterpart have no link: the German comma, English "did", and in Hindi "the". A particle that is
separated from its verb ("picked it up") is linked only in German.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from random import Random
from typing import Literal, get_args

from arguments import arguments, sizes_of
from grammar_meaning import LEXICON, Clause, Degree, Determiner, Phrase, Place, Sentence, State, Tense, Thought
from grammar_writing import Word, Writer, join, link
from heed.data.embedded import PairSource, Split, check_split, distinct, split_of
from heed.data.examples import Pair
from heed.errors import DataError, suggest

Language = Literal["es", "de", "hi"]
Direction = Literal["from_english", "to_english"]
_ENGLISH = Writer("en")
_WRITERS = {code: Writer(code) for code in get_args(Language)}


class GrammarSource(PairSource):
    """Endless English sentences with their Spanish, German or romanised Hindi, or the other way round.

    The splits are disjoint by a hash of the source: the same for every seed and, from English, for every language. The
    sentences of `NAMED` come first in their splits.
    """

    def __init__(self, language: Language = "es", seed: int = 1, direction: Direction = "from_english") -> None:
        """Sentences drawn by a seed, which does not decide their split.

        Raises:
            DataError: The language or direction is unknown.
        """
        if language not in _WRITERS:
            raise DataError(f"the grammar has no language '{language}'{suggest(language, tuple(_WRITERS))}")
        if direction not in get_args(Direction):
            raise DataError(f"the grammar has no direction '{direction}'{suggest(direction, get_args(Direction))}")
        self.language, self.seed, self.direction = language, seed, direction

    def stream(self, split: Split) -> Iterator[Pair]:
        """The pairs of "train", "valid" or "test".

        Raises:
            DataError: The split is unknown.
        """
        check_split(split)
        named = [pair for pair in map(self.pair, NAMED) if split_of(pair.source) == split]
        yield from named
        known = {pair.source for pair in named}
        rng = Random(f"{self.seed}:{split}")  # without the language: all languages have the same English sentences
        for pair in distinct(lambda: rng.choice(SCENES), lambda scene: self._draw(rng, split, scene)):
            if pair.source not in known:
                yield pair

    def pair(self, sentence: Sentence) -> Pair:
        """Write a sentence in both languages."""
        return self._linked(self._source(sentence), self._target(sentence))

    def _source(self, sentence: Sentence) -> list[Word]:
        return _WRITERS[self.language].write(sentence) if self.direction == "to_english" else _ENGLISH.write(sentence)

    def _target(self, sentence: Sentence) -> list[Word]:
        return _ENGLISH.write(sentence) if self.direction == "to_english" else _WRITERS[self.language].write(sentence)

    def _linked(self, source: list[Word], target: list[Word]) -> Pair:
        source_text, source_spans = join(source)
        target_text, target_spans = join(target)
        links = link(source, source_spans, target, target_spans)
        languages = f"{self.language}-en" if self.direction == "to_english" else self.language
        return Pair(source_text, target_text, links, origin=f"grammar:{languages}")

    def _draw(self, rng: Random, split: Split, scene: Scene) -> Pair:
        while True:
            sentence = scene(rng)
            source = self._source(sentence)
            if split_of(join(source)[0]) == split:
                return self._linked(source, self._target(sentence))


Scene = Callable[[Random], Sentence]

_PRONOUNS = {"I": False, "we": True, "he": False, "she": False, "they": True}
_ACTED = [name for name, verb in LEXICON.verbs.items() if verb["objects"]]
_GIVEN = [name for name, verb in LEXICON.verbs.items() if verb["gifts"]]
_PLACED = ("sit", "lie", "stand", "sleep", "be", "hang", "jump", "run", "enter")
_DONE_SOMEWHERE = ("see", "look for", "eat", "drink", "read", "write", "hide")


def _animal_did_not_cross(adjective: str, it: str) -> Sentence:
    clause = Clause(Phrase("animal"), "cross", object=Phrase("street"), negated=True)
    return Sentence(clause, because=State(Phrase(it, pronoun="it"), adjective, "too"))


NAMED = (
    Sentence(Clause(Phrase("cat"), "sit", place=Place("on", Phrase("wall")))),
    Sentence(Clause(Phrase("wall"), "sit", place=Place("on", Phrase("cat")))),
    Sentence(Clause(Phrase(pronoun="I"), "go", "progressive", place=Place("home", None))),
    _animal_did_not_cross("tired", "animal"),
    _animal_did_not_cross("congested", "street"),
)
"""The cat sat on the wall. The wall sat on the cat. I am going home. The animal did not cross the street because it was
too tired. (Too congested.)"""


def _place_scene(rng: Random) -> Sentence:
    """The cat sat on the wall."""
    verb = rng.choice(_PLACED)
    nouns: Iterable[str] = ("people", "animals")
    if verb == "hang":
        nouns = ("hanging",)
    elif verb == "be":
        nouns = ("small", "hanging", "fruit")
    elif verb in ("sit", "jump") and rng.random() < 0.3:
        nouns = ("sitters",)
    subject = _someone(rng, nouns, pronouns=verb not in ("be", "hang"))
    clause = Clause(subject, verb, place=_place(rng, verb, subject))
    return Sentence(clause, _time(rng, "past"))


def _act_scene(rng: Random) -> Sentence:
    """The woman has bought a red car."""
    return Sentence(clause := _act(rng), _time(rng, clause.tense))


def _give_scene(rng: Random) -> Sentence:
    """The woman gave the child an apple."""
    verb = rng.choice(_GIVEN)
    subject = _someone(rng, ("people",))
    pronoun = not subject.pronoun and rng.random() < 0.3
    recipient = _pronoun(rng) if pronoun else _phrase(rng, _other(rng, ("people",), subject), subject)
    gift = _phrase(rng, _other(rng, LEXICON.verbs[verb]["gifts"]), subject)
    clause = Clause(subject, verb, _tense(rng, verb), gift, recipient)
    return Sentence(clause, _time(rng, clause.tense))


def _go_scene(rng: Random) -> Sentence:
    """I am going home."""
    subject = _someone(rng, ("people", "animals"))
    place = Place("home", None) if rng.random() < 0.4 else _place(rng, "go", subject)
    clause = Clause(subject, "go", _tense(rng, "go"), place=place)
    return Sentence(clause, _time(rng, clause.tense))


def _state_scene(rng: Random) -> Sentence:
    """The street is very wide."""
    return Sentence(_state(rng))


def _reason_scene(rng: Random) -> Sentence:
    """The animal did not cross the street because it was too tired."""
    verb, reason = rng.choice(LEXICON.reasons_in_object)
    groups = [name for name in LEXICON.verbs[verb]["subjects"] if name in ("people", "animals")]
    subject = _phrase(rng, _other(rng, groups))
    thing = _phrase(rng, rng.choice(reason["objects"]), subject, plain=True)
    clause = Clause(subject, verb, object=thing, negated=True)
    if rng.random() < 0.5 and _pronoun_for(subject) is not None:
        about, adjective = _pronoun_for(subject), rng.choice(LEXICON.reasons_in_subject)
    else:
        about, adjective = _pronoun_for(thing), rng.choice(reason["adjectives"])
    assert about is not None
    return Sentence(clause, because=State(about, adjective, "too"))


def _pair_scene(rng: Random) -> Sentence:
    """The man bought the apple and ate it."""
    pair = rng.choice(LEXICON.pairs)
    first, second = pair["verbs"]
    groups = [name for name in LEXICON.verbs[second]["subjects"] if name in LEXICON.verbs[first]["subjects"]]
    subject = _someone(rng, groups)
    about = None
    while about is None:
        thing = _phrase(rng, _other(rng, pair["objects"], subject), subject)
        about = _pronoun_for(thing)
    clause = Clause(subject, first, object=thing)
    return Sentence(clause, _time(rng, "past"), also=Clause(subject, second, object=about))


def _thought_scene(rng: Random) -> Sentence:
    """The woman knows that the boy saw the dog."""
    if rng.random() < 0.6:
        thinker = Phrase(pronoun=rng.choice(("I", "he", "she")))
    else:
        noun = _other(rng, ("people",))
        thinker = Phrase(noun, "my" if noun in LEXICON.groups["relatives"] else "the")
    thought = Thought(thinker, rng.choice(list(LEXICON.thoughts)))
    kind = rng.random()
    main = _state(rng) if kind < 0.3 else _place_scene(rng).main if kind < 0.5 else _act(rng)
    return Sentence(main, thought=thought)


def _question_scene(rng: Random) -> Sentence:
    """Has the boy seen the dog?"""
    return Sentence(_act(rng, "perfect", pronouns=False), question=True)


SCENES: tuple[Scene, ...] = (
    *(_place_scene, _act_scene, _give_scene, _go_scene, _state_scene),
    *(_reason_scene, _pair_scene, _thought_scene, _question_scene),
)
"""Kinds of sentences, drawn uniformly."""


def _act(rng: Random, tense: Tense | None = None, pronouns: bool = True) -> Clause:
    verb = rng.choice(_ACTED)
    entry = LEXICON.verbs[verb]
    subject = _someone(rng, entry["subjects"], pronouns and "people" in entry["subjects"])
    noun = _other(rng, entry["objects"], subject)
    thing = _phrase(rng, noun, subject, plain=bool(entry["definite"]))
    tense = tense or _tense(rng, verb)
    place = None
    if verb in _DONE_SOMEWHERE and tense in ("past", "perfect", "progressive") and rng.random() < 0.3:
        place = _place(rng, "act", subject, thing)
    return Clause(subject, verb, tense, thing, place=place)


def _state(rng: Random) -> State:
    if rng.random() < 0.25:
        subject, adjectives = _pronoun(rng), list(LEXICON.states["people"])
    else:
        noun = _other(rng, list(LEXICON.states))
        subject, adjectives = _phrase(rng, noun, plain=True), LEXICON.said_of(LEXICON.states, noun)
    adjective = rng.choice(adjectives)
    degree: Degree = "" if LEXICON.adjectives[adjective]["absolute"] else rng.choice(get_args(Degree))
    return State(subject, adjective, degree, past=rng.random() < 0.5)


def _tense(rng: Random, verb: str) -> Tense:
    tenses: Sequence[Tense] = LEXICON.verbs[verb]["tenses"] or get_args(Tense)  # type: ignore[assignment]
    return rng.choice(tenses)


def _time(rng: Random, tense: Tense) -> str:
    times = [name for name, time in LEXICON.times.items() if tense in time["tenses"]]
    return rng.choice(times) if times and rng.random() < 0.25 else ""


def _place(rng: Random, verb: str, *others: Phrase) -> Place:
    preposition = rng.choice(list(LEXICON.places[verb]))
    noun = _other(rng, LEXICON.places[verb][preposition], *others)
    return Place(preposition, _phrase(rng, noun, others[0], plain=verb == "go", singular=True))


def _other(rng: Random, names: Iterable[str], *others: Phrase) -> str:
    """A noun of these groups that no other phrase uses; not a relative if another phrase is in the first person."""
    used = {other.noun for other in others}
    if any(other.speaks for other in others):
        used.update(LEXICON.groups["relatives"])  # Hindi has "own" there, which this grammar lacks
    return rng.choice([noun for noun in LEXICON.members(names) if noun not in used])


def _someone(rng: Random, names: Iterable[str], pronouns: bool = True) -> Phrase:
    """A subject: a personal pronoun or a phrase."""
    if pronouns and rng.random() < 0.25:
        return _pronoun(rng)
    return _phrase(rng, _other(rng, names))


def _pronoun(rng: Random) -> Phrase:
    name = rng.choice(list(_PRONOUNS))
    return Phrase(pronoun=name, plural=_PRONOUNS[name])


def _pronoun_for(phrase: Phrase) -> Phrase | None:
    """The pronoun for a repeated phrase; None for a singular child, which has no pronoun here."""
    if phrase.plural:
        return Phrase(phrase.noun, pronoun="they", plural=True)
    pronoun = "".join(LEXICON.nouns[phrase.noun]["pronoun"])
    if not pronoun and phrase.kind == "person":
        return None
    return Phrase(phrase.noun, pronoun=pronoun or "it")


def _phrase(
    rng: Random, noun: str, subject: Phrase | None = None, *, plain: bool = False, singular: bool = False
) -> Phrase:
    """A noun with a determiner and perhaps an adjective; if `plain`, "the" or "my" and no adjective.

    If the `subject` is I or we, "my" is not drawn.
    """
    groups = LEXICON.groups
    several = not singular and noun not in (*groups["uncounted"], *groups["unpaired"])
    determiners: list[Determiner] = ["the"] * 5
    if not plain and noun not in groups["uncounted"]:
        determiners += ["a"] * 3
        if several:
            determiners.append("two")
    if noun in groups["owned"] and not (subject is not None and subject.speaks):
        determiners.append("my")
    determiner = "my" if noun in groups["relatives"] else rng.choice(determiners)
    plural = determiner == "two" or (several and determiner != "a" and rng.random() < 0.25)
    adjectives = [] if plain else LEXICON.said_of(LEXICON.attributes, noun)
    adjective = rng.choice(adjectives) if adjectives and rng.random() < 0.3 else ""
    return Phrase(noun, determiner, adjective, plural)


def main(given: Sequence[str] | None = None) -> None:
    parser = arguments(__doc__, 40_000, 400, 1_000)
    parser.add_argument("--language", choices=get_args(Language), default="es")
    parser.add_argument("--direction", choices=get_args(Direction), default="from_english")
    options = parser.parse_args(given)
    source = GrammarSource(options.language, options.seed, options.direction)
    for split, count in sizes_of(options).items():
        lines = "".join(f"{pair.source}\t{pair.target}\n" for pair in source.sample(split, count))
        (options.folder / f"{split}.tsv").write_text(lines, encoding="utf-8")


if __name__ == "__main__":
    main()
