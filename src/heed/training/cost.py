"""What an update costs in memory, time and network traffic: predicted before training, to be held against what it was.

memory = what is there, weights and Adam's moments among it + gradients (4 bytes a parameter)
         + on a CPU, where a checkpoint is written, the moments as bytes (8 bytes a parameter)
         + activations a position * positions of the largest batch / its micro-batches
time   = one batch forward and backward * batches an update + bytes over the network / bandwidth
bytes over the network = 2 (n - 1) / n * 4 bytes a parameter, for n processes (ring all-reduce)

Activations are what autograd keeps for the backward pass of a real batch. Where blocks are computed again on the way
back (`training.activation_checkpointing`), these are what it keeps outside of them, their inputs, and the inside of
one.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
from torch import nn

from heed.config import TrainingConfig
from heed.training.contracts import Trainable
from heed.training.device import autocast, peak_memory
from heed.training.micro_batches import divided, kept_bytes, micro_batches_for
from heed.training.processes import Processes
from heed.training.recompute import kept_inside, recomputed_blocks

__all__ = ["Cost", "predict_cost"]

_ENOUGH = 0.25
"""Seconds after which no further batch is measured: of a model whose batches take long, one says what they take."""


@dataclass(frozen=True)
class Cost:
    """What training is expected to take.

    Attributes:
        memory: Largest memory of one process, in bytes (of the GPU where there is one).
        activations: Bytes that autograd keeps for each position of a batch, padding included.
        seconds: Of an update.
        network: Bytes that each process sends for an update.
        micro_batches: Into how many a batch is divided.
    """

    memory: int
    activations: float
    seconds: float
    network: int
    micro_batches: int

    def as_report(self) -> dict[str, Any]:
        """For `report.json`."""
        return {
            "memory_mib": round(self.memory / 2**20),
            "activation_bytes_per_position": round(self.activations),
            "seconds_per_update": round(self.seconds, 5),
            "network_mib_per_update": round(self.network / 2**20, 2),
        }


def predict_cost(
    model: nn.Module,
    task: Trainable,
    config: TrainingConfig,
    device: torch.device,
    precision: str,
    processes: Processes,
    work: Callable[[list[int]], int],
) -> Cost:
    """Predict what an update takes from two batches of the run itself; model and random state stay as they are.

    Args:
        model: On its device.
        task: What is learned.
        config: How.
        device: Where.
        precision: Of the forward pass.
        processes: Who shares each batch.
        work: Padded positions of a batch.
    """
    plan = task.train_batches(0)
    parameters = sum(p.numel() for p in model.parameters() if p.requires_grad)
    states = [torch.get_rng_state(), *([torch.cuda.get_rng_state(device)] if device.type == "cuda" else [])]
    model.train()

    def run(indices: list[int], count: int) -> None:
        for some in divided(indices, count):
            with autocast(precision, device):
                loss = task.loss(model, task.collate(some).to(device), config.label_smoothing)
            loss.backward()
        model.zero_grad(set_to_none=True)

    def share(indices: list[int]) -> list[int]:
        return processes.share(indices) or indices[:1]

    middle = share(plan[len(plan) // 2])
    few = middle[: -(-len(middle) // 4)]  # kept whole, all of them might not fit
    before = _memory_now(device)
    activations = kept_bytes(model, lambda: run(few, 1)) / max(1, work(few))
    if blocks := recomputed_blocks(model):
        with kept_inside(blocks):
            whole = kept_bytes(model, lambda: run(few, 1)) / max(1, work(few))
        activations += max(0.0, whole - activations) / len(blocks)
    positions = [work(share(indices)) for indices in plan]
    widest = max(positions)
    micro_batches = config.micro_batches or micro_batches_for(model, device, activations * widest)
    timed: list[tuple[float, int]] = []  # seconds and positions of each batch
    for indices in [share(indices) for indices in plan[:: max(1, len(plan) // 4)][:4]]:
        if sum(seconds for seconds, _ in timed) < _ENOUGH:
            start = time.perf_counter()
            run(indices, micro_batches)
            timed.append((time.perf_counter() - start, work(indices)))
    rate = sum(seconds for seconds, _ in timed) / max(1, sum(count for _, count in timed))
    seconds = rate * sum(positions) / len(positions) * min(config.accumulate, len(plan))
    network = round(2 * (processes.count - 1) / processes.count * 4 * parameters)
    if processes.count > 1:
        seconds += processes.seconds_to_sum(parameters)
    torch.set_rng_state(states[0])
    if device.type == "cuda":
        torch.cuda.set_rng_state(states[1], device)
    written = 8 if config.optimizer != "sgd" and device.type == "cpu" else 0
    memory = before + (4 + written) * parameters + round(activations * widest / micro_batches)
    return Cost(
        max(memory, 0 if device.type == "cuda" else peak_memory()), activations, seconds, network, micro_batches
    )


def _memory_now(device: torch.device) -> int:
    if device.type == "cuda":
        return torch.cuda.memory_allocated(device)
    try:  # what this process holds, not what it ever held
        pages = int(Path("/proc/self/statm").read_text().split()[1])
        return pages * 4096
    except (OSError, ValueError, IndexError):
        return peak_memory()
