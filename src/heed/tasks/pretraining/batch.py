"""Batches of pretraining: framed rows, some of their tokens masked."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from heed.data.batch.rows import Batch
from heed.data.tokens.tokenizer import END, PADDING, START, UNKNOWN
from heed.tasks.pretraining.masking import Masking, mask_rows
from heed.tasks.pretraining.passages import PIECE, Passages
from heed.tasks.pretraining.rows import NO_QUESTION, Rows


@dataclass(frozen=True)
class MaskedBatch(Batch):
    """Rows `START a END` or `START a END b END`, B of length L.

    Attributes:
        indices: Indices of the rows in the pass.
        tokens: `(B, L)` int64, the inputs.
        mask: `(B, L)` bool, True on all but padding.
        places: `(M,)` int64, the masked words: row * L + position.
        words: `(M,)` int64, the tokens that were masked.
        order: `(B,)` int64, 0 where the second text follows the first, 1 where it does not, -1 without a second text.
        shares: `(B,)` float32, weight of each pair: its number of masked words, or 1 if no words are masked.
        num_targets: Number of masked words, or of pairs if no words are masked.
    """

    indices: list[int]
    tokens: Tensor
    mask: Tensor
    places: Tensor
    words: Tensor
    order: Tensor
    shares: Tensor
    num_targets: int


def framed_rows(
    passages: Passages, rows: Rows, indices: Sequence[int], double: bool = False
) -> tuple[NDArray[np.int64], NDArray[np.bool_], NDArray[np.bool_]]:
    """Tokens `(rows, length)` of some rows, their mask, and the beginnings of words."""
    chosen = np.asarray(indices, dtype=np.int64)
    table = np.stack([rows.first, rows.first_end, rows.second, rows.second_end])[:, chosen].T.tolist()
    lengths = rows.lengths[chosen] + double * (rows.second_end > rows.second)[chosen]
    width = int(lengths.max(initial=1))
    tokens = np.full((len(chosen), width), PADDING, dtype=np.int64)
    begins = np.zeros(tokens.shape, dtype=bool)
    for row, (first, first_end, second, second_end) in enumerate(table):
        stop = 1 + first_end - first
        tokens[row, 0] = START
        tokens[row, 1:stop] = passages.ids[first:first_end]
        tokens[row, stop] = END
        begins[row, 1:stop] = passages.flags[first:first_end] & PIECE
        if second_end > second:
            start, stop = stop + 1 + double, stop + 1 + double + second_end - second
            tokens[row, start - 1] = END
            tokens[row, start:stop] = passages.ids[second:second_end]
            tokens[row, stop] = END
            begins[row, start:stop] = passages.flags[second:second_end] & PIECE
    return tokens, np.arange(width) < lengths[:, None], begins


def collate_rows(
    passages: Passages,
    rows: Rows,
    indices: Sequence[int],
    masking: Masking | None,
    seeds: tuple[int, int],
    double: bool = False,
) -> MaskedBatch:
    """Collate one batch of rows; without a masking no word is masked.

    Args:
        passages: The tokens.
        rows: The rows of the pass.
        indices: Indices of the rows of the batch.
        masking: How words are masked.
        seeds: Seed and pass.
        double: Put two end tokens between two texts.
    """
    tokens, mask, begins = framed_rows(passages, rows, indices, double)
    labels = rows.labels[np.asarray(indices, dtype=np.int64)]
    read, places, words = tokens, np.zeros(0, np.int64), np.zeros(0, np.int64)
    shares = np.ones(len(tokens), np.float32)
    if masking is not None:
        candidates = mask & (tokens != START) & (tokens != END) & (tokens != UNKNOWN) & (tokens != PADDING)
        numbers = np.asarray(indices, dtype=np.int64)
        read, chosen = mask_rows(tokens, candidates, begins, masking, seeds, numbers)
        places, shares = np.flatnonzero(chosen), chosen.sum(1).astype(np.float32)
        words = tokens.reshape(-1)[places]
    return MaskedBatch(
        list(indices),
        torch.from_numpy(read),
        torch.from_numpy(mask),
        torch.from_numpy(places),
        torch.from_numpy(words),
        torch.from_numpy(labels),
        torch.from_numpy(shares),
        len(places) if masking is not None else int((labels != NO_QUESTION).sum()),
    )
