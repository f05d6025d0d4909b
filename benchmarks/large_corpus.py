"""Start-up time, memory and speed on a corpus larger than memory: `python benchmarks/large_corpus.py`.

Generated pairs are written into a temporary folder (or `--folder`), 0.5 GB for the largest size; new processes then do
on them everything that a run does before its first update, and draw batches. Each size is started twice with one cache,
which is empty the first time, and once as a stream.
"""

from __future__ import annotations

import argparse
import json
import os
import random
import re
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

_SENTENCES = 50_000
"""Distinct sentences of the grammar; a line has two or three of them, drawn with a fixed seed."""
_BATCHES = 1_000


def write_corpus(folder: Path, count: int) -> list[Path]:
    """Write `count` English-German pairs, the same every time."""
    from heed.data.embedded.grammar.source import GrammarSource

    files = [folder / f"corpus-{count}.en", folder / f"corpus-{count}.de"]
    sentences = GrammarSource("de", seed=1).sample("train", _SENTENCES)
    draw = random.Random(1)
    with files[0].open("w", encoding="utf-8") as source, files[1].open("w", encoding="utf-8") as target:
        for _ in range(count):
            chosen = draw.choices(sentences, k=draw.randint(2, 3))
            source.write(" ".join(pair.source for pair in chosen) + "\n")
            target.write(" ".join(pair.target for pair in chosen) + "\n")
    return files


def started(files: list[Path], cache: Path, *fields: str) -> dict[str, Any]:
    """Start a new process on a corpus.

    Returns:
        Seconds from its start to its first batch, and the measurements that it printed.
    """
    began = time.perf_counter()
    command = [sys.executable, __file__, "--measure", *map(str, files), *fields]
    environment = {**os.environ, "HEED_CACHE": str(cache)}
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True, env=environment) as process:
        assert process.stdout is not None
        process.stdout.readline()
        seconds = time.perf_counter() - began
        return {"seconds": seconds, **json.loads(process.stdout.readline())}


def measure(words: list[str]) -> None:
    """Prepare a run; print a line at its first batch, then the speed of the next batches and the memory used."""
    from heed.cli.settings import settings_from
    from heed.tasks.translation.task import Translation

    task = Translation.prepare(settings_from(["translation", *words], ["model.size=tiny"]))
    plan = task.train_batches(0)
    task.collate(plan[0])
    print("first batch", flush=True)
    began = time.perf_counter()
    chosen = plan[1 : 1 + _BATCHES]
    padding = sum(task.collate(indices).padding_share for indices in chosen) / len(chosen)
    values = {"rate": len(chosen) / (time.perf_counter() - began), "padding": padding, **memory()}
    print(json.dumps(values), flush=True)


def memory() -> dict[str, float]:
    """Peak resident memory of this process, and its current anonymous (not file-backed) memory, in MiB (Linux)."""
    status = Path("/proc/self/status").read_text(encoding="ascii")
    return {name: int(re.search(rf"{name}:\s+(\d+) kB", status)[1]) / 1024 for name in ("VmHWM", "RssAnon")}


def main() -> None:
    """Measure every size and print a table."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--pairs", type=int, nargs="+", default=[200_000, 2_000_000])
    parser.add_argument("--folder", type=Path, help="folder for the files, which are kept")
    parser.add_argument("--measure", nargs="+", help=argparse.SUPPRESS)
    given = parser.parse_args()
    if given.measure:
        measure(given.measure)
        return
    from machine import print_machine  # here, so that it does not count in the measured memory

    print_machine()
    print("| pairs | start | first batch after, s | peak memory, MiB | anonymous at the end | batches/s | padding |")
    print("|---|---|---|---|---|---|---|")
    with tempfile.TemporaryDirectory() as temporary:
        for count in given.pairs:
            folder = given.folder or Path(temporary)
            files, cache = write_corpus(folder, count), Path(temporary) / f"cache-{count}"
            ways = [("first", ()), ("second", ()), ("as a stream", ("data.stream=true",))]
            for way, fields in ways:
                got = started(files, cache, *fields)
                print(
                    f"| {count:,} | {way} | {got['seconds']:.1f} | {got['VmHWM']:.0f} | {got['RssAnon']:.0f} "
                    f"| {got['rate']:.0f} | {got['padding']:.1%} |",
                    flush=True,
                )


if __name__ == "__main__":
    main()
