"""How processes hold the model that they train: whole in each, or divided among them (`training.sharding: full`).

A copy of the model is divided by torch's `fully_shard` (FSDP2), each block and the rest: a process holds its rows of
each parameter, gathers a block's parameters while it is computed, and sums its gradients into their rows. The model
itself is empty meanwhile; it is filled, whole in every process, to validate, to write weights and at the end, so that
all else sees an ordinary model.

Source: Rajbhandari et al. 2020, ZeRO (arXiv:1910.02054), section 5; Zhao et al. 2023, PyTorch FSDP (arXiv:2304.11277).
"""

from __future__ import annotations

import copy
import warnings
from collections.abc import Iterator
from contextlib import contextmanager

import torch
from torch import Tensor, distributed, nn

from heed.config import TrainingConfig
from heed.errors import ConfigError
from heed.layers.transformer import Recomputable
from heed.training.contracts import Losses, Trainable
from heed.training.device import normalises_batches
from heed.training.optimizer import Optimizer, local, rows_of
from heed.training.processes import Processes


class Replicated:
    """A model that every process holds whole; DistributedDataParallel sums its gradients.

    Attributes:
        model: The model that validations, checkpoints and the finished run see.
        trained: The model whose parameters the optimiser changes.
        losses: The losses of `trained`.
        processes: The processes that train it together.
    """

    divided = False

    def __init__(self, model: nn.Module, task: Trainable, config: TrainingConfig, processes: Processes) -> None:
        self.model = self.trained = model
        self.losses = Losses(model, task, config.label_smoothing)
        self.processes = processes

    def wrapped(self) -> nn.Module:
        """The losses of a batch, whose gradients the backward pass sums over the processes."""
        return self.processes.wrap(self.losses)

    @contextmanager
    def whole(self) -> Iterator[nn.Module]:
        """Context manager in which the model has the trained weights; every process must enter it together."""
        yield self.model

    def take(self) -> None:
        """Train on from the model's weights, inside `whole`."""

    def join(self, optimizer: Optimizer) -> None:
        """End training: the model keeps the trained weights, and nothing holds the group of processes."""


class Sharded(Replicated):
    """A model, empty but for validations and checkpoints, and its copy, of which each process trains its rows."""

    divided = True

    def __init__(self, model: nn.Module, task: Trainable, config: TrainingConfig, processes: Processes) -> None:
        """Divide the model; every process must do it together. `check_divisible` says which can be divided."""
        for tensor in (*model.parameters(), *model.buffers()):  # the first process may have changed what was drawn
            values = tensor.detach().contiguous()
            distributed.broadcast(values, 0)
            tensor.detach().copy_(values)
        # Of one memory until it is divided.
        super().__init__(copy.deepcopy(model, {id(p): p for p in model.parameters()}), task, config, processes)
        self.model = model
        from torch.distributed.device_mesh import init_device_mesh
        from torch.distributed.fsdp import fully_shard, register_fsdp_forward_method  # takes a second

        # Nothing is changed in place here, of which torch warns whenever a block returns a view.
        warnings.filterwarnings("ignore", "FSDP2-wrapped module")
        mesh = init_device_mesh(processes.device.type, (processes.count,))
        for block in [module for module in self.trained.modules() if isinstance(module, Recomputable)]:
            block.gathers = True
            fully_shard(block, mesh=mesh)
            if hasattr(block, "prepare"):  # called before the block itself, for keys of the cross-attention
                register_fsdp_forward_method(block, "prepare")
        fully_shard(self.losses, mesh=mesh)
        self._empty()

    def wrapped(self) -> nn.Module:
        """The losses of a batch; the divided model sums gradients by itself."""
        return self.losses

    @contextmanager
    def whole(self) -> Iterator[nn.Module]:
        """Context manager in which the model has the trained weights; every process must enter it together."""
        if self._filled:
            yield self.model
            return
        self._fill()
        try:
            yield self.model
        finally:
            self._empty()

    @torch.no_grad()
    def take(self) -> None:
        """Train on from the model's weights, inside `whole`."""
        for own, trained in self._pairs():
            local(trained).copy_(rows_of(own, trained))

    def join(self, optimizer: Optimizer) -> None:
        """End training: the model keeps the trained weights, and nothing holds the group of processes."""
        from torch.distributed.tensor import debug

        self._fill()
        self.trained = self.model
        del self.losses
        optimizer.param_groups.clear()
        optimizer.state.clear()
        # What torch remembers of operations on divided tensors holds the group too.
        getattr(debug, "_clear_sharding_prop_cache", lambda: None)()

    @torch.no_grad()
    def _fill(self) -> None:
        for own, trained in self._pairs():
            rows = -(-own.shape[0] // self.processes.count)  # of each process; the last ones have fewer
            part, mine = own.new_zeros(rows, *own.shape[1:]), local(trained)
            part[: mine.shape[0]] = mine
            parts = [torch.empty_like(part) for _ in range(self.processes.count)]
            distributed.all_gather(parts, part)
            own.data = torch.cat(parts)[: own.shape[0]]
        self._filled = True

    def _empty(self) -> None:
        for own in self.model.parameters():  # the shape stays; who computes with these sees it
            own.data = own.data.new_full((), torch.nan).expand(own.shape)
        self._filled = False

    def _pairs(self) -> Iterator[tuple[nn.Parameter, Tensor]]:
        yield from zip(self.model.parameters(), self.trained.parameters(), strict=True)


def hold(model: nn.Module, task: Trainable, config: TrainingConfig, processes: Processes) -> Replicated:
    """Hold a model as `training.sharding` says; one process holds it whole."""
    kind = Sharded if config.sharding == "full" and processes.count > 1 else Replicated
    return kind(model, task, config, processes)


def check_divisible(model: nn.Module, config: TrainingConfig) -> None:
    """Refuse `training.sharding: full` for what does not work with it.

    Raises:
        ConfigError: The model, or another field, is of that kind.
    """
    problem = ""
    if normalises_batches(model):
        problem = "a model with batch normalisation, whose running means would differ between processes"
    elif config.unfreeze_every is not None:
        problem = "training.unfreeze_every: what is trained is settled when the parameters are divided"
    elif config.compile:
        problem = "training.compile"
    if problem and config.sharding == "full":
        raise ConfigError(f"training.sharding=full does not work with {problem}; set training.sharding=none")
