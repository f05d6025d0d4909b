"""Several processes that train one model together, started by `accelerate launch` or `torchrun`; or one alone.

Every process reads the same batches and takes its share of the examples of each, so that an update is the same
whatever their number. Gradients are summed by DistributedDataParallel. accelerate finds the devices and joins the
processes; its accumulation, its data loaders and its checkpoints are not used.
"""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager, nullcontext
from typing import Any, TypeVar

import torch
from torch import nn

from heed.errors import ConfigError

__all__ = ["Processes", "current", "is_first", "join", "was_restarted"]

T = TypeVar("T")
R = TypeVar("R")


class Processes:
    """One process alone: everything is its own.

    Attributes:
        rank: Number of this process, from 0; only the first one writes.
        count: How many there are.
        device: This process's device, where there are several.
    """

    rank = 0
    count = 1
    device = torch.device("cpu")

    @property
    def is_first(self) -> bool:
        """Whether this process writes files and speaks."""
        return self.rank == 0

    def share(self, items: Sequence[T]) -> list[T]:
        """This process's part of some items: every `count`-th, so that sorted ones are shared out evenly."""
        return list(items[self.rank :: self.count])

    def spread(self, function: Callable[[list[T]], Sequence[R]], items: Sequence[T]) -> list[R]:
        """`function(items)`, worked out by all processes together: each on its share, none twice.

        Args:
            function: Gives one result for each item, in order.
            items: The same in every process.

        Returns:
            All results in the order of the items, in every process.
        """
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
        return list(values)

    def gather(self, value: T) -> list[T]:
        """The values of all processes, by rank."""
        return [value]

    def told(self, value: T) -> T:
        """The first process's value, in every process."""
        return value

    def together(self, module: nn.Module) -> nn.Module:
        """The module whose gradients are summed over the processes when its loss goes backward."""
        return module

    def apart(self, module: nn.Module) -> AbstractContextManager[Any]:
        """Within this, gradients of the module stay in their process."""
        return nullcontext()

    def seconds_to_sum(self, count: int) -> float:
        """Time that summing `count` float32 numbers over the processes takes."""
        return 0.0

    def leave(self) -> None:
        """Nothing more will be exchanged."""


class _Launched(Processes):
    """One of several processes."""

    def __init__(self, device: str) -> None:
        from accelerate import Accelerator

        on_cpu = device == "cpu" or (device == "auto" and not torch.cuda.is_available())
        if was_restarted() and os.environ.get("GROUP_WORLD_SIZE") == "1":
            _meet_anew("gloo" if on_cpu else "nccl")
        self._accelerator = Accelerator(cpu=on_cpu, mixed_precision="no", gradient_accumulation_steps=1)
        self.rank = self._accelerator.process_index
        self.count = self._accelerator.num_processes
        self.device = torch.device("cpu") if on_cpu else self._accelerator.device

    def total(self, *values: float) -> list[float]:
        summed: Any = self._accelerator.reduce(self._tensor(values), "sum")
        return [float(value) for value in summed]

    def any(self, *values: bool) -> list[bool]:
        return [value > 0 for value in self.total(*map(float, values))]

    def _tensor(self, values: Sequence[float]) -> torch.Tensor:
        # Not on mps, which has no float64; there are no several processes there.
        return torch.tensor(values, dtype=torch.float64, device=self.device)

    def gather(self, value: T) -> list[T]:
        parts: list[Any] = [None] * self.count
        torch.distributed.all_gather_object(parts, value)
        return parts

    def told(self, value: T) -> T:
        holder: list[Any] = [value]
        torch.distributed.broadcast_object_list(holder, src=0)
        said: T = holder[0]
        return said

    def together(self, module: nn.Module) -> nn.Module:
        wrapped: nn.Module = self._accelerator.prepare_model(module)
        return wrapped

    def apart(self, module: nn.Module) -> AbstractContextManager[Any]:
        held: AbstractContextManager[Any] = self._accelerator.no_sync(module)
        return held

    def seconds_to_sum(self, count: int) -> float:
        numbers = torch.zeros(count, device=self.device)
        self.total(0.0)  # all are here, and connected
        start = time.perf_counter()
        self._accelerator.reduce(numbers, "sum")
        self.total(0.0)  # a GPU has finished only when a result is asked for
        return time.perf_counter() - start

    def leave(self) -> None:
        global _current
        self._accelerator.end_training()
        _current = Processes()


def _meet_anew(backend: str) -> None:
    """Join restarted processes under names of their own.

    torchrun's store outlives a restart, and by the addresses that the killed processes left there the new ones look
    for them (pytorch issue 135712). On several machines the count of restarts may differ, so there the store must not
    be shared (docs/scaling.md).
    """
    distributed: Any = torch.distributed
    e = os.environ
    rank, count = int(e["RANK"]), int(e["WORLD_SIZE"])
    store = distributed.TCPStore(e["MASTER_ADDR"], int(e["MASTER_PORT"]), count, is_master=False)
    own = distributed.PrefixStore(f"heed/restart-{e['TORCHELASTIC_RESTART_COUNT']}", store)
    distributed.init_process_group(backend, store=own, rank=rank, world_size=count)


_current = Processes()


def current() -> Processes:
    """The processes that this one works with."""
    return _current


def is_first() -> bool:
    """Whether this process is the one that speaks, also before the processes have joined."""
    return int(os.environ.get("RANK", "0")) == 0


def was_restarted() -> bool:
    """Whether `torchrun --max-restarts` has started this process again after a failure."""
    return int(os.environ.get("TORCHELASTIC_RESTART_COUNT", "0")) > 0


def join(device: str) -> Processes:
    """Join the processes that a launcher started, if one did.

    Args:
        device: The field `training.device`.

    Raises:
        ConfigError: What the launcher was asked for would be ignored, or the device is one for all.
    """
    global _current
    count = int(os.environ.get("WORLD_SIZE", "1"))
    if count == 1 or _current.count > 1:
        return _current
    for name, (off, instead) in _IGNORED.items():
        value = os.environ.get(name, off)
        if value.lower() != off:
            raise ConfigError(f"the launcher sets {name}={value}, which heed would ignore: {instead}")
    if device not in ("auto", "cpu", "cuda"):
        raise ConfigError(
            f"training.device is '{device}', but {count} processes were started: each takes a device of its own; "
            "leave it at auto, or cpu"
        )
    _current = _Launched(device)
    return _current


_DATA_PARALLEL = "each process holds the whole model; leave that option of the launcher away"
_IGNORED = {
    "ACCELERATE_USE_FSDP": ("false", _DATA_PARALLEL),
    "ACCELERATE_USE_DEEPSPEED": ("false", _DATA_PARALLEL),
    "ACCELERATE_USE_MEGATRON_LM": ("false", _DATA_PARALLEL),
    "ACCELERATE_USE_PARALLELISM_CONFIG": ("false", _DATA_PARALLEL),
    "ACCELERATE_MIXED_PRECISION": ("no", "training.precision says it"),
    "ACCELERATE_DYNAMO_BACKEND": ("no", "leave --dynamo_backend away"),
    "ACCELERATE_GRADIENT_ACCUMULATION_STEPS": ("1", "training.accumulate says it"),
}
"""What launchers say through the environment: name -> the value that asks for nothing, and what to do instead."""
