"""What every benchmark says first: the processor, its cores, threads, torch, and the kernels that compute.

python benchmarks/machine.py
"""

from __future__ import annotations

import platform
from contextlib import suppress
from pathlib import Path

import torch

from heed import kernels
from heed.cores import cores


def processor() -> str:
    """The processor's name with the numbers that tell makes of one name apart, where the system says them."""
    said = {}
    with suppress(OSError):  # only Linux has it
        for line in Path("/proc/cpuinfo").read_text(encoding="utf-8").splitlines():
            key, _, value = line.partition(":")
            said.setdefault(key.strip(), value.strip())
    name = said.get("model name") or platform.processor() or platform.machine()
    numbers = [f"{key.removeprefix('cpu ')} {said[key]}" for key in ("cpu family", "model") if key in said]
    return f"{name} ({', '.join(numbers)})" if numbers else name


def products() -> str:
    """The library of torch's own matrix products."""
    return "MKL" if torch.backends.mkl.is_available() else "no MKL"


def machine_line() -> str:
    """Everything in one line, with the number of threads that torch is set to."""
    threads = torch.get_num_threads()
    used = f"{len(cores())} cores, {threads} thread{'s' if threads > 1 else ''}"
    library = f"torch {torch.__version__}, {torch.backends.cpu.get_cpu_capability()}, {products()}"
    return f"{processor()}, {used}; {library}; kernels: {kernels.choice()}"


def print_machine() -> None:
    """Print the line, and the GPU's where there is one; call it when threads are set."""
    print(machine_line(), flush=True)
    if torch.cuda.is_available():
        print(f"{torch.cuda.get_device_name()}, CUDA {torch.version.cuda}", flush=True)


def main() -> None:
    print_machine()


if __name__ == "__main__":
    main()
