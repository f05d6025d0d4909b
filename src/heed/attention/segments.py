"""Self-attention of texts laid end to end, each by itself: flash attention without a mask, on a GPU in bf16."""

from collections.abc import Callable
from functools import cache
from typing import Any, NamedTuple

import torch
from torch import Tensor
from torch.nn.functional import pad

from heed.attention.host import here, sent
from heed.shapes import Float


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
