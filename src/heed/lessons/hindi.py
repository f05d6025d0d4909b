"""A lesson without training: one sentence pair with a known alignment, and the loss of attending elsewhere.

The pair, the true weights and the third row of predicted weights are the lecture notes' example of supervised
attention; each loss is computed by hand and compared with the loss used in training. The split into pieces and the
descent are ours.
"""

from __future__ import annotations

import re

import torch
from torch import Tensor

from heed.data.examples import Pair
from heed.data.kinds.links import WordLink, linked, word_spans, written_links
from heed.lessons.parts import Script, Stage, Table, double
from heed.observe.number_tables import three_decimals
from heed.tasks.inputs.supervision import attention_loss, rows_of

TITLE = "Main ghar ja raha hoon -> I am going home"
SOURCE = "The pair, its alignment, the third row of weights and its three losses are the lecture notes' example."
HINDI, ENGLISH = "Main ghar ja raha hoon", "I am going home"
LINKS = (WordLink(0, 0), WordLink(4, 1), WordLink(2, 2), WordLink(3, 2), WordLink(1, 3))
PREDICTED = (0.1, 0.1, 0.35, 0.35, 0.1)
"""Weights of the notes' model while it writes "going"."""
_SOURCES, _TARGETS = tuple(HINDI.split()), tuple(ENGLISH.split())
_PIECES = ("Main", "ghar", "ja", "ra", "ha", "ho", "on"), ("I", "am", "go", "ing", "home")
_AFTER = (0, 1, 2, 5, 10, 50)
_stage = Script("hindi")


def stages() -> tuple[Stage, ...]:
    """All stages."""
    said = (f"{one.written()}: {_SOURCES[one.source]} - {_TARGETS[one.target]}" for one in LINKS)
    lines = (f"source: {HINDI}", f"target: {ENGLISH}", f"links:  {written_links(LINKS)}", *said)
    pair, rows = linked(Pair(HINDI, ENGLISH), LINKS), tuple(f"t{n + 1} {word}" for n, word in enumerate(_TARGETS))
    weights = _weights(pair)
    cells = {"a_true[I][Main]": (0, 0), "a_true[am][hoon]": (1, 4), "a_true[going][ja]": (2, 2)}
    cells |= {"a_true[going][raha]": (2, 3), "a_true[home][ghar]": (3, 1)}
    stated = zip(cells.items(), (1.0, 1.0, 0.5, 0.5, 1.0), strict=True)
    checks = [(name, value, weights[cell]) for (name, cell), value in stated]
    first = _stage("true", {"true": weights}, Table("a_true", rows, _SOURCES, weights, heat=True), checks=checks)
    return (_stage("pair", lines=lines), first, *_losses(weights[2], double(PREDICTED)), _free(rows), _pieces(pair))


def _weights(pair: Pair) -> Tensor:
    return rows_of(pair.links or (), word_spans(HINDI), word_spans(ENGLISH)).double()


def _losses(true: Tensor, predicted: Tensor) -> tuple[Stage, ...]:
    """The predicted row for "going", its three losses, and the descent of the first."""
    loss, on = -(true * predicted.log()).sum(), true > 0
    entropy = -(true[on] * true[on].log()).sum()
    divergence = (true[on] * (true[on] / predicted[on]).log()).sum()
    squares, slope = (true - predicted).square(), predicted - true
    mask = torch.ones(1, len(true), dtype=torch.bool)
    library = {
        kind: attention_loss(predicted.view(1, 1, -1), true.view(1, 1, -1), mask, kind)
        for kind in ("cross_entropy", "mse")
    }
    scores, steps = predicted.log(), []
    for step in range(max(_AFTER) + 1):
        weights = scores.softmax(-1)
        if step in _AFTER:
            steps.append(torch.cat([weights, -(true * weights.log()).sum(-1, keepdim=True)]))
        scores = scores - (weights - true)
    rows, row, descent = ("a_true", "a_pred"), ("t3 going",), torch.stack(steps)
    both = Table("row t3", rows, _SOURCES, torch.stack([true, predicted]), heat=True)
    computed, after = "as training computes it", "a_pred after each number of steps, and L"
    checks = [("printed cross-entropy", 1.0498, loss), (computed, float(loss), library["cross_entropy"])]
    of_rest = [("printed KL(true, pred)", 0.3567, divergence), ("entropy of a_true: ln 2", 0.6931, entropy)]
    mean = squares.mean()
    of_mean = [("printed mean squared error", 0.0150, mean), (computed, float(mean), library["mse"])]
    numbers = {"weights": descent[:, :-1], "losses": descent[:, -1], "gradient": slope}
    tables = (
        Table("gradient", row, _SOURCES, slope.unsqueeze(0)),
        Table(after, tuple(map(str, _AFTER)), (*_SOURCES, "L"), descent),
    )
    rest = {"divergence": divergence, "entropy": entropy}
    table = Table("(a_true - a_pred)^2", row, _SOURCES, squares.unsqueeze(0))
    return (
        _stage("predicted", {"predicted": predicted}, both, checks=[("sum of a_pred", 1.0, predicted.sum())]),
        _stage("cross-entropy", {"loss": loss}, checks=checks, loss=loss),
        _stage("divergence", rest, checks=of_rest, **rest),
        _stage("squared", {"squares": squares, "loss": mean}, table, checks=of_mean, loss=mean),
        _stage("gradient", numbers, *tables, checks=[("sum of the gradient", 0.0, slope.sum())]),
    )


def _free(names: tuple[str, ...]) -> Stage:
    rows = _weights(linked(Pair(HINDI, ENGLISH), [one for one in LINKS if one.target != 1]))
    loss = -(rows * torch.full((4, 5), 0.2, dtype=torch.float64).log()).sum(-1)
    values = torch.cat([rows, loss.unsqueeze(1)], 1)
    table = Table("a_true without 4-1, and the loss of uniform weights", names, (*_SOURCES, "L"), values)
    checks = [("loss of the row of 'am'", 0.0, loss[1]), ("loss of a linked row: ln 5", 1.609, loss[0])]
    return _stage("free", {"true": rows, "losses": loss}, table, checks=checks)


def _pieces(pair: Pair) -> Stage:
    sources, targets = _PIECES
    read, written = (
        [one.span() for one in re.finditer("|".join(pieces), text)]
        for pieces, text in zip(_PIECES, (HINDI, ENGLISH), strict=True)
    )
    rows = rows_of(pair.links or (), read, written).double()
    table = Table("a_true over pieces", tuple(f"t{n + 1} {one}" for n, one in enumerate(targets)), sources, rows, True)
    checks = [("a_true[ing][ja]", 0.5, rows[3, 2]), ("a_true[ing][ra]", 0.25, rows[3, 3])]
    checks.append(("a_true[am][on]", 0.5, rows[1, 6]))
    return _stage("pieces", {"rows": rows}, table, checks=checks, ing=", ".join(map(three_decimals, rows[3].tolist())))
