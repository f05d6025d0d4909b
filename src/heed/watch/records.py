"""Records of observed calls, from which weights and gates are computed on request, and series of successive calls.

A record never reads live parameters. Activations are kept by reference (nothing in heed overwrites them in place); the
few parameters that are still needed are copied when the call is recorded.

A `Series` joins the calls of one pass, even if steps reorder rows, split them into beams, or drop those that finish
early. An entry is a sequence that was read or written. Rows are traced back from the last call that has a descendant of
their first row: greedy decoding of a batch gives one entry for each sequence, in order, whatever its length; beam
search gives the hypotheses that were open at the last step of each source.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace

import torch
from torch import Tensor
from torch.nn.functional import pad

from heed.attention.attend import full_mask, masked_softmax
from heed.attention.keys import Origin, Rows, at_positions, key_positions
from heed.attention.scores import PairScore
from heed.attention.watch import AttentionCall, RecurrentCall
from heed.layers.recurrent import replay_gates


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
    given: Tensor | None  # `(R, H, Q, K)`, the weights if the call computed them all at once, or None
    edited: bool  # True if an edit changed the weights, which then cannot be recomputed
    dropout: float  # probability with which weights were dropped
    pair_score: PairScore  # scores from projected queries and prepared keys, with copied parameters
    # identity of the keys: the same object for calls over one growing or fixed set of keys
    origin: Origin | None = field(repr=False)
    # identity of the rows: the same object for calls in which row i is the same sequence; derived from it for selected
    # rows
    row_order: Rows | None = field(repr=False)
    # `(R, K)`, absolute position of each key, negative for padding; None if key k is at position k
    places: Tensor | None = None
    seen: Tensor | None = None  # `(R, K)`, True = the row may attend, in addition to the mask, or None
    given_scores: Tensor | None = None  # `(R, H, Q, K)`, the scores if `pair_score` does not give all of them, or None
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
        if self.given_scores is not None:
            return self.given_scores if rows is None else self.given_scores[rows]
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
        if self.given is not None and (self.edited or not check):
            weights = self.given if rows is None else self.given[rows]
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
        per_query = self.causal or self.given is not None or (self.mask is not None and self.mask.dim() == 3)
        both = [self, *later]
        if per_query or any(record.prepared.shape != self.prepared.shape for record in later):
            return None
        if any(record.places is not None for record in both):  # a window that slides
            return None
        projected, context = (torch.cat([getattr(r, name) for r in both], dim=2) for name in ("projected", "context"))
        return replace(self, projected=projected, context=context, output=None)

    def continues(self, earlier: AttentionRecord) -> Tensor | None:
        """The row of an earlier call that each row continues, `(R,)`: later positions over the same growing keys.

        None if this call does not continue that one.
        """
        keys = _entries(self.origin, earlier.origin, len(self.prepared), self.prepared.device)
        rows = keys if self.row_order is None else _entries_of_rows(self.row_order, earlier.row_order)
        if keys is None or rows is None or (self.row_order is None) != (earlier.row_order is None):
            return None
        before = earlier.offset[rows]
        # The call may also have read padding of a prompt, which has no position.
        follows = (self.offset > before) & (self.offset <= before + earlier.projected.shape[2])
        return rows if bool(follows.all()) else None


def _entries(later: Origin | None, earlier: Origin | None, count: int, device: torch.device) -> Tensor | None:
    """For each of the `count` entries of later keys, the entry of earlier keys that it continues; None if unrelated."""
    index: Tensor | None = None
    while later is not None and later is not earlier:
        if later.rows is not None:
            index = later.rows if index is None else later.rows[index]
        later = later.of
    if later is None:
        return None
    return torch.arange(count, device=device) if index is None else index


def _entries_of_rows(later: Rows, earlier: Rows | None) -> Tensor | None:
    """For each later row, the earlier row that it continues; None if the later rows were not selected from these."""
    index = torch.arange(len(later), device=later.source_of.device)
    while later is not earlier:
        if later.of is None:
            return None
        later, rows = later.of
        index = rows[index]
    return index


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
    """Successive calls of one attention."""

    records: list[AttentionRecord]  # the calls, in order
    # for each call the row of each entry, `(entries,)`, -1 if an entry has none; None if row i of every call is entry
    # i and each call continues where the previous one ended
    rows: list[Tensor] | None

    @classmethod
    def last(cls, calls: Sequence[AttentionRecord]) -> Series:
        """The last of the given calls of one attention, with the earlier calls that it continues."""
        earlier = list(calls)
        records, parents = [earlier.pop()], []
        while earlier and (found := records[-1].continues(earlier[-1])) is not None:
            parents.append(found)
            records.append(earlier.pop())
        records, parents = records[::-1], parents[::-1]
        plain = all(
            len(p) == len(r.projected) and torch.equal(p, torch.arange(len(p), device=p.device))
            and torch.equal(later.offset, r.offset + r.projected.shape[2])
            for r, later, p in zip(records, records[1:], parents, strict=False)
        )  # fmt: skip
        return cls(records, None if plain else _followed(len(records[0].projected), parents))

    @property
    def num_entries(self) -> int:
        """Number of sequences."""
        return len(self.records[0].projected if self.rows is None else self.rows[0])

    def place(self, entry: int, query: int) -> tuple[AttentionRecord, int, int] | None:
        """The call that has a query of an entry, counted as `laid` has them, with its row and query; None if none has.

        The place of each query is laid out as its numbers would be.
        """
        numbers = {id(record): n for n, record in enumerate(self.records)}

        def places(record: AttentionRecord, rows: Tensor | None) -> Tensor:
            own = torch.arange(len(record.projected)) if rows is None else rows.cpu()
            queries = torch.arange(record.projected.shape[2])
            parts = torch.broadcast_tensors(torch.tensor(numbers[id(record)]), own[:, None, None], queries)
            return torch.stack(parts, dim=-1).to(record.offset.device)  # (rows, 1, Q, 3)

        laid = self.laid(places, -1, torch.tensor([entry], device=self.records[0].offset.device))[0, 0]
        number, row, at = laid[query].tolist() if 0 <= query < len(laid) else (-1, -1, -1)
        return None if number < 0 else (self.records[number], row, at)

    def laid(
        self, of: Callable[[AttentionRecord, Tensor | None], Tensor], fill: float, entries: Tensor | None
    ) -> Tensor:
        """Results of `of` for all calls, joined with each query at its position, `(entries, heads, query, ...)`.

        Args:
            of: Computes `(rows, heads, query, ...)` of a call for the given rows; None means all rows.
            fill: Value for missing queries of a sequence, and for missing keys of a call in the last dimension.
            entries: Which entries; None for all.
        """
        with torch.autocast("cuda", enabled=False):  # scores in bf16 look, too
            if self.rows is None:
                return _concatenated([of(record, entries) for record in self.records], fill)
            chosen = [rows if entries is None else rows[entries] for rows in self.rows]
            first = int(self.records[0].offset.min()) if self.records[0].offset.numel() else 0
            parts, places = [], []
            for i, (record, rows) in enumerate(zip(self.records, chosen, strict=True)):
                present = (rows >= 0).nonzero().squeeze(1)
                own = rows[present]
                offset, count = record.offset[own], torch.full_like(own, record.projected.shape[2])
                if i + 1 < len(chosen):  # from the next call's first position on, this call has padding
                    after = chosen[i + 1][present]
                    then = self.records[i + 1].offset[after.clamp_min(0)] - offset
                    count = torch.where(after >= 0, then, count)
                step = torch.arange(record.projected.shape[2], device=own.device)
                real = step < count.unsqueeze(1)  # (rows, Q)
                at = present.unsqueeze(1).expand_as(real), (offset - first).unsqueeze(1) + step
                parts.append(of(record, own).transpose(1, 2)[real])  # (queries, heads, ...)
                places.append((at[0][real], at[1][real]))
            width = max((part.shape[-1] for part in parts), default=0)
            parts = [pad(part, (0, width - part.shape[-1]), value=fill) for part in parts]
            entry, query = (torch.cat(side) for side in zip(*places, strict=True))
            longest = int(query.max()) + 1 if query.numel() else 0
            whole = torch.cat(parts)
            result = whole.new_full((len(chosen[0]), longest, *whole.shape[1:]), fill)
            return result.index_put((entry, query), whole).transpose(1, 2)


def _followed(count: int, parents: Sequence[Tensor]) -> list[Tensor]:
    """The row of each entry in each call, from the rows that each later call continues; the first call has `count`."""
    roots = [torch.arange(count, device=parents[0].device)]
    for rows in parents:
        roots.append(roots[-1][rows])
    last = torch.zeros(count, dtype=torch.long, device=roots[0].device)  # the last call with rows of each first row
    for i, root in enumerate(roots):
        last[root] = i
    ends = [(int(r), i, row) for i, root in enumerate(roots) for row, r in enumerate(root.tolist()) if last[r] == i]
    ends.sort()
    end = torch.tensor([i for _, i, _ in ends], device=last.device)
    row = torch.tensor([row for _, _, row in ends], device=last.device)
    found = [torch.full_like(row, -1) for _ in roots]
    for i in reversed(range(len(roots))):
        if i + 1 < len(roots):
            after = found[i + 1]
            found[i] = torch.where(after >= 0, parents[i][after.clamp_min(0)], found[i])
        found[i] = torch.where(end == i, row, found[i])
    return found


def _concatenated(steps: list[Tensor], fill: float) -> Tensor:
    """Concatenate steps, `(rows, heads, query, key)`, padded with `fill` if earlier steps have fewer keys."""
    num_keys = max(step.shape[-1] for step in steps)
    return torch.cat([pad(step, (0, num_keys - step.shape[-1]), value=fill) for step in steps], dim=2)
