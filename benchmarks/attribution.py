"""How often an attribution finds the planted word that decides the label of a document.

python benchmarks/attribution.py [--seeds 2] [--documents 200] [--models rnn,encoder] [--steps 400]

For each model: the share of documents in which the word with the largest value is the planted one, by integrated
gradients (ig), gradient times input, size of the gradient and leave-one-out (loo), and the share of documents in which
the values of ig add up to more than 1 % less or more than they should, with the largest error.
"""

from __future__ import annotations

import argparse
import tempfile
from pathlib import Path

import numpy as np
from machine import print_machine

import heed
from heed.data.embedded.texts import draw_documents

MODELS = {
    **{name: {} for name in ("rnn", "self_rnn", "lstmn", "encoder", "gpt", "han", "cnn", "bag", "mlp")},
    "encoder [CLS]": {"model.pooling": "cls"},
    "bert": {"model.pooling": "first"},
}
METHODS = ("ig", "gradxinput", "grad", "loo")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--seeds", type=int, default=2)
    parser.add_argument("--documents", type=int, default=200)
    parser.add_argument("--models", default=",".join(MODELS))
    parser.add_argument("--steps", type=int, default=400)
    options = parser.parse_args()
    print_machine()
    drawn = draw_documents("test", 2 * options.documents, (3, 6), 1)
    documents = [document for document in drawn if document.word][: options.documents]
    for name in options.models.split(","):
        found: dict[str, list[bool]] = {method: [] for method in METHODS}
        errors, accuracies = [], []
        for seed in range(1, options.seeds + 1):
            settings = {
                "data.name": "planted",
                "data.sentences": [3, 6],
                "model.name": name.split()[0],
                "model.size": "tiny",
                "training.seed": seed,
                "evaluation.bootstrap": 5,
                **MODELS[name],
            }
            with tempfile.TemporaryDirectory() as folder:
                run = heed.train(
                    "classification", steps=options.steps, out=Path(folder) / "run", settings=settings, quiet=True
                )
            accuracies.append(run.report["scores"]["test"]["accuracy"]["value"])
            for document in documents:
                for method in METHODS:
                    of = run.attribute(document.text.text, method=method)
                    best = of.axis.labels[int(np.argmax(of.values))]
                    found[method].append(best.lower().strip(".") == document.word.lower())
                    if method == "ig":
                        errors.append(of.of.error / max(1e-9, abs(of.of.score - of.of.baseline_score)))
        shares = "  ".join(f"{method} {100 * np.mean(found[method]):5.1f} %" for method in METHODS)
        accuracy = sum(accuracies) / len(accuracies)
        said = f"ig off in {100 * np.mean(np.array(errors) > 0.01):.1f} %, by up to {100 * max(errors):.2g} %"
        print(f"{name:14} accuracy {accuracy:.3f}  {shares}  {said}", flush=True)


if __name__ == "__main__":
    main()
