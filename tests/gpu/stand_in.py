"""A stand-in for a GPU: torch's device "cuda" in memory of the CPU, to find what fails on a GPU.

    PYTHONPATH=tests/gpu python -m pytest -p stand_in tests/gpu    # make gpu-stand-in

A tensor on it is a wrapper (`OnGPU`) around a CPU tensor; every operation runs on the CPU. It refuses what CUDA
refuses: operands on the CPU (except single numbers in pointwise operations and indices), CPU generators, `numpy()`.
Autograd (in a thread of its own, as with CUDA), autocast, pinned memory and `device.type == "cuda"` are torch's own.
Recurrent kernels are cast to float16 under autocast, as cuDNN's are. Not simulated: cuDNN's LSTM, fused attention,
several devices, speed, memory, and where the processor waits.

Must be imported before torch, which asks for CUDA's hooks (cuda_on_cpu.cpp, built once with g++) when it is imported.
"""

from __future__ import annotations

import ctypes
import importlib.metadata
import importlib.util
import os
import subprocess
import sys
from pathlib import Path
from types import SimpleNamespace


def _load() -> None:
    """Build the library where it is missing or of another torch, and load it."""
    assert "torch" not in sys.modules, "import the stand-in before torch"
    source = Path(__file__).resolve().with_name("cuda_on_cpu.cpp")
    folder = source.parents[2] / "build"
    library = folder / f"cuda_on_cpu-{importlib.metadata.version('torch')}.so"
    if not library.exists() or library.stat().st_mtime < source.stat().st_mtime:
        folder.mkdir(exist_ok=True)
        torch_at = Path(importlib.util.find_spec("torch").origin).parent
        lib = str(torch_at / "lib")
        flags = ["-O1", "-w", "-std=c++20", "-shared", "-fPIC", f"-I{torch_at / 'include'}", f"-L{lib}"]
        libs = [f"-Wl,-rpath,{lib}", "-lc10", "-ltorch_cpu"]
        part = library.with_suffix(f".{os.getpid()}")
        subprocess.run(["g++", *flags, str(source), *libs, "-o", str(part)], check=True)
        part.replace(library)
    ctypes.CDLL(str(library))


_load()
import torch  # noqa: E402
from torch import Tensor  # noqa: E402
from torch.utils._pytree import tree_flatten, tree_unflatten  # noqa: E402

GPU, CPU = torch.device("cuda:0"), torch.device("cpu")
_libraries: list[torch.library.Library] = []  # freed, they would undo what they registered
_BY_CPU_INDEX = {"index", "index_put_", "index_put", "_index_put_impl_", "_unsafe_index"}
_CPU_LENGTHS = {"_pack_padded_sequence", "_pad_packed_sequence", "_pack_padded_sequence_backward"}
_SCALARS = {"fill_", "masked_fill", "masked_fill_", "where", "index_put_", "index_put", "_index_put_impl_", "clamp"}


class OnGPU(Tensor):
    """A tensor on the GPU."""

    held: Tensor

    @staticmethod
    def __new__(cls, real: Tensor) -> OnGPU:
        layout = {"strides": real.stride(), "storage_offset": real.storage_offset()}
        with torch.inference_mode(False):  # views of ordinary tensors must be ordinary
            wrapper = Tensor._make_wrapper_subclass(cls, real.size(), **layout, dtype=real.dtype, device=GPU)
        wrapper.held = real
        return wrapper

    __torch_function__ = torch._C._disabled_torch_function_impl

    @classmethod
    def __torch_dispatch__(cls, op, types, args=(), kwargs=None):
        return _run(op, *args, **(kwargs or {}))

    def tolist(self):
        return self.held.tolist()

    def numpy(self, *args, **kwargs):
        raise TypeError("can't convert cuda:0 device type tensor to numpy. Use Tensor.cpu() first.")

    __array__ = numpy

    def data_ptr(self) -> int:
        return self.held.data_ptr()

    def untyped_storage(self):
        return self.held.untyped_storage()

    def pin_memory(self, device=None):
        raise RuntimeError("cannot pin 'torch.cuda.FloatTensor' only dense CPU tensors can be pinned")

    def is_pinned(self, device=None) -> bool:
        return False

    @property
    def data(self):
        return self.detach()

    @data.setter
    def data(self, value):
        assert isinstance(value, OnGPU), "data of another device"
        Tensor.data.__set__(self, value)
        self.held = value.held

    def __deepcopy__(self, memo):
        if id(self) not in memo:
            memo[id(self)] = _restored(self.held.clone(), self.requires_grad, isinstance(self, torch.nn.Parameter))
        return memo[id(self)]

    def __reduce_ex__(self, protocol):
        return _restored, (self.held, self.requires_grad, isinstance(self, torch.nn.Parameter))


def _restored(real: Tensor, requires_grad: bool, is_parameter: bool) -> Tensor:
    made = OnGPU(real)
    return torch.nn.Parameter(made, requires_grad) if is_parameter else made.requires_grad_(requires_grad)


def _run(op, *args, **kwargs):
    """Run an operation on the CPU tensors behind its arguments, or refuse it."""
    name, mine = op.overloadpacket.__name__, {}
    into = kwargs.get("device")
    on_cpu = into is not None and torch.device(into).type == "cpu"
    if name == "copy_":
        return _copy(op, *args, **kwargs)

    def real(x):
        if isinstance(x, OnGPU):
            mine[id(x.held)] = x
            return x.held
        if isinstance(x, Tensor):
            _check(op, name, x, args)
        elif isinstance(x, torch.Generator) and x.device.type == "cpu":
            raise RuntimeError("Expected a 'cuda' device type for generator but found 'cpu'")
        return CPU if isinstance(x, torch.device) else x

    result = op(*_each(real, args), **{key: _each(real, value) for key, value in kwargs.items()})
    if on_cpu:
        return result

    def wrapped(x):
        if not isinstance(x, Tensor):
            return x
        if (old := mine.get(id(x))) is not None:
            if old.shape != x.shape or old.stride() != x.stride():  # torch.arange fills an empty tensor
                Tensor.data.__set__(old, OnGPU(x))
            return old
        return OnGPU(x)

    return _each(wrapped, result)


def _each(change, given):
    """The arguments or results of an operation, which are nested at most in lists and tuples, each changed."""
    if isinstance(given, list | tuple):
        return type(given)(_each(change, one) for one in given)
    return change(given)


def _copy(op, to, source, non_blocking=False):
    op(*(x.held if isinstance(x, OnGPU) else x for x in (to, source)))
    return to


def _check(op, name: str, x: Tensor, args) -> None:
    """Raise what CUDA raises for a CPU tensor among the operands."""
    if x.dim() == 0 and (name in _SCALARS or torch.Tag.pointwise in op.tags):
        return
    if name in _CPU_LENGTHS or (name in _BY_CPU_INDEX and isinstance(args[0], OnGPU) and any(x is i for i in args[1])):
        return
    raise RuntimeError(
        f"Expected all tensors to be on the same device, but found at least two devices, cuda:0 and cpu! ({op}, "
        f"{tuple(x.shape)} on the CPU)"
    )


class _Whole(torch.autograd.Function):
    """A recurrent operation as one kernel, like cuDNN's: torch's own on the CPU, forward and backward."""

    @staticmethod
    def forward(ctx, function, given, spec, *tensors):
        ctx.inputs = [t.held.detach().requires_grad_(n) for t, n in zip(tensors, ctx.needs_input_grad[3:], strict=True)]
        with torch.enable_grad():
            rest = iter(ctx.inputs)
            args = [next(rest) if one is OnGPU else one for one in given]
            out = function(*tree_unflatten(args, spec))
        ctx.outputs = (out,) if isinstance(out, Tensor) else out
        return tuple(OnGPU(one.detach()) for one in ctx.outputs)

    @staticmethod
    def backward(ctx, *slopes):
        wanted = [t for t in ctx.inputs if t.requires_grad]
        found = iter(torch.autograd.grad(ctx.outputs, wanted, [s.held for s in slopes], allow_unused=True))
        found = [next(found) if t.requires_grad else None for t in ctx.inputs]
        return (None, None, None, *(None if one is None else OnGPU(one) for one in found))


def _whole(function):
    def run(*args):
        flat, spec = tree_flatten(args)
        tensors = [x for x in flat if isinstance(x, Tensor)]
        if not any(isinstance(x, OnGPU) for x in tensors):
            return function(*args)
        for x in tensors:
            if not isinstance(x, OnGPU):
                raise RuntimeError(f"Input and parameter tensors are not at the same device ({function.__name__})")
        if torch.is_autocast_enabled("cuda"):  # cuDNN's sequences are cast to float16, whatever autocast's type is
            kind = torch.get_autocast_dtype("cuda") if function.__name__.endswith("cell") else torch.float16
            tensors = [x.to(kind) for x in tensors]
        out = _Whole.apply(function, [OnGPU if isinstance(x, Tensor) else x for x in flat], spec, *tensors)
        return out if len(out) > 1 else out[0]

    return run


def _keeping_parameters(apply):
    """`model.to` must move the parameters, not make new ones: tied ones stay tied, as with CUDA."""

    def run(module, change, recurse=True):
        before = torch.__future__.get_swap_module_params_on_conversion()
        torch.__future__.set_swap_module_params_on_conversion(True)
        try:
            return apply(module, change, recurse)
        finally:
            torch.__future__.set_swap_module_params_on_conversion(before)

    return run


def _install() -> None:
    for space in ("_", "aten"):
        _libraries.append(torch.library.Library(space, "IMPL", "CUDA"))
    _libraries[0].fallback(_run)  # what has no wrapper among its arguments: torch.zeros(..., device="cuda")
    _libraries[1].impl("copy_", lambda *given: _copy(torch.ops.aten.copy_.default, *given))  # torch.tensor(..., "cuda")
    for name in ("lstm", "gru", "rnn_tanh", "lstm_cell", "gru_cell", "rnn_tanh_cell"):
        setattr(torch, name, _whole(getattr(torch, name)))
    torch.nn.Module._apply = _keeping_parameters(torch.nn.Module._apply)
    from torch.utils import _foreach_utils

    for module in (_foreach_utils, sys.modules.get("torch.optim.optimizer")):
        for types in [getattr(module, "_foreach_supported_types", None)] if module else []:
            if types is not None and OnGPU not in types:
                types.append(OnGPU)

    def resident(*_, **__) -> int:
        return int(Path("/proc/self/statm").read_text().split()[1]) * 4096

    for name, value in {
        "is_available": lambda: True,
        "device_count": lambda: 1,
        "_lazy_init": lambda: None,
        "is_bf16_supported": lambda *_, **__: True,
        "memory_allocated": resident,
        "max_memory_allocated": resident,
        "mem_get_info": lambda *_: (80 * 2**30, 80 * 2**30),
        "manual_seed_all": lambda *_: None,
        "manual_seed": lambda *_: None,
        "empty_cache": lambda: None,
        "Event": lambda: SimpleNamespace(record=lambda: None, synchronize=lambda: None),
        "get_rng_state": lambda *_: torch.get_rng_state(),
        "set_rng_state": lambda state, *_: torch.set_rng_state(state),
    }.items():
        setattr(torch.cuda, name, value)


_install()
