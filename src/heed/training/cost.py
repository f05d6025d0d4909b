"""Predicted memory, time and network traffic of an update, by a measured step, and the threads of training.

memory = the largest of
           present memory, including weights and Adam's moments + gradients (4 bytes a parameter)
             + weights cast to bf16 (2, under autocast)
             + activations a position * positions of the largest batch / its micro-batches
           present memory + the moments as bytes (8 a parameter), where a checkpoint is written on a CPU
           memory after a step + activations of a batch, which the allocator keeps
             + memory for scoring (`scoring_memory` of the task)
           peak memory of this process so far, including a step on the largest batch
time   = one batch forward and backward * batches an update + the optimiser's step + bytes over the network / bandwidth
bytes over the network = 2 (n - 1) / n * 4 bytes a parameter, for n processes (ring all-reduce)

Activations are the tensors that autograd keeps for the backward pass of a real batch. Where blocks are recomputed in
the backward pass (`training.activation_checkpointing`), these are the tensors outside the blocks, the inputs of the
blocks, and the inside of one block.

Measured with the threads of training, after a first step that is not timed. The report has the actual values
under `training` and these under `training.predicted`. Where the precision is to be chosen, updates are measured in
float32 and in bf16, and bf16 is taken if it is `_GAIN` times as fast.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Collection, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import torch
from torch import nn

from heed.config import TrainingConfig
from heed.memory import check_memory
from heed.threads import cores, free_cores, given_by_user, threads_of
from heed.training.contracts import Trainable, parts_of
from heed.training.device import (
    autocast,
    divided,
    lower_step,
    micro_batches_for,
    normalises_batches,
    peak_memory,
    recomputed_blocks,
    saved_bytes,
    without_recomputation,
)
from heed.training.optimizer import Optimizer, clip_gradient
from heed.training.processes import Processes

_MAX_AGE = 2.0
"""Seconds for which a measurement of free cores is used: short work of other processes does not change the threads, and
so not the sums."""


def may_choose_threads(config: TrainingConfig, device: torch.device, processes: Processes) -> bool:
    """True if the number of threads is neither configured nor already set by a launcher of processes."""
    return config.threads is None and device.type == "cpu" and processes.count == 1 and not given_by_user()


def limit_to_free_cores(threads: int) -> None:
    """Set torch's number of threads to `threads`, or fewer while other processes keep cores busy."""
    torch.set_num_threads(min(threads, free_cores(_MAX_AGE)) if threads > 1 else 1)


def choose_threads(model: nn.Module, work: int) -> int:
    """The number of threads for updates of a model, in batches of `work` positions, by the rule of `heed.threads`.

    torch is set to as many of them as have a free core now. Results differ in their last bits between thread counts, so
    a run stores the number and a resumed run uses it again.
    """
    threads = threads_of(model, work, len(cores()))
    limit_to_free_cores(threads)
    return threads


def resumed_threads(config: TrainingConfig, changed: Collection[str], before: int) -> int:
    """The thread count of a resumed run: the previous one, so that sums are the same, unless another is set."""
    if "training.threads" in changed or given_by_user():
        return config.threads or torch.get_num_threads()
    return before


_ENOUGH, _FEWEST = 0.25, 2
"""Fewest seconds and steps to measure; one step is enough if it takes twice as long."""
_GAIN = 1.25
"""How many times as fast updates in bf16 must be to be chosen."""
_SLOW = 0.05
"""Seconds of an update from which the precision is chosen: a short one gains nothing, and its time varies more."""
_BATCHES = 8
"""Number of places of a pass from which the measured batches are taken."""


@dataclass(frozen=True)
class Cost:
    """Predicted cost of training."""

    memory: int  # largest memory of one process, in bytes (of the GPU where there is one)
    activations: float  # bytes that autograd keeps for each position of a batch, padding included
    seconds: float  # of an update
    network: int  # bytes that each process sends for an update
    micro_batches: int  # micro-batches of a batch
    threads: int  # threads of training, if each has a free core
    precision: str = "float32"  # of the forward pass
    delay: float = 1.0  # time of the measured steps over their processor time: above 1, other work took turns with them

    def as_report(self) -> dict[str, Any]:
        """For `report.json`."""
        return {
            "memory_mib": round(self.memory / 2**20),
            "activation_bytes_per_position": round(self.activations),
            "seconds_per_update": round(self.seconds, 5),
            "network_mib_per_update": round(self.network / 2**20, 2),
        }


@dataclass
class TrialStep:
    """A training step to be measured before training begins; it leaves weights and moments unchanged.

    `timed` lists for each step: positions, seconds forward and backward, seconds of the optimiser.
    """

    model: nn.Module  # on its device
    optimizer: Optimizer  # its moments are still zero
    task: Trainable
    config: TrainingConfig
    device: torch.device
    precision: str  # of the forward pass
    work: Callable[[list[int]], int]  # padded positions of a batch
    micro_batches: int = 1  # micro-batches of a batch
    timed: list[tuple[int, float, float]] = field(default_factory=list)
    spent: list[float] = field(default_factory=lambda: [0.0, 0.0])  # seconds of all steps, and of the processor in them

    def run(self, indices: list[int]) -> None:
        """Run and time a step on a batch; where it does not fit on a GPU, in twice as many micro-batches."""
        while True:
            try:
                return self._run(indices)
            except torch.OutOfMemoryError:
                is_fixed = self.config.micro_batches is not None or normalises_batches(self.model)
                if is_fixed or self.device.type != "cuda" or self.micro_batches >= len(indices):
                    raise
            self.optimizer.zero_grad()  # outside the handler, which holds the step's tensors
            torch.cuda.empty_cache()
            self.micro_batches *= 2

    def _run(self, indices: list[int]) -> None:
        self.model.train()
        start, used = time.perf_counter(), time.process_time()
        for part in divided(indices, self.micro_batches):
            batch = self.task.collate(part).to(self.device)
            with autocast(self.precision, self.device):
                loss, _ = parts_of(self.task.loss(self.model, batch, self.config.label_smoothing))
            loss.backward()
            loss.item()  # a GPU has finished only when a result is asked for
        passes = time.perf_counter()
        self.model.zero_grad(set_to_none=False)
        update = time.perf_counter()
        clip_gradient(self.model, self.config.clip).item()
        self.optimizer.try_step()
        self.optimizer.zero_grad()
        end = time.perf_counter()
        self.timed.append((self.work(indices), passes - start, end - update))
        self.spent = [self.spent[0] + end - start, self.spent[1] + time.process_time() - used]

    def rates(self, batches: list[list[int]]) -> tuple[float, float]:
        """Seconds of a position forward and backward, and of the optimiser's step, of steps on these batches."""
        while True:
            spent, steps = sum(passes for _, passes, _ in self.timed), len(self.timed)
            if spent > 2 * _ENOUGH or (spent > _ENOUGH and steps >= _FEWEST):
                positions = sum(count for count, _, _ in self.timed)
                return spent / max(1, positions), sum(update for *_, update in self.timed) / steps
            self.run(batches[steps % len(batches)])


def predict_cost(step: TrialStep, processes: Processes, chooses_threads: bool, chooses_precision: bool = False) -> Cost:
    """Predict the cost of an update from some batches of the run.

    Sets the step's micro-batches and precision, and torch's threads.
    """
    model, config, device, work = step.model, step.config, step.device, step.work
    plan = [processes.share(indices) or indices[:1] for indices in step.task.train_batches(0)]
    parameters = sum(p.numel() for p in model.parameters() if p.requires_grad)
    moments = 8 * parameters if config.optimizer != "sgd" else 0
    middle = plan[len(plan) // 2]
    threads = choose_threads(model, work(middle)) if chooses_threads else torch.get_num_threads()
    before = _memory_now(device)
    with torch.random.fork_rng([device] if device.type == "cuda" else []), _same_buffers(model):
        few = middle[: -(-len(middle) // (4 if device.type == "cpu" else 16))]  # the whole batch might not fit
        activations = _activations(step, few) / max(1, work(few))
        positions = [work(indices) for indices in plan]
        widest = max(range(len(plan)), key=positions.__getitem__)
        saved = activations * positions[widest]
        step.micro_batches = config.micro_batches or micro_batches_for(model, device, saved)
        if device.type == "cpu":
            needed = round(saved / step.micro_batches) + 4 * parameters + moments
            when = f"before the first update, for a batch of {positions[widest]:,} positions"
            check_memory(needed, when, lower_step(step.micro_batches))

        def measured() -> float:
            # The first step fills caches and pools and touches its memory for the first time: it is not timed.
            step.run(plan[widest])
            step.timed.clear()
            rate, update = step.rates(plan[:: max(1, len(plan) // _BATCHES)][:_BATCHES])
            return rate * sum(positions) / len(positions) * min(config.accumulate, len(plan)) + update

        seconds = measured()
        if chooses_precision and seconds > _SLOW:
            step.precision = "bf16"
            if (faster := measured()) * _GAIN <= seconds:
                seconds = faster
            else:
                step.precision = "float32"
    if processes.count > 1:
        seconds += processes.seconds_to_sum(parameters)
    cast = 2 * parameters if step.precision == "bf16" else 0
    memory = [before + 4 * parameters + cast + round(saved / step.micro_batches)]
    if device.type == "cpu":
        memory += [before + moments, peak_memory()]
    # The allocator keeps the memory of a batch in pieces too small for scoring.
    left = round(saved / step.micro_batches) if device.type == "cpu" else 0
    memory.append(_memory_now(device) + left + step.task.scoring_memory(model, activations))
    network = round(2 * (processes.count - 1) / processes.count * 4 * parameters)
    elapsed, processor = step.spent
    delay = elapsed / processor if device.type == "cpu" and threads == 1 and processor > 0 else 1.0
    return Cost(max(memory), activations, seconds, network, step.micro_batches, threads, step.precision, delay)


def training_bytes(parameters: int, trained: int, optimizer: str) -> int:
    """Bytes of the weights, gradients and moments of a model in training, without activations."""
    return 4 * parameters + (4 if optimizer == "sgd" else 12) * trained


def disk_bytes(parameters: int, trained: int, training: TrainingConfig) -> int:
    """Most bytes of a run folder: three whole checkpoints (one is being written), and the weights of the best ones."""
    whole = 4 * parameters + (0 if training.optimizer == "sgd" else 8) * trained
    return 3 * whole + 4 * parameters * (training.average + len(training.snapshots))


@contextmanager
def _same_buffers(model: nn.Module) -> Iterator[None]:
    """Restore the buffers that steps change: the running means of batch normalisation."""
    before = [(buffer, buffer.clone()) for buffer in model.buffers()]
    yield
    with torch.no_grad():
        for buffer, value in before:
            buffer.copy_(value)


def _activations(step: TrialStep, indices: list[int]) -> float:
    """Bytes that autograd keeps of an undivided batch."""
    activations: float = saved_bytes(step.model, lambda: step.run(indices))
    if blocks := recomputed_blocks(step.model):
        with without_recomputation(blocks):
            whole = saved_bytes(step.model, lambda: step.run(indices))
        activations += max(0.0, whole - activations) / len(blocks)
    return activations


def _memory_now(device: torch.device) -> int:
    if device.type == "cuda":
        return torch.cuda.memory_allocated(device)
    try:  # the present memory of this process, not its peak
        return 4096 * int(Path("/proc/self/statm").read_text().split()[1])
    except (OSError, ValueError, IndexError):
        return peak_memory()
