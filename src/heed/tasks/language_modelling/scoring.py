"""The log-probability and the rank of every token of given texts; all scores of this task are computed here.

A document longer than `data.context` is read in windows of that many tokens, which advance by `stride`:

    window k reads the tokens before places k s .. k s + context - 1, and scores those that no earlier one scored

so every token is scored once: the first of a document after the task's first token (end or start), and each after at
least context - stride tokens, where there are as many. A model that carries a state reads a document from its
beginning to its end; its context is everything before.

Source: Press, Smith and Lewis 2021 (arXiv:2012.15832), section 3, on windows and what the stride costs.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from itertools import chain
from typing import Any, Protocol

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from heed.attention import Rows
from heed.data.batch.rows import pad_rows
from heed.data.tokens.tokenizer import END, UNKNOWN, TextTokenizer
from heed.models.base import LanguageModel
from heed.threads import threads_for
from heed.training.loss import PIECE_BYTES
from heed.training.processes import current

TOGETHER = 8_192
"""Tokens scored at once."""
_BATCHES = 64
"""Batches after which scores are written to the results."""
Ids = NDArray[Any]
"""`(tokens,)` integers."""


class Scorer(Protocol):
    """The part of a task that scoring needs."""

    tokenizer: TextTokenizer

    @property
    def context(self) -> int:
        """Tokens that the model sees at once."""

    @property
    def first_token(self) -> int:
        """The token before a document's first one."""

    @property
    def end_token(self) -> bool:
        """True if documents have an end token."""


@dataclass(frozen=True, eq=False)
class IdScores:
    """The scores of a sequence of tokens, `(tokens,)` each.

    Attributes:
        log_probs: Float64, in nats.
        ranks: Int32, 1 for the most probable token; equally probable tokens have the same rank. None if not asked for.
        seen: Int32, number of tokens that each was predicted from, including the task's first token.
    """

    log_probs: NDArray[np.float64]
    ranks: NDArray[np.int32] | None
    seen: NDArray[np.int32]


@dataclass(frozen=True, eq=False)
class TokenScores(IdScores):
    """The scores of the tokens of a text.

    Attributes:
        ids: `(tokens,)`, the tokens.
        spans: `(tokens, 2)`, the characters of the text that each token stands for, as start and end.
        end: The scores of the end token after the text; None if the run has none.
    """

    ids: Ids
    spans: NDArray[np.int32]
    end: IdScores | None

    @property
    def unknown(self) -> NDArray[np.bool_]:
        """`(tokens,)`, True for unknown tokens, whose probability is that of any unknown piece of text."""
        found: NDArray[np.bool_] = self.ids == UNKNOWN
        return found


def score_texts(
    task: Scorer, model: LanguageModel, texts: Sequence[str], stride: int | None = None, ranks: bool = True
) -> list[TokenScores]:
    """Score every token of each text, and its end token if the run has one.

    Args:
        task: Has the tokenizer and the context.
        model: In evaluation mode.
        texts: Any texts; a blank one has no tokens.
        stride: Tokens by which a window advances; the context by default.
        ranks: Compute ranks too.
    """
    end = [END] if task.end_token else []
    rows, spans = [], []
    for text in texts:
        encoded = task.tokenizer.encode(text)
        rows.append(np.array([*encoded.ids, *end], dtype=np.int32))
        spans.append(np.array(encoded.spans, dtype=np.int32).reshape(-1, 2))  # as tuples they are ten times as large
    found = []
    for places, ids, scores in zip(spans, rows, score_ids(task, model, rows, stride, ranks), strict=True):
        count = len(places)
        own = _part(scores, slice(0, count))
        last = _part(scores, slice(count, None)) if end else None
        found.append(TokenScores(own.log_probs, own.ranks, own.seen, ids[:count], places, last))
    return found


def score_ids(
    task: Scorer, model: LanguageModel, rows: Sequence[Ids], stride: int | None = None, ranks: bool = True
) -> list[IdScores]:
    """Score every token of each row, a document in itself; rows are sharded over all processes."""
    lengths = [len(row) for row in rows]
    found = [IdScores(np.zeros(n), np.zeros(n, np.int32) if ranks else None, np.zeros(n, np.int32)) for n in lengths]
    work: Callable[[Any], _Pieces]
    groups: Sequence[Any]
    if type(model).carries:
        groups = _groups(lengths, task.context)
        work = partial(_carried, task, model, rows, ranks=ranks)
    else:
        groups = _window_groups(_windows(lengths, task.context, stride or task.context))
        work = partial(_windowed, task, model, rows, ranks=ranks)
    for start in range(0, len(groups), _BATCHES):  # a large set's pieces all at once would be larger than its scores
        results = current().map(lambda some: [work(one) for one in some], groups[start : start + _BATCHES])
        for row, place, scores in chain.from_iterable(results):
            places = slice(place, place + len(scores.log_probs))
            found[row].log_probs[places] = scores.log_probs
            found[row].seen[places] = scores.seen
            if scores.ranks is not None:
                found[row].ranks[places] = scores.ranks  # type: ignore[index]
    return found


_Pieces = list[tuple[int, int, IdScores]]
"""Row, place of the first token, scores from there on."""
_Window = NDArray[np.int64]
"""Row, first target of the window, first target that is scored, end."""


def _windows(lengths: Sequence[int], context: int, stride: int) -> _Window:
    """The windows of all rows, `(windows, 4)`."""
    parts = []
    for row, count in enumerate(lengths):
        if not count:
            continue
        starts = np.arange(0, max(1, count - context + stride), stride)
        stops = np.minimum(starts + context, count)
        scored = np.concatenate([[0], stops[:-1]])
        parts.append(np.stack([np.full(len(starts), row), starts, scored, stops], axis=1))
    return np.concatenate(parts) if parts else np.zeros((0, 4), np.int64)


def _window_groups(windows: _Window) -> list[_Window]:
    """Batches of windows of similar length."""
    lengths = windows[:, 3] - windows[:, 1]
    ordered = windows[np.argsort(-lengths, kind="stable")]
    groups, start = [], 0
    while start < len(ordered):
        size = max(1, TOGETHER // int(ordered[start, 3] - ordered[start, 1]))
        groups.append(ordered[start : start + size])
        start += size
    return groups


def _windowed(task: Scorer, model: LanguageModel, rows: Sequence[Ids], windows: _Window, ranks: bool) -> _Pieces:
    """Score one batch of windows."""
    read, wanted = [], []
    for row, start, scored, stop in windows.tolist():
        before = [task.first_token] if start == 0 else [int(rows[row][start - 1])]
        read.append(before + rows[row][start : stop - 1].tolist())
        wanted.append((scored - start, stop - start))
    device = next(model.parameters()).device
    tokens, mask = pad_rows(read)
    labels, _ = pad_rows([rows[row][start:stop].tolist() for row, start, _, stop in windows.tolist()])
    chosen = mask.clone()
    for place, (first, _) in enumerate(wanted):
        chosen[place, :first] = False
    with torch.no_grad(), threads_for(model, tokens.numel()):
        hidden = model(tokens.to(device))
        log_probs, found = _of_tokens(model, hidden[chosen.to(device)], labels[chosen].to(device), ranks)
    seen = (torch.arange(tokens.shape[1]) + 1).expand_as(tokens)[chosen].numpy().astype(np.int32)
    pieces, at = [], 0
    for row, _, scored, stop in windows.tolist():
        part = slice(at, at := at + stop - scored)
        pieces.append((row, scored, _part(IdScores(log_probs, found, seen), part)))
    return pieces


def _groups(lengths: Sequence[int], context: int) -> list[list[int]]:
    """Batches of rows of similar length, longest first, for models that read a row from beginning to end."""
    order = sorted((row for row, length in enumerate(lengths) if length), key=lambda row: -lengths[row])
    size = max(1, TOGETHER // context)
    return [order[start : start + size] for start in range(0, len(order), size)]


def _carried(task: Scorer, model: LanguageModel, rows: Sequence[Ids], group: Sequence[int], ranks: bool) -> _Pieces:
    """Score some rows, read chunk by chunk with the state carried; a row that ends leaves the batch."""
    device = next(model.parameters()).device
    lengths = [len(rows[row]) for row in group]
    pieces: _Pieces = []
    state: Any = model.start(None, Rows.repeat(len(group), device=device))
    active = len(group)
    for start in range(0, lengths[0], task.context):
        going = sum(length > start for length in lengths)
        if going < active:
            state, active = state.select(torch.arange(going, device=device)), going
        parts = [rows[row][start : start + task.context].tolist() for row in group[:active]]
        before = [int(rows[row][start - 1]) if start else task.first_token for row in group[:active]]
        tokens, mask = pad_rows([[first, *part[:-1]] for first, part in zip(before, parts, strict=True)])
        labels, _ = pad_rows(parts)
        with torch.no_grad(), threads_for(model, tokens.numel()):
            hidden, state = model.read(tokens.to(device), state)
            log_probs, found = _of_tokens(model, hidden[mask.to(device)], labels[mask].to(device), ranks)
        at = 0
        for row, part in zip(group, parts, strict=False):
            seen = np.arange(start + 1, start + len(part) + 1, dtype=np.int32)
            own = slice(at, at := at + len(part))
            pieces.append((row, start, IdScores(log_probs[own], None if found is None else found[own], seen)))
    return pieces


def _of_tokens(
    model: LanguageModel, hidden: Tensor, labels: Tensor, ranks: bool
) -> tuple[NDArray[np.float64], NDArray[np.int32] | None]:
    """Log-probabilities and ranks of `labels` `(positions,)` after `hidden` `(positions, d)`, piece by piece."""
    values, places = [], []
    for part, label in _pieces(model, hidden, labels):
        logits = model.logits(part)
        logits = logits if logits.dtype == torch.float64 else logits.float()
        own = logits.gather(-1, label.unsqueeze(-1))
        values.append((own.squeeze(-1) - logits.logsumexp(-1)).double().cpu().numpy())
        if ranks:
            places.append(((logits > own).sum(-1) + 1).int().cpu().numpy())
    log_probs = np.concatenate(values) if values else np.zeros(0)
    return log_probs, (np.concatenate(places) if places else np.zeros(0, np.int32)) if ranks else None


def _pieces(model: LanguageModel, hidden: Tensor, labels: Tensor) -> Iterator[tuple[Tensor, Tensor]]:
    size = max(1, PIECE_BYTES // (4 * int(model.config.vocab_size)))  # type: ignore[attr-defined]
    return zip(hidden.split(size), labels.split(size), strict=True)


def _part(scores: IdScores, part: slice) -> IdScores:
    return IdScores(scores.log_probs[part], None if scores.ranks is None else scores.ranks[part], scores.seen[part])
