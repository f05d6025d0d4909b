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
from heed.lessons.parts import Script, Stage, double, table_of, train_small

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
_COLUMNS = ("total", "per token", "probability", "grammar")
_stage = Script("pizza")


def stages() -> tuple[Stage, ...]:
    """Train the model, count the bigrams, and rank; takes some seconds."""
    run = train_small("language_modelling", _STEPS, _SETTINGS, data="meals")
    texts = [document.text for document in run.examples("train")]
    asked = (*(f"{prompt} ____" for prompt in _PROMPTS.values()), f"candidates: {', '.join(_CHOICES)}")
    ends = ([f" {prompt[7:]} {choice}" for choice in _CHOICES] for prompt in _PROMPTS.values())  # without "I love "
    counts = double([[sum(text.endswith(end) for text in texts) for end in row] for row in ends])
    exact = ((prompt, sum(text.startswith(f"{prompt} ") for text in texts)) for prompt in _PROMPTS.values())
    shares = table_of(
        "how often each candidate follows in the training text",
        (f"... {prompt[7:]}" for prompt in _PROMPTS.values()),
        _CHOICES,
        counts / counts.sum(1, keepdim=True),
        heat=True,
        notes=tuple(f"of {int(n):,} sentences" for n in counts.sum(1)),
    )
    seen = " and ".join(f"'{prompt}' {count:,} times" for prompt, count in exact)
    return (
        _stage("question", lines=asked),
        _stage("training", shares=shares, count=len(texts), seen=seen),
        *(_ranked(run, name) for name in _PROMPTS),
        _bigram(texts),
    )


def _ranked(run: Any, name: str) -> Stage:
    prompt = _PROMPTS[name]
    ranked, true = run.rank(prompt, _CHOICES, end=True), distribution(prompt)
    values = double([[one.log_prob, one.per_token, math.exp(one.log_prob), true[one.choice]] for one in ranked])
    choices, other = ([one.choice for one in some] for some in (ranked, sorted(ranked, key=lambda one: -one.per_token)))
    notes = (zip(one.tokens, one.log_probs, strict=True) for one in ranked)  # the probability of each token
    said = tuple(" ".join(f"{t.replace(_BLANK, ' ').strip()} {math.exp(p):.2f}" for t, p in pairs) for pairs in notes)
    table = table_of(f"{prompt} ...", choices, _COLUMNS, values, notes=said)
    per_token = "in the same order" if other == choices else f"in another order ({', '.join(other)})"
    return _stage(name, table, prompt=prompt, order=per_token, **_named(values))


def _named(values: Tensor) -> dict[str, Tensor]:
    return {"total": values[:, 0], "per_token": values[:, 1], "probability": values[:, 2]}


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
    table = table_of("... with ____, after either prompt", (choice for *_, choice in rows), _COLUMNS[:3], values)
    return _stage("bigram", table, **_named(values))
