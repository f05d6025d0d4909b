"""What it costs to watch a model: time of watched and unwatched passes in turn, and whether their bits are equal.

    python benchmarks/watching.py [--rounds 10] [--threads 1]

One text of 512 tokens through `bert`, and 64 tokens written by `gpt` after a prompt of 448; untrained, both of their
base size. "one layer" records the last layer alone and computes its maps (`seen.maps`), "all layers" records all and
computes the maps of the last. Medians of the ratios of neighbouring passes. The last column is the largest difference
of the outputs: of states, and of the log-probability of what was written.
"""

from __future__ import annotations

import argparse
import statistics
import time
from collections.abc import Callable
from typing import Any

import torch
from machine import print_machine
from torch import Tensor

from heed.generation import SearchOptions, generate
from heed.models import bert, gpt
from heed.watch.trace import trace

SIZE = dict(vocab_size=1000, d_model=768, num_layers=12, num_heads=12, d_ff=3072)
LENGTH, WRITTEN = 512, 64


def passes() -> dict[str, tuple[Any, str, Callable[[], Tensor]]]:
    """Of each pass its model, the mechanism of its maps, and the pass itself."""
    torch.manual_seed(1)
    reader = bert.Bert(bert.BertConfig(**SIZE, max_length=LENGTH)).eval()
    writer = gpt.GPT(gpt.GPTConfig(**SIZE, max_length=LENGTH)).eval()
    tokens, mask = torch.randint(4, 1000, (1, LENGTH)), torch.ones(1, LENGTH, dtype=torch.bool)

    def written() -> Tensor:
        options = SearchOptions(end_token=0, max_length=WRITTEN, min_length=WRITTEN)
        found = generate(writer, None, tokens[:, : LENGTH - WRITTEN], options).hypotheses[0][0]
        return torch.tensor([*found.tokens, found.log_prob], dtype=torch.float64)

    return {
        f"bert, {LENGTH} tokens": (reader, "encoder", lambda: reader(tokens, mask)),
        f"gpt, {LENGTH - WRITTEN} tokens read, {WRITTEN} written": (writer, "decoder", written),
    }


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rounds", type=int, default=10)
    parser.add_argument("--threads", type=int, default=1)
    options = parser.parse_args()
    print_machine()
    torch.set_num_threads(options.threads)
    print("| pass | unwatched | one layer | all layers | difference |\n|---|---|---|---|---|")
    with torch.no_grad():
        for name, (model, mechanism, run) in passes().items():
            plain, ratios, difference = [], {0: [], 1: []}, 0.0
            for _ in range(options.rounds):
                start = time.perf_counter()
                expected = run()
                plain.append(time.perf_counter() - start)
                for all_layers in ratios:
                    start = time.perf_counter()
                    with trace(model, **({} if all_layers else {"mechanism": mechanism, "layer": -1})) as seen:
                        found = run()
                    seen.maps(mechanism)
                    ratios[all_layers].append((time.perf_counter() - start) / plain[-1])
                    difference = max(difference, float((found - expected).abs().max()))
            one, every = (f"{statistics.median(values):.2f}" for values in ratios.values())
            said = f"{difference:.1e}" if difference else "0, bit-equal"
            print(f"| {name} | {statistics.median(plain) * 1000:.0f} ms | {one} | {every} | {said} |", flush=True)


if __name__ == "__main__":
    main()
