"""Small untrained models of every task that has looks, and all text of these looks."""

from __future__ import annotations

import html
import math
import random
import re
from dataclasses import dataclass
from functools import cache
from typing import Any

import torch

from continuing import SMALL as LANGUAGE_MODELS
from continuing import random_run, write_texts
from contract import data_of
from heed.config import ModelSection, TokenizerConfig
from heed.show.shown import ShownLook
from heed.tasks import check_config, task_class
from heed.tasks.classification import look_at_text
from heed.tasks.heads.pooled import Classifier
from heed.tasks.inputs.windows import Stretch
from heed.tasks.series import TASK as SERIES
from heed.tasks.series import look_at_series
from heed.tasks.tagging import look_at_tags
from heed.tasks.translation import TASK, TranslationConfig, TranslationTraining, look_at
from heed.watch.looks import Look

TEXT = "The film was great. It was Zebra of all."
WORDS = "the of film story it was we saw plot all great awful".split()
NET = {"d_embedding": 12, "d_hidden": 10, "dropout": 0.3}
BODIES: dict[str, dict[str, Any]] = {
    "rnn": {"name": "rnn", **NET, "d_pooling": 8},
    "hops": {"name": "rnn", **NET, "pooling_score": "self_attentive", "pooling_hops": 3, "d_pooling": 8},
    "self_rnn": {"name": "self_rnn", **NET, "d_attention": 8},
    "lstmn": {"name": "lstmn", **NET, "d_attention": 8},
    "encoder": {"name": "encoder", "d_model": 16, "num_heads": 2, "num_layers": 2, "d_ff": 16},
    "cls": {"name": "encoder", "pooling": "cls", "d_model": 16, "num_heads": 2, "num_layers": 1, "d_ff": 16},
    "han": {"name": "han", "d_embedding": 12, "d_hidden": 6, "d_attention": 8},
    "cnn": {"name": "cnn", "d_embedding": 12, "num_filters": 4},
    "bag": {"name": "bag", "d_embedding": 12, "d_hidden": 8},
    "ngrams": {"name": "bag", "d_embedding": 12, "d_hidden": 8, "ngrams": 2, "ngram_characters": 0},
}


@dataclass
class Case:
    """A look with the task, model and input that it was made from."""

    task: Any
    model: Any
    text: str
    look: Look
    again: Any  # function that looks again, with other edits or another choice

    def sentences(self) -> dict[str, Any]:
        """Every sentence of the look, with the part of the look that it belongs to."""
        sentences: dict[str, Any] = {}
        for map in self.look.maps:
            sentences[map.title] = map
            sentences |= {sentence: map for sentence in split(map.caption)}
        sentences |= {shading.title: shading for shading in self.look.shadings}
        sentences |= {note: None for note in self.look.notes}
        if self.look.no_steps:
            sentences[self.look.no_steps] = None
        shown = ShownLook(self.look, steps=True)
        for hint in re.findall(r'<p class="(?:hint|caption)"[^>]*>(.*?)</p>', shown.html()):
            sentences |= {sentence: sentences.get(sentence) for sentence in split(html.unescape(hint))}
        lines = shown.text(width=48).splitlines()
        return sentences | {
            line: None for line in lines if re.match("share: |at the end of a row: |No attention: ", line)
        }

    @property
    def is_label(self) -> bool:
        return isinstance(self.model, Classifier)

    @property
    def attention(self) -> list[Any]:
        return [map for map in self.look.maps if map.is_distribution]


def split(text: str) -> list[str]:
    """The sentences of a caption."""
    return [part for part in re.split(r"(?<=\.) (?=[A-Z])", text) if part]


def sharpened(model: Any) -> Any:
    """Draw random weights large enough to give clear preferences."""
    with torch.no_grad():
        for name, parameter in model.named_parameters():
            if parameter.dim() > 1 and "embedding" not in name:
                parameter.mul_(3.0)
    return model.eval()


@cache
def classifier(folder, body: str, **tokenizer: Any):
    draw = random.Random(1)
    lines = [
        f"{draw.choice('ab')} {' '.join(draw.choices(WORDS, k=6))} . {' '.join(draw.choices(WORDS, k=3))} ."
        for _ in range(60)
    ]
    lines = [line.replace("\n", " ") for line in lines]
    (folder / "c.txt").write_text("\n".join(lines) + "\n")
    values = {
        "task": "classification",
        "data": {"train": str(folder / "c.txt"), "valid": 10, "max_length": 9 if body == "bag" else 400},
        "tokenizer": dict(tokenizer),
        "model": BODIES[body],
        "training": {"steps": 1},
    }
    task = task_class("classification").prepare(check_config(values, "test"))
    torch.manual_seed(1)
    model = sharpened(task.build_model())
    return task, model


@cache
def tagger(folder, body: str):
    draw = random.Random(2)
    rows = [(draw.choice(WORDS), draw.choice(("O", "B-per", "I-per", "B-loc"))) for _ in range(300)]
    lines = [f"{word}\t{tag}\n" + "\n" * (n % 5 == 4) for n, (word, tag) in enumerate(rows)]
    (folder / "t.conll").write_text("".join(lines))
    section = {name: value for name, value in BODIES[body].items() if name not in ("d_pooling", "pooling")}
    values = {
        "task": "tagging",
        "data": {"train": [str(folder / "t.conll")], "valid": 8, "scheme": "bio"},
        "model": section,
        "training": {"steps": 1},
    }
    task = task_class("tagging").prepare(check_config(values, "test"))
    torch.manual_seed(1)
    return task, sharpened(task.build_model())


@cache
def translator(name: str):
    section = {
        "bahdanau": {"d_embedding": 8, "d_hidden": 8, "d_attention": 8},
        "seq2seq": {"d_embedding": 8, "d_hidden": 8},
    }
    section["transformer"] = {"d_model": 8, "num_heads": 2, "num_layers": 2, "d_ff": 8}
    data = data_of("translation", name="copy", train=30, valid=5, test=5, length=(3, 6))
    model = ModelSection(name=name, size="tiny", **section[name])
    task = TASK.prepare(
        TranslationConfig(data=data, tokenizer=TokenizerConfig(), model=model, training=TranslationTraining(steps=1))
    )
    torch.manual_seed(1)
    return task, sharpened(task.build_model())


def series_case(folder) -> Case:
    numbers = [round(10 * math.sin(i / 3) + i % 5, 3) for i in range(60)]
    (folder / "s.csv").write_text("\n".join(["sold", *map(str, numbers)]) + "\n")
    data = {"train": str(folder / "s.csv"), "valid": 6, "test": 6, "window": 8, "horizon": 2}
    model = {"name": "rnn", "d_hidden": 6}
    values = {"task": "series", "data": data, "model": model, "training": {"steps": 1}}
    task = SERIES.prepare(check_config(values, "test"))
    torch.manual_seed(1)
    values = task.input.read(folder / "s.csv")[0].numbers(["sold"])[:40]
    return case_of((task, task.build_model().eval()), look_at_series, Stretch(values, 40, "series"))


def case_of(make: Any, look: Any, text: str, **options: Any) -> Case:
    task, model = make

    def again(text: str = text, **more: Any) -> Look:
        return look(task, model, text, **{**options, **more})

    return Case(task, model, text, again(), again)


def all_cases(folder) -> dict[str, Case]:
    """All cases by name; making them takes a few seconds."""
    cases = {
        f"label {body}": case_of(classifier(folder, body), look_at_text, TEXT, gates=body in ("rnn", "han", "self_rnn"))
        for body in BODIES
    }
    cases["label parts"] = case_of(
        classifier(folder, "self_rnn", kind="bpe", vocab_size=34), look_at_text, "great film"
    )
    cases["label long"] = case_of(classifier(folder, "rnn"), look_at_text, "great film " * 101)
    cases["label wide"] = case_of(classifier(folder, "self_rnn"), look_at_text, "great \u4e00 film")
    for body in ("rnn", "self_rnn", "lstmn", "encoder"):
        cases[f"tags {body}"] = case_of(tagger(folder, body), look_at_tags, TEXT, gates=body == "rnn")
    for name in ("bahdanau", "transformer", "seq2seq"):
        cases[f"translation {name}"] = case_of(translator(name), look_at, "31415", target="314")
    cases["written"] = case_of(translator("bahdanau"), look_at, "31x15")
    cases["series"] = series_case(folder)
    file = write_texts(folder)
    for model in LANGUAGE_MODELS:
        run = random_run(file, model)
        cases[f"text {model}"] = Case(run.task, run.model, "I love", run.look("I love", length=4).look, run.look)
    run = random_run(file, "gpt", "char", 12)
    cases["text given"] = Case(
        run.task, run.model, "I love the garden", run.look("I love the garden", given=True).look, run.look
    )
    return cases
