"""Dropout, alone or after the activation of a feed-forward network."""

import torch
from torch import Tensor, nn
from torch.nn.functional import dropout, relu

from heed.kernels import byte_dropout, relu_dropout
from heed.layers.activations import RELU, Activation
from heed.shapes import Float


class Dropout(nn.Module):
    """Zero each element with probability p in training, and scale up the others so that the mean is unchanged.

    On a CPU one random byte decides for each element (`heed.kernels.dropout`), so the probability is rounded to a
    multiple of 1/256. Other devices use torch's dropout.

    Source: Srivastava et al. 2014, Dropout, JMLR 15.
    """

    def __init__(self, p: float) -> None:
        super().__init__()
        self.p = p

    def forward(self, x: Float[Tensor, "*shape"]) -> Float[Tensor, "*shape"]:
        """`x` with elements dropped in training, otherwise `x` itself."""
        if not self.training or self.p == 0:
            return x
        return byte_dropout(x, self.p) if x.device.type == "cpu" else dropout(x, self.p)

    def after(self, activation: Activation, x: Float[Tensor, "*shape d"]) -> Float[Tensor, "*shape d_out"]:
        """`self(activation(x))`; after a relu in training on a CPU, only the result is kept for the backward pass.

        Without a gradient a relu overwrites x, because allocating another tensor takes longer than the relu itself.
        """
        if activation != RELU:  # not `is not`: models are copied
            return self(activation.function(x))  # type: ignore[no-any-return]
        if self.training and self.p > 0 and x.device.type == "cpu":
            return relu_dropout(x, self.p)
        return self(relu(x, inplace=not torch.is_grad_enabled()))  # type: ignore[no-any-return]

    def extra_repr(self) -> str:
        """The probability, for `print(model)`."""
        return f"p={self.p}"
