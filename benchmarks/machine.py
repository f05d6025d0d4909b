"""First line of every benchmark: processor, cores, threads, torch version and kernels.

python benchmarks/machine.py
"""

from __future__ import annotations

import platform
from contextlib import suppress
from pathlib import Path

import torch

from heed import kernels
from heed.threads import cores


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
    """Print the line, and one for a GPU if there is one; call it after setting the threads."""
    print(machine_line(), flush=True)
    if torch.cuda.is_available():
        print(f"{torch.cuda.get_device_name()}, CUDA {torch.version.cuda}", flush=True)


def main() -> None:
    print_machine()


if __name__ == "__main__":
    main()
