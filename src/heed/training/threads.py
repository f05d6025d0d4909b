"""The number of threads for training: configured, or measured before the first update; fewer while other work runs."""

from __future__ import annotations

import time
from collections.abc import Callable, Collection, Sequence

import torch

from heed.config import TrainingConfig
from heed.cores import Company, choices, cores, given_by_user
from heed.threads import Learned
from heed.training.processes import Processes

_SECONDS = 0.5
"""Most time for a measurement."""
_COMPANY = Company(held=2.0)
"""Consulted before updates: short work of other processes does not change the threads, and so not the sums."""


def may_choose_threads(config: TrainingConfig, device: torch.device, processes: Processes) -> bool:
    """True if the number of threads is neither configured nor already set by a launcher of processes."""
    return config.threads is None and device.type == "cpu" and processes.count == 1 and not given_by_user()


def give_way(threads: int) -> None:
    """Use at most `threads` threads, and only as many as have a free core while other work is running."""
    torch.set_num_threads(min(threads, _COMPANY.free_cores()) if threads > 1 else 1)


def choose_threads(run: Callable[[], object], learned: Learned, work: int) -> int:
    """The number of threads that makes `run` fastest; small models are often faster with fewer.

    A result measured on an idle machine is stored and not measured again. torch is set to as many of the returned
    threads as have a free core now. Results differ in their last bits between thread counts, so a run stores the number
    and a resumed run uses it again.

    Args:
        run: A step on a real batch without side effects.
        learned: Stored measurements for models of this shape on this machine.
        work: Positions of the batch; batches of less than half or more than twice as many are measured separately.
    """
    every, name, free = choices(len(cores())), f"update {max(1, work).bit_length()}", _COMPANY.free_cores()
    known = learned.known(name)
    if known in every:
        torch.set_num_threads(min(known, free))
        return known
    candidates = [count for count in every if count <= free]  # not cores that other work keeps busy
    company = Company()
    torch.set_num_threads(best := _fastest(run, candidates))
    if candidates == every and company.free_cores() == len(cores()):
        learned.keep(name, best)
    return best


def _fastest(run: Callable[[], object], candidates: Sequence[int]) -> int:
    rates, seconds = {}, _SECONDS / len(candidates)
    for threads in candidates:
        torch.set_num_threads(threads)
        start, runs = time.perf_counter(), 1
        run()
        if time.perf_counter() - start < seconds:  # else the first run, caches cold, is the result
            start, runs = time.perf_counter(), 0
            while time.perf_counter() - start < seconds or runs < 2:
                run()
                runs += 1
        rates[threads] = runs / (time.perf_counter() - start)
    # A second thread must earn its place: below 5 % the difference is noise.
    best = candidates[0]
    for threads in candidates[1:]:
        if rates[threads] > 1.05 * rates[best]:
            best = threads
    return best


def resumed_threads(config: TrainingConfig, changed: Collection[str], before: int) -> int:
    """The thread count of a resumed run: the previous one, so that sums are the same, unless another is set."""
    if "training.threads" in changed or given_by_user():
        return config.threads or torch.get_num_threads()
    return before
