"""Writing, reading and averaging the weights of a model."""

from __future__ import annotations

from pathlib import Path

import torch
from safetensors.torch import load_file
from torch import Tensor, nn

from heed.errors import RunError
from heed.storage.files import check_regular
from heed.storage.tensors import check_finite, save_tensors


def save_weights(model: nn.Module, path: Path) -> None:
    """Write a model's weights; tensors that share storage (tied embeddings) are written once."""
    save_tensors(unshared(model.state_dict()), path)


def load_weights(model: nn.Module, path: Path) -> None:
    """Read a model's weights.

    Raises:
        RunError: The file is missing, not a regular file, damaged, or of another model; the message names the first
            tensor that differs.
    """
    try:
        weights = read_tensors(path)
    except RunError:
        raise
    except Exception as error:
        raise RunError(f"{path} is damaged: {error}") from None
    apply_weights(model, weights, str(path))


def read_tensors(path: Path) -> dict[str, Tensor]:
    """Read the tensors of a regular file; opening a pipe would block forever."""
    check_regular(path)
    return load_file(str(path))  # type: ignore[no-any-return,unused-ignore]


def apply_weights(model: nn.Module, weights: dict[str, Tensor], where: str) -> None:
    """Copy weights into a model; tied tensors may be stored under any of their names.

    Raises:
        RunError: The weights are of another model, or not all are finite; the message names the tensor.
    """
    own = model.state_dict()
    stored = unshared(own)
    first = {tensor.data_ptr(): name for name, tensor in stored.items() if tensor.numel()}
    for name in own.keys() & weights.keys() - stored.keys():
        if (tied := first.get(own[name].data_ptr(), name)) not in weights:
            weights = {tied if key == name else key: tensor for key, tensor in weights.items()}
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
    with torch.no_grad():
        for name, tensor in stored.items():
            tensor.copy_(weights[name])


def unshared(state: dict[str, Tensor]) -> dict[str, Tensor]:
    """The tensors of a state dict, each storage only once, under its first name."""
    seen: set[int] = set()
    result = {}
    for name, tensor in state.items():
        if tensor.data_ptr() not in seen or tensor.numel() == 0:
            seen.add(tensor.data_ptr())
            result[name] = tensor.detach().contiguous()
    return result


def average_weights(paths: list[Path]) -> dict[str, Tensor]:
    """The mean of several weight files, tensor by tensor, summed in float64.

    Source: Vaswani et al. 2017 (arXiv:1706.03762), section 6.1, average the last checkpoints.
    """
    files = [read_tensors(path) for path in paths]
    return {
        name: torch.stack([f[name].double() for f in files]).mean(0).to(tensor.dtype)
        for name, tensor in files[0].items()
    }
