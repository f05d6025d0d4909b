"""What an output does under other weights: the same answer computed again, beside each map of a look.

For a map of keys k and an answer of outputs o (a label; a tag for each word; each token that was written, after those
before it), with P(o) the probability that the model gave to what it answered:

equal weights:          the weights of each row are equal over the keys that it may attend to
all weight on one key:  each row that may attend to key k attends to it alone, for one key after the other

Of each intervention the largest change of P(o) over the outputs is kept, and the first output whose most probable class
is another one. Nothing is averaged over outputs: of an output of many tokens a single one may change.

Source: Jain and Wallace 2019, arXiv:1902.10186, and Wiegreffe and Pinter 2019, arXiv:1908.04626 (other weights, equal
weights).
Differs from them: the weights of a trained model are replaced in a map at a time, and nothing is trained again.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

import torch
from torch import Tensor, nn
from torch.nn.functional import pad

from heed.visible import visible
from heed.watch.edits import Edit, Uniform
from heed.watch.effects import Answer, Change, Effect
from heed.watch.looks import Look, rows_of
from heed.watch.maps import Axis, WeightSource
from heed.watch.trace import edit

MOST_KEYS, FEWEST_KEYS = 64, 8
"""Most keys that get all weight, the most attended first, and those that do in a large model or a long text."""
_WORK = 5e9
"""Rough number of products of weights and states that are computed for one map; 0.3 s of one core of 2023."""
MOST_RANKS = 16
"""The same where each sentence is a row of its own: the most attended key of each, then the next of each."""
MOST_MAPS = 8
"""A look with more maps is drawn as an overview, and none is tried."""


@dataclass(frozen=True, eq=False)
class _Alone(Edit):
    """All weight on some keys, equally, others in each input of a batch; rows that may attend to none are kept."""

    keys: Tensor | None = None  # `(N, key)` of bool

    def change(self, weights: Tensor, allowed: Tensor | None, positions: Tensor) -> Tensor:
        assert self.keys is not None
        keys = pad(self.keys, (0, max(0, weights.shape[-1] - self.keys.shape[-1])))[:, : weights.shape[-1]]
        new = keys[:, None, None].to(weights.dtype).expand_as(weights)
        new = new if allowed is None else new * allowed
        total = new.sum(-1, keepdim=True)
        return torch.where(total > 0, new / total.clamp_min(1.0), weights)


@dataclass(frozen=True)
class _Ranked(Edit):
    """All weight of each row on its key of one rank, where it has so many."""

    rank: int = 0

    def change(self, weights: Tensor, allowed: Tensor | None, positions: Tensor) -> Tensor:
        may = torch.ones_like(weights, dtype=torch.bool) if allowed is None else allowed.expand_as(weights)
        order = weights.masked_fill(~may, -1.0).argsort(dim=-1, descending=True, stable=True)
        new = torch.zeros_like(weights)
        if self.rank < weights.shape[-1]:
            new.scatter_(-1, order[..., self.rank : self.rank + 1], 1.0)
        return torch.where((may.sum(-1, keepdim=True) > self.rank), new, weights)


def effect_of(
    answer: Answer, weights: Tensor, key: Axis, opens: WeightSource, mask: Tensor | None = None
) -> Effect | None:
    """Replace the weights of one map; None if no row of it has a choice, or the answer has no outputs.

    Args:
        answer: The answer.
        weights: `(query, key)`, as drawn.
        key: Its columns.
        opens: The attention, and the positions of its columns.
        mask: `(query, key)`, True = may attend, or None.
    """
    if not len(answer.whole) or int((weights > 0).sum(-1).max()) < 2:
        return None
    place, weight = opens.attention, weights.detach().double().mean(0).cpu()
    (equal,) = _changes(answer, Uniform(*place), 1)
    order = weight.argsort(descending=True, stable=True).tolist()
    order = [n for n in order if mask is None or bool(mask[:, n].any())]
    columns = [(n, at[1]) for n in order if (at := opens.place(0, n)) is not None]
    if columns:
        labels, changes = [_quoted(key, n) for n, _ in columns], list[Change]()
        tried = columns[: _most_keys(answer)]
        keys = torch.zeros(len(tried), 1 + max(max(at) for _, at in tried), dtype=torch.bool)
        for row, (_, positions) in zip(keys, tried, strict=True):
            row[positions] = True
        for some in keys.to(answer.tokens.device).split(answer.at_once):
            changes += _changes(answer, _Alone(*place, keys=some), len(some))
    else:
        longest = max((part.stop - part.start for part in key.parts), default=len(key))
        labels = [f"key {n + 1} of each row" for n in range(longest)]
        ranks = range(min(longest, MOST_RANKS))
        changes = [change for rank in ranks for change in _changes(answer, _Ranked(*place, rank=rank), 1)]
    largest = max(range(len(changes)), key=lambda n: changes[n].size)
    others = sum(bool(one.instead) for one in changes)
    return Effect(equal, changes[largest], labels[largest], others, len(changes), len(labels), answer.compared)


def _most_keys(answer: Answer) -> int:
    """The number of keys of a map that get all weight, fewer in a large model or a long text."""
    tables = {id(one.weight) for one in answer.model.modules() if isinstance(one, nn.Embedding)}
    weights = sum(one.numel() for one in answer.model.parameters() if id(one) not in tables)
    work = weights * (len(answer.tokens) + len(answer.whole))
    return int(min(MOST_KEYS, max(FEWEST_KEYS, _WORK / max(1, work))))


def _changes(answer: Answer, intervention: Edit, count: int) -> list[Change]:
    """What changes in `count` inputs that are read together with an edit."""
    with edit(answer.model, intervention):
        both = answer.probabilities(answer.tokens.expand(count, -1), intervention.mechanism or "")
    return [*map(answer.change, *both)]


def _quoted(key: Axis, n: int) -> str:
    """The label of a key, with its place if others have the same."""
    label = key.labels[n]
    return f'"{visible(label)}"' + (f" ({key.kind} {n + 1})" if key.labels.count(label) > 1 else "")


def with_effects(look: Look, edits: Sequence[Edit] = ()) -> Look:
    """A look with the effect of each of its maps, those that are drawn as shaded words too.

    Args:
        look: The look, with its answer.
        edits: Those of the look, which stay in place.
    """
    tried = [one for one in (*look.maps, *rows_of(look)) if one.is_distribution and one.opens is not None]
    if look.answer is None or not 0 < len(tried) <= MOST_MAPS:
        return look
    effects: dict[int, Effect | None] = {}
    with edit(look.answer.model, *edits):
        for one in tried:
            assert one.opens is not None
            effects[id(one)] = effect_of(look.answer, one.weights, one.key, one.opens, one.mask)
    maps = (replace(one, effect=effects.get(id(one))) for one in look.maps)
    shadings = (replace(one, effect=effects.get(id(one.row))) for one in look.shadings)
    return replace(look, maps=tuple(maps), shadings=tuple(shadings))
