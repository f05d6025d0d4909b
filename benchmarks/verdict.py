"""How often the verdict on a map is right where the truth is planted: one word of each document decides its label.

python benchmarks/verdict.py [--seeds 5] [--documents 500] [--models rnn,encoder] [--steps 400]

For each model: of the judgeable documents whose most attended word is the planted one, the share that is supported; of
those where it is another word, the share that is supported; and, of the same documents with the weights permuted and
with an untrained network of the same seed, the shares that are supported and contradicted.
"""

from __future__ import annotations

import argparse
import tempfile
from collections import Counter
from pathlib import Path
from typing import Any

import numpy as np
import torch
from machine import print_machine

import heed
from heed.data.embedded.texts import draw_documents
from heed.observe.looks import Choice
from heed.observe.verdict import CONTRADICTED, SUPPORTED, UNJUDGED, Row, judge

MODELS = {
    "rnn": {"model.name": "rnn"},
    "self_rnn": {"model.name": "self_rnn"},
    "lstmn": {"model.name": "lstmn"},
    "encoder": {"model.name": "encoder"},
    "encoder [CLS]": {"model.name": "encoder", "model.pooling": "cls"},
    "bert": {"model.name": "bert", "model.pooling": "first"},
}


def counts(run: Any, documents: Any, rng: np.random.Generator) -> dict[str, Counter[str]]:
    """The verdicts on the last map of each document, by what is known of it."""
    found: dict[str, Counter[str]] = {"planted": Counter(), "other": Counter(), "permuted": Counter()}
    for document in documents:
        judged = type(run).judged(run.task, run.model, document.text.text, Choice())[-1]
        row = judged.rows[0]
        words = [label.lower().strip(".") for label in run.attribute(document.text.text, method="grad").axis.labels]
        top = "planted" if words[int(row.weights.argmax())] == document.word.lower() else "other"
        found[top][judged.verdict.word] += 1
        order = rng.permutation(len(words))
        found["permuted"][judge([Row(row.weights[order], row.effects, row.changes)]).word] += 1
    return found


def line(name: str, of: dict[str, Counter[str]], untrained: Counter[str], accuracy: float) -> str:
    def percent(count: Counter[str], word: str) -> str:
        judged = sum(count.values()) - count[UNJUDGED]
        return f"{100 * count[word] / judged:5.1f} % of {judged:4d}" if judged else "           -"

    return (
        f"{name:14} accuracy {accuracy:.3f}  planted word first: {percent(of['planted'], SUPPORTED)} supported  "
        f"another: {percent(of['other'], SUPPORTED)}  permuted: {percent(of['permuted'], SUPPORTED)} supported, "
        f"{percent(of['permuted'], CONTRADICTED)} contradicted  untrained: {percent(untrained, SUPPORTED)}"
    )


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--seeds", type=int, default=5)
    parser.add_argument("--documents", type=int, default=500)
    parser.add_argument("--models", default=",".join(MODELS))
    parser.add_argument("--steps", type=int, default=400)
    options = parser.parse_args()
    print_machine()
    rng = np.random.default_rng(1)
    drawn = draw_documents("test", 2 * options.documents, (3, 6), 1)
    documents = [document for document in drawn if document.word][: options.documents]
    for name in options.models.split(","):
        total: dict[str, Counter[str]] = {"planted": Counter(), "other": Counter(), "permuted": Counter()}
        untrained, accuracies = Counter[str](), []
        for seed in range(1, options.seeds + 1):
            settings = {
                "data.name": "planted",
                "data.sentences": [3, 6],
                "model.size": "tiny",
                "training.seed": seed,
                "evaluation.bootstrap": 5,
                **MODELS[name],
            }
            with tempfile.TemporaryDirectory() as folder:
                run = heed.train(
                    "classification", steps=options.steps, out=Path(folder) / "run", settings=settings, quiet=True
                )
                for key, one in counts(run, documents, rng).items():
                    total[key] += one
                accuracies.append(run.report["scores"]["test"]["accuracy"]["value"])
                torch.manual_seed(seed)
                run.model = run.task.build_model().eval()
                drawn_again = counts(run, documents, rng)
                untrained += drawn_again["planted"] + drawn_again["other"]
        print(line(name, total, untrained, sum(accuracies) / len(accuracies)), flush=True)


if __name__ == "__main__":
    main()
