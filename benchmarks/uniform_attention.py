"""Is learned attention better than uniform attention? A bidirectional LSTM on IMDb, pooled by either.

HEED_DATA=../shared/data python benchmarks/uniform_attention.py [--seeds 3] [--steps 1500] [--texts 22500]
    [--length 400] [--test 5000]

Uniform weights over the words of a text are `model.pooling=mean`; everything else is the same. Test accuracy and F1 of
the positive label, and per seed the difference in points.

Source: Wiegreffe and Pinter 2019, arXiv:1908.04626, table 2 (uniform weights frozen in training).
"""

from __future__ import annotations

import argparse
import os
import random
import tempfile
from pathlib import Path

from machine import print_machine

import heed


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--seeds", type=int, default=3)
    parser.add_argument("--steps", type=int, default=1_500)
    parser.add_argument("--texts", type=int, default=22_500)
    parser.add_argument("--length", type=int, default=400)
    parser.add_argument("--test", type=int, default=5_000)
    options = parser.parse_args()
    print_machine()
    data = Path(os.environ["HEED_DATA"]) / "documents" / "imdb"
    for seed in range(1, options.seeds + 1):
        scores = {}
        for pooling in ("attention", "mean"):
            settings = {
                "model.cell": "lstm",
                "model.bidirectional": True,
                "model.pooling": pooling,
                "model.ngrams": 0,
                "training.batch_tokens": 4_000,
                "training.train_size": options.texts,
                "data.max_length": options.length,
                "training.learning_rate": 0.002,
                "training.seed": seed,
                "evaluation.bootstrap": 5,
            }
            with tempfile.TemporaryDirectory() as folder:
                run = heed.train(
                    "classification",
                    train=data / "imdb.train.tsv.xz",
                    valid=2_000,
                    model="rnn",
                    size="tiny",
                    steps=options.steps,
                    out=Path(folder) / "run",
                    settings=settings,
                    quiet=True,
                )
                every = run.read([data / "imdb.test.tsv.xz"])
                examples = random.Random(1).sample(every, min(options.test, len(every)))
                found = [one.label for one in run.predict([one.source for one in examples])]
                true = [one.truth for one in examples]
                positive = run.task.labels[-1]
                hits = sum(a == b == positive for a, b in zip(found, true, strict=True))
                f1 = 2 * hits / max(1, found.count(positive) + true.count(positive))
                accuracy = sum(a == b for a, b in zip(found, true, strict=True)) / len(true)
                scores[pooling] = (100 * accuracy, 100 * f1)
                done = run.report["training"]
                print(
                    f"seed {seed} {pooling}: accuracy {100 * accuracy:.2f}, F1 {100 * f1:.2f} of {len(true)}; "
                    f"{done['updates']} updates, {done['passes']} passes",
                    flush=True,
                )
        accuracy, f1 = (a - b for a, b in zip(scores["attention"], scores["mean"], strict=True))
        print(f"seed {seed}: attention minus uniform: accuracy {accuracy:+.2f}, F1 {f1:+.2f}", flush=True)


if __name__ == "__main__":
    main()
