"""Less memory for the same gradient: recomputed blocks (activation checkpointing) and micro-batches.

Activation checkpointing keeps only the input of each block; its inside is recomputed in the backward pass.

    memory = inputs of all blocks + the inside of one, instead of the inside of all

Random state is restored for the second computation, so that dropout's masks, and with them all gradients, are the same.
Models without blocks refuse the field, as does `training.guided_attention`, which looks into every block.

Micro-batches: the parts of a batch are computed one by one, with the activations of only one in memory.

    memory of activations = bytes that autograd keeps of the batch / micro-batches

Dropout drops different elements than with the whole batch. Refused for models with batch normalisation, whose gradient
it would change. Where pictures are mixed (`augment.mixup`, `augment.cutmix`), each is mixed with one of its own
micro-batch. The first lines of a run give the number of micro-batches. The checkpoint stores it, since dropout's draws
depend on it.

Source: Chen et al. 2016, Training Deep Nets with Sublinear Memory Cost, arXiv:1604.06174.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import partial
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn.modules.batchnorm import _BatchNorm
from torch.utils.checkpoint import checkpoint

from heed.attention import watch
from heed.errors import ConfigError
from heed.layers.transformer import DecoderBlock, EncoderBlock

_WITHIN = "_keeps_its_inside"


def recompute_blocks(model: nn.Module, name: str) -> None:
    """Recompute every block of a model in the backward pass; its weights keep their names.

    Raises:
        ConfigError: The model has no blocks.
    """
    blocks = [module for module in model.modules() if isinstance(module, EncoderBlock | DecoderBlock)]
    if not blocks:
        raise ConfigError(
            f"training.activation_checkpointing is true, but model '{name}' has no Transformer blocks to recompute "
            "(transformer, encoder, bert, gpt and vit have them); set it to false"
        )
    for block in blocks:
        block.forward = partial(_twice, block, block.forward)  # type: ignore[method-assign]


def recomputed_blocks(model: nn.Module) -> list[nn.Module]:
    """The blocks that are recomputed, except those of `kept_inside`."""
    return [
        module
        for module in model.modules()
        if isinstance(vars(module).get("forward"), partial) and _WITHIN not in vars(module)
    ]


@contextmanager
def kept_inside(blocks: list[nn.Module]) -> Iterator[None]:
    """Context manager within which these blocks are not recomputed."""
    for block in blocks:
        vars(block)[_WITHIN] = True
    try:
        yield
    finally:
        for block in blocks:
            del vars(block)[_WITHIN]


def _twice(block: nn.Module, forward: Callable[..., Any], *given: Any, **named: Any) -> Any:
    # A trace or edit must see each call only once.
    if _WITHIN in vars(block) or watch.slot is not None or not torch.is_grad_enabled():
        return forward(*given, **named)
    return checkpoint(forward, *given, use_reentrant=False, **named)


_KEPT = 100 * 2**20
"""Bytes kept for the backward pass above which a batch is divided."""


def divided(indices: list[int], count: int) -> list[list[int]]:
    """Split the examples of a batch into `count` lists of about the same length, or fewer if examples are fewer."""
    count = min(count, len(indices))
    return [indices[i * len(indices) // count : (i + 1) * len(indices) // count] for i in range(count)]


def normalises_batches(model: nn.Module) -> bool:
    """True with batch normalisation: the gradients of the parts of a batch do not add up to that of the batch."""
    return any(isinstance(module, _BatchNorm) for module in model.modules())


def check_micro_batches(model: nn.Module, name: str, count: int | None) -> None:
    """Refuse micro-batches for a model whose gradient they would change.

    Raises:
        ConfigError: The model has batch normalisation; the message says what to do instead.
    """
    if (count or 1) > 1 and normalises_batches(model):
        raise ConfigError(
            f"training.micro_batches={count}: model '{name}' normalises by the mean and deviation of each batch, "
            "so micro-batches would change the gradient; remove the field and set a smaller batch size"
        )


def micro_batches_for(model: nn.Module, device: torch.device, kept: float) -> int:
    """Default number of micro-batches of a batch of which `kept` bytes stay for the backward pass.

    1 for a recurrent model (each part would need as many steps as the whole), with batch normalisation, and on a GPU,
    where fewer rows are slower.
    """
    in_blocks = any(isinstance(module, EncoderBlock | DecoderBlock) for module in model.modules())
    divides = in_blocks and device.type == "cpu" and not normalises_batches(model)
    return max(1, math.ceil(kept / _KEPT)) if divides else 1


def kept_bytes(model: nn.Module, run: Callable[[], object]) -> int:
    """Bytes that autograd keeps of a forward pass, each storage counted once.

    Parameters are left out; the inputs of recomputed blocks are counted.
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
