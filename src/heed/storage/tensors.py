"""Files of tensors."""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path

import torch
from safetensors import SafetensorError, safe_open
from safetensors.torch import save_file
from torch import Tensor

from heed.errors import RunError


def save_tensors(tensors: Mapping[str, Tensor], path: Path, metadata: dict[str, str] | None = None) -> None:
    """Write tensors as safetensors, with the usual permissions of a new file (the library's are for the owner only)."""
    path.touch()
    mode = path.stat().st_mode
    save_file(dict(tensors), str(path), metadata)
    with suppress(PermissionError):  # a file system without permissions
        path.chmod(mode)


def why_unusable(path: Path) -> str:
    """The problem with a file of tensors whose checksum is right; empty if all its numbers are finite."""
    try:
        with safe_open(str(path), "pt") as file:
            for name in file.keys():
                check_finite(file.get_tensor(name), name, "not usable")
    except RunError as error:
        return str(error)
    except SafetensorError as error:
        return f"not usable: {error}"
    return ""


def check_finite(tensor: Tensor, name: str, where: str) -> None:
    """Refuse a tensor that contains a NaN or an infinite number.

    Raises:
        RunError: It does; the message names the tensor and the count of such numbers.
    """
    if not tensor.is_floating_point():
        return
    # A sum is finite only if every summand is, and takes a fortieth of the time of checking each.
    wide = torch.promote_types(tensor.dtype, torch.float32)
    if bool(torch.isfinite(tensor.sum(dtype=wide))):
        return
    bad = int((~torch.isfinite(tensor)).sum())
    if bad:
        raise RunError(
            f"{where}: {bad:,} of the {tensor.numel():,} numbers of tensor '{name}' are not finite (NaN or infinity); "
            "a model cannot be used with them"
        )
