"""The attention mechanism, as a specification: scores, weights, context.

    scores  = score(query, key)              # (..., query, key)
    weights = masked_softmax(scores, mask)   # rows sum to 1; all zeros for a query that may attend to no key
    context = weights @ value                # (..., query, d_value)

The attention models of heed differ in the score, in the query, and in where they use the context.
The faster paths, such as `fused_attend`, are tested against this one.

Masks are boolean, True = may attend, combined with `&`. This is the convention of
`torch.nn.functional.scaled_dot_product_attention`; `torch.nn.MultiheadAttention` uses the opposite one (True = ignore).
Models pass a padding mask `(batch, key)`; only this package broadcasts it to `(batch, heads, query, key)`.
"""

from typing import Any

import torch
from torch import Tensor
from torch.nn.functional import dropout as drop
from torch.nn.functional import scaled_dot_product_attention

from heed.attention.scores import ScaledDot, Score, check_widths
from heed.errors import ShapeError
from heed.shapes import Bool, Float, Int


def masked_softmax(
    scores: Float[Tensor, "*batch query key"], mask: Bool[Tensor, "*#batch #query #key"] | None = None
) -> Float[Tensor, "*batch query key"]:
    """Softmax over the keys that may be attended to.

    `weights[i, j] = exp(scores[i, j]) / sum over allowed k of exp(scores[i, k])`, 0 where the mask is False. A row
    whose mask is False everywhere is all zeros, and the gradient through it is zero instead of NaN.
    """
    if mask is None:
        return torch.softmax(scores, dim=-1)
    # The lowest finite number instead of -inf keeps a fully masked row finite (it becomes uniform and is then
    # zeroed); in any other row its exponential is exactly 0.
    lowest = torch.finfo(scores.dtype).min
    hidden = ~mask
    return torch.softmax(scores.masked_fill(hidden, lowest), dim=-1).masked_fill(hidden, 0.0)


def weigh(
    weights: Float[Tensor, "*batch query key"], value: Float[Tensor, "*batch key d_value"], dropout: float = 0.0
) -> Float[Tensor, "*batch query d_value"]:
    """Weighted sum of the values; each weight is dropped with probability `dropout`, and the others are rescaled."""
    return (drop(weights, dropout) if dropout > 0 else weights) @ value


def attend(
    query: Float[Tensor, "*batch query d_query"],
    key: Float[Tensor, "*batch key d_key"],
    value: Float[Tensor, "*batch key d_value"],
    mask: Bool[Tensor, "..."] | None = None,
    score: Score | None = None,
    dropout: float = 0.0,
) -> tuple[Float[Tensor, "*batch query d_value"], Float[Tensor, "*batch query key"]]:
    """Attention on raw tensors: `softmax(score(query, key)) value`.

    Args:
        query: `(..., query, d_query)`.
        key: `(..., key, d_key)`, compared with the queries.
        value: `(..., key, d_value)`, summed with the weights.
        mask: Bool, broadcastable to `(..., query, key)`, True = may attend.
        score: Compares queries with keys; scaled dot product by default.
        dropout: Probability with which a weight is dropped (pass 0 outside training).

    Returns:
        context, `(..., query, d_value)`, and weights, `(..., query, key)`, before dropout.

    Raises:
        ShapeError: The mask is not boolean or does not broadcast to the scores; keys and values differ in number;
            query and key widths differ, but the score needs equal ones.

    Source:
        Bahdanau et al. 2015 (arXiv:1409.0473) section 3.1 for the form; Vaswani et al. 2017 (arXiv:1706.03762)
        equation 1 for the default score. The papers write e_ij for scores, alpha_ij for weights, c_i for context.
    """
    if key.shape[-2] != value.shape[-2]:
        raise ShapeError(f"{key.shape[-2]} keys but {value.shape[-2]} values; each key needs its value")
    score = ScaledDot(query.shape[-1]) if score is None else score
    scores = score.scores(score.project(query), score.prepare(key))
    if mask is not None:
        _check_mask(mask, scores)
    weights = masked_softmax(scores, mask)
    return weigh(weights, value, dropout), weights


def _check_mask(mask: Tensor, scores: Tensor) -> None:
    if mask.dtype != torch.bool:
        raise ShapeError(f"mask has type {mask.dtype}, expected torch.bool (True = may attend)")
    try:
        fits = torch.broadcast_shapes(mask.shape, scores.shape) == scores.shape
    except RuntimeError:
        fits = False
    if not fits:
        *batch, queries, keys = scores.shape
        raise ShapeError(
            f"mask has shape {tuple(mask.shape)}, expected one broadcastable to "
            f"({''.join(f'batch {n}, ' for n in batch)}query {queries}, key {keys})"
        )


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


def fused_attend(
    projected: Float[Tensor, "batch heads query d"],
    prepared: Float[Tensor, "batch heads key d"],
    value: Float[Tensor, "batch heads key d_value"],
    mask: Bool[Tensor, "batch ..."] | None,
    *,
    causal: bool,
    scale: float,
    dropout: float = 0.0,
) -> Float[Tensor, "batch heads query d_value"]:
    """`softmax(scale * projected prepared') value` in one kernel, torch's.

    The mask is `(batch, key)` or `(batch, query, key)`, True = may attend; `causal` also masks the future, as
    `causal_mask` does. The context of a query that may attend to no key is zero.
    """
    check_widths(projected, prepared)
    num_queries, num_keys = projected.shape[2], prepared.shape[2]
    # torch aligns is_causal at the top left, which is right for square scores only, and allows no mask beside it.
    square = causal and mask is None and num_queries == num_keys and num_queries > 1
    combined = None if square else full_mask(mask, causal, num_queries, num_keys, projected.device)
    flag: dict[str, Any] = {"is_causal": True} if square else {}  # compiled for all lengths, `square` itself is no bool
    flag |= {"attn_mask": combined, "dropout_p": dropout, "scale": scale}
    if dropout == 0 and value.device.type == "cpu" and torch.is_autocast_enabled("cpu"):
        # A CPU's kernel, which has no dropout, takes five times as long for the gradient in bf16 as in float32.
        with torch.autocast("cpu", enabled=False):
            return scaled_dot_product_attention(projected.float(), prepared.float(), value.float(), **flag)
    return scaled_dot_product_attention(projected, prepared, value, **flag)
