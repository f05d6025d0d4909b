"""Updates in bf16 over updates in float32 on a CPU, by family and width: whether its bf16 products pay.

    python benchmarks/precision.py [--threads 1] [--widths 128,256,512]
    HEED_DATA=../shared/data python benchmarks/precision.py --scores FOLDER

The second command trains recipes of examples/ with few updates in both precisions, three seeds each, and prints their
scores; runs that stand in FOLDER are not trained again.

Four layers with heads of 64, random data, dropout 0.1, of attention weights none as in the defaults; forward under
autocast as `training.precision=bf16` has it, then backward, clipping and AdamW in float32. The precisions take turns;
medians are compared. Recurrent networks are not here: they compute in float32 under bf16 too.
"""

from __future__ import annotations

import argparse
import os
import statistics
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import torch
from machine import print_machine
from torch import Tensor, nn
from torch.nn.functional import cross_entropy

import heed
from heed.config import TrainingConfig
from heed.kernels import vocabulary_loss
from heed.models.encoder import Encoder, EncoderConfig
from heed.models.gpt import GPT, GPTConfig
from heed.models.transformer import Transformer, TransformerConfig
from heed.models.vit import Vit, VitConfig
from heed.training.device import autocast
from heed.training.optimizer import make_optimizer

BATCH, LENGTH, PICTURES, CLASSES = 8, 256, 32, 10
CPU = torch.device("cpu")
DROPOUT = {"dropout": 0.1, "attention_dropout": 0.0}
Loss = Callable[[], Tensor]


def gpt(vocabulary: int, shape: dict[str, int]) -> tuple[nn.Module, Loss]:
    model = GPT(GPTConfig(vocab_size=vocabulary, max_length=LENGTH, **DROPOUT, **shape))
    tokens, labels = torch.randint(vocabulary, (2, BATCH, LENGTH))
    return model, lambda: vocabulary_loss(model(tokens).flatten(0, 1), model.output, labels.flatten()) / labels.numel()


def transformer(vocabulary: int, shape: dict[str, int]) -> tuple[nn.Module, Loss]:
    model = Transformer(
        TransformerConfig(source_vocab_size=vocabulary, target_vocab_size=vocabulary, **DROPOUT, **shape)
    )
    source, target, labels = torch.randint(4, vocabulary, (3, 64, 16))
    mask = torch.ones_like(source, dtype=torch.bool)

    def loss() -> Tensor:
        states = model(source, mask, target).flatten(0, 1)
        return vocabulary_loss(states, model.output, labels.flatten()) / labels.numel()

    return model, loss


def encoder(vocabulary: int, shape: dict[str, int]) -> tuple[nn.Module, Loss]:
    body = Encoder(EncoderConfig(vocab_size=vocabulary, **DROPOUT, **shape))
    model = nn.ModuleList([body, nn.Linear(body.d_output, CLASSES)])
    tokens, labels = torch.randint(4, vocabulary, (64, 32)), torch.randint(CLASSES, (64,))
    mask = torch.ones_like(tokens, dtype=torch.bool)
    return model, lambda: cross_entropy(model[1](body(tokens, mask)[:, 0]), labels)


def vit(_: int, shape: dict[str, int]) -> tuple[nn.Module, Loss]:
    body = Vit(VitConfig(num_channels=3, height=32, width=32, patch_size=4, **DROPOUT, **shape))
    model = nn.Sequential(body, nn.Linear(body.d_output, CLASSES))
    pixels, labels = torch.randn(PICTURES, 3, 32, 32), torch.randint(CLASSES, (PICTURES,))
    return model, lambda: cross_entropy(model(pixels), labels)


FAMILIES = {
    "gpt, 65 characters": (gpt, 65),
    "gpt, 8,000 tokens": (gpt, 8_000),
    "transformer, 10,000 tokens": (transformer, 10_000),
    "encoder": (encoder, 8_000),
    "vit, 32 x 32 pixels": (vit, 0),
}


EXAMPLES = Path(__file__).parents[1] / "examples"
FEW: dict[str, Any] = {"training.warmup": 100, "training.validate_every": 250, "training.threads": 1}
WIDE = {"model.d_model": 256, "model.num_heads": 8, "model.d_ff": 1024}
TRANSLATION = {"generation.beam_size": 1, "training.batch_tokens": 1_500, "training.learning_rate": 0.002}
RECIPES: dict[str, tuple[str, str, int, dict[str, Any]]] = {
    "transformer 4+4 x 128": ("multi30k-en-de-transformer", "chrf", 300, TRANSLATION),
    "transformer 3+3 x 256": (
        "multi30k-de-en-transformer",
        "chrf",
        250,
        {**TRANSLATION, **WIDE, "model.num_layers": 3},
    ),
    "gpt 4 x 256": ("shakespeare", "bits_per_byte", 300, WIDE),
    "bert": ("imdb-bert", "token_accuracy", 200, {"training.batch_tokens": 1_500}),
    "vit 6 x 64": ("fashion-vit", "accuracy", 500, {}),
}
"""By title: recipe, score beside the loss of the validation, updates and changed settings."""


def print_scores(folder: Path) -> None:
    """Train the recipes in both precisions and print their scores."""
    folder.mkdir(parents=True, exist_ok=True)
    os.chdir(folder)
    if not Path("data").exists():
        Path("data").symlink_to(Path(os.environ["HEED_DATA"]).resolve())
    for title, (recipe, score, updates, changes) in RECIPES.items():
        for seed in (1, 2, 3):
            for precision in ("float32", "bf16"):
                out = Path(f"{title.replace(' ', '-')}-{precision}-{seed}")
                if (out / "report.json").exists():
                    scores = heed.load(out).report["scores"]
                else:
                    (text := Path(f"{recipe}.yaml")).write_text((EXAMPLES / text).read_text(encoding="utf-8"))
                    settings = {**FEW, **changes, "training.precision": precision}
                    run = heed.train(text, steps=updates, seed=seed, out=out, settings=settings, quiet=True)
                    scores = run.report["scores"]
                loss, last = scores["valid"]["loss"], scores.get("test", scores["valid"])
                print(f"{title:24} {precision:8} {seed} {loss:.4f} {score} {last.get(score, last)}", flush=True)


def seconds(model: nn.Module, loss: Loss, optimizer: torch.optim.Optimizer, precision: str) -> float:
    """Time of one update."""
    start = time.perf_counter()
    with autocast(precision, CPU):
        value = loss()
    value.backward()
    nn.utils.clip_grad_norm_(model.parameters(), 1.0)
    optimizer.step()
    optimizer.zero_grad()
    return time.perf_counter() - start


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--threads", type=int, default=1)
    parser.add_argument("--widths", default="128,256,512")
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--scores", type=Path)
    given = parser.parse_args()
    torch.set_num_threads(given.threads)
    print_machine()
    if given.scores is not None:
        print_scores(given.scores)
        return
    print(f"{'family':28} {'width':>6} {'float32, ms':>12} {'bf16, ms':>9} {'float32 / bf16':>15}")
    for name, (make, vocabulary) in FAMILIES.items():
        for width in map(int, given.widths.split(",")):
            torch.manual_seed(1)
            shape = {"d_model": width, "num_heads": max(1, width // 64), "num_layers": 4, "d_ff": 4 * width}
            model, loss = make(vocabulary, shape)
            optimizer = make_optimizer(model.train(), TrainingConfig(steps=1, learning_rate=1e-4))
            times: dict[str, list[float]] = {"float32": [], "bf16": []}
            for _ in range(given.rounds + 1):
                for precision, found in times.items():
                    found.append(seconds(model, loss, optimizer, precision))
            full, half = (statistics.median(found[1:]) for found in times.values())
            print(f"{name:28} {width:6} {1e3 * full:12.0f} {1e3 * half:9.0f} {full / half:15.2f}", flush=True)


if __name__ == "__main__":
    main()
