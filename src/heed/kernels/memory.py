"""Memory for large tensors that are written and read repeatedly."""

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
    """An uninitialised tensor; a large one on a CPU lies in pages of 2 MiB if the system supports them.

    The first touch of a 4 KiB page may take as long as filling it ten times, and the TLB of a processor holds only a
    few thousand pages, fewer than caches and logits need.
    """
    size = math.prod(shape) * like.element_size()
    if size < _LARGE or like.device.type != "cpu" or not (enabled() and hasattr(mmap, "MADV_HUGEPAGE")):
        return like.new_empty(tuple(shape))
    memory = mmap.mmap(-1, -(-size // _PAGE) * _PAGE, flags=mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS)
    with suppress(OSError):  # the system has no such pages
        memory.madvise(mmap.MADV_HUGEPAGE)
    for start in range(0, len(memory), _PAGE):  # by one thread: concurrent first touches are slow
        memory[start] = 0
    return torch.frombuffer(memory, dtype=like.dtype, count=math.prod(shape)).view(tuple(shape))
