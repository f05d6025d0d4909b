"""The tensors of a checkpoint's folder: safetensors in one file or in shards, or `pytorch_model.bin`.

Reading never executes code: a `.bin` is a pickle and is read only with torch's weights-only loader, which refuses
everything except tensors. Tensors are read one by one, and half precision becomes float32.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import torch
from safetensors import SafetensorError, safe_open
from torch import Tensor

from heed.errors import RunError
from heed.exchange.huggingface.config_file import read_json

SAFETENSORS, INDEX = "model.safetensors", "model.safetensors.index.json"
_BIN, _BIN_INDEX = "pytorch_model.bin", "pytorch_model.bin.index.json"
_OTHERS = {"tf_model.h5": "TensorFlow", "flax_model.msgpack": "Flax", "model.ckpt.index": "TensorFlow"}
_POINTER = b"version https://git-lfs.github.com/"
_OLD_NAMES = (
    (re.compile(r"(LayerNorm|layer_norm)\.gamma$"), r"\1.weight"),
    (re.compile(r"(LayerNorm|layer_norm)\.beta$"), r"\1.bias"),
)
_AGAIN = "the download is incomplete; fetch the folder again"


class TensorFiles:
    """The tensors of a folder by name; `names` are the current ones (`LayerNorm.gamma` is an old name of a weight).

    Attributes:
        folder: The folder.
        ignored: Names of tensors without learned values, which are left out.
    """

    def __init__(self, folder: Path, ignored: Sequence[str] = ()) -> None:
        """Open the files and read the names and shapes.

        Raises:
            RunError: There are no tensors, or a file is missing, damaged, or contains something other than tensors.
        """
        self.folder = folder
        self.prefix = ""
        self._own: dict[str, tuple[Path, str]] = {}  # name of today -> file and name in it
        self._open: dict[Path, Any] = {}
        for path, listed in _files(folder).items():
            names = self._names(path)
            if gone := [name for name in listed if name not in names]:
                raise RunError(f"{path} lacks tensor '{gone[0]}', which the index names; {_AGAIN}")
            self._own |= {today(name): (path, name) for name in names}
        ignore = re.compile("|".join(ignored) or "(?!)")
        self._own = {name: one for name, one in self._own.items() if not ignore.search(name)}
        if not self._own:
            raise RunError(f"{folder} has no tensors")

    @property
    def names(self) -> list[str]:
        """The names of the tensors."""
        return list(self._own)

    def __contains__(self, name: str) -> bool:
        return name in self._own

    def with_prefix(self, prefix: str, heads: Sequence[str] = ()) -> None:
        """Add a prefix to the names if all lack it, as in checkpoints of the body alone.

        Names that begin with one of `heads` are unchanged.
        """
        if prefix and not any(name.startswith(prefix) for name in self._own):
            self._own = {
                name if name.startswith(tuple(heads)) else prefix + name: one for name, one in self._own.items()
            }

    def file_of(self, name: str) -> Path:
        """The file that holds a tensor."""
        return self._own[name][0]

    def shape(self, name: str) -> torch.Size:
        """The shape of a tensor."""
        path, own = self._own[name]
        held = self._open[path]
        return held[own].shape if isinstance(held, dict) else torch.Size(held.get_slice(own).get_shape())

    def read(self, name: str) -> Tensor:
        """A tensor in float32.

        Raises:
            RunError: It is damaged, or holds whole numbers.
        """
        path, own = self._own[name]
        held = self._open[path]
        try:
            tensor: Tensor = held[own] if isinstance(held, dict) else held.get_tensor(own)
        except SafetensorError as error:
            raise RunError(f"{path} is damaged: tensor '{name}': {error}") from None
        if not tensor.is_floating_point():
            raise RunError(
                f"{path}: tensor '{name}' is of {str(tensor.dtype).removeprefix('torch.')}; heed reads float32, "
                "float16 and bfloat16, and no quantized checkpoints"
            )
        return tensor.to(torch.float32, copy=True)

    def _names(self, path: Path) -> list[str]:
        """Open a file and return the names in it."""
        _check_whole(path)
        if path.suffix != ".bin":
            try:
                self._open[path] = held = safe_open(str(path), "pt")
                return list(held.keys())
            except (SafetensorError, OSError) as error:
                raise RunError(f"{path} is damaged or cut short: {error}; {_AGAIN}") from None
        tensors = _load_bin(path)
        self._open[path] = tensors
        return list(tensors)


def today(name: str) -> str:
    """The current name of a tensor."""
    for pattern, new in _OLD_NAMES:
        name = pattern.sub(new, name)
    return name


def _files(folder: Path) -> dict[Path, list[str]]:
    """The files of tensors of a folder, each with the names that an index lists for it."""
    if not folder.is_dir():
        raise RunError(f"no folder '{folder}'")
    for single, index in ((SAFETENSORS, INDEX), (_BIN, _BIN_INDEX)):
        if (folder / single).exists() or (folder / single).is_symlink():
            return {folder / single: []}
        if (folder / index).is_file():
            return _shards(folder / index)
    if other := next((name for name in _OTHERS if (folder / name).exists()), None):
        raise RunError(f"{folder} has weights of {_OTHERS[other]} only ({other}); heed reads {SAFETENSORS} and {_BIN}")
    if part := next(iter(sorted(folder.glob("*.incomplete"))), None):
        raise RunError(f"{folder} has no tensors yet, only {part.name}: {_AGAIN}")
    raise RunError(f"{folder} has no tensors: neither {SAFETENSORS} nor {INDEX} nor {_BIN}")


def _shards(index: Path) -> dict[Path, list[str]]:
    places = read_json(index).get("weight_map")
    if not isinstance(places, dict) or not all(isinstance(one, str) for one in places.values()):
        raise RunError(f"{index} is damaged: it has no weight_map of names and files")
    shards: dict[Path, list[str]] = {}
    for name, file in places.items():
        if Path(file).name != file:
            raise RunError(f"{index} names '{file}', which is not a file beside it")
        shards.setdefault(index.with_name(file), []).append(name)
    if gone := [path.name for path in shards if not path.exists()]:
        raise RunError(f"{index.parent} lacks {', '.join(gone)}, which {index.name} names; {_AGAIN}")
    return shards


def _check_whole(path: Path) -> None:
    try:
        with path.open("rb") as file:
            begin = file.read(len(_POINTER))
    except OSError as error:
        raise RunError(f"{path} cannot be read: {error.strerror}; {_AGAIN}") from None
    if not begin:
        raise RunError(f"{path} is empty; {_AGAIN}")
    if begin == _POINTER:
        raise RunError(f"{path} is a Git LFS pointer, not the file itself; fetch the file with: git lfs pull")


def _load_bin(path: Path) -> dict[str, Tensor]:
    """The tensors of a pickle, read by torch's weights-only loader.

    Raises:
        RunError: The file contains something else, which was not executed, or is damaged.
    """
    try:
        held = torch.load(path, map_location="cpu", weights_only=True)
    except Exception as error:  # the loader has many
        what = str(error)
        if found := re.search(r"GLOBAL ([\w.]+)", what):
            raise RunError(
                f"{path} contains {found[1]}, which is not a tensor and could execute code; nothing was executed; use "
                "a checkpoint with model.safetensors"
            ) from None
        raise RunError(
            f"{path} is damaged, cut short, or contains more than tensors; nothing in it was executed. If the download "
            "was incomplete, fetch it again; or use a checkpoint with model.safetensors"
        ) from None
    held = held.get("state_dict", held) if isinstance(held, dict) else held
    if not isinstance(held, dict) or not all(isinstance(one, Tensor) for one in held.values()):
        raise RunError(f"{path} contains more than tensors; heed reads a state_dict")
    return held
