"""Masked words: the choice of tokens to predict in a row, and their replacements.

Of the tokens of a text, 15 % are chosen. Of these, 80 % are read as the mask token, 10 % as a random token and 10 %
unchanged. The choice and the replacements depend only on the seed, the pass and the row, not on the batch or the
process. With whole words the pieces of a word are chosen together.

Source: Devlin et al. 2019 (arXiv:1810.04805), section 3.1, "Masked LM", and appendix A.1. Whole words are those of the
checkpoints that its authors published later.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Self

import numpy as np
from numpy.typing import NDArray

from heed.data.splitmix import STEP, mixed
from heed.data.tokens.tokenizer import SPECIAL_TOKENS, TextTokenizer
from heed.errors import ConfigError
from heed.tasks.pretraining.config import RowOptions


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
