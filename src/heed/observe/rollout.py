"""Attention rollout over the layers of an encoder: the share of each input token in each state.

    A'_l = (A_l + I) / 2,  R_l = A'_l R_(l-1),  R_(-1) = I

A_l is the mean over the heads of layer l, and I stands for the residual connection. Every row of every R_l sums to 1.

Source: Abnar and Zuidema 2020 (arXiv:2005.00928), section 3. Differs from the paper: nothing.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

import torch
from torch import Tensor

from heed.errors import ConfigError
from heed.observe.trace import ObserveError, Trace


def rolled_out(weights: Iterable[Tensor]) -> list[Tensor]:
    """Roll out attention weights.

    Args:
        weights: `(batch, heads, tokens, tokens)` for each layer, the first layer first; rows sum to 1.

    Returns:
        For each layer `(batch, tokens, tokens)`: row i is the share of each input token in the state of token i after
        that layer. Rows sum to 1.
    """
    states: list[Tensor] = []
    for layer in weights:
        mean = layer.float().mean(1)
        mixed = (mean + torch.eye(mean.shape[-1], device=mean.device)) / 2
        states.append(mixed if not states else mixed @ states[-1])
    return states


def rollout(seen: Trace, mechanism: str | None = None, layer: int = -1, entries: Sequence[int] | None = None) -> Tensor:
    """Roll out the self-attention of a trace, from its first layer up to and including `layer`.

    Args:
        seen: A trace of one pass over a batch.
        mechanism: Which attention ("encoder"); may be omitted if the model has only one.
        layer: The last layer to include, from 0; negative counts from the last.
        entries: Entries of the batch; all by default.

    Returns:
        `(batch, tokens, tokens)`, rows sum to 1.

    Raises:
        ConfigError: Rollout is not defined for this attention: its mask differs between tokens (a causal mask), or it
            does not go from a sequence to itself.
        ObserveError: No such attention was seen, or its layers differ in size.
    """
    if mechanism is None and len(names := list(dict.fromkeys(name for name, _ in seen.mechanisms()))) == 1:
        mechanism = names[0]
    layers = sorted(number for name, number in seen.mechanisms() if name == mechanism)
    last = seen.maps(mechanism, layer, entries=[0]).layer  # if there is no such layer, the error lists the layers
    weights = []
    for number in (one for one in layers if one <= last):
        maps = seen.maps(mechanism, number, entries=entries)
        tokens, keys = maps.weights.shape[-2:]
        if tokens != keys:
            raise ConfigError(
                f"rollout needs attention from a sequence to itself; {mechanism} attention has {tokens} queries and "
                f"{keys} keys"
            )
        if not bool((maps.mask == maps.mask[..., :1, :]).all()):
            raise ConfigError(
                f"rollout is not defined under a causal mask: the tokens of {mechanism} attention, layer {number}, do "
                "not all see the same tokens, so the first tokens would gain weight at every layer, whatever the model "
                "learned (Abnar and Zuidema 2020 define rollout for encoders)"
            )
        weights.append(maps.weights)
    if len({one.shape[-1] for one in weights}) > 1:
        raise ObserveError("rollout needs layers over the same tokens; these layers differ in number of tokens")
    return rolled_out(weights)[-1]
