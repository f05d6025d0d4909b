"""Layer normalisation."""

from torch import Tensor, nn

from heed.kernels import layer_norm
from heed.shapes import Float


class LayerNorm(nn.LayerNorm):
    """torch's layer normalisation over the last axis; in training on a CPU its input is not kept."""

    def forward(self, input: Float[Tensor, "*shape d"]) -> Float[Tensor, "*shape d"]:
        """`(x - mean) / sqrt(variance + eps) * weight + bias`."""
        return layer_norm(input, self.weight, self.bias, self.eps)
