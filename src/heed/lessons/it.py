"""A lesson without training: multi-head attention works out what "it" stands for, in two layers.

    head_h = softmax(x W_Q[h] (x W_K[h])' / sqrt(d_head)) x W_V[h];  x' = x + [head_1; head_2] W_O

Source: Vaswani et al. 2017 (arXiv:1706.03762), section 3.2.2, with a residual connection and no normalisation.
"""

from __future__ import annotations

from typing import NamedTuple

import torch
from torch import Tensor

from heed.attention.attend import attend
from heed.attention.modules import MultiHeadAttention
from heed.attention.scores import ScaledDot
from heed.lessons.parts import Check, Stage, Table

TITLE = "The animal didn't cross the street because it was too tired / too congested."
SOURCE = "The sentences are the lecture notes'; the weights are ours, chosen by hand, and nothing is trained."
FEATURES = ("noun", "adjective", "living", "pronoun")
_ROWS = {
    "animal": (1.0, 0.0, 1.0, 0.0),
    "street": (1.0, 0.0, -1.0, 0.0),
    "it": (0.0, 0.0, 0.0, 1.0),
    "tired": (0.0, 1.0, 1.0, 0.0),
    "congested": (0.0, 1.0, -1.0, 0.0),
}
SENTENCES = {last: ("animal", "street", "it", last) for last in ("tired", "congested")}
_IT = 2
_HEADS = ("head 1: a", "head 1: b", "head 2: a", "head 2: b")


class Layer(NamedTuple):
    """Weights of a layer, each `(4, heads * d_head)`; the output weights `(heads * d_head, 4)`."""

    query: Tensor
    key: Tensor
    value: Tensor
    out: Tensor


class Result(NamedTuple):
    """What a layer computes for one sentence."""

    weights: Tensor  # (heads, 4, 4)
    contexts: Tensor  # (4, heads * d_head), the heads side by side
    states: Tensor  # (4, 4), with the residual


def first_layer() -> Layer:
    """Head 1 of a pronoun looks for nouns, head 2 for adjectives; what head 2 finds is written into `living`."""
    query, key, value, out = (torch.zeros(4, 4, dtype=torch.float64) for _ in range(4))
    query[3, 0] = query[3, 2] = 6.0
    key[0, 0] = key[1, 2] = 1.0
    value[0, 0] = value[2, 1] = value[1, 2] = value[2, 3] = 1.0
    out[3, 2] = 1.0
    return Layer(query, key, value, out)


def second_layer() -> Layer:
    """One head: a pronoun looks for a noun that is living if what is said of the pronoun is, and not if not."""
    query, key, value, out = (torch.zeros(4, 2, dtype=torch.float64) for _ in range(4))
    query[3, 0] = query[2, 1] = 6.0
    key[0, 0] = key[2, 1] = 1.0
    value[0, 0] = value[2, 1] = 1.0
    return Layer(query, key, value, out.T)


def compute(x: Tensor, layer: Layer, heads: int) -> Result:
    """One layer over the rows x `(4, 4)`, its weights cut into heads."""
    parts = [torch.tensor_split(x @ w, heads, dim=-1) for w in layer[:3]]
    found = [attend(q, k, v, None, ScaledDot(q.shape[-1])) for q, k, v in zip(*parts, strict=True)]
    contexts = torch.cat([context for context, _ in found], -1)
    return Result(torch.stack([weights for _, weights in found]), contexts, x + contexts @ layer.out)


def it_stages() -> tuple[Stage, ...]:
    """All stages."""
    rows = {last: torch.tensor([_ROWS[w] for w in words], dtype=torch.float64) for last, words in SENTENCES.items()}
    first, second = first_layer(), second_layer()
    after = {last: compute(x, first, 2) for last, x in rows.items()}
    deciding = {last: compute(result.states, second, 1) for last, result in after.items()}
    single = {last: compute(x, first, 1) for last, x in rows.items()}
    weaker = {last: compute(result.states, second, 1) for last, result in single.items()}
    return (
        _words(rows),
        _projections(first),
        _heads(after),
        _concatenated(rows, first, after),
        _second(second, deciding),
        _one_head(single, weaker),
    )


def _words(rows: dict[str, Tensor]) -> Stage:
    return Stage(
        "words",
        "two sentences that differ in their last word",
        (
            'What "it" stands for depends on the last word: an animal can be tired, and a street can be congested.',
            'Four words decide; the others are left out. "living" is 1 for an animal and what is said of it, -1 for a '
            "street and what is said of it.",
        ),
        "x = rows of the words",
        rows,
        tuple(Table(f"X, ... {last}", SENTENCES[last], FEATURES, x) for last, x in rows.items()),
        lines=('The row of "it" is the same in both sentences, and says neither.',),
    )


def _projections(layer: Layer) -> Stage:
    numbers = {"W_Q": layer.query, "W_K": layer.key, "W_V": layer.value}
    return Stage(
        "projections",
        "two heads, each with its own weights",
        (
            "Each head has its own W_Q, W_K and W_V, 4 x 2. Side by side, those of all heads are matrices of 4 x 4, "
            "which is how they are stored.",
            "Head 1 compares a pronoun with nouns, head 2 compares it with adjectives. The values say what was found, "
            "and whether it is living.",
        ),
        "Q_h = X W_Q[h],  K_h = X W_K[h],  V_h = X W_V[h]",
        numbers,
        tuple(Table(f"{name}, columns 1-2 and 3-4", FEATURES, _HEADS, values) for name, values in numbers.items()),
    )


def _heads(after: dict[str, Result]) -> Stage:
    tables = [
        Table(f"weights of head {head + 1}, ... {last}", SENTENCES[last], SENTENCES[last], weights, (True,) * 4)
        for last, result in after.items()
        for head, weights in enumerate(result.weights)
    ]
    tired, congested = (result.weights[0, _IT] for result in after.values())
    return Stage(
        "heads",
        "where each head looks",
        (
            'Each head has a softmax of its own. For "it", head 1 divides its weight between the two nouns, and head 2 '
            "gives nearly all of it to the adjective.",
            "The other words have zero queries, so they look at every word alike.",
        ),
        "softmax(Q_h K_h' / sqrt(2))",
        {last: result.weights for last, result in after.items()},
        tuple(tables),
        lines=(
            'The query of "it" comes from its own row, and the keys of the nouns from theirs; these rows are the same '
            "in both sentences. So no head of a first layer can prefer animal in one sentence and street in the other.",
        ),
        checks=(
            Check("head 1, it: weight of animal in both sentences", float(tired[0]), float(congested[0]), 0.0),
            Check("head 1, it: weight of animal and of street", float(tired[0]), float(tired[1]), 0.0),
        ),
    )


def _library(x: Tensor, layer: Layer) -> Tensor:
    """The same layer by the module that models are made of."""
    module = MultiHeadAttention(4, 2, bias=False).double()
    with torch.no_grad():
        for linear, w in zip((module.w_query, module.w_key, module.w_value, module.w_out), layer, strict=True):
            linear.weight.copy_(w.T)
        return x + module(x.unsqueeze(0))[0]


def _concatenated(rows: dict[str, Tensor], layer: Layer, after: dict[str, Result]) -> Stage:
    names = tuple(f"it, ... {last}" for last in rows)
    contexts = torch.stack([result.contexts[_IT] for result in after.values()])
    states = torch.stack([result.states[_IT] for result in after.values()])
    library = {last: _library(x, layer)[_IT] for last, x in rows.items()}
    return Stage(
        "concatenate",
        "contexts side by side, mixed by one linear layer",
        (
            "The contexts of the two heads stand side by side in one row of 4. W_O mixes them, and the result is added "
            "to the row that came in.",
            'Our W_O writes what head 2 found into "living". The row of "it" now says what the sentence says of it.',
        ),
        "x' = x + [head_1; head_2] W_O",
        {"contexts": contexts, "W_O": layer.out, "states": states},
        (
            Table("contexts of it", names, _HEADS, contexts),
            Table("W_O", _HEADS, FEATURES, layer.out),
            Table("rows of it after the layer", names, FEATURES, states),
        ),
        checks=tuple(
            Check(f"it, {last}: {feature}, by the library", float(library[last][i]), float(result.states[_IT, i]), 0.0)
            for last, result in after.items()
            for i, feature in enumerate(FEATURES)
        ),
    )


def _of_it(results: dict[str, Result], title: str) -> Table:
    """The row of "it" in the first head of each sentence."""
    values = torch.stack([result.weights[0, _IT] for result in results.values()])
    return Table(title, tuple(f"... {last}" for last in results), ("animal", "street", "it", "last word"), values,
                 (True,) * len(results))  # fmt: skip


def _second(layer: Layer, deciding: dict[str, Result]) -> Stage:
    table = _of_it(deciding, "weights of it in layer 2")
    tired, congested = table.values[:, 0], table.values[:, 1]
    return Stage(
        "second-layer",
        'the second layer finds what "it" is',
        (
            'Now the queries of "it" differ: one asks for a noun that is living, the other for a noun that is not.',
            "One head is enough. Its first number compares pronoun with noun, its second compares living with living.",
        ),
        "softmax(X' W_Q (X' W_K)' / sqrt(2))",
        {"weights": table.values, "W_Q": layer.query, "W_K": layer.key},
        (
            Table("W_Q of layer 2", FEATURES, ("a", "b"), layer.query),
            Table("W_K of layer 2", FEATURES, ("a", "b"), layer.key),
            table,
        ),
        lines=(
            f'"... too tired": it looks at animal with {float(tired[0]):.3f}. "... too congested": it looks at street '
            f"with {float(congested[1]):.3f}.",
            "In a trained Transformer nobody chooses this: which head does what comes out of training, and most heads "
            "do nothing that can be named.",
        ),
    )


def _one_head(single: dict[str, Result], weaker: dict[str, Result]) -> Stage:
    before, table = _of_it(single, "weights of it in layer 1, one head"), _of_it(weaker, "weights of it in layer 2")
    living = torch.stack([result.states[_IT, 2] for result in single.values()])
    return Stage(
        "one-head",
        "the same weights as a single head",
        (
            "A single head of width 4 adds up what two heads keep apart: nouns and adjectives share one softmax.",
            f'So only about a third of what the adjective says arrives in "living": {float(living[0]):.3f} and '
            f"{float(living[1]):.3f}.",
        ),
        "softmax(Q K' / sqrt(4))",
        {"first": before.values, "second": table.values, "living": living},
        (before, table),
    )
