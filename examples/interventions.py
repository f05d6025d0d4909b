"""What an output does under other weights, in five sets of texts whose deciding words are planted.

    python examples/interventions.py [--seed 1] [--texts 50]

Draws five sets of texts, trains an `rnn` with pooling attention on each, and looks at test texts with
`run.look(text)` and `run.attribute`. Prints, for each set, over the test texts:

accuracy    right answers
equal       the same answer with equal weights
one key     all weight on one word: the largest change of the answer's probability, median and texts with 0.05 or more
attended    a planted word is the most attended, of the texts that have one
ig, loo     integrated gradients and leave-one-out give a planted word the largest value, of the texts that have one

Half a minute on one thread of an Intel Xeon.
"""

from __future__ import annotations

import argparse
import random
import tempfile
from collections.abc import Callable
from dataclasses import dataclass
from statistics import median

import numpy as np

import heed

FILLER = (
    "table window river garden paper street bottle morning engine village teacher picture letter bridge"
    " market forest kitchen doctor summer ticket blanket station lantern harbour"
).split()
GOOD, BAD = ["good", "great", "lovely"], ["bad", "awful", "dull"]
TOPICS = {
    "sport": ["goal", "team", "match", "coach", "race", "medal"],
    "food": ["bread", "soup", "cheese", "salt", "lemon", "rice"],
    "weather": ["rain", "cloud", "storm", "wind", "snow", "frost"],
}
SETTINGS = {
    "model.name": "rnn",
    "model.pooling": "attention",
    "model.d_embedding": 24,
    "model.d_hidden": 16,
    "model.d_pooling": 16,
    "tokenizer.kind": "word",
    "training.learning_rate": 0.01,
    "training.warmup": 20,
    "training.threads": 1,
    "training.device": "cpu",
    "evaluation.bootstrap": 5,
}


@dataclass(frozen=True)
class Drawn:
    """A text with its label, and the planted words that it has."""

    text: str
    label: str
    planted: tuple[str, ...] = ()


def _scattered(rng: random.Random, *words: str) -> str:
    """These words at random places, in any order, among six to ten others."""
    text = [*words, *rng.sample(FILLER, rng.randint(6, 10))]
    rng.shuffle(text)
    return " ".join(text)


def negation(rng: random.Random) -> Drawn:
    """A word gives a label, and "not" before it the other."""
    good, turned = rng.random() < 0.5, rng.random() < 0.5
    text = _scattered(rng, "not " * turned + rng.choice(GOOD if good else BAD))
    return Drawn(text, "pos" if good != turned else "neg", ("not",) if turned else ())


def redundant(rng: random.Random) -> Drawn:
    """Each of two words gives the label, and both are there."""
    label, planted = rng.choice([("a", ("apple", "acorn")), ("b", ("birch", "barley"))])
    return Drawn(_scattered(rng, *planted), label, planted)


def position(rng: random.Random) -> Drawn:
    """The label is the one of two words that comes first."""
    text = _scattered(rng, "left", "right")
    return Drawn(text, next(word for word in text.split() if word in ("left", "right")), ("left", "right"))


def default(rng: random.Random) -> Drawn:
    """A word gives one label, its absence the other."""
    cued = rng.random() < 0.5
    return Drawn(_scattered(rng, *["signal"] * cued), "yes" if cued else "no", ("signal",) if cued else ())


def among(rng: random.Random) -> Drawn:
    """Three labels have three words of their topic in a text, the fourth one word beside those of any topic."""
    topic, urgent = rng.choice(sorted(TOPICS)), rng.random() < 0.25
    text = _scattered(rng, *rng.sample(TOPICS[topic], 3), *["urgent"] * urgent)
    return Drawn(text, "urgent" if urgent else topic, ("urgent",) if urgent else ())


SETS: dict[str, Callable[[random.Random], Drawn]] = {
    "negation": negation,
    "two redundant cues": redundant,
    "position": position,
    "default class": default,
    "one cue among labels": among,
}


def draw(name: str, count: int, seed: int) -> list[Drawn]:
    """Texts of a set."""
    rng = random.Random(f"{name} {seed}")
    return [SETS[name](rng) for _ in range(count)]


def trained(texts: list[Drawn], seed: int, folder: str) -> heed.Run:
    """A run trained for 300 updates; the first 100 texts choose the weights."""
    pairs = [(one.text, one.label) for one in texts]
    settings = {**SETTINGS, "training.seed": seed}
    return heed.train(
        "classification", train=pairs[100:], valid=pairs[:100], steps=300, out=folder, settings=settings, quiet=True
    )


def measured(run: heed.Run, texts: list[Drawn]) -> list[str]:
    """The cells of a set's row: what each method finds on these texts."""
    right, equal, single = 0, 0, []
    first: dict[str, list[bool]] = {"attended": [], "ig": [], "loo": []}
    for one in texts:
        look = run.look(one.text).look
        (shading,) = (shading for shading in look.shadings if shading.effect is not None)
        effect = shading.effect
        right += look.target == one.label
        equal += not effect.equal.instead
        single.append(effect.key.size)
        if one.planted:
            first["attended"].append(shading.axis.labels[int(np.argmax(shading.weights))] in one.planted)
            for method in ("ig", "loo"):
                of = run.attribute(one.text, method=method)
                first[method].append(of.axis.labels[int(np.argmax(of.values))] in one.planted)
    attended, ig, loo = (f"{sum(found)} of {len(found)}" for found in first.values())
    key = f"{median(single):.2f}, {sum(change >= 0.05 for change in single)}"
    return [str(right), str(equal), key, attended, ig, loo]


def main() -> None:
    """Print the table."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--texts", type=int, default=50)
    asked = parser.parse_args()
    heads = ["set", "accuracy", "equal", "one key", "attended", "ig", "loo"]
    print(f"| {' | '.join(heads)} |\n|{'---|' * len(heads)}")
    for name in SETS:
        texts = draw(name, asked.texts + 1100, asked.seed)
        with tempfile.TemporaryDirectory() as folder:
            run = trained(texts[asked.texts :], asked.seed, f"{folder}/run")
            print(f"| {name} | {' | '.join(measured(run, texts[: asked.texts]))} |", flush=True)


if __name__ == "__main__":
    main()
