"""What a translation model is trained on where its corpus never ends: one window of a stream is one pass."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from heed.data.batch.pairs import PairBatch, TokenPair, collate_pairs, plan_batches
from heed.data.examples import Pair
from heed.data.store.lengths import Lengths
from heed.data.store.stream import PairStream
from heed.errors import DataError
from heed.tasks.translation.encoding import Encode, lengths_of
from heed.tasks.translation.tokenizers import Tokenizers
from heed.tasks.translation.training_set import Samplers, collate_anew

__all__ = ["StreamSet"]


@dataclass(frozen=True)
class _Window:
    """A window, planned.

    Attributes:
        pairs: As text; a process encodes those of the batches it trains on.
        costs: What a batch pays for each of them.
        short: Those that are trained on.
    """

    pairs: list[Pair]
    costs: Lengths
    short: NDArray[np.int64]


class StreamSet:
    """The windows of a stream; a pair is known by its place in the stream."""

    def __init__(self, stream: PairStream, tokenizers: Tokenizers, encode: Encode, max_length: int) -> None:
        self._stream = stream
        self._tokenizers = tokenizers
        self._encode = encode
        self._max_length = max_length
        self._windows: dict[int, _Window] = {}
        self._pass = (0, 0)

    def __len__(self) -> int:
        return len(self._window(self._stream.newest).short)

    @property
    def longest_target(self) -> int:
        """Tokens of the longest target of the first window."""
        window = self._window(0)
        return int(window.costs[window.short, 0].max()) - 1

    def pair(self, index: int) -> Pair:
        """One pair as text."""
        return self._pairs([index])[0]

    def token_pair(self, index: int) -> TokenPair:
        """One pair as tokens."""
        return self._encode([self.pair(index)])[0]

    def costs_of(self, indices: Sequence[int]) -> Lengths:
        """What a batch pays for each of some pairs of one window."""
        number = indices[0] // self._stream.size
        costs: Lengths = self._window(number).costs[np.asarray(indices) - number * self._stream.size]
        return costs

    def samples(self) -> list[int]:
        """A few pairs, to be shown."""
        newest = self._stream.newest
        short = self._window(newest).short
        return [newest * self._stream.size + int(i) for i in short[:: max(1, len(short) // 3)]]

    def batches(self, batch_tokens: int, seed: int, epoch: int) -> Sequence[list[int]]:
        """The batches of a window; a function of (seed, epoch) and the window only."""
        window, first = self._window(epoch), epoch * self._stream.size
        self._pass = (seed, epoch)
        plan = plan_batches(window.costs, batch_tokens, seed, epoch, window.short)
        return [[first + i for i in indices] for indices in plan]

    def collate(self, indices: list[int], samplers: Samplers | None) -> PairBatch:
        """One batch, encoded now; `samplers` cut its texts differently each time."""
        pairs = self._pairs(indices)
        if samplers is not None:
            return collate_anew(pairs, indices, [None] * len(pairs), samplers, self._pass)
        return replace(collate_pairs(self._encode(pairs), list(range(len(pairs)))), indices=indices)

    def _pairs(self, indices: Sequence[int]) -> list[Pair]:
        size = self._stream.size
        return [self._window(index // size).pairs[index % size] for index in indices]

    def _window(self, number: int) -> _Window:
        if number not in self._windows:
            pairs = self._stream.window(number)
            costs = lengths_of(pairs, self._tokenizers, self._max_length // 2, tag=False)
            lengths = np.maximum(costs[:, 0] - 1, costs[:, 1])
            short = np.flatnonzero(lengths <= self._max_length)
            rule = f"longer than data.max_length {self._max_length} tokens"
            self._stream.count_out(rule, len(pairs) - len(short))
            if not len(short):
                raise DataError(f"every pair of window {number} of {self._stream.name} is {rule}")
            self._windows = {n: held for n, held in self._windows.items() if n == number - 1}
            self._windows[number] = _Window(pairs, costs, short)
        return self._windows[number]
