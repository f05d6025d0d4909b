"""Detection of swapped sides in files of pairs."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from heed.config import FilesData, HubSection
from heed.data.examples import Pair
from heed.data.read.findings import Findings
from heed.data.read.pairs import read_pairs
from heed.data.store.sides import TrainingSides
from heed.data.tokens.tokenizer import UNKNOWN
from heed.errors import DataError

if TYPE_CHECKING:
    from heed.tasks.translation.data import TranslationData

_COMPARED = 500
"""Most pairs that are encoded for the comparison."""
_MORE = 1.3
"""Sides look swapped if they take this many times the tokens that they would take when exchanged."""


def remarks_on_sets(examples: dict[str, Sequence[Pair]], data: FilesData) -> list[str]:
    """Warnings about the sides of validation and test files, compared with the training pairs."""
    names = [split for split in ("valid", "test") if isinstance(getattr(data, split), list) and split in examples]
    if not names or data.shuffle_source is not None:
        return []
    sides = TrainingSides(pair.texts for pair in examples["train"])
    return [line for name in names for line in sides.remarks_on((pair.texts for pair in examples[name]), name)]


def remarks_on_files(task: TranslationData, pairs: Sequence[Pair], name: str) -> list[str]:
    """Warnings about the sides of files to score, by the training files or, if these are gone, by token counts."""
    data = task.config.data
    texts = [pair.texts for pair in pairs]
    if isinstance(data, FilesData) and data.shuffle_source is not None:
        return []
    if isinstance(data, FilesData) and not isinstance(data, HubSection) and all(Path(f).is_file() for f in data.train):
        try:
            columns = data.columns.source, data.columns.target
            train = read_pairs(data.train, *columns, Findings("skip", data.encoding, data.max_line))
            return TrainingSides(pair.texts for pair in train).remarks_on(texts, name)
        except DataError:
            pass  # the files have changed since the run was trained
    return remarks_by_tokens(task, texts, name)


def remarks_by_tokens(task: TranslationData, texts: Sequence[Sequence[str]], name: str) -> list[str]:
    """A warning if the sides look swapped: the other side's tokenizer would give many fewer tokens than their own."""
    texts = texts[:_COMPARED]
    tokenizers = task.source_tokenizer, task.target_tokenizer
    if tokenizers[0].tokens == tokenizers[1].tokens:
        return []

    def cost(first: int) -> int:
        sides = (tokenizers[first ^ side].encode_all([text[side] for text in texts]) for side in (0, 1))
        return sum(len(ids) + 3 * ids.count(UNKNOWN) for rows in sides for ids in rows)

    if not texts or cost(0) <= _MORE * cost(1):
        return []
    what = f"{cost(0):,} tokens (unknown ones counted four times), but {cost(1):,} if exchanged"
    return [f"warning: {name}: the sides look swapped: they take {what}; give the source first"]
