"""The states of the tokens of a text."""

from __future__ import annotations

from typing import Any

from torch import Tensor

from heed.data.batch import framed, unframed
from heed.data.tokens.special import Special


def states_of(body: Any, tokens: Tensor, mask: Tensor, special: Special) -> Tensor:
    """The states of tokens `(batch, length)`, `(batch, length, d_output)`; framed for a body that wants it.

    Args:
        body: A `TokenEncoder`.
        tokens: `(batch, length)`.
        mask: `(batch, length)`, True on real tokens.
        special: Of the tokenizer.
    """
    states: Tensor = body(*framed(tokens, mask, special)) if body.framed else body(tokens, mask)
    return unframed(states) if body.framed else states
