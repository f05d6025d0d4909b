"""Training data: a training set and weighted further corpora, in memory or on disk, or a stream."""

from __future__ import annotations

import sys
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any, Generic, TypeVar

import numpy as np
from numpy.typing import NDArray

from heed.data.batch import draw_epoch, plan_pass
from heed.data.examples import Example, Joined, Lazy, in_turn, take
from heed.data.splits.splits import ExampleStream
from heed.data.splits.stored import Lengths
from heed.errors import DataError

E = TypeVar("E", bound=Example)
T = TypeVar("T")
B = TypeVar("B")
MOST_COUNTED = 20_000
"""Number of examples on disk that are sampled to count tokens for overviews."""


@dataclass(frozen=True)
class Coding(Generic[E, T, B]):
    """Functions of a task that turn examples E into tokens T, and tokens into batches B, which have a field `indices`.

    `encode` puts a tag, if given, before each first text; `lengths` counts tokens without encoding; `costs` returns
    padded lengths `(examples, sides)`, whose first column sorts the batches; `cut` tokenizes an example's text
    differently in each pass, given its tag, (seed, pass, number) and its lengths, to tokens within `costs`.
    """

    encode: Callable[[Sequence[E], str | None], list[T]]
    lengths: Callable[[Sequence[E], str | None], Lengths]
    costs: Callable[[Lengths], Lengths]
    collate: Callable[[Sequence[T], list[int]], B]
    cut: Callable[[E, str | None, tuple[int, int, int], NDArray[np.int32]], T] | None = None


class Encoding(Lazy[T]):
    """The tokens of examples on disk: encoded on access."""

    def __init__(self, examples: Sequence[Any], encode: Callable[[Sequence[Any]], list[T]]) -> None:
        self._examples, self._encode = examples, encode

    def __len__(self) -> int:
        return len(self._examples)

    def take(self, indices: Sequence[int]) -> list[T]:
        return self._encode(take(self._examples, indices))


def some_of(tokens: Sequence[T]) -> Sequence[T]:
    """All tokens, or an even sample of those that are encoded on access."""
    if not isinstance(tokens, Encoding) or len(tokens) <= MOST_COUNTED:
        return tokens
    return [one for chunk in in_turn(sampled(len(tokens), MOST_COUNTED)) for one in tokens.take(chunk)]


def sampled(count: int, most: int) -> range:
    """The places of at most `most` of some examples, evenly spread."""
    return range(0, count, -(-count // most))


@dataclass(frozen=True)
class Corpus(Generic[E, T]):
    """Training examples, their tokens (with tag) and lengths; the `chosen` (or all) occur `weight` times in a pass."""

    examples: Sequence[E]
    tokens: Sequence[T]
    lengths: Lengths
    weight: float = 1.0
    tag: str | None = None
    chosen: NDArray[np.int64] | None = None


class TrainingSet(Generic[E, T, B]):
    """Corpora, their examples numbered consecutively; one window of any size."""

    size = sys.maxsize

    def __init__(self, corpora: Sequence[Corpus[E, T]], coding: Coding[E, T, B]) -> None:
        self.coding, self._corpora = coding, corpora
        self._pass = (0, 0)  # seed and number of the pass that was planned last
        if corpora:
            every = Joined([c.examples for c in corpora]), Joined([c.tokens for c in corpora])
            self._all: Corpus[E, T] = Corpus(*every, np.concatenate([c.lengths for c in corpora]))

    def window(self, number: int) -> Corpus[E, T]:
        """All examples; for a stream, the window of that number."""
        return self._all

    @property
    def newest(self) -> int:
        """Number of the window read last."""
        return 0

    @property
    def tokens(self) -> Sequence[T]:
        """All tokens of the newest window."""
        return self.window(self.newest).tokens

    def __len__(self) -> int:
        return len(self._chosen(self.newest))

    def _chosen(self, number: int) -> Sequence[int]:
        window = self.window(number)
        return range(len(window.examples)) if window.chosen is None else window.chosen  # type: ignore[return-value]

    def _at(self, indices: Sequence[int]) -> tuple[Corpus[E, T], list[int]]:
        """The one window that these examples are in, and their places in it."""
        number = indices[0] // self.size
        return self.window(number), [index - number * self.size for index in indices]

    def examples_at(self, indices: Sequence[int]) -> list[E]:
        """The examples with these numbers."""
        window, places = self._at(indices)
        return take(window.examples, places)

    def tokens_at(self, indices: Sequence[int]) -> list[T]:
        """The tokens of the examples with these numbers."""
        window, places = self._at(indices)
        return take(window.tokens, places)

    def lengths_at(self, indices: Sequence[int]) -> Lengths:
        """The lengths of the examples with these numbers."""
        window, places = self._at(indices)
        return window.lengths[places]

    def corpus_of(self, index: int) -> tuple[int, str | None]:
        """The number of an example's corpus (0 is the training set), and the tag of that corpus."""
        examples = self._at([index])[0].examples
        number = examples.part_of(index) if isinstance(examples, Joined) else 0
        return number, self._corpora[number].tag if self._corpora else None

    def drawn(self, index: int) -> tuple[int, int, int]:
        """The seed of the random tokenization of an example in the pass planned last: (seed, pass, number)."""
        return (*self._pass, index)

    def samples(self) -> list[int]:
        """The numbers of a few examples to show."""
        chosen = self._chosen(self.newest)
        return [self.newest * self.size + int(i) for i in chosen[:: max(1, len(chosen) // 3)]]

    def longest(self, side: int) -> int:
        """Tokens of the longest text of a side; for a stream, in its first window."""
        return int(self.window(0).lengths[self._chosen(0), side].max())

    def work(self, indices: list[int]) -> int:
        """Padded positions of a batch."""
        return len(indices) * int(self.coding.costs(self.lengths_at(indices)).max(0).sum())

    def batches(self, batch_tokens: int, seed: int, epoch: int) -> Sequence[list[int]]:
        """The batches of one pass, determined by (seed, epoch)."""
        self._pass = (seed, epoch)
        window = self.window(epoch)
        chosen, first = window.chosen, 0 if self._corpora else epoch * self.size  # for a stream
        if len(self._corpora) > 1:
            sizes, weights = [len(c.examples) for c in self._corpora], [c.weight for c in self._corpora]
            chosen = draw_epoch(sizes, weights, seed, epoch)
        plan = plan_pass(self.coding.costs(window.lengths), batch_tokens, seed, epoch, chosen)
        # With millions of examples, lists would take more memory than anything else.
        if any(isinstance(corpus.tokens, Encoding) for corpus in self._corpora):
            return plan
        return [[first + i for i in indices] for indices in plan] if first else list(plan)

    def collate(self, indices: list[int], epoch: int = 0) -> B:
        """One batch of the pass planned last; random tokenization is the same in every process and after a resume."""
        if (cut := self.coding.cut) is None:
            tokens = self.tokens_at(indices)
        else:
            examples = zip(self.examples_at(indices), indices, self.lengths_at(indices), strict=True)
            tokens = [cut(example, self.corpus_of(i)[1], self.drawn(i), lengths) for example, i, lengths in examples]
        batch: Any = self.coding.collate(tokens, list(range(len(tokens))))
        return replace(batch, indices=indices)  # type: ignore[no-any-return]


class StreamSet(TrainingSet[E, T, B]):
    """The windows of a stream, one pass each; an example's number is its place in the stream."""

    def __init__(self, stream: ExampleStream[E], coding: Coding[E, T, B], max_length: int, rule: str) -> None:
        """Examples longer than `max_length` are left out and counted under the name of `rule`."""
        super().__init__((), coding)
        self._rule = rule
        self.size, self._stream, self._max_length = stream.size, stream, max_length
        self._windows: dict[int, Corpus[E, T]] = {}

    @property
    def newest(self) -> int:
        return self._stream.newest

    def window(self, number: int) -> Corpus[E, T]:
        if number not in self._windows:
            examples = self._stream.window(number)
            lengths = self.coding.lengths(examples, None)
            short = np.flatnonzero(lengths.max(1) <= self._max_length)
            self._stream.count_out(self._rule, len(examples) - len(short))
            if not len(short):
                raise DataError(f"every {self._stream.unit} of window {number} of {self._stream.name} is {self._rule}")
            tokens = Encoding(examples, lambda some: self.coding.encode(some, None))
            before = {n: held for n, held in self._windows.items() if n == number - 1}
            self._windows = before | {number: Corpus(examples, tokens, lengths, chosen=short)}
        return self._windows[number]
