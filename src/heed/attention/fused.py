"""Scaled dot-product attention in one kernel.

It is torch's fused one or, on a GPU in bf16, flash attention of texts laid end to end, each by itself, without a mask.
"""

from collections.abc import Callable
from functools import cache
from typing import Any, NamedTuple

import torch
from torch import Tensor
from torch.nn.functional import pad, scaled_dot_product_attention

from heed.attention.attend import full_mask
from heed.attention.host import here, sent
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
    own: bool = False,
) -> Float[Tensor, "batch heads query d_value"]:
    """`softmax(scale * projected prepared') value` in one kernel; `own` if queries and keys are of the same positions.

    The mask is `(batch, key)` or `(batch, query, key)`, True = may attend; `causal` also masks the future, as
    `causal_mask` does. The context of a query that may attend to no key is zero.
    """
    check_widths(projected, prepared)
    num_queries, num_keys = projected.shape[2], prepared.shape[2]
    may = mask is not None and (own or mask.dim() == 3) and not dropout and not torch.compiler.is_compiling()
    if mask is not None and may and projected.dtype == torch.bfloat16:
        kernel = flash_by_segment()
        if kernel is not None and (segments := segments_of(mask)) is not None:
            return by_segment(kernel, projected, prepared, value, segments, causal=causal, scale=scale)
    # torch aligns is_causal at the top left, which is right for square scores only, and allows no mask beside it.
    square = causal and mask is None and num_queries == num_keys and num_queries > 1
    combined = None if square else full_mask(mask, causal, num_queries, num_keys, projected.device)
    flag = {"is_causal": True} if square else {}  # compiled for all lengths, `square` itself is no bool
    return scaled_dot_product_attention(
        projected, prepared, value, attn_mask=combined, dropout_p=dropout, scale=scale, **flag
    )


class Segments(NamedTuple):
    """Texts of which each attends to itself only, laid end to end."""

    ends: Tensor  # `(texts + 1,)`, int32, on the device: 0, and the end of each text among all tokens
    longest: int  # tokens of the longest text
    places: Tensor | None = None  # of the tokens in a padded batch `(batch * length,)`; None without padding


def segment(mask: Tensor, begins: Tensor) -> Tensor:
    """Note on a mask of packed documents `(batch, length, length)` where they begin, `(batch, length)` on the CPU."""
    starts = begins.flatten().nonzero().squeeze(1)
    ends = pad(starts, (0, 1), value=begins.numel())
    mask.__dict__["segments"] = Segments(sent(ends.int(), mask.device), int(ends.diff().max()))
    return mask


def segments_of(mask: Tensor) -> Segments | None:
    """The texts of a mask `(batch, length)` of padding, or of one from `segment`; None if only the GPU knows them."""
    known = here(mask)
    if mask.dim() == 2 and known is not mask and "segments" not in mask.__dict__:
        lengths = known.sum(1)
        ends = sent(pad(lengths.cumsum(0), (1, 0)).int(), mask.device)
        index = sent(known.flatten().nonzero().squeeze(1), mask.device)
        mask.__dict__["segments"] = Segments(ends, int(lengths.max()), index)
    return None if torch.compiler.is_compiling() else mask.__dict__.get("segments")


@cache
def flash_by_segment() -> Callable[..., Any] | None:
    """Torch's flash attention over texts laid end to end (`varlen_attn`); None where a mask must do."""
    if not (torch.cuda.is_available() and torch.backends.cuda.is_flash_attention_available()):
        return None
    try:
        from torch.nn.attention.varlen import varlen_attn
    except ImportError:
        return None
    return varlen_attn


def by_segment(
    kernel: Callable[..., Any],
    query: Float[Tensor, "batch heads length d"],
    key: Float[Tensor, "batch heads length d"],
    value: Float[Tensor, "batch heads length d_value"],
    segments: Segments,
    *,
    causal: bool,
    scale: float,
) -> Float[Tensor, "batch heads length d_value"]:
    """Self-attention of each text by itself, without a mask; padding gets zeros.

    `kernel` takes queries, keys and values `(tokens, heads, d)`, the ends of the texts among queries and keys, the
    lengths of the longest, a scale and a window, and returns contexts `(tokens, heads, d)`.
    """
    ends, longest, places = segments

    def line(x: Tensor) -> Tensor:
        x = x.transpose(1, 2).flatten(0, 1)
        return x if places is None else x.index_select(0, places)

    window = (-1, 0 if causal else -1)
    out = kernel(line(query), line(key), line(value), ends, ends, longest, longest, scale=scale, window_size=window)
    if places is not None:
        out = out.new_zeros(len(query) * query.shape[2], *out.shape[1:]).index_copy(0, places, out)
    return out.view(len(query), -1, *out.shape[1:]).transpose(1, 2)  # type: ignore[no-any-return]
