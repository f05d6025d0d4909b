"""Scaled dot-product attention in one kernel, torch's fused one."""

from torch import Tensor
from torch.nn.functional import scaled_dot_product_attention

from heed.attention.attend import full_mask
from heed.attention.scores import check_widths
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
    """`softmax(scale * projected prepared') value` in one kernel.

    The mask is `(batch, key)` or `(batch, query, key)`, True = may attend; `causal` also masks the future, as
    `causal_mask` does. The context of a query that may attend to no key is zero.
    """
    check_widths(projected, prepared)
    num_queries, num_keys = projected.shape[2], prepared.shape[2]
    # torch aligns is_causal at the top left, which is right for square scores only, and allows no mask beside it.
    square = causal and mask is None and num_queries == num_keys and num_queries > 1
    combined = None if square else full_mask(mask, causal, num_queries, num_keys, projected.device)
    flag = {"is_causal": True} if square else {}  # compiled for all lengths, `square` itself is no bool
    return scaled_dot_product_attention(
        projected, prepared, value, attn_mask=combined, dropout_p=dropout, scale=scale, **flag
    )
