"""Plans of batches: as many examples as a token budget allows, of similar length, ordered by (seed, epoch)."""

from __future__ import annotations

import hashlib
import math
from collections.abc import Iterable, Iterator, Sequence
from itertools import accumulate

import numpy as np
import torch
from numpy.typing import ArrayLike, NDArray

from heed.data.sequences import Lazy

_POOL = 64
"""Batches that are sorted by length together: enough for little padding, few enough to keep the order random."""


def _batch_sizes(costs: Iterable[list[int]], batch_tokens: int) -> Iterator[int]:
    """Cut sorted examples into batches within a budget of padded tokens; a larger example is a separate batch."""
    size = 0
    widest: list[int] = []
    for cost in costs:
        grown = list(map(max, widest, cost)) if size else cost
        if size and sum(grown) * (size + 1) > batch_tokens:
            yield size
            size, grown = 0, cost
        size += 1
        widest = grown
    if size:
        yield size


def draw_epoch(sizes: Sequence[int], weights: Sequence[float], seed: int, epoch: int) -> NDArray[np.int64]:
    """The examples of one pass over weighted corpora, numbered consecutively; depends on (seed, epoch) only.

    Each example of a corpus of weight w is seen floor(w) times, and a random share of them once more. Fractions of an
    example are rounded up or down at random, so that a small weight of a small corpus is not always rounded to zero.
    """
    digest = hashlib.blake2b(f"{seed} {epoch}".encode(), digest_size=7).digest()
    generator = torch.Generator().manual_seed(int.from_bytes(digest, "big"))  # not the one that orders the batches
    chosen: list[NDArray[np.int64]] = []
    first = 0
    for size, weight in zip(sizes, weights, strict=True):
        times = math.floor(weight)
        share = (weight - times) * size
        order = torch.randperm(size, generator=generator)
        drawn = math.floor(share + float(torch.rand((), generator=generator)))
        chosen += [np.arange(first, first + size)] * times
        chosen.append(first + order[:drawn].numpy())
        first += size
    return np.concatenate(chosen)


class Plan(Lazy[list[int]]):
    """The batches of one pass in one array of indices, with the end of each and their order.

    Millions of lists would take several times the memory.
    """

    def __init__(self, indices: NDArray[np.int64], ends: NDArray[np.int64], order: NDArray[np.int64]) -> None:
        self._indices, self._ends, self._order = indices, ends, order

    def __len__(self) -> int:
        return len(self._order)

    def __repr__(self) -> str:
        """A digest of the batches, by which a resumed run recognises them."""
        content = hashlib.blake2b(digest_size=16)
        for part in (self._indices, self._ends, self._order):
            content.update(part.astype("<i8").tobytes())
        return f"<{len(self)} batches, {content.hexdigest()}>"

    def take(self, indices: Sequence[int]) -> list[list[int]]:
        batches = self._order[list(indices)].tolist()
        starts = (self._ends[batch - 1] if batch else 0 for batch in batches)
        return [self._indices[start : self._ends[batch]].tolist() for batch, start in zip(batches, starts, strict=True)]


def plan_pass(
    costs: ArrayLike, batch_tokens: int, seed: int = 0, epoch: int | None = None, chosen: ArrayLike | None = None
) -> Plan:
    """Plan the batches of one pass over the data.

    Examples are shuffled, then sorted by length within pools, cut into batches, and the batches shuffled.

    Args:
        costs: Lengths of every example, `(examples, sides)` or `(examples,)`.
        batch_tokens: Largest number of padded positions of a batch.
        seed: Seed of the run; the order depends on (seed, epoch) only.
        epoch: Number of the pass; None for a pass sorted by length (validation).
        chosen: Examples of this pass, repeats and omissions allowed; every example once by default.
    """
    table = np.asarray(costs)
    table = table if table.ndim == 2 else table.reshape(-1, 1)
    generator = torch.Generator()
    if epoch is not None:
        generator.manual_seed((seed * 1_000_003 + epoch) % 2**63)
    count = len(table) if chosen is None else len(np.asarray(chosen))
    order = np.arange(count) if epoch is None else torch.randperm(count, generator=generator).numpy()
    if chosen is not None:
        order = np.asarray(chosen, dtype=np.int64)[order]
    mean = max(1.0, int((table if chosen is None else table[order]).sum()) / max(1, count))
    pool = max(1, count if epoch is None else int(_POOL * batch_tokens / mean))
    sizes: list[int] = []
    for start in range(0, count, pool):
        part = order[start : start + pool]
        part = part[np.lexsort(-table[part].T[::-1])]
        order[start : start + pool] = part  # in place of the pool's examples
        sizes += _batch_sizes(table[part].tolist(), batch_tokens)
    shuffled = np.arange(len(sizes)) if epoch is None else torch.randperm(len(sizes), generator=generator).numpy()
    return Plan(order, np.fromiter(accumulate(sizes), dtype=np.int64, count=len(sizes)), shuffled)


def plan_even(count: int, size: int, seed: int = 0, epoch: int | None = None) -> Plan:
    """Plan batches of examples of equal cost: shuffled by (seed, epoch), as equal in size as possible.

    Args:
        count: Number of examples.
        size: Most examples of a batch.
        seed: Seed of the run.
        epoch: Number of the pass; None to keep the order of the examples.
    """
    order = np.arange(count)
    if epoch is not None:
        generator = torch.Generator().manual_seed((seed * 1_000_003 + epoch) % 2**63)
        order = torch.randperm(count, generator=generator).numpy()
    batches = math.ceil(count / size)
    ends = np.arange(1, batches + 1) * count // max(1, batches)
    return Plan(order, ends.astype(np.int64), np.arange(batches))


def plan_batches(
    costs: ArrayLike, batch_tokens: int, seed: int = 0, epoch: int | None = None, chosen: ArrayLike | None = None
) -> list[list[int]]:
    """The batches of `plan_pass`, as lists."""
    return list(plan_pass(costs, batch_tokens, seed, epoch, chosen))
