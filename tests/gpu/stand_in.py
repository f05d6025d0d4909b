"""A stand-in for a GPU: torch's device "cuda" in memory of the CPU, to find what fails or waits on a GPU.

    PYTHONPATH=tests/gpu python -m pytest -p stand_in tests/gpu    # make gpu-stand-in
    python tests/gpu/stand_in.py -m heed train ...                 # then prints waits and kernels (stderr)

A tensor on it is a wrapper (`OnGPU`) around a CPU tensor; every operation runs on the CPU. It refuses what CUDA
refuses: operands on the CPU (except single numbers in pointwise operations and indices), CPU generators, `numpy()`. It
counts kernels, types of results, and places where the processor waits for the GPU. Autograd (in a thread of its own, as
with CUDA), autocast, pinned memory and `device.type == "cuda"` are torch's own. Recurrent kernels are cast to float16
under autocast, as cuDNN's are. Not simulated: cuDNN's LSTM, fused attention, several devices, speed, memory.

Must be imported before torch, which asks for CUDA's hooks (cuda_on_cpu.cpp, built once with g++) when it is imported.
"""

from __future__ import annotations

import collections
import contextlib
import ctypes
import importlib.metadata
import importlib.util
import os
import runpy
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path


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
waits: collections.Counter[tuple[str, str]] = collections.Counter()
"""Number of waits by kind and place."""
kernels: collections.Counter[str] = collections.Counter()
"""Number of calls of each operation that is not a view."""
types: collections.Counter[torch.dtype] = collections.Counter()
"""Number of results of each type."""

_libraries: list[torch.library.Library] = []  # freed, they would undo what they registered
_WAITS = {  # operations that read a result on the processor, and how often
    "_local_scalar_dense": 1,
    "item": 1,
    "nonzero": 1,
    "masked_select": 1,
    "_unique2": 1,
    "unique_dim": 1,
    "unique_consecutive": 1,
    "equal": 1,
    "repeat_interleave": 1,
    "bincount": 1,
    "multinomial": 2,
    "is_nonzero": 1,
}
_BY_CPU_INDEX = {"index", "index_put_", "index_put", "_index_put_impl_", "_unsafe_index"}
_CPU_LENGTHS = {"_pack_padded_sequence", "_pad_packed_sequence", "_pack_padded_sequence_backward"}
_SCALARS = {"fill_", "masked_fill", "masked_fill_", "where", "index_put_", "index_put", "_index_put_impl_", "clamp"}
_FREE = {"detach", "alias", "_unsafe_view", "lift_fresh", "empty", "empty_strided", "empty_like", "new_empty"}


@contextlib.contextmanager
def counted() -> Iterator[dict[str, int]]:
    """Context manager that counts the waits and kernels inside it."""
    found: dict[str, int] = {}
    before = waits.total(), kernels.total()
    yield found
    found.update(waits=waits.total() - before[0], kernels=kernels.total() - before[1])


def place() -> str:
    """File and line of heed that the present operation comes from."""
    frame = sys._getframe(1)
    while frame is not None:
        name = frame.f_code.co_filename
        if "/heed/" in name and "site-packages" not in name:
            return f"{name.rsplit('/heed/', 1)[1]}:{frame.f_lineno} {frame.f_code.co_name}"
        frame = frame.f_back
    return "(outside heed)"


def wait(kind: str, times: int = 1) -> None:
    """Count a wait for the GPU."""
    waits[kind, place()] += times


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
        wait("tolist")
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

    def __repr__(self, **_):
        wait("repr")
        return f"OnGPU({self.held})"

    def __deepcopy__(self, memo):
        if id(self) not in memo:
            memo[id(self)] = _restored(self.held.clone(), self.requires_grad, isinstance(self, torch.nn.Parameter))
        return memo[id(self)]

    def __reduce_ex__(self, protocol):
        wait("pickle")
        return _restored, (self.held, self.requires_grad, isinstance(self, torch.nn.Parameter))


def _restored(real: Tensor, requires_grad: bool, is_parameter: bool) -> Tensor:
    made = OnGPU(real)
    return torch.nn.Parameter(made, requires_grad) if is_parameter else made.requires_grad_(requires_grad)


def _run(op, *args, **kwargs):
    """Run an operation on the CPU tensors behind its arguments; refuse and count."""
    name, mine = op.overloadpacket.__name__, {}
    into = kwargs.get("device")
    on_cpu = into is not None and torch.device(into).type == "cpu"
    if name == "copy_":
        return _copy(op, *args, **kwargs)
    if on_cpu and name in ("_to_copy", "to"):  # the latter in inference mode
        wait("copy to the CPU")
    known = kwargs.get("output_size") is not None or op._overloadname == "self_int"
    if name in _WAITS and not (name == "repeat_interleave" and known):
        wait(name, _WAITS[name])

    def real(x):
        if isinstance(x, OnGPU):
            mine[id(x.held)] = x
            return x.held
        if isinstance(x, Tensor):
            _check(op, name, x, args)
        elif isinstance(x, torch.Generator) and x.device.type == "cpu":
            raise RuntimeError("Expected a 'cuda' device type for generator but found 'cpu'")
        return CPU if isinstance(x, torch.device) else x

    fills = "put" in name and args[2].numel() == 1  # torch makes a masked_fill of it
    if name in _BY_CPU_INDEX and not fills:
        for index in args[1]:
            if index is not None and index.dtype in (torch.bool, torch.uint8) and isinstance(index, OnGPU):
                wait("boolean index")
            elif index is not None and not isinstance(index, OnGPU):
                wait("index copied to the GPU")
    result = op(*_each(real, args), **{key: _each(real, value) for key, value in kwargs.items()})
    returns = op._schema.returns
    if name not in _FREE and not (returns and returns[0].alias_info and not returns[0].alias_info.is_write):
        kernels[name] += 1
    if on_cpu:
        return result

    def wrapped(x):
        if not isinstance(x, Tensor):
            return x
        types[x.dtype] += 1
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
    kernels["copy_"] += 1
    if isinstance(to, OnGPU) and not isinstance(source, OnGPU):
        if not (non_blocking and source.is_pinned()):
            wait("copy to the GPU")
    elif not isinstance(to, OnGPU) and not (non_blocking and to.is_pinned()):
        wait("copy to the CPU")
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
        kernels[function.__name__] += 1
        with torch.enable_grad():
            rest = iter(ctx.inputs)
            args = [next(rest) if one is OnGPU else one for one in given]
            out = function(*tree_unflatten(args, spec))
        ctx.outputs = (out,) if isinstance(out, Tensor) else out
        return tuple(OnGPU(one.detach()) for one in ctx.outputs)

    @staticmethod
    def backward(ctx, *slopes):
        kernels["rnn_backward"] += 1
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


class Event:
    """An event of a stream. It is waited for only where no work was queued after it: else the GPU goes on."""

    def record(self) -> None:
        self._queued = kernels.total()

    def synchronize(self) -> None:
        if kernels.total() == self._queued:
            wait("event")


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
        "current_device": lambda: 0,
        "_lazy_init": lambda: None,
        "is_bf16_supported": lambda *_, **__: True,
        "is_initialized": lambda: True,
        "memory_allocated": resident,
        "max_memory_allocated": resident,
        "set_device": lambda *_: None,
        "mem_get_info": lambda *_: (80 * 2**30, 80 * 2**30),
        "get_device_name": lambda *_: "stand-in",
        "manual_seed_all": lambda *_: None,
        "manual_seed": lambda *_: None,
        "empty_cache": lambda: None,
        "Event": Event,
        "get_rng_state": lambda *_: torch.get_rng_state(),
        "set_rng_state": lambda state, *_: torch.set_rng_state(state),
        "synchronize": lambda *_: wait("synchronize"),
        "reset_peak_memory_stats": lambda *_: None,
    }.items():
        setattr(torch.cuda, name, value)


_install()


def report(file=sys.stderr) -> None:
    """Print waits and kernels."""
    print(f"{sum(waits.values())} waits, {sum(kernels.values())} kernels", file=file)
    for (kind, where), count in waits.most_common(40):
        print(f"{count:7} {kind:24} {where}", file=file)
    print(*(f"{count} {name}" for name, count in kernels.most_common(30)), sep=", ", file=file)


if __name__ == "__main__":
    sys.modules["stand_in"] = sys.modules["__main__"]
    sys.argv = sys.argv[1:]
    try:
        if sys.argv[0] == "-m":
            sys.argv = sys.argv[1:]
            runpy.run_module(sys.argv[0], run_name="__main__", alter_sys=True)
        else:
            runpy.run_path(sys.argv[0], run_name="__main__")
    finally:
        report()
