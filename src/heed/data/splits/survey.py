"""Statistics of a set of examples, collected while it is read: repeats, scripts, languages of the sides.

Memory: 8 bytes a field of an example, whatever its length, 64 more an example temporarily; a few places for each
finding. Repeats are found by 64-bit hashes; among ten million examples the chance of a false one is three in a million.

Duplicates and overlap have separate fields: how often a pair is seen is the user's decision, while a training set that
contains the test set makes the score worthless. In labelled texts, the same text with other labels is a warning.
"""

from __future__ import annotations

import hashlib
import json
import sys
import unicodedata
from collections import Counter
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from functools import cache
from itertools import islice
from typing import Any, TypeVar

import numpy as np
import numpy.typing as npt

from heed.data.examples import Example, Hashes, select
from heed.data.findings import Counts, Found
from heed.data.splits.stored import among, combined

_BIDI = frozenset("\u061c\u200e\u200f\u202a\u202b\u202c\u202d\u202e\u2066\u2067\u2068\u2069")


@cache
def script_of(character: str) -> str:
    """The script of a letter, such as "Latin", "Cyrillic", "CJK"; "" for other characters."""
    if unicodedata.category(character) not in ("Lu", "Ll", "Lt", "Lo"):
        return ""
    plain = unicodedata.normalize("NFKC", character)[0]
    name = unicodedata.name(plain, "").partition(" ")[0]
    return name if name == "CJK" else name.capitalize()


class Scripts:
    """The scripts of one side of a set, collected text by text.

    Texts are counted only for scripts that run right to left or are not `known`; most texts have neither, which is
    checked for many at once.

    Attributes:
        texts: Script -> count and first places of texts with its letters (other scripts are only marked as present).
        right_to_left: The scripts that run right to left.
        known: The scripts of the training set; None for the training set itself.
        controls: Control character of the bidirectional algorithm -> count and first places of texts that contain it.
    """

    def __init__(self, known: Collection[str] | None = None) -> None:
        self.texts: dict[str, Found] = {}
        self.right_to_left: set[str] = set()
        self.controls: dict[str, Found] = {}
        self.known = known
        self._plain = np.zeros(sys.maxunicode + 1, dtype=bool)  # characters that need no further check

    def see(self, texts: Sequence[str], origins: Sequence[str]) -> None:
        """Add some texts."""
        codes = np.frombuffer("".join(texts).encode("utf-32-le"), dtype=np.uint32)
        if not self._plain[codes].all():
            for text, origin in zip(texts, origins, strict=True):
                self._see(text, origin)

    def _see(self, text: str, origin: str) -> None:
        scripts: dict[str, list[int]] = {}
        for c in set(text):
            if self._plain[ord(c)]:
                continue
            if script := script_of(c):
                scripts.setdefault(script, []).append(ord(c))
                if script not in self.right_to_left and unicodedata.bidirectional(c) in ("R", "AL"):
                    self.right_to_left.add(script)
            elif c in _BIDI:
                _count(self.controls, c, origin)
            else:
                self._plain[ord(c)] = True
        for script, letters in scripts.items():
            _count(self.texts, script, origin)
            if script not in self.right_to_left and (self.known is None or script in self.known):
                self._plain[letters] = True

    def found(self, side: str) -> list[Found]:
        """Findings on a side: right-to-left text and control characters."""
        what = "letters, written right to left; tokens are in reading order"
        found = [(f"{script} {what}", texts) for script, texts in self.texts.items() if script in self.right_to_left]
        for c, texts in sorted(self.controls.items()):
            found.append((f"the control character U+{ord(c):04X} ({unicodedata.name(c).lower()}), kept", texts))
        return [Found(side, what, "text", texts.count, texts.places) for what, texts in found]

    def unseen(self, side: str) -> list[Found]:
        """Warnings about scripts that the training set does not have."""
        known = self.texts if self.known is None else self.known
        what = "letters, which do not occur in the training set"
        unseen = [(script, texts) for script, texts in self.texts.items() if script not in known]
        return [Found(side, f"{script} {what}", "text", texts.count, texts.places, True) for script, texts in unseen]


def _count(kinds: dict[str, Found], kind: str, origin: str) -> None:
    kinds.setdefault(kind, Found("", kind, "text")).add(origin)


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


_TOGETHER = 250
"""Examples looked at together."""
_LONG = 100_000
"""Characters of an example above which line ends are probably missing."""
E = TypeVar("E", bound=Example)


class Survey:
    """Statistics of one set of examples, compared with those of the training set `train`.

    `scripts` are keyed by the plural names of the sides; `hashes`, of every field, are set once all examples are read.
    """

    def __init__(self, kind: type[Example], train: Survey | None = None) -> None:
        self.kind = kind
        known = {} if train is None else train.scripts
        sides = [f"{side}s" for side in kind.sides]
        self.scripts: dict[str, Scripts] = {s: Scripts(known[s].texts if known else None) for s in sides}
        self.hashes: Hashes = np.zeros((0, 1), dtype=np.uint64)
        self._same = Found("", "the same text on both sides, kept", kind.unit)
        what = f"more than {_LONG:,} characters, kept (a smaller data.max_line leaves such lines out)"
        self._long = Found("", what, kind.unit, warning=True)

    def watch(self, examples: Iterable[E]) -> Iterator[E]:
        """Yield the examples and collect statistics."""
        rest = iter(examples)
        while chunk := list(islice(rest, _TOGETHER)):
            texts, origins = [example.texts for example in chunk], [example.origin for example in chunk]
            for number, scripts in enumerate(self.scripts.values()):
                scripts.see([each[number] for each in texts], origins)
            for each, origin in zip(texts, origins, strict=True):
                if sum(map(len, each)) > _LONG:
                    self._long.add(origin)
                if len(each) == 2 and each[0] == each[1]:
                    self._same.add(origin)
            yield from chunk

    @property
    def found(self) -> list[Found]:
        """The findings in the set, except repeats."""
        result = [one for one in (self._long, self._same) if one.count]
        for side, scripts in self.scripts.items():
            result += scripts.found(side) + scripts.unseen(side)
        return result

    @property
    def basis(self) -> str:
        """A digest of the training set's statistics, on which findings depend in addition to the examples."""
        known = {side: sorted(scripts.known) for side, scripts in self.scripts.items() if scripts.known is not None}
        return hashlib.blake2b(json.dumps(known).encode(), digest_size=16).hexdigest()

    def as_values(self) -> dict[str, Any]:
        """The scripts of each side, which other sets are compared with, as plain values."""
        return {"scripts": {side: list(scripts.texts) for side, scripts in self.scripts.items()}}

    def recall(self, values: Mapping[str, Any]) -> None:
        """Inverse of `as_values`."""
        for side, names in values["scripts"].items():
            self.scripts[side].texts = {name: Found("", name, "text") for name in names}

    @property
    def keys(self) -> Hashes:
        """The hash of each example's first field (the source, the text), in order."""
        return self.hashes[:, 0]


def drop_repeats(examples: Sequence[E], survey: Survey, counts: Counts, drop: bool) -> Sequence[E]:
    """Find repeated examples of a set, note them, and drop them if `drop`."""
    unit, num_texts = survey.kind.unit, len(survey.kind.sides)
    wholes = combined(survey.hashes)
    places, first, _ = _repeated(wholes)
    again = np.delete(places, first)
    if 0 < num_texts < survey.hashes.shape[1]:  # a source may have several translations, a text has its labels
        places, first, which = _repeated(combined(survey.hashes[:, :num_texts]))
        other = places[wholes[places] != wholes[places[first]][which]]
        if len(other):
            counts.found.append(_found(f"duplicate {unit} with different labels, kept", examples, other, unit, True))
    if not len(again):
        return examples
    rule = f"duplicate {unit}"
    counts.found.append(_found(f"{rule}, {'left out' if drop else 'kept'}", examples, again, unit, not drop))
    return _without(examples, again, survey, counts, rule) if drop else examples


def _repeated(hashes: Hashes) -> tuple[npt.NDArray[np.intp], npt.NDArray[np.intp], npt.NDArray[np.intp]]:
    """The places of hashes that occur more than once; which of these are the first ones; the first one of each."""
    ordered = np.sort(hashes)
    places = np.flatnonzero(among(hashes, np.unique(ordered[1:][ordered[1:] == ordered[:-1]])))
    _, first, which = np.unique(hashes[places], return_index=True, return_inverse=True)
    return places, first, which


def drop_overlap(
    splits: Mapping[str, Sequence[E]], surveys: Mapping[str, Survey], counts: Mapping[str, Counts], drop: bool
) -> Sequence[E]:
    """The training set; examples shared with the other sets are noted, and dropped if `drop`."""
    train, survey = splits["train"], surveys["train"]
    unit, side = survey.kind.unit, (*survey.kind.sides, survey.kind.unit)[0]
    for split in ("valid", "test"):
        if split not in surveys:
            continue
        if drop:
            shared = np.flatnonzero(among(survey.keys, surveys[split].keys))
            rule = f"{side} in the {split} set"
            if len(shared):
                counts["train"].found.append(_found(f"{rule}, left out", train, shared, unit))
                train = _without(train, shared, survey, counts["train"], rule)
        else:
            shared = np.flatnonzero(among(surveys[split].keys, survey.keys))
            if len(shared):
                what = f"{side} is in the training set as well (data.overlap=drop leaves it out there)"
                counts[split].found.append(_found(what, splits[split], shared, unit, True))
    return train


def _found(what: str, examples: Sequence[E], places: npt.NDArray[np.intp], unit: str, warning: bool = False) -> Found:
    first = [examples[int(i)].origin for i in places[:3]]
    return Found("", what, unit, len(places), first, warning)


def _without(
    examples: Sequence[E], places: npt.NDArray[np.intp], survey: Survey, counts: Counts, rule: str
) -> Sequence[E]:
    kept = np.setdiff1d(np.arange(len(examples)), places, assume_unique=True)
    survey.hashes = survey.hashes[kept]
    counts.leave_out(rule, len(places))
    counts.kept = len(kept)
    return select(examples, kept)
