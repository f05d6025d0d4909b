"""Batches of pretraining: framed rows, some of their tokens masked; the rows of one pass.

Of the tokens of a text, 15 % are chosen. Of these, 80 % are read as the mask token, 10 % as a random token and 10 %
unchanged. The choice and the replacements depend only on the seed, the pass and the row, not on the batch or the
process. With whole words the pieces of a word are chosen together.

Source: Devlin et al. 2019 (arXiv:1810.04805), section 3.1, "Masked LM", and appendix A.1. Whole words are those of the
checkpoints that its authors published later.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Self

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from heed.data.batch.rows import Batch
from heed.data.sequences import STEP, mixed
from heed.data.tokens.special import UNKNOWN
from heed.data.tokens.tokenizer import END, PADDING, SPECIAL_TOKENS, START, TextTokenizer
from heed.errors import ConfigError, DataError
from heed.tasks.pretraining.config import RowOptions
from heed.tasks.pretraining.passages import FOLLOWS_NOT, NO_QUESTION, PIECE, Cut, Passages, Rows, draw_rows


@dataclass(frozen=True)
class Masking:
    """How tokens are masked.

    Attributes:
        share: Share of the tokens that is chosen.
        as_mask: Share of these that is read as the mask token.
        as_random: Share of these that is read as a random token; the others are read unchanged.
        whole_words: Choose the pieces of a word together.
        mask: The mask token.
        others: `(n,)`, the tokens that random ones are drawn from.
    """

    share: float
    as_mask: float
    as_random: float
    whole_words: bool
    mask: int
    others: NDArray[np.int64]

    @classmethod
    def of(cls, options: RowOptions, tokenizer: TextTokenizer) -> Self:
        """The masking for a tokenizer.

        Raises:
            ConfigError: The tokenizer has no mask token.
        """
        if tokenizer.mask is None:
            raise ConfigError(
                "the tokenizer has no mask token, so no words can be masked; train a tokenizer here (leave "
                "tokenizer.from out), or set model.masked_words=false"
            )
        tags = {tokenizer.mask, *tokenizer.tags.values()}
        others = [i for i in range(len(SPECIAL_TOKENS), tokenizer.vocab_size) if i not in tags]
        return cls(
            options.mask_share,
            options.mask_token_share,
            options.random_token_share,
            options.whole_words,
            tokenizer.mask,
            np.array(others, dtype=np.int64),
        )


def mask_rows(
    tokens: NDArray[np.int64],
    candidates: NDArray[np.bool_],
    word_starts: NDArray[np.bool_],
    masking: Masking,
    seeds: tuple[int, int],
    rows: NDArray[np.int64],
) -> tuple[NDArray[np.int64], NDArray[np.bool_]]:
    """Mask some rows; return the tokens to read, and True where a token is to be predicted, `(rows, length)` each.

    At least one token is chosen in every row that has a candidate.

    Args:
        tokens: `(rows, length)`.
        candidates: `(rows, length)`, True on tokens that may be chosen.
        word_starts: `(rows, length)`, True where a word begins; a token that is not a candidate ends a word.
        masking: How tokens are masked.
        seeds: Seed and pass.
        rows: `(rows,)`, the number of each row in the pass.
    """
    places = np.arange(tokens.shape[1])
    draw = [uniform(seeds, rows, places, kind) for kind in range(3)]
    wanted = np.maximum(np.rint(masking.share * candidates.sum(1)), candidates.any(1)).astype(np.int64)
    keys = draw[0]
    if masking.whole_words:
        # Each piece has the random number of its word's first piece; the stable sort keeps them together.
        starts = word_starts | ~candidates | ~np.roll(candidates, 1, axis=1)
        starts[:, 0] = True
        keys = np.take_along_axis(keys, np.maximum.accumulate(np.where(starts, places, 0), axis=1), axis=1)
    keys = np.where(candidates, keys, 2.0)
    order = np.argsort(keys, axis=1, kind="stable")
    rank = np.empty_like(order)
    np.put_along_axis(rank, order, np.broadcast_to(places, order.shape), axis=1)
    chosen = candidates & (rank < wanted[:, None])
    if masking.whole_words:
        # A word that does not fit whole is left out, except the first.
        last = np.take_along_axis(keys, order, axis=1)
        limit = np.take_along_axis(
            last, np.minimum(wanted, last.shape[1] - 1)[:, None], axis=1
        )  # of the first left out
        fits = keys < limit
        none = ~(fits & candidates).any(1, keepdims=True)
        chosen = candidates & (fits | (none & (keys == last[:, :1])))
    read = np.where(chosen & (draw[1] < masking.as_mask), masking.mask, tokens)
    is_random = chosen & (draw[1] >= masking.as_mask) & (draw[1] < masking.as_mask + masking.as_random)
    instead = masking.others[(draw[2] * len(masking.others)).astype(np.int64)]
    return np.where(is_random, instead, read), chosen


def uniform(
    seeds: tuple[int, int], rows: NDArray[np.int64], places: NDArray[np.int64], kind: int
) -> NDArray[np.float64]:
    """Numbers in [0, 1) for each row and place, `(rows, places)`, from a hash of all arguments.

    The hash is splitmix64 (Steele et al. 2014, "Fast splittable pseudorandom number generators").
    """
    base = _mixed(_mixed(_mixed(np.uint64(seeds[0] % 2**64)) ^ np.uint64(seeds[1] % 2**64)) ^ np.uint64(kind))
    of_row = _mixed(base ^ rows.astype(np.uint64))  # (rows,)
    numbers = _mixed(of_row[:, None] ^ places.astype(np.uint64))
    return (numbers >> np.uint64(11)).astype(np.float64) * 2.0**-53


def _mixed(number: NDArray[np.uint64] | np.uint64) -> NDArray[np.uint64]:
    with np.errstate(over="ignore"):
        return np.asarray(mixed(np.asarray(number + STEP, dtype=np.uint64)), dtype=np.uint64)


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
