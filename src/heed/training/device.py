"""Where training runs: device, precision, number of threads; chosen, and said."""

from __future__ import annotations

import contextlib
import os
import resource
import sys
import time
from collections.abc import Callable
from contextlib import AbstractContextManager

import torch

from heed.config import TrainingConfig
from heed.errors import ConfigError
from heed.memory import memory_explained
from heed.training.processes import Processes

LOWER_VALIDATION = (
    "lower training.batch_tokens, by which batches of the validation set are made, leave out its longest examples, or "
    "choose a smaller model"
)
"""What to do where memory runs out in a validation."""


def choose_device(name: str) -> torch.device:
    """The device meant by "auto", "cpu", "cuda", "cuda:1" or "mps".

    Raises:
        ConfigError: No such device here; the message says what is.
    """
    if name == "auto":
        if torch.cuda.is_available():
            return torch.device("cuda")
        return torch.device("mps" if torch.backends.mps.is_available() else "cpu")
    try:
        device = torch.device(name)
    except RuntimeError:
        raise ConfigError(f"training.device is '{name}'; valid: auto, cpu, cuda, cuda:N, mps") from None
    here = {"cpu": 1, "cuda": torch.cuda.device_count(), "mps": int(torch.backends.mps.is_available())}
    count = here.get(device.type, 0)
    if (device.index or 0) >= count:
        have = ", ".join(f"{kind} ({n})" for kind, n in here.items() if n)
        raise ConfigError(f"training.device is '{name}', but this machine has {have}")
    return device


def device_of(config: TrainingConfig, processes: Processes) -> torch.device:
    """The device of this process.

    Raises:
        ConfigError: There is no such device here.
    """
    if config.deterministic:
        # cuBLAS repeats its sums only with a workspace of fixed size; read when CUDA starts.
        os.environ.setdefault("CUBLAS_WORKSPACE_CONFIG", ":4096:8")
        torch.use_deterministic_algorithms(True)
    return choose_device(config.device) if processes.count == 1 else processes.device


def choose_precision(name: str, device: torch.device) -> str:
    """Name the precision, bf16 or float32; auto is bf16 on a GPU that supports it."""
    if name != "auto":
        return name
    return "bf16" if device.type == "cuda" and torch.cuda.is_bf16_supported() else "float32"


def autocast(precision: str, device: torch.device) -> AbstractContextManager[object]:
    """The context in which the forward pass runs."""
    if precision == "bf16":
        return torch.autocast(device.type, dtype=torch.bfloat16)
    return contextlib.nullcontext()


def probe_threads(run: Callable[[], object], seconds: float = 0.5) -> int:
    """Set and return the number of threads that makes `run` fastest: small models often lose by sharing it out.

    `run` is a step on a real batch that leaves nothing behind. Results differ in their last bits between thread counts,
    so a run stores the number and a resumed run uses it again.
    """
    cores = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
    candidates = sorted({1, min(2, cores), min(4, cores), min(8, cores), cores})
    rates = {}
    for threads in candidates:
        torch.set_num_threads(threads)
        start, runs = time.perf_counter(), 1
        run()
        if time.perf_counter() - start < seconds / len(candidates):  # then what it pays for caches and pools counts
            start, runs = time.perf_counter(), 0
            while time.perf_counter() - start < seconds / len(candidates) or runs < 2:
                run()
                runs += 1
        rates[threads] = runs / (time.perf_counter() - start)
    # A second thread must earn its place: below 5 % the difference is noise.
    best = candidates[0]
    for threads in candidates[1:]:
        if rates[threads] > 1.05 * rates[best]:
            best = threads
    torch.set_num_threads(best)
    return best


def step_explained(when: str, micro_batches: int) -> AbstractContextManager[None]:
    """Context manager that says what to do where memory runs out in a training step.

    Raises:
        OutOfMemoryError: It did.
    """
    return memory_explained(when, lower_step(micro_batches))


def lower_step(micro_batches: int) -> str:
    """What makes a training step smaller."""
    return (
        f"raise training.micro_batches (now {micro_batches}), which leaves the gradient as it is, lower "
        "training.batch_tokens, or choose a smaller model"
    )


def peak_memory(device: torch.device | None = None) -> int:
    """Largest memory of this process so far, in bytes; of a GPU what its tensors took."""
    if device is not None and device.type == "cuda":
        return torch.cuda.max_memory_allocated(device)
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    return peak if sys.platform == "darwin" else peak * 1024
