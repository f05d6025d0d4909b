"""Further training corpora: back-translations, another domain. Weighted, perhaps tagged, never held out.

A weight is how often a pair is seen in one pass over the training files; the pairs of a fractional part are drawn again
in each pass, by the seed and the number of the pass only. A tag is saved with the tokenizer; no text is ever tokenized
into it, and inputs for prediction have no tag. Files are read, filtered and refused like training files; tokenizers are
trained on all corpora, each pair once. Pairs whose source is in the validation or test set are left out and counted;
shared targets are counted in a warning. A weight above 1 repeats a small corpus of real text next to much synthetic
text. `report.json` has the counts by name (`extra bible.en`), with weight and tag.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import product
from pathlib import Path
from typing import Generic, TypeVar

import numpy as np
from numpy.typing import NDArray

from heed.config import ExtraData, OwnData
from heed.data.examples import Example
from heed.data.read.counts import Counts
from heed.data.read.reader import Reader
from heed.data.sequences import select
from heed.data.store.corpus import read_corpus
from heed.data.store.hashes import among
from heed.data.store.store import hashes_in

E = TypeVar("E", bound=Example)
T = TypeVar("T")


@dataclass(frozen=True)
class ExtraCorpus(Generic[T]):
    """One further corpus, seen `weight` times a pass; `tag` is put before its first texts."""

    examples: Sequence[T]
    counts: Counts
    weight: float
    tag: str | None

    def keep(self, indices: NDArray[np.int64], rule: str) -> ExtraCorpus[T]:
        """The corpus with these examples only; the others are counted as left out by `rule`."""
        gone = len(self.examples) - len(indices)
        if not gone:
            return self
        counts = replace(self.counts, filtered={**self.counts.filtered, rule: gone}, kept=len(indices))
        return replace(self, examples=select(self.examples, indices), counts=counts)

    def __str__(self) -> str:
        tag = "" if self.tag is None else f", tag {self.tag}"
        return f"{self.counts} (weight {self.weight:g}{tag})"


def open_extra(
    given: Sequence[tuple[ExtraData, Reader[E]]], data: OwnData, splits: Mapping[str, Sequence[E]]
) -> tuple[dict[str, ExtraCorpus[E]], list[str]]:
    """The further corpora by name ("extra bt.en"), without examples whose first text is held out; remarks for the user.

    Raises:
        DataError: A file cannot be read.
    """
    known = {split: hashes_in(splits[split]) for split in ("valid", "test") if given and split in splits}
    result: dict[str, ExtraCorpus[E]] = {}
    remarks = []
    for name, (section, reader) in zip(_names(section for section, _ in given), given, strict=True):
        sides, unit = reader.kind.sides, reader.kind.unit
        examples, counts, said = read_corpus(name, section.files, reader, data)
        remarks += said
        corpus = ExtraCorpus(examples, counts, section.weight, section.tag)
        for split, hashes in known.items():
            kept = np.flatnonzero(~among(hashes_in(corpus.examples)[:, 0], hashes[:, 0]))
            corpus = corpus.keep(kept, f"{sides[0]} in the {split} set")
        own = hashes_in(corpus.examples)
        # The real side of a back-translation is its target; a model trained on it has seen the reference.
        for (split, hashes), place in product(known.items(), range(1, min(len(sides), own.shape[1]))):
            if shared := int(among(own[:, place], hashes[:, place]).sum()):
                remarks.append(f"warning: {shared:,} {sides[place]}s of {name} are also in the {split} set")
        if not corpus.examples:
            remarks.append(f"warning: {name} has no {unit} to train on")
        result[name] = corpus
    return result, remarks


def _names(given: Iterable[ExtraData]) -> list[str]:
    """Names of corpora: the first file, and a number if that name is taken."""
    names = [f"extra {Path(one.files[0]).name}" for one in given]
    return [name if name not in names[:n] else f"{name} ({n + 1})" for n, name in enumerate(names)]
