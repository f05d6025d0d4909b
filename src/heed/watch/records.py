"""Records of observed calls, from which weights and gates are computed on request, and series of successive calls.

A record never reads live parameters. Activations are kept by reference (nothing in heed overwrites them in place); the
few parameters that are still needed are copied when the call is recorded.

A `Series` joins the calls of one pass: steps of the same rows over one growing or fixed set of keys.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace

import torch
from torch import Tensor
from torch.nn.functional import pad

from heed.attention.attend import full_mask, masked_softmax
from heed.attention.keys import Rows, at_positions, key_positions
from heed.attention.scores import PairScore
from heed.attention.watch import AttentionCall, RecurrentCall
from heed.errors import HeedError
from heed.layers.recurrent import replay_gates


class ObserveError(HeedError):
    """A second trace in one thread, or a request for something that was not recorded."""


class SelfCheckError(RuntimeError):
    """A recomputed map or gate differs from what the model computed: a bug in heed, never shown as data."""


def _keep(tensor: Tensor, grad: bool) -> Tensor:
    return tensor if grad else tensor.detach()


@dataclass(frozen=True, eq=False)
class AttentionRecord:
    """One call to an attention module. R rows, H heads, Q queries, K keys."""

    name: str  # the module's name in the model
    mechanism: str  # "cross", "encoder", "decoder"
    layer: int  # which layer, from 0
    projected: Tensor  # `(R, H, Q, d)`
    prepared: Tensor  # `(B, H, K, d)`; row r attended to entry `source_of[r]`
    value: Tensor  # `(B, H, K, d_value)`
    mask: Tensor | None  # `(B, K)` or `(B, Q, K)`, or None
    source_of: Tensor | None  # `(R,)`, or None for the identity
    causal: bool  # True if the future was masked
    offset: Tensor  # `(R,)`, absolute position of the first query
    context: Tensor  # `(R, H, Q, d_value)`, as the model computed it
    call_weights: Tensor | None  # `(R, H, Q, K)`, the weights if the call computed them all at once, or None
    edited: bool  # True if an edit changed the weights, which then cannot be recomputed
    dropout: float  # probability with which weights were dropped
    pair_score: PairScore  # scores from projected queries and prepared keys, with copied parameters
    origin: object = field(repr=False)  # identity of the keys: the same object for calls over one growing or fixed set
    row_order: Rows | None = field(repr=False)  # the same object for calls in which row i is the same sequence
    # `(R, K)`, absolute position of each key, negative for padding; None if key k is at position k
    places: Tensor | None = None
    seen: Tensor | None = None  # `(R, K)`, True = the row may attend, in addition to the mask, or None
    call_scores: Tensor | None = None  # `(R, H, Q, K)`, the scores if `pair_score` does not give all of them, or None
    formula: str = ""  # of the score
    output: Tensor | None = None  # `(R, Q, d_output)`, the contexts of the heads joined, or None
    # of weights within parts, the part of each key, `(R, K)`, and the weight of each part, `(R, Q, parts)`
    parts: tuple[Tensor, Tensor] | None = None

    @classmethod
    def of(
        cls, name: str, mechanism: str, layer: int, call: AttentionCall, grad: bool, edited: bool
    ) -> AttentionRecord:
        """Record a call."""
        scope, keys = call.scope, call.keys
        device, num_rows = call.projected.device, len(call.projected)
        offset = torch.as_tensor(scope.offset, device=device).reshape(-1).expand(num_rows)
        places = key_positions(keys.mask if scope.causal else None, scope.key_offset, num_rows, len(keys), device)
        return cls(
            name,
            mechanism,
            layer,
            _keep(call.projected, grad),
            _keep(keys.prepared, grad),
            _keep(keys.value, grad),
            keys.mask,
            None if scope.rows is None or scope.rows.is_identity else scope.rows.source_of,
            scope.causal,
            offset,
            _keep(call.context, grad),
            None if call.weights is None else _keep(call.weights, grad),
            edited,
            call.dropout,
            call.score.snapshot(keep_graph=grad),
            keys.origin,
            scope.rows,
            places,
            scope.seen,
            None if call.scores is None else _keep(call.scores, grad),
            call.score.formula,
            None if call.output is None else _keep(call.output, grad),
            call.parts,
        )

    def _of(self, per_source: Tensor, rows: Tensor | None) -> Tensor:
        """The entries of a per-source tensor that the given rows attended to; all rows by default."""
        sources = self.source_of if rows is None else rows if self.source_of is None else self.source_of[rows]
        return per_source if sources is None else per_source[sources]

    def allowed(self, rows: Tensor | None = None) -> Tensor | None:
        """`(rows, 1, Q or 1, K)`, True = may attend, or None."""
        mask = None if self.mask is None else self._of(self.mask, rows)
        if self.seen is not None:
            seen = self.seen if rows is None else self.seen[rows]
            mask = seen if mask is None else mask & seen
        num_queries, num_keys = self.projected.shape[2], self.prepared.shape[2]
        return full_mask(mask, self.causal, num_queries, num_keys, self.projected.device)

    def may(self, rows: Tensor | None = None) -> Tensor:
        """`(rows, H, Q, K)`, 1 where a query may attend to a key, else 0."""
        shape = (
            self.projected.shape[0] if rows is None else len(rows),
            *self.projected.shape[1:3],
            self.prepared.shape[2],
        )
        allowed = self.allowed(rows)
        return self.projected.new_ones(shape) if allowed is None else allowed.to(self.projected.dtype).expand(shape)

    def scores(self, rows: Tensor | None = None) -> Tensor:
        """`(rows, H, Q, K)` before the softmax."""
        if self.call_scores is not None:
            return self.call_scores if rows is None else self.call_scores[rows]
        projected = self.projected if rows is None else self.projected[rows]
        return self.pair_score(projected, self._of(self.prepared, rows))

    def at_positions(self, columns: Tensor, fill: float, rows: Tensor | None = None) -> Tensor:
        """`(rows, H, Q, K)` with a column for each absolute position in place of one for each key."""
        if self.places is None:
            return columns
        return at_positions(columns, self.places if rows is None else self.places[rows], fill)

    def weights(self, rows: Tensor | None = None, scores: Tensor | None = None, check: bool = True) -> Tensor:
        """`(rows, H, Q, K)`, before dropout, of all rows by default; `scores` may be given if they are known.

        Raises:
            SelfCheckError: With `check`, these weights do not give the context that the model computed.
        """
        if self.call_weights is not None and (self.edited or not check):
            weights = self.call_weights if rows is None else self.call_weights[rows]
        else:
            scores = self.scores(rows) if scores is None else scores
            weights = masked_softmax(scores, self.allowed(rows))
        if check and self.dropout == 0.0:
            context = self.context if rows is None else self.context[rows]
            with torch.no_grad():
                error = (weights @ self._of(self.value, rows) - context).abs().max() if len(context) else 0.0
                # The sums over keys may be in another order: a unit in the last place of the largest value for each. A
                # score that is off by a unit in its last place changes its weight in proportion to its size.
                largest = (
                    0.0 if scores is None or not scores.numel() else float(scores.abs().nan_to_num(posinf=0.0).max())
                )
                units = 64 + weights.shape[-1] + 4 * largest
                bound = units * torch.finfo(weights.dtype).eps * max(1.0, float(self.value.abs().max()))
            if not float(error) <= bound:
                raise SelfCheckError(
                    f"the context from the weights recomputed for {self.name} differs from the model's by "
                    f"{float(error):.2e} (rounding explains {bound:.2e}); this is a bug in heed, please report it"
                )
        return weights

    def joined(self, later: Sequence[AttentionRecord]) -> AttentionRecord | None:
        """This call and those that continue it, as one; None unless all attend to the same keys in the same way."""
        per_query = self.causal or self.call_weights is not None or (self.mask is not None and self.mask.dim() == 3)
        both = [self, *later]
        if per_query or any(record.prepared.shape != self.prepared.shape for record in later):
            return None
        if any(record.places is not None for record in both):  # a window that slides
            return None
        projected, context = (torch.cat([getattr(r, name) for r in both], dim=2) for name in ("projected", "context"))
        return replace(self, projected=projected, context=context, output=None)

    def continues(self, earlier: AttentionRecord) -> bool:
        """True if the rows are those of an earlier call, at later positions over the same growing keys."""
        same = self.origin is earlier.origin and self.row_order is earlier.row_order
        return same and torch.equal(self.offset, earlier.offset + earlier.projected.shape[2])


TAPE = ("tape hidden", "tape cell")
"""Names of what an LSTMN reads from its tape, in place of the previous state: h~_t and c~_t."""


@dataclass(frozen=True, eq=False)
class GateRecord:
    """One run of a recurrent cell over sequences, with a copy of its weights."""

    name: str  # the cell's name in the model
    cell: str  # "rnn", "lstm", "gru" or "gru_notes"
    weights: dict[str, Tensor]  # copies of the cell's parameters
    inputs: Tensor  # `(batch, length, d_input)` in the order in which the cell ran
    hidden: Tensor  # `(batch, length, d_hidden)` in that order
    initial: tuple[Tensor, ...]  # state before the first step
    final: tuple[Tensor, ...]  # state after the last step
    order: Tensor | None  # `(batch, length)`, position in the text of each step, or None for the natural order
    # state that each step started from, if it is not the state after the previous step
    started: tuple[Tensor, ...] | None = None

    @classmethod
    def of(cls, name: str, call: RecurrentCall, grad: bool) -> GateRecord:
        """Record a run."""
        weights = {key: _keep(weight, grad).clone() for key, weight in call.weights.items()}
        inputs, hidden = _keep(call.inputs, grad), _keep(call.hidden, grad)
        initial, final = (tuple(_keep(s, grad) for s in states) for states in (call.initial, call.final))
        started = None if call.started is None else tuple(_keep(s, grad) for s in call.started)
        return cls(name, call.cell, weights, inputs, hidden, initial, final, call.order, started)

    def gates(self) -> dict[str, Tensor]:
        """Every gate, `(batch, length, d_hidden)`, in text order, recomputed from the states.

        Names: see `heed.layers.recurrent.replay_gates`; "hidden" is the state itself. Of an LSTMN also `TAPE`.

        Raises:
            SelfCheckError: The recomputed gates do not give the states that the model computed.
        """
        gates = replay_gates(self.cell, self.weights, self.inputs, self.hidden, self.initial, self.started)
        error = (gates["hidden"] - self.hidden).abs().max() if self.hidden.numel() else torch.zeros(())
        bound = 1e-4 if self.hidden.dtype == torch.float32 else 64 * torch.finfo(self.hidden.dtype).eps
        if not float(error) <= bound:
            raise SelfCheckError(
                f"the states from the gates recomputed for {self.name} differ from the model's by {float(error):.2e}; "
                "this is a bug in heed, please report it"
            )
        if self.started is not None:
            gates |= dict(zip(TAPE, self.started, strict=False))
        if self.order is None:
            return gates
        back = torch.argsort(self.order, dim=1).unsqueeze(-1)
        return {name: gate.gather(1, back.expand_as(gate)) for name, gate in gates.items()}

    def joined(self, later: GateRecord) -> GateRecord:
        """This run and the one that continued from its final state, as one."""
        inputs, hidden = (torch.cat([getattr(r, name) for r in (self, later)], dim=1) for name in ("inputs", "hidden"))
        started = None
        if self.started is not None and later.started is not None:
            started = tuple(torch.cat(parts, dim=1) for parts in zip(self.started, later.started, strict=True))
        return replace(self, inputs=inputs, hidden=hidden, final=later.final, started=started)

    def continued_by(self, later: GateRecord) -> bool:
        """True if the later run started from the final state of this one (the same tensor)."""
        return (
            self.name == later.name
            and self.order is None
            and later.order is None
            and (self.started is None) == (later.started is None)
            and later.initial[0].data_ptr() == self.final[0].data_ptr()
            and later.initial[0].shape == self.final[0].shape
        )


@dataclass(frozen=True, eq=False)
class TensorRecord:
    """A tensor that a module offered: name of the module, kind ("logits") and tensor."""

    name: str
    kind: str
    value: Tensor


@dataclass(frozen=True)
class Series:
    """Successive calls of one attention; row i of every call is entry i, a sequence that was read or written."""

    records: list[AttentionRecord]  # the calls, in order

    @classmethod
    def last(cls, calls: Sequence[AttentionRecord]) -> Series:
        """The last of the given calls of one attention, with the earlier calls that it continues.

        Raises:
            ObserveError: It continues calls whose rows were reordered, dropped or padded since.
        """
        start = len(calls) - 1
        while start and calls[start].continues(calls[start - 1]):
            start -= 1
        if start and bool((calls[start].offset > 0).any()):
            raise ObserveError(
                f"the steps of {calls[start].mechanism} attention have other rows from one step to the next, as where "
                "some are finished, or are beams; look at what was written, or trace one pass over source and output"
            )
        return cls([*calls[start:]])

    @property
    def num_entries(self) -> int:
        """Number of sequences."""
        return len(self.records[0].projected)

    def place(self, query: int) -> tuple[AttentionRecord, int] | None:
        """The call that has a query, counted as `laid` has them, and its number in that call; None if none has."""
        for record in self.records if query >= 0 else ():
            if query < record.projected.shape[2]:
                return record, query
            query -= record.projected.shape[2]
        return None

    def laid(
        self, of: Callable[[AttentionRecord, Tensor | None], Tensor], fill: float, entries: Tensor | None
    ) -> Tensor:
        """Results of `of` for all calls, joined with each query at its position, `(entries, heads, query, ...)`.

        Args:
            of: Computes `(rows, heads, query, ...)` of a call for the given rows; None means all rows.
            fill: Value for missing keys of a call in the last dimension.
            entries: Which entries; None for all.
        """
        with torch.autocast("cuda", enabled=False):  # scores in bf16 look, too
            steps = [of(record, entries) for record in self.records]
        num_keys = max(step.shape[-1] for step in steps)
        return torch.cat([pad(step, (0, num_keys - step.shape[-1]), value=fill) for step in steps], dim=2)
