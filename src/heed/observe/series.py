"""The calls of one pass joined, even if steps reorder rows, split them into beams, or drop those that finish early.

An entry is a sequence that was read or written. Rows are traced back from the last call that has a descendant of their
first row: greedy decoding of a batch gives one entry for each sequence, in order, whatever its length; beam search
gives the hypotheses that were open at the last step of each source.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import torch
from torch import Tensor
from torch.nn.functional import pad

from heed.observe.records import AttentionRecord


@dataclass(frozen=True)
class Series:
    """Successive calls of one attention.

    Attributes:
        records: The calls, in order.
        rows: For each call the row of each entry, `(entries,)`, -1 if an entry has none; None if row i of every call is
            entry i and each call continues where the previous one ended.
    """

    records: list[AttentionRecord]
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

    def laid(
        self, of: Callable[[AttentionRecord, Tensor | None], Tensor], fill: float, entries: Tensor | None
    ) -> Tensor:
        """Results of `of` for all calls, joined with each query at its position, `(entries, heads, query, ...)`.

        Args:
            of: Computes `(rows, heads, query, ...)` of a call for the given rows; None means all rows.
            fill: Value for missing queries of a sequence, and for missing keys of a call in the last dimension.
            entries: Which entries; None for all.
        """
        if self.rows is None:
            return _beside([of(record, entries) for record in self.records], fill)
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


def _beside(steps: list[Tensor], fill: float) -> Tensor:
    """Concatenate steps, `(rows, heads, query, key)`, padded with `fill` if earlier steps have fewer keys."""
    num_keys = max(step.shape[-1] for step in steps)
    return torch.cat([pad(step, (0, num_keys - step.shape[-1]), value=fill) for step in steps], dim=2)
