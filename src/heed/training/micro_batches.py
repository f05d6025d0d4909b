"""A batch in micro-batches, one after the other: the same gradient, and the activations of one of them in memory.

memory of activations = what autograd keeps of the batch / micro-batches

Dropout drops other elements than with the whole batch. Refused for models with batch normalisation, whose gradient it
would change. Where pictures are mixed (`augment.mixup`, `augment.cutmix`), each is mixed with one of its own part. The
first lines of a run say into how many parts batches are divided. Their number is kept in the checkpoint, since
dropout's draws depend on it.
"""

from __future__ import annotations

import math
from collections.abc import Callable

import torch
from torch import Tensor, nn
from torch.nn.modules.batchnorm import _BatchNorm

from heed.errors import ConfigError
from heed.layers.transformer import DecoderBlock, EncoderBlock
from heed.training.recompute import recomputed_blocks

_KEPT = 100 * 2**20
"""Bytes kept for the backward pass from which on a batch is divided (benchmarks/NOTES.md has what that costs)."""


def divided(indices: list[int], count: int) -> list[list[int]]:
    """The examples of a batch in `count` lists of about the same length, or in one for each where they are fewer."""
    count = min(count, len(indices))
    return [indices[i * len(indices) // count : (i + 1) * len(indices) // count] for i in range(count)]


def normalises_batches(model: nn.Module) -> bool:
    """Whether mean and deviation of the batch enter its gradient, which its parts then do not add up to."""
    return any(isinstance(module, _BatchNorm) for module in model.modules())


def check_micro_batches(model: nn.Module, name: str, count: int | None) -> None:
    """Refuse to divide the batches of a model whose gradient that would change.

    Raises:
        ConfigError: It names what to do instead.
    """
    if (count or 1) > 1 and normalises_batches(model):
        raise ConfigError(
            f"training.micro_batches={count}: model '{name}' normalises by the mean and deviation of each batch, "
            "so its parts would give another gradient; leave the field out and set a smaller batch size"
        )


def micro_batches_for(model: nn.Module, device: torch.device, kept: float) -> int:
    """Default number of micro-batches of a batch of which `kept` bytes stay for the backward pass.

    1 for a recurrent model, which would take as many steps for each part, for one with batch normalisation, and on a
    GPU, where fewer rows are slower.
    """
    in_blocks = any(isinstance(module, EncoderBlock | DecoderBlock) for module in model.modules())
    divides = in_blocks and device.type == "cpu" and not normalises_batches(model)
    return max(1, math.ceil(kept / _KEPT)) if divides else 1


def kept_bytes(model: nn.Module, run: Callable[[], object]) -> int:
    """Bytes that autograd keeps of a forward pass, each storage counted once.

    Parameters are left out, and the inputs of blocks that are computed again are counted.
    """
    kept: dict[int, int] = {}

    def keep(tensor: Tensor) -> Tensor:
        storage = tensor.untyped_storage()
        kept[storage.data_ptr()] = storage.nbytes()
        return tensor

    def enter(block: nn.Module, given: tuple[Tensor, ...]) -> None:
        keep(given[0])

    own = {p.untyped_storage().data_ptr() for p in model.parameters()}
    handles = [block.register_forward_pre_hook(enter) for block in recomputed_blocks(model)]
    with torch.autograd.graph.saved_tensors_hooks(keep, lambda tensor: tensor):
        run()
    for handle in handles:
        handle.remove()
    return sum(size for place, size in kept.items() if place not in own)
