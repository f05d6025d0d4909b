"""Make a finished and an unfinished run of five tasks: `python tools/make_fixtures.py FOLDER`.

`tests/conftest.py` makes them once for all tests (`made_run`). A format of run folders that is released gets a folder
of its own in tests/fixtures, made here before the format changes. Each case writes to FOLDER/CASE:

    data/             its data files, unless the data is embedded
    finished/         a finished run with one checkpoint
    unfinished/       the same settings, killed in update 8 of 12, with a checkpoint of update 6

Only `heed.train` is used.
"""

from __future__ import annotations

import argparse
import math
import os
import tempfile
from contextlib import suppress
from pathlib import Path
from random import Random
from typing import Any

import heed

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


def make(case: str, folder: Path) -> None:
    """Make the run folders of a case."""
    home = folder / case
    data = home / "data"
    data.mkdir(parents=True)
    write_small_data(data)
    task, settings = CASES[case][0], settings_of(case, data)
    heed.train(task, out=home / "finished", settings={**settings, **FINISHED}, quiet=True)
    with suppress(Killed):
        heed.train(task, out=home / "unfinished", settings={**settings, **UNFINISHED}, callback=kill, quiet=True)


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
