"""Statistics of a set of examples, collected while it is read: repeats, scripts, sides that look swapped.

Memory: 8 bytes a field of an example, whatever its length, 64 more an example temporarily; a few places for each
finding. Repeats are found by 64-bit hashes; among ten million examples the chance of a false one is three in a million.

Duplicates and overlap have separate fields: how often a pair is seen is the user's decision, while a training set that
contains the test set makes the score worthless. In labelled texts, the same text with other labels is a warning.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any, TypeVar

import numpy as np
import numpy.typing as npt

from heed.data.examples import Example
from heed.data.read.counts import Counts
from heed.data.read.findings import Found
from heed.data.sequences import select
from heed.data.store.hashes import Hashes, among, combined
from heed.data.store.scripts import Scripts
from heed.data.store.swapped import SideWords, Swaps

_TOGETHER = 100_000
"""Characters whose scripts are determined together."""
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
        words = None if train is None or train._swaps is None else train._swaps.words
        self._swaps: Swaps | None = Swaps(words) if len(kind.sides) == 2 else None
        self._same = Found("", "the same text on both sides, kept", kind.unit)
        what = f"more than {_LONG:,} characters, kept (a smaller data.max_line leaves such lines out)"
        self._long = Found("", what, kind.unit, warning=True)

    def watch(self, examples: Iterable[E]) -> Iterator[E]:
        """Yield the examples and collect statistics."""
        waiting: list[tuple[tuple[str, ...], str]] = []
        size = 0
        for example in examples:
            texts = example.texts
            waiting.append((texts, example.origin))
            length = sum(map(len, texts))
            size += length
            if length > _LONG:
                self._long.add(example.origin)
            if size > _TOGETHER:
                self._see_scripts(waiting)
                waiting, size = [], 0
            if self._swaps is not None:
                self._swaps.see(texts[0], texts[1], example.origin)
                if texts[0] == texts[1]:
                    self._same.add(example.origin)
            yield example
        self._see_scripts(waiting)

    def _see_scripts(self, waiting: list[tuple[tuple[str, ...], str]]) -> None:
        origins = [origin for _, origin in waiting]
        for number, scripts in enumerate(self.scripts.values()):
            scripts.see([texts[number] for texts, _ in waiting], origins)

    @property
    def found(self) -> list[Found]:
        """The findings in the set, except repeats."""
        result = [self._long] if self._long.count else []
        if self._swaps is not None:
            _ = self._swaps.words
            result += [one for one in (self._swaps.found, self._same) if one.count]
        for side, scripts in self.scripts.items():
            result += scripts.found(side) + scripts.unseen(side)
        return result

    @property
    def basis(self) -> str:
        """A digest of the training set's statistics, on which findings depend in addition to the examples."""
        known = {side: sorted(scripts.known) for side, scripts in self.scripts.items() if scripts.known is not None}
        words = [] if self._swaps is None or not known else [sorted(own) for own in self._swaps.words.own]
        return hashlib.blake2b(json.dumps([known, words]).encode(), digest_size=16).hexdigest()

    def as_values(self) -> dict[str, Any]:
        """The scripts and the words of each side, which other sets are compared with, as plain values."""
        words = [] if self._swaps is None else [sorted(own) for own in self._swaps.words.own]
        return {"scripts": {side: list(scripts.texts) for side, scripts in self.scripts.items()}, "words": words}

    def recall(self, values: Mapping[str, Any]) -> None:
        """Inverse of `as_values`."""
        for side, names in values["scripts"].items():
            self.scripts[side].texts = {name: Found("", name, "text") for name in names}
        if self._swaps is not None:
            self._swaps.words = SideWords(values["words"])

    @property
    def keys(self) -> Hashes:
        """The hash of each example's first field (the source, the text), in order."""
        return self.hashes[:, 0]

    def forget(self, keys: Hashes) -> None:
        """Forget the examples with these keys, which were moved to another set."""
        self.hashes = self.hashes[~among(self.keys, keys)]


def drop_repeats(examples: Sequence[E], survey: Survey, counts: Counts, drop: bool) -> Sequence[E]:
    """Find repeated examples of a set, note them, and drop them if `drop`."""
    unit, num_texts = survey.kind.unit, len(survey.kind.sides)
    wholes = combined(survey.hashes)
    _, first = np.unique(wholes, return_index=True)
    again = np.setdiff1d(np.arange(len(examples)), first, assume_unique=True)
    if 0 < num_texts < survey.hashes.shape[1]:  # a source may have several translations, a text has its labels
        _, first, which = np.unique(combined(survey.hashes[:, :num_texts]), return_index=True, return_inverse=True)
        other = np.flatnonzero(wholes != wholes[first][which])
        if len(other):
            counts.found.append(_found(f"duplicate {unit} with different labels, kept", examples, other, unit, True))
    if not len(again):
        return examples
    rule = f"duplicate {unit}"
    counts.found.append(_found(f"{rule}, {'left out' if drop else 'kept'}", examples, again, unit, not drop))
    return _without(examples, again, survey, counts, rule) if drop else examples


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
