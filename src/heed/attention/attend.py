"""The attention mechanism, as a specification: scores, weights, context.

    scores  = score(query, key)              # (..., query, key)
    weights = masked_softmax(scores, mask)   # rows sum to 1; all zeros for a query that may attend to no key
    context = weights @ value                # (..., query, d_value)

The attention models of heed differ in the score, in the query, and in where they use the context.
The faster paths are tested against this one.
"""

import torch
from torch import Tensor
from torch.nn.functional import dropout as drop

from heed.attention.scores import ScaledDot, Score
from heed.errors import ShapeError
from heed.shapes import Bool, Float


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
    return torch.softmax(scores.masked_fill(~mask, lowest), dim=-1).masked_fill(~mask, 0.0)


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
