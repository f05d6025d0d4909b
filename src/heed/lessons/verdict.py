"""A lesson with training: how often the verdict on an attention map is right, counted where the truth is planted.

Networks learn from documents whose label depends on words that were put into them, so that it is known of every map
whether its largest weight is on such a word. `benchmarks/verdict.py` counts the same over many networks.
"""

from __future__ import annotations

import copy
from collections import Counter
from collections.abc import Callable, Sequence
from itertools import islice
from pathlib import Path
from random import Random
from typing import Any, NamedTuple

import numpy as np
import torch

from heed.data.embedded.generated import SPLITS, Split, split_of
from heed.data.embedded.texts import DECIDING, OTHER, draw_filler, plant, text_of
from heed.lessons.parts import WORD_MODEL, Script, Stage, Table, double, score_on_test, train_small
from heed.observe.looks import Choice
from heed.observe.verdict import CONTRADICTED, SUPPORTED, UNJUDGED, Row, judge
from heed.tasks.base.verdicts import Judged

TITLE = "Does the most attended word decide?"
SOURCE = "Documents whose deciding words were planted; all numbers come from networks trained just now."
_SENTENCES = (3, 6)
_SIZES = {"train": 2_000, "valid": 20, "test": 60}
_STEPS = 200
_MODELS = {"rnn": "model.name=rnn", "encoder": "model.name=encoder model.pooling=cls"}
_POOLED = 10
"""Documents whose maps are judged together, where rows are short: words of a sentence, sentences."""
_SETTINGS = f"{WORD_MODEL} tokenizer.lowercase=true training.batch_tokens=1000 training.warmup=20"
_stage = Script("verdict")


class Document(NamedTuple):
    """A document with the words that decide its label; none of them if the label is that nothing was found."""

    text: str
    label: str
    words: frozenset[str]


Choose = Callable[[Random, Split], tuple[str, list[str]]]
"""Gives the label of a document and the words that decide it; a label that is one of these is the first in the text."""


def choose_one(rng: Random, split: Split) -> tuple[str, list[str]]:
    """One word decides."""
    label = rng.choice([*DECIDING, OTHER])
    return label, [] if label == OTHER else [rng.choice(DECIDING[label])]


def draw(choose: Choose, split: Split, count: int) -> list[Document]:
    """Documents of a split, of 3 to 6 sentences of 4 to 14 words; a hash of the text decides the split."""
    rng = Random(f"verdict {choose.__name__.removeprefix('choose_')} {split}")

    def documents() -> Any:
        while True:
            lines = draw_filler(rng, _SENTENCES)
            label, words = choose(rng, split)
            places = [rng.randrange(len(lines)) for _ in words]
            for place, word in zip(sorted(places), words, strict=True):
                plant(rng, lines[place], word)
            if label in words:  # in one sentence the second may stand before the first
                label = next(word for line in lines for word in line if word in words)
            document = Document(text_of(lines), label, frozenset(words))
            if split_of(document.text) == split:
                yield document

    return list(islice(documents(), count))


def train_on(choose: Choose, settings: str, out: Path | None = None) -> Any:
    """A small network that has learned from such documents, in a temporary folder or in `out`."""
    drawn = {split: draw(choose, split, _SIZES[split]) for split in SPLITS}
    data = {split: [(one.text, one.label) for one in documents] for split, documents in drawn.items()}
    return train_small("classification", _STEPS, f"{_SETTINGS} {settings}", out, **data)


def untrained(run: Any, seed: int) -> Any:
    """A copy of the run with a newly drawn model."""
    fresh = copy.copy(run)
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(seed)
        fresh.model = run.task.build_model().eval()
    return fresh


class Counts(NamedTuple):
    """How often each verdict was given, by what is known of the maps."""

    planted: Counter[str]  # a deciding word has the largest weight
    other: Counter[str]  # another word has it
    permuted: Counter[str]  # the same maps with their weights in a random order

    def share(self, of: str, word: str) -> tuple[float, int]:
        """The share of a verdict among the maps that can be judged, and their number."""
        found: Counter[str] = getattr(self, of)
        judged = sum(found.values()) - found[UNJUDGED]
        return found[word] / judged if judged else float("nan"), judged


def count_verdicts(judged: Sequence[tuple[Judged, Callable[[int], bool]]], seed: int = 1) -> Counts:
    """Count the verdicts on one map of several inputs; each has a function that tells deciding keys by their number.

    Maps with rows of few keys are judged ten inputs together. Of several rows, at least half must have their largest
    weight on a deciding key.
    """
    counts, rng = Counts(Counter(), Counter(), Counter()), np.random.default_rng(seed)
    many = any(len(one.rows) > 1 or one.mechanism == "sentences" for one, _ in judged)
    for first in range(0, len(judged), _POOLED if many else 1):
        group = judged[first : first + _POOLED] if many else judged[first : first + 1]
        rows, right = [], []
        for one, decides in group:
            rows += one.rows
            for row, keys in zip(one.rows, one.keys, strict=True):
                if row.is_judgeable:
                    right.append(decides(keys[int(row.weights.argmax())]))
        verdict = judge(rows) if many else group[0][0].verdict
        known = counts.planted if right and sum(right) >= len(right) / 2 else counts.other
        if not right and not many:  # where no word matters alone: is one of the deciding ones among the first three?
            row, (one, decides) = group[0][0].rows[0], group[0]
            top = np.argsort(-row.weights, kind="stable")[:3]
            known = counts.planted if any(decides(one.keys[0][key]) for key in top) else counts.other
        known[verdict.word] += 1
        shuffled = [Row(rng.permutation(row.weights), row.effects, row.changes) for row in rows]
        counts.permuted[judge(shuffled, None if many else group[0][0].together).word] += 1
    return counts


def judge_documents(run: Any, documents: Sequence[Document]) -> dict[str, Counts]:
    """Count the verdicts on each map of a classifier, by its name, over documents that have deciding words."""
    found: dict[str, list[tuple[Judged, Callable[[int], bool]]]] = {}
    for document in documents:
        if not document.words:
            continue
        labels = type(run).explain(run.task, run.model, document.text).words.axis.labels
        deciding = {n for n, label in enumerate(labels) if label.lower().strip(".") in document.words}
        for one in type(run).judged(run.task, run.model, document.text, Choice()):
            key = deciding
            if one.mechanism == "sentences":
                (encoded,) = run.task.encode_texts([document.text])
                ends = np.cumsum([len(sentence) for sentence in encoded.sentences])
                key = {int(np.searchsorted(ends, n, side="right")) for n in deciding}
            found.setdefault(one.name, []).append((one, key.__contains__))
    return {name: count_verdicts(judged) for name, judged in found.items()}


def stages() -> tuple[Stage, ...]:
    """Train two networks and judge their maps; takes some seconds."""
    documents = draw(choose_one, "test", _SIZES["test"])
    runs = {name: train_on(choose_one, settings) for name, settings in _MODELS.items()}
    shown = next(one for one in documents if one.words)
    verdicts = {name: [*run.verdicts(shown.text).items()][-1] for name, run in runs.items()}
    counts = {name: [*judge_documents(run, documents).values()][-1] for name, run in runs.items()}
    fresh = {name: [*judge_documents(untrained(run, 1), documents).values()][-1] for name, run in runs.items()}
    columns = ("maps", "supported", "contradicted", "cannot be judged")
    kinds = ("planted", "other", "permuted")
    labels = {"planted": "a deciding word is first", "other": "another word is first", "permuted": "permuted weights"}
    tables = []
    for name in runs:
        rows = [(labels[kind], getattr(counts[name], kind)) for kind in kinds]
        rows.append(("untrained network", fresh[name].planted + fresh[name].other))
        values = [[sum(one.values()), *(one[word] for word in (SUPPORTED, CONTRADICTED, UNJUDGED))] for _, one in rows]
        tables.append(Table(f"{name}: how many maps", tuple(label for label, _ in rows), columns, double(values)))
    lines, right = [], []
    for name, run in runs.items():
        share, judged = counts[name].share("planted", SUPPORTED)
        labels_right = f"{name}: {score_on_test(run, 'accuracy'):.0%} of the labels are right"
        found = f"of its {judged} maps with a deciding word first {share:.0%} are supported"
        lines.append(f"{labels_right}; {found if judged else 'no map with a deciding word first can be judged'}.")
        right.append(share if judged else 0.0)
    return (
        _stage("documents", lines=[f"{shown.label}: {shown.text}"], train=_SIZES["train"]),
        _stage("rule"),
        _stage("one", lines=[f"{name}, {of}: {verdict.line}" for name, (of, verdict) in verdicts.items()]),
        _stage("counted", {name: table.values for name, table in zip(runs, tables, strict=True)}, *tables),
        _stage("meaning", {"right": double(right)}, lines=lines),
    )
