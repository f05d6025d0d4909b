"""Speed-ups of implementation choices in attention, as ratios within one run: `make bench`.

Each row compares two ways of computing the same result on this machine; tests/ checks that they agree.
"""

from __future__ import annotations

import time
from collections.abc import Callable

import torch
from machine import print_machine
from torch import Tensor

from heed.attention import Additive, Attention, Keys, MultiHeadAttention, Rows, ScaledDot, attend
from heed.models.bahdanau import Bahdanau, BahdanauConfig
from heed.observe.trace import trace
from heed.training.loss import vocabulary_loss


def seconds(run: Callable[[], object], least: float = 0.5) -> float:
    """Median time of one call, from at least five calls and `least` seconds."""
    run()
    times: list[float] = []
    while sum(times) < least or len(times) < 5:
        start = time.perf_counter()
        run()
        times.append(time.perf_counter() - start)
    return sorted(times)[len(times) // 2]


def fused_against_readable() -> tuple[str, float, float]:
    """Forward and backward of self-attention, 32 x 4 heads x 128 positions x 64."""
    q, k, v = (torch.randn(32, 4, 128, 64, requires_grad=True) for _ in range(3))
    score = ScaledDot(64)
    module = MultiHeadAttention(256, 4)
    keys = Keys(k, v)

    def readable() -> None:
        attend(q, k, v, None, score)[0].sum().backward()

    def fused() -> None:
        module._attend(q, keys, False, None, 0).sum().backward()

    return "fused against readable self-attention, forward and backward", seconds(readable), seconds(fused)


def grouped_against_gathered() -> tuple[str, float, float]:
    """Additive attention of 64 sources x 5 beams over 30 keys of width 512, one step."""
    attention = Attention(Additive(256, 512, 256)).eval()
    keys = attention.prepare(torch.randn(64, 30, 512))
    rows = Rows.repeat(64, 5)
    query = torch.randn(320, 1, 256)

    @torch.no_grad()
    def gathered() -> None:
        attention(query, keys.select(rows.source_of))

    @torch.no_grad()
    def grouped() -> None:
        attention(query, keys, rows=rows)

    return "keys shared by the beams of a source against keys copied per beam", seconds(gathered), seconds(grouped)


def watched_against_not() -> tuple[str, float, float]:
    """A teacher-forced pass of bahdanau, 64 pairs of 30 and 12 tokens."""
    model = Bahdanau(
        BahdanauConfig(source_vocab_size=100, target_vocab_size=100, d_embedding=64, d_hidden=128, d_attention=128)
    ).eval()
    source, mask = torch.randint(4, 100, (64, 30)), torch.ones(64, 30, dtype=torch.bool)
    target = torch.randint(4, 100, (64, 12))

    @torch.no_grad()
    def watched() -> None:
        with trace(model):
            model(source, mask, target)

    @torch.no_grad()
    def plain() -> None:
        model(source, mask, target)

    return "without trace against traced", seconds(watched), seconds(plain)


def pieces_against_whole() -> tuple[str, float, float]:
    """Loss over 8,000 words for 2,000 positions of width 256, forward and backward."""
    hidden = torch.randn(2000, 256, requires_grad=True)
    output, targets = torch.nn.Linear(256, 8000), torch.randint(0, 8000, (2000,))

    def whole() -> None:
        loss: Tensor = torch.nn.functional.cross_entropy(output(hidden), targets, reduction="sum")
        loss.backward()

    def pieces() -> None:
        vocabulary_loss(hidden, output, targets).backward()

    return "vocabulary loss in pieces against whole", seconds(whole), seconds(pieces)


def main() -> None:
    torch.manual_seed(1)
    print_machine()
    print("| comparison | slower, ms | faster, ms | ratio |\n|---|---|---|---|")
    for measure in (fused_against_readable, grouped_against_gathered, watched_against_not, pieces_against_whole):
        name, slow, fast = measure()
        print(f"| {name} | {slow * 1e3:.2f} | {fast * 1e3:.2f} | {slow / fast:.2f} |")


if __name__ == "__main__":
    main()
