"""Batches of pairs: as many as a token budget allows, of similar length, in an order given by (seed, epoch)."""

from __future__ import annotations

import hashlib
import math
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import accumulate
from typing import overload

import numpy as np
import torch
from numpy.typing import ArrayLike, NDArray
from torch import Tensor

from heed.data.store.store import take
from heed.data.tokens.tokenizer import END, PADDING, START
from heed.device import to_device

__all__ = ["PairBatch", "Plan", "TokenPair", "collate_pairs", "draw_epoch", "plan_batches", "plan_pass"]

_POOL = 64
"""Batches that are sorted by length together: enough for little padding, few enough to keep the order random."""


@dataclass(frozen=True, slots=True)
class TokenPair:
    """A pair as token ids, without start and end."""

    source: list[int]
    target: list[int]

    @property
    def cost(self) -> tuple[int, int]:
        """Lengths as a batch pays for them: target with its start or end token, and source."""
        return len(self.target) + 1, len(self.source)


@dataclass(frozen=True)
class PairBatch:
    """Padded pairs.

    Attributes:
        indices: Which examples, `(batch,)` as a list.
        source: `(batch, source)`.
        source_mask: `(batch, source)`, True on real tokens.
        target: `(batch, target)`, start token first: what the decoder reads.
        labels: `(batch, target)`, end token last: what it should predict.
        target_mask: `(batch, target)`, True on real tokens of both.
        num_targets: Number of real target tokens, the end token included.
        alignment: `(batch, target, source)`, where each label should be read from, rows summing to at most 1; or None.
    """

    indices: list[int]
    source: Tensor
    source_mask: Tensor
    target: Tensor
    labels: Tensor
    target_mask: Tensor
    num_targets: int
    alignment: Tensor | None = None

    @property
    def padding_share(self) -> float:
        """Share of the positions that hold padding."""
        real = int(self.source_mask.sum()) + int(self.target_mask.sum())
        return 1.0 - real / (self.source_mask.numel() + self.target_mask.numel())

    def to(self, device: torch.device) -> PairBatch:
        """The batch on another device."""
        return to_device(self, device)


def _batch_sizes(costs: Iterable[tuple[int, int]], batch_tokens: int) -> Iterator[int]:
    """Cut a sorted run of examples into batches that stay within a budget when padded; a larger one stands alone."""
    size = 0
    widest = (0, 0)
    for cost in costs:
        grown = max(widest[0], cost[0]), max(widest[1], cost[1])
        if size and sum(grown) * (size + 1) > batch_tokens:
            yield size
            size, grown = 0, cost
        size += 1
        widest = grown
    if size:
        yield size


def draw_epoch(sizes: Sequence[int], weights: Sequence[float], seed: int, epoch: int) -> NDArray[np.int64]:
    """Which examples of several corpora, numbered one corpus after the other, one pass sees.

    A corpus of weight w is seen w times on average: each example floor(w) times, and of the rest a share drawn
    without repetition. A draw that is no whole number is rounded up or down at random, so that a small weight of a
    small corpus is not rounded to never.

    Args:
        sizes: Examples of each corpus.
        weights: How often each corpus is seen.
        seed: Seed of the run.
        epoch: Which pass; the draw depends on (seed, epoch) only.
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


class Plan(Sequence[list[int]]):
    """The batches of one pass as numbers in one array: millions of lists would take several times the room."""

    def __init__(self, indices: NDArray[np.int64], ends: NDArray[np.int64], order: NDArray[np.int64]) -> None:
        """Put batches into an order.

        Args:
            indices: Those of all batches, one batch after the other.
            ends: Where each batch ends.
            order: The batches as they come.
        """
        self._indices = indices
        self._ends = ends
        self._order = order

    def __len__(self) -> int:
        return len(self._order)

    def __repr__(self) -> str:
        """A digest of the batches, so that a resumed run can tell whether they are those it had."""
        content = hashlib.blake2b(digest_size=16)
        for part in (self._indices, self._ends, self._order):
            content.update(part.astype("<i8").tobytes())
        return f"<{len(self)} batches, {content.hexdigest()}>"

    @overload
    def __getitem__(self, index: int) -> list[int]: ...

    @overload
    def __getitem__(self, index: slice) -> list[list[int]]: ...

    def __getitem__(self, index: int | slice) -> list[int] | list[list[int]]:
        if isinstance(index, slice):
            return [self[n] for n in range(len(self))[index]]
        batch = self._order[index]
        start = self._ends[batch - 1] if batch else 0
        indices: list[int] = self._indices[start : self._ends[batch]].tolist()
        return indices


def plan_pass(
    costs: ArrayLike, batch_tokens: int, seed: int = 0, epoch: int | None = None, chosen: ArrayLike | None = None
) -> Plan:
    """Plan the batches of one pass over the data.

    Examples are shuffled, then sorted by length within pools, cut into batches, and the batches shuffled.

    Args:
        costs: `(examples, 2)`, target and source length of every example.
        batch_tokens: Largest number of padded positions of a batch.
        seed: Seed of the run.
        epoch: Which pass; the order depends on (seed, epoch) only. None for one pass sorted by length (validation).
        chosen: Examples of this pass, repeats and omissions allowed; every example once by default.

    Returns:
        The chosen indices, in batches.
    """
    table = np.asarray(costs).reshape(-1, 2)
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
        targets, sources = table[part].T
        part = part[np.lexsort((-sources, -targets))]
        order[start : start + pool] = part  # the batches of a pool take its place
        sizes += _batch_sizes(map(tuple, table[part].tolist()), batch_tokens)
    shuffled = np.arange(len(sizes)) if epoch is None else torch.randperm(len(sizes), generator=generator).numpy()
    return Plan(order, np.fromiter(accumulate(sizes), dtype=np.int64, count=len(sizes)), shuffled)


def plan_batches(
    costs: ArrayLike, batch_tokens: int, seed: int = 0, epoch: int | None = None, chosen: ArrayLike | None = None
) -> list[list[int]]:
    """The batches of `plan_pass`, as lists."""
    return list(plan_pass(costs, batch_tokens, seed, epoch, chosen))


def collate_pairs(pairs: Sequence[TokenPair], indices: list[int]) -> PairBatch:
    """Pad the chosen pairs into one batch."""
    chosen = take(pairs, indices)
    source, source_mask = _pad([p.source for p in chosen])
    target, target_mask = _pad([[START, *p.target] for p in chosen])
    labels, _ = _pad([[*p.target, END] for p in chosen])
    num_targets = sum(len(p.target) + 1 for p in chosen)
    return PairBatch(indices, source, source_mask, target, labels, target_mask, num_targets)


def _pad(sequences: list[list[int]]) -> tuple[Tensor, Tensor]:
    width = max(1, max(map(len, sequences), default=1))
    tokens = torch.tensor([s + [PADDING] * (width - len(s)) for s in sequences], dtype=torch.long)
    lengths = torch.tensor([len(s) for s in sequences])
    return tokens, torch.arange(width) < lengths.unsqueeze(1)
