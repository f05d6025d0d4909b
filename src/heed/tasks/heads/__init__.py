"""Heads of tasks, a file for each kind: module, truths, loss, predictions. Here, functions that several of them use."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor

from heed.data.batch import framed, framed_features, unframed
from heed.data.tokens import Special


def states_of(body: Any, tokens: Tensor, mask: Tensor, special: Special, features: Tensor | None = None) -> Tensor:
    """The states of tokens `(batch, length)`, `(batch, length, d_output)`; framed for a body that wants it.

    Args:
        body: A `TokenEncoder`.
        tokens: `(batch, length)`.
        mask: `(batch, length)`, True on real tokens.
        special: Of the tokenizer.
        features: `(batch, length, d)`, further inputs of a body that reads features.
    """
    further = () if features is None else (features if not body.framed else framed_features(features),)
    states: Tensor = body(*framed(tokens, mask, special), *further) if body.framed else body(tokens, mask, *further)
    return unframed(states) if body.framed else states


def judged_tokens(
    logits: Callable[[Tensor], Tensor],
    states: Tensor,
    tokens: Tensor,
    owners: Tensor,
    count: int,
    max_positions: int,
    unknown: int = -1,
) -> Tensor:
    """Nats of the tokens of each row, those that were the most probable, and their number, `(count, 3)` in float64.

    `states` are `(tokens, d)`, `owners` the rows of the `tokens`, of which there are `count`. Logits of at most
    `max_positions` are in memory together; the token `unknown` is never right.
    """
    sums = torch.zeros(count, 3, dtype=torch.float64, device=states.device)
    for start in range(0, len(tokens), max_positions):
        part = slice(start, start + max_positions)
        log_probs = torch.log_softmax(logits(states[part]).float(), dim=-1)
        nats = -log_probs.gather(1, tokens[part].unsqueeze(1)).squeeze(1).double()
        right = (log_probs.argmax(-1) == tokens[part]) & (tokens[part] != unknown)
        sums.index_add_(0, owners[part], torch.stack([nats, right.double(), torch.ones_like(nats)], 1))
    return sums.cpu()
