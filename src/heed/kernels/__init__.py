"""Products and memory that every layer, the loss and the decoders compute with: what a processor does fastest."""

from heed.kernels.linear import Linear, linear, outer
from heed.kernels.memory import large_empty

__all__ = ["Linear", "large_empty", "linear", "outer"]
