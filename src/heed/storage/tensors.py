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
    """Write tensors as safetensors, with the permissions that any new file gets: by itself it lets nobody else read."""
    path.touch()
    mode = path.stat().st_mode
    save_file(dict(tensors), str(path), metadata)
    with suppress(PermissionError):  # a file system without permissions
        path.chmod(mode)


def why_unusable(path: Path) -> str:
    """What is wrong with a file of tensors that is as it was written; empty where all its numbers are finite."""
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
    """Refuse a tensor with a NaN or an infinite number in it.

    Raises:
        RunError: It names the tensor and how many of its numbers are not finite.
    """
    if not tensor.is_floating_point():
        return
    # A sum is finite only where every summand is, and takes a fortieth of the time of asking for each.
    wide = torch.promote_types(tensor.dtype, torch.float32)
    if bool(torch.isfinite(tensor.sum(dtype=wide))):
        return
    bad = int((~torch.isfinite(tensor)).sum())
    if bad:
        raise RunError(
            f"{where}: {bad:,} of the {tensor.numel():,} numbers of tensor '{name}' are not finite (NaN or infinity); "
            "no model can be used with them"
        )
