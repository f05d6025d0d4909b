"""Time with the number of threads that heed chooses, against one and two threads: decoding, and training updates.

    python benchmarks/threads.py [--rounds 9] [--busy 1] [--seconds 60] [--only "one source"]

The model of `decoding.py`, and updates of the smaller model of `training.py`. The three settings run in turn in one
process; medians of wall-clock and processor time per call. `--busy` starts processes that each keep one core busy, to
simulate other work. A setting that has used up its seconds is left out of further rounds.
"""

from __future__ import annotations

import argparse
import statistics
import subprocess
import sys
import time
from collections.abc import Callable
from contextlib import AbstractContextManager
from functools import partial

import decoding
import torch
import training
from machine import print_machine

from heed.threads import fixed, free_cores, given_by_user, prediction_threads
from heed.training.cost import choose_threads, limit_to_free_cores

_REST = 0.05
"""Seconds between two ways: threads that have just computed keep their cores busy for some milliseconds."""

Ways = dict[str, Callable[[], object]]
"""The same work with the default number of threads, one thread and two."""


def within(context: Callable[[], AbstractContextManager[None]], work: Callable[[], object]) -> Callable[[], object]:
    def run() -> None:
        with context():
            work()

    return run


def ways(default: Callable[[], object], work: Callable[[], object]) -> Ways:
    return {"default": default, "one": within(partial(fixed, 1), work), "two": within(partial(fixed, 2), work)}


def rows() -> dict[str, Ways]:
    search, found = decoding.with_heed(decoding.build()), {}
    for batch, beam in ((1, 1), (1, 5), (64, 1), (64, 5)):
        work = partial(search, *decoding.sources_of(batch), beam, 25)
        name = f"{'one source' if batch == 1 else f'{batch} sources'}, {f'beam {beam}' if beam > 1 else 'greedy'}"
        found[name] = ways(within(prediction_threads, work), work)
    shape = training.SHAPES["4+4 x 128"]
    data, step = training.batches(2_000, 4), training.heed_step(shape)
    threads = choose_threads(training.heed_model(shape), data[0].source.numel() + data[0].target.numel())

    def updates() -> None:
        for batch in data:
            step(batch)

    def default_updates() -> None:
        """As in a run: the number of threads is limited to the free cores before each update."""
        for batch in data:
            limit_to_free_cores(threads)
            step(batch)

    return {**found, "training, four updates": ways(within(fixed, default_updates), updates)}


def measure(work: Ways, rounds: int, seconds: float) -> dict[str, tuple[float, float, int]]:
    """For each setting the median wall-clock time, median processor time, and number of calls."""
    times: dict[str, list[tuple[float, float]]] = {way: [] for way in work}
    for number in range(rounds + 1):
        ways = list(work.items())
        first = number % len(ways)  # each follows each of the others as often: caches differ after two threads
        for way, run in ways[first:] + ways[:first]:
            if sum(clock for clock, _ in times[way]) > seconds:
                continue
            time.sleep(_REST)
            start = time.perf_counter(), time.process_time()
            run()
            taken = time.perf_counter() - start[0], time.process_time() - start[1]
            if number or taken[0] > seconds:  # the first call fills caches and thread pools
                times[way].append(taken)
    medians = {way: [statistics.median(one) for one in zip(*each, strict=True)] for way, each in times.items()}
    return {way: (*medians[way], len(each)) for way, each in times.items()}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rounds", type=int, default=9)
    parser.add_argument("--seconds", type=float, default=60.0, help="time limit for each setting and row")
    parser.add_argument("--busy", type=int, default=0, help="number of processes that keep a core busy")
    parser.add_argument("--only", default="", help="only rows whose name contains this text")
    given = parser.parse_args()
    torch.set_num_threads(2)
    print_machine()
    if given_by_user():
        parser.error("OMP_NUM_THREADS or MKL_NUM_THREADS is set, so heed chooses no number of threads; unset it")
    others = [subprocess.Popen([sys.executable, "-c", "while True: pass"]) for _ in range(given.busy)]
    try:
        report(given)
    finally:
        for other in others:
            other.kill()
            other.wait()


def report(given: argparse.Namespace) -> None:
    """Measure all rows and print the table."""
    print(f"{given.busy} other busy processes; milliseconds of wall-clock time; processor time")
    print("| | default | one thread | two threads | default / better | default / one | cores free before, after |")
    print("|---|---|---|---|---|---|---|")
    for name, work in rows().items():
        if given.only not in name:
            continue
        before = free_cores()
        found = measure(work, given.rounds, given.seconds)
        cells = [f"{1e3 * clock:,.0f}; {1e3 * spent:,.0f} ({count})" for clock, spent, count in found.values()]
        default, *fixed_ways = (clock for clock, _, _ in found.values())
        ratios = f"{default / min(fixed_ways):.2f} | {default / fixed_ways[0]:.2f}"
        print(f"| {name} | {' | '.join(cells)} | {ratios} | {before}, {free_cores()} |", flush=True)


if __name__ == "__main__":
    main()
