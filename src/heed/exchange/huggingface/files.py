"""Files of checkpoints: fields of `config.json`, tensors, and tables that list both names of each tensor.

Conversions between the tensors of both sides are reversible. They also work on tensors without values (device
"meta"), which gives the shapes that a checkpoint should have.
"""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Annotated, Any, NamedTuple, Self

import torch
from pydantic import AfterValidator, BaseModel, ConfigDict, Field, ValidationError, ValidationInfo
from safetensors import SafetensorError
from safetensors.torch import load_file
from torch import Tensor

from heed.errors import ConfigError, RunError
from heed.storage.files import MissingFileError, check_regular, problem_of, read_object, shown

CONFIG = "config.json"


def _within(count: int, info: ValidationInfo) -> int:
    if count > (maximum := (info.context or {}).get("largest", _MAX_INT)):
        raise ValueError(f"input should be at most {maximum:,}, as no tensor has a larger size")
    return count


def _not_deep(count: int, info: ValidationInfo) -> int:
    if count > (maximum := (info.context or {}).get("tensors", _MAX_INT)):
        raise ValueError(f"input should be at most {maximum:,}: the checkpoint has {maximum:,} tensors")
    return count


_MAX_INT = 2**31 - 1
Count = Annotated[int, Field(ge=1), AfterValidator(_within)]
"""A size, which is one of a tensor where tensors are known."""
Depth = Annotated[Count, AfterValidator(_not_deep)]
"""A number of blocks, each of which has tensors."""
Id = Annotated[int, Field(ge=0), AfterValidator(_within)]
Share = Annotated[float, Field(ge=0, le=1)]


class Fields(BaseModel):
    """The fields of a configuration file that matter here; their aliases are their names there.

    A field that is null counts as missing. A `Literal` of one value is what heed supports.
    """

    model_config = ConfigDict(strict=True, allow_inf_nan=False)

    _path: Path = Path()
    _values: Mapping[str, Any] = {}

    @classmethod
    def read(cls, path: Path, values: Mapping[str, Any], **context: int) -> Self:
        """Check the values of a file; `context` has bounds of its counts: `largest` of a size, `tensors` of a depth.

        Raises:
            ConfigError: A field is missing, makes no sense, or has a value that heed lacks; the message names it.
        """
        try:
            fields = cls.model_validate({n: value for n, value in values.items() if value is not None}, context=context)
        except ValidationError as error:
            raise ConfigError(f"{path}: {problem_of(error)}") from None
        fields._path, fields._values = path, values
        return fields

    def wrong(self, name: str, expected: str) -> ConfigError:
        """The error for a field that cannot be used with others."""
        return ConfigError(f"{self._path}: {name} is {shown(self._values.get(name))}, expected {expected}")


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
    """A transform that converts each tensor separately."""
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
_POINTER = b"version https://git-lfs.github.com/"
_OLD_NAME = re.compile(r"(LayerNorm|layer_norm)\.(gamma|beta)$")
_WRAPPERS = re.compile(r"(?:^|(?<=\.))(module|_orig_mod)\.")
"""Parts of names that `DataParallel`, `DistributedDataParallel` and `torch.compile` put before those of the model."""
_AGAIN = "the download is incomplete; fetch the folder again"


class TensorFiles:
    """The tensors of a folder by name; `names` are the current ones (`LayerNorm.gamma` is an old name of a weight).

    Attributes:
        folder: The folder.
    """

    def __init__(self, folder: Path, ignored: Sequence[str] = ()) -> None:
        """Open the files and read the names and shapes; `ignored` are patterns of tensors without learned values.

        Raises:
            RunError: There are no tensors, or a file is missing, damaged, or contains something other than tensors.
        """
        self.folder = folder
        self._tensors: dict[str, tuple[Path, str, Tensor]] = {}  # name of today -> file, name in it, tensor
        for path, listed in _files(folder).items():
            tensors = _load(path)
            if gone := [name for name in listed if name not in tensors]:
                raise RunError(f"{path} lacks tensor '{gone[0]}', which the index names; {_AGAIN}")
            for name, tensor in tensors.items():
                if (other := self._tensors.get(current := today(name))) and other[1] != name:
                    raise RunError(f"{path}: '{name}' and '{other[1]}' are two tensors for '{current}'; remove one")
                self._tensors[current] = path, name, tensor
        ignore = re.compile("|".join(ignored) or "(?!)")
        self._tensors = {name: place for name, place in self._tensors.items() if not ignore.search(name)}
        if not self._tensors:
            raise RunError(f"{folder} has no tensors")

    @property
    def names(self) -> list[str]:
        """The names of the tensors."""
        return list(self._tensors)

    def stored(self, name: str) -> str:
        """The name of a tensor in its file."""
        return self._tensors[name][1]

    def place(self, name: str) -> str:
        """A tensor and its file, for a message."""
        path, stored, _ = self._tensors[name]
        return f"{path}: tensor '{stored}'"

    @property
    def largest(self) -> int:
        """The largest size of a tensor, or the number of tensors if that is more: no count of a model exceeds it."""
        return max([len(self._tensors), *(size for name in self._tensors for size in self.shape(name))])

    def __contains__(self, name: str) -> bool:
        return name in self._tensors

    def with_prefix(self, prefix: str, heads: Sequence[str] = ()) -> None:
        """Add a prefix to the names if all lack it, as in checkpoints of the body alone.

        Names that begin with one of `heads` are unchanged.
        """
        if prefix and not any(name.startswith(prefix) for name in self._tensors):
            self._tensors = {
                name if name.startswith(tuple(heads)) else prefix + name: place for name, place in self._tensors.items()
            }

    def shape(self, name: str) -> torch.Size:
        """The shape of a tensor."""
        return self._tensors[name][2].shape

    def read(self, name: str) -> Tensor:
        """A tensor in float32.

        Raises:
            RunError: It holds whole numbers.
        """
        tensor = self._tensors[name][2]
        if not tensor.is_floating_point():
            raise RunError(
                f"{self.place(name)} is of {str(tensor.dtype).removeprefix('torch.')}; heed reads float32, float16 "
                "and bfloat16, and no quantized checkpoints"
            )
        return tensor.to(torch.float32, copy=True)


def today(name: str) -> str:
    """The current name of a tensor."""
    name = _WRAPPERS.sub("", name)
    return _OLD_NAME.sub(lambda old: f"{old[1]}.{'weight' if old[2] == 'gamma' else 'bias'}", name)


def _files(folder: Path) -> dict[Path, list[str]]:
    """The files of tensors of a folder, each with the names that an index lists for it."""
    if not folder.is_dir():
        raise RunError(f"no folder '{folder}'")
    for single, index in ((SAFETENSORS, INDEX), (_BIN, _BIN_INDEX)):
        if os.path.lexists(folder / single):
            return {folder / single: []}
        if os.path.lexists(folder / index):
            return _shards(folder / index)
    present = ", ".join(sorted(path.name for path in folder.iterdir())[:_SHOWN]) or "no file"
    raise RunError(
        f"{folder} has no tensors: neither {SAFETENSORS} nor {INDEX} nor {_BIN}, but {present}; if the download is "
        "incomplete (*.incomplete), fetch the folder again; weights of TensorFlow and Flax are not read"
    )


def _shards(index: Path) -> dict[Path, list[str]]:
    places = read_json(index).get("weight_map")
    if not isinstance(places, dict) or not all(isinstance(file, str) for file in places.values()):
        raise RunError(f"{index} is damaged: it has no weight_map of names and files")
    shards: dict[Path, list[str]] = {}
    for name, file in places.items():
        if Path(file).name != file:
            raise RunError(f"{index} names '{file}', which is not a file beside it")
        shards.setdefault(index.with_name(file), []).append(name)
    if gone := [path.name for path in shards if not path.exists()]:
        raise RunError(f"{index.parent} lacks {', '.join(gone)}, which {index.name} names; {_AGAIN}")
    return shards


def _load(path: Path) -> dict[str, Tensor]:
    """The tensors of a file; those of safetensors are read from the disk when they are used."""
    check_regular(path, links=True)
    try:
        with path.open("rb") as file:
            begin = file.read(len(_POINTER))
        if begin == _POINTER:
            raise RunError(f"{path} is a Git LFS pointer, not the file itself; fetch the file with: git lfs pull")
        return _load_bin(path) if path.suffix == ".bin" else load_file(path)
    except (SafetensorError, OSError) as error:
        raise RunError(f"{path} is damaged or cut short: {error}; {_AGAIN}") from None


def _load_bin(path: Path) -> dict[str, Tensor]:
    """The tensors of a pickle, read by torch's weights-only loader."""
    try:
        content = torch.load(path, map_location="cpu", weights_only=True)
    except Exception as error:  # the loader has many
        named = re.search(r"GLOBAL ([\w.]+)", str(error))
        what = (
            f"contains {named[1]}, which is no tensor" if named else "is damaged, cut short, or has more than tensors"
        )
        raise RunError(
            f"{path} {what}; nothing in it was executed. Fetch it again, or a checkpoint with model.safetensors; "
            "docs/huggingface.md converts a pickle whose author may run code here"
        ) from None
    if isinstance(content, dict):
        content = next((content[k] for k in _STATES if isinstance(content.get(k), dict)), content)
    if not isinstance(content, dict) or not all(
        isinstance(name, str) and isinstance(tensor, Tensor) for name, tensor in content.items()
    ):
        raise RunError(f"{path} contains more than tensors; heed reads a dictionary's {' or '.join(_STATES)}")
    for name, tensor in content.items():
        if tensor.is_meta or tensor.is_nested or tensor.layout != torch.strided:
            raise RunError(f"{path}: tensor '{name}' is sparse, nested or without values; heed reads dense tensors")
    return content


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
    tensors: dict[str, Tensor] = {}
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
        expected = line.transform.to_theirs([torch.empty(shapes[name], device="meta") for name in line.ours])
        for name, tensor in zip(names, expected, strict=True):
            if files.shape(name) != tensor.shape:
                raise RunError(
                    f"{files.place(name)} has shape {tuple(files.shape(name))}, but by config.json and the tokenizer "
                    f"it should have {tuple(tensor.shape)}"
                )
        tensors |= dict(zip(line.ours, line.transform.to_ours(list(map(files.read, names))), strict=True))
    if missing:
        present = [files.stored(name) for name in files.names]
        raise RunError(f"{files.folder} lacks {listed(missing)} of this architecture; it has {listed(present)}")
    return Loaded(tensors, tuple(files.stored(name) for name in files.names if name not in used))


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
