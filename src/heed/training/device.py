"""Device, precision, compilation and memory of training: advice when it runs out, and two ways to need less of it.

Activation checkpointing keeps only the input of each block; its inside is recomputed in the backward pass.

    memory = inputs of all blocks + the inside of one, instead of the inside of all

Random state is restored for the second computation, so that dropout's masks, and with them all gradients, are the same.
Models without blocks refuse the field, as does `training.guided_attention`, which looks into every block.

Micro-batches: the parts of a batch are computed one by one, with the activations of only one in memory.

    memory of activations = bytes that autograd keeps of the batch / micro-batches

Dropout drops different elements than with the whole batch. Refused for models with batch normalisation, whose gradient
it would change. The first lines of a run give the number of micro-batches. The checkpoint stores it, since dropout's
draws depend on it.

Source: Chen et al. 2016, Training Deep Nets with Sublinear Memory Cost, arXiv:1604.06174.
"""

from __future__ import annotations

import contextlib
import importlib.util
import math
import os
import resource
import shutil
import sys
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn.modules.batchnorm import _BatchNorm

from heed.attention import watch
from heed.config import TrainingConfig
from heed.errors import ConfigError
from heed.layers.transformer import Recomputable
from heed.memory import memory_explained
from heed.training.processes import Processes

LOWER_VALIDATION = (
    "lower training.batch_tokens (validation batches follow it too), leave out the longest validation examples, or "
    "choose a smaller model"
)
"""Advice for running out of memory in a validation."""


def choose_device(name: str, field: str = "training.device") -> torch.device:
    """The device meant by "auto", "cpu", "cuda", "cuda:1" or "mps"; `field` is its name in messages.

    Raises:
        ConfigError: This machine has no such device; the message lists its devices.
    """
    if name == "auto":
        if torch.cuda.is_available():
            return torch.device("cuda")
        return torch.device("mps" if torch.backends.mps.is_available() else "cpu")
    try:
        device = torch.device(name)
    except RuntimeError:
        raise ConfigError(f"{field} is '{name}'; valid: auto, cpu, cuda, cuda:N, mps") from None
    available = {"cpu": 1, "cuda": torch.cuda.device_count(), "mps": int(torch.backends.mps.is_available())}
    count = available.get(device.type, 0)
    if (device.index or 0) >= count:
        have = ", ".join(f"{kind} ({n})" for kind, n in available.items() if n)
        raise ConfigError(f"{field} is '{name}', but this machine has only {have}")
    return device


def device_of(config: TrainingConfig, processes: Processes) -> torch.device:
    """The device of this process; also makes the settings of torch that hold for the whole process.

    Raises:
        ConfigError: This machine has no such device.
    """
    if config.deterministic:
        # cuBLAS repeats its sums only with a workspace of fixed size; read when CUDA starts.
        os.environ.setdefault("CUBLAS_WORKSPACE_CONFIG", ":4096:8")
        torch.use_deterministic_algorithms(True)
    torch.set_float32_matmul_precision(config.float32)
    return choose_device(config.device) if processes.count == 1 else processes.device


def choose_precision(name: str, device: torch.device) -> str:
    """Name the precision, bf16 or float32; auto is bf16 on a GPU that supports it.

    On a CPU it is float32 until updates in both have been timed: see `may_choose_precision`.
    """
    if name != "auto":
        return name
    return "bf16" if device.type == "cuda" and torch.cuda.is_bf16_supported() else "float32"


def may_choose_precision(config: TrainingConfig, device: torch.device, processes: Processes) -> bool:
    """True if the faster precision is to be chosen by timing updates: on a CPU with units for bf16 products.

    Only under a time budget, since a run with a given number of updates repeats bit for bit.
    """
    is_free = config.precision == "auto" and config.steps is None and processes.count == 1
    return is_free and device.type == "cpu" and has_bf16_products()


def has_bf16_products() -> bool:
    """Whether this processor multiplies bf16 matrices by instructions of its own (AVX-512 BF16 or AMX)."""
    capable = torch.cpu.get_capabilities()
    return bool(capable.get("avx512_bf16") or capable.get("amx_bf16"))


def autocast(precision: str, device: torch.device) -> AbstractContextManager[object]:
    """The context in which the forward pass runs."""
    return torch.autocast(device.type, dtype=torch.bfloat16) if precision == "bf16" else contextlib.nullcontext()


def predicting(precision: str, device: torch.device) -> AbstractContextManager[object]:
    """The context of prediction: that of training on a GPU; float32 elsewhere, where few examples gain nothing."""
    return autocast(precision, device) if device.type == "cuda" else contextlib.nullcontext()


def scoring(precision: str, device: torch.device) -> AbstractContextManager[object]:
    """The context of validation and scores: that of training, on a CPU if it multiplies bf16."""
    is_narrow = device.type == "cpu" and precision == "bf16" and has_bf16_products()
    return autocast(precision, device) if is_narrow else predicting(precision, device)


def step_explained(when: str, micro_batches: int) -> AbstractContextManager[None]:
    """Context manager that adds advice to the error if memory runs out in a training step.

    Raises:
        OutOfMemoryError: Memory ran out.
    """
    return memory_explained(when, lower_step(micro_batches))


def lower_step(micro_batches: int) -> str:
    """Advice on how to reduce the memory of a training step."""
    return (
        f"raise training.micro_batches (now {micro_batches}; the gradient stays the same), lower "
        "training.batch_tokens, or choose a smaller model"
    )


def peak_memory(device: torch.device | None = None) -> int:
    """Peak memory of this process in bytes; on a GPU, of its tensors."""
    if device is not None and device.type == "cuda":
        return torch.cuda.max_memory_allocated(device)
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * (1 if sys.platform == "darwin" else 1024)


_COMPILERS = ("g++", "clang++", "c++")


def check_compiler(device: torch.device) -> None:
    """Check that the compiler that torch needs is installed.

    Raises:
        ConfigError: It is not; the message says what is missing.
    """
    if device.type == "cuda":
        if importlib.util.find_spec("triton") is None:
            raise ConfigError(
                "training.compile is true, but the package triton is not installed; set training.compile to false"
            )
    elif not any(shutil.which(name) for name in (os.environ.get("CXX", ""), *_COMPILERS) if name):
        raise ConfigError(
            f"training.compile is true, but no C++ compiler was found ({', '.join(_COMPILERS)}, or the variable CXX); "
            "install one, or set training.compile to false"
        )


@contextmanager
def compiled(model: nn.Module, same_shapes: bool = False) -> Iterator[None]:
    """Context manager that compiles the model for training mode; its weights keep their names.

    Unless all batches have the same shape, shapes are dynamic from the start: a new length causes no recompilation.
    """
    plain = model.forward
    fast = torch.compile(plain, dynamic=None if same_shapes else True)

    def forward(*args: Any, **kwargs: Any) -> Any:
        return (fast if model.training and watch.observer.current is None else plain)(*args, **kwargs)

    model.forward = forward
    try:
        yield
    finally:
        del model.forward  # the instance's, not the class's


def recompute_blocks(model: nn.Module, name: str) -> None:
    """Recompute every block of a model in the backward pass.

    Raises:
        ConfigError: The model has no blocks.
    """
    if not (blocks := _blocks(model)):
        raise ConfigError(
            f"training.activation_checkpointing is true, but model '{name}' has no Transformer blocks to recompute "
            "(transformer, encoder, bert, gpt and vit have them); set it to false"
        )
    for block in blocks:
        block.recomputed = True


def recomputed_blocks(model: nn.Module) -> list[Recomputable]:
    """The blocks that are recomputed, except those of `without_recomputation`."""
    return [block for block in _blocks(model) if block.recomputed and not block.is_paused]


def _blocks(model: nn.Module) -> list[Recomputable]:
    return [module for module in model.modules() if isinstance(module, Recomputable)]


@contextmanager
def without_recomputation(blocks: list[Recomputable]) -> Iterator[None]:
    """Context manager within which these blocks are not recomputed."""
    for block in blocks:
        block.is_paused = True
    try:
        yield
    finally:
        for block in blocks:
            block.is_paused = False


_SAVED = 100 * 2**20
"""Bytes saved for the backward pass above which a batch is divided on a CPU."""
_SAVED_SHARE = 0.25
"""The same as a share of the bytes of all gradients, if that is more: each part reads and adds to them once."""
_ROOM = 0.7
"""Share of a GPU's free memory for activations and gradients; the rest is for kernels, validation and fragments."""


def divided(indices: list[int], count: int) -> list[list[int]]:
    """Split the examples of a batch into `count` lists of about the same length, or fewer if examples are fewer."""
    count = min(count, len(indices))
    return [indices[i * len(indices) // count : (i + 1) * len(indices) // count] for i in range(count)]


def normalises_batches(model: nn.Module) -> bool:
    """True with batch normalisation: the gradients of the parts of a batch do not add up to that of the batch."""
    return any(isinstance(module, _BatchNorm) for module in model.modules())


def check_micro_batches(model: nn.Module, name: str, count: int | None) -> None:
    """Refuse micro-batches for a model whose gradient they would change.

    Raises:
        ConfigError: The model has batch normalisation; the message says what to do instead.
    """
    if (count or 1) > 1 and normalises_batches(model):
        raise ConfigError(
            f"training.micro_batches={count}: model '{name}' normalises by the mean and deviation of each batch, "
            "so micro-batches would change the gradient; remove the field and set a smaller batch size"
        )


def micro_batches_for(model: nn.Module, device: torch.device, saved: float) -> int:
    """Default number of micro-batches of a batch of which `saved` bytes stay for the backward pass.

    On a GPU, where fewer rows are slower, as few as fit. Elsewhere 1 for a recurrent model (each part would need as
    many steps as the whole). 1 with batch normalisation.
    """
    if normalises_batches(model):
        return 1
    gradients = 4 * sum(p.numel() for p in model.parameters() if p.requires_grad)
    if device.type == "cuda":
        torch.cuda.empty_cache()  # what earlier steps have left is free
        room = _ROOM * torch.cuda.mem_get_info(device)[0] - gradients
        return max(1, math.ceil(saved / max(1.0, room)))
    most = max(_SAVED, _SAVED_SHARE * gradients)
    return max(1, math.ceil(saved / most)) if _blocks(model) and device.type == "cpu" else 1


_OF_PARAMETERS = ("ToCopyBackward0", "TBackward0", "TransposeBackward0")


def _is_of_parameter(node: Any) -> bool:
    """Whether a tensor with this node of the graph is a parameter, cast or transposed."""
    while node is not None and node.name() in _OF_PARAMETERS:
        node = node.next_functions[0][0]
    return isinstance(getattr(node, "variable", None), nn.Parameter)


def saved_bytes(model: nn.Module, run: Callable[[], object]) -> int:
    """Bytes that autograd saves of a forward pass, each storage counted once.

    Parameters, also as autocast has cast them, are left out; the inputs of recomputed blocks are counted.
    """
    sizes: dict[int, int] = {}  # by address

    def save(tensor: Tensor) -> Tensor:
        if _is_of_parameter(tensor.grad_fn):
            return tensor
        storage = tensor.untyped_storage()
        sizes[storage.data_ptr()] = storage.nbytes()
        return tensor

    def enter(block: nn.Module, inputs: tuple[Tensor, ...]) -> None:
        save(inputs[0])

    parameters = {p.untyped_storage().data_ptr() for p in model.parameters()}
    handles = [block.register_forward_pre_hook(enter) for block in recomputed_blocks(model)]
    with torch.autograd.graph.saved_tensors_hooks(save, lambda tensor: tensor):
        run()
    for handle in handles:
        handle.remove()
    return sum(size for address, size in sizes.items() if address not in parameters)
