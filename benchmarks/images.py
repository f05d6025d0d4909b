"""Training speed of image models against other implementations, in one run on the same batches.

    pip install -e '.[bench]' transformers
    python benchmarks/images.py [--threads 1] [--rounds 9] [--processor-time]

`vit` against `ViTForImageClassification` with a configuration of the same shape, at dropout 0 (its default) and 0.1
(the paper's). `resnet` against the same network built from torch's layers, with weights and pictures in channels-last
layout. Both sides get the same pictures, sizes and labels, fused AdamW, and clipping. Rounds are interleaved and the
medians compared. `--processor-time` measures processor time instead of wall-clock time, for a machine with other work.
"""

from __future__ import annotations

import argparse
import statistics
import time
from collections.abc import Callable, Iterator
from typing import Any

import torch
from machine import print_machine
from torch import Tensor, nn
from torch.nn.functional import cross_entropy, pad, relu

from heed.config import TrainingConfig
from heed.models.resnet import ResNet, ResNetConfig
from heed.models.vit import Vit, VitConfig
from heed.training.optimizer import make_optimizer

LABELS = 10
Step = Callable[[], float]

VITS = {
    "vit 6 x 64, patch 4, 28 x 28": (
        {"num_channels": 1, "height": 28, "width": 28, "patch_size": 4},
        {"d_model": 64, "num_heads": 4, "num_layers": 6, "d_ff": 128},
        128,
    ),
    "vit 6 x 128, patch 4, 32 x 32": (
        {"num_channels": 3, "height": 32, "width": 32, "patch_size": 4},
        {"d_model": 128, "num_heads": 4, "num_layers": 6, "d_ff": 256},
        64,
    ),
}


def step_of(model: nn.Module, scores: Callable[[], Tensor], labels: Tensor, optimizer: Any) -> Step:
    """Forward, backward, clipping, update."""

    def step() -> float:
        loss = cross_entropy(scores(), labels)
        loss.backward()
        nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimizer.step()
        optimizer.zero_grad()
        return loss.item()

    return step


def heed_step(body: Any, pixels: Tensor, labels: Tensor) -> Step:
    model = nn.Sequential(body, nn.Linear(body.d_output, LABELS)).train()
    return step_of(model, lambda: model(pixels), labels, make_optimizer(model, TrainingConfig(steps=1)))


def other_step(model: nn.Module, scores: Callable[[], Tensor], labels: Tensor) -> Step:
    return step_of(model, scores, labels, torch.optim.AdamW(model.train().parameters(), lr=1e-4, fused=True))


def transformers_vit(picture: dict[str, int], shape: dict[str, int], dropout: float) -> Any:
    from transformers import ViTConfig as TheirConfig
    from transformers import ViTForImageClassification

    config = TheirConfig(
        image_size=(picture["height"], picture["width"]),
        num_channels=picture["num_channels"],
        patch_size=picture["patch_size"],
        hidden_size=shape["d_model"],
        num_attention_heads=shape["num_heads"],
        num_hidden_layers=shape["num_layers"],
        intermediate_size=shape["d_ff"],
        hidden_dropout_prob=dropout,
        num_labels=LABELS,
    )
    return ViTForImageClassification(config)


class PlainBlock(nn.Module):
    """A basic block as in He et al. 2016 for CIFAR."""

    def __init__(self, d_in: int, d_out: int, stride: int) -> None:
        super().__init__()
        self.first = nn.Conv2d(d_in, d_out, 3, stride, padding=1, bias=False)
        self.second = nn.Conv2d(d_out, d_out, 3, padding=1, bias=False)
        self.norms = nn.ModuleList(nn.BatchNorm2d(d_out) for _ in range(2))
        self.stride, self.missing = stride, d_out - d_in

    def forward(self, x: Tensor) -> Tensor:
        """Map feature maps to feature maps."""
        y = self.norms[1](self.second(relu(self.norms[0](self.first(x)))))
        if self.missing:
            x = pad(x[:, :, :: self.stride, :: self.stride], (0, 0, 0, 0, 0, self.missing))
        return relu(x + y)


def plain_resnet(channels: int, count: int) -> nn.Module:
    blocks = [
        PlainBlock(d_in if i == 0 else d_out, d_out, 2 if i == 0 and d_in != d_out else 1)
        for d_in, d_out in ((16, 16), (16, 32), (32, 64))
        for i in range(count)
    ]
    stem = nn.Conv2d(channels, 16, 3, padding=1, bias=False), nn.BatchNorm2d(16), nn.ReLU()
    return nn.Sequential(*stem, *blocks, nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(64, LABELS))


def cases() -> Iterator[tuple[str, int, Step, Step]]:
    """Yield name, batch size, heed's step and the other implementation's step."""
    for name, (picture, shape, batch) in VITS.items():
        pixels = torch.randn(batch, picture["num_channels"], picture["height"], picture["width"])
        labels = torch.randint(LABELS, (batch,))
        for dropout in (0.0, 0.1):
            body = Vit(VitConfig(**picture, **shape, dropout=dropout))
            theirs = transformers_vit(picture, shape, dropout)
            other = other_step(theirs, lambda model=theirs, pixels=pixels: model(pixel_values=pixels).logits, labels)
            yield f"{name}, dropout {dropout}", batch, heed_step(body, pixels, labels), other
    pixels, labels = torch.randn(64, 3, 32, 32), torch.randint(LABELS, (64,))
    body = ResNet(ResNetConfig(num_channels=3, height=32, width=32, form="cifar", depth=20))
    plain = plain_resnet(3, 3).to(memory_format=torch.channels_last)
    last = pixels.contiguous(memory_format=torch.channels_last)
    yield "resnet 20, 32 x 32", 64, heed_step(body, pixels, labels), other_step(plain, lambda: plain(last), labels)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--threads", type=int, default=1)
    parser.add_argument("--rounds", type=int, default=9)
    parser.add_argument("--processor-time", action="store_true")
    arguments = parser.parse_args()
    torch.set_num_threads(arguments.threads)
    print_machine()
    torch.manual_seed(0)
    clock = time.process_time if arguments.processor_time else time.perf_counter
    print(f"{'pictures per second':44s} {'heed':>8s} {'other':>8s} {'ratio':>6s}")
    for name, batch, *steps in cases():
        taken: list[list[float]] = [[], []]
        for step in steps:
            step()
        for _ in range(arguments.rounds):
            for step, times in zip(steps, taken, strict=True):
                start = clock()
                step()
                times.append(clock() - start)
        ours, other = (statistics.median(times) for times in taken)
        print(f"{name:44s} {batch / ours:8.0f} {batch / other:8.0f} {other / ours:6.2f}", flush=True)


if __name__ == "__main__":
    main()
