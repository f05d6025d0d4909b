"""Pairs whose sides are swapped: the source has words of the targets, and the target words of the sources.

Words are separated by spaces; a text without spaces counts by characters. A word belongs to a side if it occurs in at
least five of its texts and in four times as many as on the other side. A pair looks swapped if both sides have more
than twice as many words of the other side as of their own, and three such words at least in all. Undecided cases are
not reported: short texts, two sides in one language, corpora with both directions in equal parts.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable

from heed.data.read.findings import Found

_LEARNED_FROM = 20_000
"""Number of pairs from which the words of each side are learned."""
_READ = 1_000
"""Characters of a text that are examined."""


class SideWords:
    """The words that belong to sources, and those that belong to targets."""

    def __init__(self, own: Iterable[Iterable[str]]) -> None:
        self.own = tuple(frozenset(words) for words in own)

    @classmethod
    def learned(cls, pairs: Iterable[tuple[str, str]]) -> SideWords:
        """The words learned from pairs."""
        counts: tuple[Counter[str], Counter[str]] = (Counter(), Counter())
        for pair in pairs:
            for count, text in zip(counts, pair, strict=True):
                count.update(set(_words(text)))
        return cls(
            [word for word, count in mine.items() if count >= 5 and count >= 4 * other[word]]
            for mine, other in (counts, counts[::-1])
        )

    def swapped(self, source: str, target: str) -> bool:
        """True if a pair's sides look swapped."""
        of_source, of_target = self.own
        words = _words(source)
        alien = len(of_target.intersection(words))
        if alien <= 2 * len(of_source.intersection(words)):
            return False
        words = _words(target)
        alien_too = len(of_source.intersection(words))
        return alien_too > 2 * len(of_target.intersection(words)) and alien + alien_too >= 3


class Swaps:
    """Count of swapped pairs in a set while it is read, by words of the training set or of its own first pairs."""

    def __init__(self, words: SideWords | None = None) -> None:
        self._words = words
        self._waiting: list[tuple[str, str, str]] = []
        what = "sides that look swapped (the source reads like the targets), kept"
        self.found = Found("", what, "pair", warning=True)

    def see(self, source: str, target: str, origin: str) -> None:
        """Add one pair."""
        source, target = source[:_READ], target[:_READ]
        if self._words is not None:
            if self._words.swapped(source, target):
                self.found.add(origin)
            return
        self._waiting.append((source, target, origin))
        if len(self._waiting) == _LEARNED_FROM:
            _ = self.words

    @property
    def words(self) -> SideWords:
        """The words of each side; if none were given, learned from the pairs seen so far."""
        if self._words is None:
            self._words = SideWords.learned((source, target) for source, target, _ in self._waiting)
            for source, target, origin in self._waiting:
                self.see(source, target, origin)
            self._waiting = []
        return self._words

    @words.setter
    def words(self, words: SideWords) -> None:
        self._words = words


def _words(text: str) -> list[str] | str:
    return text.split() if " " in text else text
