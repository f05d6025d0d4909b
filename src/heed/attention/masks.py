"""Masks: boolean, True = may attend, combined with `&`.

This is the convention of `torch.nn.functional.scaled_dot_product_attention`; `torch.nn.MultiheadAttention` uses the
opposite one (True = ignore).

Models pass a padding mask `(batch, key)`; only this package broadcasts it to `(batch, heads, query, key)`.
"""

import torch
from torch import Tensor

from heed.errors import ShapeError
from heed.shapes import Bool, Int


def padding_mask(lengths: Int[Tensor, " batch"], max_length: int | None = None) -> Bool[Tensor, "batch length"]:
    """True at the positions within each sequence's length.

    For lengths (3, 1):

        1 1 1
        1 . .

    By default the mask is as wide as the largest length.
    """
    width = int(lengths.max()) if max_length is None else max_length
    return torch.arange(width, device=lengths.device) < lengths.unsqueeze(-1)


def causal_mask(num_queries: int, num_keys: int, device: torch.device | str | None = None) -> Bool[Tensor, "query key"]:
    """Allow each query its own and all earlier positions, aligned at the bottom right.

    The last query is at the newest position and may attend to every key, so the mask also fits queries that continue a
    cached sequence. For 3 queries and 5 keys:

        1 1 1 . .
        1 1 1 1 .
        1 1 1 1 1

    (torch's `is_causal` is aligned at the top left, which differs unless there are as many queries as keys.)
    """
    query = torch.arange(num_queries, device=device).unsqueeze(-1)
    key = torch.arange(num_keys, device=device)
    return key <= query + (num_keys - num_queries)


def full_mask(
    mask: Tensor | None, causal: bool, num_queries: int, num_keys: int, device: torch.device
) -> Bool[Tensor, "batch heads query key"] | None:
    """Combine a mask `(batch, key)` or `(batch, query, key)` with a causal mask if `causal`.

    Returns:
        A mask broadcastable to `(batch, heads, query, key)`, or None if every query may attend to every key.

    Raises:
        ShapeError: The mask is not boolean or has another shape.
    """
    combined = None
    if mask is not None:
        if mask.dtype != torch.bool:
            raise ShapeError(f"mask has type {mask.dtype}, expected torch.bool (True = may attend)")
        if mask.dim() == 2 and mask.shape[1] == num_keys:
            combined = mask[:, None, None, :]
        elif mask.dim() == 3 and mask.shape[1:] == (num_queries, num_keys):
            combined = mask[:, None]
        else:
            raise ShapeError(
                f"mask has shape {tuple(mask.shape)}, expected (batch, key {num_keys}) or "
                f"(batch, query {num_queries}, key {num_keys})"
            )
    if causal and num_queries > 1:  # a single query is the newest position: nothing to mask
        future = causal_mask(num_queries, num_keys, device)
        combined = future[None, None] if combined is None else combined & future
    return combined
