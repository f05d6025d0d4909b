"""Dropout, and what stands before it in a feed-forward net."""

import torch
from torch import Tensor, nn
from torch.nn.functional import dropout, relu

from heed.kernels import byte_dropout, relu_dropout
from heed.layers.activations import RELU, Activation
from heed.shapes import Float


class Dropout(nn.Module):
    """Zero each element with a probability in training and scale the others up, so that the mean stays.

    On a CPU masks are drawn by bytes (`heed.kernels.dropout`), so that the probability is a multiple of 1/256.
    Elsewhere torch's own dropout.

    Source: Srivastava et al. 2014, Dropout, JMLR 15.
    """

    def __init__(self, p: float) -> None:
        super().__init__()
        self.p = p

    def forward(self, x: Float[Tensor, "*shape"]) -> Float[Tensor, "*shape"]:
        """`x` with elements dropped in training, `x` itself otherwise."""
        if not self.training or self.p == 0:
            return x
        return byte_dropout(x, self.p) if x.device.type == "cpu" else dropout(x, self.p)

    def after(self, activation: Activation, x: Float[Tensor, "*shape d"]) -> Float[Tensor, "*shape d_out"]:
        """`self(activation(x))`; behind a relu in training on a CPU only the result is kept for the backward pass.

        Without a gradient a relu overwrites x: fresh memory for as much takes longer than the relu.
        """
        if activation != RELU:  # not by identity: models are copied
            return self(activation.function(x))  # type: ignore[no-any-return]
        if self.training and self.p > 0 and x.device.type == "cpu":
            return relu_dropout(x, self.p)
        return self(relu(x, inplace=not torch.is_grad_enabled()))  # type: ignore[no-any-return]

    def extra_repr(self) -> str:
        """What `print(model)` shows."""
        return f"p={self.p}"
