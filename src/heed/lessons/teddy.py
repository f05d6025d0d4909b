"""A lesson with training: is Teddy a person? Reading left to right cannot tell yet; reading both ways can.

Four small networks learn the embedded data `teddy` in a few seconds each. Two sentences that are equal up to the word
Teddy are then read word by word, and each network shows after which word it can distinguish them.
"""

from __future__ import annotations

from itertools import zip_longest

import torch
from torch.nn.utils.rnn import pad_sequence

from heed.lessons.parts import Script, Stage, table_of, train_small

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
    shown, right = [_stage("sentences", lines=map(" ".join, _PAIR))], []
    caption = "word by word: probability of (part of) a person, and distance between the states of the two sentences"
    words = [" / ".join(dict.fromkeys(filter(None, both))) for both in zip_longest(*_PAIR)]
    for name, (title, settings) in _NETWORKS.items():
        run = train_small("tagging", _STEPS, f"{_SETTINGS} {settings}", data="teddy")
        outside = run.head.labels.index("O")
        first, second = (1 - answer.probabilities[:, outside] for answer in run.answers(_PAIR))
        with torch.no_grad():
            states = [run.head.states(run.model, run.task.batch_of([words]))[0] for words in _PAIR]
        shared = min(map(len, _PAIR))
        apart = (states[0][:shared] - states[1][:shared]).norm(dim=-1)
        values = pad_sequence([first, second, apart], padding_value=torch.nan)
        test = run.report["scores"]["test"]
        right.append(test["per_word"]["Teddy"]["accuracy"]["value"])
        lines = (f"The word Teddy in {test['examples']} held-out sentences: {right[-1]:.1%} right.",)
        table = table_of(caption, words, ("1st sentence", "2nd sentence", "|h - h'|"), values, mask=~values.isnan())
        shown.append(_stage(name, table, lines=lines, title=title, first=first, second=second, apart=apart))
    accuracy, titles = torch.tensor(right), [title for title, _ in _NETWORKS.values()]
    return (*shown, _stage("result", right=accuracy, accuracy=accuracy, networks=titles))
