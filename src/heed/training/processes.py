"""Several processes that train one model together, started by `torchrun`; or a single process.

Every process reads the same batches and takes its share of the examples of each, so that an update does not depend on
the number of processes. Gradients are summed by DistributedDataParallel.

Validation is shared out too, each example read once. With batch normalisation each process normalises by the mean and
deviation of its own share and the running means kept are those of the first process, so the result depends on the
number of processes, as it does on the batches of `training.accumulate`. `heed.train` returns the finished run in every
process. A checkpoint is written after each validation and every `training.save_minutes`; after a death, only the
updates since then are lost.
"""

from __future__ import annotations

import gc
import os
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager, nullcontext
from itertools import count
from typing import Any, TypeVar

import torch
from torch import Tensor, distributed, nn
from torch.nn.parallel import DistributedDataParallel

from heed.errors import ConfigError, RunError

T = TypeVar("T")
R = TypeVar("R")


class Processes:
    """A single process."""

    rank = 0  # number of this process; only the first one writes
    count = 1  # number of processes
    device = torch.device("cpu")  # of this process, where there are several

    @property
    def is_first(self) -> bool:
        """True if this process writes files and prints."""
        return self.rank == 0

    def share(self, items: Sequence[T]) -> list[T]:
        """This process's share of some items: every `count`-th, so that sorted items are distributed evenly."""
        return list(items[self.rank :: self.count])

    def map(self, function: Callable[[list[T]], Sequence[R]], items: Sequence[T]) -> list[R]:
        """Apply `function` (one result per item) to `items`, sharded over all processes; each gets all results."""
        parts = self.gather(list(function(self.share(items))))
        results: list[Any] = [None] * len(items)
        for rank, part in enumerate(parts):
            results[rank :: self.count] = part
        return results

    def total(self, *values: float) -> list[float]:
        """The sum of each value over all processes."""
        return list(values)

    def any(self, *values: bool) -> list[bool]:
        """Whether each value is true in any process."""
        return [total > 0 for total in self.total(*values)]

    def gather(self, value: T) -> list[T]:
        """The values of all processes, by rank."""
        return [value]

    def broadcast(self, value: T) -> T:
        """The first process's value, in every process."""
        return value

    def wrap(self, module: nn.Module) -> nn.Module:
        """Wrap the module so that its gradients are summed over the processes during the backward pass."""
        return module

    def no_sync(self, module: nn.Module) -> AbstractContextManager[Any]:
        """Context manager that disables gradient synchronisation (DDP's `no_sync`)."""
        return nullcontext()

    def seconds_to_sum(self, count: int) -> float:
        """Time that summing `count` float32 numbers over the processes takes."""
        return 0.0

    @contextmanager
    def first_alone(self) -> Iterator[None]:
        """Context manager that ends the joint work: inside it each process works alone; leaving it waits for the first.

        Raises:
            RunError: In the other processes, if the first one failed.
        """
        yield


class _Launched(Processes):
    """One of several processes."""

    def __init__(self, device: str) -> None:
        on_cpu = device == "cpu" or (device == "auto" and not torch.cuda.is_available())
        if not on_cpu:
            self.device = torch.device("cuda", int(os.environ.get("LOCAL_RANK", "0")))
            torch.cuda.set_device(self.device)
        store, self.rank, self.count = next(distributed.rendezvous("env://"))
        self._store = distributed.PrefixStore(_prefix(), store)
        backend = "gloo" if on_cpu else "nccl"
        distributed.init_process_group(backend, store=self._store, rank=self.rank, world_size=self.count)

    def total(self, *values: float) -> list[float]:
        # Not on mps, which has no float64; there are no several processes there.
        summed = torch.tensor(values, dtype=torch.float64, device=self.device)
        distributed.all_reduce(summed)
        return list(summed.tolist())

    def gather(self, value: T) -> list[T]:
        parts: list[Any] = [None] * self.count
        distributed.all_gather_object(parts, value)
        return parts

    def broadcast(self, value: T) -> T:
        holder = [value]
        distributed.broadcast_object_list(holder, src=0)
        return holder[0]

    def wrap(self, module: nn.Module) -> nn.Module:
        return DistributedDataParallel(module, [self.device] if self.device.type == "cuda" else None)

    def no_sync(self, module: nn.Module) -> AbstractContextManager[Any]:
        assert isinstance(module, DistributedDataParallel)
        return module.no_sync()

    def seconds_to_sum(self, count: int) -> float:
        numbers = torch.zeros(count, device=self.device)
        self.total(0.0)  # all are here, and connected
        start = time.perf_counter()
        distributed.all_reduce(numbers)
        self.total(0.0)  # a GPU has finished only when a result is asked for
        return time.perf_counter() - start

    @contextmanager
    def first_alone(self) -> Iterator[None]:
        global _current
        _current = Processes()
        done = False
        try:
            yield
            done = True
        finally:
            if self.is_first:
                self._store.set(_FINISHED, "")
            while not self._store.check([_FINISHED]):  # a collective would fail after its timeout of some minutes
                time.sleep(0.1)
            (done, *_) = self.gather(done)
            gc.collect()  # nothing may hold the group any more
            distributed.destroy_process_group()
        if not done:
            raise RunError("the first process failed after training; its message says why")


_FINISHED = "heed/finished"
_groups = count(1)


def _prefix() -> str:
    """Prefix of the names in torchrun's store, different for each group of processes.

    The store outlives a group of processes, and the next group would connect to the addresses that the last one left
    there (pytorch issue 135712). On several machines the count of restarts may differ, so there the store must not be
    shared (docs/scaling.md).
    """
    restarts = os.environ.get("TORCHELASTIC_RESTART_COUNT", "0") if os.environ.get("GROUP_WORLD_SIZE") == "1" else "0"
    return f"heed/restart-{restarts}/{next(_groups)}"


_current = Processes()


def current() -> Processes:
    """The group of processes that this one belongs to."""
    return _current


def is_first() -> bool:
    """True if this process prints; also valid before the processes have joined."""
    return int(os.environ.get("RANK", "0")) == 0


def was_restarted() -> bool:
    """True if `torchrun --max-restarts` has restarted this process after a failure."""
    return int(os.environ.get("TORCHELASTIC_RESTART_COUNT", "0")) > 0


def join(device: str) -> Processes:
    """Join the processes that a launcher started, if any; `device` is the field `training.device`.

    Raises:
        ConfigError: The device is a single one, such as "cuda:1".
    """
    global _current
    launched = int(os.environ.get("WORLD_SIZE", "1"))
    if launched == 1 or _current.count > 1:
        return _current
    if device not in ("auto", "cpu", "cuda"):
        raise ConfigError(
            f"training.device is '{device}', but {launched} processes were started and each uses its own device; "
            "set training.device to auto or cpu"
        )
    _current = _Launched(device)
    return _current


Numbers = tuple[float, dict[str, float], float]
"""The sum of the losses of an update, that of each term, and the gradient's norm."""


class Sums:
    """The losses of an update's batches, left on their device until all are read together."""

    def __init__(self) -> None:
        self._values: list[tuple[str, Tensor]] = []  # the losses, under "", and their terms
        self._closed = torch.empty(0)
        self._sent: torch.cuda.Event | None = None

    def add(self, loss: Tensor, terms: Mapping[str, Tensor]) -> None:
        """Add the loss of a batch, a single number, and its terms."""
        self._values += [("", loss.detach()), *((name, term.detach()) for name, term in terms.items())]

    def close(self, norm: Tensor) -> Tensor:
        """Put all into one tensor with the gradient's norm, of which a GPU begins to send a copy; return the tensor."""
        device = self._values[0][1].device
        unread = (*(value for _, value in self._values), norm)
        self._closed = closed = torch.stack([value.reshape(()).to(device) for value in unread])
        if device.type == "cuda":
            self._closed = torch.empty(closed.shape, dtype=closed.dtype, pin_memory=True)
            self._closed.copy_(closed, non_blocking=True)
            self._sent = torch.cuda.Event()
            self._sent.record()
        return closed

    def read(self, processes: Processes) -> Numbers:
        """The sum of the losses and of each term over all batches and processes, and the gradient's norm."""
        if self._sent is not None:
            self._sent.synchronize()
        columns: dict[str, list[float]] = {}
        *numbers, norm = self._closed.tolist()
        for (name, _), number in zip(self._values, numbers, strict=True):
            columns.setdefault(name, []).append(number)
        total, *terms = processes.total(*map(sum, columns.values()))
        return total, dict(zip([*columns][1:], terms, strict=True)), norm
