"""One pass over the training documents."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Self

from heed.errors import DataError
from heed.tasks.pretraining.passages import Passages
from heed.tasks.pretraining.rows import FOLLOWS_NOT, NO_QUESTION, Cut, Rows, draw_rows


@dataclass(frozen=True)
class Pass:
    """The rows of one pass over some documents.

    Attributes:
        passages: The tokens.
        rows: Of the pass.
        pair_weight: Factor of the loss of pairs. A pair counts as much as the words that are masked in it, so that over
            the pass, and in about every batch, pairs count as much as masked words do, and what a pair counts depends
            neither on the batch nor on the process.
    """

    passages: Passages
    rows: Rows
    pair_weight: float

    @classmethod
    def of(cls, passages: Passages, cut: Cut, seed: int, epoch: int, words: bool) -> Self:
        """Draw the rows of a pass, by (seed, epoch); `words` says whether some are masked.

        Raises:
            DataError: Pairs are wanted, and no document holds two texts, or there is one document.
        """
        rows = draw_rows(passages, cut, seed, epoch)
        if cut.pairs and not (rows.labels == FOLLOWS_NOT).any():
            raise DataError(_no_pairs(passages, cut))
        tokens = float(rows.lengths.sum())
        asked = float(rows.lengths[rows.labels != NO_QUESTION].sum())
        return cls(passages, rows, tokens / asked if words and asked else 1.0)


def _no_pairs(passages: Passages, cut: Cut) -> str:
    """What to say where no text follows another, or none does not."""
    hint = "or set model.next_sentence=false to learn from masked words alone"
    if passages.num_documents < 2:
        return (
            "model.next_sentence needs at least two documents, to take texts that do not follow from another document, "
            f"but there is {passages.num_documents}; name more files, cut the file with data.separator, {hint}"
        )
    what = "two sentences" if cut.words is None else f"two texts of {cut.words} words (data.side_words)"
    return (
        f"fewer than two training documents hold {what}, so no pairs can be made; give longer "
        f"documents (data.separator says what ends one), {hint}"
    )
