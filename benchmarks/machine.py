"""First line of every benchmark: processor, cores, threads, torch version and kernels; and whether other work runs.

python benchmarks/machine.py
"""

from __future__ import annotations

import atexit
import os
import platform
import time
from contextlib import suppress
from pathlib import Path

import torch

from heed import kernels
from heed.threads import Times, cores, read_times

QUIET = 0.1
"""Cores that other processes may keep busy; beside one busy process a benchmark can take twice as long."""


def processor() -> str:
    """The processor's name, with family and model number where the system gives them."""
    said = {}
    with suppress(OSError):  # only Linux has it
        for line in Path("/proc/cpuinfo").read_text(encoding="utf-8").splitlines():
            key, _, value = line.partition(":")
            said.setdefault(key.strip(), value.strip())
    name = said.get("model name") or platform.processor() or platform.machine()
    numbers = [f"{key.removeprefix('cpu ')} {said[key]}" for key in ("cpu family", "model") if key in said]
    return f"{name} ({', '.join(numbers)})" if numbers else name


def products() -> str:
    """The library that torch uses for matrix products."""
    return "MKL" if torch.backends.mkl.is_available() else "no MKL"


def machine_line() -> str:
    """The whole line, with the number of threads set in torch."""
    threads = torch.get_num_threads()
    used = f"{len(cores())} cores, {threads} thread{'s' if threads > 1 else ''}"
    library = f"torch {torch.__version__}, {torch.backends.cpu.get_cpu_capability()}, {products()}"
    return f"{processor()}, {used}; {library}; kernels: {kernels.choice()}"


def print_machine() -> None:
    """Print the line, one for a GPU if there is one, and now and at the end one if the machine is not quiet.

    Call it after setting the threads.
    """
    print(machine_line(), flush=True)
    if torch.cuda.is_available():
        print(f"{torch.cuda.get_device_name()}, CUDA {torch.version.cuda}", flush=True)
    start = read_times(), _used()
    time.sleep(0.5)
    warn("before the first measurement", *start)
    atexit.register(warn, "during this run", read_times(), _used())


def warn(when: str, before: Times, used: float) -> None:
    """Print a line if other processes have kept cores busy since `before`, when this one had used so many seconds.

    Nothing is printed where the system does not report it (only Linux does).
    """
    now, here = read_times(), _used()
    busy = now.total - before.total - (now.idle - before.idle)
    others = (busy - (here - used)) / (now.clock - before.clock)
    if others > QUIET:
        print(f"NOT QUIET: {when} other processes kept {others:.1f} of {len(cores())} cores busy: compare no times")


def _used() -> float:
    """Processor time of this process and of those that it started and that have ended."""
    return sum(os.times()[:4])


def main() -> None:
    print_machine()


if __name__ == "__main__":
    main()
