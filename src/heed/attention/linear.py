"""Linear layers that use what the processor has, where nobody differentiates."""

from __future__ import annotations

import platform
from functools import cache
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn

from heed.shapes import Float

__all__ = ["Linear", "linear"]

_ENOUGH = 1_500_000
"""Multiplications from which on the other library's longer call pays."""


@cache
def _onednn() -> Any:
    """The linear layer of oneDNN where it is faster than MKL's, which torch takes by default; else None.

    MKL runs its AVX2 code on processors that are not Intel's. On one with AVX-512 (Zen 5) it reaches 107 GFLOP/s a core
    and oneDNN, which torch has as well, 233 (docs/performance.md).
    """
    capable = torch.backends.cpu.get_cpu_capability().startswith("AVX512")
    if not (capable and torch.backends.mkl.is_available() and torch.backends.mkldnn.is_available()):
        return None
    information = Path("/proc/cpuinfo")
    told = information.read_text(errors="replace") if information.is_file() else platform.processor()
    return None if "GenuineIntel" in told else getattr(torch.ops.mkldnn, "_linear_pointwise", None)


def linear(
    x: Float[Tensor, "*shape d_in"], weight: Float[Tensor, "d_out d_in"], bias: Float[Tensor, " d_out"] | None
) -> Float[Tensor, "*shape d_out"]:
    """`x weight' + bias`, as `torch.nn.functional.linear`; large products without a gradient by the faster library."""
    if (
        x.numel() * len(weight) >= _ENOUGH
        and not torch.is_grad_enabled()
        and x.device.type == "cpu"
        and x.dtype == weight.dtype == torch.float32
        and not torch.is_autocast_enabled("cpu")
        and (faster := _onednn()) is not None
    ):
        return faster(x, weight, bias, "none", [], "")  # type: ignore[no-any-return]
    return nn.functional.linear(x, weight, bias)


class Linear(nn.Linear):
    """torch's linear layer, computed by `linear`."""

    def forward(self, input: Float[Tensor, "*shape d_in"]) -> Float[Tensor, "*shape d_out"]:
        """`input weight' + bias`."""
        return linear(input, self.weight, self.bias)
