"""Time to the first training batch, at the first start and from the cache, and peak memory.

    python benchmarks/reading.py [--lines 100000 1000000] [--task classification translation] [--profile 30]

For each task and number of lines (of dialogue and of documents: conversations and documents) a data set is generated
as in `benchmarks/size.py`. A process prepares the task with the tiny model and collates the first batch, with an empty
cache; a second one does the same with what the first has cached. Columns: size of the files; seconds by the clock and
of the processor, after imports, of both processes; the peak memory of both, of which 250 MiB or so are libraries; size
of the cache. Seconds by the clock depend on other work on the machine. `--profile` also prints the functions with the
most time of their own. Linux only.
"""

from __future__ import annotations

import argparse
import cProfile
import json
import os
import pstats
import subprocess
import sys
import tempfile
import time
from pathlib import Path

from machine import print_machine
from size import TASKS

NAMES = ["classification", "tagging", "translation", "dialogue", "language_modelling", "pretraining"]


def start(task: str, files: list[str], profiled: int) -> None:
    """Prepare a task and collate its first batch; print seconds, those of the processor, and peak MiB as JSON."""
    from heed.tasks import check_config, task_class

    values = {"task": task, "data": {"train": files}, "model": {"size": "tiny"}, "training": {"steps": 1, "seed": 1}}
    profile = cProfile.Profile()
    before = time.perf_counter(), time.process_time()
    if profiled:
        profile.enable()
    prepared = task_class(task).prepare(check_config(values, "the benchmark"))
    prepared.collate(prepared.train_batches(0)[0])
    if profiled:
        profile.disable()
        pstats.Stats(profile).sort_stats("tottime").print_stats(profiled)
    seconds = time.perf_counter() - before[0], time.process_time() - before[1]
    peak = next(line for line in Path("/proc/self/status").read_text().splitlines() if "VmHWM" in line)
    print(json.dumps([*seconds, int(peak.split()[1]) / 2**10]))


def measured(task: str, files: list[Path], cache: Path, profiled: int) -> list[float]:
    """What `start` prints in a process of its own."""
    command = [sys.executable, __file__, "--profile", str(profiled), "--start", task, *map(str, files)]
    done = subprocess.run(
        command, env={**os.environ, "HEED_CACHE": str(cache)}, stdout=subprocess.PIPE, text=True, check=True
    )
    *printed, last = done.stdout.splitlines()
    print(*printed, sep="\n", end="\n" if printed else "")
    return [float(number) for number in json.loads(last)]


def size_of(folder: Path) -> float:
    """MiB of the files in a folder."""
    return sum(path.stat().st_size for path in folder.rglob("*") if path.is_file()) / 2**20


def row_of(task: str, lines: int, profiled: int) -> str:
    """A row of the table."""
    with tempfile.TemporaryDirectory() as folder:
        cache, texts = Path(folder, "cache"), Path(folder, "texts")
        texts.mkdir()
        files = TASKS[task](texts, lines)
        first, again = (measured(task, files, cache, profiled) for _ in range(2))
        sizes = f"{size_of(texts):,.0f} MiB", f"{size_of(cache):,.0f} MiB"
    spent = [f"{clock:.1f} s | {processor:.1f} s" for clock, processor, _ in (first, again)]
    peaks = [f"{one[2]:,.0f} MiB" for one in (first, again)]
    return f"| {' | '.join([task, f'{lines:,}', sizes[0], *spent, *peaks, sizes[1]])} |"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--lines", type=int, nargs="+", default=[100_000, 1_000_000])
    parser.add_argument("--task", nargs="+", choices=NAMES, default=NAMES)
    parser.add_argument("--profile", type=int, default=0, help="functions to print")
    parser.add_argument("--start", nargs="+", help=argparse.SUPPRESS)
    given = parser.parse_args()
    if given.start:
        start(given.start[0], given.start[1:], given.profile)
        return
    print_machine()
    heads = "first start | processor | from the cache | processor | peak at first | from the cache | cache"
    print(f"| task | lines | files | {heads} |\n|{'---|' * 10}", flush=True)
    for task in given.task:
        for lines in given.lines:
            print(row_of(task, lines, given.profile), flush=True)


if __name__ == "__main__":
    main()
