"""Make the run folders under tests/fixtures that tests/test_old_runs.py opens, as runs of an earlier version.

    python tools/make_fixtures.py FOLDER

tests/fixtures/runs-1 was made with this script (run folder format 1, checkpoint format 3) and is never made again once
heed is released: the next format gets a new folder. Each case writes to FOLDER/CASE:

    data/             its data files, unless the data is embedded
    finished/         a finished run with one checkpoint
    unfinished/       the same settings, killed in update 8 of 12, with a checkpoint of update 6
    expected.json     inputs, predictions and test scores of the finished run; updates and validations of an
                      uninterrupted run with the settings of the unfinished one

Only `heed.train` and `heed.load` are used. Paths in the configurations begin with /runs, which stands for FOLDER.
"""

from __future__ import annotations

import argparse
import hashlib
import json
import math
import os
import shutil
import tempfile
from contextlib import suppress
from pathlib import Path
from random import Random
from typing import Any

import heed

STANDS_FOR = "/runs"
"""Replaces the folder of all fixtures in the configurations."""
TRAINING = {
    "training.threads": 1,
    "training.seed": 1,
    "training.device": "cpu",
    "training.warmup": 2,
    "training.learning_rate": 0.01,
    "training.batch_tokens": 250,
    "evaluation.bootstrap": 20,
}
FINISHED = {"training.steps": 100, "training.validate_every": 100, "training.learning_rate": 0.03}
UNFINISHED = {"training.steps": 12, "training.validate_every": 6}
KILLED_AT = 8
CASES: dict[str, tuple[str, dict[str, Any]]] = {
    "translation": (
        "translation",
        {
            "data.name": "dates",
            "data.languages": ["en", "de", "es"],
            "data.unseen": ["fr"],
            "data.train": 300,
            "data.valid": 12,
            "data.test": 12,
            "model.name": "bahdanau",
            "model.d_embedding": 12,
            "model.d_hidden": 16,
            "model.d_attention": 8,
            "model.dropout": 0.2,
        },
    ),
    "translation-files": (
        "translation",
        {
            "data.train": ["train.en", "train.es"],
            "data.valid": 12,
            "data.test": ["test.en", "test.es"],
            "tokenizer.kind": "bpe",
            "tokenizer.vocab_size": 80,
            "tokenizer.sampling": 0.1,
            "model.name": "transformer",
            "model.size": "tiny",
            "model.d_model": 16,
            "model.num_heads": 2,
            "model.num_layers": 1,
            "model.d_ff": 16,
            "model.dropout": 0.1,
            "training.accumulate": 2,
            "generation.beam_size": 3,
        },
    ),
    "classification": (
        "classification",
        {
            "data.name": "planted",
            "data.sentences": [1, 4],
            "data.train": 200,
            "data.valid": 20,
            "data.test": 20,
            "model.name": "rnn",
            "model.pooling": "attention",
            "model.d_embedding": 12,
            "model.d_hidden": 8,
            "model.d_pooling": 8,
            "model.dropout": 0.2,
        },
    ),
    "tagging": (
        "tagging",
        {
            "data.name": "teddy",
            "data.train": 200,
            "data.valid": 20,
            "data.test": 20,
            "model.name": "rnn",
            "model.head": "crf",
            "model.characters": "cnn",
            "model.d_character": 8,
            "model.num_filters": 8,
            "model.d_embedding": 12,
            "model.d_hidden": 8,
            "model.dropout": 0.2,
        },
    ),
    "table": (
        "table",
        {
            "data.train": ["train.csv"],
            "data.valid": 20,
            "data.test": ["test.csv"],
            "model.name": "mlp",
            "model.d_hidden": 16,
            "model.dropout": 0.2,
            "training.batch_tokens": 20,
        },
    ),
    "series": (
        "series",
        {
            "data.train": ["series.csv"],
            "data.valid": 20,
            "data.test": 20,
            "data.window": 12,
            "data.horizon": 4,
            "model.name": "rnn",
            "model.d_hidden": 16,
            "training.batch_tokens": 60,
        },
    ),
}
INPUTS: dict[str, list[str]] = {
    "translation": ["9 de mayo de 1998", "March 3, 2021", "17. Juni 1950"],
    "translation-files": ["the old king sees the cat.", "the tired sailor helps the dog.", "a word unseen"],
    "classification": ["The referee saw some people. It was late.", "There was garlic.", "Nothing here."],
    "tagging": ["Teddy Roosevelt was here .", "Teddy bears are soft ."],
}
"""Inputs of the predictions from texts; tables and series predict from their data files."""
_NOUNS = {"cat": "gato", "dog": "perro", "child": "chico", "baker": "panadero", "sailor": "marinero", "king": "rey"}
_VERBS = {"sees": "ve a", "hears": "oye a", "follows": "sigue a", "helps": "ayuda a", "paints": "pinta a"}
_ADJECTIVES = {"small": "pequeno", "tired": "cansado", "old": "viejo", "quiet": "callado", "famous": "famoso"}


def write_small_data(folder: Path, seed: int = 1) -> None:
    """Write train and test files of pairs (`.en`, `.es`), rows (`.csv`) and a series (`series.csv`).

    Args:
        folder: An existing folder.
        seed: Random seed.
    """
    draw = Random(seed)
    for name, count in (("train", 150), ("test", 12)):
        pairs = [_pair(draw) for _ in range(count)]
        for ending, lines in zip(("en", "es"), zip(*pairs, strict=True), strict=True):
            (folder / f"{name}.{ending}").write_text("".join(f"{line}\n" for line in lines))
        rows = [_row(draw) for _ in range(count)]
        (folder / f"{name}.csv").write_text("".join(f"{line}\n" for line in ("length,width,label", *rows)))
    values = [
        f"{10 + 3 * math.sin(math.pi * time / 6) + draw.gauss(0, 0.3):.3f},{time / 20 + draw.gauss(0, 0.2):.3f}"
        for time in range(150)
    ]
    (folder / "series.csv").write_text("".join(f"{line}\n" for line in ("season,trend", *values)))


def _pair(draw: Random) -> tuple[str, str]:
    """An English sentence and its Spanish translation, in which the adjective follows the noun."""
    first, second = draw.sample(sorted(_NOUNS), 2)
    verb, adjective = draw.choice(sorted(_VERBS)), draw.choice(sorted(_ADJECTIVES))
    return (
        f"the {adjective} {first} {verb} the {second}.",
        f"el {_NOUNS[first]} {_ADJECTIVES[adjective]} {_VERBS[verb]} el {_NOUNS[second]}.",
    )


def _row(draw: Random) -> str:
    kind = draw.randrange(3)
    return f"{draw.gauss(5 + 2 * kind, 1):.3f},{draw.gauss(200 - 80 * (kind == 1), 30):.2f},{'abc'[kind]}"


class Killed(BaseException):
    """Simulates a kill: a BaseException, which heed does not catch."""


def kill(event: Any) -> None:
    """End training before update `KILLED_AT`."""
    if event.step == KILLED_AT - 1:
        raise Killed


def settings_of(case: str, data: Path) -> dict[str, Any]:
    """The settings of a case, with its files in the folder `data`."""
    settings = {**TRAINING, **CASES[case][1]}
    for field in ("data.train", "data.test"):
        if isinstance(settings[field], list):
            settings[field] = [str(data / name) for name in settings[field]]
    return settings


def predictions(case: str, run: Any, data: Path) -> Any:
    """The predictions of a run, as JSON values."""
    if case == "table":
        return [{"label": p.label, "probabilities": p.probabilities} for p in run.predict_file(data / "test.csv")]
    if case == "series":
        return run.predict_file(data / "series.csv").tolist()
    made = run.predict(INPUTS[case])
    if case == "classification":
        return [{"label": p.label, "probabilities": p.probabilities} for p in made]
    if case == "tagging":
        return [{"words": list(p.words), "tags": list(p.tags)} for p in made]
    return [{"text": p.text, "score": p.score} for p in made]


def events(run: Path) -> list[dict[str, Any]]:
    """The updates and validations of a run, without times."""
    lines = [json.loads(line) for line in (run / "metrics.jsonl").read_text().splitlines()]
    return [{key: value for key, value in line.items() if key not in ("seconds", "waited")} for line in lines]


def without_paths(run: Path, folder: Path) -> None:
    """Replace the folder in a run's settings and record of data files, and update their checksums."""
    sums = json.loads((run / "checksums.json").read_text())
    for name in ("config.yaml", ".config.yaml", "data.json"):
        if not (run / name).exists():  # embedded data has no files
            continue
        text = (run / name).read_text().replace(str(folder), STANDS_FOR)
        (run / name).write_text(text)
        if name in sums:
            sums[name] = {"bytes": len(text), "blake2b": hashlib.blake2b(text.encode(), digest_size=20).hexdigest()}
    (run / "checksums.json").write_text(json.dumps(sums, indent=1) + "\n")


def make(case: str, folder: Path) -> None:
    """Make the run folders and `expected.json` of a case."""
    home = folder / case
    data = home / "data"
    data.mkdir(parents=True)
    write_small_data(data)
    task, settings = CASES[case][0], settings_of(case, data)
    used = {Path(name).name for name in (*_files(settings["data.train"]), *_files(settings["data.test"]))}
    for path in data.iterdir():
        if path.name not in used:
            path.unlink()
    finished = heed.train(task, out=home / "finished", settings={**settings, **FINISHED}, quiet=True)
    with suppress(Killed):
        heed.train(task, out=home / "unfinished", settings={**settings, **UNFINISHED}, callback=kill, quiet=True)
    with tempfile.TemporaryDirectory() as other:
        heed.train(task, out=f"{other}/run", settings={**settings, **UNFINISHED}, quiet=True)
        whole = events(Path(other) / "run")
    loaded = heed.load(finished.folder)
    expected = {
        "inputs": INPUTS.get(case),
        "predictions": predictions(case, loaded, data),
        "scores": loaded.evaluate("test"),
        "events": whole,
    }
    (home / "expected.json").write_text(json.dumps(expected, indent=1, ensure_ascii=False) + "\n")
    if not used:
        shutil.rmtree(data)
    for run in ("finished", "unfinished"):
        without_paths(home / run, folder)
        size = sum(path.stat().st_size for path in (home / run).rglob("*") if path.is_file())
        print(f"{case}/{run}: {size:,} bytes")


def _files(value: Any) -> list[str]:
    return value if isinstance(value, list) else []


def main() -> None:
    """Make all cases."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folder", type=Path)
    parser.add_argument("--only", choices=CASES, help="make only this case")
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as cache:
        os.environ["HEED_CACHE"] = cache
        for case in [options.only] if options.only else CASES:
            make(case, options.folder.resolve())


if __name__ == "__main__":
    main()
