"""Peak memory of training and of decoding, heed and other programs, each in a separate process.

    HEED_DATA=../shared/data python benchmarks/memory.py [--threads 2] [--only heed] [--precision bf16]

Peak resident memory of a process minus its memory after imports and one small matrix product: weights, gradients, the
optimiser's moments and all that a pass keeps. Training: updates on the batches of `benchmarks/training.py`. Decoding:
64 sources, 25 tokens each, as in `benchmarks/decoding.py`, with models of the same shape. Linux only, since the peak
must be read and reset.
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
    """Memory of this process in MiB: VmRSS is the current value, VmHWM the peak."""
    lines = Path("/proc/self/status").read_text().splitlines()
    return int(next(line for line in lines if line.startswith(field)).split()[1]) / 1024


def above_imports(make: Callable[[], Callable[[], object]]) -> float:
    """Peak MiB of making a function and running it."""
    layer = nn.Linear(64, 64)
    layer(torch.randn(8, 64)).sum().backward()
    torch.optim.Adam(layer.parameters(), fused=True).step()
    Path("/proc/self/clear_refs").write_text("5")  # resets the peak to the current value
    before = resident("VmRSS")
    run = make()
    for _ in range(ROUNDS):
        run()
    return resident("VmHWM") - before


def train(competitor: str, shape: str, batches: Path) -> float:
    """Peak memory of some updates."""

    def make() -> Callable[[], object]:
        data = torch.load(batches, weights_only=False)
        step = training.COMPETITORS[competitor](training.SHAPES[shape])
        return lambda: [step(batch) for batch in data]

    return above_imports(make)


def decode(competitor: str, search: str) -> float:
    """Peak memory of some searches."""

    def make() -> Callable[[], object]:
        find = decoding.with_heed(decoding.build()) if competitor == "heed" else decoding.with_marian()
        source, mask = decoding.sources_of(SOURCES)
        return lambda: find(source, mask, SEARCHES[search], LENGTH)

    return above_imports(make)


def measured(threads: int, *what: str) -> float | None:
    """The number printed by a separate process; None if the competitor is not installed."""
    options = ["--threads", str(threads), "--precision", training.PRECISION["forward"]]
    command = [sys.executable, __file__, *options, "--measure", *what]
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
            ratio = "" if own is None else f"  heed uses {own / size:5.2f} of it"
            print(f"  {name:24} {size:7,.0f} MiB{ratio}")


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--batch-tokens", type=int, default=4_000)
    parser.add_argument("--only", help="only competitors whose name contains this text", default="")
    parser.add_argument("--precision", choices=("float32", "bf16"), default="float32", help="of training")
    parser.add_argument("--measure", nargs="+", help=argparse.SUPPRESS)
    given = parser.parse_args()
    torch.set_num_threads(given.threads)
    training.PRECISION["forward"] = given.precision
    if given.measure:
        kind, competitor, shape, *rest = given.measure
        if competitor in NEEDS:
            importlib.import_module(NEEDS[competitor])
        print(json.dumps(train(competitor, shape, Path(rest[0])) if kind == "train" else decode(competitor, shape)))
        return
    print_machine()
    print("memory above the imports")
    with tempfile.TemporaryDirectory() as folder:
        batches = Path(folder) / "batches.pt"
        torch.save(training.batches(given.batch_tokens, 4), batches)
        for shape in training.SHAPES:
            wanted = [name for name in training.COMPETITORS if given.only in name]
            rows = [(name, measured(given.threads, "train", name, shape, str(batches))) for name in wanted]
            table(f"training, {shape}, {given.batch_tokens} tokens per batch", rows)
    for search in SEARCHES:
        wanted = [name for name in NEEDS if given.only in name]
        rows = [(name, measured(given.threads, "decode", name, search)) for name in wanted]
        table(f"decoding, 4+4 x 128, {SOURCES} sources, {search}", rows)


if __name__ == "__main__":
    main()
