"""LSTM against LSTMN as language models of equal width: time and operations per token by length of the text.

    python benchmarks/lstmn.py [--threads 1] [--width 128] [--rounds 5]

Forward and backward on random tokens, `rnn` (one LSTM layer) and `lstmn` with the whole text on its tape. An LSTM does
the same work for every token; an LSTMN compares token t with the t - 1 tokens before it, n (n - 1) / 2 pairs for n
tokens, counted in a traced pass. Multiplications per token in the forward pass are those of the matrices, the same at
every length, and 3 d for each pair: d with v, 2 d in the sum of states and cells; a pair also costs d tanh. Exponents
are slopes of lines fitted to the logarithms of the time of a whole text: 1 is linear, 2 quadratic.

`step by step` computes the LSTMN literally from its equations (`HEED_PLAIN=1`), with the same weights and results. All
forms run in turn in each round, and the shortest time of each counts. Processor time.
"""

from __future__ import annotations

import argparse
import time
from collections.abc import Callable

import torch
from growth import exponent
from machine import print_machine
from torch import Tensor

from heed import kernels
from heed.models.base import LanguageModel
from heed.models.lstmn import LstmnLanguageModel, LstmnLanguageModelConfig
from heed.models.rnn import RnnLanguageModel, RnnLanguageModelConfig
from heed.observe.trace import trace

LENGTHS, ROWS, VOCAB_SIZE = [32, 64, 128, 256, 512], 4, 65


def models(width: int) -> tuple[LanguageModel, LanguageModel]:
    """An LSTM and an LSTMN."""
    torch.manual_seed(1)
    same = {"vocab_size": VOCAB_SIZE, "d_embedding": width, "d_hidden": width, "dropout": 0.0}
    lstm = RnnLanguageModel(RnnLanguageModelConfig(**same, num_layers=1))
    return lstm.train(), LstmnLanguageModel(LstmnLanguageModelConfig(**same, d_attention=width, tape=None)).train()


def pairs(model: LanguageModel, tokens: Tensor) -> int:
    """Number of compared pairs of tokens in one row."""
    with torch.no_grad(), trace(model) as seen:
        model(tokens[:1])
    return sum(record.projected.shape[2] * record.prepared.shape[2] for record in seen.attention_records)


def multiplications(width: int, length: int, compared: int) -> float:
    """Multiplications per token in the forward pass: gates of input and state; for LSTMN also query, key, pairs."""
    gates, look = 8 * width * width, 3 * width * width if compared else 0
    return gates + look + 3 * width * compared / length


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--threads", type=int, default=1)
    parser.add_argument("--width", type=int, default=128)
    parser.add_argument("--rounds", type=int, default=5)
    given = parser.parse_args()
    torch.set_num_threads(given.threads)
    print_machine()
    lstm, lstmn = models(given.width)
    print(f"width {given.width}, {ROWS} rows")

    def plainly(tokens: Tensor) -> Tensor:
        with kernels.plain():
            return train(lstmn, tokens)

    def train(model: LanguageModel, tokens: Tensor) -> Tensor:
        model.zero_grad()
        hidden = model(tokens)
        hidden.sum().backward()
        return hidden.detach()

    forms: dict[str, Callable[[Tensor], Tensor]] = {
        "LSTM": lambda tokens: train(lstm, tokens),
        "LSTMN": lambda tokens: train(lstmn, tokens),
        "LSTMN, step by step": plainly,
    }
    totals: dict[str, list[float]] = {name: [] for name in forms}
    counts, work = [], {"LSTM": [], "LSTMN": []}
    for length in LENGTHS:
        tokens = torch.randint(4, VOCAB_SIZE, (ROWS, length))
        torch.testing.assert_close(plainly(tokens), train(lstmn, tokens), rtol=0, atol=1e-6)
        counts.append(pairs(lstmn, tokens))
        for name, compared in (("LSTM", 0), ("LSTMN", counts[-1])):
            work[name].append(multiplications(given.width, length, compared))
        best = dict.fromkeys(forms, float("inf"))
        for _ in range(given.rounds):
            for name, run in forms.items():
                start = time.process_time()
                run(tokens)
                best[name] = min(best[name], time.process_time() - start)
        for name, seconds in best.items():
            totals[name].append(seconds)

    def line(name: str, values: list[float], form: str, slope: float | None = None) -> None:
        shown = " ".join(format(value, form) for value in values)
        print(f"  {name:36} {shown}" + ("" if slope is None else f"   {slope:5.2f}"))

    print(f"\nlength {LENGTHS}; last column: exponent of the time of a whole text, over the larger half")
    for name, seconds in totals.items():
        per_token = [1e6 * t / (ROWS * n) for t, n in zip(seconds, LENGTHS, strict=True)]
        line(f"{name}, microseconds per token", per_token, "9.1f", exponent(LENGTHS[2:], seconds[2:]))
    for name, values in work.items():
        line(f"{name}, 1,000 multiplications / token", [value / 1e3 for value in values], "9.1f")
    line("LSTMN, pairs per text", [float(count) for count in counts], "9.0f", exponent(LENGTHS, counts))
    ratios = [slow / fast for slow, fast in zip(totals["LSTMN, step by step"], totals["LSTMN"], strict=True)]
    line("LSTMN, step by step / in one call", ratios, "9.2f")
    line("LSTMN / LSTM", [a / b for a, b in zip(totals["LSTMN"], totals["LSTM"], strict=True)], "9.1f")


if __name__ == "__main__":
    main()
