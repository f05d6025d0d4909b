"""Memory for large tensors that are written and read again and again."""

from __future__ import annotations

import math
import mmap
from collections.abc import Sequence
from contextlib import suppress

import torch
from torch import Tensor

from heed.kernels.switch import enabled

_LARGE = 2**20
_PAGE = 2**21


def large_empty(shape: Sequence[int], like: Tensor) -> Tensor:
    """A tensor with any values in it; a large one on a CPU lies in pages of 2 MiB where the system has them.

    The first touch of a page of 4 KiB may take as long as filling it ten times, and a processor remembers where a few
    thousand pages are: caches and logits need more.
    """
    size = math.prod(shape) * like.element_size()
    if size < _LARGE or like.device.type != "cpu" or not (enabled() and hasattr(mmap, "MADV_HUGEPAGE")):
        return like.new_empty(tuple(shape))
    memory = mmap.mmap(-1, -(-size // _PAGE) * _PAGE, flags=mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS)
    with suppress(OSError):  # a system without such pages
        memory.madvise(mmap.MADV_HUGEPAGE)
    for start in range(0, len(memory), _PAGE):  # by one thread: where two come first to a page, both take long
        memory[start] = 0
    return torch.frombuffer(memory, dtype=like.dtype, count=math.prod(shape)).view(tuple(shape))
