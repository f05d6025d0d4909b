"""Growth of time and memory of a training pass with length, batch size, layers, and words read (m) and written (t).

    python benchmarks/growth.py [--threads 2]

Forward and backward on random tokens. Time is the minimum of several passes; memory is what is kept for the backward
pass (the bytes that autograd saves, each storage once), without the parameters. The exponent is the slope of a line
fitted to the logarithms: 1 is linear, 2 quadratic; it is also given for the larger half of the sizes, where constant
costs matter less. Attention compares every word written with every word read, m * t; an encoder-decoder without
attention only reads and writes, m + t; here m = t.
"""

from __future__ import annotations

import argparse
import math
import time
from collections.abc import Callable

import torch
from machine import print_machine
from torch import Tensor, nn

from heed.attention import Additive, Attention, MultiHeadAttention
from heed.layers import Recurrent
from heed.layers.transformer import EncoderBlock

WIDTH, HEADS = 64, 4
Pass = Callable[[], Tensor]


def cost(run: Pass, passes: int = 3) -> tuple[float, float]:
    """Milliseconds of a forward and backward pass, and the MiB kept between them."""
    kept: dict[int, int] = {}

    def keep(tensor: Tensor) -> Tensor:
        if not isinstance(tensor if tensor._base is None else tensor._base, nn.Parameter):
            kept[tensor.untyped_storage().data_ptr()] = tensor.untyped_storage().nbytes()
        return tensor

    with torch.autograd.graph.saved_tensors_hooks(keep, lambda tensor: tensor):
        run().backward()
    best = math.inf
    for _ in range(passes):
        start = time.perf_counter()
        run().backward()
        best = min(best, time.perf_counter() - start)
    return 1000 * best, sum(kept.values()) / 2**20


def exponent(sizes: list[int], values: list[float]) -> float:
    """Slope of the least-squares line through the logarithms."""
    x, y = [math.log(size) for size in sizes], [math.log(value) for value in values]
    mean_x, mean_y = sum(x) / len(x), sum(y) / len(y)
    over = sum((a - mean_x) ** 2 for a in x)
    return sum((a - mean_x) * (b - mean_y) for a, b in zip(x, y, strict=True)) / over


def report(what: str, sizes: list[int], make: Callable[[int], Pass]) -> None:
    costs = [cost(make(size)) for size in sizes]
    for unit, values in zip(("ms", "MiB"), map(list, zip(*costs, strict=True)), strict=True):
        half = len(sizes) // 2
        slopes = exponent(sizes, values), exponent(sizes[half:], values[half:])
        shown = " ".join(f"{value:9.2f}" for value in values)
        print(f"  {what:38} {unit:3} {shown}   {slopes[0]:5.2f} {slopes[1]:5.2f}")


def noise(*shape: int) -> Tensor:
    return torch.randn(*shape, requires_grad=True)


def self_attention(batch: int, length: int) -> Pass:
    attention, x = MultiHeadAttention(WIDTH, HEADS), noise(batch, length, WIDTH)
    return lambda: attention(x).sum()


def recurrence(batch: int, length: int, layers: int = 1) -> Pass:
    network, x = Recurrent(WIDTH, WIDTH, num_layers=layers), noise(batch, length, WIDTH)
    return lambda: network(x)[0].sum()


def blocks(layers: int) -> Pass:
    stack = nn.ModuleList(
        EncoderBlock(WIDTH, HEADS, 4 * WIDTH, dropout=0.0, attention_dropout=0.0, norm="pre", layer=n)
        for n in range(layers)
    )
    x = noise(8, 64, WIDTH)

    def run() -> Tensor:
        y: Tensor = x
        for block in stack:
            y = block(y, None)
        return y.sum()

    return run


def read_and_write(length: int, looks: bool) -> Pass:
    """Read m words, write t = m words; with attention each written word is compared with each word read."""
    reader, writer = Recurrent(WIDTH, WIDTH), Recurrent(WIDTH, WIDTH)
    attention = Attention(Additive(WIDTH, WIDTH, WIDTH))
    source, target = noise(2, length, WIDTH), noise(2, length, WIDTH)

    def run() -> Tensor:
        states, finals = reader(source)
        written, _ = writer(target, None, finals)
        return attention(written, attention.prepare(states)).sum() if looks else written.sum()

    return run


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--threads", type=int, default=2)
    torch.set_num_threads(parser.parse_args().threads)
    print_machine()
    print(f"width {WIDTH}; exponents: all sizes, larger half")
    lengths, batches, layers = [128, 256, 512, 1024, 2048], [2, 4, 8, 16, 32], [1, 2, 4, 8, 16]
    print(f"\nlength {lengths}, 2 texts")
    report("self-attention", lengths, lambda n: self_attention(2, n))
    report("recurrence (GRU)", lengths, lambda n: recurrence(2, n))
    print(f"\nbatch {batches}, length 128")
    report("self-attention", batches, lambda n: self_attention(n, 128))
    report("recurrence (GRU)", batches, lambda n: recurrence(n, 128))
    print(f"\nlayers {layers}")
    report("encoder blocks, 8 texts of 64", layers, blocks)
    report("recurrence (GRU), 8 texts of 64", layers, lambda n: recurrence(8, 64, n))
    both = [64, 128, 256, 512]
    print(f"\nwords read and written, m = t {both}, 2 texts")
    report("GRU with additive attention, m * t", both, lambda n: read_and_write(n, True))
    report("GRU without attention, m + t", both, lambda n: read_and_write(n, False))


if __name__ == "__main__":
    main()
