"""The number of threads of a training: given, or measured before the first update and kept; fewer beside other work."""

from __future__ import annotations

import time
from collections.abc import Callable, Collection, Sequence

import torch

from heed.config import TrainingConfig
from heed.cores import Company, choices, cores, given_by_user
from heed.threads import Learned
from heed.training.processes import Processes

_COMPANY = Company(held=2.0)
"""Asked before updates: short work of others changes nothing, and so no sums."""


def may_choose_threads(config: TrainingConfig, device: torch.device, processes: Processes) -> bool:
    """Whether the number of threads is neither given nor, as by a launcher of processes, shared out already."""
    return config.threads is None and device.type == "cpu" and processes.count == 1 and not given_by_user()


def give_way(threads: int) -> None:
    """Of the threads that were chosen, use as many as have a free core while other work is running."""
    torch.set_num_threads(min(threads, _COMPANY.free_cores()) if threads > 1 else 1)


def choose_threads(run: Callable[[], object], learned: Learned, work: int, seconds: float = 0.5) -> int:
    """The number of threads that makes `run` fastest: small models often lose by sharing it out.

    What was found on a quiet machine is kept and not measured again. Of the number returned, torch is set to as many as
    have a free core now. Results differ in their last bits between thread counts, so a run stores the number and a
    resumed run uses it again.

    Args:
        run: A step on a real batch that leaves nothing behind.
        learned: What is known of models of this shape on this machine.
        work: Positions of the batch; batches of less than half or more than twice as many are measured by themselves.
        seconds: What a measurement may take.
    """
    every, name, free = choices(len(cores())), f"update {max(1, work).bit_length()}", _COMPANY.free_cores()
    known = learned.known(name)
    if known in every:
        torch.set_num_threads(min(known, free))
        return known
    candidates = [count for count in every if count <= free]  # what others keep busy would be measured with them
    company = Company()
    torch.set_num_threads(best := _fastest(run, candidates, seconds))
    if candidates == every and company.free_cores() == len(cores()):
        learned.keep(name, best)
    return best


def _fastest(run: Callable[[], object], candidates: Sequence[int], seconds: float) -> int:
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
    return best


def resumed_threads(config: TrainingConfig, changed: Collection[str], before: int) -> int:
    """The number with which a run goes on: the one before, so that it repeats its sums, unless another is given."""
    if "training.threads" in changed or given_by_user():
        return config.threads or torch.get_num_threads()
    return before
