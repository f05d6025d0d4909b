"""Repeated examples of a set, and training examples that are in the validation or test set: noted, or left out.

They are found by 64-bit hashes; among ten million examples the chance of a false repeat is three in a million.

Duplicates and overlap have separate fields: how often a pair is seen is the user's decision, while a training set that
contains the test set makes the score worthless. In labelled texts, the same text with other labels is a warning.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TypeVar

import numpy as np
import numpy.typing as npt

from heed.data.corpus import among, combined
from heed.data.examples import Example, Hashes, select
from heed.data.findings import Counts, Found

E = TypeVar("E", bound=Example)


def drop_repeats(
    examples: Sequence[E], kind: type[E], hashes: Hashes, counts: Counts, drop: bool
) -> tuple[Sequence[E], Hashes]:
    """Find repeated examples of a set by the hashes of their fields, note them, and drop them if `drop`.

    Returns:
        The examples that are left, and their hashes.
    """
    unit, texts = kind.unit, [bool(role.side) for role in kind.roles.values()]
    wholes = combined(hashes)
    places, first, _ = _repeated(wholes)
    again = np.delete(places, first)
    if any(texts) and not all(texts):  # a source may have several translations, a text has its labels
        places, first, which = _repeated(combined(hashes[:, texts]))
        other = places[wholes[places] != wholes[places[first]][which]]
        if len(other):
            counts.found.append(_found(f"duplicate {unit} with different labels, kept", examples, other, unit, True))
    if not len(again):
        return examples, hashes
    rule = f"duplicate {unit}"
    counts.found.append(_found(f"{rule}, {'left out' if drop else 'kept'}", examples, again, unit, not drop))
    return _without(examples, again, hashes, counts, rule) if drop else (examples, hashes)


def _repeated(hashes: Hashes) -> tuple[npt.NDArray[np.intp], npt.NDArray[np.intp], npt.NDArray[np.intp]]:
    """The places of hashes that occur more than once; which of these are the first ones; the first one of each."""
    ordered = np.sort(hashes)
    places = np.flatnonzero(among(hashes, np.unique(ordered[1:][ordered[1:] == ordered[:-1]])))
    _, first, which = np.unique(hashes[places], return_index=True, return_inverse=True)
    return places, first, which


def drop_overlap(
    splits: Mapping[str, Sequence[E]],
    kind: type[E],
    hashes: Mapping[str, Hashes],
    counts: Mapping[str, Counts],
    drop: bool,
) -> Sequence[E]:
    """The training set; examples shared with the other sets are noted, and dropped if `drop`.

    `hashes` are those of every field, by split; examples are shared if their groups are.
    """
    train, own = splits["train"], hashes["train"]
    unit, side, group = kind.unit, kind.group_name(), kind.place_of(kind.groups)
    for split in ("valid", "test"):
        if split not in hashes:
            continue
        there = hashes[split][:, group]
        shared = np.flatnonzero(among(own[:, group], there) if drop else among(there, own[:, group]))
        if len(shared) and drop:
            rule = f"{side} in the {split} set"
            counts["train"].found.append(_found(f"{rule}, left out", train, shared, unit))
            train, own = _without(train, shared, own, counts["train"], rule)
        elif len(shared):
            what = f"{side} is in the training set as well (data.overlap=drop leaves it out there)"
            counts[split].found.append(_found(what, splits[split], shared, unit, True))
    return train


def _found(what: str, examples: Sequence[E], places: npt.NDArray[np.intp], unit: str, warning: bool = False) -> Found:
    first = [examples[int(i)].origin for i in places[:3]]
    return Found("", what, unit, len(places), first, warning)


def _without(
    examples: Sequence[E], places: npt.NDArray[np.intp], hashes: Hashes, counts: Counts, rule: str
) -> tuple[Sequence[E], Hashes]:
    kept = np.setdiff1d(np.arange(len(examples)), places, assume_unique=True)
    counts.leave_out(rule, len(places))
    counts.kept = len(kept)
    return select(examples, kept), hashes[kept]
