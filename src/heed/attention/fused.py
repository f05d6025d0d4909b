"""The fast path: torch's fused scaled_dot_product_attention, for every score that is a scaled dot product.

Tests check that its values and gradients equal the specification for every mask. It does not return weights; an
observer recomputes them from the recorded queries and keys.
"""

from torch import Tensor
from torch.nn.functional import scaled_dot_product_attention

from heed.attention.masks import full_mask
from heed.attention.scores import check_widths
from heed.kernels import SHORT, enabled, short_attend
from heed.shapes import Bool, Float


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
    """`softmax(scale * projected prepared') value` in one kernel; in CPU training over few keys, by `short_attend`.

    The mask is `(batch, key)` or `(batch, query, key)`, True = may attend; `causal` also masks the future, as
    `causal_mask` does. The context of a query that may attend to no key is zero.
    """
    check_widths(projected, prepared)
    num_queries, num_keys = projected.shape[2], prepared.shape[2]
    is_short = num_keys <= SHORT and projected.device.type == "cpu" and projected.requires_grad
    if is_short and dropout == 0.0 and enabled():
        combined = full_mask(mask, causal, num_queries, num_keys, projected.device)
        return short_attend(projected, prepared, value, combined, scale)
    # torch aligns is_causal at the top left, which is right for square scores only, and allows no mask beside it.
    square = causal and mask is None and num_queries == num_keys and num_queries > 1
    combined = None if square else full_mask(mask, causal, num_queries, num_keys, projected.device)
    return scaled_dot_product_attention(
        projected, prepared, value, attn_mask=combined, dropout_p=dropout, is_causal=square, scale=scale
    )
