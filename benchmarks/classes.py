"""One update of the Transformer taken apart: what its products, attention, loss, optimiser and the rest take.

    HEED_DATA=../shared/data python benchmarks/classes.py [--threads 1] [--precision bf16]
    ATEN_CPU_CAPABILITY=avx2 ONEDNN_MAX_CPU_ISA=AVX2 MKL_ENABLE_INSTRUCTIONS=AVX2 python benchmarks/classes.py

The shapes and batches are those of benchmarks/training.py. torch's profiler gives the time inside each operation; what
a profiled update takes beyond that is Python between the operations. The profiler itself takes about a microsecond for
each call. Each product is then computed alone, in a loop over operands that stay in the cache: what `alone` says no
program that computes the same products by the same library can go below.
"""

from __future__ import annotations

import argparse
import statistics
import time
from collections import defaultdict
from collections.abc import Callable
from typing import Any

import torch
from machine import print_machine
from torch.profiler import ProfilerActivity, profile
from training import PRECISION, SHAPES, VOCABULARY, batches, heed_step, peak

from heed.kernels import linear

PRODUCTS = {"aten::mm": (0, 1), "aten::addmm": (1, 2), "mkldnn::_linear_pointwise": (0, 1)}
CLASSES = {
    "attention": ("attention", "bmm"),
    "optimiser": ("adam", "foreach", "linalg", "norm_except", "nan_to_num"),
    "embeddings, positions": ("embedding", "index", "gather", "scatter"),
    "dropout": ("dropout", "bernoulli", "random_", "native_dropout"),
    "layer norm": ("layer_norm",),
    "memory: copies, fills": ("copy_", "fill_", "zero_", "empty", "cat", "contiguous", "clone", "resize"),
}
REST = "other elementwise, sums"
VIEWS = (
    "view",
    "transpose",
    "as_strided",
    "::t",
    "slice",
    "expand",
    "::to",
    "permute",
    "select",
    "unsqueeze",
    "detach",
)
"""Operations that touch no numbers, besides those outside of `aten`, which are the nodes of the gradient."""


def product_of(event: Any) -> tuple[int, int, int] | None:
    """Rows, inner size and columns of a product, or None for another operation."""
    if event.key not in PRODUCTS:
        return None
    left, right = (event.input_shapes[place] for place in PRODUCTS[event.key])
    rows = 1
    for size in left[:-1]:
        rows *= size
    columns = right[0] if event.key.startswith("mkldnn") else right[1]
    return rows, left[-1], columns


def class_of(event: Any) -> str:
    """The row of the table in which an operation is counted."""
    product = product_of(event)
    if product is not None:
        return "products over the vocabulary" if VOCABULARY in product else "other products"
    if not event.key.startswith("aten::") or event.key.endswith(VIEWS):
        return "views, nodes of the gradient"
    found = next((name for name, parts in CLASSES.items() if any(part in event.key for part in parts)), REST)
    if found in (REST, "memory: copies, fills") and any(VOCABULARY in shape for shape in event.input_shapes):
        return "softmax and sums over the vocabulary"
    return found


def seconds_of(run: Callable[[], object], least: float = 0.05) -> float:
    """The median time of a call."""
    run()
    times: list[float] = []
    while sum(times) < least or len(times) < 3:
        start = time.perf_counter()
        run()
        times.append(time.perf_counter() - start)
    return statistics.median(times)


def alone(product: tuple[int, int, int]) -> float:
    """Seconds of a product by itself, by the library that heed uses if that is faster."""
    rows, inner, columns = product
    kind = torch.bfloat16 if PRECISION["forward"] == "bf16" else torch.float32
    x, weight = torch.randn(rows, inner, dtype=kind), torch.randn(columns, inner, dtype=kind)
    with torch.no_grad():
        return min(seconds_of(lambda: linear(x, weight)), seconds_of(lambda: torch.mm(x, weight.t())))


def take_apart(title: str, count: int) -> None:
    """Print the table of one shape."""
    data, step = batches(4_000, count), heed_step(SHAPES[title])
    for batch in data:
        step(batch)
    whole = statistics.median(seconds_of(lambda batch=batch: step(batch)) for batch in data)
    with profile(activities=[ProfilerActivity.CPU], record_shapes=True) as found:
        start = time.perf_counter()
        for batch in data:
            step(batch)
        profiled = (time.perf_counter() - start) / count
    taken, calls, bytes_read = defaultdict[str, float](float), defaultdict[str, int](int), defaultdict[str, int](int)
    by_itself, operations = 0.0, 0
    for event in found.key_averages(group_by_input_shape=True):
        name, each = class_of(event), 1e-6 * event.self_cpu_time_total / count
        taken[name] += each
        calls[name] += event.count
        bytes_read[name] += (
            0 if "views" in name else 4 * event.count * sum(torch.Size(s).numel() for s in event.input_shapes if s)
        )
        if (product := product_of(event)) is not None:
            operations += 2 * event.count * product[0] * product[1] * product[2]
            by_itself += event.count * alone(product)
    products = sum(taken[name] for name in taken if "products" in name)
    top = peak(time.perf_counter, product=linear)
    print(f"\n{title}: {1e3 * whole:.0f} ms an update, {1e3 * profiled:.0f} under the profiler; ", end="")
    print(f"a 2048-square product reaches {top / 1e9:.0f} GFLOP/s")
    print(f"  {'class':32} {'ms':>7} {'share':>7} {'calls':>7} {'MB read':>8}")
    for name in sorted(taken, key=lambda key: -taken[key]):
        row = f"{1e3 * taken[name]:7.1f} {taken[name] / profiled:7.1%} {calls[name] / count:7.0f}"
        print(f"  {name:32} {row} {bytes_read[name] / count / 1e6:8.1f}")
    between = profiled - sum(taken.values())
    print(f"  {'Python between':32} {1e3 * between:7.1f} {between / profiled:7.1%}")
    print(
        f"  products {1e3 * products:.1f} ms, alone {1e3 * by_itself / count:.1f}; "
        f"{operations / count / products / 1e9:.0f} GFLOP/s, alone {operations / by_itself / 1e9:.0f}"
    )


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--threads", type=int, default=1)
    parser.add_argument("--batches", type=int, default=6)
    parser.add_argument("--precision", choices=("float32", "bf16"), default="float32")
    given = parser.parse_args()
    PRECISION["forward"] = given.precision
    torch.set_num_threads(given.threads)
    print_machine()
    for title in SHAPES:
        take_apart(title, given.batches)


if __name__ == "__main__":
    main()
