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

from heed.errors import DataError
from heed.lessons.parts import Stage, Table, double
from heed.lessons.training import train_small
from heed.tasks.language_modelling.meals import distribution
from heed.tasks.language_modelling.ranking import RankedChoice

TITLE = "I love eating pizza with ____. I love playing with ____."
_PROMPTS = {"pizza": "I love eating pizza with", "playing": "I love playing with"}
_CHOICES = ("chilli flakes", "my friend", "sand")
_STEPS = 500
_SETTINGS: dict[str, Any] = {
    "data.valid": 200,
    "data.test": 400,
    "model.name": "gpt",
    "model.size": "tiny",
    "model.d_model": 64,
    "model.num_layers": 1,
    "model.positions": "learned",
    "training.batch_tokens": 1_024,
    "training.learning_rate": 0.01,
    "training.warmup": 20,
}
_END = "</s>"
_BLANK = "\u2581"  # marks the space before a word in a token
_COLUMNS = ("total", "per token", "probability", "grammar")


def pizza_stages() -> tuple[Stage, ...]:
    """Train the model, count the bigrams, and rank; takes some seconds."""
    run = train_small("language_modelling", _STEPS, _SETTINGS, data="meals")
    texts = [document.text for document in run.examples("train")]
    perplexity = run.report["scores"]["test"]["perplexity"]["value"]
    return (
        _question(),
        _trained_on(texts),
        *(_ranked(run, name) for name in _PROMPTS),
        _bigram(texts),
        _decides(run, perplexity),
    )


def _question() -> Stage:
    return Stage(
        "question",
        "which continuation is the most probable?",
        (
            "A language model gives each next token a probability. The probability of a continuation is the product "
            "over its tokens, here including the end of the sentence.",
            "A longer continuation has more factors, none above 1; the mean per token is therefore shown as well.",
        ),
        "log p(choice | prompt) = sum of log p(token | all before it)",
        lines=(*(f"{prompt} ____" for prompt in _PROMPTS.values()), f"candidates: {', '.join(_CHOICES)}"),
    )


def _trained_on(texts: Sequence[str]) -> Stage:
    """How often each candidate follows either activity in the training text, for any subject of the sentence."""
    activities = [prompt.removeprefix("I love ") for prompt in _PROMPTS.values()]
    counts = double(
        [[sum(text.endswith(f" {a} {choice}") for text in texts) for choice in _CHOICES] for a in activities]
    )
    exact = [sum(text.startswith(f"{prompt} ") for text in texts) for prompt in _PROMPTS.values()]
    totals = counts.sum(1).long().tolist()
    shares = counts / counts.sum(1, keepdim=True)
    table = Table(
        "how often each candidate follows in the training text",
        tuple(f"... {activity}" for activity in activities),
        _CHOICES,
        shares,
        heat=True,
        notes=tuple(f"of {total:,} sentences" for total in totals),
    )
    seen = " and ".join(f"'{prompt}' {count:,} times" for prompt, count in zip(_PROMPTS.values(), exact, strict=True))
    return Stage(
        "training",
        "the training text decides",
        (
            f"{len(texts):,} sentences of a grammar written for this lesson (heed train language_modelling "
            "data.name=meals). It has 'chilli flakes', 'my friend' and 'sand' with probabilities 0.7, 0.2, 0.1 after "
            "pizza, and 0.1, 0.7, 0.2 after playing, whoever eats or plays.",
            "We chose these numbers. That sand comes last on a pizza is a fact of this text; the model knows nothing "
            "about food, and another text would give another ranking.",
        ),
        "",
        {"shares": shares},
        (table,),
        lines=(f"The training text contains {seen}.",),
    )


_SAYS = {
    "pizza": "Total: the natural logarithm of the probability. Per token: the total divided by the number of tokens, "
    "including the end of the sentence. Grammar: the true probability. Last: the probability of each token.",
    "playing": "The same candidates in another order, because the verb before 'with' is another.",
}


def _ranked(run: Any, name: str) -> Stage:
    prompt = _PROMPTS[name]
    ranked, true = run.rank(prompt, _CHOICES, end=True), distribution(prompt)
    values = double([[one.log_prob, one.per_token, math.exp(one.log_prob), true[one.choice]] for one in ranked])
    other = sorted(ranked, key=lambda one: -one.per_token)
    notes = tuple(map(_by_token, ranked))
    table = Table(f"{prompt} ...", tuple(one.choice for one in ranked), _COLUMNS, values, notes=notes)
    same = [one.choice for one in other] == [one.choice for one in ranked]
    per_token = "in the same order" if same else f"in another order ({', '.join(one.choice for one in other)})"
    return Stage(
        name,
        f"{prompt} ____",
        (_SAYS[name], f"By the value per token, the candidates are {per_token}."),
        "",
        {"total": values[:, 0], "per_token": values[:, 1], "probability": values[:, 2]},
        (table,),
    )


def _by_token(one: RankedChoice) -> str:
    """The probability of each token."""
    pairs = zip(one.tokens, one.log_probs, strict=True)
    return " ".join(f"{token.replace(_BLANK, ' ').strip()} {math.exp(value):.2f}" for token, value in pairs)


def _bigram(texts: Sequence[str]) -> Stage:
    """The bigram model: relative frequencies of pairs of words."""
    pairs: Counter[tuple[str, str]] = Counter()
    for text in texts:
        words = [*text.split(), _END]
        pairs.update(pairwise(words))
    before: Counter[str] = Counter()
    for (word, _), count in pairs.items():
        before[word] += count
    logs = []
    for choice in _CHOICES:
        words = ["with", *choice.split(), _END]
        logs.append([math.log(pairs[pair] / before[pair[0]]) for pair in pairwise(words)])
    totals = [math.fsum(log) for log in logs]
    order = sorted(range(len(_CHOICES)), key=lambda i: -totals[i])
    values = double([[totals[i], totals[i] / len(logs[i]), math.exp(totals[i])] for i in order])
    table = Table("... with ____, after either prompt", tuple(_CHOICES[i] for i in order), _COLUMNS[:3], values)
    return Stage(
        "bigram",
        "a model that does not see the verb",
        (
            "A bigram model sees one word back. Both prompts end in 'with', so its answer to both is the same, and "
            "right for at most one. Its probabilities are small, because all words that follow any 'with' share them.",
            "More text does not help: the deciding word is two or three words back, out of its reach.",
        ),
        "p(word | all before it) = p(word | the word before it) = count of the pair / count of the word before",
        {"total": values[:, 0], "per_token": values[:, 1], "probability": values[:, 2]},
        (table,),
    )


def _decides(run: Any, perplexity: float) -> Stage:
    prompts = ("Anna enjoys eating pizza with", "I love eating soup with", "I love walking with", "I love with")
    rows = []
    for prompt in prompts:
        ranked = {one.choice: math.exp(one.log_prob) for one in run.rank(prompt, _CHOICES, end=True)}
        rows.append([ranked[choice] for choice in _CHOICES])
    values = double(rows)
    return Stage(
        "elsewhere",
        "the same candidates after other prompts",
        (
            "After soup the model gives almost no probability to any of them: in its text, soup is eaten with other "
            "things. A ranking always has a first place; only the probabilities tell whether it means anything.",
            f"Perplexity per token on held-out sentences: {perplexity:.2f}.",
        ),
        "",
        {"probability": values},
        (Table("probability", prompts, _CHOICES, values, heat=True),),
        lines=tuple(map(_said_of, prompts)),
    )


def _said_of(prompt: str) -> str:
    """The grammar's own continuations."""
    try:
        return f"{prompt} {' | '.join(f'{choice} {p:g}' for choice, p in distribution(prompt).items())}"
    except DataError:
        return f"{prompt}: the grammar has no such prompt"
