"""A lesson without training: multi-head attention finds what "it" stands for, in two layers.

    head_h = softmax(x W_Q[h] (x W_K[h])' / sqrt(d_head)) x W_V[h];  y = x + [head_1; head_2] W_O

Source: Vaswani et al. 2017 (arXiv:1706.03762), section 3.2.2, with a residual connection and no normalisation.
"""

from __future__ import annotations

from typing import NamedTuple

import torch
from torch import Tensor

from heed.attention import MultiHeadAttention, attend
from heed.lessons.parts import Script, Stage, Table, double

TITLE = "The animal didn't cross the street because it was too tired / too congested."
SOURCE = "The sentences are from the lecture notes; the weights are ours, chosen by hand; nothing is trained."
FEATURES = ("noun", "adjective", "living", "pronoun")
_ROWS = {"animal": [1, 0, 1, 0], "street": [1, 0, -1, 0], "it": [0, 0, 0, 1]}
_ROWS |= {"tired": [0, 1, 1, 0], "congested": [0, 1, -1, 0]}
SENTENCES = {last: ("animal", "street", "it", last) for last in ("tired", "congested")}
_IT = 2
_HEADS = ("head 1: a", "head 1: b", "head 2: a", "head 2: b")
# For a pronoun, head 1 looks for nouns and head 2 for adjectives; the finding of head 2 is written into `living`.
_W_Q = double([[0, 0, 0, 0], [0, 0, 0, 0], [0, 0, 0, 0], [6, 0, 6, 0]])
_W_K = double([[1, 0, 0, 0], [0, 0, 1, 0], [0, 0, 0, 0], [0, 0, 0, 0]])
_W_V = double([[1, 0, 0, 0], [0, 0, 1, 0], [0, 1, 0, 1], [0, 0, 0, 0]])
_W_O = double([[0, 0, 0, 0], [0, 0, 0, 0], [0, 0, 0, 0], [0, 0, 1, 0]])
# The second layer has one head: a pronoun looks for a noun whose `living` agrees with the pronoun's.
_SECOND_W_Q = double([[0, 0], [0, 0], [0, 6], [6, 0]])
_SECOND_W_K = double([[1, 0], [0, 0], [0, 1], [0, 0]])
_stage = Script("it")


class Result(NamedTuple):
    """Results of the first layer for one sentence."""

    weights: Tensor  # (heads, 4, 4)
    contexts: Tensor  # (4, heads * d_head), the heads side by side
    states: Tensor  # (4, 4), with the residual


def first_layer(x: Tensor, heads: int) -> Result:
    """Compute the first layer over the rows x `(4, 4)`, with its weights split into heads."""
    query, key, value = ((x @ w).unflatten(-1, (heads, -1)).transpose(0, 1) for w in (_W_Q, _W_K, _W_V))
    contexts, weights = attend(query, key, value)  # (heads, 4, d_head), (heads, 4, 4)
    contexts = contexts.transpose(0, 1).flatten(1)  # (4, heads * d_head)
    return Result(weights, contexts, x + contexts @ _W_O)


def second_layer(x: Tensor) -> Tensor:
    """The weights `(4,)` of "it" in the second layer."""
    return attend(x @ _SECOND_W_Q, x @ _SECOND_W_K, x)[1][_IT]


def _by_library(x: Tensor) -> Tensor:
    """States after the first layer, computed by the attention module that models use."""
    module = MultiHeadAttention(4, 2, bias=False).double()
    linears = (module.w_query, module.w_key, module.w_value, module.w_out)
    with torch.no_grad():
        for linear, w in zip(linears, (_W_Q, _W_K, _W_V, _W_O), strict=True):
            linear.weight.copy_(w.T)
        output: Tensor = module(x.unsqueeze(0))
    return x + output[0]


def stages() -> tuple[Stage, ...]:
    """All stages."""
    rows = {last: double([_ROWS[word] for word in words]) for last, words in SENTENCES.items()}
    first = {last: first_layer(x, 2) for last, x in rows.items()}
    made = {"W_Q": _W_Q, "W_K": _W_K, "W_V": _W_V}
    split = (Table(f"{name}, columns 1-2 and 3-4", FEATURES, _HEADS, w) for name, w in made.items())
    sentences = (Table(f"X, ... {last}", SENTENCES[last], FEATURES, x) for last, x in rows.items())
    weights = _of_it([second_layer(result.states) for result in first.values()], "weights of it in layer 2")
    second = {"weights": weights.values, "W_Q": _SECOND_W_Q, "W_K": _SECOND_W_K}
    tables = (Table(f"{name} of layer 2", FEATURES, ("a", "b"), second[name]) for name in ("W_Q", "W_K"))
    found = {"animal": weights.values[0, 0], "street": weights.values[1, 1]}
    return (
        _stage("words", rows, *sentences),
        _stage("projections", made, *split),
        _heads(first),
        _concatenated(rows, first),
        _stage("second-layer", second, *tables, weights, **found),
        _one_head(rows),
    )


def _heads(first: dict[str, Result]) -> Stage:
    numbers = {last: result.weights for last, result in first.items()}
    tables = (
        Table(f"weights of head {head + 1}, ... {last}", SENTENCES[last], SENTENCES[last], weights[head], True)
        for last, weights in numbers.items()
        for head in range(2)
    )
    tired, congested = (weights[0, _IT].tolist() for weights in numbers.values())
    checks = [("head 1, it: weight of animal in both sentences", tired[0], congested[0])]
    return _stage(
        "heads", numbers, *tables, checks=[*checks, ("head 1, it: weight of animal and of street", *tired[:2])]
    )


def _concatenated(rows: dict[str, Tensor], first: dict[str, Result]) -> Stage:
    names = tuple(f"it, ... {last}" for last in rows)
    contexts, states = (torch.stack([one[part][_IT] for one in first.values()]) for part in (1, 2))
    inputs, outputs = Table("contexts of it", names, _HEADS, contexts), Table("W_O", _HEADS, FEATURES, _W_O)
    checks = (
        (f"it, {last}: {feature}, by the library", library, ours)
        for (last, x), state in zip(rows.items(), states.tolist(), strict=True)
        for feature, library, ours in zip(FEATURES, _by_library(x)[_IT].tolist(), state, strict=True)
    )
    numbers = {"contexts": contexts, "W_O": _W_O, "states": states}
    after = Table("rows of it after the layer", names, FEATURES, states)
    return _stage("concatenate", numbers, inputs, outputs, after, checks=checks)


def _of_it(weights: list[Tensor], title: str) -> Table:
    """The weights of "it" in each sentence."""
    names = tuple(f"... {last}" for last in SENTENCES)
    return Table(title, names, ("animal", "street", "it", "last word"), torch.stack(weights), True)


def _one_head(rows: dict[str, Tensor]) -> Stage:
    results = [first_layer(x, 1) for x in rows.values()]
    first = _of_it([result.weights[0, _IT] for result in results], "weights of it in layer 1, one head")
    second = _of_it([second_layer(result.states) for result in results], "weights of it in layer 2")
    living = torch.stack([result.states[_IT, 2] for result in results])
    numbers = {"first": first.values, "second": second.values, "living": living}
    return _stage("one-head", numbers, first, second, first=living[0], second=living[1])
