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
        rows: The rows of the pass.
        pair_weight: Factor of the loss of pairs. Each pair is weighted by its number of masked words, so that over the
            pass, and about so in each batch, pairs count as much as masked words, and the weight of a pair depends
            neither on the batch nor on the process.
    """

    passages: Passages
    rows: Rows
    pair_weight: float

    @classmethod
    def of(cls, passages: Passages, cut: Cut, seed: int, epoch: int, words: bool) -> Self:
        """Draw the rows of a pass from (seed, epoch); `words` is True if words are masked.

        Raises:
            DataError: Pairs are needed, but no document has two texts, or there is only one document.
        """
        rows = draw_rows(passages, cut, seed, epoch)
        if cut.pairs and not (rows.labels == FOLLOWS_NOT).any():
            raise DataError(_no_pairs(passages, cut))
        tokens = float(rows.lengths.sum())
        asked = float(rows.lengths[rows.labels != NO_QUESTION].sum())
        return cls(passages, rows, tokens / asked if words and asked else 1.0)


def _no_pairs(passages: Passages, cut: Cut) -> str:
    """The error message if no pairs can be made."""
    hint = "or set model.next_sentence=false to train on masked words alone"
    if passages.num_documents < 2:
        return (
            "model.next_sentence needs at least two documents, because a text that does not follow comes from another, "
            f"but there is {passages.num_documents}; name more files, cut the file with data.separator, {hint}"
        )
    what = "two sentences" if cut.words is None else f"two texts of {cut.words} words (data.side_words)"
    return (
        f"fewer than two training documents contain {what}, so no pairs can be made; give longer "
        f"documents (data.separator marks the end of one), {hint}"
    )
