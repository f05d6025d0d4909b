"""Tables of tensors (their name, ours, and the transform between them), and loading and writing with a table."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

import torch
from torch import Tensor

from heed.errors import RunError
from heed.exchange.huggingface.tensors import TensorFiles
from heed.exchange.huggingface.transforms import SAME, Transform

_SHOWN = 5
"""Maximum number of tensors that a message names."""


@dataclass(frozen=True)
class Entry:
    """One line of a table.

    Attributes:
        theirs: The tensors of the checkpoint, in the transform's order.
        ours: Our tensors; none for a tensor that repeats another.
        transform: The conversion between the two.
        also: Alternative names of their first tensor, used if the first name is missing.
        copied: True to write the tensor under the alternative names too.
    """

    theirs: tuple[str, ...]
    ours: tuple[str, ...]
    transform: Transform = SAME
    also: tuple[str, ...] = ()
    copied: bool = False


def entry(
    theirs: str | Sequence[str],
    ours: str | Sequence[str],
    transform: Transform = SAME,
    also: Sequence[str] = (),
    copied: bool = False,
) -> Entry:
    """A line of a table; one name may stand for a tuple of one."""

    def names(given: str | Sequence[str]) -> tuple[str, ...]:
        return (given,) if isinstance(given, str) else tuple(given)

    return Entry(names(theirs), names(ours), transform, tuple(also), copied)


def layer(theirs: str, ours: str, bias: bool = True) -> list[Entry]:
    """The lines of a linear layer or a normalisation: weight and bias, under the same names on both sides."""
    return [entry(f"{theirs}.{part}", f"{ours}.{part}") for part in ("weight", *(["bias"] if bias else []))]


@dataclass(frozen=True)
class Loaded:
    """Result of loading with a table: our tensors by name, and the names of the checkpoint's unused tensors."""

    tensors: dict[str, Tensor]
    unused: tuple[str, ...] = field(default=())


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
        if not line.ours:  # repeats another tensor
            used |= {*line.theirs}
            continue
        if not all(name in shapes for name in line.ours):
            continue
        names = [_found(line, n, files) for n in range(len(line.theirs))]
        used |= {*line.theirs, *line.also}
        if absent := [name for name, found in zip(line.theirs, names, strict=True) if found is None]:
            missing += absent
            continue
        wanted = [one.shape for one in line.transform.to_theirs(_empty(line.ours, shapes))]
        theirs = []
        for name, shape in zip(names, wanted, strict=True):
            assert name is not None
            if files.shape(name) != shape:
                raise RunError(
                    f"{files.file_of(name)}: tensor '{name}' has shape {tuple(files.shape(name))}, but by config.json "
                    f"and the tokenizer it should have {tuple(shape)}"
                )
            theirs.append(files.read(name))
        taken |= dict(zip(line.ours, line.transform.to_ours(theirs), strict=True))
    if missing:
        raise RunError(f"{files.folder} lacks {_listed(missing)} of this architecture; it has {_listed(files.names)}")
    return Loaded(taken, tuple(name for name in files.names if name not in used))


def store(table: Sequence[Entry], ours: Mapping[str, Tensor]) -> dict[str, Tensor]:
    """Convert our tensors to those of a checkpoint, without the entries of tensors that we do not have."""
    written: dict[str, Tensor] = {}
    for line in table:
        if not line.ours or not all(name in ours for name in line.ours):
            continue
        theirs = line.transform.to_theirs([ours[name].detach() for name in line.ours])
        named = dict(zip(line.theirs, theirs, strict=True))
        if line.copied:
            named |= {name: theirs[0].clone() for name in line.also}
        written |= {name: tensor.contiguous() for name, tensor in named.items()}
    return written


def _found(line: Entry, place: int, files: TensorFiles) -> str | None:
    """The name under which a tensor of a line is in the files."""
    names = (line.theirs[place], *(line.also if place == 0 else ()))
    return next((name for name in names if name in files), None)


def _empty(names: Sequence[str], shapes: Mapping[str, torch.Size]) -> list[Tensor]:
    return [torch.empty(shapes[name], device="meta") for name in names]


def _listed(names: Sequence[str]) -> str:
    more = f" and {len(names) - _SHOWN:,} more" if len(names) > _SHOWN else ""
    return f"tensor{'s' if len(names) != 1 else ''} {', '.join(map(repr, names[:_SHOWN]))}{more}"


def known(name: str) -> Entry:
    """A line for a tensor that repeats another: it is neither read nor reported as unused."""
    return Entry((name,), ())
