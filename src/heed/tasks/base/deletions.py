"""Attention maps of one input beside what the output loses when parts of the input are left out.

A task says, by `judged`, which rows of which maps belong to an input.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import NamedTuple

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn

from heed.observe.attribution import LEFT_OUT
from heed.observe.edits import Uniform
from heed.observe.looks import Choice
from heed.observe.trace import Trace, edit

Values = NDArray[np.float64]


@dataclass(frozen=True, eq=False)
class Row:
    """The weights of one query, and what the output loses without each key; all `(keys,)`, allowed keys only."""

    weights: Values
    effects: Values  # change of the output's log-odds, without its sign
    changes: Values  # change of its probability, without its sign


@dataclass(frozen=True, eq=False)
class Judged:
    """The rows of one map of one input, with what its outputs lose without each key."""

    mechanism: str
    layer: int
    head: int | None  # None for the mean of all
    rows: list[Row]
    keys: list[Sequence[int]]  # for each row, the numbers of the parts of the input that its keys are
    uniform: float | None  # change of the output's probability under uniform weights, of several outputs the mean

    @property
    def name(self) -> str:
        """The map, for display."""
        return f"{self.mechanism} layer {self.layer}" + ("" if self.head is None else f" head {self.head}")


def odds_of(logits: Tensor, labels: Tensor) -> Tensor:
    """The log-odds of given labels `(T,)` among all, from logits `(N, T, vocab_size)`, `(N, T)` in float64."""
    own = torch.log_softmax(logits.float(), -1).gather(2, labels.expand(len(logits), -1).unsqueeze(2))
    own = own.squeeze(2).double()
    return own - torch.log(-torch.expm1(own.clamp_max(-1e-12)))


def label_odds(logits: Tensor, number: int, own: Tensor, sigmoid: bool) -> Tensor:
    """The log-odds of a label `(N,)` from logits `(N, outputs)`; `own` is its logit, all there is with a sigmoid."""
    return own if sigmoid else own - torch.cat([logits[:, :number], logits[:, number + 1 :]], dim=1).logsumexp(1)


class Looked(NamedTuple):
    """One row of a map: the weights of its keys, the numbers of these parts, and the output that it belongs to."""

    weights: Tensor  # (keys,)
    keys: Sequence[int]
    output: int | None = 0  # None: all outputs together


@dataclass(frozen=True, eq=False)
class Deletions:
    """An input whose parts are left out one by one, and what each output of the model then loses."""

    model: nn.Module
    tokens: Tensor  # (L,)
    parts: Sequence[range]  # of the tokens: words, sentences
    # from tokens `(N, L)`, `LEFT_OUT` for those left out, to the log-odds of each output, `(N, outputs)`
    log_odds: Callable[[Tensor], Tensor]
    at_once: int = 64  # inputs that are read in one pass

    @torch.no_grad()
    def _read(self, tokens: Tensor) -> Tensor:
        self.model.eval()
        return torch.cat([self.log_odds(some).double().cpu() for some in tokens.split(self.at_once)])

    @cached_property
    def whole(self) -> Tensor:
        """The log-odds of each output, `(outputs,)`."""
        return self._read(self.tokens.unsqueeze(0))[0]

    @cached_property
    def each(self) -> Tensor:
        """The log-odds without each part, `(parts, outputs)`."""
        tokens = self.tokens.repeat(len(self.parts), 1)
        for row, part in zip(tokens, self.parts, strict=True):
            row[part.start : part.stop] = LEFT_OUT
        return self._read(tokens)

    def judged(self, mechanism: str, layer: int, rows: Iterable[Looked], head: int | None = None) -> Judged:
        """Rows of one attention, with what their outputs lose; without an output of its own, the mean or largest."""
        looked = list(rows)
        found, outputs = [], sorted({row.output for row in looked if row.output is not None}) or slice(None)
        for weights, keys, output in looked:
            left = self.each[list(keys)]
            falls, changes = (self.whole - left).abs(), (left.sigmoid() - self.whole.sigmoid()).abs()
            lost = (falls.mean(1), changes.amax(1)) if output is None else (falls[:, output], changes[:, output])
            found.append(Row(*(values.double().cpu().numpy() for values in (weights, *lost))))
        uniform = None
        if looked:
            with edit(self.model, Uniform(mechanism, layer, head)):
                edited = self._read(self.tokens.unsqueeze(0))[0]
            changes = (edited.sigmoid() - self.whole.sigmoid()).abs()[outputs]
            uniform = float(changes.mean()) if changes.numel() else 0.0
        return Judged(mechanism, layer, head, found, [row.keys for row in looked], uniform)

    def judged_positions(
        self, seen: Trace, choice: Choice, start: int = 0, skipped: Collection[int] = ()
    ) -> Iterator[Judged]:
        """Maps over one text, of which each part has an output: the row behind it, over the other parts.

        The part itself is no key, since it reaches its output without attention too. A tape ("self") is read before
        the state of a position is computed, so the row behind that is the one before; what is looked up after the last
        token is not used.

        Args:
            seen: A trace of a pass over this text.
            choice: The maps.
            start: Number of positions before the text.
            skipped: Parts that are no keys.
        """
        places = [range(start + part.start, start + part.stop) for part in self.parts]
        for mechanism, layer in choice.layers(seen.mechanisms()):
            maps = seen.maps(mechanism, layer, entries=[0])
            every, back = maps.weights[0].double(), int(mechanism == "self")
            allowed = maps.mask[0].expand_as(every).any(0)
            for head in choice.heads(len(every)):
                weights, rows = every.mean(0) if head is None else every[head], []
                for n in range(min(len(self.parts), len(self.whole))):
                    lines = [place - back for place in places[n] if back <= place < back + len(weights)]
                    row, may = weights[lines].mean(0), allowed[lines].any(0)
                    keys = [
                        key
                        for key, place in enumerate(places)
                        if key != n and key not in skipped and place.stop <= len(row) and may[place.start].item()
                    ]
                    if lines and len(keys) > 1:
                        sums = row.cumsum(0).tolist()
                        ends = ((places[key].stop - 1, places[key].start - 1) for key in keys)
                        shares = [sums[last] - (sums[before] if before >= 0 else 0.0) for last, before in ends]
                        rows.append(Looked(torch.tensor(shares, dtype=torch.float64), keys, n))
                yield self.judged(mechanism, layer, rows, head if len(every) > 1 else None)
