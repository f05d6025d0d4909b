"""A lesson with training: a sentence that begins well and ends badly. Does a recurrent network forget the beginning?

A small network learns from generated reviews twice: first from reviews of one opinion only, then also from reviews of
two halves, which are neutral if the halves disagree. Between the halves are few or many words that say nothing.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch
from torch import Tensor

from heed.lessons.parts import WORD_MODEL, Script, Stage, double, sentences_of, train_small

TITLE = "The first half of the movie was great, but then it was a bit of a mess."
_TURNED = "The first half of the movie was a bit of a mess, but then it was great."
_SHOWN = (TITLE, _TURNED, "The movie was fun, brisk and imaginative.")
_TRUE = ("neutral", "neutral", "positive")
_LABELS = ("negative", "neutral", "positive")
_FARTHEST = 32  # clauses of filler between the halves of the test; in training at most 4
_MOSTLY = 0.9  # share of correct answers from which the network counts as having learned the task
_STEPS = {"short": 150, "halves": 600}
_SETTINGS = (
    f"{WORD_MODEL} tokenizer.lowercase=true model.name=rnn model.cell=rnn model.pooling=last model.bidirectional=false "
    "model.d_embedding=32 model.d_hidden=32 training.batch_tokens=1500 training.learning_rate=0.005 training.warmup=20"
)
_stage = Script("mess")


def stages() -> tuple[Stage, ...]:
    """Train the network on both kinds of data and query it; takes some seconds."""
    data = sentences_of("mess")
    runs = {kind: train_small("classification", n, _SETTINGS, **data[kind]) for kind, n in _STEPS.items()}
    words = TITLE.split()
    probabilities = _probabilities(runs, _SHOWN)
    read = _probabilities(runs, [" ".join(words[: i + 1]) for i in range(len(words))])
    texts, labels = zip(*data[str(_FARTHEST)]["test"], strict=True)
    answers = [prediction.label for prediction in runs["halves"].predict(list(texts))]
    far = sum(map(str.__eq__, answers, labels)) / len(labels)
    first, turned, halves = _label(probabilities[0, :3]), _label(probabilities[1, :3]), _label(probabilities[0, 3:])
    return (
        _stage("sentences", lines=[f"{text}   {label}" for text, label in zip(_SHOWN, _TRUE, strict=True)]),
        _stage("answers", answers=probabilities),
        _stage("words", words=read, read=words),
        _stage(
            "result",
            **{"short": first, "short_sure": probabilities[0, :3].max(), "turned": turned, "far": double(far)},
            **{"halves": halves, "halves_sure": probabilities[0, 3:].max(), "farthest": _FARTHEST},
            last_words=first == "negative" and turned == "positive",
            keeps=halves == "neutral" and far > _MOSTLY,
        ),
    )


def _probabilities(runs: dict[str, Any], texts: Sequence[str]) -> Tensor:
    """The probabilities of each text's labels, from one run after the other: `(texts, runs * labels)`."""
    columns = {kind: [run.head.labels.index(label) for label in _LABELS] for kind, run in runs.items()}
    return torch.cat([run.probabilities(list(texts))[:, columns[kind]].double() for kind, run in runs.items()], dim=1)


def _label(probabilities: Tensor) -> str:
    return _LABELS[int(probabilities.argmax())]
