"""Pairs of the small grammar: English and its translation, each word linked to those it comes from."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from random import Random
from typing import Literal

from heed.data.embedded.generated import PairSource, Split, check_split, distinct, split_of
from heed.data.embedded.grammar import english, german, hindi, spanish
from heed.data.embedded.grammar.meaning import Sentence
from heed.data.embedded.grammar.scenes import NAMED, SCENES, Scene
from heed.data.embedded.grammar.words import Word, join, link
from heed.data.examples import Pair
from heed.errors import DataError, suggest

Language = Literal["es", "de", "hi"]

_WRITERS: dict[str, Callable[[Sentence], list[Word]]] = {"es": spanish.write, "de": german.write, "hi": hindi.write}


class GrammarSource(PairSource):
    """Endless English sentences with their Spanish, German or romanised Hindi.

    The splits are disjoint by a hash of the English sentence, the same for every language and seed. The sentences of
    `scenes.NAMED` come first in the split that each belongs to.
    """

    def __init__(self, language: Language = "es", seed: int = 1) -> None:
        """Draw sentences by a seed, which does not decide their split.

        Raises:
            DataError: An unknown language.
        """
        if language not in _WRITERS:
            raise DataError(f"the grammar has no language '{language}'{suggest(language, tuple(_WRITERS))}")
        self.language, self.seed = language, seed

    def stream(self, split: Split) -> Iterator[Pair]:
        """The pairs of "train", "valid" or "test".

        Raises:
            DataError: An unknown split.
        """
        check_split(split)
        named = [pair for pair in map(self.pair, NAMED) if split_of(pair.source) == split]
        yield from named
        known = {pair.source for pair in named}
        rng = Random(f"{self.seed}:{split}")  # without the language: every one gets the same English sentences
        for pair in distinct(lambda: rng.choice(SCENES), lambda scene: self._draw(rng, split, scene)):
            if pair.source not in known:
                yield pair

    def pair(self, sentence: Sentence, source: list[Word] | None = None) -> Pair:
        """Say a sentence in both languages, in English by the `source` words if they are known."""
        source, target = source or english.write(sentence), _WRITERS[self.language](sentence)
        source_text, source_spans = join(source)
        target_text, target_spans = join(target)
        links = link(source, source_spans, target, target_spans)
        return Pair(source_text, target_text, links, origin=f"grammar:{self.language}")

    def _draw(self, rng: Random, split: Split, scene: Scene) -> Pair:
        while True:
            sentence = scene(rng)
            source = english.write(sentence)
            if split_of(join(source)[0]) == split:
                return self.pair(sentence, source)
