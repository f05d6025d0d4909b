"""Files of tensors: writing, reading and averaging the weights of a model."""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path

import torch
from safetensors import SafetensorError, safe_open
from safetensors.torch import load_file, save_file
from torch import Tensor, nn

from heed.errors import RunError
from heed.memory import is_memory_error
from heed.storage.files import check_regular, damaged


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


def save_weights(model: nn.Module, path: Path) -> None:
    """Write a model's weights; tensors that share storage (tied embeddings) are written once."""
    save_tensors(unshared(model.state_dict()), path)


def load_weights(model: nn.Module, path: Path) -> None:
    """Read a model's weights.

    Raises:
        RunError: The file is missing, not a regular file, damaged, or of another model; the message names the first
            tensor that differs.
    """
    apply_weights(model, read_tensors(path), str(path))


def read_tensors(path: Path) -> dict[str, Tensor]:
    """Read the tensors of a regular file; opening a pipe would block forever.

    Raises:
        RunError: The file is missing, not a regular file, or damaged.
    """
    check_regular(path)
    try:
        return load_file(str(path))  # type: ignore[no-any-return,unused-ignore]
    except Exception as error:
        if is_memory_error(error):
            raise
        raise damaged(path, str(error)) from None


def apply_weights(model: nn.Module, weights: dict[str, Tensor], where: str) -> None:
    """Copy weights into a model; tied tensors may be stored under any of their names.

    Raises:
        RunError: The weights are of another model, or not all are finite; the message names the tensor.
    """
    state = model.state_dict()
    values = matched(state, weights, where)
    with torch.no_grad():
        for name, tensor in unshared(state).items():
            tensor.copy_(values[name])


def matched(state: dict[str, Tensor], weights: dict[str, Tensor], where: str) -> dict[str, Tensor]:
    """The stored tensor for each name of a model's state dict; names of one tied tensor share one.

    Raises:
        RunError: As of `apply_weights`.
    """
    stored = unshared(state)
    first = {tensor.data_ptr(): name for name, tensor in stored.items() if tensor.numel()}
    first_of = {name: first.get(tensor.data_ptr(), name) for name, tensor in state.items()}
    for name in state.keys() & weights.keys() - stored.keys():
        if first_of[name] not in weights:
            weights = {first_of[name] if key == name else key: tensor for key, tensor in weights.items()}
    for name in sorted(set(stored) | set(weights)):
        if name not in weights or name not in stored:
            side = "lacks" if name not in weights else "has an unknown"
            raise RunError(f"{where} {side} tensor '{name}': it belongs to another model or version")
        if weights[name].shape != stored[name].shape:
            raise RunError(
                f"{where}: tensor '{name}' has shape {tuple(weights[name].shape)}, "
                f"the model's has {tuple(stored[name].shape)}"
            )
        check_finite(weights[name], name, where)
    return {name: weights[first_of[name]] for name in state}


def unshared(state: dict[str, Tensor]) -> dict[str, Tensor]:
    """The tensors of a state dict, each storage only once, under its first name."""
    first = {t.data_ptr(): name for name, t in reversed(state.items())}
    stored = ((name, t) for name, t in state.items() if first[t.data_ptr()] == name or t.numel() == 0)
    return {name: t.detach().contiguous() for name, t in stored}


def average_weights(paths: list[Path]) -> dict[str, Tensor]:
    """The mean of several weight files, tensor by tensor, summed in float64.

    Source: Vaswani et al. 2017 (arXiv:1706.03762), section 6.1, average the last checkpoints.
    """
    files = [read_tensors(path) for path in paths]
    return {
        name: torch.stack([f[name].double() for f in files]).mean(0).to(tensor.dtype)
        for name, tensor in files[0].items()
    }
