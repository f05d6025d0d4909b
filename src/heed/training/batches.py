"""What each update reads: batches, from any place in the data, and states of rows that go on from batch to batch.

For a GPU a thread makes the batches ahead (`Feed`).
"""

from __future__ import annotations

import hashlib
import threading
from collections.abc import Callable, Generator, Iterator, Mapping, Sequence
from dataclasses import dataclass
from queue import SimpleQueue
from typing import Generic, TypeVar

import torch
from torch import Tensor

from heed.config import TrainingConfig
from heed.training.contracts import Batch, Trainable
from heed.training.device import divided
from heed.training.processes import Processes

T = TypeVar("T")

_AHEAD = 2
"""Maximum number of items made ahead of the consumer."""
_PATIENCE = 5.0
"""Seconds that closing waits for the current item; a pipe without a writer may block the thread forever."""


class Feed(Generic[T]):
    """The items of an iterator in its order, made ahead by a thread. An error is raised in place of its item.

    The thread takes processor time, and Python's lock, from the consumer: it pays where a GPU computes meanwhile.
    """

    def __init__(self, source: Iterator[T]) -> None:
        self._source = source
        self._queue: SimpleQueue[T | BaseException] = SimpleQueue()
        self._room = threading.Semaphore(_AHEAD)
        self._closed = threading.Event()
        # A daemon, so that a blocked thread does not keep the process alive.
        self._thread = threading.Thread(target=self._work, name="heed-batches", daemon=True)
        self._thread.start()

    def __iter__(self) -> Iterator[T]:
        return self

    def __next__(self) -> T:
        item = self._queue.get()
        if isinstance(item, BaseException):  # the iterator's end or error
            self._queue.put(item)  # asked again, it is still the end
            raise item
        self._room.release()
        return item

    def close(self) -> None:
        """End the thread."""
        self._closed.set()
        self._room.release()
        self._thread.join(_PATIENCE)

    def _work(self) -> None:
        try:
            while True:
                self._room.acquire()
                if self._closed.is_set():
                    return
                self._queue.put(next(self._source))
        except BaseException as error:
            self._queue.put(error)


@dataclass(frozen=True)
class Place:
    """A position in the training data."""

    epoch: int  # pass over it
    batch: int  # batches of this pass already used
    plan: str  # a hash of this pass's batches; the place is meaningless for other batches


@dataclass(frozen=True)
class Draw:
    """The batches of one update, in one process.

    Each batch has a flag that says if it counts: where a batch has fewer examples than there are processes, the
    remaining processes run an example of another process with weight 0, as all must run the backward pass together.
    """

    batches: list[tuple[Batch, bool]]  # the process's share of each batch, in micro-batches; False if it has weight 0
    place: Place  # where the next update starts
    targets: int  # target tokens of the batches that count
    padding: float  # mean share of padding


def draws(
    task: Trainable,
    config: TrainingConfig,
    processes: Processes,
    place: Place,
    say: Callable[[str], None],
    finish: Callable[[Batch], Batch] = lambda batch: batch,
    micro_batches: int = 1,
) -> Generator[Draw]:
    """Yield the batches of every update from a place on, endlessly; independent of when they are asked for.

    Args:
        task: Plans passes and makes batches.
        config: Its `accumulate` is the number of batches of an update.
        processes: The processes that share each batch.
        place: Where to begin.
        say: Called with a message if the plan has changed and the place is no longer valid.
        finish: Last step for each batch (pinned memory).
        micro_batches: Number of parts of each batch.
    """
    epoch, start = place.epoch, place.batch
    while True:
        plan = task.train_batches(epoch)
        plan_hash = hashlib.blake2b(repr(plan).encode(), digest_size=16).hexdigest()
        if start > 0 and epoch == place.epoch and plan_hash != place.plan:
            epoch, start = epoch + 1, 0
            changed = "the data or batch settings changed since the checkpoint"
            say(f"{changed}; starting pass {epoch + 1} from its first batch")
            continue
        while start < len(plan):
            chosen = plan[start : start + config.accumulate]
            start += len(chosen)
            parts = [part for indices in chosen for part in _micro_batches(indices, processes, micro_batches)]
            batches = [(finish(task.collate(indices, epoch)), counts) for indices, counts in parts]
            targets = sum(batch.num_targets for batch, counts in batches if counts)
            padding = sum(batch.padding_share for batch, _ in batches) / len(batches)
            yield Draw(batches, Place(epoch, start, plan_hash), targets, padding)
        epoch, start = epoch + 1, 0


def _micro_batches(indices: list[int], processes: Processes, count: int) -> list[tuple[list[int], bool]]:
    """This process's micro-batches of a batch (as many as in every other process), and whether they count."""
    share = processes.share(indices)
    if not share:
        return [(indices[:1], False)]
    return [(part, True) for part in divided(share, max(1, min(count, len(indices) // processes.count)))]


Packed = Mapping[str, Tensor]
"""A state as tensors by name; dimension 0 of each runs over rows."""
_ROWS = "rows"


class CarriedRows:
    """The state after the last batch of every row that this process reads (truncated back-propagation through time).

    Source: Williams and Peng 1990, Neural Computation 2 (4).

    States are stored by row number, so that micro-batches, processes and a resumed run each find theirs. Rows that are
    read together are stored together: tensors of other rows may differ in shape (a tape that is not yet full).
    """

    def __init__(self, tensors: Packed | None = None) -> None:
        """Begin empty, or from the result of `tensors()`."""
        groups: dict[str, dict[str, Tensor]] = {}
        for name, tensor in (tensors or {}).items():
            number, _, key = name.partition(".")
            groups.setdefault(number, {})[key] = tensor
        self._groups: dict[tuple[int, ...], Packed] = {tuple(g.pop(_ROWS).tolist()): g for g in groups.values()}

    def tensors(self) -> dict[str, Tensor]:
        """Return all states as tensors by name, for a checkpoint."""
        tensors: dict[str, Tensor] = {}
        for number, (rows, packed) in enumerate(self._groups.items()):
            tensors[f"{number}.{_ROWS}"] = torch.tensor(rows)
            tensors |= {f"{number}.{name}": tensor.contiguous().clone() for name, tensor in packed.items()}
        return tensors

    def keep(self, rows: Sequence[int], packed: Packed) -> None:
        """Replace the state of some rows; rows that were read together with them keep theirs."""
        rows = tuple(rows)
        for group in [group for group in self._groups if group != rows and not set(group).isdisjoint(rows)]:
            old = self._groups.pop(group)
            others = [n for n, row in enumerate(group) if row not in rows]
            if others:
                self._groups[tuple(group[n] for n in others)] = {name: tensor[others] for name, tensor in old.items()}
        self._groups[rows] = packed

    def of(self, rows: Sequence[int]) -> Packed | None:
        """Return the state of some rows; None if any of them has none."""
        rows = tuple(rows)
        if rows in self._groups:
            return self._groups[rows]
        places = {row: (group, n) for group in self._groups for n, row in enumerate(group)}
        if any(row not in places for row in rows):
            return None
        parts = [(self._groups[places[row][0]], places[row][1]) for row in rows]
        return {name: torch.stack([packed[name][n] for packed, n in parts]) for name in parts[0][0]}
