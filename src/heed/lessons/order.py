"""A lesson with training: words in the wrong order, and a sentence whose order cannot be judged.

A small network with Bahdanau's attention learns to put the words of generated sentences in order, and a trigram model
is counted from the same sentences. Both then give probabilities for some orders of the notes' two examples.
"""

from __future__ import annotations

import math
import tempfile
from itertools import permutations, product
from pathlib import Path
from random import Random
from typing import Any

import torch
from torch import Tensor

from heed.data.embedded.generated import SPLITS, Split, split_of
from heed.data.examples import Pair
from heed.data.kinds.pairs import shuffle_words, words_of
from heed.lessons.parts import Script, Stage, Table, double, train_small
from heed.tasks.translation.word_order import Trigrams, learn_trigrams

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
    "data.shuffle_source=words tokenizer.kind=word tokenizer.min_count=1 tokenizer.shared=true model.name=bahdanau "
    "model.size=tiny model.d_embedding=48 model.d_hidden=64 model.d_attention=48 training.batch_tokens=600 "
    "training.learning_rate=0.01 training.warmup=30 training.guided_attention=0.0 training.label_smoothing=0.0 "
    "generation.beam_size=1"
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


def _words(sentence: str) -> str:
    """The words of a sentence, regardless of order and punctuation."""
    return " ".join(sorted(word.strip(",") for word in words_of(sentence)[1]))


def stages() -> tuple[Stage, ...]:
    """Train the network, count the trigrams, and query both; takes some seconds."""
    drawn = {split: draw_sentences(split) for split in SPLITS}
    with tempfile.TemporaryDirectory() as name:
        files: dict[str, Any] = {split: _write(Path(name) / f"{split}.txt", drawn[split]) for split in SPLITS}
        run = train_small("translation", _STEPS, _SETTINGS, **files)
        trigrams = learn_trigrams(run.task)
        exact = torch.stack([_exact_match(run, set(texts)) for texts in drawn["test"].values()])
    kinds, caption = drawn["train"], "share of held-out sentences whose output is the reference"
    shown = [f"  {shuffle_words(text, 1)}   ->   {text}" for kind in kinds.values() for text in kind[:3]]
    counts: dict[str, Any] = {kind: len(texts) for kind, texts in kinds.items()}
    rows, columns = ("one good order", "two good orders"), ("network", "trigrams", "shuffled input")
    judged = Table(caption, rows, columns, exact, heat=True)
    return (
        _stage("task", lines=[f"{source}   ->   {right}" for source, right in (_TIME, _MOVIE)]),
        _stage("training", lines=shown, all=sum(counts.values()), **counts),
        _asked(run, trigrams, "time", _TIME, _TIME_ORDERS),
        _asked(run, trigrams, "movie", _MOVIE, _MOVIE_ORDERS),
        _stage("judged", {"exact_match": exact}, judged, count=len(drawn["test"]["two"])),
    )


def _write(path: Path, texts: dict[str, list[str]]) -> str:
    path.write_text("".join(f"{text}\n" for kind in texts.values() for text in kind), encoding="utf-8")
    return str(path)


def _exact_match(run: Any, targets: set[str]) -> Tensor:
    """Exact match on the test sentences with these targets: of the network, the trigrams and the shuffled input."""
    examples = [pair for pair in run.examples("test") if pair.target in targets]
    shuffled, ordered = run.baselines(examples).values()
    outcomes = (run.outcomes(examples), ordered, shuffled)
    return double([one.measure("exact_match").score() for one in outcomes])


def _asked(run: Any, trigrams: Trigrams, name: str, example: tuple[str, str], orders: tuple[str, ...]) -> Stage:
    source, right = example
    nll = run.task.forced_scores(run.model, run.task.encode_pairs([Pair(source, order) for order in orders]))[0]
    network = double([math.exp(-one) for one in nll])
    _, words, closing = words_of(source)
    logs = {order: trigrams.score([*order, closing]) for order in set(permutations(words))}
    total = math.fsum(map(math.exp, logs.values()))
    counted = double([math.exp(logs[tuple(words_of(order)[1])]) / total for order in orders])
    values, notes = torch.stack([network, counted], dim=1), tuple("the reference" * (one == right) for one in orders)
    title = f"probability of some of the {len(logs):,} orders"
    table = Table(title, orders, ("network", "trigrams"), values, heat=True, notes=notes)
    said = (f"given {source}", f"the network writes {run.predict(source).text}", f"the reference is {right}")
    return _stage(name, {"network": network, "trigrams": counted}, table, lines=said)
