"""A lesson with training: words in the wrong order, and a sentence whose order cannot be judged.

A small network with Bahdanau's attention learns to put the words of generated sentences in order. It then gives
probabilities for some orders of the notes' two examples.
"""

from __future__ import annotations

import math
from itertools import permutations, product
from random import Random
from typing import Any

import torch
from torch import Tensor

from heed.data.embedded.generated import SPLITS, Split, split_of
from heed.data.examples import Pair
from heed.lessons.parts import Script, Stage, Table, double, train_small

TITLE = "What is now time it? The imaginative was brisk, fun and movie."
_TIME = ("What is now time it?", "What time is it now?")
_MOVIE = ("The imaginative was brisk, fun and movie", "The movie was brisk, fun and imaginative")
_TIME_ORDERS = (
    *("What time is it now?", "What is it now time?", "What is time it now?", "What it is now time?"),
    *("now What time is it?", "What is now time it?"),
)
_MOVIE_ORDERS = (
    *("The movie was brisk, fun and imaginative", "The movie was brisk, imaginative and fun"),
    *("The imaginative movie was brisk, and fun", "The fun movie was brisk, and imaginative"),
    *("brisk, The movie was fun and imaginative", "The imaginative was brisk, fun and movie"),
)
_WHEN = ("now", "today", "here", "in Rome", "in Lagos", "at home", "there")
_WHAT = ("time", "day", "month", "year", "season", "hour")
_HOW = ("late", "early", "cold", "warm", "dark", "quiet", "busy")
_NOUNS = ("movie", "book", "play", "song", "game", "story", "show", "concert")
_VERBS = ("was", "is", "seemed")
_ADJECTIVES = ("brisk", "fun", "imaginative", "long", "clever", "loud", "strange")
_STEPS = 600
_EACH = {"train": 1_500, "valid": 40, "test": 100}
"""Number of sentences of each kind, if the grammar has as many."""
_SETTINGS = (
    "tokenizer.kind=word tokenizer.min_count=1 tokenizer.shared=true model.name=bahdanau "
    "model.size=tiny model.d_embedding=48 model.d_hidden=64 model.d_attention=48 training.batch_tokens=600 "
    "training.learning_rate=0.01 training.warmup=30 training.guided_attention=0.0 training.label_smoothing=0.0 "
    "generation.beam_size=1 evaluation.select_by=exact_match"
)
_stage = Script("order")


def sentences() -> dict[str, list[str]]:
    """All sentences of the grammar, by the number of orders of their words that are sentences of the grammar."""
    one = [f"What {what} is it {when}?" for what, when in product(_WHAT, _WHEN)]
    one += [f"What is the {what} {when}?" for what, when in product(_WHAT, _WHEN)]
    one += [f"Is it {how} {when}?" for how, when in product(_HOW, _WHEN)]
    one += [f"It is {how} {when}." for how, when in product(_HOW, _WHEN)]
    said = product(_NOUNS[:4], _VERBS, _ADJECTIVES, _WHEN)
    one += [f"The {noun} {verb} {how} {when}." for noun, verb, how, when in said]
    two = [
        f"The {noun} {verb} {a}, {b} and {c}"
        for noun, verb in product(_NOUNS, _VERBS)
        for a, b, c in permutations(_ADJECTIVES, 3)
    ]
    return {"one": one, "two": two}


def draw_sentences(split: Split) -> dict[str, list[str]]:
    """The sentences of a split by kind; no sentence has the words of one in another split or of the notes' examples."""
    notes = {_words(right) for _, right in (_TIME, _MOVIE)}
    drawn = {}
    for kind, every in sentences().items():
        mine = [text for text in every if split_of(_words(text)) == split and _words(text) not in notes]
        Random(f"{split}:{kind}").shuffle(mine)
        drawn[kind] = mine[: _EACH[split]]
    return drawn


def words_of(sentence: str) -> tuple[list[str], str]:
    """The words of a sentence, and the punctuation that ends it."""
    text = sentence.rstrip(".?")
    return text.split(), sentence[len(text) :]


def shuffle_words(sentence: str) -> str:
    """The words of a sentence in another order, drawn by the sentence; the punctuation that ends it stays there."""
    words, closing = words_of(sentence)
    drawn, rng = list(words), Random(f"1:{sentence}")
    while drawn == words:
        rng.shuffle(drawn)
    return " ".join(drawn) + closing


def _words(sentence: str) -> str:
    """The words of a sentence, regardless of order and punctuation."""
    return " ".join(sorted(word.strip(",") for word in words_of(sentence)[0]))


def stages() -> tuple[Stage, ...]:
    """Train the network and query it; takes some seconds."""
    drawn = {split: draw_sentences(split) for split in SPLITS}
    pairs: dict[str, Any] = {
        split: [(shuffle_words(text), text) for texts in kinds.values() for text in texts]
        for split, kinds in drawn.items()
    }
    run = train_small("translation", _STEPS, _SETTINGS, **pairs)
    exact = torch.stack([_exact_match(run, set(texts)) for texts in drawn["test"].values()])
    kinds, caption = drawn["train"], "share of held-out sentences whose output is the reference"
    shown = [f"  {shuffle_words(text)}   ->   {text}" for kind in kinds.values() for text in kind[:3]]
    counts: dict[str, Any] = {kind: len(texts) for kind, texts in kinds.items()}
    rows, columns = ("one good order", "two good orders"), ("network", "shuffled input")
    judged = Table(caption, rows, columns, exact, heat=True)
    return (
        _stage("task", lines=[f"{source}   ->   {right}" for source, right in (_TIME, _MOVIE)]),
        _stage("training", lines=shown, all=sum(counts.values()), **counts),
        _asked(run, "time", _TIME, _TIME_ORDERS),
        _asked(run, "movie", _MOVIE, _MOVIE_ORDERS),
        _stage("judged", {"exact_match": exact}, judged, count=len(drawn["test"]["two"])),
    )


def _exact_match(run: Any, targets: set[str]) -> Tensor:
    """Exact match on the test sentences with these targets: of the network and the shuffled input."""
    examples = [pair for pair in run.examples("test") if pair.target in targets]
    unchanged = sum(pair.source == pair.target for pair in examples)
    return double([run.outcomes(examples).measure("exact_match").score(), unchanged / len(examples)])


def _asked(run: Any, name: str, example: tuple[str, str], orders: tuple[str, ...]) -> Stage:
    source, right = example
    nll = run.task.judged(run.model, run.input.encode([Pair(source, order) for order in orders]))[:, 0]
    network, notes = double([math.exp(-one) for one in nll]), tuple("the reference" * (one == right) for one in orders)
    title = f"probability of some of the {len(set(permutations(words_of(source)[0]))):,} orders"
    table = Table(title, orders, ("network",), network[:, None], heat=True, notes=notes)
    said = (f"given {source}", f"the network writes {run.predict(source).text}", f"the reference is {right}")
    return _stage(name, {"network": network}, table, lines=said)
