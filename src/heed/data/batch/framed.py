"""Framed texts: with a start token before and an end token after, as `models.base.TokenEncoder.framed` expects.

one text     START a END
two texts    START a END b END         or, with a double separator (RoBERTa), START a END END b END
"""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor
from torch.nn.functional import pad

from heed.data.tokens.tokenizer import END, PADDING, START
from heed.errors import DataError


def frame(ids: Sequence[int], pair: Sequence[int] | None = None, double: bool = False) -> list[int]:
    """A text, or two, with their start and end tokens."""
    one = [START, *ids, END]
    return one if pair is None else [*one, *([END] if double else []), *pair, END]


def frame_size(is_pair: bool, double: bool = False) -> int:
    """The number of tokens that `frame` adds."""
    return 3 + double if is_pair else 2


def fit(
    ids: Sequence[int], pair: Sequence[int] | None, max_length: int, double: bool = False
) -> tuple[list[int], list[int] | None]:
    """The text, or both, cut at the end so that framed they have at most `max_length` tokens.

    Of two texts the longer one is cut until both are equally long, then both alternately, the second first.

    Raises:
        DataError: `max_length` has no room for the frame.

    Source: Devlin et al. 2019, the published code (`_truncate_seq_pair`).
    """
    room = max_length - frame_size(pair is not None, double)
    if room < 0:
        raise DataError(f"{max_length} positions are too few for the {max_length - room} start and end tokens")
    if pair is None:
        return list(ids[:room]), None
    if len(ids) + len(pair) <= room:
        return list(ids), list(pair)
    half = room // 2  # tokens of the second text if both are cut; the first may have one more
    if len(pair) <= half:
        return list(ids[: room - len(pair)]), list(pair)
    first = min(len(ids), room - half)
    return list(ids[:first]), list(pair[: room - first])


def framed(tokens: Tensor, mask: Tensor) -> tuple[Tensor, Tensor]:
    """Padded rows with the start token before each and the end token after its last real one.

    Args:
        tokens: `(batch, length)`, padded on the right.
        mask: `(batch, length)`, True on real tokens.

    Returns:
        Tokens and mask `(batch, length + 2)`: position t + 1 has the former position t.
    """
    lengths = mask.sum(1, keepdim=True)
    moved = pad(tokens.masked_fill(~mask, PADDING), (1, 1), value=PADDING)
    moved[:, 0] = START
    moved.scatter_(1, lengths + 1, END)
    return moved, torch.arange(moved.shape[1], device=tokens.device) < lengths + 2


def framed_features(features: Tensor) -> Tensor:
    """Features of each token `(batch, length, d)`, with zeros for the start and end tokens."""
    return pad(features, (0, 0, 1, 1))


def unframed(hidden: Tensor) -> Tensor:
    """States of framed tokens, `(batch, length + 2, d)`, without those of the first and last position.

    The result is `(batch, length, d)`, undefined outside the mask of the unframed tokens.
    """
    return hidden[:, 1:-1]
