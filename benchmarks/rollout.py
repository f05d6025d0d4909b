"""Do rolled-out weights order words as gradients and leave-one-out do, better than raw weights? A 6-layer encoder.

HEED_DATA=../shared/data python benchmarks/rollout.py [--seeds 3] [--documents 300] [--steps 2000] [--data sst2,planted]

An `encoder` of 6 layers whose `[CLS]` is classified. For each layer: the Spearman correlation, over the words of a
text, of [CLS]'s weights (mean over heads; and rolled out from the first layer) with the size of the gradient of the
predicted logit, and with the size of its change when a word is left out. Mean and standard deviation over texts.

Source: Abnar and Zuidema 2020, arXiv:2005.00928, section 4.
"""

from __future__ import annotations

import argparse
import os
import tempfile
from collections import defaultdict
from pathlib import Path
from typing import Any

import numpy as np
from machine import print_machine
from scipy.stats import spearmanr

import heed
from heed.data.examples import evenly
from heed.observe.attribution import attribute, leave_one_out
from heed.observe.trace import rollout
from heed.tasks.base.looking import watched

LAYERS = 6
SST = "sentiment/sst/stsa.binary"


def correlations(run: Any, text: str) -> dict[tuple[str, str, int], float]:
    """By weights, importance and layer."""
    task, model = run.task, run.model
    scored = type(run).explain(task, model, text).scored
    count = len(scored.tokens)
    importance = {
        "gradient": attribute(scored, "grad").values.numpy(),
        "leave-one-out": leave_one_out(scored, [range(i, i + 1) for i in range(count)]).values.abs().numpy(),
    }
    with watched(model) as seen:
        task.forward(model, task.collate_encoded(task.encode_texts([task.stripped(text)]), [0]))
    found = {}
    for layer in range(LAYERS):
        raw = seen.maps("encoder", layer).weights[0].mean(0)
        for name, weights in (("raw", raw), ("rollout", rollout(seen, "encoder", layer)[0])):
            row = weights[0, 1 : 1 + count].numpy()  # of [CLS], without its weight on itself
            found |= {(name, of, layer): spearmanr(row, one).statistic for of, one in importance.items()}
    return found


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--seeds", type=int, default=3)
    parser.add_argument("--documents", type=int, default=300)
    parser.add_argument("--steps", type=int, default=2_000)
    parser.add_argument("--data", default="sst2,planted")
    options = parser.parse_args()
    print_machine()
    for data in options.data.split(","):
        all_of: dict[tuple[str, str, int], list[float]] = defaultdict(list)
        for seed in range(1, options.seeds + 1):
            settings = {
                "model.name": "encoder",
                "model.size": "tiny",
                "model.num_layers": LAYERS,
                "model.pooling": "cls",
                "model.ngrams": 0,
                "training.seed": seed,
                "evaluation.bootstrap": 5,
            }
            files: dict[str, Any] = {"settings": {**settings, "data.name": "planted", "data.sentences": [3, 6]}}
            if data == "sst2":
                names = {"train": "train", "valid": "dev", "test": "test"}
                splits = {split: Path(os.environ["HEED_DATA"]) / f"{SST}.{name}.gz" for split, name in names.items()}
                files = {"settings": settings, **splits}
            with tempfile.TemporaryDirectory() as folder:
                out = Path(folder) / "run"
                run = heed.train("classification", steps=options.steps, out=out, quiet=True, **files)
                accuracy = run.report["scores"]["test"]["accuracy"]["value"]
                for example in evenly(run.examples("test"), options.documents):
                    if len(run.task.stripped(example.source).split()) >= 5:
                        for key, value in correlations(run, example.source).items():
                            all_of[key].append(value)
            print(f"{data} seed {seed}: accuracy {accuracy:.3f}", flush=True)
        for layer in range(LAYERS):
            cells = []
            for of in ("gradient", "leave-one-out"):
                for name in ("raw", "rollout"):
                    values = np.array(all_of[name, of, layer])
                    values = values[np.isfinite(values)]
                    cells.append(f"{name} {values.mean():+.2f} ({values.std():.2f})")
            print(
                f"{data} layer {layer}: gradient {cells[0]}, {cells[1]}; leave-one-out {cells[2]}, {cells[3]}",
                flush=True,
            )


if __name__ == "__main__":
    main()
