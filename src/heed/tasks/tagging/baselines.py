"""A baseline that ignores context: the most frequent tag of each word."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterable, Sequence


class FrequentTags:
    """The most frequent tag of each word in training; for unknown words, the most frequent tag overall.

    Ties are broken alphabetically. Words are compared case-sensitively.
    """

    def __init__(self, sentences: Iterable[tuple[Sequence[str], Sequence[str]]]) -> None:
        """Count the tags of sentences, each given as its words and their tags."""
        of_word: dict[str, Counter[str]] = defaultdict(Counter)
        every: Counter[str] = Counter()
        for words, tags in sentences:
            every.update(tags)
            for word, tag in zip(words, tags, strict=True):
                of_word[word][tag] += 1
        self._best = {word: _most(counts) for word, counts in of_word.items()}
        self._other = _most(every)

    def tags(self, words: Sequence[str]) -> list[str]:
        """The tag of each word."""
        return [self._best.get(word, self._other) for word in words]


def _most(counts: Counter[str]) -> str:
    return min(counts, key=lambda tag: (-counts[tag], tag))
