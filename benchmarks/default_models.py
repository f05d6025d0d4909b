"""Compare candidates for the default translation model, with equal budgets and data and default settings.

    python benchmarks/default_models.py DATA OUT [--minutes 3,10] [--seeds 1] [--pairs 29000] [--models transformer]

DATA is the folder of the corpora (multi30k, tatoeba). Each run uses one thread and a budget in **processor time**, so
that other work on the machine does not reduce it. Results are appended to OUT/results.jsonl, one line of JSON for each
run; finished runs are not repeated.
"""

from __future__ import annotations

import argparse
import gzip
import json
import os
import random
import shutil
import time
from collections.abc import Iterator
from itertools import product
from pathlib import Path
from typing import Any

os.environ["OMP_NUM_THREADS"] = "1"
time.perf_counter = time.process_time  # budgets in processor time

from machine import print_machine  # noqa: E402

import heed  # noqa: E402  (the clock must be set first)
from heed.data.read.pairs import read_pairs  # noqa: E402
from heed.tasks.translation import sizes  # noqa: E402

FEW = "bahdanau, as for few pairs"
MODELS = ("bahdanau", "transformer", FEW)
"""The first has size small; the last has the settings for few pairs (docs/data.md) for every amount of data."""
PAIRS = {"5,000": "multi30k", "20,000": "multi30k", "29,000": "multi30k", "118,000": "tatoeba"}


def pair_files(data: Path, out: Path, size: str) -> tuple[list[str], list[str]]:
    """Training and test files with the given number of pairs: German-English captions or English-Spanish sentences."""
    folder = out / "data" / size.replace(",", "")
    wanted = int(size.replace(",", ""))
    names = [str(folder / name) for name in ("train.a", "train.b", "test.a", "test.b")]
    if not Path(names[-1]).exists():
        folder.mkdir(parents=True, exist_ok=True)
        if PAIRS[size] == "multi30k":
            sides = ("de", "en")
            train, test = (
                list(zip(*(lines_of(data / "multi30k" / f"{stem}.{side}.gz") for side in sides), strict=True))
                for stem in ("train", "test_2016_flickr")
            )
        else:
            every = [(pair.source, pair.target) for pair in read_pairs([data / "tatoeba" / "spa.txt.gz"])]
            random.Random(1).shuffle(every)
            test, taken = [], set[str]()
            for pair in every:
                if len(test) < 1_000 and pair[0] not in taken:
                    test.append(pair)
                    taken.add(pair[0])
            train = [pair for pair in every if pair[0] not in taken]
        random.Random(1).shuffle(train)
        for stem, pairs in (("train", train[:wanted]), ("test", test)):
            for number, side in enumerate("ab"):
                text = "".join(pair[number] + "\n" for pair in pairs)
                (folder / f"{stem}.{side}").write_text(text, encoding="utf-8")
    return names[:2], names[2:]


def lines_of(path: Path) -> list[str]:
    with gzip.open(path, "rt", encoding="utf-8") as file:
        return [line.rstrip("\n") for line in file]


def cases(minutes: list[float], seeds: list[int]) -> Iterator[dict[str, Any]]:
    for budget, size, seed, model in product(minutes, PAIRS, seeds, MODELS):
        yield {"task": "translation", "data": size, "minutes": budget, "model": model, "seed": seed}


def run(case: dict[str, Any], data: Path, out: Path) -> dict[str, Any]:
    train, test = pair_files(data, out, case["data"])
    sizes.FEW_PAIRS = 1_000_000 if case["model"] == FEW else 0
    sizes.PAIRS_A_MINUTE = 1_000_000
    folder = out / "run"
    shutil.rmtree(folder, ignore_errors=True)
    start = time.process_time()
    trained = heed.train(
        case["task"],
        train=train,
        test=test,
        model=case["model"].split(",")[0],
        minutes=case["minutes"],
        seed=case["seed"],
        out=folder,
        settings={"training.threads": 1},
    )
    scores, training = trained.report["scores"]["test"], trained.report["training"]
    return {
        **case,
        "bleu": scores["bleu"]["value"],
        "low": scores["bleu"]["low"],
        "high": scores["bleu"]["high"],
        "chrf": scores["chrf"]["value"],
        "updates": training["updates"],
        "seconds": round(time.process_time() - start, 1),
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("data", type=Path)
    parser.add_argument("out", type=Path)
    parser.add_argument("--minutes", default="3,10")
    parser.add_argument("--seeds", default="1")
    parser.add_argument("--pairs", default=None, help="only these numbers of pairs, for example 29000,118000")
    parser.add_argument("--models", default=None, help="only these models, separated by semicolons")
    given = parser.parse_args()
    results = given.out / "results.jsonl"
    given.out.mkdir(parents=True, exist_ok=True)
    done = [json.loads(line) for line in results.read_text().splitlines()] if results.exists() else []
    print_machine()
    keys = ("task", "data", "minutes", "model", "seed")
    for case in cases([*map(float, given.minutes.split(","))], [*map(int, given.seeds.split(","))]):
        if any(all(one[key] == case[key] for key in keys) for one in done):
            continue
        if given.pairs is not None and case["data"].replace(",", "") not in given.pairs.split(","):
            continue
        if given.models is not None and case["model"] not in given.models.split(";"):
            continue
        result = run(case, given.data, given.out)
        print(json.dumps(result), flush=True)
        with results.open("a") as file:
            file.write(json.dumps(result) + "\n")


if __name__ == "__main__":
    main()
