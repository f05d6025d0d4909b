"""What a run will cost, from a second of its real work: `heed train --dry-run`."""

from __future__ import annotations

import math
import time

import torch

from heed.config import RunConfig, config_text
from heed.runs.train import model_to_train
from heed.tasks import task_class
from heed.training.cost import predict_cost
from heed.training.device import autocast, choose_device, choose_precision, peak_memory, probe_threads
from heed.training.micro_batches import divided
from heed.training.processes import Processes
from heed.training.progress import duration

__all__ = ["forecast"]


def forecast(config: RunConfig) -> str:
    """The effective configuration, counts, and predicted time and memory; nothing is written.

    Speed is measured on batches of the run itself: forward and backward, without an update. Memory is what this
    process took for the longest batch, and the optimiser's state, which a run adds.
    """
    began = time.perf_counter()
    task = task_class(config.task).prepare(config)
    prepared = time.perf_counter() - began
    config = task.config
    training = config.training
    torch.manual_seed(training.seed)
    device = choose_device(training.device)
    precision = choose_precision(training.precision, device)
    model = model_to_train(task).to(device).train()
    plan = task.train_batches(0)

    micro_batches = predict_cost(model, task, training, device, precision, Processes(), task.work).micro_batches

    def run(indices: list[int]) -> None:
        for part in divided(indices, micro_batches):
            with autocast(precision, device):
                loss = task.loss(model, task.collate(part).to(device), training.label_smoothing)
            loss.backward()
        model.zero_grad(set_to_none=True)

    threads = training.threads
    if threads is None and device.type == "cpu":
        threads = probe_threads(lambda: run(plan[len(plan) // 2]))
    elif threads is not None:
        torch.set_num_threads(threads)
    widest = max(plan, key=task.work)
    run(widest)
    chosen = plan[:: max(1, len(plan) // 10)][:10]
    start = time.perf_counter()
    for indices in chosen:
        run(indices)
    per_update = (time.perf_counter() - start) / len(chosen) * training.accumulate
    parameters = sum(p.numel() for p in model.parameters())
    start = time.perf_counter()
    task.validate(model)
    validation = time.perf_counter() - start
    # Gradients are in the peak already; Adam keeps two numbers per parameter, a checkpoint copies all of them once.
    memory = peak_memory() + 4 * parameters * (0 if training.optimizer == "sgd" else 4)
    if device.type == "cuda":
        memory = torch.cuda.max_memory_allocated() + 4 * parameters * 2
    updates_per_pass = math.ceil(len(plan) / training.accumulate)
    if training.steps is not None:
        seconds = prepared + training.steps * per_update + (12 + task.finishing_work) * validation
        updates = training.steps
    else:
        seconds = 60 * (training.minutes or 0)
        updates = max(1, int((seconds - prepared - (12 + task.finishing_work) * validation) / per_update))
    return "\n".join(
        [
            config_text(config),
            task.notes,
            f"{config.model.name} ({config.model.size}), {parameters:,} parameters",
            f"device {device}, {precision}, {torch.get_num_threads()} threads",
            f"predicted: {updates:,} updates ({updates / updates_per_pass:.1f} passes over the data), "
            f"{duration(seconds)}, {memory / 2**20:,.0f} MiB",
        ]
    )
