"""A lesson without training: multi-head attention finds what "it" stands for, in two layers.

    head_h = softmax(x W_Q[h] (x W_K[h])' / sqrt(d_head)) x W_V[h];  y = x + [head_1; head_2] W_O

Source: Vaswani et al. 2017 (arXiv:1706.03762), section 3.2.2, with a residual connection and no normalisation.
"""

from __future__ import annotations

from typing import NamedTuple

import torch
from torch import Tensor

from heed.attention import MultiHeadAttention, attend
from heed.lessons.parts import Script, Stage, double

TITLE = "The animal didn't cross the street because it was too tired / too congested."
SOURCE = "The sentences are from the lecture notes; the weights are ours, chosen by hand; nothing is trained."
FEATURES = ("noun", "adjective", "living", "pronoun")
_ROWS = {"animal": [1, 0, 1, 0], "street": [1, 0, -1, 0], "it": [0, 0, 0, 1]}
_ROWS |= {"tired": [0, 1, 1, 0], "congested": [0, 1, -1, 0]}
SENTENCES = {last: ("animal", "street", "it", last) for last in ("tired", "congested")}
_IT = 2
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
    first, single = ([first_layer(x, heads) for x in rows.values()] for heads in (2, 1))
    of_head = {f"{last} {n + 1}": result.weights[n] for last, result in zip(rows, first, strict=True) for n in range(2)}
    tired, congested = (result.weights[0, _IT].tolist() for result in first)
    same = [("head 1, it: weight of animal in both sentences", tired[0], congested[0])]
    same.append(("head 1, it: weight of animal and of street", *tired[:2]))
    contexts, states = (torch.stack([result[part][_IT] for result in first]) for part in (1, 2))
    equal = (
        (f"it, {last}: {feature}, by the library", library, ours)
        for (last, x), state in zip(rows.items(), states.tolist(), strict=True)
        for feature, library, ours in zip(FEATURES, _by_library(x)[_IT].tolist(), state, strict=True)
    )
    second, alone = (torch.stack([second_layer(result.states) for result in some]) for some in (first, single))
    living = torch.stack([result.states[_IT, 2] for result in single])
    second_weights = {"W_Q": _SECOND_W_Q, "W_K": _SECOND_W_K}
    alone_first = torch.stack([result.weights[0, _IT] for result in single])
    of_living = {f"living {n + 1}": living[n] for n in (0, 1)}
    return (
        _stage("words", **rows),
        _stage("projections", W_Q=_W_Q, W_K=_W_K, W_V=_W_V),
        _stage("heads", **dict(zip(rows, (result.weights for result in first), strict=True)), **of_head, checks=same),
        _stage("concatenate", contexts=contexts, W_O=_W_O, states=states, checks=equal),
        _stage("second-layer", **second_weights, weights=second, animal=second[0, 0], street=second[1, 1]),
        _stage("one-head", first=alone_first, second=alone, living=living, **of_living),
    )
