"""The states of the tokens of a text."""

from __future__ import annotations

from typing import Any

from torch import Tensor

from heed.data.batch import framed, framed_features, unframed
from heed.data.tokens.special import Special


def states_of(body: Any, tokens: Tensor, mask: Tensor, special: Special, features: Tensor | None = None) -> Tensor:
    """The states of tokens `(batch, length)`, `(batch, length, d_output)`; framed for a body that wants it.

    Args:
        body: A `TokenEncoder`.
        tokens: `(batch, length)`.
        mask: `(batch, length)`, True on real tokens.
        special: Of the tokenizer.
        features: `(batch, length, d)`, further inputs of a body that reads features.
    """
    further = () if features is None else (features if not body.framed else framed_features(features),)
    states: Tensor = body(*framed(tokens, mask, special), *further) if body.framed else body(tokens, mask, *further)
    return unframed(states) if body.framed else states
