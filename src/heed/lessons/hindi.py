"""A lesson without training: one sentence pair with a known alignment, and the loss of attending elsewhere.

The pair, the true weights and the third row of predicted weights are the lecture notes' example of supervised
attention; each loss is computed by hand and compared with the loss used in training. The split into pieces and the
descent are ours.
"""

from __future__ import annotations

import torch
from torch import Tensor

from heed.data.examples import Pair, Span
from heed.data.read.links import WordLink, linked, word_spans, written_links
from heed.data.tokens.link_rows import rows_of
from heed.lessons.parts import Check, Stage, Table, double
from heed.observe.number_tables import number
from heed.tasks.translation.supervision import attention_loss

TITLE = "Main ghar ja raha hoon -> I am going home"
SOURCE = "The pair, its alignment, the third row of weights and its three losses are the lecture notes' example."
HINDI, ENGLISH = "Main ghar ja raha hoon", "I am going home"
LINKS = (WordLink(0, 0), WordLink(4, 1), WordLink(2, 2), WordLink(3, 2), WordLink(1, 3))
PREDICTED = (0.1, 0.1, 0.35, 0.35, 0.1)
"""Weights of the notes' model while it writes "going"."""
_GOING = 2
_SOURCES = tuple(HINDI.split())
_PIECES = ("Main", "ghar", "ja", "ra", "ha", "ho", "on"), ("I", "am", "go", "ing", "home")
_AFTER = (0, 1, 2, 5, 10, 50)
_RATE = 1.0


def hindi_stages() -> tuple[Stage, ...]:
    """All stages."""
    pair = linked(Pair(HINDI, ENGLISH), LINKS)
    true = rows_of(pair.links or (), word_spans(HINDI), word_spans(ENGLISH)).double()
    predicted = double(PREDICTED)
    return (
        _pair(),
        _true(true),
        _predicted(true[_GOING], predicted),
        _cross_entropy(true[_GOING], predicted),
        _divergence(true[_GOING], predicted),
        _squared(true[_GOING], predicted),
        _gradient(true[_GOING], predicted),
        _free(),
        _pieces(pair),
    )


def _pair() -> Stage:
    targets = ENGLISH.split()
    said = [f"{one.written()}: {_SOURCES[one.source]} - {targets[one.target]}" for one in LINKS]
    return Stage(
        "pair",
        "a sentence, its translation, and the links between their words",
        (
            "Hindi puts the verb last: 'going' is 'ja raha', the third and fourth words; 'am' is 'hoon', the fifth.",
            "A link i-j joins source word i and target word j, both counted from 0. One line of a file holds the links "
            "of one pair.",
        ),
        "",
        lines=(f"source: {HINDI}", f"target: {ENGLISH}", f"links:  {written_links(LINKS)}", *said),
    )


def _rows(words: tuple[str, ...] = tuple(ENGLISH.split())) -> tuple[str, ...]:
    return tuple(f"t{n + 1} {word}" for n, word in enumerate(words))


def _true(true: Tensor) -> Stage:
    return Stage(
        "true",
        "the links as weights",
        (
            "A target word with one link should attend to the linked word alone; one with several links, to all linked "
            "words equally: 'going' has half of its weight on 'ja' and half on 'raha'.",
            "Each row sums to 1, as the weights of a softmax do.",
        ),
        "a_true[t, j] = 1 / number of links of t, if t and j are linked, else 0",
        {"true": true},
        (Table("a_true", _rows(), _SOURCES, true, heat=True),),
        checks=(
            Check("a_true[I][Main]", 1.0, float(true[0, 0])),
            Check("a_true[am][hoon]", 1.0, float(true[1, 4])),
            Check("a_true[going][ja]", 0.5, float(true[2, 2])),
            Check("a_true[going][raha]", 0.5, float(true[2, 3])),
            Check("a_true[home][ghar]", 1.0, float(true[3, 1])),
        ),
    )


def _predicted(true: Tensor, predicted: Tensor) -> Stage:
    both = torch.stack([true, predicted])
    return Stage(
        "predicted",
        "a model's weights while it writes 'going'",
        (
            "The model gives the right words the most weight, 0.35 each, and leaves 0.3 on three unrelated words.",
            "How far is that from the true weights? The next three stages measure it.",
        ),
        "a_pred = softmax(scores)",
        {"predicted": predicted},
        (Table("row t3", ("a_true", "a_pred"), _SOURCES, both, heat=True),),
        checks=(Check("sum of a_pred", 1.0, float(predicted.sum())),),
    )


def _of_library(true: Tensor, predicted: Tensor, kind: str) -> float:
    mask = torch.ones(1, len(true), dtype=torch.bool)
    return float(attention_loss(predicted.view(1, 1, -1), true.view(1, 1, -1), mask, kind))


def _cross_entropy(true: Tensor, predicted: Tensor) -> Stage:
    loss = -(true * predicted.log()).sum()
    return Stage(
        "cross-entropy",
        "the cross-entropy of the predicted weights",
        (
            "Only linked words count: -0.5 ln 0.35 - 0.5 ln 0.35. The other three have a true weight of 0, and "
            "0 times a logarithm is 0.",
            "The factors are a_true, the logarithms are of a_pred; the other way round, the sum would contain ln 0.",
        ),
        "L = - sum_j a_true[j] ln a_pred[j]",
        {"loss": loss},
        lines=(f"-0.5 ln 0.35 - 0.5 ln 0.35 = {loss:.4f}",),
        checks=(
            Check("printed cross-entropy", 1.0498, float(loss)),
            Check("as training computes it", float(loss), _of_library(true, predicted, "cross_entropy")),
        ),
    )


def _divergence(true: Tensor, predicted: Tensor) -> Stage:
    linked_words = true > 0
    entropy = -(true[linked_words] * true[linked_words].log()).sum()
    divergence = (true[linked_words] * (true[linked_words] / predicted[linked_words]).log()).sum()
    return Stage(
        "divergence",
        "the Kullback-Leibler divergence: the part of the loss that training can remove",
        (
            "Even the best possible weights, a_true itself, have a cross-entropy of ln 2 = 0.693: the entropy of two "
            "equally weighted words. The rest is KL(true, pred).",
            "Both losses have the same gradient. The divergence the other way round, KL(pred, true), is infinite: "
            "a_true has zeros where a_pred has 0.1.",
        ),
        "KL(true, pred) = sum_j a_true[j] ln (a_true[j] / a_pred[j]) = L - H(true)",
        {"divergence": divergence, "entropy": entropy},
        lines=(
            f"0.5 ln (0.5 / 0.35) + 0.5 ln (0.5 / 0.35) = {divergence:.4f}",
            f"1.0498 - {entropy:.4f} = {divergence:.4f}",
        ),
        checks=(
            Check("printed KL(true, pred)", 0.3567, float(divergence)),
            Check("entropy of a_true: ln 2", 0.6931, float(entropy)),
        ),
    )


def _squared(true: Tensor, predicted: Tensor) -> Stage:
    squares = (true - predicted).square()
    return Stage(
        "squared",
        "the mean squared error",
        (
            "Every word counts, linked or not: three have 0.1 too much, two have 0.15 too little.",
            "Squares of small differences are small, so this loss needs a larger weight beside the loss of the words. "
            "Where the softmax is confident of a wrong word, its gradient is almost zero; that of the cross-entropy "
            "is not.",
        ),
        "L = 1 / m sum_j (a_true[j] - a_pred[j])^2,  m source words",
        {"squares": squares, "loss": squares.mean()},
        (Table("(a_true - a_pred)^2", ("t3 going",), _SOURCES, squares.unsqueeze(0)),),
        lines=(f"(0.01 + 0.01 + 0.0225 + 0.0225 + 0.01) / 5 = {squares.mean():.4f}",),
        checks=(
            Check("printed mean squared error", 0.0150, float(squares.mean())),
            Check("as training computes it", float(squares.mean()), _of_library(true, predicted, "mse")),
        ),
    )


def _gradient(true: Tensor, predicted: Tensor) -> Stage:
    scores, rows, losses = predicted.log(), [], []
    for step in range(max(_AFTER) + 1):
        weights = scores.softmax(-1)
        if step in _AFTER:
            rows.append(weights)
            losses.append(-(true * weights.log()).sum())
        scores = scores - _RATE * (weights - true)
    table = torch.cat([torch.stack(rows), torch.stack(losses).unsqueeze(1)], 1)
    return Stage(
        "gradient",
        "the gradient with respect to the scores",
        (
            "The gradient of the cross-entropy with respect to a word's score is a_pred - a_true: scores of linked "
            "words rise, the others fall. Here the scores themselves are updated, with a step of 1; in a model, all "
            "weights that produce them are.",
            "The loss falls towards 0.693, not towards 0.",
        ),
        "dL / de_j = a_pred[j] - a_true[j]",
        {"weights": torch.stack(rows), "losses": torch.stack(losses), "gradient": predicted - true},
        (
            Table("gradient", ("t3 going",), _SOURCES, (predicted - true).unsqueeze(0)),
            Table("a_pred after each number of steps, and L", tuple(map(str, _AFTER)), (*_SOURCES, "L"), table),
        ),
        checks=(Check("sum of the gradient", 0.0, float((predicted - true).sum())),),
    )


def _free() -> Stage:
    pair = linked(Pair(HINDI, ENGLISH), [one for one in LINKS if one.target != 1])
    rows = rows_of(pair.links or (), word_spans(HINDI), word_spans(ENGLISH)).double()
    even = torch.full((4, 5), 0.2, dtype=torch.float64)
    loss = -(rows * even.log()).sum(-1)
    return Stage(
        "free",
        "a word without a link may attend to any word",
        (
            "Suppose that 'am' had no link. Its row is all zeros, so it adds nothing to the loss, whatever the model "
            "attends to; the same holds for the end of the sentence.",
            "With uniform weights, 0.2 on each word, every linked row costs ln 5.",
        ),
        "L = - sum_t sum_j a_true[t, j] ln a_pred[t, j]",
        {"true": rows, "losses": loss},
        (Table("a_true without 4-1, and the loss of uniform weights", _rows(), (*_SOURCES, "L"),
               torch.cat([rows, loss.unsqueeze(1)], 1)),),
        checks=(
            Check("loss of the row of 'am'", 0.0, float(loss[1])),
            Check("loss of a linked row: ln 5", 1.609, float(loss[0])),
        ),
    )  # fmt: skip


def _spans(pieces: tuple[str, ...], text: str) -> list[Span]:
    """Positions of pieces in the text that they make up, not counting spaces."""
    spans, start = [], 0
    for piece in pieces:
        start = text.index(piece, start)
        spans.append((start, start + len(piece)))
        start += len(piece)
    return spans


def _pieces(pair: Pair) -> Stage:
    sources, targets = _PIECES
    rows = rows_of(pair.links or (), _spans(sources, HINDI), _spans(targets, ENGLISH)).double()
    return Stage(
        "pieces",
        "the same links for words split into pieces",
        (
            "Links are given for words, but models read pieces of words. A link joins the characters of both words, "
            "and a piece belongs to the links of its characters, however a tokenizer splits the words.",
            "Both pieces of 'go ing' have the row of 'going': half on 'ja', half on 'raha', which its pieces 'ra' and "
            "'ha' share. The 'ha' of 'raha' has no part in 'hoon'.",
        ),
        "A_tj = 1 / |L_t| sum over links l of t: [j in S_l] / |S_l|",
        {"rows": rows},
        (Table("a_true over pieces", _rows(targets), sources, rows, heat=True),),
        lines=(
            "To train with such links, in a file with one line for each pair:",
            "  heed train translation my.hi my.en training.alignment.files=my.links",
            f"The weights of 'ing': {', '.join(number(value) for value in rows[3].tolist())}.",
        ),
        checks=(
            Check("a_true[ing][ja]", 0.5, float(rows[3, 2])),
            Check("a_true[ing][ra]", 0.25, float(rows[3, 3])),
            Check("a_true[am][on]", 0.5, float(rows[1, 6])),
        ),
    )
