"""The batches of each update, from a place in the data on."""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

from heed.config import TrainingConfig
from heed.training.contracts import Batch, CollatesTogether, Trainable
from heed.training.micro_batches import divided
from heed.training.processes import Processes


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
) -> Iterator[Draw]:
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
    together = 1
    collate_all: Callable[[Sequence[list[int]], int], list[Any]] = partial(_one_by_one, task)
    if isinstance(task, CollatesTogether):
        together, collate_all = task.updates_together, task.collate_all
    while True:
        plan = task.train_batches(epoch)
        mark = hashlib.blake2b(repr(plan).encode(), digest_size=16).hexdigest()
        if start > 0 and epoch == place.epoch and mark != place.plan:
            epoch, start = epoch + 1, 0
            changed = "the data or batch settings changed since the checkpoint"
            say(f"{changed}; starting pass {epoch + 1} from its first batch")
            continue
        while start < len(plan):
            updates: list[tuple[list[tuple[list[int], bool]], Place]] = []
            while start < len(plan) and len(updates) < together:
                chosen = plan[start : start + config.accumulate]
                start += len(chosen)
                shares = [part for indices in chosen for part in _shares(indices, processes, micro_batches)]
                updates.append((shares, Place(epoch, start, mark)))
            made = iter(collate_all([indices for shares, _ in updates for indices, _ in shares], epoch))
            for shares, end in updates:
                batches = [(finish(next(made)), counts) for _, counts in shares]
                targets = sum(batch.num_targets for batch, counts in batches if counts)
                padding = sum(batch.padding_share for batch, _ in batches) / len(batches)
                yield Draw(batches, end, targets, padding)
        epoch, start = epoch + 1, 0


def _one_by_one(task: Trainable, batches: Sequence[list[int]], epoch: int) -> list[Batch]:
    return [task.collate(indices, epoch) for indices in batches]


def _shares(indices: list[int], processes: Processes, micro_batches: int) -> list[tuple[list[int], bool]]:
    """This process's micro-batches of a batch (as many as in every other process), and whether they count."""
    own = processes.share(indices)
    if not own:
        return [(indices[:1], False)]
    return [(part, True) for part in divided(own, max(1, min(micro_batches, len(indices) // processes.count)))]
