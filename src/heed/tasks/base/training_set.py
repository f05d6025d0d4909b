"""What a model is trained on: a training set and further corpora as often as they weigh, held or not, or a stream."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any, Generic, TypeVar

import numpy as np
from numpy.typing import NDArray

from heed.data.batch.plan import draw_epoch, plan_batches, plan_pass
from heed.data.examples import Example
from heed.data.sequences import Joined, Lazy, in_turn, take
from heed.data.store.lengths import Lengths
from heed.data.store.stream import ExampleStream
from heed.errors import DataError

E = TypeVar("E", bound=Example)
T = TypeVar("T")
"""An example as tokens."""
B = TypeVar("B")
"""A batch, a dataclass with a field `indices`."""
_COUNTED = 20_000
"""Of more examples than are held as tokens, so many are encoded to count tokens for people."""


@dataclass(frozen=True)
class Coding(Generic[E, T, B]):
    """How a task makes batches of its examples.

    Attributes:
        encode: Examples to tokens, a tag before the first text of each where one is given.
        lengths: How many tokens their texts have, told without encoding them; the tag, too, where there is one.
        costs: What a batch pays for examples of these lengths, `(examples, sides)`; sorted by the first column.
        collate: Pads chosen ones of some tokens into one batch.
        cut: One example to tokens, cut differently in each pass, with its tag, the seed, the pass and its place in it;
            None where all passes see the same tokens.
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


class Trained(ABC, Generic[E, T, B]):
    """Examples that are trained on, each known by a number."""

    def __init__(self, coding: Coding[E, T, B]) -> None:
        self._coding = coding
        self._pass = (0, 0)

    @abstractmethod
    def __len__(self) -> int:
        """How many examples one pass has, before they are weighted."""

    @abstractmethod
    def examples_at(self, indices: Sequence[int]) -> list[E]:
        """Some of the examples."""

    @abstractmethod
    def lengths_at(self, indices: Sequence[int]) -> Lengths:
        """Their lengths."""

    @abstractmethod
    def tokens_at(self, indices: Sequence[int]) -> list[T]:
        """Their tokens."""

    def tag_of(self, index: int) -> str | None:
        """The tag before an example's first text."""
        return None

    @abstractmethod
    def samples(self) -> list[int]:
        """A few examples, to be shown."""

    @abstractmethod
    def longest(self, side: int) -> int:
        """Tokens of the longest text of a side."""

    @abstractmethod
    def batches(self, batch_tokens: int, seed: int, epoch: int) -> Sequence[list[int]]:
        """The batches of one pass; a function of (seed, epoch) and the examples only."""

    def work(self, indices: list[int]) -> int:
        """Padded positions of a batch."""
        return len(indices) * int(self._coding.costs(self.lengths_at(indices)).max(0).sum())

    def collate(self, indices: list[int]) -> B:
        """One batch of the pass that was planned last.

        A text that is cut anew is cut the same wherever and whenever it stands in a pass: in any process, and after a
        resume.
        """
        coding = self._coding
        if coding.cut is None:
            tokens = self.tokens_at(indices)
        else:
            examples = zip(self.examples_at(indices), indices, strict=True)
            tokens = [coding.cut(example, self.tag_of(i), (*self._pass, i)) for example, i in examples]
        batch: Any = coding.collate(tokens, list(range(len(tokens))))
        return replace(batch, indices=indices)  # type: ignore[no-any-return]


@dataclass(frozen=True)
class Corpus(Generic[E, T]):
    """One corpus of the training set, its tokens with its tag; `weight` is how often it is seen in one pass."""

    examples: Sequence[E]
    tokens: Sequence[T]
    lengths: Lengths
    weight: float = 1.0
    tag: str | None = None


class TrainingSet(Trained[E, T, B]):
    """Corpora, their examples numbered through in the order of the corpora."""

    def __init__(self, corpora: Sequence[Corpus[E, T]], coding: Coding[E, T, B]) -> None:
        super().__init__(coding)
        self.examples: Joined[E] = Joined([corpus.examples for corpus in corpora])
        self.tokens: Joined[T] = Joined([corpus.tokens for corpus in corpora])
        self.lengths = np.concatenate([corpus.lengths for corpus in corpora])
        self._corpora = corpora
        self._held = not any(isinstance(corpus.tokens, Encoding) for corpus in corpora)

    def __len__(self) -> int:
        return len(self.examples)

    def examples_at(self, indices: Sequence[int]) -> list[E]:
        """Some of the examples."""
        return self.examples.take(indices)

    def lengths_at(self, indices: Sequence[int]) -> Lengths:
        """Their lengths."""
        return self.lengths[indices]

    def tokens_at(self, indices: Sequence[int]) -> list[T]:
        """Their tokens."""
        return self.tokens.take(indices)

    def tag_of(self, index: int) -> str | None:
        """The tag of its corpus."""
        return self._corpora[self.examples.part_of(index)].tag

    def samples(self) -> list[int]:
        """Some from all over."""
        return list(range(0, len(self), max(1, len(self) // 3)))

    def longest(self, side: int) -> int:
        """Of all."""
        return int(self.lengths[:, side].max())

    def batches(self, batch_tokens: int, seed: int, epoch: int) -> Sequence[list[int]]:
        """Of every example, or of those that are drawn by the weights of their corpora."""
        chosen = None
        if len(self._corpora) > 1:
            sizes, weights = [len(c.examples) for c in self._corpora], [c.weight for c in self._corpora]
            chosen = draw_epoch(sizes, weights, seed, epoch)
        self._pass = (seed, epoch)
        plan = plan_pass(self._coding.costs(self.lengths), batch_tokens, seed, epoch, chosen)
        # A plan is read as a list is; of millions of examples, lists would be the largest thing in memory.
        return list(plan) if self._held else plan


@dataclass(frozen=True)
class _Window(Generic[E]):
    """A window of a stream as text, its lengths, and which examples are trained on (`short`)."""

    examples: list[E]
    lengths: Lengths
    short: NDArray[np.int64]


class StreamSet(Trained[E, T, B]):
    """The windows of a stream, each one pass; an example is known by its place in the stream."""

    def __init__(self, stream: ExampleStream[E], coding: Coding[E, T, B], max_length: int) -> None:
        super().__init__(coding)
        self._stream, self._max_length = stream, max_length
        self._windows: dict[int, _Window[E]] = {}

    def __len__(self) -> int:
        return len(self._window(self._stream.newest).short)

    def examples_at(self, indices: Sequence[int]) -> list[E]:
        """Examples of windows that are held."""
        size = self._stream.size
        return [self._window(index // size).examples[index % size] for index in indices]

    def lengths_at(self, indices: Sequence[int]) -> Lengths:
        """Lengths of examples of one window."""
        number = indices[0] // self._stream.size
        lengths: Lengths = self._window(number).lengths[np.asarray(indices) - number * self._stream.size]
        return lengths

    def tokens_at(self, indices: Sequence[int]) -> list[T]:
        """Encoded now: a process encodes what it trains on."""
        return self._coding.encode(self.examples_at(indices), None)

    def samples(self) -> list[int]:
        """Some of the newest window."""
        newest = self._stream.newest
        short = self._window(newest).short
        return [newest * self._stream.size + int(i) for i in short[:: max(1, len(short) // 3)]]

    def longest(self, side: int) -> int:
        """Of the first window."""
        window = self._window(0)
        return int(window.lengths[window.short, side].max())

    def batches(self, batch_tokens: int, seed: int, epoch: int) -> Sequence[list[int]]:
        """Of the examples of a window."""
        window, first = self._window(epoch), epoch * self._stream.size
        self._pass = (seed, epoch)
        plan = plan_batches(self._coding.costs(window.lengths), batch_tokens, seed, epoch, window.short)
        return [[first + i for i in indices] for indices in plan]

    def _window(self, number: int) -> _Window[E]:
        if number not in self._windows:
            examples = self._stream.window(number)
            lengths = self._coding.lengths(examples, None)
            short = np.flatnonzero(lengths.max(1) <= self._max_length)
            rule = f"longer than data.max_length {self._max_length} tokens"
            self._stream.count_out(rule, len(examples) - len(short))
            if not len(short):
                raise DataError(f"every {self._stream.unit} of window {number} of {self._stream.name} is {rule}")
            self._windows = {n: held for n, held in self._windows.items() if n == number - 1}
            self._windows[number] = _Window(examples, lengths, short)
        return self._windows[number]
