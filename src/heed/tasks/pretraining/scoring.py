"""How well a model predicts masked words and which texts follow each other."""

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
from heed.tasks.pretraining.rows import FOLLOWS, NO_QUESTION, Rows

if TYPE_CHECKING:
    from heed.tasks.pretraining.model import Pretrainer
    from heed.tasks.pretraining.task import Pretraining

_PIECE = 2**22
"""Numbers of one piece of logits."""
_SEEDS = 0, 2**32
"""Seed and pass by which the words of rows that are scored are masked; no pass of training has that number."""


@dataclass(frozen=True)
class RowScores:
    """What a model said of some rows.

    Attributes:
        labels: `(rows,)`, as `Rows.labels`.
        masked: `(rows,)`, how many words were masked; None where none are learned.
        right: `(rows,)`, how many of them had the highest score.
        nats: `(rows,)`, minus the sum of their log-probabilities.
        follows: `(rows,)`, log-probability that the second text follows; 0 where there is none; None where that is not
            learned. The texts are read unmasked.
        follows_not: `(rows,)`, that it does not.
    """

    labels: NDArray[np.int64]
    masked: NDArray[np.float64] | None = None
    right: NDArray[np.float64] | None = None
    nats: NDArray[np.float64] | None = None
    follows: NDArray[np.float64] | None = None
    follows_not: NDArray[np.float64] | None = None


@torch.inference_mode()
def score_rows(task: Pretraining, model: Pretrainer, passages: Passages, rows: Rows) -> RowScores:
    """Score rows, the masked words in one pass and the pairs, unmasked, in another."""
    was_training = model.training
    model.eval()
    try:
        words = {} if model.words is None else _words(task, model, passages, rows)
        order = {} if model.order is None else _order(task, model, passages, rows)
    finally:
        model.train(was_training)
    return RowScores(rows.labels, **words, **order)


def _batches(task: Pretraining, rows: Rows, chosen: NDArray[np.int64] | None = None) -> list[list[int]]:
    return list(plan_pass(rows.lengths, 4 * task.config.training.batch_tokens, chosen=chosen))


def _words(task: Pretraining, model: Pretrainer, passages: Passages, rows: Rows) -> dict[str, NDArray[np.float64]]:
    found = {name: np.zeros(len(rows)) for name in ("masked", "right", "nats")}
    device = next(model.parameters()).device
    assert model.words is not None
    for indices in _batches(task, rows):
        batch = collate_rows(passages, rows, indices, task.masking, _SEEDS, task.double_separator).to(device)
        states = model.words.states(model(batch.tokens, batch.mask).flatten(0, 1)[batch.places])
        owner = np.asarray(indices)[(batch.places // batch.tokens.shape[1]).cpu().numpy()]
        size = max(1, _PIECE // model.words.output.weight.shape[0])
        for start in range(0, len(states), size):
            part, targets = states[start : start + size], batch.words[start : start + size]
            scores = log_softmax(model.words.output(part).float(), dim=-1)
            own = scores.gather(1, targets.unsqueeze(1)).squeeze(1)
            where = owner[start : start + size]
            np.add.at(found["masked"], where, 1.0)
            np.add.at(found["right"], where, (scores.argmax(1) == targets).cpu().numpy().astype(np.float64))
            np.add.at(found["nats"], where, -own.double().cpu().numpy())
    return found


def _order(task: Pretraining, model: Pretrainer, passages: Passages, rows: Rows) -> dict[str, NDArray[np.float64]]:
    found = {"follows": np.zeros(len(rows)), "follows_not": np.zeros(len(rows))}
    device = next(model.parameters()).device
    assert model.order is not None
    for indices in _batches(task, rows, np.flatnonzero(rows.labels != NO_QUESTION)):
        batch = collate_rows(passages, rows, indices, None, _SEEDS, task.double_separator).to(device)
        logits = model.order(model.body.last(model(batch.tokens, batch.mask), batch.mask))
        scores = log_softmax(logits.double(), dim=-1).cpu().numpy()
        found["follows"][indices] = scores[:, FOLLOWS]
        found["follows_not"][indices] = scores[:, 1]
    return found
