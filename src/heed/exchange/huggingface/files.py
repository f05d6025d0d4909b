"""Files of checkpoints: fields of `config.json`, tensors, and tables that list both names of each tensor.

Conversions between the tensors of both sides are reversible. They also work on tensors without values (device
"meta"), which gives the shapes that a checkpoint should have.
"""

from __future__ import annotations

import json
import os
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, NamedTuple

import torch
from safetensors import SafetensorError, safe_open
from torch import Tensor

from heed.errors import ConfigError, RunError
from heed.storage.files import MissingFileError, check_regular, read_object
from heed.visible import shell_word

CONFIG = "config.json"
_LONGEST = 200
"""Most characters of a value in a message."""


class Settings:
    """The fields of a configuration file, read by name and kind.

    Attributes:
        path: The file.
        values: Its unchecked fields.
        most: The largest count that makes sense; lower once the tensors are known, since each size is one of theirs.
    """

    def __init__(self, path: Path, values: Mapping[str, Any]) -> None:
        self.path = path
        self.values = dict(values)
        self.most = 2**31 - 1

    @classmethod
    def read(cls, path: Path) -> Settings:
        """Read a file.

        Raises:
            RunError: It is missing or damaged.
        """
        return cls(path, read_json(path))

    def wrong(self, name: str, expected: str) -> ConfigError:
        """The error for a field that cannot be used."""
        return ConfigError(f"{self.path}: {name} is {_shown(self.values.get(name))}, expected {expected}")

    def get(self, name: str, default: Any = ...) -> Any:
        """The value of a field; if it is missing or null, the default, if there is one."""
        value = self.values.get(name)
        if value is not None:
            return value
        if default is ...:
            raise ConfigError(f"{self.path} lacks the field '{name}'")
        return default

    def _checked(self, name: str, default: Any, good: Callable[[Any], bool], expected: str) -> Any:
        value = self.get(name, default)
        if value is not default and not good(value):
            raise self.wrong(name, expected)
        return value

    def text(self, name: str, default: Any = ...) -> str:
        """A text field."""
        return str(self._checked(name, default, lambda value: isinstance(value, str), "a word"))

    def flag(self, name: str, default: Any = ...) -> bool:
        """A field that is true or false."""
        value: bool = self._checked(name, default, lambda value: isinstance(value, bool), "true or false")
        return value

    def count(self, name: str, default: Any = ..., least: int = 1) -> int:
        """A field that is a whole number."""
        expected = f"a whole number from {least} to {self.most:,}"
        value: int = self._checked(name, default, lambda n: type(n) is int and least <= n <= self.most, expected)
        return value

    def number(self, name: str, default: Any = ..., most: int = 1) -> float:
        """A field that is a number from 0 to `most`."""
        expected = f"a number from 0 to {most}"
        value: float = self._checked(name, default, lambda n: type(n) in (int, float) and 0 <= n <= most, expected)
        return value

    def like(self, name: str, default: Any) -> Any:
        """A field of the kind of its default; that of null is a count."""
        kinds: dict[type, Callable[..., Any]] = {bool: self.flag, float: self.number}
        return kinds.get(type(default), self.count)(name, default)

    def one_of(self, name: str, known: Mapping[str, Any], default: Any = ...) -> Any:
        """Look up a text field in a table of the supported values."""
        word = self.text(name, default)
        if word not in known:
            raise ConfigError(
                f"{self.path}: {name} is '{word}', which heed does not support; supported: "
                f"{', '.join(dict.fromkeys(known))}"
            )
        return known[word]

    def accept(self, fields: Mapping[str, Any]) -> None:
        """Check the fields that change what the model computes, each with the value that heed supports.

        Raises:
            ConfigError: A field has another value; the message names field, value and supported value.
        """
        for name, right in fields.items():
            if (value := self.values.get(name)) is not None and value != right:
                raise ConfigError(
                    f"{self.path}: {name} is {_shown(value)}, which heed does not support; it must be "
                    f"{json.dumps(right)} or missing"
                )


def _shown(value: Any) -> str:
    """A value for a message: the labels of ImageNet have 20,000 characters."""
    text = json.dumps(value)
    return text if len(text) <= _LONGEST else f"{text[:_LONGEST]}..."


def optional_json(path: Path) -> dict[str, Any] | None:
    """As `read_json`; None if there is no such file, nor anything else of its name."""
    return read_json(path) if os.path.lexists(path) else None


def read_json(path: Path) -> dict[str, Any]:
    """A file of one JSON object.

    Raises:
        RunError: It is missing or damaged.
    """
    try:
        return read_object(path, links=True)  # the cache of the Hub consists of links
    except MissingFileError:
        raise RunError(
            f"{path} is missing; a checkpoint is a folder with config.json, tensors and a tokenizer"
        ) from None


@dataclass(frozen=True)
class Transform:
    """A reversible conversion between some tensors of a checkpoint and some of ours."""

    to_ours: Callable[[Sequence[Tensor]], list[Tensor]]
    to_theirs: Callable[[Sequence[Tensor]], list[Tensor]]


def each(to_ours: Callable[[Tensor], Tensor], to_theirs: Callable[[Tensor], Tensor]) -> Transform:
    """The conversion of each tensor by itself."""
    return Transform(lambda theirs: list(map(to_ours, theirs)), lambda ours: list(map(to_theirs, ours)))


def _transposed(x: Tensor) -> Tensor:
    return x.t().contiguous() if x.dim() == 2 else x


SAME = each(lambda x: x, lambda x: x)
TRANSPOSED = each(_transposed, _transposed)
"""Matrices (in, out), as in GPT-2; ours are (out, in)."""


def joined(count: int) -> Transform:
    """One tensor of `count` equal parts along its last axis, as GPT-2's queries, keys, values; matrices (in, out)."""
    return Transform(
        lambda theirs: [_transposed(part).contiguous() for part in theirs[0].chunk(count, dim=-1)],
        lambda ours: [torch.cat(list(map(_transposed, ours)), dim=-1).contiguous()],
    )


def after(count: int) -> Transform:
    """A table with `count` unused first rows, as RoBERTa's positions, which begin after the padding token's id."""
    return each(lambda x: x[count:].contiguous(), lambda x: torch.cat([x.new_zeros((count, *x.shape[1:])), x]))


def first_of(size: int) -> Transform:
    """The first row of a table of `size` rows, as RoBERTa's segments, of which only one is used."""
    return each(lambda x: x[:1].contiguous(), lambda x: torch.cat([x, x.new_zeros((size - 1, *x.shape[1:]))]))


def leading(count: int) -> Transform:
    """A tensor with `count` axes of length 1 before those of ours, as ViT's positions."""
    return each(lambda x: x.flatten(0, count), lambda x: x.reshape(*([1] * count), *x.shape))


def flattened(shape: tuple[int, ...]) -> Transform:
    """A matrix whose rows are tensors of a `shape` there, as the filters of a convolution over patches."""
    return each(lambda x: x.flatten(1), lambda x: x.unflatten(1, shape))


def zeros(shape: tuple[int, ...]) -> Transform:
    """A tensor of ours, of shape `shape`, that checkpoints lack (a bias): zero on reading, omitted on writing."""
    return Transform(lambda theirs: [torch.zeros(shape)], lambda ours: [])


SAFETENSORS, INDEX = "model.safetensors", "model.safetensors.index.json"
_BIN, _BIN_INDEX = "pytorch_model.bin", "pytorch_model.bin.index.json"
_OTHERS = {"tf_model.h5": "TensorFlow", "flax_model.msgpack": "Flax", "model.ckpt.index": "TensorFlow"}
_POINTER = b"version https://git-lfs.github.com/"
_OLD_NAMES = (
    (re.compile(r"(LayerNorm|layer_norm)\.gamma$"), r"\1.weight"),
    (re.compile(r"(LayerNorm|layer_norm)\.beta$"), r"\1.bias"),
)
_WRAPPERS = re.compile(r"(?:^|(?<=\.))(module|_orig_mod)\.")
"""Parts of names that `DataParallel`, `DistributedDataParallel` and `torch.compile` put before those of the model."""
_AGAIN = "the download is incomplete; fetch the folder again"


class TensorFiles:
    """The tensors of a folder by name; `names` are the current ones (`LayerNorm.gamma` is an old name of a weight).

    Attributes:
        folder: The folder.
        wrappers: Parts left out of names, as "module.", which wrappers of the model added.
    """

    def __init__(self, folder: Path, ignored: Sequence[str] = ()) -> None:
        """Open the files and read the names and shapes; `ignored` are patterns of tensors without learned values.

        Raises:
            RunError: There are no tensors, or a file is missing, damaged, or contains something other than tensors.
        """
        self.folder = folder
        self._own: dict[str, tuple[Path, str]] = {}  # name of today -> file and name in it
        self._open: dict[Path, Any] = {}
        for path, listed in _files(folder).items():
            names = self._names(path)
            if gone := [name for name in listed if name not in names]:
                raise RunError(f"{path} lacks tensor '{gone[0]}', which the index names; {_AGAIN}")
            for name in names:
                if (other := self._own.get(current := today(name))) and other[1] != name:
                    raise RunError(f"{path}: '{name}' and '{other[1]}' are two tensors for '{current}'; remove one")
                self._own[current] = path, name
        self.wrappers = [*dict.fromkeys(_WRAPPERS.findall(".".join(name for _, name in self._own.values())))]
        ignore = re.compile("|".join(ignored) or "(?!)")
        self._own = {name: place for name, place in self._own.items() if not ignore.search(name)}
        if not self._own:
            raise RunError(f"{folder} has no tensors")

    @property
    def names(self) -> list[str]:
        """The names of the tensors."""
        return list(self._own)

    def stored(self, name: str) -> str:
        """The name of a tensor in its file."""
        return self._own[name][1]

    def place(self, name: str) -> str:
        """A tensor and its file, for a message."""
        path, stored = self._own[name]
        return f"{path}: tensor '{stored}'"

    @property
    def most(self) -> int:
        """The number of tensors, or the largest size of one if that is more: no count of a model exceeds it."""
        return max([len(self._own), *(size for name in self._own for size in self.shape(name))])

    def __contains__(self, name: str) -> bool:
        return name in self._own

    def with_prefix(self, prefix: str, heads: Sequence[str] = ()) -> None:
        """Add a prefix to the names if all lack it, as in checkpoints of the body alone.

        Names that begin with one of `heads` are unchanged.
        """
        if prefix and not any(name.startswith(prefix) for name in self._own):
            self._own = {
                name if name.startswith(tuple(heads)) else prefix + name: place for name, place in self._own.items()
            }

    def shape(self, name: str) -> torch.Size:
        """The shape of a tensor."""
        path, stored = self._own[name]
        held = self._open[path]
        return held[stored].shape if isinstance(held, dict) else torch.Size(held.get_slice(stored).get_shape())

    def read(self, name: str) -> Tensor:
        """A tensor in float32.

        Raises:
            RunError: It is damaged, or holds whole numbers.
        """
        path, stored = self._own[name]
        held = self._open[path]
        try:
            tensor: Tensor = held[stored] if isinstance(held, dict) else held.get_tensor(stored)
        except SafetensorError as error:
            raise RunError(f"{path} is damaged: tensor '{stored}': {error}") from None
        if not tensor.is_floating_point():
            raise RunError(
                f"{self.place(name)} is of {str(tensor.dtype).removeprefix('torch.')}; heed reads float32, float16 "
                "and bfloat16, and no quantized checkpoints"
            )
        return tensor.to(torch.float32, copy=True)

    def _names(self, path: Path) -> list[str]:
        """Open a file and return the names in it."""
        _check_whole(path)
        try:
            self._open[path] = held = _load_bin(path) if path.suffix == ".bin" else safe_open(str(path), "pt")
            return list(held.keys())
        except (SafetensorError, OSError) as error:
            raise RunError(f"{path} is damaged or cut short: {error}; {_AGAIN}") from None


def today(name: str) -> str:
    """The current name of a tensor."""
    for pattern, new in _OLD_NAMES:
        name = pattern.sub(new, name)
    return _WRAPPERS.sub("", name)


def _files(folder: Path) -> dict[Path, list[str]]:
    """The files of tensors of a folder, each with the names that an index lists for it."""
    if not folder.is_dir():
        raise RunError(f"no folder '{folder}'")
    for single, index in ((SAFETENSORS, INDEX), (_BIN, _BIN_INDEX)):
        if (folder / single).exists() or (folder / single).is_symlink():
            return {folder / single: []}
        if os.path.lexists(folder / index):
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
        check_regular(path, links=True)
        with path.open("rb") as file:
            begin = file.read(len(_POINTER))
    except OSError as error:
        raise RunError(f"{path} cannot be read: {error.strerror}; {_AGAIN}") from None
    if not begin:
        raise RunError(f"{path} is empty; {_AGAIN}")
    if begin == _POINTER:
        raise RunError(f"{path} is a Git LFS pointer, not the file itself; fetch the file with: git lfs pull")


def _load_bin(path: Path) -> dict[str, Tensor]:
    """The tensors of a pickle, read by torch's weights-only loader."""
    try:
        held = torch.load(path, map_location="cpu", weights_only=True)
    except Exception as error:  # the loader has many
        what, file = str(error), json.dumps(str(path))
        code = (
            f'import torch; held = torch.load({file}, map_location="cpu", weights_only=False); '
            f'torch.save(getattr(held, "state_dict", lambda: held["state_dict"])(), {file})'
        )
        if named := re.search(r"GLOBAL ([\w.]+)", what):
            raise RunError(
                f"{path} contains {named[1]}, which is not a tensor and could execute code; nothing was executed; use "
                f"a checkpoint with model.safetensors or, if its author may run code here: python -c {shell_word(code)}"
            ) from None
        raise RunError(
            f"{path} is damaged, cut short, or contains more than tensors; nothing in it was executed. If the download "
            "was incomplete, fetch it again; or use a checkpoint with model.safetensors"
        ) from None
    held = next((held[k] for k in _STATES if isinstance(held, dict) and isinstance(held.get(k), dict)), held)
    if not isinstance(held, dict) or not all(isinstance(k, str) and isinstance(v, Tensor) for k, v in held.items()):
        raise RunError(f"{path} contains more than tensors; heed reads a dictionary's {' or '.join(_STATES)}")
    for name, tensor in held.items():
        if tensor.is_meta or tensor.is_nested or tensor.layout != torch.strided:
            raise RunError(f"{path}: tensor '{name}' is sparse, nested or without values; heed reads dense tensors")
    return held


_STATES = ("state_dict", "model_state_dict", "model")
"""Names of the tensors in a dictionary that scripts save during training."""
_SHOWN = 5
"""Maximum number of tensors that a message names."""


@dataclass(frozen=True)
class Entry:
    """One line of a table."""

    theirs: tuple[str, ...]  # the tensors of the checkpoint, in the transform's order
    ours: tuple[str, ...]  # our tensors; none for a tensor that repeats another, which is neither read nor unused
    transform: Transform = SAME  # the conversion between the two
    also: tuple[str, ...] = ()  # alternative names of their first tensor, used if the first name is missing
    copied: bool = False  # True to write the tensor under the alternative names too

    def numbered(self, number: int) -> Entry:
        """The line for the block of a number, which `*` in its names stands for."""
        theirs, ours, also = (
            tuple(name.replace("*", str(number)) for name in names) for names in (self.theirs, self.ours, self.also)
        )
        return replace(self, theirs=theirs, ours=ours, also=also)


def entry(theirs: str, ours: str = "", transform: Transform = SAME, also: str = "", copied: bool = False) -> Entry:
    """A line of a table, with spaces between several names."""
    return Entry(tuple(theirs.split()), tuple(ours.split()), transform, tuple(also.split()), copied)


def layer(theirs: str, ours: str, transform: Transform = SAME, also: str = "") -> list[Entry]:
    """The lines of a linear layer or a normalisation: weight and bias, under the same names on both sides."""
    return [
        entry(f"{theirs}.{part}", f"{ours}.{part}", transform, also and f"{also}.{part}") for part in ("weight", "bias")
    ]


class Loaded(NamedTuple):
    """Result of loading with a table: our tensors by name, and the names of the checkpoint's unused tensors."""

    tensors: dict[str, Tensor]
    unused: tuple[str, ...] = ()


def load(table: Sequence[Entry], files: TensorFiles, shapes: Mapping[str, torch.Size]) -> Loaded:
    """Convert the tensors of a checkpoint to ours.

    Args:
        table: A line for each tensor of ours.
        files: The checkpoint's tensors.
        shapes: Shape of each of our tensors, by name; the table may name others, which are left out.

    Raises:
        RunError: A tensor is missing or has a wrong shape; the message names it and both shapes.
    """
    taken: dict[str, Tensor] = {}
    used: set[str] = set()
    missing: list[str] = []
    for line in table:
        if not all(name in shapes for name in line.ours):
            continue
        used |= {*line.theirs, *line.also}
        if not line.ours:
            continue
        names = [*line.theirs]
        if names and names[0] not in files:
            names[0] = next((name for name in line.also if name in files), names[0])
        if absent := [name for name in names if name not in files]:
            missing += absent
            continue
        wanted = line.transform.to_theirs([torch.empty(shapes[name], device="meta") for name in line.ours])
        for name, right in zip(names, wanted, strict=True):
            if files.shape(name) != right.shape:
                raise RunError(
                    f"{files.place(name)} has shape {tuple(files.shape(name))}, but by config.json and the tokenizer "
                    f"it should have {tuple(right.shape)}"
                )
        taken |= dict(zip(line.ours, line.transform.to_ours(list(map(files.read, names))), strict=True))
    if missing:
        there = [files.stored(name) for name in files.names]
        raise RunError(f"{files.folder} lacks {listed(missing)} of this architecture; it has {listed(there)}")
    return Loaded(taken, tuple(files.stored(name) for name in files.names if name not in used))


def store(table: Sequence[Entry], ours: Mapping[str, Tensor]) -> dict[str, Tensor]:
    """Convert our tensors to those of a checkpoint, without the entries of tensors that we do not have."""
    written: dict[str, Tensor] = {}
    for line in table:
        if line.ours and all(name in ours for name in line.ours):
            theirs = line.transform.to_theirs([ours[name].detach() for name in line.ours])
            written |= zip(line.theirs, theirs, strict=True)
            if line.copied:
                written |= {name: theirs[0].clone() for name in line.also}
    return {name: tensor.contiguous() for name, tensor in written.items()}


def listed(names: Sequence[str]) -> str:
    """Names of tensors for a message."""
    more = f" and {len(names) - _SHOWN:,} more" if len(names) > _SHOWN else ""
    return f"tensor{'s' if len(names) != 1 else ''} {', '.join(map(repr, names[:_SHOWN]))}{more}"
