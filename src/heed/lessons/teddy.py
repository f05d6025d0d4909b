"""A lesson with training: is Teddy a person? Reading left to right cannot tell yet; reading both ways can.

Four small networks learn the embedded data `teddy` in a few seconds each. Two sentences that are equal up to the word
Teddy are then read word by word, and each network shows after which word it can distinguish them.
"""

from __future__ import annotations

import torch

from heed.lessons.parts import Script, Stage, Table, train_small

TITLE = "He said Teddy bear is soft. He said Teddy Roosevelt was a President."
_PAIR = ("He said Teddy Roosevelt was a President".split(), "He said Teddy bear is soft".split())
_STEPS = 150
_SETTINGS = (
    "data.train=600 data.valid=100 data.test=200 evaluation.words=[Teddy] model.d_embedding=16 model.d_hidden=16 "
    "model.dropout=0.0 training.batch_tokens=300 training.learning_rate=0.02 training.warmup=5"
)
_NETWORKS = {
    "forward": ("from left to right", "model.bidirectional=false"),
    "both": ("in both directions", "model.bidirectional=true"),
    "backward": ("from right to left", "model.bidirectional=false model.backward=true"),
    "delay": ("from left to right, one word late", "model.bidirectional=false model.delay=1"),
}
_stage = Script("teddy")


def stages() -> tuple[Stage, ...]:
    """Train the networks and read both sentences with each; takes some seconds."""
    shown = [_read(name) for name in _NETWORKS]
    right = torch.tensor([accuracy for _, accuracy in shown])
    titles = tuple(title for title, _ in _NETWORKS.values())
    caption = "share of held-out sentences with the right tag on Teddy"
    table = Table(caption, titles, ("right",), right.unsqueeze(1), heat=True)
    first = _stage("sentences", lines=map(" ".join, _PAIR))
    return (first, *(stage for stage, _ in shown), _stage("result", {"accuracy": right}, table))


def _read(name: str) -> tuple[Stage, float]:
    title, settings = _NETWORKS[name]
    run = train_small("tagging", _STEPS, f"{_SETTINGS} {settings}", data="teddy")
    outside = run.head.labels.index("O")
    person = [1 - one.probabilities[:, outside] for one in run.answers(_PAIR)]
    with torch.no_grad():
        states = [run.head.states(run.model, run.task.batch_of([words]))[0] for words in _PAIR]
    length, shared = max(map(len, _PAIR)), min(map(len, _PAIR))
    apart = (states[0][:shared] - states[1][:shared]).norm(dim=-1)
    values, mask = torch.zeros(length, 3), torch.zeros(length, 3, dtype=torch.bool)
    for column, one in enumerate((*person, apart)):
        values[: len(one), column], mask[: len(one), column] = one, True
    test = run.report["scores"]["test"]
    accuracy = test["per_word"]["Teddy"]["accuracy"]["value"]
    caption = "word by word: probability of (part of) a person, and distance between the states of the two sentences"
    words = tuple(" / ".join(dict.fromkeys(one[t] for one in _PAIR if t < len(one))) for t in range(length))
    table = Table(caption, words, ("1st sentence", "2nd sentence", "|h - h'|"), values, mask=mask)
    numbers = {"first": person[0], "second": person[1], "apart": apart}
    lines = (f"The word Teddy in {test['examples']} held-out sentences: {accuracy:.1%} right.",)
    return _stage(name, numbers, table, lines=lines, title=title), accuracy
