"""The loss of labels."""

from __future__ import annotations

from torch import Tensor
from torch.nn.functional import binary_cross_entropy_with_logits, cross_entropy


def label_loss(
    logits: Tensor, labels: Tensor, sigmoid: bool, smoothing: float = 0.0, weights: Tensor | None = None
) -> Tensor:
    """Sum over the examples of the cross-entropy in nats, summed over all labels if there are several.

    Args:
        logits: `(batch, num_outputs)`.
        labels: `(batch,)` label numbers; or `(batch, num_labels)` zeros and ones for several labels, or, for one label,
            the share of each label in a mixed example.
        sigmoid: Each output is a separate decision; two classes need one output.
        smoothing: Probability spread over all labels.
        weights: `(num_labels,)`, how much an example of each class counts.
    """
    logits = logits.float()
    if not sigmoid:
        return cross_entropy(logits, labels, weight=weights, reduction="sum", label_smoothing=smoothing)
    if labels.dim() > 1 and logits.shape[1] > 1:
        target = labels * (1 - smoothing) + smoothing / 2
        return binary_cross_entropy_with_logits(logits, target, pos_weight=weights, reduction="sum")
    if labels.dim() > 1:  # the mean of both classes' losses, each by its share
        target = labels[:, 1] * (1 - smoothing) + smoothing / 2
        each = None if weights is None else labels @ weights
    else:
        target = labels.to(logits.dtype) * (1 - smoothing) + smoothing / 2
        each = None if weights is None else weights[labels]
    return binary_cross_entropy_with_logits(logits[:, 0], target, weight=each, reduction="sum")
