"""The loss over a vocabulary."""

from __future__ import annotations

import torch
from torch import Tensor, nn

from heed.kernels import Linear, enabled, linear_cross_entropy
from heed.shapes import Bool, Float, Int

PIECE_BYTES = 2**23
"""Bytes of logits in one piece on a CPU: the fastest of 1 to 32 MiB that still needs little memory."""
_FEWEST = 256
"""Positions of a piece on a CPU, however large the vocabulary: adding a gradient takes as long for one as for many."""
_BYTES_ELSEWHERE = 2**31
"""Bytes of float32 logits in one piece on a GPU, 10,672 positions of 50,304 tokens."""
_MULTIPLE = 16
"""The number of positions of a piece is a multiple of this: products with other numbers of rows copy the logits."""


def piece_positions(vocab_size: int, device: str) -> int:
    """Number of positions whose logits exist at a time, on a type of device."""
    fewest, size = (_FEWEST, PIECE_BYTES) if device == "cpu" else (_MULTIPLE, _BYTES_ELSEWHERE)
    return max(fewest, size // (4 * vocab_size) // _MULTIPLE * _MULTIPLE)


def vocabulary_loss(
    hidden: Tensor, output: nn.Module, targets: Tensor, label_smoothing: float = 0.0, piece: int | None = None
) -> Tensor:
    """Sum over positions of the cross-entropy of the true token.

    `(1 - e) * (-log p[target]) + e * mean over the vocabulary of (-log p)`, e the label smoothing. With a linear output
    layer it is computed piece by piece, its gradient in the same pass, so that the logits of all positions never exist
    together.

    Args:
        hidden: `(positions, d)`, only positions that count (no padding).
        output: The layer from hidden states to logits.
        targets: `(positions,)`, the true tokens.
        label_smoothing: e above, 0 for none (Szegedy et al. 2016, arXiv:1512.00567, section 7).
        piece: Positions of a piece; by default as many as are fast on the device.

    Returns:
        The sum (not the mean) in nats, float32.
    """
    if not (enabled() and isinstance(output, nn.Linear) and type(output) in (nn.Linear, Linear)):
        logits = output(hidden).float()
        return nn.functional.cross_entropy(logits, targets, label_smoothing=label_smoothing, reduction="sum")
    piece = piece or piece_positions(output.out_features, hidden.device.type)
    return linear_cross_entropy(hidden, output.weight, output.bias, targets, label_smoothing, piece)


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
