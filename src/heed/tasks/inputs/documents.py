"""Documents as sources of pairs: long ones are cut."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from heed.data.corpus import Lengths, StoredExamples
from heed.tasks.base.report import counted_are
from heed.tasks.inputs.pairs import Pairs
from heed.tasks.work import Work


@dataclass(frozen=True)
class Documents(Pairs):
    """Documents, of which the first `data.max_source` tokens are read."""

    @property
    def max_source(self) -> int:
        """The most tokens of a document that the model reads."""
        return int(self.config.data.max_source)

    def framed(self, source: Sequence[int]) -> list[int]:
        return super().framed(source[: self.max_source])

    def costs_of(self, lengths: Lengths) -> Any:
        """Cost of pairs in a batch; batches group documents of similar length."""
        return lengths + np.array([0, 1], dtype=np.int32)

    def cut_in(self, texts: Sequence[str]) -> list[int]:
        """Numbers of the documents that are longer than the model reads."""
        ids = self.source_tokenizer.encode_all([text.strip() for text in texts])
        return [n for n, tokens in enumerate(ids) if len(tokens) > self.max_source]

    def cut_of(self, split: str, work: Work) -> list[int]:
        """Numbers of the documents of a split that are cut; empty for splits that are not in memory."""

        def found() -> list[int]:
            encoded: Any = work.encoded(split)
            # Only documents of the largest length can have been cut, and these are few.
            pairs, full = work.splits.examples[split], self.max_source + len(self.framed([]))
            is_held = not isinstance(pairs, StoredExamples)
            held = np.flatnonzero(is_held & (encoded.lengths[:, 0] >= full)).tolist()
            return [held[n] for n in self.cut_in([pairs[n].source for n in held])]

        return work.once(f"cut of {split}", found)  # type: ignore[no-any-return]

    def leave_out(self, work: Work) -> None:
        super().leave_out(work)
        for split, pairs in work.splits.examples.items():
            if cut := self.cut_of(split, work):
                what = f"{counted_are(len(cut), 'document')} longer than data.max_source {self.max_source} tokens"
                places = ", ".join(pairs[n].origin or f"example {n + 1}" for n in cut[:3])
                more = ", ..." if len(cut) > 3 else ""
                work.splits.remarks.append(f"{split}: {what}; only the beginning is read: {places}{more}")

    def counts(self, split: str, work: Work) -> dict[str, Any]:
        cut = {} if split in work.splits.extra else {"cut": len(self.cut_of(split, work))}
        return {**super().counts(split, work), **cut}
