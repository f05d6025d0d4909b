"""A lesson with training: three continuations of two prompts, ranked by a small language model.

A GPT of one block learns the embedded data `meals` in some seconds and ranks the notes' three candidates after both
prompts. It is compared with a bigram model of the same text, which no longer sees the verb when it reads "with".
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Sequence
from itertools import pairwise
from typing import Any

from torch import Tensor

from heed.data.embedded.texts import distribution
from heed.lessons.parts import Script, Stage, double, train_small

TITLE = "I love eating pizza with ____. I love playing with ____."
_PROMPTS = {"pizza": "I love eating pizza with", "playing": "I love playing with"}
_CHOICES = ("chilli flakes", "my friend", "sand")
_STEPS = 500
_SETTINGS = (
    "data.valid=200 data.test=400 model.name=gpt model.size=tiny model.d_model=64 model.num_layers=1 "
    "model.positions=learned training.batch_tokens=1024 training.learning_rate=0.01 training.warmup=20"
)
_END = "</s>"
_BLANK = "\u2581"  # marks the space before a word in a token
_stage = Script("pizza", choices=_CHOICES)


def stages() -> tuple[Stage, ...]:
    """Train the model, count the bigrams, and rank; takes some seconds."""
    run = train_small("language_modelling", _STEPS, _SETTINGS, data="meals")
    texts = [document.text for document in run.examples("train")]
    asked = (*(f"{prompt} ____" for prompt in _PROMPTS.values()), f"candidates: {', '.join(_CHOICES)}")
    ends = ([f" {prompt[7:]} {choice}" for choice in _CHOICES] for prompt in _PROMPTS.values())  # without "I love "
    counts = double([[sum(text.endswith(end) for text in texts) for end in row] for row in ends])
    exact = ((prompt, sum(text.startswith(f"{prompt} ") for text in texts)) for prompt in _PROMPTS.values())
    frequencies, notes = counts / counts.sum(1, keepdim=True), [f"of {int(n):,} sentences" for n in counts.sum(1)]
    seen = " and ".join(f"'{prompt}' {count:,} times" for prompt, count in exact)
    return (
        _stage("question", lines=asked),
        _stage("training", shares=frequencies, shares_notes=notes, count=len(texts), seen=seen),
        *(_ranked(run, name) for name in _PROMPTS),
        _bigram(texts),
    )


def _ranked(run: Any, name: str) -> Stage:
    prompt = _PROMPTS[name]
    ranked, true = run.rank(prompt, _CHOICES, end=True), distribution(prompt)
    values = double([[item.log_prob, item.per_token, math.exp(item.log_prob), true[item.choice]] for item in ranked])
    choices = [item.choice for item in ranked]
    other = [item.choice for item in sorted(ranked, key=lambda item: -item.per_token)]
    tokens = (zip(item.tokens, item.log_probs, strict=True) for item in ranked)
    notes = tuple(" ".join(f"{t.replace(_BLANK, ' ').strip()} {math.exp(p):.2f}" for t, p in pairs) for pairs in tokens)
    per_token = "in the same order" if other == choices else f"in another order ({', '.join(other)})"
    return _stage(name, prompt=prompt, order=per_token, ranked=choices, values_notes=notes, **_named(values))


def _named(values: Tensor) -> dict[str, Tensor]:
    return {"values": values, "total": values[:, 0], "per_token": values[:, 1], "probability": values[:, 2]}


def _bigram(texts: Sequence[str]) -> Stage:
    """The bigram model: relative frequencies of pairs of words."""
    pairs = Counter(pair for text in texts for pair in pairwise([*text.split(), _END]))
    before, rows = Counter[str](), []
    for (word, _), count in pairs.items():
        before[word] += count
    for choice in _CHOICES:
        logs = [math.log(pairs[pair] / before[pair[0]]) for pair in pairwise(["with", *choice.split(), _END])]
        rows.append((math.fsum(logs), math.fsum(logs) / len(logs), math.exp(math.fsum(logs)), choice))
    rows.sort(reverse=True)
    values = double([row[:3] for row in rows])
    return _stage("bigram", ranked=[choice for *_, choice in rows], **_named(values))
