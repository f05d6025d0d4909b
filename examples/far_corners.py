"""Long-range relations in pictures, by distance: convolutions of several depths, a residual network, a ViT.

    python examples/far_corners.py runs/far-corners [--distances 7,10] [--depths 2,4,7] [--seeds 1] [--only vit]

The claims (the lecture notes): a convolutional network works locally and struggles with long-range relations; a Vision
Transformer does not. Each picture of the embedded `shapes` (18 x 18 pixels) has an arrow and three figures of 5 pixels
at the corners of a square, `distance` pixels apart; the label is the figure that the arrow points at. The figures alone
do not determine the label: a model that cannot relate arrow and figure can do no better than guess one of the three.
Models:

- `cnn` with `depth` convolutions of 3 x 3 and 16 filters, no max-pooling, then the mean over all positions: a position
  of the last map has a receptive field of 2 * depth + 1 pixels, and the mean relates nothing. A receptive field of
  distance - 5 pixels can touch two figures, one of distance + 7 can contain all four.
- `resnet` of depth 8, with a receptive field of 25 pixels.
- `vit` with patches of 6 x 6 pixels, one every 2 pixels, 3 blocks of 64 and sinusoidal positions: every block sees all
  patches. They overlap because a figure can be at any pixel: nearly all of its 5 pixels are then inside some patch.

Trained for 600 updates of 32 on 10,000 pictures, `vit` for 4,000 updates of 32 on 50,000. Finished run folders are not
trained again.
"""

from __future__ import annotations

import argparse
import time
from pathlib import Path
from typing import Any

import heed

SIZE = 18
SHARED = {
    "data.size": SIZE,
    "data.train": 10_000,
    "data.valid": 200,
    "training.batch_size": 32,
    "training.validate_every": 100,
    "training.patience": None,
    "training.threads": 1,
}


def models(depths: list[int]) -> dict[str, tuple[str, int, dict[str, Any]]]:
    """Map each row name to model, updates and settings."""
    listed: dict[str, tuple[str, int, dict[str, Any]]] = {}
    for depth in depths:
        fields = {"num_filters": [16] * depth, "convolutions": 1, "pool_size": 1, "pooling": "mean", "dropout": 0.0}
        listed[f"cnn, {depth} deep, sees {2 * depth + 1}"] = ("cnn", 600, _model(fields, 0.005))
    listed["resnet 8, sees 25"] = ("resnet", 600, _model({"form": "cifar", "depth": 8}, 0.005))
    fields = {"patch_size": 6, "stride": 2, "d_model": 64, "num_heads": 4, "num_layers": 3, "d_ff": 128}
    fields |= {"dropout": 0.0, "positions": "sinusoidal"}
    # The loss stays flat for thousands of updates before it falls; a decaying learning rate is too small by then.
    longer = {"training.schedule": "constant", "data.train": 50_000}
    listed["vit, sees all"] = ("vit", 4_000, _model(fields, 0.0015) | longer)
    return listed


def _model(fields: dict[str, Any], learning_rate: float) -> dict[str, Any]:
    return {f"model.{name}": value for name, value in fields.items()} | {"training.learning_rate": learning_rate}


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("folder", type=Path)
    parser.add_argument("--distances", default="7,10")
    parser.add_argument("--depths", default="2,4,7")
    parser.add_argument("--seeds", default="1")
    parser.add_argument("--only", default="", help="only rows whose name contains this text")
    given = parser.parse_args()
    distances, depths, seeds = (
        [int(part) for part in text.split(",")] for text in (given.distances, given.depths, given.seeds)
    )

    rows = {name: row for name, row in models(depths).items() if given.only in name}
    shares: dict[tuple[str, int], list[float]] = {}
    for seed in seeds:
        for name, (model, steps, fields) in rows.items():
            for distance in distances:
                began = time.process_time()
                run = heed.train(
                    "images",
                    data="shapes",
                    model=model,
                    steps=steps,
                    seed=seed,
                    out=given.folder / f"{name.replace(', ', '-').replace(' ', '-')}-{distance}-{seed}",
                    settings=SHARED | fields | {"data.distance": distance},
                    resume=True,
                    quiet=True,
                )
                score = run.report["scores"]["test"]["accuracy"]
                interval = f"{score['value']:.1%} [{score['low']:.1%}, {score['high']:.1%}]"
                seconds = time.process_time() - began
                print(f"{name}, distance {distance}, seed {seed}: {interval}, {seconds:.0f} s", flush=True)
                shares.setdefault((name, distance), []).append(score["value"])

    print("\n| | " + " | ".join(f"distance {distance}" for distance in distances) + " |")
    print("|---|" + "---|" * len(distances))
    for name in rows:
        cells = [" / ".join(f"{100 * value:.1f}" for value in shares[name, distance]) for distance in distances]
        print(f"| {name} | " + " | ".join(cells) + " |")


if __name__ == "__main__":
    main()
