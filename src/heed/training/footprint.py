"""Memory of training on several devices, computed without them.

A device of N holds, of P parameters in float32 (Adam's two moments; SGD has none, 8 bytes a parameter less):

    sharding none   weights, gradients, moments: 16 P; with N > 1 also the buffers in which gradients are summed: 4 P
    sharding full   weights, gradients, moments: 16 P / N
                    + weights and gradients outside the blocks, whole: 8 bytes a parameter
                    + weights of two blocks and gradients of one, whole: 12 bytes a parameter of the largest block
    both            + activations a position * positions of a device's share of the largest batch / micro-batches

and with sharding full at least 12 P / N + 4 P, since all weights are on each device for a validation. The device's own
context (about 0.5 GB with CUDA) and fragmentation come on top.

Activations are what autograd keeps in a forward pass on this machine, of models with one block and with two and of two
numbers of examples: they grow linearly with both.

Source of the buffers: Li et al. 2020, PyTorch Distributed (arXiv:2006.15704), section 4.2; of the sharded memory:
Rajbhandari et al. 2020, ZeRO (arXiv:1910.02054), section 5.
"""

from __future__ import annotations

import copy
from dataclasses import dataclass
from functools import partial
from typing import Any

import torch
from torch import nn

from heed.layers.transformer import Recomputable
from heed.training.contracts import parts_of
from heed.training.device import autocast, choose_precision, kept_bytes, recompute_blocks


@dataclass(frozen=True)
class Footprint:
    """The parameters of a model, as far as its memory depends on them."""

    parameters: int
    block: int = 0  # parameters of the largest block
    blocks: int = 0  # parameters of all blocks

    @classmethod
    def of(cls, model: nn.Module) -> Footprint:
        """The footprint of a model, which may be on the device "meta"."""
        blocks = [sum(p.numel() for p in m.parameters()) for m in model.modules() if isinstance(m, Recomputable)]
        return cls(sum(p.numel() for p in model.parameters()), max(blocks, default=0), sum(blocks))

    def on_each(self, devices: int, sharding: str, activations: float = 0.0, optimizer: str = "adamw") -> int:
        """Bytes on each of a number of devices; `activations` are those of its share of a batch."""
        state = 8 if optimizer == "sgd" else 16
        if devices == 1 or sharding == "none":
            return round(self.parameters * (state + 4 * (devices > 1)) + activations)
        whole = 8 * (self.parameters - self.blocks) + 12 * self.block
        training = state * self.parameters / devices + whole + activations
        return round(max(training, (state - 4) * self.parameters / devices + 4 * self.parameters))


def activation_bytes(task: Any, indices: list[int]) -> float:
    """Bytes that autograd keeps of a batch of a task, given by its examples."""
    few = indices[: max(2, len(indices) // 16)]
    more = indices[: 2 * len(few)]
    section = task.config.model
    depth, positions = (section.model_extra or {}).get("num_layers"), float(task.work(indices))
    recomputes = task.config.training.activation_checkpointing

    def of_position(layers: int | None, recomputed: bool) -> float:
        kept = partial(_kept, task, layers, recomputed)
        grown = float(task.work(more) - task.work(few))
        return (kept(more) - kept(few)) / grown if grown > 0 else kept(few) / max(1.0, float(task.work(few)))

    if not isinstance(depth, int) or section.from_ is not None:
        return of_position(None, recomputes) * positions
    one, two = of_position(1, recomputes), of_position(2, recomputes)
    inside = of_position(2, False) - of_position(1, False) if recomputes else 0.0  # of the block being recomputed
    return (one + (depth - 1) * (two - one) + inside) * positions


def _kept(task: Any, layers: int | None, recomputed: bool, indices: list[int]) -> int:
    """Bytes kept of a batch in a forward pass, by the task's model or one with fewer layers."""
    task = copy.copy(task)
    if layers is not None:
        section = task.config.model.model_copy(update={"num_layers": layers})
        task.config = task.config.model_copy(update={"model": section})
    training, cpu = task.config.training, torch.device("cpu")
    with torch.random.fork_rng([]):
        model = task.build_model().train()
        if recomputed:
            recompute_blocks(model, task.config.model.name)
        held = []  # until they are counted, so that no storage is used twice
        with autocast(choose_precision(training.precision, cpu), cpu):
            forward = partial(task.loss, model, task.collate(indices), training.label_smoothing)
            return kept_bytes(model, lambda: held.append(parts_of(forward())))
