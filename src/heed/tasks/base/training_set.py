"""Training data: a training set and weighted further corpora, in memory or on disk."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any, Generic, TypeVar

import numpy as np
from numpy.typing import NDArray

from heed.data.batch import draw_epoch, plan_pass
from heed.data.corpus import Corpus, Lengths, StoredExamples
from heed.data.examples import Example, take

E = TypeVar("E", bound=Example)
T = TypeVar("T")
B = TypeVar("B")


@dataclass(frozen=True)
class Coding(Generic[E, T, B]):
    """Functions of a task that turn tokens T of examples E into batches B, which have a field `indices`.

    `costs` returns padded lengths `(examples, sides)`, whose first column sorts the batches; `cut` tokenizes an
    example's text differently in each pass, given its tag, (seed, pass, number) and its lengths, to tokens within
    `costs`.
    """

    costs: Callable[[Lengths], Lengths]
    collate: Callable[[Sequence[T], list[int]], B]
    cut: Callable[[E, str | None, tuple[int, int, int], NDArray[np.int32]], T] | None = None


@dataclass(frozen=True)
class Weighted(Generic[E, T]):
    """Training examples and their tokens (with tag); each occurs `weight` times in a pass."""

    examples: Sequence[E]
    tokens: Corpus[T]
    weight: float = 1.0
    tag: str | None = None


class TrainingSet(Generic[E, T, B]):
    """Corpora, their examples numbered consecutively."""

    def __init__(self, corpora: Sequence[Weighted[E, T]], coding: Coding[E, T, B]) -> None:
        self.coding, self._corpora = coding, corpora
        self._pass = (0, 0)  # seed and number of the pass that was planned last
        self._ends = np.cumsum([len(corpus.examples) for corpus in corpora])
        self._lengths = np.concatenate([corpus.tokens.lengths for corpus in corpora])

    def __len__(self) -> int:
        return int(self._ends[-1])

    def examples_at(self, indices: Sequence[int]) -> list[E]:
        """The examples with these numbers."""
        return self._at([corpus.examples for corpus in self._corpora], indices)

    def tokens_at(self, indices: Sequence[int]) -> list[T]:
        """The tokens of the examples with these numbers."""
        return self._at([corpus.tokens for corpus in self._corpora], indices)

    def _at(self, parts: Sequence[Sequence[Any]], indices: Sequence[int]) -> list[Any]:
        """The items with these numbers, those of a corpus taken together."""
        numbers = np.asarray(indices, dtype=np.int64)
        owners = np.searchsorted(self._ends, numbers, side="right")
        items: dict[int, Any] = {}
        for owner in np.unique(owners).tolist():
            places = np.flatnonzero(owners == owner)
            inside = numbers[places] - self._ends[owner] + len(parts[owner])
            items |= zip(places.tolist(), take(parts[owner], inside.tolist()), strict=True)
        return [items[place] for place in range(len(numbers))]

    def lengths_at(self, indices: Sequence[int]) -> Lengths:
        """The lengths of the examples with these numbers."""
        return self._lengths[indices]

    def corpus_of(self, index: int) -> tuple[int, str | None]:
        """The number of an example's corpus (0 is the training set), and the tag of that corpus."""
        number = int(np.searchsorted(self._ends, index, side="right"))
        return number, self._corpora[number].tag

    def drawn(self, index: int) -> tuple[int, int, int]:
        """The seed of the random tokenization of an example in the pass planned last: (seed, pass, number)."""
        return (*self._pass, index)

    def samples(self) -> list[int]:
        """The numbers of a few examples to show."""
        return [*range(0, len(self), max(1, len(self) // 3))]

    def longest(self, side: int) -> int:
        """Tokens of the longest text of a side."""
        return int(self._lengths[:, side].max())

    def work(self, indices: list[int]) -> int:
        """Padded positions of a batch."""
        return len(indices) * int(self.coding.costs(self.lengths_at(indices)).max(0).sum())

    def batches(self, batch_tokens: int, seed: int, epoch: int) -> Sequence[list[int]]:
        """The batches of one pass, determined by (seed, epoch)."""
        self._pass = (seed, epoch)
        chosen = None
        if len(self._corpora) > 1:
            sizes, weights = [len(c.examples) for c in self._corpora], [c.weight for c in self._corpora]
            chosen = draw_epoch(sizes, weights, seed, epoch)
        plan = plan_pass(self.coding.costs(self._lengths), batch_tokens, seed, epoch, chosen)
        # With millions of examples, lists would take more memory than anything else.
        return plan if any(isinstance(corpus.examples, StoredExamples) for corpus in self._corpora) else list(plan)

    def collate(self, indices: list[int], epoch: int = 0) -> B:
        """One batch of the pass planned last; random tokenization is the same in every process and after a resume."""
        if (cut := self.coding.cut) is None:
            tokens = self.tokens_at(indices)
        else:
            examples = zip(self.examples_at(indices), indices, self.lengths_at(indices), strict=True)
            tokens = [cut(example, self.corpus_of(i)[1], self.drawn(i), lengths) for example, i, lengths in examples]
        batch: Any = self.coding.collate(tokens, list(range(len(tokens))))
        return replace(batch, indices=indices)  # type: ignore[no-any-return]
