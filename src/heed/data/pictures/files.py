"""Files of pictures: by name (pictures, ignored ones), in folders, and the idx format of MNIST.

An idx file has numbers of one type in any number of dimensions. Source: LeCun, Cortes and Burges, the MNIST database of
handwritten digits, "FILE FORMATS".
"""

from __future__ import annotations

import gzip
import os
import re
import struct
import zlib
from collections.abc import Iterator, Sequence
from math import prod
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from heed.data.columns import is_picture
from heed.errors import DataError
from heed.storage.files import open_regular


class PictureError(DataError):
    """A picture cannot be used; the message is the reason without the file, `rule` the rule that counts it."""

    def __init__(self, rule: str, reason: str) -> None:
        super().__init__(reason)
        self.rule = rule


SPLITS = {
    **dict.fromkeys(("train", "training"), "train"),
    **dict.fromkeys(("valid", "val", "validation", "dev"), "valid"),
    **dict.fromkeys(("test", "testing", "t10k"), "test"),
}
"""Words in names of folders and files -> their split."""
_SYSTEM = {"thumbs.db", "desktop.ini", "__macosx", "icon\r"}


def is_hidden(parts: Sequence[str]) -> bool:
    """True if a file is hidden, or created by operating systems in folders of pictures."""
    return any(part.startswith(".") or part.lower() in _SYSTEM for part in parts)


Parts = tuple[str, ...]
"""A path inside a folder, part by part."""


def files_below(folder: str, above: frozenset[tuple[int, int]] = frozenset()) -> Iterator[Parts]:
    """The files in a folder at any depth, without hidden ones, in order; `above` identifies the folders around it.

    Links are followed, but not those to a folder around them.

    Raises:
        DataError: A folder cannot be read.
    """
    try:
        stat = os.stat(folder)
        entries = sorted(os.scandir(folder), key=lambda entry: entry.name)
    except OSError as error:
        raise DataError(f"cannot read folder '{folder}': {error.strerror or error}") from None
    identity = stat.st_dev, stat.st_ino
    for entry in entries if identity not in above else ():
        if is_hidden((entry.name,)):
            continue
        below = files_below(entry.path, above | {identity}) if entry.is_dir() else [()]
        yield from ((entry.name, *parts) for parts in below)


class Listing:
    """The files in a folder of pictures.

    `root` is the folder of the class folders: the outermost with several entries, or whose folders contain pictures.
    """

    def __init__(self, path: str) -> None:
        """List the folder.

        Raises:
            DataError: It cannot be read.
        """
        self.path, self.prefix = path, f"{path.rstrip('/')}/"
        self.files = list(files_below(path))
        self.pictures = [parts for parts in self.files if is_picture(parts[-1])]
        inside = self.pictures or self.files
        depth = max(0, min(map(len, inside), default=0) - 2)
        self.root: Parts = tuple(os.path.commonprefix(inside)[:depth])  # noqa: RUF071  # of tuples: part by part

    def place(self, parts: Parts) -> str:
        """The place of a file or folder."""
        return self.prefix + "/".join(parts)

    def splits(self) -> dict[str, str]:
        """Split -> its folder, if there are folders such as train and test with class folders in them.

        Empty without a training set or without another one.
        """
        depth = len(self.root) + 1
        below = [parts for parts in self.pictures or self.files if len(parts) > depth]
        named = {SPLITS.get(parts[depth - 1].lower(), ""): parts[:depth] for parts in below if len(parts) > depth + 1}
        if "train" not in named or len(named) < 2 or any(parts[depth - 1].lower() not in SPLITS for parts in below):
            return {}
        return {split: self.place(parts) for split, parts in named.items()}


_NUMBERS = {0x08: "uint8", 0x09: "int8", 0x0B: "int16", 0x0C: "int32", 0x0D: "float32", 0x0E: "float64"}


def _unpacked(path: Path, size: int = -1) -> bytes:
    """At most so many bytes of a file, gzipped or not; by default all."""
    with open_regular(path) as file:
        is_packed = file.read(2) == b"\x1f\x8b"
        file.seek(0)
        return gzip.GzipFile(fileobj=file).read(size) if is_packed else file.read(size)


def is_idx(path: Path) -> bool:
    """True if a file begins like an idx file: two zero bytes, a type, a number of dimensions."""
    try:
        head = _unpacked(path, 4)
    except (OSError, EOFError, zlib.error):
        return False
    return len(head) == 4 and head[:2] == b"\0\0" and head[2] in _NUMBERS and 1 <= head[3] <= 4


def read_idx(path: Path) -> NDArray[np.uint8]:
    """The bytes of an idx file, gzipped or not: pictures `(number, height, width[, channels])`, or labels `(number,)`.

    Raises:
        DataError: The file cannot be read, is not an idx file of bytes, or is cut off.
    """
    try:
        data = _unpacked(path)
    except FileNotFoundError:
        raise DataError(f"no file '{path}'") from None
    except (OSError, EOFError, zlib.error) as error:
        raise DataError(f"cannot read '{path}': {getattr(error, 'strerror', None) or error}") from None
    if len(data) < 4 or data[:2] != b"\0\0" or data[2] not in _NUMBERS:
        raise DataError(
            f"'{path}' is not an idx file: it begins with {data[:4].hex(' ') or 'nothing'}, expected 00 00 08"
        )
    if data[2] != 0x08:
        raise DataError(f"'{path}' contains numbers of type {_NUMBERS[data[2]]}, expected bytes (00 00 08)")
    start = 4 + 4 * data[3]
    if len(data) < start:
        raise DataError(f"'{path}' is cut off: its header has {len(data)} bytes, expected {start}")
    shape = struct.unpack_from(f">{data[3]}I", data, 4)
    if len(data) - start != prod(shape):
        what = " x ".join(f"{size:,}" for size in shape)
        follow = f"{what} bytes are {prod(shape):,}, but {len(data) - start:,} follow its header"
        raise DataError(f"'{path}' is cut off or damaged: {follow}")
    return np.frombuffer(data, np.uint8, offset=start).reshape(shape)


def labels_beside(images: Path) -> list[Path]:
    """Possible files of a picture file's labels: its name with "labels" for "images" and "idx1" for "idx3"."""
    name = images.name
    changed = {re.sub("images", "labels", name.replace("idx3", "idx1")), re.sub("image", "label", name)}
    stems = {re.sub(r"\.gz$", "", changed_name) for changed_name in changed if changed_name != name}
    return [images.with_name(stem + ending) for stem in sorted(stems) for ending in ("", ".gz")]
