"""A lesson with training: the same words in two orders, read by models that know order and by models that do not.

Small classifiers name who sat, small translators translate into Spanish. None has seen a sentence with cat and wall.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import permutations
from random import Random
from typing import Any

import torch
from torch import Tensor

from heed.data.embedded.generated import SPLITS, Split, split_of
from heed.data.embedded.grammar.meaning import Clause, Phrase, Place, Sentence
from heed.data.embedded.grammar.source import GrammarSource
from heed.data.examples import Pair
from heed.lessons.parts import Stage, Table, double
from heed.lessons.training import train_small

TITLE = "The cat sat on the wall. The wall sat on the cat."
_PAIR = ("The cat sat on the wall.", "The wall sat on the cat.")
_WORDS = ("cat", "wall")
_NOUNS = (
    *(*_WORDS, "dog", "table", "man", "stone", "woman", "chair", "bird", "book"),
    *("horse", "tree", "box", "boy", "cow", "house", "girl", "lamp", "goat", "car"),
)
_SCENES = (("sit", "on"), ("sit", "behind"), ("lie", "on"), ("sleep", "under"), ("stand", "next to"))
_STEPS = {"classification": 120, "translation": 300}
_SHARED: dict[str, Any] = {
    "tokenizer.kind": "word",
    "tokenizer.min_count": 1,
    "model.size": "tiny",
    "model.dropout": 0.0,
    "training.batch_tokens": 600,
    "training.warmup": 20,
    "training.label_smoothing": 0.0,
}
_OF_TASK: dict[str, dict[str, Any]] = {
    "classification": {"training.learning_rate": 0.005},
    "translation": {"training.learning_rate": 0.01, "training.guided_attention": 0.0, "generation.beam_size": 1},
}


@dataclass(frozen=True)
class Kind:
    """A kind of model: its settings, and whether it knows the order of words."""

    title: str
    order: bool
    settings: dict[str, Any]


WHO = (
    Kind("bag of words", False, {"model.name": "bag"}),
    Kind("self-attention, no positions", False, {"model.name": "encoder", "model.positions": "none"}),
    Kind("words side by side (mlp)", True, {"model.name": "mlp"}),
    Kind("windows of words (cnn)", True, {"model.name": "cnn"}),
    Kind("recurrent network", True, {"model.name": "rnn", "model.pooling": "last", "model.bidirectional": False}),
    Kind("self-attention, positions", True, {"model.name": "encoder"}),
)
"""Classifiers: who sat?"""
SPANISH = (
    Kind("attention layer, no positions", False, {"model.name": "attention_only"}),
    Kind("attention layer, positions", True, {"model.name": "attention_only", "model.positions": "sinusoidal"}),
    Kind("recurrent (seq2seq)", True, {"model.name": "seq2seq"}),
    Kind("recurrent, attention (bahdanau)", True, {"model.name": "bahdanau"}),
    Kind("transformer", True, {"model.name": "transformer", "training.learning_rate": 0.002}),
)
"""Translators into Spanish."""


def draw_sentences(split: Split) -> list[tuple[Pair, str]]:
    """The sentences of a split with their Spanish and the noun that sat; the lesson's two sentences are in test.

    Both orders of two nouns are in one split, so no training sentence has both nouns of a test sentence.
    """
    grammar, drawn = GrammarSource("es"), []
    for sitter, place in permutations(_NOUNS, 2):
        nouns = {sitter, place}
        if split == ("test" if nouns == set(_WORDS) else split_of(" ".join(sorted(nouns)))):
            for verb, preposition in _SCENES:
                said = Clause(Phrase(sitter), verb, place=Place(preposition, Phrase(place)))
                drawn.append((grammar.pair(Sentence(said)), sitter))
    Random(split).shuffle(drawn)
    return drawn


def cat_stages() -> tuple[Stage, ...]:
    """Train the models and give both sentences to each; takes half a minute."""
    drawn = {split: draw_sentences(split) for split in SPLITS}
    spanish = {pair.source: pair.target for pair, _ in drawn["test"]}
    who = torch.stack([_who(_train("classification", kind, drawn)) for kind in WHO])
    asked = [_translated(_train("translation", kind, drawn), [spanish[text] for text in _PAIR]) for kind in SPANISH]
    said, written = torch.stack([numbers for numbers, _ in asked]), [texts for _, texts in asked]
    return (
        _sentences({split: len(pairs) for split, pairs in drawn.items()}),
        _who_stage(who),
        _spanish_stage(said, written),
        _verdict(who, said),
    )


def _train(task: str, kind: Kind, drawn: dict[Split, list[tuple[Pair, str]]]) -> Any:
    data = {
        split: [(pair.source, sitter if task == "classification" else pair.target) for pair, sitter in pairs]
        for split, pairs in drawn.items()
    }
    return train_small(task, _STEPS[task], {**_SHARED, **_OF_TASK[task], **kind.settings}, **data)


def _who(run: Any) -> Tensor:
    """Probability of the right noun for both sentences, largest difference of probabilities, held-out score."""
    rows = run.probabilities(list(_PAIR)).double()
    right = [float(row[run.task.labels.index(word)]) for row, word in zip(rows, _WORDS, strict=True)]
    accuracy = run.report["scores"]["test"]["accuracy"]["value"]
    return double([*right, float((rows[0] - rows[1]).abs().max()), accuracy])


def _translated(run: Any, targets: Sequence[str]) -> tuple[Tensor, list[str]]:
    """Probability of either sentence for either source, largest difference, held-out score; and the outputs."""
    pairs = [Pair(source, target) for source in _PAIR for target in targets]
    p = [math.exp(-nll) for nll in run.task.forced_scores(run.model, run.task.encode_pairs(pairs))[0]]
    apart = max(abs(p[0] - p[2]), abs(p[1] - p[3]))
    exact = run.report["scores"]["test"]["exact_match"]["value"]
    values = [p[0], p[1], p[3], p[2], apart, exact]
    return double(values), [one.text for one in run.predict(list(_PAIR))]


def _sentences(sizes: dict[Split, int]) -> Stage:
    return Stage(
        "sentences",
        "the same words in another order",
        (
            "Both sentences have the same six words. Only their order tells who sits.",
            f"The models learn from {sizes['train']:,} such sentences with {len(_NOUNS)} nouns and their Spanish, as "
            f"in data.name=grammar. The {sizes['test']} held-out sentences combine two nouns that never occur together "
            "in training, cat and wall among them.",
        ),
        "",
        lines=_PAIR,
    )


def _who_stage(numbers: Tensor) -> Stage:
    table = Table(
        "probability of the right noun",
        _rows(WHO),
        ("1st: cat", "2nd: wall", "apart", "held-out"),
        numbers,
        heat=True,
        notes=tuple("knows order" if kind.order else "no order" for kind in WHO),
    )
    return Stage(
        "who",
        "who sat? Six classifiers",
        (
            f"Each learns which of {len(_NOUNS)} nouns sits. The first two read the words as a set.",
            "apart: the largest difference between the probabilities for the two sentences. held-out: share of right "
            "answers.",
        ),
        "a set has no order: f({the, cat, sat, on, wall}) = f({the, wall, sat, on, cat})",
        {"right": numbers[:, :2], "apart": numbers[:, 2], "accuracy": numbers[:, 3]},
        (table,),
    )


def _spanish_stage(numbers: Tensor, written: Sequence[Sequence[str]]) -> Stage:
    lines = []
    for kind, texts in zip(SPANISH, written, strict=True):
        lines += [kind.title, *(f"  {source} -> {text}" for source, text in zip(_PAIR, texts, strict=True))]
    table = Table(
        "probability of a translation, and of the one for the other sentence",
        _rows(SPANISH),
        ("1st right", "1st turned", "2nd right", "2nd turned", "apart", "held-out"),
        numbers,
        heat=True,
        notes=tuple("knows order" if kind.order else "no order" for kind in SPANISH),
    )
    return Stage(
        "spanish",
        "the same in Spanish: five translators",
        (
            "In Spanish, too, the order tells who sits; 'on' is 'en' before a wall and 'sobre' before an animal.",
            "turned: the probability of the translation of the other sentence. held-out: share of outputs that are "
            "right, letter by letter.",
        ),
        "p(target | source) = product of p(word | words before it, source)",
        {"probability": numbers[:, :4], "apart": numbers[:, 4], "exact_match": numbers[:, 5]},
        (table,),
        lines=tuple(lines),
    )


_SAME = 1e-5
"""Probabilities that differ by less are equal except for rounding."""


def _verdict(who: Tensor, said: Tensor) -> Stage:
    """The notes' claims, judged by the numbers."""
    blind = [i for i, kind in enumerate(WHO) if not kind.order]
    seeing = [i for i, kind in enumerate(WHO) if kind.order]
    apart = max(float(who[blind, 2].max()), float(said[0, 4]))
    solved = sum(float(who[i, :2].min()) > 0.5 for i in seeing)
    right = sum(bool((said[i, [0, 2]] > said[i, [1, 3]]).all()) for i, kind in enumerate(SPANISH) if kind.order)
    mlp = next(i for i, kind in enumerate(WHO) if kind.settings["model.name"] == "mlp")
    return Stage(
        "verdict",
        "what this shows",
        (
            "A model that reads a set of words gives the same answer to both sentences, whatever it has learned, so it "
            "is right for at most one of them.",
            "Attention by itself is such a model. It distinguishes orders only because positions are added to words.",
        ),
        "",
        {"apart": double(apart)},
        lines=(
            "Claim: without order, the two sentences cannot be distinguished. "
            + (
                f"It holds: their probabilities differ by at most {apart:.0e}, which is rounding."
                if apart < _SAME
                else f"It does not hold here: their probabilities differ by {apart:.3f}."
            ),
            f"  Held-out sentences answered correctly: {_shares(who[blind, 3])}; with order {_shares(who[seeing, 3])}.",
            f"With order, {solved} of {len(seeing)} classifiers name the right noun in both sentences, and {right} of "
            f"{len(SPANISH) - 1} translators find the right translation of both more probable than the other.",
            "Claim of the notes: a feed-forward network has no way to keep the order. "
            + (
                "It does not hold for words side by side: each position has its own weights, and "
                f"{float(who[mlp, 3]):.0%} of the held-out sentences are right. It holds for a bag of words."
                if float(who[mlp, :2].min()) > 0.5
                else "Here the network on words side by side did not learn it either."
            ),
            "A single attention layer knows only the last word it wrote and, with positions, where that word is. With "
            f"positions {float(said[1, 5]):.0%} of its held-out outputs are right, compared with "
            f"{float(said[-1, 5]):.0%} of the transformer's: it knows the order, but not all that decides a word.",
        ),
    )


def _rows(kinds: Sequence[Kind]) -> tuple[str, ...]:
    return tuple(kind.title for kind in kinds)


def _shares(values: Tensor) -> str:
    low, high = float(values.min()), float(values.max())
    return f"{low:.0%}" if f"{low:.0%}" == f"{high:.0%}" else f"{low:.0%} to {high:.0%}"
