"""Pairs of the small grammar: English and its translation, in either direction, with linked words."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from random import Random
from typing import Literal, get_args

from heed.data.embedded.generated import PairSource, Split, check_split, distinct, split_of
from heed.data.embedded.grammar import english, german, hindi, spanish
from heed.data.embedded.grammar.meaning import Sentence
from heed.data.embedded.grammar.scenes import NAMED, SCENES, Scene
from heed.data.embedded.grammar.words import Word, join, link
from heed.data.examples import Pair
from heed.errors import DataError, suggest

Language = Literal["es", "de", "hi"]
Direction = Literal["from_english", "to_english"]

_WRITERS: dict[str, Callable[[Sentence], list[Word]]] = {"es": spanish.write, "de": german.write, "hi": hindi.write}


class GrammarSource(PairSource):
    """Endless English sentences with their Spanish, German or romanised Hindi, or the other way round.

    The splits are disjoint by a hash of the source: the same for every seed and, from English, for every language. The
    sentences of `scenes.NAMED` come first in their splits.
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
        return _WRITERS[self.language](sentence) if self.direction == "to_english" else english.write(sentence)

    def _target(self, sentence: Sentence) -> list[Word]:
        return english.write(sentence) if self.direction == "to_english" else _WRITERS[self.language](sentence)

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
