"""What a set of examples holds as a whole, gathered while it is read: repeats, scripts, sides that look swapped.

Memory: 16 bytes an example, whatever its length, and 64 more for a moment; a few places for each finding. Repeats are
told by 64-bit hashes; among ten million examples the chance of a false one is three in a million.
"""

from __future__ import annotations

import hashlib
import json
from array import array
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Any, Protocol, TypeVar

import numpy as np
import numpy.typing as npt

from heed.data.read.counts import Counts
from heed.data.read.findings import Found
from heed.data.read.hashes import Marks, among
from heed.data.read.scripts import Scripts
from heed.data.read.swapped import SideWords, Swaps
from heed.data.store.store import select

__all__ = ["Survey", "drop_overlap", "drop_repeats"]

_ODD = 0x9E3779B97F4A7C15
"""An odd number without pattern in its bits."""
_TOGETHER = 100_000
"""Characters whose scripts are looked at together."""
Hashes = npt.NDArray[np.int64]


class _Example(Protocol):
    @property
    def origin(self) -> str: ...


E = TypeVar("E", bound=_Example)


class Survey:
    """What is gathered of one set.

    Attributes:
        scripts: Of each side, by its name.
    """

    def __init__(self, sides: Sequence[str], train: Survey | None = None) -> None:
        """Start one.

        Args:
            sides: Names of the sides: ("sources", "targets") or ("texts",).
            train: The training set's, which others are compared with.
        """
        self.scripts: dict[str, Scripts] = {
            side: Scripts(None if train is None else train.scripts[side].texts) for side in sides
        }
        self._keys, self._wholes = array("q"), array("q")
        words = None if train is None or train._swaps is None else train._swaps.words
        self._swaps: Swaps | None = Swaps(words) if len(sides) == 2 else None
        self._same = Found("", "the same text on both sides, kept", "pair")

    def watch(
        self,
        examples: Iterable[E],
        sides_of: Callable[[E], tuple[str, ...]],
        whole_of: Callable[[E], object] | None = None,
    ) -> Iterator[E]:
        """Pass examples on, and gather.

        Args:
            examples: The examples.
            sides_of: The text of each side.
            whole_of: What must be equal in two examples that are the same; hashable. Without it `adopt` gives the
                hashes.
        """
        waiting: list[tuple[tuple[str, ...], str]] = []
        size = 0
        for example in examples:
            texts = sides_of(example)
            if whole_of is not None:
                self._keys.append(hash(texts[0]))
                self._wholes.append(hash(whole_of(example)))
            waiting.append((texts, example.origin))
            size += sum(map(len, texts))
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
        """What is worth saying of the set, repeats apart."""
        result = []
        if self._swaps is not None:
            _ = self._swaps.words
            result += [one for one in (self._swaps.found, self._same) if one.count]
        for side, scripts in self.scripts.items():
            result += scripts.found(side) + scripts.unseen(side)
        return result

    def adopt(self, sources: Marks, targets: Marks) -> None:
        """Take the marks of pairs for their hashes."""
        self._keys = array("q", sources.tobytes())
        self._wholes = array("q", (sources * np.uint64(_ODD) + targets).tobytes())

    @property
    def basis(self) -> str:
        """What the finds rest on beside the examples themselves: a digest of what was known of the training set."""
        known = {side: sorted(scripts.known) for side, scripts in self.scripts.items() if scripts.known is not None}
        words = [] if self._swaps is None or not known else [sorted(own) for own in self._swaps.words.own]
        return hashlib.blake2b(json.dumps([known, words]).encode(), digest_size=16).hexdigest()

    def as_values(self) -> dict[str, Any]:
        """What others are compared with, as plain values: the scripts and the words of each side."""
        words = [] if self._swaps is None else [sorted(own) for own in self._swaps.words.own]
        return {"scripts": {side: list(scripts.texts) for side, scripts in self.scripts.items()}, "words": words}

    def recall(self, values: Mapping[str, Any]) -> None:
        """Know again what `as_values` said of the same examples."""
        for side, names in values["scripts"].items():
            self.scripts[side].texts = {name: Found("", name, "text") for name in names}
        if self._swaps is not None:
            self._swaps.words = SideWords(values["words"])

    @property
    def keys(self) -> Hashes:
        """A hash of each example's first side (the source, the text), in order."""
        return np.frombuffer(self._keys, dtype=np.int64)

    @property
    def wholes(self) -> Hashes:
        """A hash of each whole example."""
        return np.frombuffer(self._wholes, dtype=np.int64)

    @staticmethod
    def keys_of(texts: Iterable[str]) -> Hashes:
        """The keys of examples with these first sides."""
        return np.fromiter(map(hash, texts), dtype=np.int64)

    def keep(self, places: npt.NDArray[np.intp]) -> None:
        """Forget the hashes of all examples but these."""
        self._keys, self._wholes = (array("q", values[places].tobytes()) for values in (self.keys, self.wholes))

    def forget(self, keys: Hashes) -> None:
        """Forget the examples that have one of these keys: they went into another set."""
        self.keep(np.flatnonzero(~among(self.keys, keys)))


def drop_repeats(examples: Sequence[E], survey: Survey, counts: Counts, drop: bool) -> Sequence[E]:
    """Find the examples of a set that stood there before; say so, and drop them if asked to."""
    _, first = np.unique(survey.wholes, return_index=True)
    again = np.setdiff1d(np.arange(len(examples)), first, assume_unique=True)
    if len(survey.scripts) == 1:  # a source may well have several translations, a text has its labels
        _, first_key, which = np.unique(survey.keys, return_index=True, return_inverse=True)
        other = np.flatnonzero(survey.wholes != survey.wholes[first_key][which])
        if len(other):
            counts.found.append(_found("the same text again with other labels, kept", examples, other, counts, True))
    if not len(again):
        return examples
    rule = f"the same {counts.unit.removesuffix('s')} again"
    counts.found.append(_found(f"{rule}, {'left out' if drop else 'kept'}", examples, again, counts, not drop))
    return _without(examples, again, survey, counts, rule) if drop else examples


def drop_overlap(
    splits: Mapping[str, Sequence[E]], surveys: Mapping[str, Survey], counts: Mapping[str, Counts], drop: bool
) -> Sequence[E]:
    """Find what the training set shares with the others; say so, and drop it from the training set if asked to.

    Returns:
        The training set.
    """
    train = splits["train"]
    side = "source" if len(surveys["train"].scripts) == 2 else "text"
    for split in ("valid", "test"):
        if split not in surveys:
            continue
        if drop:
            shared = np.flatnonzero(among(surveys["train"].keys, surveys[split].keys))
            rule = f"{side} in the {split} set"
            if len(shared):
                counts["train"].found.append(_found(f"{rule}, left out", train, shared, counts["train"]))
                train = _without(train, shared, surveys["train"], counts["train"], rule)
        else:
            shared = np.flatnonzero(among(surveys[split].keys, surveys["train"].keys))
            if len(shared):
                what = f"{side} stands in the training set as well (data.overlap=drop leaves it out there)"
                counts[split].found.append(_found(what, splits[split], shared, counts[split], True))
    return train


def _found(
    what: str, examples: Sequence[E], places: npt.NDArray[np.intp], counts: Counts, warning: bool = False
) -> Found:
    first = [examples[int(i)].origin for i in places[:3]]
    return Found("", what, counts.unit.removesuffix("s"), len(places), first, warning)


def _without(
    examples: Sequence[E], places: npt.NDArray[np.intp], survey: Survey, counts: Counts, rule: str
) -> Sequence[E]:
    kept = np.setdiff1d(np.arange(len(examples)), places, assume_unique=True)
    survey.keep(kept)
    counts.filtered[rule] = counts.filtered.get(rule, 0) + len(places)
    counts.kept = len(kept)
    return select(examples, kept)
