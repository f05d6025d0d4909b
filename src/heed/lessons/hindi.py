"""A lesson without training: one sentence pair with a known alignment, and the loss of attending elsewhere.

The pair, the true weights and the third row of predicted weights are the lecture notes' example of supervised
attention; each loss is computed by hand and compared with the loss used in training. The split into pieces and the
descent are ours.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Any

import torch
from torch import Tensor

from heed.data.examples import Pair
from heed.data.kinds.pairs import WordLink, linked, word_spans, written_links
from heed.lessons.parts import Script, Stage, double
from heed.show.number_tables import three_decimals
from heed.tasks.inputs.supervision import attention_loss, rows_of

TITLE = "Main ghar ja raha hoon -> I am going home"
SOURCE = "The pair, its alignment, the third row of weights and its three losses are the lecture notes' example."
HINDI, ENGLISH = "Main ghar ja raha hoon", "I am going home"
LINKS = (WordLink(0, 0), WordLink(4, 1), WordLink(2, 2), WordLink(3, 2), WordLink(1, 3))
PREDICTED = (0.1, 0.1, 0.35, 0.35, 0.1)
"""Weights of the notes' model while it writes "going"."""
_SOURCES, _TARGETS = tuple(HINDI.split()), tuple(ENGLISH.split())
_PIECES = ("Main", "ghar", "ja", "ra", "ha", "ho", "on"), ("I", "am", "go", "ing", "home")
_AFTER = [0, 1, 2, 5, 10, 50]
_stage = Script("hindi")


def stages() -> tuple[Stage, ...]:
    """All stages."""
    links = (f"{link.written()}: {_SOURCES[link.source]} - {_TARGETS[link.target]}" for link in LINKS)
    lines = (f"source: {HINDI}", f"target: {ENGLISH}", f"links:  {written_links(LINKS)}", *links)
    spans = word_spans(HINDI), word_spans(ENGLISH)
    weights, free = _weights(LINKS, *spans), _weights([link for link in LINKS if link.target != 1], *spans)
    named = ((f"a_true[{_TARGETS[t]}][{_SOURCES[s]}]", weights[t, s]) for s, t, *_ in LINKS)
    stated = [(name, share, value) for share, (name, value) in zip((1.0, 1.0, 0.5, 0.5, 1.0), named, strict=True)]
    uniform = -(free * double(0.2).log()).sum(-1)
    costs = [("loss of the row of 'am'", 0.0, uniform[1]), ("loss of a linked row: ln 5", 1.609, uniform[0])]
    both = torch.cat([free, uniform.unsqueeze(1)], 1)
    matches = (re.finditer("|".join(pieces), text) for pieces, text in zip(_PIECES, (HINDI, ENGLISH), strict=True))
    pieces = _weights(LINKS, *([match.span() for match in some] for some in matches))
    of_pieces = [("a_true[ing][ja]", 0.5, pieces[3, 2]), ("a_true[ing][ra]", 0.25, pieces[3, 3])]
    of_pieces.append(("a_true[am][on]", 0.5, pieces[1, 6]))
    return (
        _stage("pair", lines=lines),
        _stage("true", true=weights, checks=stated),
        *_losses(weights[2], double(PREDICTED)),
        _stage("free", true=free, losses=uniform, costs=both, checks=costs),
        _stage("pieces", rows=pieces, checks=of_pieces, ing=", ".join(map(three_decimals, pieces[3].tolist()))),
    )


def _weights(links: Sequence[WordLink], sources: Sequence[Any], targets: Sequence[Any]) -> Tensor:
    return rows_of(linked(Pair(HINDI, ENGLISH), links).links or (), sources, targets).double()


def _losses(true: Tensor, predicted: Tensor) -> tuple[Stage, ...]:
    """The predicted row for "going", its three losses, and the descent of the first."""
    loss, on = -(true * predicted.log()).sum(), true > 0
    entropy = -(true[on] * true[on].log()).sum()
    divergence = (true[on] * (true[on] / predicted[on]).log()).sum()
    squares, slope = (true - predicted).square(), predicted - true
    mask, mean, computed = torch.ones(1, len(true), dtype=torch.bool), squares.mean(), "as training computes it"
    by_library, by_square = (
        attention_loss(predicted.view(1, 1, -1), true.view(1, 1, -1), mask, kind) for kind in ("cross_entropy", "mse")
    )
    scores, steps = predicted.log(), []
    for _ in range(_AFTER[-1] + 1):
        weights = scores.softmax(-1)
        steps.append(torch.cat([weights, -(true * weights.log()).sum(-1, keepdim=True)]))
        scores = scores - (weights - true)
    descent, both = torch.stack(steps)[_AFTER], torch.stack([true, predicted])
    of_loss = [("printed cross-entropy", 1.0498, loss), (computed, float(loss), by_library)]
    of_divergence = [("printed KL(true, pred)", 0.3567, divergence), ("entropy of a_true: ln 2", 0.6931, entropy)]
    of_mean = [("printed mean squared error", 0.0150, mean), (computed, float(mean), by_square)]
    descended = {"weights": descent[:, :-1], "losses": descent[:, -1], "descent": descent}
    return (
        _stage("predicted", both=both, predicted=predicted, checks=[("sum of a_pred", 1.0, predicted.sum())]),
        _stage("cross-entropy", loss=loss, checks=of_loss),
        _stage("divergence", divergence=divergence, entropy=entropy, checks=of_divergence),
        _stage("squared", squares=squares, loss=mean, checks=of_mean),
        _stage("gradient", gradient=slope, checks=[("sum of the gradient", 0.0, slope.sum())], **descended),
    )
