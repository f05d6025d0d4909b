"""Peak memory of training and of decoding, heed beside other programs, each in a process of its own.

    HEED_DATA=../shared/data python benchmarks/memory.py [--threads 2] [--only heed]

The largest resident memory of a process above what it has after its imports and one small product: weights, gradients,
the optimiser's moments and all that a pass leaves behind. Training: updates on the batches of `benchmarks/training.py`.
Decoding: 64 sources, 25 tokens each, as in `benchmarks/decoding.py`, models of the same shape. On Linux only, where
the high-water mark of a process can be read and set back.
"""

from __future__ import annotations

import argparse
import importlib
import json
import subprocess
import sys
import tempfile
from collections.abc import Callable
from pathlib import Path

import decoding
import torch
import training
from machine import print_machine
from torch import nn

NEEDS = {"heed": "heed.generation", "Hugging Face Marian": "transformers.models.marian.modeling_marian"}
SEARCHES = {"greedy": 1, "beam 5": 5}
LENGTH, SOURCES, ROUNDS = 25, 64, 3


def resident(field: str) -> float:
    """MiB of this process: VmRSS, what it holds now, or VmHWM, the most it held."""
    lines = Path("/proc/self/status").read_text().splitlines()
    return int(next(line for line in lines if line.startswith(field)).split()[1]) / 1024


def above_imports(make: Callable[[], Callable[[], object]]) -> float:
    """MiB at the highest point of making something and running it."""
    layer = nn.Linear(64, 64)
    layer(torch.randn(8, 64)).sum().backward()
    torch.optim.Adam(layer.parameters(), fused=True).step()
    Path("/proc/self/clear_refs").write_text("5")  # sets the high-water mark back to what is held now
    before = resident("VmRSS")
    run = make()
    for _ in range(ROUNDS):
        run()
    return resident("VmHWM") - before


def train(competitor: str, shape: str, batches: Path) -> float:
    """Peak of some updates."""

    def make() -> Callable[[], object]:
        data = torch.load(batches, weights_only=False)
        step = training.COMPETITORS[competitor](training.SHAPES[shape])
        return lambda: [step(batch) for batch in data]

    return above_imports(make)


def decode(competitor: str, search: str) -> float:
    """Peak of some searches."""

    def make() -> Callable[[], object]:
        find = decoding.with_heed(decoding.build()) if competitor == "heed" else decoding.with_marian()
        source, mask = decoding.sources_of(SOURCES)
        return lambda: find(source, mask, SEARCHES[search], LENGTH)

    return above_imports(make)


def measured(threads: int, *what: str) -> float | None:
    """The number a process of its own prints; None where the competitor is not installed."""
    command = [sys.executable, __file__, "--threads", str(threads), "--measure", *what]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    if done.returncode:
        print(f"{what[1]}, {what[2]}: {done.stderr.strip().splitlines()[-1]}")
        return None
    return float(json.loads(done.stdout.splitlines()[-1]))


def table(title: str, rows: list[tuple[str, float | None]]) -> None:
    print(f"\n{title}")
    own = dict(rows).get("heed")
    for name, size in rows:
        if size is not None:
            ratio = "" if own is None else f"  {own / size:5.2f} of it is heed's"
            print(f"  {name:24} {size:7,.0f} MiB{ratio}")


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--batch-tokens", type=int, default=4_000)
    parser.add_argument("--only", help="competitors whose names hold this", default="")
    parser.add_argument("--measure", nargs="+", help=argparse.SUPPRESS)
    given = parser.parse_args()
    torch.set_num_threads(given.threads)
    if given.measure:
        kind, competitor, shape, *rest = given.measure
        if competitor in NEEDS:
            importlib.import_module(NEEDS[competitor])
        print(json.dumps(train(competitor, shape, Path(rest[0])) if kind == "train" else decode(competitor, shape)))
        return
    print_machine()
    print("above what the imports take")
    with tempfile.TemporaryDirectory() as folder:
        batches = Path(folder) / "batches.pt"
        torch.save(training.batches(given.batch_tokens, 4), batches)
        for shape in training.SHAPES:
            wanted = [name for name in training.COMPETITORS if given.only in name]
            rows = [(name, measured(given.threads, "train", name, shape, str(batches))) for name in wanted]
            table(f"training, {shape}, {given.batch_tokens} tokens a batch", rows)
    for search in SEARCHES:
        wanted = [name for name in NEEDS if given.only in name]
        rows = [(name, measured(given.threads, "decode", name, search)) for name in wanted]
        table(f"decoding, 4+4 x 128, {SOURCES} sources, {search}", rows)


if __name__ == "__main__":
    main()
