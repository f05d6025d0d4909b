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
        pair_weight: How much a pair counts in the loss beside a masked word: over the pass, pairs count as much as
            masked words do, so that the gradient is that of the sum of both means, whatever the batch.
    """

    passages: Passages
    rows: Rows
    pair_weight: float

    @classmethod
    def of(cls, passages: Passages, cut: Cut, seed: int, epoch: int, mask_share: float | None) -> Self:
        """Draw the rows of a pass, by (seed, epoch); `mask_share` of the tokens is masked, None for none.

        Raises:
            DataError: Pairs are wanted, and no document holds two texts, or there is one document.
        """
        rows = draw_rows(passages, cut, seed, epoch)
        pairs = int((rows.labels != NO_QUESTION).sum())
        if cut.pairs and not (rows.labels == FOLLOWS_NOT).any():
            raise DataError(_no_pairs(passages, cut))
        words = float(rows.lengths.sum() - 3 * len(rows)) * (mask_share or 0.0)
        return cls(passages, rows, words / max(1, pairs) if mask_share else 1.0)


def _no_pairs(passages: Passages, cut: Cut) -> str:
    """What to say where no text follows another, or none does not."""
    hint = "or set model.next_sentence=false to learn from masked words alone"
    if passages.num_documents < 2:
        return (
            "model.next_sentence needs two documents or more, to take a text that does not follow from another one, "
            f"but there is {passages.num_documents}; name more files, cut the file with data.separator, {hint}"
        )
    what = "two sentences" if cut.words is None else f"two texts of {cut.words} words (data.side_words)"
    return (
        f"fewer than two training documents hold {what}, so that there are no pairs to ask about; give longer "
        f"documents (data.separator says what ends one), {hint}"
    )
