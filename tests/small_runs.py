"""A small run of every task, trained for two updates on a few lines, and the commands that apply to it."""

import csv
import json
import random
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
import torch
from PIL import Image

import heed
from heed.config.reading import set_field
from heed.errors import ConfigError
from heed.models.base import TextEncoder
from heed.registry import body_class, model_names
from heed.tasks import check_config, spec_of, task_class, task_names
from heed.tasks.run import Run
from pictures import noise

TRAINING = {
    "training.threads": 1,
    "training.warmup": 100,
    "training.device": "cpu",
    "evaluation.bootstrap": 5,
    "data.valid": 6,
}
WORDS = "one two three four five six seven".split()


@dataclass(frozen=True)
class Small:
    """Data, settings and command arguments of a small run; "DATA" stands for the folder of the files."""

    name: str
    model: str
    train: str
    predict: tuple[str, ...]
    look: tuple[str, ...]
    settings: dict[str, Any]
    start: tuple[str, ...] = ()  # settings of a run that starts from this one
    steps: int = 2

    def trained(self, data: Path, out: Path) -> None:
        """Train the run into a folder."""
        settings = {**TRAINING, **self.settings}
        settings = {name: value for name, value in settings.items() if value is not None}
        files = data / self.train
        heed.train(self.name, train=files, model=self.model, steps=self.steps, out=out, settings=settings, quiet=True)

    def prepared(self, settings: dict[str, Any]) -> Any:
        """The task of a new run with these settings and no others."""
        values: dict[str, Any] = {"task": self.name}
        for name, value in settings.items():
            if value is not None:
                set_field(values, name, value)
        return task_class(self.name).prepare(check_config(values, "the test"))

    def untrained(self, data: Path, out: Path, model: str, head: dict[str, Any]) -> Any:
        """A run of another model of the task, of its smallest size, or of another choice of its head, as drawn."""
        settings_of_model = {
            name: value for name, value in self.settings.items() if model == self.model or name[:6] != "model."
        }
        settings = {
            **TRAINING,
            "training.steps": 1,
            **settings_of_model,
            "data.train": str(data / self.train),
            "model.name": model,
        }
        settings |= {f"model.{name}": value for name, value in head.items()}
        if model != self.model:
            settings["model.size"] = "tiny"
        task = self.prepared(settings)
        torch.manual_seed(1)
        return Run(out, task.config, task, task.build_model().eval(), {})

    def commands(self, run: str, other: str, data: Path, out: Path) -> dict[str, list[str]]:
        """Every command that opens a run, by name; `other` is a second run, `out` the folder for outputs."""
        told = {
            "predict": ("predict", run, *self.predict),
            "look": ("look", run, *self.look),
            "curves": ("look", run),
            "evaluate": ("evaluate", run, "--split", "valid", "--json"),
            "check": ("check", run),
            "resume": ("train", run, "--resume", "training.steps=3"),
            "compare": ("compare", run, other, "--split", "valid", "--resamples", "5", "--sentences", "1"),
            "export": ("export", run, "--to", "huggingface", "--out", str(out / "exported")),
            "start": (
                "train",
                self.name,
                f"DATA/{self.train}",
                "--from",
                run,
                "--dry-run",
                "training.steps=2",
                *self.start,
            ),
            "ensemble": ("predict", run, *self.predict, "--with", other),
        }
        return {name: [word.replace("DATA/", f"{data}/") for word in words] for name, words in told.items()}


_RNN = {"model.d_embedding": 4, "model.d_hidden": 4}
_PAIRS = {**_RNN, "model.d_attention": 4, "tokenizer.kind": "word"}
_BLOCKS = {"model.d_model": 8, "model.num_heads": 2, "model.num_layers": 1, "model.d_ff": 8}
_WORDS = {"tokenizer.kind": "word"}
_HELD = {"data.valid": None, "data.held_out": 0.3}

SMALL = {
    small.name: small
    for small in (
        Small("translation", "luong", "pairs.tsv", ("one two", "--align"), ("one two",), _PAIRS),
        Small("classification", "rnn", "labels.txt", ("one two", "--json"), ("one two",), {**_RNN, **_WORDS}),
        Small(
            "tagging", "rnn", "tags.conll", ("one two",), ("one two",), {**_RNN, **_WORDS, "model.characters": "cnn"}
        ),
        Small(
            "language_modelling",
            "gpt",
            "lines.txt",
            ("one two", "--length", "3", "--seed", "1"),
            ("one two",),
            {**_BLOCKS, **_WORDS, **_HELD, "data.context": 8},
        ),
        Small(
            "pretraining",
            "bert",
            "stories.txt",
            ("one [MASK] two",),
            ("one two",),
            {**_BLOCKS, **_WORDS, "data.max_length": 16, "data.separator": "", "data.valid": 6},
            ("data.max_length=16", "data.separator=''"),
        ),
        Small("dialogue", "hred", "talks.jsonl", ("one two",), ("one two",), {**_PAIRS, "model.d_context": 4}),
        Small("summarisation", "bahdanau", "mails.jsonl", ("one two",), ("one two",), _PAIRS),
        Small(
            "images",
            "cnn",
            "photos",
            ("--input", "DATA/photos/a/0.png"),
            ("DATA/photos/a/0.png",),
            {"model.num_filters": [2], "model.convolutions": 1},
        ),
        Small("table", "mlp", "table.csv", ("--input", "DATA/new.csv"), (), {"model.d_hidden": 4}),
        Small(
            "series",
            "rnn",
            "series.csv",
            ("--input", "DATA/series.csv", "--horizon", "2"),
            (),
            {"model.d_hidden": 4, "data.window": 4},
            ("data.window=4",),
        ),
    )
}
"""Small runs by task name."""


for _name in {*task_names()} - {*SMALL}:  # a task in one file has made-up examples
    _texts = [str(text) for text in task_class(_name).sample(1)[0][: len(task_class(_name).input.kind.sides(None))]]
    SMALL[_name] = Small(_name, "rnn", f"{_name}.csv", ("\t".join(_texts),), ("\t".join(_texts),), {**_RNN, **_WORDS})


def write_data(folder: Path) -> None:
    """Write the training files of the small runs."""
    folder.mkdir(exist_ok=True)
    for small in SMALL.values():
        if small.train == f"{small.name}.csv" and small.name not in ("table", "series"):
            task = task_class(small.name)
            with (folder / small.train).open("w", newline="") as file:
                csv.writer(file).writerows([task.input.kind.fields(None), *task.sample(24)])
    rng = random.Random(1)
    texts = [" ".join(rng.choices(WORDS, k=3)) for _ in range(24)]
    tags = {word: f"B-{'xy'[n % 2]}" if n < 4 else "O" for n, word in enumerate(WORDS)}
    talk = ["two three?", "four.", "five?", "six."]
    numbers = [(rng.random(), rng.random(), "ab"[n % 2]) for n in range(40)]
    lines = {
        "labels.txt": [f"{'ab'[n % 2]} {text}" for n, text in enumerate(texts)],
        "lines.txt": texts,
        "stories.txt": [line for text in texts for line in (text, text, "")],
        "pairs.tsv": [f"{text}\t{text.upper()}" for text in texts],
        "tags.conll": [line for text in texts for line in (*(f"{w}\t{tags[w]}" for w in text.split()), "")],
        "talks.jsonl": [json.dumps({"turns": [text, *talk, text]}) for text in texts],
        "mails.jsonl": [json.dumps({"document": f"{text} {text}", "summary": text}) for text in texts],
        "table.csv": ["width,length,label", *(f"{a:.3f},{b:.3f},{label}" for a, b, label in numbers)],
        "new.csv": ["width,length", "0.1,0.2"],
        "series.csv": ["sold,made", *(f"{a:.3f},{b:.3f}" for a, b, _ in numbers)],
    }
    for name, written in lines.items():
        (folder / name).write_text("".join(f"{line}\n" for line in written), encoding="utf-8")
    for number in range(12):
        path = folder / "photos" / "ab"[number % 2] / f"{number}.png"
        path.parent.mkdir(parents=True, exist_ok=True)
        Image.fromarray(noise(number, 16, 16)).save(path)


def usable(name: str) -> Iterator[tuple[str, Any]]:
    """The models of a task, with their bodies."""
    for model in model_names():
        try:
            body = body_class(model, task_class(name).interfaces)
        except ConfigError:  # the task cannot use this model
            continue
        spec = spec_of(name)
        if not (spec.per_token and issubclass(body, TextEncoder)) and (body.framed if spec.framed else True):
            yield model, body


def assert_alike(actual: Any, expected: Any, within: float = 2e-5) -> None:
    """Equal but for rounding, relative to the size of each number."""
    if isinstance(actual, dict):
        assert actual.keys() == expected.keys()
        actual, expected = list(actual.values()), list(expected.values())
    if isinstance(actual, list | tuple):
        assert len(actual) == len(expected)
        for a, b in zip(actual, expected, strict=True):
            assert_alike(a, b, within)
    else:
        assert actual == (pytest.approx(expected, rel=within, abs=within) if isinstance(expected, float) else expected)
