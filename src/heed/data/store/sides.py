"""Comparison of the languages of both sides of a set with those of the training set, by words and scripts.

Words are separated by spaces, without punctuation and in lower case; a text without spaces counts by characters. In a
set in the same language, nearly as many words are known as in the training texts themselves; in another language few.

If the training files are gone, the task compares the number of tokens of each side.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence
from itertools import islice

from heed.data.store.scripts import Scripts

_LEARNED_FROM = 5_000
"""Number of pairs from which the words of each side are learned."""
_COMPARED = 2_000
"""Number of pairs of a set that are compared with these words."""
_FEWEST = 20
"""Words of a side below which there are no remarks."""
_READ = 1_000
"""Characters of a text that are examined."""
_MARKS = ".,;:!?\"'()[]{}<>\u00ab\u00bb\u201c\u201d\u201e\u2018\u2019\u00bf\u00a1\u2026-\u2013\u2014"
_SIDES = ("sources", "targets")


class TrainingSides:
    """The words and scripts of the first training pairs, by side."""

    def __init__(self, pairs: Iterable[Sequence[str]]) -> None:
        """Learn them from pairs of source and target."""
        texts = [tuple(text[:_READ] for text in pair) for pair in islice(pairs, _LEARNED_FROM)]
        self.words: list[Counter[str]] = []
        self.expected: list[float] = []  # share of the words that also occur in another training text
        self.scripts = [Scripts() for _ in _SIDES]
        for side, scripts in enumerate(self.scripts):
            own = [text[side] for text in texts]
            count = Counter(word for text in own for word in set(_words(text)))
            again = [count[word] > 1 for text in own for word in _words(text)]
            self.words.append(count)
            self.expected.append(sum(again) / max(1, len(again)))
            scripts.see(own, [""] * len(own))

    def remarks_on(self, pairs: Iterable[Sequence[str]], name: str) -> list[str]:
        """Warnings if the sides of a set look swapped, or in another language or script."""
        texts = [tuple(text[:_READ] for text in pair) for pair in islice(pairs, _COMPARED)]
        words = [[word for text in texts for word in _words(text[side])] for side in (0, 1)]
        if min(map(len, words)) < _FEWEST:
            return []
        own, other = [
            [sum(word in self.words[side if same else 1 - side] for word in words[side]) / len(words[side])
             for side in (0, 1)]
            for same in (True, False)
        ]  # fmt: skip
        swapped = [other[side] > max(2 * own[side], 0.5 * self.expected[1 - side]) for side in (0, 1)]
        if all(swapped):
            return [
                f"warning: {name}: the sides look swapped: {own[0]:.0%} of the words of the sources occur in the "
                f"training sources, but {other[0]:.0%} in the training targets; give the source first"
            ]
        remarks = []
        for side, what in enumerate(_SIDES):
            known = f"{own[side]:.0%} of their words occur in the training {what}"
            if swapped[side]:
                as_other = f"the {what} read like the training {_SIDES[1 - side]}"
                remarks.append(f"warning: {name}: {as_other}: {known}, but {other[side]:.0%} in the other side")
            elif scripts := self._unseen(side, [text[side] for text in texts]):
                remarks.append(
                    f"warning: {name}: the {what} have {scripts} letters, which do not occur in the training {what}"
                )
            elif own[side] < 0.5 * self.expected[side]:
                remarks.append(f"warning: {name}: the {what} look like another language: only {known}")
        return remarks

    def _unseen(self, side: int, texts: Sequence[str]) -> str:
        """The scripts of more than half of the texts that the training set does not have."""
        scripts = Scripts(self.scripts[side].texts)
        scripts.see(texts, [""] * len(texts))
        most = [script for script, found in scripts.texts.items() if found.count > len(texts) / 2]
        return " and ".join(script for script in most if script not in self.scripts[side].texts)


def _words(text: str) -> list[str]:
    parts = text.casefold().split()
    words = [word for part in parts if (word := part.strip(_MARKS)) and not word.isdecimal()]
    # A script without spaces: one long word, whose characters say more.
    return [c for word in words for c in word] if len(parts) == 1 and len(text) > 10 else words
