"""Record loss and gradient norm of the first updates of many models, to compare them before and after a change.

    python tools/records.py write FILE [--only NAME ...]
    python tools/records.py compare FILE [--only NAME ...]

Trains 30 updates of each case on one thread with seed 1, on embedded data or tiny generated files; the cases include
every pair of task and model. Recorded are loss, gradient norm and target tokens of each update, the validation scores
from `metrics.jsonl` and the final scores from `report.json` (without intervals), at full precision, and names and
shapes of the parameters in order. `compare` trains again and prints the first number of each case that differs, even in
the last digit (a validation loss, whose sum may be grouped otherwise, in the sixth); the exit status is then 1. Results
depend on processor, torch version and number of threads, so compare on the machine that wrote the record.

Only `heed.train` and files of the run folder are used, so records stay comparable after modules have moved.
"""

from __future__ import annotations

import argparse
import json
import math
import os
import platform
import sys
import tempfile
from pathlib import Path
from typing import Any

os.environ["OMP_NUM_THREADS"] = "1"  # before torch is imported

import torch
from make_fixtures import write_small_data

import heed

sys.path.append(str(Path(__file__).parent.parent / "tests"))

from small_runs import SMALL, usable, write_data

Events = list[dict[str, Any]]
SETTINGS = {
    "training.steps": 30,
    "training.validate_every": 15,
    "training.threads": 1,
    "training.seed": 1,
    "training.device": "cpu",
    "training.precision": "float32",
    "training.warmup": 5,
    "training.batch_tokens": 400,
    "evaluation.bootstrap": 10,
}
DATES = {"data.name": "dates", "data.languages": ["en", "de", "es"], "data.train": 600, "data.valid": 12}
DATES |= {"data.unseen": ["fr"], "data.test": 4}
PAIRS = {"data.train": ["train.en", "train.es"], "data.valid": 12, "data.test": ["test.en", "test.es"]}
PLANTED = {"data.name": "planted", "data.sentences": [1, 6], "data.train": 400, "data.valid": 20, "data.test": 20}
TEDDY = {"data.name": "teddy", "data.train": 400, "data.valid": 20, "data.test": 20}
ROWS = {"data.train": ["train.csv"], "data.valid": 20, "data.test": ["test.csv"], "training.batch_tokens": 20}
SERIES = {"data.train": ["series.csv"], "data.valid": 20, "data.test": 20, "data.window": 12, "data.horizon": 4}
GRAMMAR = {"data.name": "grammar", "data.train": 300, "data.valid": 12, "data.test": 12}
SMALL_TRANSFORMER = {"model.d_model": 32, "model.num_heads": 4, "model.num_layers": 2, "model.d_ff": 64}

CASES: dict[str, tuple[str, dict[str, Any]]] = {
    "bahdanau": ("translation", {**DATES, "model.name": "bahdanau"}),
    "bahdanau, dropout everywhere": (
        "translation",
        {
            **PAIRS,
            "tokenizer.kind": "bpe",
            "tokenizer.vocab_size": 120,
            "model.name": "bahdanau",
            "model.dropout": 0.2,
            "model.token_dropout": 0.1,
            "model.d_readout": 32,
            "model.lexical": True,
            "training.label_smoothing": 0.1,
            "training.accumulate": 2,
        },
    ),
    "bahdanau, guided": (
        "translation",
        {**PAIRS, "tokenizer.kind": "word", "model.name": "bahdanau", "training.guided_attention": 1.0},
    ),
    "transformer": ("translation", {**DATES, **SMALL_TRANSFORMER, "model.name": "transformer"}),
    "transformer, dropout everywhere": (
        "translation",
        {
            **PAIRS,
            **SMALL_TRANSFORMER,
            "tokenizer.kind": "unigram",
            "tokenizer.vocab_size": 100,
            "tokenizer.shared": True,
            "model.name": "transformer",
            "model.norm": "pre",
            "model.dropout": 0.2,
            "model.attention_dropout": 0.1,
            "model.shared_embeddings": True,
            "training.label_smoothing": 0.1,
            "training.weight_decay": 0.01,
        },
    ),
    "transformer, guided": (
        "translation",
        {
            **PAIRS,
            **SMALL_TRANSFORMER,
            "tokenizer.kind": "word",
            "model.name": "transformer",
            "model.attention_dropout": 0.0,
            "training.guided_attention": 1.0,
        },
    ),
    "transformer, in parts": (
        "translation",
        {
            **GRAMMAR,
            **SMALL_TRANSFORMER,
            "model.name": "transformer",
            "model.positions": "learned",
            "training.micro_batches": 2,
            "training.activation_checkpointing": True,
            "training.optimizer": "adam",
            "training.schedule": "inverse_sqrt",
        },
    ),
    "bahdanau, two layers": (
        "translation",
        {**GRAMMAR, "model.name": "bahdanau", "model.cell": "lstm", "model.num_layers": 2, "model.score": "general"},
    ),
    "luong": ("translation", {**DATES, "model.name": "luong", "model.num_layers": 2, "model.dropout": 0.2}),
    "seq2seq": ("translation", {**DATES, "model.name": "seq2seq", "model.num_layers": 2, "model.dropout": 0.2}),
    "seq2seq, lstm": (
        "translation",
        {**DATES, "model.name": "seq2seq", "model.cell": "lstm", "model.summary": "start"},
    ),
    "rnn translator": ("translation", {**DATES, "model.name": "rnn"}),
    "attention_only": ("translation", {**DATES, "model.name": "attention_only"}),
    "classification, rnn": ("classification", {**PLANTED, "model.name": "rnn", "model.dropout": 0.3}),
    "classification, rnn, self-attentive": (
        "classification",
        {**PLANTED, "model.name": "rnn", "model.cell": "gru", "model.pooling_score": "self_attentive"},
    ),
    "classification, encoder": ("classification", {**PLANTED, "model.name": "encoder", "model.pooling": "cls"}),
    "classification, han": ("classification", {**PLANTED, "model.name": "han", "model.dropout": 0.2}),
    "classification, lstmn": ("classification", {**PLANTED, "model.name": "lstmn"}),
    "classification, cnn": ("classification", {**PLANTED, "model.name": "cnn", "training.label_smoothing": 0.1}),
    "classification, self_rnn": ("classification", {**PLANTED, "model.name": "self_rnn"}),
    "classification, bag": ("classification", {**PLANTED, "model.name": "bag"}),
    "classification, mlp": ("classification", {**PLANTED, "model.name": "mlp", "data.max_length": 50}),
    "tagging, rnn and crf": (
        "tagging",
        {**TEDDY, "model.name": "rnn", "model.head": "crf", "model.characters": "cnn", "model.dropout": 0.3},
    ),
    "tagging, encoder": ("tagging", {**TEDDY, "model.name": "encoder"}),
    "table, mlp": ("table", {**ROWS, "model.name": "mlp", "model.dropout": 0.2}),
    "series, rnn": ("series", {**SERIES, "model.name": "rnn", "model.num_layers": 2, "model.dropout": 0.2}),
    "series, gru, whole rows": (
        "series",
        {**SERIES, "model.name": "rnn", "model.cell": "gru", "model.difference": False, "training.optimizer": "sgd"},
    ),
}
for small in SMALL.values():  # every pair of task and model, on the few lines of the tests' small runs
    for pair, _ in usable(small.name):
        fields = {name: value for name, value in small.settings.items() if name[:6] != "model." or pair == small.model}
        fields |= {"data.train": [f"small/{small.train}"], "model.name": pair}
        fields |= {"training.batch_tokens": None} if small.name == "images" else {}
        CASES[f"{small.name}, {pair}, small"] = (small.name, {"data.valid": 6, **fields})


def record(case: str, folder: Path) -> Events:
    """Parameters, updates, validations and final scores of one case.

    Args:
        case: Name of the case.
        folder: Contains the tiny data files; the run folder is created there too.
    """
    task, own = CASES[case]
    settings = {"model.size": "tiny", **SETTINGS, **own}
    settings = {field: value for field, value in settings.items() if value is not None}
    for field in ("data.train", "data.test"):
        if isinstance(settings.get(field), list):
            settings[field] = [str(folder / name) for name in settings[field]]
    out = folder / f"run-{len(list(folder.glob('run-*')))}"
    run = heed.train(task, out=out, settings=settings, quiet=True)
    shapes = enumerate(f"{name} {tuple(parameter.shape)}" for name, parameter in run.model.named_parameters())
    parameters = {"event": "parameters", "step": 0, **{str(number): text for number, text in shapes}}
    events = [json.loads(line) for line in (out / "metrics.jsonl").read_text().splitlines()]
    noted = [{key: value for key, value in event.items() if key not in ("seconds", "waited")} for event in events]
    scores = json.loads((out / "report.json").read_text())["scores"]
    return [
        parameters,
        *noted,
        *({"event": "scores", "step": split, **_flat(report)} for split, report in scores.items()),
    ]


def _flat(value: Any, name: str = "") -> dict[str, Any]:
    """Flatten nested scores to path -> value, without values that depend on resampling."""
    if isinstance(value, dict | list):
        items = value.items() if isinstance(value, dict) else enumerate(value)
        parts = [_flat(one, f"{name}.{key}".lstrip(".")) for key, one in items if key not in _NOT_COMPARED]
        return {path: one for part in parts for path, one in part.items()}
    return {name: value}


_NOT_COMPARED = ("low", "high", "signature", "note")


def first_difference(case: str, before: Events, after: Events) -> str | None:
    """Describe the first difference; None if there is none."""
    for old, new in zip(before, after, strict=False):
        for key, value in old.items():
            if key not in new:
                return f"{case}: {old['event']} {old['step']} no longer has {key}"
            same = repr(new[key]) == repr(value)
            if old["event"] != "update" and key.endswith("loss"):  # a sum, which may be grouped otherwise
                same = math.isclose(new[key], value, rel_tol=1e-6)
            if not same:
                return f"{case}: {key} of {old['event']} {old['step']} was {value!r}, is now {new[key]!r}"
    if len(before) != len(after):
        return f"{case}: {len(before)} events were recorded, now {len(after)}"
    return None


def main() -> None:
    """Write or compare records."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("what", choices=["write", "compare"])
    parser.add_argument("file", type=Path)
    parser.add_argument("--only", nargs="+", choices=CASES, metavar="NAME", help="only these cases")
    options = parser.parse_args()
    torch.set_num_threads(1)
    where = {
        "torch": torch.__version__,
        "machine": platform.machine(),
        "processor": torch.backends.cpu.get_cpu_capability(),
    }
    before = json.loads(options.file.read_text()) if options.what == "compare" else None
    if before is not None and before["where"] != where:
        print(f"the record was written with {before['where']}; this is {where}: last digits may differ")
    cases: dict[str, Events] = {}
    differing = 0
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        os.environ["HEED_CACHE"] = str(folder / "cache")
        write_small_data(folder)
        (folder / "small").mkdir()
        write_data(folder / "small")
        for case in options.only or CASES:
            if before is not None and case not in before["cases"]:
                print(f"{case}: not in {options.file}")
                continue
            cases[case] = record(case, folder)
            if before is not None and (found := first_difference(case, before["cases"][case], cases[case])):
                print(found, flush=True)
                differing += 1
    if differing:
        sys.exit(f"{differing} of {len(cases)} cases differ")
    if before is None:
        options.file.write_text(json.dumps({"where": where, "cases": cases}, indent=1) + "\n")
    updates = sum(event["event"] == "update" for events in cases.values() for event in events)
    print(f"{len(cases)} cases, {updates} updates " + ("written" if before is None else "identical to the last digit"))


if __name__ == "__main__":
    main()
