"""A lesson with training: is Teddy a person? Reading left to right cannot tell yet; reading both ways can.

Four small networks learn the embedded data `teddy` in a few seconds each. Two sentences that are equal up to the word
Teddy are then read word by word, and each network shows after which word it can distinguish them.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

from heed.lessons.parts import Stage, Table
from heed.lessons.training import train_small

TITLE = "He said Teddy bear is soft. He said Teddy Roosevelt was a President."
_PAIR = ("He said Teddy Roosevelt was a President".split(), "He said Teddy bear is soft".split())
_STEPS = 150
_SETTINGS: dict[str, Any] = {
    "data.train": 600,
    "data.valid": 100,
    "data.test": 200,
    "model.d_embedding": 16,
    "model.d_hidden": 16,
    "model.dropout": 0.0,
    "training.batch_tokens": 300,
    "training.learning_rate": 0.02,
    "training.warmup": 5,
    "evaluation.words": ["Teddy"],
}


@dataclass(frozen=True)
class _Network:
    name: str
    title: str
    prose: tuple[str, ...]
    equation: str
    settings: dict[str, Any]


_NETWORKS = (
    _Network(
        "forward",
        "from left to right",
        (
            "Up to and including Teddy the two sentences have the same words, so the states are the same numbers.",
            "The network therefore gives both the same tag at Teddy, right in one and wrong in the other, however "
            "large it is.",
        ),
        "h(t) = cell(x(t), h(t-1))        tag(t) from h(t)",
        {"model.bidirectional": False},
    ),
    _Network(
        "both",
        "in both directions",
        ("A second network reads from the end: at Teddy, its state has seen the words that follow.",),
        "g(t) = cell(x(t), g(t+1))        tag(t) from [h(t) ; g(t)]",
        {"model.bidirectional": True},
    ),
    _Network(
        "backward",
        "from right to left",
        ("A control: one direction is enough if it is the right one. On mirrored sentences it is the wrong one.",),
        "g(t) = cell(x(t), g(t+1))        tag(t) from g(t)",
        {"model.bidirectional": False, "model.backward": True},
    ),
    _Network(
        "delay",
        "from left to right, one word late",
        (
            "A control: the network reads from left to right and gives each tag one word later.",
            "One more word was missing, not a second network.",
        ),
        "h(t) = cell(x(t), h(t-1))        tag(t) from h(t+1)",
        {"model.bidirectional": False, "model.delay": 1},
    ),
)


def teddy_stages() -> tuple[Stage, ...]:
    """Train the networks and read both sentences with each; takes some seconds."""
    shown = [_read(network) for network in _NETWORKS]
    return (_sentences(), *(stage for stage, _ in shown), _result([accuracy for _, accuracy in shown]))


def _sentences() -> Stage:
    return Stage(
        "sentences",
        "two sentences that are equal up to Teddy",
        (
            "In which of them is Teddy a person? Only the word after it tells.",
            "All sentences of the data come in such pairs (heed train tagging data.name=teddy).",
        ),
        "",
        lines=tuple(" ".join(words) for words in _PAIR),
    )


def _read(network: _Network) -> tuple[Stage, float]:
    run = train_small("tagging", _STEPS, {**_SETTINGS, **network.settings}, data="teddy")
    outside = run.task.labels.index("O")
    person = [1 - probabilities[:, outside] for _, probabilities in run.tagged(_PAIR)]
    states = []
    with torch.no_grad():
        for encoded in run.task.encode_words(_PAIR):
            states.append(run.task.hidden(run.model, run.task.collate_encoded([encoded], [0]))[0])
    length, shared = max(map(len, _PAIR)), min(map(len, _PAIR))
    values, mask = torch.zeros(length, 3), torch.zeros(length, 3, dtype=torch.bool)
    for column, one in enumerate(person):
        values[: len(one), column], mask[: len(one), column] = one, True
    apart = (states[0][:shared] - states[1][:shared]).norm(dim=-1)
    values[:shared, 2], mask[:shared, 2] = apart, True
    accuracy = run.report["scores"]["test"]["per_word"]["Teddy"]["accuracy"]["value"]
    table = Table(
        "word by word: probability of (part of) a person, and distance between the states of the two sentences",
        tuple(_label(t) for t in range(length)),
        ("1st sentence", "2nd sentence", "|h - h'|"),
        values,
        mask=mask,
    )
    numbers: dict[str, Tensor] = {"first": person[0], "second": person[1], "apart": apart}
    lines = (f"The word Teddy in {run.report['scores']['test']['examples']} held-out sentences: {accuracy:.1%} right.",)
    return Stage(network.name, network.title, network.prose, network.equation, numbers, (table,), lines=lines), accuracy


def _label(place: int) -> str:
    words = dict.fromkeys(sentence[place] for sentence in _PAIR if place < len(sentence))
    return " / ".join(words)


def _result(accuracies: list[float]) -> Stage:
    return Stage(
        "result",
        "the word Teddy",
        ("More units or more training do not help the first network: it has not yet read the word that decides.",),
        "",
        {"accuracy": torch.tensor(accuracies)},
        (
            Table(
                "share of held-out sentences with the right tag on Teddy",
                tuple(network.title for network in _NETWORKS),
                ("right",),
                torch.tensor(accuracies).unsqueeze(1),
                heat=True,
            ),
        ),
    )
