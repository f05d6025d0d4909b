"""A lesson without training: multi-head attention finds what "it" stands for, in two layers.

    head_h = softmax(x W_Q[h] (x W_K[h])' / sqrt(d_head)) x W_V[h];  x' = x + [head_1; head_2] W_O

Source: Vaswani et al. 2017 (arXiv:1706.03762), section 3.2.2, with a residual connection and no normalisation.
"""

from __future__ import annotations

from typing import NamedTuple

import torch
from torch import Tensor

from heed.attention import MultiHeadAttention, attend
from heed.lessons.parts import Check, Stage, Table, double

TITLE = "The animal didn't cross the street because it was too tired / too congested."
SOURCE = "The sentences are from the lecture notes; the weights are ours, chosen by hand; nothing is trained."
FEATURES = ("noun", "adjective", "living", "pronoun")
_ROWS = {
    "animal": [1, 0, 1, 0],
    "street": [1, 0, -1, 0],
    "it": [0, 0, 0, 1],
    "tired": [0, 1, 1, 0],
    "congested": [0, 1, -1, 0],
}
SENTENCES = {last: ("animal", "street", "it", last) for last in ("tired", "congested")}
_IT = 2
_HEADS = ("head 1: a", "head 1: b", "head 2: a", "head 2: b")


class Result(NamedTuple):
    """Results of the first layer for one sentence."""

    weights: Tensor  # (heads, 4, 4)
    contexts: Tensor  # (4, heads * d_head), the heads side by side
    states: Tensor  # (4, 4), with the residual


# For a pronoun, head 1 looks for nouns and head 2 for adjectives; the finding of head 2 is written into `living`.
_W_Q = double([[0, 0, 0, 0], [0, 0, 0, 0], [0, 0, 0, 0], [6, 0, 6, 0]])
_W_K = double([[1, 0, 0, 0], [0, 0, 1, 0], [0, 0, 0, 0], [0, 0, 0, 0]])
_W_V = double([[1, 0, 0, 0], [0, 0, 1, 0], [0, 1, 0, 1], [0, 0, 0, 0]])
_W_O = double([[0, 0, 0, 0], [0, 0, 0, 0], [0, 0, 0, 0], [0, 0, 1, 0]])
# The second layer has one head: a pronoun looks for a noun whose `living` agrees with the pronoun's.
_SECOND_W_Q = double([[0, 0], [0, 0], [0, 6], [6, 0]])
_SECOND_W_K = double([[1, 0], [0, 0], [0, 1], [0, 0]])


def first_layer(x: Tensor, heads: int) -> Result:
    """Compute the first layer over the rows x `(4, 4)`, with its weights split into heads."""
    query, key, value = ((x @ w).unflatten(-1, (heads, -1)).transpose(0, 1) for w in (_W_Q, _W_K, _W_V))
    contexts, weights = attend(query, key, value)  # (heads, 4, d_head), (heads, 4, 4)
    contexts = contexts.transpose(0, 1).flatten(1)  # (4, heads * d_head)
    return Result(weights, contexts, x + contexts @ _W_O)


def second_layer(x: Tensor) -> Tensor:
    """The weights `(4,)` of "it" in the second layer."""
    _, weights = attend(x @ _SECOND_W_Q, x @ _SECOND_W_K, x)
    return weights[_IT]


def _by_library(x: Tensor) -> Tensor:
    """States after the first layer, computed by the attention module that models use."""
    module = MultiHeadAttention(4, 2, bias=False).double()
    linears = (module.w_query, module.w_key, module.w_value, module.w_out)
    with torch.no_grad():
        for linear, w in zip(linears, (_W_Q, _W_K, _W_V, _W_O), strict=True):
            linear.weight.copy_(w.T)
        output: Tensor = module(x.unsqueeze(0))
    return x + output[0]


def it_stages() -> tuple[Stage, ...]:
    """All stages."""
    rows = {last: double([_ROWS[word] for word in words]) for last, words in SENTENCES.items()}
    first = {last: first_layer(x, 2) for last, x in rows.items()}
    return _words(rows), _projections(), _heads(first), _concatenated(rows, first), _second(first), _one_head(rows)


def _words(rows: dict[str, Tensor]) -> Stage:
    prose = (
        'What "it" stands for depends on the last word: an animal can be tired, and a street can be congested.',
        'Only four words matter; the others are left out. "living" is 1 for an animal and its adjective, -1 for a '
        "street and its adjective.",
    )
    tables = tuple(Table(f"X, ... {last}", SENTENCES[last], FEATURES, x) for last, x in rows.items())
    lines = ('The row of "it" is the same in both sentences: its "living" is 0.',)
    title = "two sentences that differ in their last word"
    return Stage("words", title, prose, "x = rows of the words", rows, tables, lines=lines)


def _projections() -> Stage:
    prose = (
        "Each head has its own W_Q, W_K and W_V of 4 x 2. They are stored side by side, in matrices of 4 x 4.",
        "Head 1 compares a pronoun with nouns, head 2 with adjectives. The values hold what was found and whether it "
        "is living.",
    )
    numbers = {"W_Q": _W_Q, "W_K": _W_K, "W_V": _W_V}
    tables = tuple(Table(f"{name}, columns 1-2 and 3-4", FEATURES, _HEADS, w) for name, w in numbers.items())
    equation = "Q_h = X W_Q[h],  K_h = X W_K[h],  V_h = X W_V[h]"
    return Stage("projections", "two heads, each with its own weights", prose, equation, numbers, tables)


def _heads(first: dict[str, Result]) -> Stage:
    prose = (
        'Each head has its own softmax. For "it", head 1 divides its weight between the two nouns; head 2 gives nearly '
        "all of its weight to the adjective.",
        "The other words have zero queries, so they attend uniformly.",
    )
    numbers = {last: result.weights for last, result in first.items()}
    tables = tuple(
        Table(f"weights of head {head + 1}, ... {last}", SENTENCES[last], SENTENCES[last], weights[head], True)
        for last, weights in numbers.items()
        for head in range(2)
    )
    lines = (
        'The query of "it" comes from its own row, and the keys of the nouns from theirs; these rows are the same '
        "in both sentences. So no head of a first layer can prefer animal in one sentence and street in the other.",
    )
    tired, congested = (weights[0, _IT].tolist() for weights in numbers.values())
    checks = (
        Check("head 1, it: weight of animal in both sentences", tired[0], congested[0]),
        Check("head 1, it: weight of animal and of street", tired[0], tired[1]),
    )
    equation = "softmax(Q_h K_h' / sqrt(2))"
    return Stage("heads", "the weights of each head", prose, equation, numbers, tables, lines=lines, checks=checks)


def _concatenated(rows: dict[str, Tensor], first: dict[str, Result]) -> Stage:
    prose = (
        "The contexts of the two heads are concatenated into one row of 4. W_O mixes them, and the result is added to "
        "the layer's input row.",
        'Our W_O writes the "living" that head 2 found into the row of "it", which now tells an animal from a street.',
    )
    names = tuple(f"it, ... {last}" for last in rows)
    contexts = torch.stack([result.contexts[_IT] for result in first.values()])
    states = torch.stack([result.states[_IT] for result in first.values()])
    tables = (
        Table("contexts of it", names, _HEADS, contexts),
        Table("W_O", _HEADS, FEATURES, _W_O),
        Table("rows of it after the layer", names, FEATURES, states),
    )
    checks = tuple(
        Check(f"it, {last}: {feature}, by the library", library, ours)
        for (last, x), state in zip(rows.items(), states.tolist(), strict=True)
        for feature, library, ours in zip(FEATURES, _by_library(x)[_IT].tolist(), state, strict=True)
    )
    numbers = {"contexts": contexts, "W_O": _W_O, "states": states}
    title = "contexts concatenated and mixed by one linear layer"
    return Stage("concatenate", title, prose, "x' = x + [head_1; head_2] W_O", numbers, tables, checks=checks)


def _of_it(weights: list[Tensor], title: str) -> Table:
    """The weights of "it" in each sentence."""
    names = tuple(f"... {last}" for last in SENTENCES)
    return Table(title, names, ("animal", "street", "it", "last word"), torch.stack(weights), True)


def _second(first: dict[str, Result]) -> Stage:
    prose = (
        'Now the queries of "it" differ: one asks for a noun that is living, the other for a noun that is not.',
        "One head is enough. Its first number matches pronouns with nouns, its second living with living.",
    )
    weights = _of_it([second_layer(result.states) for result in first.values()], "weights of it in layer 2")
    numbers = {"weights": weights.values, "W_Q": _SECOND_W_Q, "W_K": _SECOND_W_K}
    made = (Table(f"{name} of layer 2", FEATURES, ("a", "b"), numbers[name]) for name in ("W_Q", "W_K"))
    (animal, _, *_), (_, street, *_) = weights.values.tolist()
    lines = (
        f'In "... too tired", "it" gives animal a weight of {animal:.3f}. In "... too congested", it gives street '
        f"{street:.3f}.",
        "In a trained Transformer nobody chooses the roles of the heads: they emerge in training, and most heads have "
        "no role that can be named.",
    )
    title, equation = 'the second layer finds what "it" is', "softmax(X' W_Q (X' W_K)' / sqrt(2))"
    return Stage("second-layer", title, prose, equation, numbers, (*made, weights), lines=lines)


def _one_head(rows: dict[str, Tensor]) -> Stage:
    results = [first_layer(x, 1) for x in rows.values()]
    first = _of_it([result.weights[0, _IT] for result in results], "weights of it in layer 1, one head")
    second = _of_it([second_layer(result.states) for result in results], "weights of it in layer 2")
    living = torch.stack([result.states[_IT, 2] for result in results])
    prose = (
        "A single head of width 4 adds up what two heads keep apart: nouns and adjectives share one softmax.",
        'So only about a third of the adjective\'s value reaches "living": '
        f"{float(living[0]):.3f} and {float(living[1]):.3f}.",
    )
    numbers = {"first": first.values, "second": second.values, "living": living}
    equation = "softmax(Q K' / sqrt(4))"
    return Stage("one-head", "the same weights as a single head", prose, equation, numbers, (first, second))
