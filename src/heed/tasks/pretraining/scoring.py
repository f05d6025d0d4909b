"""Scores of masked words and pairs, document by document."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
import torch
from numpy.typing import NDArray
from torch.nn.functional import log_softmax

from heed.data.batch.plan import plan_pass
from heed.tasks.pretraining.batch import collate_rows
from heed.tasks.pretraining.passages import Passages
from heed.tasks.pretraining.rows import NO_QUESTION, Rows
from heed.threads import threads_for

if TYPE_CHECKING:
    from heed.tasks.pretraining.model import Pretrainer
    from heed.tasks.pretraining.task import Pretraining

_PIECE = 2**22
"""Numbers of one piece of logits."""
_SEEDS = 0, 2**32
"""Seed and pass number for masking in scoring; no training pass has that number."""
Array = NDArray[np.float64]


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
def score_passages(task: Pretraining, model: Pretrainer, passages: Passages) -> list[DocumentScores]:
    """Score documents given as tokens: masked words in one pass, pairs, unmasked, in another."""
    rows = task.rows_of(passages)
    was_training = model.training
    model.eval()
    try:
        words = _words(task, model, passages, rows) if model.words is not None else np.zeros((len(rows), 3))
        order = _order(task, model, passages, rows) if model.order is not None else np.zeros((len(rows), 3))
    finally:
        model.train(was_training)
    return by_document(passages, rows, words, order)


def by_document(passages: Passages, rows: Rows, words: Array, order: Array) -> list[DocumentScores]:
    """Sums over the rows of each document, of `(rows, 3)` counts, right answers and nats."""
    owner = passages.document_at(rows.first)
    sums = np.zeros((passages.num_documents, 7))
    np.add.at(sums, owner, np.concatenate([words, order, rows.lengths[:, None]], axis=1))
    return [DocumentScores(int(a), int(b), c, int(d), int(e), f, int(g)) for a, b, c, d, e, f, g in sums.tolist()]


def _batches(task: Pretraining, rows: Rows, chosen: NDArray[np.int64] | None = None) -> list[list[int]]:
    return list(plan_pass(rows.lengths, 4 * task.config.training.batch_tokens, chosen=chosen))


def _words(task: Pretraining, model: Pretrainer, passages: Passages, rows: Rows) -> Array:
    """For each row its number of masked words, how many were predicted right, and their nats, `(rows, 3)`."""
    found = np.zeros((len(rows), 3))
    device = next(model.parameters()).device
    assert model.words is not None
    for indices in _batches(task, rows):
        batch = collate_rows(passages, rows, indices, task.masking, _SEEDS, task.double_separator).to(device)
        with threads_for(model, batch.tokens.numel()):
            states = model.words.states(model(batch.tokens, batch.mask).flatten(0, 1)[batch.places])
        owner = np.asarray(indices)[(batch.places // batch.tokens.shape[1]).cpu().numpy()]
        size = max(1, _PIECE // model.words.output.weight.shape[0])
        for start in range(0, len(states), size):
            part, targets = states[start : start + size], batch.words[start : start + size]
            with threads_for(model.words, len(part)):
                scores = log_softmax(model.words.output(part).float(), dim=-1)
            nats = -scores.gather(1, targets.unsqueeze(1)).squeeze(1).double()
            right = (scores.argmax(1) == targets).double()
            each = torch.stack([torch.ones_like(nats), right, nats], dim=1).cpu().numpy()
            np.add.at(found, owner[start : start + size], each)
    return found


def _order(task: Pretraining, model: Pretrainer, passages: Passages, rows: Rows) -> Array:
    """For each row 1 if it is a pair, 1 if it was answered right, and the nats, `(rows, 3)`."""
    found = np.zeros((len(rows), 3))
    device = next(model.parameters()).device
    assert model.order is not None
    for indices in _batches(task, rows, np.flatnonzero(rows.labels != NO_QUESTION)):
        batch = collate_rows(passages, rows, indices, None, _SEEDS, task.double_separator).to(device)
        with threads_for(model, batch.tokens.numel()):
            logits = model.order_scores(model(batch.tokens, batch.mask), batch.mask)
        found[indices] = answers(log_softmax(logits.double(), dim=-1).cpu().numpy(), rows.labels[indices])
    return found


def answers(scores: Array, labels: NDArray[np.int64]) -> Array:
    """For each pair 1, 1 if it was answered right, and the nats, `(pairs, 3)`, from log-probabilities."""
    nats = -scores[np.arange(len(labels)), labels]
    right = nats < -scores[np.arange(len(labels)), 1 - labels]
    return np.stack([np.ones(len(labels)), right, nats], axis=1)
