"""A lesson with training: words in the wrong order, and a sentence whose order cannot be judged.

A small network with Bahdanau's attention learns to put the words of generated sentences in order. It then gives
probabilities for some orders of the notes' two examples.
"""

from __future__ import annotations

import math
from itertools import permutations
from typing import Any

from heed.data.examples import Pair
from heed.lessons.parts import Script, Stage, double, sentences_of, train_small

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
_STEPS = 600
_SETTINGS = (
    "tokenizer.kind=word tokenizer.min_count=1 tokenizer.shared=true model.name=bahdanau "
    "model.size=tiny model.d_embedding=48 model.d_hidden=64 model.d_attention=48 training.batch_tokens=600 "
    "training.learning_rate=0.01 training.warmup=30 training.guided_attention=0.0 training.label_smoothing=0.0 "
    "generation.beam_size=1 evaluation.select_by=exact_match"
)
_stage = Script("order")


def stages() -> tuple[Stage, ...]:
    """Train the network and query it; takes some seconds."""
    kinds = sentences_of("order")
    pairs: dict[str, Any] = {split: [*kinds["one"][split], *kinds["two"][split]] for split in kinds["one"]}
    run, shown, exact = train_small("translation", _STEPS, _SETTINGS, **pairs), [], []
    for kind in kinds.values():
        shown += [f"  {source}   ->   {text}" for source, text in kind["train"][:3]]
        targets = {text for _, text in kind["test"]}
        examples = [pair for pair in run.examples("test") if pair.target in targets]
        unchanged = sum(pair.source == pair.target for pair in examples) / len(examples)
        exact.append([run.outcomes(examples).measure("exact_match").score(), unchanged])
    counts = {name: len(kind["train"]) for name, kind in kinds.items()}
    return (
        _stage("task", lines=[f"{source}   ->   {right}" for source, right in (_TIME, _MOVIE)]),
        _stage("training", lines=shown, all=sum(counts.values()), **counts),
        _asked(run, "time", _TIME, _TIME_ORDERS),
        _asked(run, "movie", _MOVIE, _MOVIE_ORDERS),
        _stage("judged", exact_match=double(exact), count=len(kinds["two"]["test"])),
    )


def _asked(run: Any, name: str, example: tuple[str, str], orders: tuple[str, ...]) -> Stage:
    source, right = example
    nll = run.task.judged(run.model, run.input.encode([Pair(source, order) for order in orders]))[:, 0]
    network = double([math.exp(-value) for value in nll])
    notes = tuple("the reference" * (order == right) for order in orders)
    lines = (f"given {source}", f"the network writes {run.predict(source).text}", f"the reference is {right}")
    count = len(set(permutations(source.rstrip(".?").split())))
    return _stage(name, network=network, orders=orders, network_notes=notes, count=count, lines=lines)
