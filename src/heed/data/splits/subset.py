"""Subsets of the training examples, for learning curves: drawn by a seed, nested, stratified by label."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, TypeVar

import numpy as np
from numpy.typing import NDArray

from heed.data.examples import Example
from heed.data.sequences import select
from heed.data.splits.splits import Splits
from heed.data.splits.stored import combined, hashes_in, hashes_of
from heed.errors import ConfigError

E = TypeVar("E")


def take_subset(splits: Splits[E], size: int, seed: int) -> Splits[E]:
    """The splits with `size` of the training examples; the others are counted, moved to `left_out`, never trained on.

    Validation and test sets, and further corpora, stay as they are.

    Raises:
        ConfigError: There are fewer training examples, or the training set is a stream.
    """
    train = splits.examples["train"]
    if splits.stream is not None:
        raise ConfigError(
            f"training.train_size is {size:,}, but data.stream is true: a stream is never in memory as a whole, "
            "so no subset can be drawn; set only one of the two"
        )
    unit = f"{getattr(train[0], 'unit', 'example')}s"
    if size > len(train):
        raise ConfigError(
            f"training.train_size is {size:,}, but there are {len(train):,} training {unit}; give at most "
            "that many, or remove the field to train on all"
        )
    if size == len(train):
        return splits
    order = drawing_order(train, seed)
    splits.examples["train"] = select(train, np.sort(order[:size]))
    splits.left_out = select(train, np.sort(order[size:]))
    if (counts := splits.counts.get("train")) is not None:
        counts.leave_out(f"not drawn for training.train_size {size:,}", len(train) - size)
        counts.kept = size
    alike = ", with labels in the same shares" if is_stratified(train) else ""
    splits.remarks.append(f"train: {size:,} of {len(train):,} {unit}, drawn at random by seed {seed}{alike}")
    return splits


def drawing_order(examples: Sequence[Any], seed: int) -> NDArray[np.intp]:
    """The indices of all examples in the order in which a growing subset takes them.

    The first n are a random subset for every n, so smaller subsets are parts of larger ones; each stratum
    (`Example.stratum`) has its share of the n, to within one example. The order depends on the seed and on the
    examples' content, not on their order in the file, except among equal examples.
    """
    keys = _mixed(combined(hashes_in(examples)), seed)
    if not is_stratified(examples):
        return np.argsort(keys, kind="stable")
    names, stratum = np.unique([example.stratum for example in examples], return_inverse=True)
    # Example i of a stratum of m is at (i + u) / m; u, drawn for each stratum, lets rare strata take turns.
    shifts = _shares(_mixed(hashes_of(str(name).encode() for name in names), seed))
    place = np.empty(len(keys))
    for number, shift in enumerate(shifts):
        inside = np.flatnonzero(stratum == number)
        inside = inside[np.argsort(keys[inside], kind="stable")]
        place[inside] = (np.arange(len(inside)) + shift) / len(inside)
    return np.lexsort((keys, place))


def is_stratified(examples: Sequence[Any]) -> bool:
    """True if the kind of example defines strata."""
    kind = type(examples[0])
    return issubclass(kind, Example) and kind.stratum is not Example.stratum


def _mixed(hashes: NDArray[np.uint64], seed: int) -> NDArray[np.uint64]:
    """Numbers that look random and follow from hashes and a seed (SplitMix64: Steele et al. 2014, OOPSLA)."""
    mixed = hashes + np.full(1, (seed + 1) * 0x9E3779B97F4A7C15 % 2**64, np.uint64)
    for shift, factor in ((30, 0xBF58476D1CE4E5B9), (27, 0x94D049BB133111EB)):
        mixed = (mixed ^ (mixed >> np.uint64(shift))) * np.full(1, factor, np.uint64)
    result: NDArray[np.uint64] = mixed ^ (mixed >> np.uint64(31))
    return result


def _shares(numbers: NDArray[np.uint64]) -> NDArray[np.float64]:
    """Random numbers of 64 bits as numbers in [0, 1)."""
    shares: NDArray[np.float64] = (numbers >> np.uint64(11)).astype(np.float64) / 2**53
    return shares
