"""The loss over a vocabulary."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial

import torch
from torch import Tensor, nn

from heed.kernels import enabled, layer_cross_entropy, linear
from heed.shapes import Bool, Float, Int

PIECE_BYTES = 2**23
"""Bytes of logits in one piece: the fastest of 1 to 32 MiB that still needs little memory."""


def vocabulary_loss(
    hidden: Tensor, output: nn.Module, targets: Tensor, label_smoothing: float = 0.0, piece_bytes: int = PIECE_BYTES
) -> Tensor:
    """Sum over positions of the cross-entropy of the true token.

    `(1 - e) * (-log p[target]) + e * mean over the vocabulary of (-log p)`, e the label smoothing. It is computed piece
    by piece, its gradient in the same pass, so that the logits of all positions never exist together.

    Args:
        hidden: `(positions, d)`, only positions that count (no padding).
        output: The layer from hidden states to logits.
        targets: `(positions,)`, the true tokens.
        label_smoothing: e above, 0 for none (Szegedy et al. 2016, arXiv:1512.00567, section 7).
        piece_bytes: Largest size of one piece of logits, in bytes.

    Returns:
        The sum (not the mean) in nats, float32.
    """
    if not enabled():
        logits = output(hidden).float()
        return nn.functional.cross_entropy(logits, targets, label_smoothing=label_smoothing, reduction="sum")
    layer: Callable[[Tensor], Tensor] = output
    if type(output) is nn.Linear:
        layer = partial(linear, weight=output.weight, bias=output.bias)
    parameters = [p for p in output.parameters() if p.requires_grad]
    vocab_size = output.out_features if isinstance(output, nn.Linear) else None
    return layer_cross_entropy(hidden, layer, parameters, targets, label_smoothing, piece_bytes, vocab_size)


def loss_at(
    real: tuple[Bool[Tensor, "batch length"], int],
    hidden: Float[Tensor, "batch length d"],
    labels: Int[Tensor, "batch length"],
    output: nn.Module,
    label_smoothing: float = 0.0,
) -> Tensor:
    """The vocabulary loss at the real positions of a batch; `real` is their mask and their number.

    The number is given so that a GPU need not be waited for to count them.
    """
    mask, count = real
    places = torch.nonzero_static(mask.flatten(), size=count).squeeze(1)
    at_places = hidden.flatten(0, 1).index_select(0, places), labels.flatten().index_select(0, places)
    return vocabulary_loss(at_places[0], output, at_places[1], label_smoothing)
