"""A lesson with training: the same words in two orders, read by models that know order and by models that do not.

Small classifiers name who sat, small translators translate into Spanish. None has seen a sentence with cat and wall.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any, NamedTuple

import torch
from torch import Tensor

from heed.data.examples import Pair
from heed.lessons.parts import WORD_MODEL, Script, Stage, Table, double, score_on_test, sentences_of, train_small

TITLE = "The cat sat on the wall. The wall sat on the cat."
_PAIR = ("The cat sat on the wall.", "The wall sat on the cat.")
_WORDS = ("cat", "wall")
_STEPS = {"classification": 120, "translation": 300}
_SHARED = f"{WORD_MODEL} training.batch_tokens=600 training.warmup=20"
_OF_TASK = {
    "classification": "training.learning_rate=0.005",
    "translation": "training.learning_rate=0.01 training.guided_attention=0.0 generation.beam_size=1",
}


class Kind(NamedTuple):
    """A kind of model."""

    title: str
    order: bool  # True if it knows the order of words
    settings: str


WHO = (  # classifiers: who sat?
    Kind("bag of words", False, "model.name=bag"),
    Kind("self-attention, no positions", False, "model.name=encoder model.positions=none"),
    Kind("words side by side (mlp)", True, "model.name=mlp"),
    Kind("windows of words (cnn)", True, "model.name=cnn"),
    Kind("recurrent network", True, "model.name=rnn model.pooling=last model.bidirectional=false"),
    Kind("self-attention, positions", True, "model.name=encoder"),
)
SPANISH = (  # translators into Spanish
    Kind("attention layer, no positions", False, "model.name=attention_only"),
    Kind("attention layer, positions", True, "model.name=attention_only model.positions=sinusoidal"),
    Kind("recurrent (seq2seq)", True, "model.name=seq2seq"),
    Kind("recurrent, attention (bahdanau)", True, "model.name=bahdanau"),
    Kind("transformer", True, "model.name=transformer training.learning_rate=0.002"),
)
_SAME = 1e-5  # probabilities that differ by less are equal except for rounding
_stage = Script("cat")


def stages() -> tuple[Stage, ...]:
    """Train the models and give both sentences to each; takes half a minute."""
    drawn = sentences_of("cat")[""]
    spanish = {source: target for source, target, _ in drawn["test"]}
    who = torch.stack([_who(_train("classification", kind, drawn)) for kind in WHO])
    asked = [_translated(_train("translation", kind, drawn), [spanish[text] for text in _PAIR]) for kind in SPANISH]
    nouns = len({sitter for *_, sitter in drawn["train"]})
    said = torch.stack([numbers for numbers, _ in asked])
    lines = []
    for kind, (_, texts) in zip(SPANISH, asked, strict=True):
        lines += [kind.title, *(f"  {source} -> {text}" for source, text in zip(_PAIR, texts, strict=True))]
    right = _table("probability of the right noun", WHO, ("1st: cat", "2nd: wall", "apart", "held-out"), who)
    columns = ("1st right", "1st turned", "2nd right", "2nd turned", "apart", "held-out")
    turned = _table("probability of a translation, and of the one for the other sentence", SPANISH, columns, said)
    of_who = {"right": who[:, :2], "apart": who[:, 2], "accuracy": who[:, 3]}
    of_spanish = {"probability": said[:, :4], "apart": said[:, 4], "exact_match": said[:, 5]}
    return (
        _stage("sentences", lines=_PAIR, nouns=nouns, train=len(drawn["train"]), test=len(drawn["test"])),
        _stage("who", of_who, right, nouns=nouns),
        _stage("spanish", of_spanish, turned, lines=lines),
        _result(who, said),
    )


def _table(title: str, kinds: Sequence[Kind], columns: tuple[str, ...], numbers: Tensor) -> Table:
    titles, notes = zip(*((kind.title, "knows order" if kind.order else "no order") for kind in kinds), strict=True)
    return Table(title, titles, columns, numbers, heat=True, notes=notes)


def _train(task: str, kind: Kind, drawn: dict[str, list[tuple[str, ...]]]) -> Any:
    truth = 2 if task == "classification" else 1
    data = {split: [(row[0], row[truth]) for row in rows] for split, rows in drawn.items()}
    return train_small(task, _STEPS[task], f"{_SHARED} {_OF_TASK[task]} {kind.settings}", **data)


def _who(run: Any) -> Tensor:
    """Probability of the right noun for both sentences, largest difference of probabilities, held-out score."""
    rows = run.probabilities(list(_PAIR)).double()
    right = [float(row[run.head.labels.index(word)]) for row, word in zip(rows, _WORDS, strict=True)]
    return double([*right, float((rows[0] - rows[1]).abs().max()), score_on_test(run, "accuracy")])


def _translated(run: Any, targets: Sequence[str]) -> tuple[Tensor, list[str]]:
    """Probability of either sentence for either source, largest difference, held-out score; and the outputs."""
    pairs = [Pair(source, target) for source in _PAIR for target in targets]
    p = [math.exp(-nll) for nll in run.task.judged(run.model, run.input.encode(pairs))[:, 0]]
    apart = max(abs(p[0] - p[2]), abs(p[1] - p[3]))
    numbers = double([p[0], p[1], p[3], p[2], apart, score_on_test(run, "exact_match")])
    return numbers, [one.text for one in run.predict(list(_PAIR))]


def _result(who: Tensor, said: Tensor) -> Stage:
    """The notes' claims, judged by the numbers."""
    blind, seeing = ([i for i, kind in enumerate(WHO) if kind.order == order] for order in (False, True))
    apart = max(float(who[blind, 2].max()), float(said[0, 4]))
    right = sum(bool((said[i, [0, 2]] > said[i, [1, 3]]).all()) for i, kind in enumerate(SPANISH) if kind.order)
    mlp = who[next(i for i, kind in enumerate(WHO) if kind.settings == "model.name=mlp")]
    learned = f"each position has its own weights, and {float(mlp[3]):.0%} of the held-out sentences are right."
    values: dict[str, Any] = {
        "claim": f"It holds: their probabilities differ by at most {apart:.0e}, which is rounding."
        if apart < _SAME
        else f"It does not hold here: their probabilities differ by {apart:.3f}.",
        "mlp": f"It does not hold for words side by side: {learned} It holds for a bag of words."
        if float(mlp[:2].min()) > 0.5
        else "Here the network on words side by side did not learn it either.",
        **{"blind": _shares(who[blind, 3]), "seeing": _shares(who[seeing, 3]), "right": right},
        **{"solved": sum(float(who[i, :2].min()) > 0.5 for i in seeing), "classifiers": len(seeing)},
        **{"translators": len(SPANISH) - 1, "single": said[1, 5], "transformer": said[-1, 5]},
    }
    return _stage("result", {"apart": double(apart)}, **values)


def _shares(values: Tensor) -> str:
    low, high = float(values.min()), float(values.max())
    return f"{low:.0%}" if f"{low:.0%}" == f"{high:.0%}" else f"{low:.0%} to {high:.0%}"
