"""Further training corpora: back-translations, another domain. Weighted, perhaps tagged, never held out."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from heed.config import ExtraData, FilesData
from heed.data.examples import Pair
from heed.data.read.counts import Counts
from heed.data.read.hashes import among
from heed.data.store.files import read_kept, refuse_columns
from heed.data.store.store import pair_marks, select

__all__ = ["ExtraCorpus", "open_extra"]


@dataclass(frozen=True)
class ExtraCorpus:
    """One further corpus.

    Attributes:
        pairs: What is kept of it.
        counts: What became of its lines.
        weight: How often it is seen in one pass.
        tag: Token before its sources, or None.
    """

    pairs: Sequence[Pair]
    counts: Counts
    weight: float
    tag: str | None

    def keep(self, indices: NDArray[np.int64], rule: str) -> ExtraCorpus:
        """The corpus with these pairs only; the others are counted under a rule."""
        gone = len(self.pairs) - len(indices)
        filtered = {**self.counts.filtered, rule: gone} if gone else self.counts.filtered
        counts = replace(self.counts, filtered=filtered, kept=len(indices))
        return replace(self, pairs=select(self.pairs, indices) if gone else self.pairs, counts=counts)

    def __str__(self) -> str:
        tag = "" if self.tag is None else f", tag {self.tag}"
        return f"{self.counts} (weight {self.weight:g}{tag})"


def open_extra(data: FilesData, splits: Mapping[str, Sequence[Pair]]) -> tuple[dict[str, ExtraCorpus], list[str]]:
    """Read the further corpora, and leave out what stands in the validation or test set.

    Args:
        data: The section that names them.
        splits: The pairs of "valid" and, where there is one, "test".

    Returns:
        The corpora by name ("extra bt.en"), in the order given; and remarks for the user.

    Raises:
        DataError: A file cannot be read, or two files are given columns.
    """
    held_out = {split: splits[split] for split in ("valid", "test") if split in splits}
    sources = {split: pair_marks(pairs, 0) for split, pairs in held_out.items()}
    targets = {split: pair_marks(pairs, 1) for split, pairs in held_out.items()}
    result: dict[str, ExtraCorpus] = {}
    remarks = []
    for name, given in zip(_names(data.extra), data.extra, strict=True):
        refuse_columns("data.extra columns", given.columns, "files", given.files)
        pairs, counts, remark = read_kept(given.files, given.columns, data)
        remarks.extend([remark] if remark else [])
        corpus = ExtraCorpus(pairs, counts, given.weight, given.tag)
        for split, known in sources.items():
            kept = np.flatnonzero(~among(pair_marks(corpus.pairs, 0), known))
            corpus = corpus.keep(kept, f"source in the {split} set")
        for split, known in targets.items():
            # The real side of a back-translation is its target; a model that trained on it has seen the reference.
            shared = int(among(pair_marks(corpus.pairs, 1), known).sum())
            if shared:
                remarks.append(f"warning: {shared:,} targets of {name} stand in the {split} set as well")
        if not corpus.pairs:
            remarks.append(f"warning: {name} has no pair to train on")
        result[name] = corpus
    return result, remarks


def _names(given: Iterable[ExtraData]) -> Iterator[str]:
    """What to call each corpus: by its first file, and by its number where two have the same name."""
    seen: set[str] = set()
    for number, one in enumerate(given, start=1):
        name = f"extra {Path(one.files[0]).name}"
        yield name if name not in seen else f"{name} ({number})"
        seen.add(name)
