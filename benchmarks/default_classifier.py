"""Accuracy of classification without `--model`, against TF-IDF with a linear SVM and against named models.

    python benchmarks/default_classifier.py DATA OUT [--sets sst2,sst1] [--models default,cnn]
    python benchmarks/default_classifier.py DATA OUT --table

DATA is the folder of the corpora (sentiment, dialogue, documents). Each run uses one thread and a budget in **processor
time**, so that other work on the machine does not reduce it. Results are appended to OUT/results.jsonl, one line of
JSON for each run; finished runs are not repeated.

The sets: SST-2 and SST-1, whole sentences with their own splits; MR, fold 0 of `examples/sentiment_split.py`; dialogue
acts of XDailyDialog in English, trained on `1k_part_data` and validated on the first 1,500 turns of dev; IMDb with its
first 2,000 reviews or all 25,000, tested on all 25,000. MR and IMDb have no validation set: heed holds one out of the
training texts, whereas the SVM trains on all of them.
"""

from __future__ import annotations

import argparse
import csv
import gzip
import json
import lzma
import os
import random
import shutil
import statistics
import time
from collections.abc import Callable, Iterator
from itertools import product
from pathlib import Path
from typing import Any

os.environ["OMP_NUM_THREADS"] = "1"
time.perf_counter = time.process_time  # budgets in processor time

from machine import print_machine  # noqa: E402

import heed  # noqa: E402  (the clock must be set first)
from heed.tasks.classification.baselines import TfidfClassifier  # noqa: E402

Texts = list[tuple[str, str]]
SVM = "TF-IDF + linear SVM"


def _lines(path: Path) -> list[str]:
    with gzip.open(path, "rt", encoding="utf-8") as file:
        return [line.strip() for line in file]


def _labelled(lines: list[str]) -> Texts:
    """Read lines `label text`."""
    parts = [line.split(maxsplit=1) for line in lines]
    return [(part[1], part[0]) for part in parts if len(part) == 2]


def treebank(kind: str) -> Callable[[Path], dict[str, Texts]]:
    """SST with its own splits."""

    def read(data: Path) -> dict[str, Texts]:
        names = {"train": "train", "valid": "dev", "test": "test"}
        folder = data / "sentiment" / "sst"
        return {name: _labelled(_lines(folder / f"stsa.{kind}.{theirs}.gz")) for name, theirs in names.items()}

    return read


def film_reviews(data: Path) -> dict[str, Texts]:
    """MR, fold 0."""
    reviews = [line for line in _lines(data / "sentiment" / "mr" / "rt-polarity.all.gz") if len(line.split()) > 1]
    random.Random(1).shuffle(reviews)
    return {"train": _labelled([line for i, line in enumerate(reviews) if i % 10]), "test": _labelled(reviews[::10])}


def dialogue_acts(data: Path) -> dict[str, Texts]:
    """XDailyDialog in English: dialogues with as many acts as turns."""
    folder = data / "dialogue" / "xdailydialog"
    part = folder / "1k_part_data"
    found = {
        "train": zip(_lines(part / "dialogues_text_En.txt.gz"), _lines(part / "dialogues_action.txt.gz"), strict=True)
    }
    for name, theirs in (("valid", "dev"), ("test", "test")):
        rows = [line.split("\t") for line in _lines(folder / f"en_{theirs}_human.txt.gz")]
        found[name] = zip((row[0] for row in rows), (row[2] for row in rows), strict=True)
    sets: dict[str, Texts] = {}
    for name, dialogues in found.items():
        sets[name] = []
        for text, acts in dialogues:
            turns, labels = [turn.strip() for turn in text.split("__eou__") if turn.strip()], acts.split()
            if len(turns) == len(labels):
                sets[name] += zip(turns, labels, strict=True)
    return {**sets, "valid": sets["valid"][:1500]}


def documents(number: int) -> Callable[[Path], dict[str, Texts]]:
    """The first reviews of IMDb, and its whole test set."""

    def read(data: Path) -> dict[str, Texts]:
        sets: dict[str, Texts] = {}
        for name in ("train", "test"):
            with lzma.open(data / "documents" / "imdb" / f"imdb.{name}.tsv.xz", "rt", encoding="utf-8") as file:
                next(file)
                rows = [line.rstrip("\n").split("\t") for line in file]
            sets[name] = [(row[3], row[1]) for row in rows][: number if name == "train" else None]
        return sets

    return read


SETS: dict[str, Callable[[Path], dict[str, Texts]]] = {
    "sst2": treebank("binary"),
    "sst1": treebank("fine"),
    "mr": film_reviews,
    "acts": dialogue_acts,
    "imdb-2000": documents(2_000),
    "imdb": documents(25_000),
}
MODELS = (SVM, "default", "rnn", "cnn", "encoder", "bag")


def files_of(name: str, data: Path, out: Path) -> dict[str, str]:
    """Write each split as a file with columns."""
    folder = out / "data" / name
    if not folder.exists():
        sets = SETS[name](data)
        part = folder.with_suffix(".part")
        part.mkdir(parents=True, exist_ok=True)
        for split, texts in sets.items():
            with (part / f"{split}.csv").open("w", encoding="utf-8", newline="") as file:
                csv.writer(file).writerows([("text", "label"), *texts])
        part.rename(folder)
    return {path.stem: str(path) for path in sorted(folder.iterdir())}


def run(case: dict[str, Any], data: Path, out: Path) -> dict[str, Any]:
    """Train and score one run: a line of the results."""
    start = time.process_time()
    if case["model"] == SVM:
        sets = SETS[case["set"]](data)
        (texts, labels), (tested, right) = (zip(*sets[name], strict=True) for name in ("train", "test"))
        machine = TfidfClassifier(texts, [[label] for label in labels], several=False)
        said = [one.label for one in machine.predict(tested)]
        accuracy = sum(one == other for one, other in zip(said, right, strict=True)) / len(right)
        return {**case, "accuracy": accuracy, "seconds": round(time.process_time() - start, 1)}
    folder = out / "run"
    shutil.rmtree(folder, ignore_errors=True)
    trained = heed.train(
        "classification",
        **files_of(case["set"], data, out),
        model=None if case["model"] == "default" else case["model"],
        minutes=case["minutes"],
        seed=case["seed"],
        out=folder,
        settings={"training.threads": 1, "evaluation.bootstrap": 100},
    )
    report = trained.report
    return {
        **case,
        "accuracy": report["scores"]["test"]["accuracy"]["value"],
        "valid": report["scores"]["valid"]["accuracy"],
        "updates": report["training"]["updates"],
        "seconds": round(time.process_time() - start, 1),
    }


def cases(given: argparse.Namespace) -> Iterator[dict[str, Any]]:
    """All requested runs."""
    for seed, name, model in product(given.seeds.split(","), given.sets.split(","), given.models.split(",")):
        if model != SVM:
            yield {"set": name, "model": model, "minutes": given.minutes, "seed": int(seed)}
        elif seed == given.seeds.split(",")[0]:
            yield {"set": name, "model": model, "minutes": 0, "seed": 0}


def table(done: list[dict[str, Any]]) -> str:
    """Accuracy in per cent as a Markdown table: mean over the seeds, with the lowest and highest."""
    columns = list(dict.fromkeys((one["model"], one["minutes"]) for one in done))
    head = ["set", *(f"`{model}`, {minutes:g} min" if minutes else model for model, minutes in columns)]
    rows = [head, ["---", *["---:"] * len(columns)]]
    for name in SETS:
        cells = []
        for model, minutes in columns:
            values = [
                100 * o["accuracy"] for o in done if (o["set"], o["model"], o["minutes"]) == (name, model, minutes)
            ]
            spread = f" ({min(values):.1f} to {max(values):.1f}, {len(values)} seeds)" if len(values) > 1 else ""
            cells.append(f"{statistics.mean(values):.1f}{spread}" if values else "not run")
        rows.append([name, *cells])
    return "\n".join("| " + " | ".join(row) + " |" for row in rows)


def main() -> None:
    """Run all that is missing from the results, or print the table."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("data", type=Path)
    parser.add_argument("out", type=Path)
    parser.add_argument("--sets", default=",".join(SETS))
    parser.add_argument("--models", default=f"{SVM},default")
    parser.add_argument("--minutes", type=float, default=10.0)
    parser.add_argument("--seeds", default="1,2,3")
    parser.add_argument("--table", action="store_true")
    given = parser.parse_args()
    given.out.mkdir(parents=True, exist_ok=True)
    results = given.out / "results.jsonl"
    done = [json.loads(line) for line in results.read_text().splitlines()] if results.exists() else []
    if given.table:
        print(table(done))
        return
    print_machine()
    for case in cases(given):
        if any(case.items() <= one.items() for one in done):
            continue
        result = run(case, given.data, given.out)
        print(json.dumps(result), flush=True)
        with results.open("a") as file:
            file.write(json.dumps(result) + "\n")


if __name__ == "__main__":
    main()
