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

from heed.data.embedded.texts import distribution
from heed.errors import DataError
from heed.lessons.parts import Script, Stage, Table, double, score_on_test, train_small

TITLE = "I love eating pizza with ____. I love playing with ____."
_PROMPTS = {"pizza": "I love eating pizza with", "playing": "I love playing with"}
_ELSEWHERE = ("Anna enjoys eating pizza with", "I love eating soup with", "I love walking with", "I love with")
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
    found = ({one.choice: math.exp(one.log_prob) for one in run.rank(p, _CHOICES, end=True)} for p in _ELSEWHERE)
    values = double([[ranked[choice] for choice in _CHOICES] for ranked in found])
    table = Table("probability", _ELSEWHERE, _CHOICES, values, heat=True)
    perplexity, said = score_on_test(run, "perplexity"), map(_said_of, _ELSEWHERE)
    return (
        _stage("question", lines=asked),
        _trained_on(texts),
        *(_ranked(run, name) for name in _PROMPTS),
        _bigram(texts),
        _stage("elsewhere", {"probability": values}, table, lines=said, perplexity=perplexity),
    )


def _trained_on(texts: Sequence[str]) -> Stage:
    """How often each candidate follows either activity in the training text, for any subject of the sentence."""
    activities = [prompt.removeprefix("I love ") for prompt in _PROMPTS.values()]
    ends = ([sum(text.endswith(f" {a} {choice}") for text in texts) for choice in _CHOICES] for a in activities)
    counts = double(list(ends))
    shares, notes = counts / counts.sum(1, keepdim=True), tuple(f"of {int(n):,} sentences" for n in counts.sum(1))
    rows = tuple(f"... {activity}" for activity in activities)
    caption = "how often each candidate follows in the training text"
    table = Table(caption, rows, _CHOICES, shares, heat=True, notes=notes)
    exact = ((prompt, sum(text.startswith(f"{prompt} ") for text in texts)) for prompt in _PROMPTS.values())
    seen = " and ".join(f"'{prompt}' {count:,} times" for prompt, count in exact)
    return _stage("training", {"shares": shares}, table, count=len(texts), seen=seen)


def _ranked(run: Any, name: str) -> Stage:
    prompt = _PROMPTS[name]
    ranked, true = run.rank(prompt, _CHOICES, end=True), distribution(prompt)
    values = double([[one.log_prob, one.per_token, math.exp(one.log_prob), true[one.choice]] for one in ranked])
    choices, other = ([one.choice for one in some] for some in (ranked, sorted(ranked, key=lambda one: -one.per_token)))
    notes = (zip(one.tokens, one.log_probs, strict=True) for one in ranked)  # the probability of each token
    said = tuple(" ".join(f"{t.replace(_BLANK, ' ').strip()} {math.exp(p):.2f}" for t, p in pairs) for pairs in notes)
    table = Table(f"{prompt} ...", tuple(choices), _COLUMNS, values, notes=said)
    per_token = "in the same order" if other == choices else f"in another order ({', '.join(other)})"
    numbers = {"total": values[:, 0], "per_token": values[:, 1], "probability": values[:, 2]}
    return _stage(name, numbers, table, prompt=prompt, per_token=per_token)


def _bigram(texts: Sequence[str]) -> Stage:
    """The bigram model: relative frequencies of pairs of words."""
    pairs, before = Counter[tuple[str, str]](), Counter[str]()
    for text in texts:
        pairs.update(pairwise([*text.split(), _END]))
    for (word, _), count in pairs.items():
        before[word] += count
    rows = []
    for choice in _CHOICES:
        logs = [math.log(pairs[pair] / before[pair[0]]) for pair in pairwise(["with", *choice.split(), _END])]
        rows.append((choice, math.fsum(logs), len(logs)))
    rows.sort(key=lambda row: -row[1])
    values = double([[total, total / tokens, math.exp(total)] for _, total, tokens in rows])
    table = Table("... with ____, after either prompt", tuple(choice for choice, *_ in rows), _COLUMNS[:3], values)
    return _stage("bigram", {"total": values[:, 0], "per_token": values[:, 1], "probability": values[:, 2]}, table)


def _said_of(prompt: str) -> str:
    """The grammar's own continuations."""
    try:
        return f"{prompt} {' | '.join(f'{choice} {p:g}' for choice, p in distribution(prompt).items())}"
    except DataError:
        return f"{prompt}: the grammar has no such prompt"
