"""Learning curves for the budget advice: share of the final score by number of passes over the data.

    python benchmarks/learning_curves.py DATA OUT [NAME ...]

DATA is the folder of the corpora. Each point is a separate run with a budget in updates, so that its learning rate has
completed its schedule; one thread; the score is the validation score that selects the weights. Results are appended to
OUT/results.jsonl, one line of JSON for each run; finished runs are not repeated. The tables in `tasks/*/learning.py`
come from these lines.
"""

from __future__ import annotations

import argparse
import gzip
import json
import math
import os
import random
import shutil
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

os.environ["OMP_NUM_THREADS"] = "1"

from machine import print_machine

from heed.runs.train import train_config
from heed.tasks import check_config, task_class
from heed.training.progress import Quiet


def multi30k(data: Path, out: Path, count: int) -> dict[str, Any]:
    """German-English captions, the first of the shuffled pairs."""
    pairs = list(zip(*(_lines(data / "multi30k" / f"train.{side}.gz") for side in ("de", "en")), strict=True))
    random.Random(1).shuffle(pairs)
    return {"train": [_written(out, f"multi30k-{count}.{n}", [pair[n] for pair in pairs[:count]]) for n in (0, 1)]}


def tatoeba(data: Path, out: Path, count: int, language: str = "spa") -> dict[str, Any]:
    """Sentences in English and another language, shuffled."""
    pairs = [line.split("\t")[:2] for line in _lines(data / "tatoeba" / f"{language}.txt.gz")]
    random.Random(2).shuffle(pairs)
    names = [f"tatoeba-{language}-{count}.{n}" for n in (0, 1)]
    return {"train": [_written(out, name, [pair[n] for pair in pairs[:count]]) for n, name in enumerate(names)]}


def labelled(data: Path, out: Path, file: str, count: int | None = None) -> dict[str, Any]:
    """Lines of a label and a text, the first of the shuffled lines."""
    lines = [line for line in _lines(data / file) if len(line.split()) > 1]
    random.Random(1).shuffle(lines)
    rows = ["label\ttext", *("\t".join(line.split(maxsplit=1)) for line in lines[:count])]
    return {"train": [_written(out, f"{Path(file).stem}-{count}.tsv", rows)]}


def acts(data: Path, out: Path) -> dict[str, Any]:
    """English dialogue turns with their acts (inform, question, directive, commissive)."""
    folder = data / "dialogue" / "xdailydialog" / "1k_part_data"
    rows = ["label\ttext"]
    for turns, labels in zip(
        _lines(folder / "dialogues_text_En.txt.gz"), _lines(folder / "dialogues_action.txt.gz"), strict=True
    ):
        texts = [turn.strip() for turn in turns.split("__eou__") if turn.strip()]
        rows += [f"{label}\t{text}" for label, text in zip(labels.split(), texts, strict=False)]
    return {"train": [_written(out, "acts.tsv", rows)]}


def tagged(data: Path, out: Path, *files: str) -> dict[str, Any]:
    """CoNLL files, unchanged."""
    return {"train": [str(data / "ner" / file) for file in files]}


def book(data: Path, out: Path, file: str) -> dict[str, Any]:
    """A plain text file."""
    return {"train": [str(data / "lm" / file)]}


def embedded(data: Path, out: Path, **fields: Any) -> dict[str, Any]:
    """Embedded data."""
    return fields


def columns(data: Path, out: Path, name: str) -> dict[str, Any]:
    """A table included in scikit-learn."""
    from sklearn import datasets

    bunch = getattr(datasets, f"load_{name}")()
    names = [*(f"c{n}" for n in range(bunch.data.shape[1])), "label"]
    rows = [",".join([*map(str, row), f"class {label}"]) for row, label in zip(bunch.data, bunch.target, strict=True)]
    random.Random(1).shuffle(rows)
    return {"train": [_written(out, f"{name}.csv", [",".join(names), *rows])]}


def waves(data: Path, out: Path, count: int) -> dict[str, Any]:
    """A series of two waves with noise, and a column with its square."""
    draw = random.Random(1)
    rows = ["a,b"]
    for n in range(count):
        a = math.sin(n / 7) + 0.5 * math.sin(n / 31) + draw.gauss(0, 0.1)
        rows.append(f"{a:.4f},{a * a + draw.gauss(0, 0.1):.4f}")
    return {"train": [_written(out, f"waves-{count}.csv", rows)]}


Case = tuple[str, Any, tuple[Any, ...], dict[str, Any], tuple[float, ...]]
SST2 = ("sentiment/sst/stsa.binary.train.gz",)
GPT = {"model": {"name": "gpt", "size": "tiny"}, "tokenizer": {"kind": "char"}}
NGRAMS = {"model": {"name": "rnn", "ngrams": 2}, "training": {"learning_rate": 0.001}}
"""Default settings of classification without `--model`."""
CASES: dict[str, Case] = {  # name: task, data function and its arguments, settings, passes
    "digits-mlp": ("table", columns, ("digits",), {}, (1, 3, 10, 30, 100, 300)),
    "waves-2000": ("series", waves, (2_000,), {}, (1, 3, 10, 30, 100, 300, 1000)),
    "copy": ("translation", embedded, (), {"data": {"name": "copy"}}, (0.1, 0.3, 1, 3)),
    "sst2-cnn": ("classification", labelled, SST2, {"model": {"name": "cnn"}}, (0.5, 1, 2, 4, 8, 16)),
    "sst2-ngrams": ("classification", labelled, SST2, NGRAMS, (0.02, 0.5, 1, 2)),
    "sst2-rnn": ("classification", labelled, SST2, {"model": {"name": "rnn"}}, (0.5, 1, 2, 4, 8)),
    "acts-rnn": ("classification", acts, (), {"model": {"name": "rnn"}}, (0.5, 1, 2, 4, 8)),
    "wnut-rnn": ("tagging", tagged, ("wnut17/wnut17train.conll.gz",), {}, (1, 2, 4, 8, 16, 40)),
    "multi30k-5000-bahdanau": ("translation", multi30k, (5_000,), {"model": {"name": "bahdanau"}}, (1, 3)),
    "shakespeare-gpt": ("language_modelling", book, ("tinyshakespeare/input.txt.gz",), GPT, (0.03, 0.1, 0.3)),
    # cases that the tables were not made from
    "mr-rnn": ("classification", labelled, ("sentiment/mr/rt-polarity.all.gz",), {"model": {"name": "rnn"}}, (1, 2)),
    "btc-rnn": ("tagging", tagged, ("btc/a.conll.gz", "btc/e.conll.gz", "btc/f.conll.gz"), {}, (1, 3, 9)),
    "cancer-mlp": ("table", columns, ("breast_cancer",), {}, (10, 30, 300)),
    "reverse": ("translation", embedded, (), {"data": {"name": "reverse"}}, (0.3, 0.6)),
    "hindi-bahdanau": ("translation", tatoeba, (2_900, "hin"), {"model": {"name": "bahdanau"}}, (4, 8)),
}


def config_of(name: str, data: Path, out: Path, steps: int) -> Any:
    """The configuration of a case."""
    task, made, given, settings, _ = CASES[name]
    (out / "data").mkdir(parents=True, exist_ok=True)
    settings = json.loads(json.dumps(settings))
    values = {"task": task, **settings, "data": {**settings.get("data", {}), **made(data, out / "data", *given)}}
    values["training"] = settings.get("training", {}) | {
        "steps": steps,
        "threads": 1,
        "seed": 1,
        "validate_every": max(1, steps // 5),
    }
    return check_config(values, name)


def points(name: str, data: Path, out: Path, known: set[float]) -> Iterator[dict[str, Any]]:
    """Train once for each number of passes without a result yet."""
    config = config_of(name, data, out, 1)
    task: Any = task_class(config.task).prepare(config)
    a_pass = math.ceil(len(task.train_batches(0)) / config.training.accumulate)
    score = task.config.evaluation.select_by
    for passes in CASES[name][-1]:
        if passes in known:
            continue
        steps = max(1, round(passes * a_pass))
        folder = out / f"run-{name}"
        shutil.rmtree(folder, ignore_errors=True)
        start = time.process_time()
        run, _ = train_config(config_of(name, data, out, steps), folder, Quiet())
        assert run is not None
        values = run.report["scores"]["valid"]
        yield {
            "name": name,
            "task": config.task,
            "model": task.config.model.name,
            "size": task.config.model.size,
            "parameters": run.report["parameters"],
            "updates_per_pass": a_pass,
            "passes": passes,
            "updates": steps,
            "score": score,
            "value": values[score],
            "loss": values["loss"],
            "seconds": round(time.process_time() - start, 1),
        }


def _lines(path: Path) -> list[str]:
    with gzip.open(path, "rt", encoding="utf-8") as file:
        return [line.rstrip("\n") for line in file]


def _written(out: Path, name: str, lines: list[str]) -> str:
    (out / name).write_text("".join(line + "\n" for line in lines), encoding="utf-8")
    return str(out / name)


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("data", type=Path)
    parser.add_argument("out", type=Path)
    parser.add_argument("names", nargs="*", default=list(CASES))
    given = parser.parse_args()
    given.out.mkdir(parents=True, exist_ok=True)
    results = given.out / "results.jsonl"
    done = [json.loads(line) for line in results.read_text().splitlines()] if results.exists() else []
    print_machine()
    for name in given.names:
        known = {one["passes"] for one in done if one["name"] == name}
        for point in points(name, given.data, given.out, known):
            print(json.dumps(point), flush=True)
            with results.open("a") as file:
                file.write(json.dumps(point) + "\n")


if __name__ == "__main__":
    main()
