"""Batches of pairs: as many as a token budget allows, of similar length, in an order given by (seed, epoch)."""

from __future__ import annotations

import hashlib
import math
from collections.abc import Sequence
from dataclasses import dataclass, replace

import torch
from torch import Tensor

from heed.data.tokenizer import END, PADDING, START

__all__ = ["PairBatch", "TokenPair", "collate_pairs", "draw_epoch", "plan_batches", "pool_batches"]

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
        if device == self.source.device:
            return self
        return replace(
            self,
            source=self.source.to(device),
            source_mask=self.source_mask.to(device),
            target=self.target.to(device),
            labels=self.labels.to(device),
            target_mask=self.target_mask.to(device),
            alignment=None if self.alignment is None else self.alignment.to(device),
        )


def pool_batches(order: Sequence[int], costs: Sequence[tuple[int, int]], batch_tokens: int) -> list[list[int]]:
    """Cut an order into batches whose padded size stays within a budget, longest first.

    Args:
        order: Indices, sorted by cost, largest first, for little padding.
        costs: Target and source length of every example.
        batch_tokens: Largest number of padded source and target positions; an example larger than that stands alone.
    """
    batches: list[list[int]] = []
    current: list[int] = []
    widest = (0, 0)
    for index in order:
        grown = max(widest[0], costs[index][0]), max(widest[1], costs[index][1])
        if current and sum(grown) * (len(current) + 1) > batch_tokens:
            batches.append(current)
            current, grown = [], costs[index]
        current.append(index)
        widest = grown
    return [*batches, current] if current else batches


def draw_epoch(sizes: Sequence[int], weights: Sequence[float], seed: int, epoch: int) -> list[int]:
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
    chosen: list[int] = []
    first = 0
    for size, weight in zip(sizes, weights, strict=True):
        times = math.floor(weight)
        share = (weight - times) * size
        order = torch.randperm(size, generator=generator)
        drawn = math.floor(share + float(torch.rand((), generator=generator)))
        chosen += [first + i for i in range(size)] * times
        chosen += [first + i for i in order[:drawn].tolist()]
        first += size
    return chosen


def plan_batches(
    costs: Sequence[tuple[int, int]],
    batch_tokens: int,
    seed: int = 0,
    epoch: int | None = None,
    chosen: Sequence[int] | None = None,
) -> list[list[int]]:
    """Plan the batches of one pass over the data.

    Examples are shuffled, then sorted by length within pools, cut into batches, and the batches shuffled.

    Args:
        costs: Target and source length of every example.
        batch_tokens: Largest number of padded positions of a batch.
        seed: Seed of the run.
        epoch: Which pass; the order depends on (seed, epoch) only. None for one pass sorted by length (validation).
        chosen: Examples of this pass, repeats and omissions allowed; every example once by default.

    Returns:
        The chosen indices, in batches.
    """
    if chosen is None:
        chosen = range(len(costs))
    if epoch is None:
        return pool_batches(sorted(chosen, key=lambda i: costs[i], reverse=True), costs, batch_tokens)
    generator = torch.Generator().manual_seed((seed * 1_000_003 + epoch) % 2**63)
    order = [chosen[i] for i in torch.randperm(len(chosen), generator=generator).tolist()]
    mean = max(1.0, sum(sum(costs[i]) for i in chosen) / max(1, len(chosen)))
    pool = max(1, int(_POOL * batch_tokens / mean))
    batches: list[list[int]] = []
    for start in range(0, len(order), pool):
        chunk = sorted(order[start : start + pool], key=lambda i: costs[i], reverse=True)
        batches += pool_batches(chunk, costs, batch_tokens)
    return [batches[i] for i in torch.randperm(len(batches), generator=generator).tolist()]


def collate_pairs(pairs: Sequence[TokenPair], indices: list[int]) -> PairBatch:
    """Pad the chosen pairs into one batch."""
    chosen = [pairs[i] for i in indices]
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
