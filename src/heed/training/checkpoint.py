"""Checkpoints: weights, optimiser, random state and place in the data, in safetensors and JSON, never pickle."""

from __future__ import annotations

import json
import os
import shutil
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

import torch
from safetensors.torch import load_file, save_file
from torch import Tensor, nn

from heed.errors import RunError

__all__ = [
    "Checkpoint",
    "Progress",
    "average_weights",
    "latest_checkpoint",
    "load_checkpoint",
    "load_weights",
    "remove_checkpoint",
    "save_checkpoint",
    "save_weights",
]

FORMAT = 1


@dataclass
class Progress:
    """Everything but tensors that a run needs to go on.

    Attributes:
        step: Updates done.
        epoch: Pass over the data.
        batch: Batches of this pass already used.
        total_steps: Updates of the whole run; None until decided.
        validate_every: Updates between validations; None until decided.
        threads: Processor threads, so that a resumed run repeats the same sums.
        seconds: Time spent so far.
        best_step: Step of the best validation; 0 for none.
        best_rank: Its score and minus its loss, compared in this order.
        bad: Validations since the best one.
        kept: Steps whose weights are on disk.
    """

    step: int = 0
    epoch: int = 0
    batch: int = 0
    total_steps: int | None = None
    validate_every: int | None = None
    threads: int = 1
    seconds: float = 0.0
    best_step: int = 0
    best_rank: list[float] = field(default_factory=list)
    bad: int = 0
    kept: list[int] = field(default_factory=list)


@dataclass
class Checkpoint:
    """A checkpoint as read from disk."""

    weights: dict[str, Tensor]
    optimizer: dict[str, Tensor]
    random: dict[str, Tensor]
    progress: Progress


def save_weights(model: nn.Module, path: Path) -> None:
    """Write a model's weights; tensors that are one (tied embeddings) are written once."""
    save_file(_unshared(model.state_dict()), str(path))


def load_weights(model: nn.Module, path: Path) -> None:
    """Read a model's weights.

    Raises:
        RunError: The file is missing, damaged, or of another model; the message names the first tensor that differs.
    """
    if not path.is_file():
        raise RunError(f"{path} is missing")
    try:
        weights = load_file(str(path))
    except Exception as error:
        raise RunError(f"{path} is damaged: {error}") from None
    apply_weights(model, weights, str(path))


def apply_weights(model: nn.Module, weights: dict[str, Tensor], where: str) -> None:
    """Copy weights into a model; tied tensors, stored once, reach every name."""
    own = model.state_dict()
    stored = _unshared(own)
    for name in sorted(set(stored) | set(weights)):
        if name not in weights or name not in stored:
            side = "lacks" if name not in weights else "has an unknown"
            raise RunError(f"{where} {side} tensor '{name}': it belongs to another model or version")
        if weights[name].shape != stored[name].shape:
            raise RunError(
                f"{where}: tensor '{name}' has shape {tuple(weights[name].shape)}, "
                f"the model's has {tuple(stored[name].shape)}"
            )
    with torch.no_grad():
        for name, tensor in stored.items():
            tensor.copy_(weights[name])


def _unshared(state: dict[str, Tensor]) -> dict[str, Tensor]:
    """The tensors of a state dict, each storage once, under its first name."""
    seen: set[int] = set()
    result = {}
    for name, tensor in state.items():
        if tensor.data_ptr() not in seen or tensor.numel() == 0:
            seen.add(tensor.data_ptr())
            result[name] = tensor.detach().contiguous()
    return result


def save_checkpoint(folder: Path, model: nn.Module, optimizer: torch.optim.Optimizer, progress: Progress) -> Path:
    """Write `folder/step-N`: first under a temporary name, renamed when whole.

    Returns:
        The checkpoint's folder.
    """
    final = folder / f"step-{progress.step}"
    part = folder / f".step-{progress.step}.part"
    shutil.rmtree(part, ignore_errors=True)
    part.mkdir(parents=True)
    save_weights(model, part / "model.safetensors")
    save_file(_optimizer_tensors(optimizer), str(part / "optimizer.safetensors"))
    save_file(_random_state(), str(part / "random.safetensors"))
    (part / "progress.json").write_text(json.dumps({"format": FORMAT, **asdict(progress)}, indent=1))
    shutil.rmtree(final, ignore_errors=True)
    os.replace(part, final)
    return final


def load_checkpoint(path: Path) -> Checkpoint:
    """Read a checkpoint.

    Raises:
        RunError: It is damaged or of another format.
    """
    try:
        values: dict[str, Any] = json.loads((path / "progress.json").read_text())
        number = values.pop("format")
        if number != FORMAT:
            raise RunError(f"{path} has checkpoint format {number}; this heed reads format {FORMAT}")
        return Checkpoint(
            load_file(str(path / "model.safetensors")),
            load_file(str(path / "optimizer.safetensors")),
            load_file(str(path / "random.safetensors")),
            Progress(**values),
        )
    except RunError:
        raise
    except Exception as error:
        raise RunError(f"checkpoint {path} is damaged: {error}") from None


def restore(checkpoint: Checkpoint, model: nn.Module, optimizer: torch.optim.Optimizer, where: str) -> Progress:
    """Put model, optimiser and random state back as they were."""
    apply_weights(model, checkpoint.weights, where)
    parameters = [p for group in optimizer.param_groups for p in group["params"]]
    states: dict[int, dict[str, Tensor]] = {}
    for name, tensor in checkpoint.optimizer.items():
        number, _, key = name.partition(".")
        states.setdefault(int(number), {})[key] = tensor
    for index, state in states.items():
        parameter = parameters[index]
        optimizer.state[parameter] = {
            key: value if key == "step" else value.to(parameter.device) for key, value in state.items()
        }
    torch.set_rng_state(checkpoint.random["cpu"])
    if torch.cuda.is_available() and "cuda.0" in checkpoint.random:
        torch.cuda.set_rng_state_all([checkpoint.random[k] for k in sorted(checkpoint.random) if k != "cpu"])
    return checkpoint.progress


def latest_checkpoint(folder: Path) -> Path | None:
    """The checkpoint with the largest step that holds an optimiser, or None."""
    found = [p for p in folder.glob("step-*") if (p / "progress.json").is_file()]
    return max(found, key=lambda p: int(p.name.removeprefix("step-")), default=None)


def remove_checkpoint(folder: Path, step: int, keep_weights: bool) -> None:
    """Delete a checkpoint, or all of it but the weights."""
    path = folder / f"step-{step}"
    if not keep_weights:
        shutil.rmtree(path, ignore_errors=True)
        return
    for name in ("progress.json", "optimizer.safetensors", "random.safetensors"):
        (path / name).unlink(missing_ok=True)


def average_weights(paths: list[Path]) -> dict[str, Tensor]:
    """The mean of several weight files, tensor by tensor, summed in float64.

    Source: Vaswani et al. 2017 (arXiv:1706.03762), section 6.1, average the last checkpoints.
    """
    files = [load_file(str(path)) for path in paths]
    return {
        name: torch.stack([f[name].double() for f in files]).mean(0).to(tensor.dtype)
        for name, tensor in files[0].items()
    }


def _optimizer_tensors(optimizer: torch.optim.Optimizer) -> dict[str, Tensor]:
    parameters = [p for group in optimizer.param_groups for p in group["params"]]
    return {
        f"{index}.{key}": value.detach().contiguous().clone()
        for index, parameter in enumerate(parameters)
        for key, value in optimizer.state.get(parameter, {}).items()
        if isinstance(value, Tensor)
    }


def _random_state() -> dict[str, Tensor]:
    state = {"cpu": torch.get_rng_state()}
    if torch.cuda.is_available():
        for index, tensor in enumerate(torch.cuda.get_rng_state_all()):
            state[f"cuda.{index}"] = tensor
    return state
