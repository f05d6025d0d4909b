"""How often the verdict on a map is right where the truth is planted, over many networks: docs/verdict.md.

python benchmarks/verdict.py [FOLDER] [--seeds 5] [--documents 500] [--models rnn,han] [--kinds one,two,count,order]
python benchmarks/verdict.py FOLDER --table

Each network and its counts are kept in the folder (a file for each), so that what is done is not done again; `--table`
prints what there is. A test document has one or more words that decide its label (`heed.lessons.verdict`). For each
map: of those whose largest weight is on such a word the share that is supported; of those where it is on another, the
share that is supported; the same for permuted weights and for the untrained network of the same seed.
"""

from __future__ import annotations

import argparse
import json
from collections import Counter, defaultdict
from pathlib import Path
from random import Random
from typing import Any

import torch
from machine import print_machine

import heed
from heed.data.embedded.generated import Split
from heed.data.embedded.texts import DECIDING, OTHER
from heed.lessons.verdict import Counts, choose_one, draw, judge_documents, train_on, untrained
from heed.observe.verdict import CONTRADICTED, SUPPORTED

MODELS = {
    "rnn": "model.name=rnn",
    "self_rnn": "model.name=self_rnn",
    "lstmn": "model.name=lstmn",
    **{f"encoder-{n}": f"model.name=encoder model.num_layers={n}" for n in (2, 1, 4, 6, 3, 5)},
    **{f"encoder-{n}-cls": f"model.name=encoder model.num_layers={n} model.pooling=cls" for n in (2, 1, 4, 6, 3, 5)},
    "bert": "model.name=bert model.pooling=first",
    "han": "model.name=han",
}


def choose_two(rng: Random, split: Split) -> tuple[str, list[str]]:
    """Either of two words decides."""
    label = rng.choice([*DECIDING, OTHER])
    count = 0 if label == OTHER else 2 if split == "test" else rng.randint(1, 2)
    return label, rng.sample(DECIDING.get(label, ()), count)


def choose_count(rng: Random, split: Split) -> tuple[str, list[str]]:
    """How often a word occurs."""
    number = rng.randrange(3)
    return ("never", "once", "twice")[number], ["goal"] * number


def choose_order(rng: Random, split: Split) -> tuple[str, list[str]]:
    """Which of two words is first."""
    first, *others = rng.choice((("oven", "senate"), ("senate", "oven"), (OTHER,)))
    return first, [first, *others] if others else []


KINDS = {"one": choose_one, "two": choose_two, "count": choose_count, "order": choose_order}
"""What decides."""


def piece(folder: Path, kind: str, model: str, seed: int, documents: int) -> None:
    """Train one network and count its verdicts, and those of the untrained one."""
    path = folder / f"{kind}.{model}.{seed}.json"
    if path.exists():
        return
    out = folder / "runs" / path.stem
    run: Any = heed.load(out) if out.exists() else None
    if run is None:
        run = train_on(KINDS[kind], f"{MODELS[model]} training.seed={seed}", out=out)
    texts = [one for one in draw(KINDS[kind], "test", 2 * documents) if one.words][:documents]
    found = {
        "accuracy": run.report["scores"]["test"]["accuracy"]["value"],
        "documents": len(texts),
        "trained": {name: one._asdict() for name, one in judge_documents(run, texts).items()},
        "untrained": {name: one._asdict() for name, one in judge_documents(untrained(run, seed), texts).items()},
    }
    path.write_text(json.dumps(found), encoding="utf-8")
    print(path.stem, flush=True)


def counts_of(values: Any) -> Counts:
    return Counts(*(Counter(values[name]) for name in Counts._fields))


def added(several: list[Counts]) -> Counts:
    return Counts(*(sum((getattr(one, name) for one in several), Counter()) for name in Counts._fields))


def table(folder: Path) -> None:
    """Print all counts as Markdown, the seeds added up."""
    every: dict[tuple[str, str, str], list[dict[str, Any]]] = defaultdict(list)
    for path in sorted(folder.glob("*.json")):
        kind, model, _ = path.stem.split(".")
        read = json.loads(path.read_text(encoding="utf-8"))
        for name in read["trained"]:
            part = {key: counts_of(read[key][name]) for key in ("trained", "untrained")}
            every[kind, model, name].append({"accuracy": read["accuracy"], **part})
    heads = ("data", "model", "map", "seeds", "accuracy", "planted first", "another first", "permuted", "contradicted")
    print(f"| {' | '.join(heads)} | untrained |")
    print("|---|---|---|---|---|---|---|---|---|---|")
    for (kind, model, name), found in every.items():
        trained, before = (added([one[key] for one in found]) for key in ("trained", "untrained"))
        fresh = Counts(before.planted + before.other, Counter(), Counter())
        shares = [
            trained.share("planted", SUPPORTED),
            trained.share("other", SUPPORTED),
            trained.share("permuted", SUPPORTED),
            trained.share("permuted", CONTRADICTED),
            fresh.share("planted", SUPPORTED),
        ]
        cells = [f"{100 * share:.1f} % of {judged}" if judged else "none" for share, judged in shares]
        accuracy = sum(one["accuracy"] for one in found) / len(found)
        print(f"| {kind} | {model} | {name} | {len(found)} | {accuracy:.3f} | {' | '.join(cells)} |")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folder", type=Path, nargs="?", default=Path("verdicts"))
    parser.add_argument("--seeds", type=int, default=5)
    parser.add_argument("--documents", type=int, default=500)
    parser.add_argument("--models", default=",".join(MODELS))
    parser.add_argument("--kinds", default=",".join(KINDS))
    parser.add_argument("--table", action="store_true")
    options = parser.parse_args()
    if options.table:
        table(options.folder)
        return
    print_machine()
    torch.set_num_threads(1)
    (options.folder / "runs").mkdir(parents=True, exist_ok=True)
    for seed in range(1, options.seeds + 1):
        for kind in options.kinds.split(","):
            for model in options.models.split(","):
                piece(options.folder, kind, model, seed, options.documents)


if __name__ == "__main__":
    main()
