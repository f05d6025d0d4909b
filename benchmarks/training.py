"""Training speed of the Transformer against peers, in one run on the same batches.

    pip install -e '.[bench]'
    HEED_DATA=../shared/data python benchmarks/training.py [--threads 2] [--seconds 10]

Each competitor trains on the same padded batches of Multi30k (joint BPE of 10,000; random lengths without HEED_DATA)
with label smoothing, dropout, Adam and clipping. Rounds are interleaved and the medians compared. The share of the peak
counts operations on real tokens only, against a product of two 2048-square matrices in the same run: by `torch.mm`,
which uses MKL, and by the library that heed uses if it is faster. Programs that are not installed are reported and left
out. With one thread, `--processor-time` excludes the time of other processes. Then the same in bf16,
with torch's autocast around every competitor's forward pass (`--precision float32` leaves it out).
"""

from __future__ import annotations

import argparse
import gc
import os
import statistics
import time
from collections.abc import Callable, Mapping
from functools import partial
from pathlib import Path
from typing import NamedTuple, TypeVar

import torch
from machine import print_machine
from torch import Tensor, nn

from heed.config import TrainingConfig
from heed.data.batch import TokenPair, pad_rows, pad_shifted, plan_pass
from heed.data.tokens import OWN
from heed.kernels import linear, vocabulary_loss
from heed.models.transformer import Transformer, TransformerConfig
from heed.tasks import check_config
from heed.tasks.translation import TASK
from heed.training.device import autocast, divided, micro_batches_for, saved_bytes
from heed.training.optimizer import make_optimizer

VOCABULARY = 10_000
SHAPES = {
    "4+4 x 128": {"num_layers": 4, "d_model": 128, "d_ff": 256, "num_heads": 4, "dropout": 0.3},
    "3+3 x 256": {"num_layers": 3, "d_model": 256, "d_ff": 1024, "num_heads": 8, "dropout": 0.2},
}
SMOOTHING = 0.1
T = TypeVar("T")


class PairBatch(NamedTuple):
    """Padded pairs, `(batch, length)` each."""

    source: Tensor
    source_mask: Tensor
    target: Tensor
    labels: Tensor
    target_mask: Tensor

    @property
    def num_targets(self) -> int:
        return int(self.target_mask.sum())


Step = Callable[[PairBatch], float]


def batches(batch_tokens: int, count: int) -> list[PairBatch]:
    data = os.environ.get("HEED_DATA")
    if data is None:
        draw = torch.Generator().manual_seed(1)
        lengths = torch.randint(8, 22, (4_000, 2), generator=draw).tolist()
        ids = lambda n: torch.randint(4, VOCABULARY, (n,), generator=draw).tolist()  # noqa: E731
        pairs = [TokenPair(ids(a), ids(b)) for a, b in lengths]
    else:
        folder = Path(data) / "multi30k"
        values = {
            "data": {
                "train": [str(folder / f"train.{s}.gz") for s in ("en", "de")],
                "valid": [str(folder / f"val.{s}.gz") for s in ("en", "de")],
            },
            "tokenizer": {"kind": "bpe", "vocab_size": VOCABULARY, "shared": True},
            "training": {"steps": 1},
        }
        pairs = list(TASK.prepare(check_config(values, "the benchmark")).encoded("train"))
    plan = plan_pass([pair.cost for pair in pairs], batch_tokens, seed=1, epoch=0)
    return [collate([pairs[i] for i in indices]) for indices in plan[:count]]


def collate(pairs: list[TokenPair]) -> PairBatch:
    return PairBatch(*pad_rows([pair.source for pair in pairs]), *pad_shifted([pair.target for pair in pairs], OWN))


PRECISION = {"forward": "float32"}
"""Precision in which all competitors compute their loss."""


def autocast_loss(loss: Callable[[PairBatch], Tensor], batch: PairBatch) -> Tensor:
    """The loss of a batch, in bf16 by torch's autocast."""
    with autocast(PRECISION["forward"], torch.device("cpu")):
        return loss(batch)


def optimised(model: nn.Module, loss: Callable[[PairBatch], Tensor]) -> Step:
    optimizer = torch.optim.Adam(model.parameters(), lr=1e-4, betas=(0.9, 0.98), fused=True)

    def step(batch: PairBatch) -> float:
        total = autocast_loss(loss, batch)
        (total / batch.num_targets).backward()
        nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimizer.step()
        optimizer.zero_grad(set_to_none=True)
        return total.item() / batch.num_targets

    return step


def as_heed_trains(model: nn.Module, loss: Callable[[PairBatch], Tensor]) -> Step:
    """A step as in heed's training loop: with its optimiser and its choice of micro-batches."""
    optimizer = make_optimizer(model, TrainingConfig(steps=1, optimizer="adam", learning_rate=1e-4, betas=(0.9, 0.98)))
    micro_batches = 0

    def step(batch: PairBatch) -> float:
        nonlocal micro_batches
        if micro_batches == 0:
            few = part_of(batch, divided([*range(len(batch.source))], 4)[0])
            share = (few.source.numel() + few.target.numel()) / (batch.source.numel() + batch.target.numel())
            kept = saved_bytes(model, lambda: autocast_loss(loss, few).backward()) / share
            micro_batches = micro_batches_for(model, torch.device("cpu"), kept)
            optimizer.zero_grad()
        total = 0.0
        for rows in divided([*range(len(batch.source))], micro_batches):
            value = autocast_loss(loss, part_of(batch, rows))
            (value / batch.num_targets).backward()
            total += value.item()
        nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimizer.step()
        optimizer.zero_grad()
        return total / batch.num_targets

    return step


def part_of(batch: PairBatch, rows: list[int]) -> PairBatch:
    """A batch of some of the pairs, padded to the longest."""
    source, target = batch.source_mask[rows], batch.target_mask[rows]
    i, j = int(source.sum(1).max()), int(target.sum(1).max())
    return PairBatch(
        batch.source[rows, :i],
        source[:, :i],
        batch.target[rows, :j],
        batch.labels[rows, :j],
        target[:, :j],
    )


def heed_model(shape: dict[str, float]) -> Transformer:
    config = TransformerConfig(
        source_vocab_size=VOCABULARY,
        target_vocab_size=VOCABULARY,
        shared_embeddings=True,
        attention_dropout=0.0,
        **shape,
    )
    return Transformer(config).train()


def heed_step(shape: dict[str, float]) -> Step:
    model = heed_model(shape)

    def loss(batch: PairBatch) -> Tensor:
        hidden = model(batch.source, batch.source_mask, batch.target)
        real = batch.target_mask
        return vocabulary_loss(hidden[real], model.output, batch.labels[real], SMOOTHING)

    return as_heed_trains(model, loss)


def marian_step(shape: dict[str, float]) -> Step:
    from transformers import MarianConfig, MarianMTModel

    n, d, ff, heads = (shape[k] for k in ("num_layers", "d_model", "d_ff", "num_heads"))
    config = MarianConfig(
        vocab_size=VOCABULARY,
        d_model=d,
        encoder_layers=n,
        decoder_layers=n,
        encoder_ffn_dim=ff,
        decoder_ffn_dim=ff,
        encoder_attention_heads=heads,
        decoder_attention_heads=heads,
        dropout=shape["dropout"],
        activation_function="relu",
        max_position_embeddings=512,
        scale_embedding=True,
        pad_token_id=0,
        eos_token_id=3,
        decoder_start_token_id=2,
    )
    model = MarianMTModel(config).train()
    criterion = nn.CrossEntropyLoss(reduction="sum", label_smoothing=SMOOTHING, ignore_index=-100)

    def loss(batch: PairBatch) -> Tensor:
        logits = model(
            input_ids=batch.source,
            attention_mask=batch.source_mask.long(),
            decoder_input_ids=batch.target,
            decoder_attention_mask=batch.target_mask.long(),
            use_cache=False,
        ).logits
        labels = batch.labels.masked_fill(~batch.target_mask, -100)
        return criterion(logits.flatten(0, 1), labels.flatten())

    return optimised(model, loss)


class _TorchTransformer(nn.Module):
    def __init__(self, shape: dict[str, float]) -> None:
        super().__init__()
        n, d, ff, heads = (int(shape[k]) for k in ("num_layers", "d_model", "d_ff", "num_heads"))
        self.embedding = nn.Embedding(VOCABULARY, d)
        self.positions = nn.Embedding(512, d)
        self.body = nn.Transformer(d, heads, n, n, ff, dropout=shape["dropout"], batch_first=True)
        self.output = nn.Linear(d, VOCABULARY)
        self.output.weight = self.embedding.weight

    def forward(self, batch: PairBatch) -> Tensor:
        def embed(tokens: Tensor) -> Tensor:
            return self.embedding(tokens) + self.positions(torch.arange(tokens.shape[1]))

        length = batch.target.shape[1]
        future = torch.ones(length, length, dtype=torch.bool).triu(1)
        hidden = self.body(
            embed(batch.source),
            embed(batch.target),
            tgt_mask=future,
            src_key_padding_mask=~batch.source_mask,
            tgt_key_padding_mask=~batch.target_mask,
            memory_key_padding_mask=~batch.source_mask,
        )
        return self.output(hidden)


def torch_step(shape: dict[str, float]) -> Step:
    model = _TorchTransformer(shape).train()
    criterion = nn.CrossEntropyLoss(reduction="sum", label_smoothing=SMOOTHING, ignore_index=-100)

    def loss(batch: PairBatch) -> Tensor:
        labels = batch.labels.masked_fill(~batch.target_mask, -100)
        return criterion(model(batch).flatten(0, 1), labels.flatten())

    return optimised(model, loss)


def x_transformers_step(shape: dict[str, float]) -> Step:
    from x_transformers import XTransformer

    n, d, ff, heads = (int(shape[k]) for k in ("num_layers", "d_model", "d_ff", "num_heads"))
    side = {
        "num_tokens": VOCABULARY,
        "max_seq_len": 512,
        "depth": n,
        "heads": heads,
        "attn_dim_head": d // heads,
        "attn_flash": True,
        "ff_mult": ff / d,
        "ff_dropout": shape["dropout"],
        "emb_dropout": shape["dropout"],
    }
    both = {f"{name}_{key}": value for name in ("enc", "dec") for key, value in side.items()}
    model = XTransformer(dim=d, tie_token_emb=True, **both).train()
    criterion = nn.CrossEntropyLoss(reduction="sum", label_smoothing=SMOOTHING, ignore_index=-100)

    def loss(batch: PairBatch) -> Tensor:
        memory = model.encoder(batch.source, mask=batch.source_mask, return_embeddings=True)
        seen = {"context": memory, "context_mask": batch.source_mask, "mask": batch.target_mask}
        logits = model.decoder.net(batch.target, **seen)
        labels = batch.labels.masked_fill(~batch.target_mask, -100)
        return criterion(logits.flatten(0, 1), labels.flatten())

    return optimised(model, loss)


COMPETITORS: dict[str, Callable[[dict[str, float]], Step]] = {
    "heed": heed_step,
    "Hugging Face Marian": marian_step,
    "torch.nn.Transformer": torch_step,
    "x-transformers": x_transformers_step,
}


def operations(shape: dict[str, float], batch: PairBatch) -> float:
    """Multiplications and additions of one update, forward and backward (three products each), real tokens only."""
    n, d, ff = shape["num_layers"], shape["d_model"], shape["d_ff"]
    source, target = batch.source_mask.sum(1).double(), batch.target_mask.sum(1).double()
    encoder = n * (4 * d * d + 2 * d * ff)
    decoder = n * (6 * d * d + 2 * d * ff) + d * VOCABULARY
    memory = n * 2 * d * d
    projections = source.sum() * (encoder + memory) + target.sum() * decoder
    attention = n * 2 * d * ((source**2).sum() + (target**2).sum() / 2 + (source * target).sum())
    return 6.0 * float(projections + attention)


def peak(
    clock: Callable[[], float], seconds: float = 1.0, product: Callable[[Tensor, Tensor], Tensor] = torch.mm
) -> float:
    """Operations per second of a product of two 2048-square matrices, the best of several."""
    a, b = torch.randn(2048, 2048), torch.randn(2048, 2048)
    best, end = 0.0, time.perf_counter() + seconds
    while time.perf_counter() < end:
        start = clock()
        with torch.no_grad():
            product(a, b)
        best = max(best, 2 * 2048**3 / (clock() - start))
    return best


def installed(makers: Mapping[str, Callable[[], T]], only: str | None) -> dict[str, T]:
    """The competitors whose name contains `only` and whose packages are installed, each made with the same seed."""
    steps: dict[str, T] = {}
    for competitor, make in makers.items():
        if only and only not in competitor:
            continue
        torch.manual_seed(1)
        try:
            steps[competitor] = make()
        except ImportError as error:
            print(f"{competitor} is not installed ({error.name})")
    return steps


def race(
    title: str, steps: dict[str, Step], data: list[PairBatch], work: dict[str, float], given: argparse.Namespace
) -> None:
    """Train all competitors in turn, on a third of the batches in each round; `work`: operations of all batches."""
    clock = time.process_time if given.processor_time else time.perf_counter
    for step in steps.values():
        step(data[0])
    rounds: dict[str, list[float]] = {competitor: [] for competitor in steps}  # seconds per target token
    peaks, best_peaks = [peak(clock)], [peak(clock, product=linear)]
    end = time.perf_counter() + given.seconds * len(steps)
    while time.perf_counter() < end or len(peaks) < 4:
        part = data[len(peaks) % 3 :: 3]
        for competitor, step in steps.items():
            gc.collect()
            start = clock()
            for batch in part:
                step(batch)
            rounds[competitor].append((clock() - start) / sum(batch.num_targets for batch in part))
        peaks.append(peak(clock, 0.2))
        best_peaks.append(peak(clock, 0.2, linear))
    total, top, best = sum(batch.num_targets for batch in data), statistics.median(peaks), statistics.median(best_peaks)
    print(
        f"\n{title}: a 2048-square product reaches {top / 1e9:.0f} GFLOP/s by torch.mm and {best / 1e9:.0f} by "
        f"heed.kernels; {len(peaks) - 1} rounds"
    )
    for competitor, times in rounds.items():
        middle, operations_each = statistics.median(times), work[competitor] / total
        ratio = middle / statistics.median(rounds["heed"]) if "heed" in rounds else float("nan")
        print(
            f"  {competitor:28} {1 / middle:8,.0f} target tokens/s"
            f"  {operations_each / middle / top:6.1%} of the first peak, {operations_each / middle / best:5.1%} of the "
            f"second  {operations_each / 1e6:5.1f} MFLOP per token  {ratio:5.2f}x heed's time"
        )


def arguments(description: str) -> argparse.Namespace:
    """Parse the options that both training benchmarks share."""
    parser = argparse.ArgumentParser(description=description)
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--seconds", type=float, default=10.0, help="seconds for each competitor and shape")
    parser.add_argument("--batch-tokens", type=int, default=4_000)
    parser.add_argument("--only", help="only competitors whose name contains this text")
    parser.add_argument("--precision", default="float32,bf16")
    parser.add_argument("--processor-time", action="store_true", help="processor time instead of wall-clock time")
    given = parser.parse_args()
    torch.set_num_threads(given.threads)
    print_machine()
    return given


def main() -> None:
    given = arguments("Training speed of Transformers")
    data = batches(given.batch_tokens, 12)
    for name, shape in SHAPES.items():
        for PRECISION["forward"] in given.precision.split(","):
            steps = installed({n: partial(make, shape) for n, make in COMPETITORS.items()}, given.only)
            work = sum(operations(shape, batch) for batch in data)
            race(f"{name}, {PRECISION['forward']}", steps, data, dict.fromkeys(steps, work), given)


if __name__ == "__main__":
    main()
