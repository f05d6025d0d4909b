"""Scores of masked words and pairs: by document, as measures, of a baseline for pairs, and as text."""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from operator import attrgetter
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch.nn.functional import log_softmax

from heed.data.batch.plan import plan_pass
from heed.evaluation.measures import Array, Outcomes, rate, share
from heed.tasks.base.report import interval, with_interval
from heed.tasks.pretraining.batch import MaskedBatch, Masking, collate_rows
from heed.tasks.pretraining.model import Pretrainer
from heed.tasks.pretraining.passages import NO_QUESTION, Passages, Rows
from heed.threads import threads_for

_PIECE = 2**22
"""Numbers of one piece of logits."""
_SEEDS = 0, 2**32
"""Seed and pass number for masking in scoring; no training pass has that number."""


@dataclass(frozen=True)
class DocumentScores:
    """Scores of one document by a model, or of its pairs by a baseline; 0 of 0 if not learned.

    Attributes:
        masked: Number of masked words.
        masked_right: Number of masked words that had the highest score.
        masked_nats: Negative sum of their log-probabilities.
        pairs: Number of pairs, which are read unmasked.
        pairs_right: Number of pairs that were answered right.
        pairs_nats: Negative sum of the log-probabilities of the right answers.
        tokens: Number of tokens read.
    """

    masked: int = 0
    masked_right: int = 0
    masked_nats: float = 0.0
    pairs: int = 0
    pairs_right: int = 0
    pairs_nats: float = 0.0
    tokens: int = 0


@torch.inference_mode()
def score_passages(
    model: Pretrainer, passages: Passages, rows: Rows, masking: Masking | None, double: bool, batch_tokens: int
) -> list[DocumentScores]:
    """Score documents: masked words in one pass, pairs, unmasked, in another.

    Args:
        model: The model.
        passages: The documents as tokens.
        rows: The rows that they are read in.
        masking: How words are masked.
        double: Put two end tokens between two texts.
        batch_tokens: Tokens of one batch, padding included.
    """
    was_training = model.training
    model.eval()
    device = next(model.parameters()).device
    words, order = np.zeros((len(rows), 3)), np.zeros((len(rows), 3))
    try:
        if model.words is not None:
            for indices in plan_pass(rows.lengths, batch_tokens):
                batch = collate_rows(passages, rows, indices, masking, _SEEDS, double).to(device)
                _words(model, batch, words)
        if model.order is not None:
            for indices in plan_pass(rows.lengths, batch_tokens, chosen=np.flatnonzero(rows.labels != NO_QUESTION)):
                batch = collate_rows(passages, rows, indices, None, _SEEDS, double).to(device)
                with threads_for(model, batch.tokens.numel()):
                    logits = model.order_scores(model(batch.tokens, batch.mask), batch.mask)
                order[indices] = answers(log_softmax(logits.double(), dim=-1).cpu().numpy(), rows.labels[indices])
    finally:
        model.train(was_training)
    return by_document(passages, rows, words, order)


def _words(model: Pretrainer, batch: MaskedBatch, found: Array) -> None:
    """Add to each row its number of masked words, how many were predicted right, and their nats, `(rows, 3)`."""
    assert model.words is not None
    with threads_for(model, batch.tokens.numel()):
        states = model.words.states(model(batch.tokens, batch.mask).flatten(0, 1)[batch.places])
    owner = np.asarray(batch.indices)[(batch.places // batch.tokens.shape[1]).cpu().numpy()]
    size = max(1, _PIECE // model.words.output.weight.shape[0])
    for start in range(0, len(states), size):
        part, targets = states[start : start + size], batch.words[start : start + size]
        with threads_for(model.words, len(part)):
            scores = log_softmax(model.words.output(part).float(), dim=-1)
        nats = -scores.gather(1, targets.unsqueeze(1)).squeeze(1).double()
        right = (scores.argmax(1) == targets).double()
        each = torch.stack([torch.ones_like(nats), right, nats], dim=1).cpu().numpy()
        np.add.at(found, owner[start : start + size], each)


def by_document(passages: Passages, rows: Rows, words: Array, order: Array) -> list[DocumentScores]:
    """Sums over the rows of each document, of `(rows, 3)` counts, right answers and nats."""
    owner = passages.document_at(rows.first)
    sums = np.zeros((passages.num_documents, 7))
    np.add.at(sums, owner, np.concatenate([words, order, rows.lengths[:, None]], axis=1))
    return [DocumentScores(int(a), int(b), c, int(d), int(e), f, int(g)) for a, b, c, d, e, f, g in sums.tolist()]


def answers(scores: Array, labels: NDArray[np.int64]) -> Array:
    """For each pair 1, 1 if it was answered right, and the nats, `(pairs, 3)`, from log-probabilities."""
    nats = -scores[np.arange(len(labels)), labels]
    right = nats < -scores[np.arange(len(labels)), 1 - labels]
    return np.stack([np.ones(len(labels)), right, nats], axis=1)


WORDS, PAIRS = ("masked_accuracy", "masked_loss"), ("next_accuracy", "next_loss")
"""Measures of masked words, and of pairs."""


def outcomes_of(scores: Sequence[DocumentScores]) -> Outcomes:
    """Accuracies, and losses in nats per masked word and per pair; only those that the model learns.

    A pair counts for the document of its first text.
    """

    def column(name: str) -> Array:
        return np.array([*map(attrgetter(name), scores)], dtype=np.float64)

    masked, pairs = column("masked"), column("pairs")
    main, further = [], []
    if masked.sum():
        main.append(share(WORDS[0], "masked words right", column("masked_right").tolist(), masked.tolist()))
        further.append(rate(WORDS[1], "nats per masked word", column("masked_nats"), masked, 3))
    if pairs.sum():
        main.append(share(PAIRS[0], "next sentences right", column("pairs_right").tolist(), pairs.tolist()))
        further.append(rate(PAIRS[1], "nats per pair", column("pairs_nats"), pairs, 3))
    outputs = tuple(map(_output, scores))
    return Outcomes(
        outputs, tuple(main), tuple(further), details={"masked": int(masked.sum()), "pairs": int(pairs.sum())}
    )


def _output(one: DocumentScores) -> str:
    parts = [f"{one.masked_right} of {one.masked} masked words"] if one.masked else []
    return ", ".join([*parts, *([f"{one.pairs_right} of {one.pairs} pairs"] if one.pairs else [])])


NAME = "word overlap and lengths"
_WORD = re.compile(r"\w+")
_MOST = 20_000
"""Largest number of training pairs that the classifier is fitted to."""
_STEPS = 30


class OverlapClassifier:
    """A logistic regression on six numbers of a pair, fitted to pairs of the training set.

    The numbers are the count of shared words, their share of all words of the two, and the distinct words and the
    characters of each text, standardised.
    """

    def __init__(self, passages: Passages, rows: Rows, decode: Callable[[Sequence[int]], str]) -> None:
        self._decode = decode
        table, labels = self._table(passages, rows, _MOST)
        self._mean, self._std = table.mean(0), table.std(0) + 1e-9
        self._weights = _fitted(self._inputs(table), labels.astype(np.float64))

    def scores(self, passages: Passages, rows: Rows) -> Array:
        """Scores, for each row: 1 if it is a pair, 1 if it was answered right, and the nats, `(rows, 3)`."""
        found = np.zeros((len(rows), 3))
        asked = np.flatnonzero(rows.labels != NO_QUESTION)
        if len(asked):
            table, labels = self._table(passages, rows, len(asked))
            logits = self._inputs(table) @ self._weights
            found[asked] = answers(-np.logaddexp(0.0, np.stack([logits, -logits], axis=1)), labels)
        return found

    def _inputs(self, table: Array) -> Array:
        return np.concatenate([(table - self._mean) / self._std, np.ones((len(table), 1))], axis=1)

    def _table(self, passages: Passages, rows: Rows, most: int) -> tuple[Array, NDArray[np.int64]]:
        """The six numbers of at most `most` pairs, evenly spaced, and their labels."""
        asked = np.flatnonzero(rows.labels != NO_QUESTION)
        asked = asked[:: max(1, -(-len(asked) // max(1, most)))]
        table = np.zeros((len(asked), 6))
        for n, row in enumerate(asked.tolist()):
            texts = [
                self._decode(passages.ids[start[row] : stop[row]].tolist()).lower()
                for start, stop in ((rows.first, rows.first_end), (rows.second, rows.second_end))
            ]
            a, b = (set(_WORD.findall(text)) for text in texts)
            both = len(a & b)
            table[n] = both, both / max(1, len(a | b)), len(a), len(b), len(texts[0]), len(texts[1])
        return table, rows.labels[asked]


def _fitted(inputs: Array, labels: Array) -> Array:
    """Fit the weights of a logistic regression by Newton's method, with a little decay."""
    weights = np.zeros(inputs.shape[1])
    decay = np.full(len(weights), 1e-3)
    for _ in range(_STEPS):
        chance = 1 / (1 + np.exp(-np.clip(inputs @ weights, -30, 30)))
        gradient = inputs.T @ (chance - labels) + decay * weights
        curvature = (inputs * (chance * (1 - chance))[:, None]).T @ inputs + np.diag(decay)
        weights -= np.linalg.solve(curvature, gradient)
    return weights


def body(report: dict[str, Any]) -> list[str]:
    """Lines with the scores of one set: masked words, and pairs."""
    lines = []
    if "masked_accuracy" in report:
        lines.append(f"  {'masked words right':<22} {interval(report['masked_accuracy'])}")
        lines.append(f"  {'nats per masked word':<22}  {with_interval(report['masked_loss'])}  of {report['masked']:,}")
    if "next_accuracy" in report:
        lines.append(f"  {'next sentences right':<22} {interval(report['next_accuracy'])}")
        lines.append(f"  {'nats per pair':<22}  {with_interval(report['next_loss'])}  of {report['pairs']:,}")
    return lines
