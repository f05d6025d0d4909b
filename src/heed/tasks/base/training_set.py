"""What a model is trained on: a training set and further corpora as often as they weigh, held or not, or a stream."""

from __future__ import annotations

import sys
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any, Generic, TypeVar

import numpy as np
from numpy.typing import NDArray

from heed.data.batch.plan import draw_epoch, plan_pass
from heed.data.examples import Example
from heed.data.sequences import Joined, Lazy, in_turn, take
from heed.data.store.lengths import Lengths
from heed.data.store.stream import ExampleStream
from heed.errors import DataError

E = TypeVar("E", bound=Example)
T = TypeVar("T")
B = TypeVar("B")
_COUNTED = 20_000
"""Of more examples than are held as tokens, so many are encoded to count tokens for people."""


@dataclass(frozen=True)
class Coding(Generic[E, T, B]):
    """How a task makes batches of its examples (E: as tokens T, batches B with a field `indices`).

    Attributes:
        encode: Examples to tokens, a tag before the first text of each where one is given.
        lengths: How many tokens their texts have, told without encoding them; the tag, too, where there is one.
        costs: What a batch pays for examples of these lengths, `(examples, sides)`; sorted by the first column.
        collate: Pads chosen ones of some tokens into one batch.
        cut: One example to tokens, cut differently in each pass, with its tag, the seed, the pass and its number; None
            where all passes see the same tokens.
    """

    encode: Callable[[Sequence[E], str | None], list[T]]
    lengths: Callable[[Sequence[E], str | None], Lengths]
    costs: Callable[[Lengths], Lengths]
    collate: Callable[[Sequence[T], list[int]], B]
    cut: Callable[[E, str | None, tuple[int, int, int]], T] | None = None


class Encoding(Lazy[T]):
    """The tokens of examples that lie in a file: encoded whenever they are asked for, none of them held."""

    def __init__(self, examples: Sequence[Any], encode: Callable[[Sequence[Any]], list[T]]) -> None:
        self._examples, self._encode = examples, encode

    def __len__(self) -> int:
        return len(self._examples)

    def take(self, indices: Sequence[int]) -> list[T]:
        """The tokens of the examples at these places, encoded together."""
        return self._encode(take(self._examples, indices))


def some_of(tokens: Sequence[T]) -> Sequence[T]:
    """All of some tokens, or an even sample of those that are not held."""
    if not isinstance(tokens, Encoding) or len(tokens) <= _COUNTED:
        return tokens
    places = range(0, len(tokens), -(-len(tokens) // _COUNTED))
    return [one for chunk in in_turn(places) for one in tokens.take(chunk)]


@dataclass(frozen=True)
class Corpus(Generic[E, T]):
    """Examples that are trained on, their tokens with their tag, and the lengths of these.

    `weight` is how often each is seen in one pass; `chosen` says which are, where it is not all.
    """

    examples: Sequence[E]
    tokens: Sequence[T]
    lengths: Lengths
    weight: float = 1.0
    tag: str | None = None
    chosen: NDArray[np.int64] | None = None


class TrainingSet(Generic[E, T, B]):
    """Corpora, their examples numbered through in the order of the corpora."""

    size = sys.maxsize
    """Numbers of one window; only a stream has more than one."""

    def __init__(self, corpora: Sequence[Corpus[E, T]], coding: Coding[E, T, B]) -> None:
        self.coding = coding
        self._corpora = corpora
        self._pass = (0, 0)
        if corpora:
            every = Joined([c.examples for c in corpora]), Joined([c.tokens for c in corpora])
            self._all: Corpus[E, T] = Corpus(*every, np.concatenate([c.lengths for c in corpora]))

    def window(self, number: int) -> Corpus[E, T]:
        """All that may be seen in a pass; of a stream the window of that number."""
        return self._all

    @property
    def newest(self) -> int:
        """The window that was read last."""
        return 0

    @property
    def tokens(self) -> Sequence[T]:
        """All tokens, in the order of the numbers."""
        return self.window(self.newest).tokens

    def __len__(self) -> int:
        return len(self._chosen(self.newest))

    def _chosen(self, number: int) -> Sequence[int]:
        window = self.window(number)
        return range(len(window.examples)) if window.chosen is None else window.chosen  # type: ignore[return-value]

    def _at(self, indices: Sequence[int]) -> tuple[Corpus[E, T], list[int]]:
        """The window of some examples, and their places in it."""
        number = indices[0] // self.size
        return self.window(number), [index - number * self.size for index in indices]

    def examples_at(self, indices: Sequence[int]) -> list[E]:
        """Some examples of one window."""
        window, places = self._at(indices)
        return take(window.examples, places)

    def tokens_at(self, indices: Sequence[int]) -> list[T]:
        """Their tokens."""
        window, places = self._at(indices)
        return take(window.tokens, places)

    def lengths_at(self, indices: Sequence[int]) -> Lengths:
        """Their lengths."""
        window, places = self._at(indices)
        return window.lengths[places]

    def _tag_of(self, index: int) -> str | None:
        examples = self._at([index])[0].examples
        return self._corpora[examples.part_of(index)].tag if isinstance(examples, Joined) else None

    def samples(self) -> list[int]:
        """A few examples, to be shown."""
        chosen = self._chosen(self.newest)
        return [self.newest * self.size + int(i) for i in chosen[:: max(1, len(chosen) // 3)]]

    def longest(self, side: int) -> int:
        """Tokens of the longest text of a side, of a stream in its first window."""
        return int(self.window(0).lengths[self._chosen(0), side].max())

    def work(self, indices: list[int]) -> int:
        """Padded positions of a batch."""
        return len(indices) * int(self.coding.costs(self.lengths_at(indices)).max(0).sum())

    def batches(self, batch_tokens: int, seed: int, epoch: int) -> Sequence[list[int]]:
        """The batches of one pass; a function of (seed, epoch) and the examples only."""
        self._pass = (seed, epoch)
        window = self.window(epoch)
        chosen, first = window.chosen, 0 if self._corpora else epoch * self.size
        if len(self._corpora) > 1:
            sizes, weights = [len(c.examples) for c in self._corpora], [c.weight for c in self._corpora]
            chosen = draw_epoch(sizes, weights, seed, epoch)
        plan = plan_pass(self.coding.costs(window.lengths), batch_tokens, seed, epoch, chosen)
        # A plan is read as a list is; of millions of examples, lists would be the largest thing in memory.
        if any(isinstance(corpus.tokens, Encoding) for corpus in self._corpora):
            return plan
        return [[first + i for i in indices] for indices in plan] if first else list(plan)

    def collate(self, indices: list[int], epoch: int = 0) -> B:
        """One batch of the pass that was planned last.

        A text that is cut anew is cut the same wherever and whenever it stands in a pass: in any process, and after a
        resume.
        """
        coding = self.coding
        if coding.cut is None:
            tokens = self.tokens_at(indices)
        else:
            examples = zip(self.examples_at(indices), indices, strict=True)
            tokens = [coding.cut(example, self._tag_of(i), (*self._pass, i)) for example, i in examples]
        batch: Any = coding.collate(tokens, list(range(len(tokens))))
        return replace(batch, indices=indices)  # type: ignore[no-any-return]


class StreamSet(TrainingSet[E, T, B]):
    """The windows of a stream, each one pass; an example's number is its place in the stream."""

    def __init__(self, stream: ExampleStream[E], coding: Coding[E, T, B], max_length: int) -> None:
        super().__init__((), coding)
        self.size = stream.size
        self._stream, self._max_length = stream, max_length
        self._windows: dict[int, Corpus[E, T]] = {}

    @property
    def newest(self) -> int:
        """The window that was read last."""
        return self._stream.newest

    def window(self, number: int) -> Corpus[E, T]:
        """A window, of which a process encodes what it trains on."""
        if number not in self._windows:
            examples = self._stream.window(number)
            lengths = self.coding.lengths(examples, None)
            short = np.flatnonzero(lengths.max(1) <= self._max_length)
            rule = f"longer than data.max_length {self._max_length} tokens"
            self._stream.count_out(rule, len(examples) - len(short))
            if not len(short):
                raise DataError(f"every {self._stream.unit} of window {number} of {self._stream.name} is {rule}")
            tokens = Encoding(examples, lambda some: self.coding.encode(some, None))
            self._windows = {n: held for n, held in self._windows.items() if n == number - 1}
            self._windows[number] = Corpus(examples, tokens, lengths, chosen=short)
        return self._windows[number]
