"""What the processor knows of a GPU's tensors, so that it reads its own copy instead of waiting for the GPU."""

import torch
from torch import Tensor


def sent(tensor: Tensor, device: torch.device) -> Tensor:
    """A tensor on a device. To a GPU it is copied asynchronously; of integers, `host_copy` gives the original."""
    if device.type != "cuda" or tensor.device.type != "cpu":
        return tensor.to(device)
    moved = (tensor if tensor.is_pinned() else tensor.pin_memory()).to(device, non_blocking=True)
    if not tensor.is_floating_point():
        moved.__dict__["host_copy"] = tensor
    return moved


def host_copy(tensor: Tensor) -> Tensor:
    """The original on the CPU of a tensor from `sent`, or the tensor itself."""
    original = None if torch.compiler.is_compiling() else tensor.__dict__.get("host_copy")
    return original if isinstance(original, Tensor) else tensor


def chosen(x: Tensor, mask: Tensor) -> Tensor:
    """`x[mask]`, without waiting for the GPU where `host_copy` knows the mask."""
    original = host_copy(mask)
    if original is mask:
        return x[mask]
    return x.flatten(0, mask.dim() - 1).index_select(0, sent(original.flatten().nonzero().squeeze(1), x.device))
