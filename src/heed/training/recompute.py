"""Activation checkpointing: only the input of each block is kept; its inside is recomputed in the backward pass.

    memory = inputs of all blocks + the inside of one, instead of the inside of all

Random state is restored for the second computation, so that dropout's masks, and with them all gradients, are the same.

Source: Chen et al. 2016, Training Deep Nets with Sublinear Memory Cost, arXiv:1604.06174.

Models without blocks refuse the field, as does `training.guided_attention`, which looks into every block.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import partial
from typing import Any

import torch
from torch import nn
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
