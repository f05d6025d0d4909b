"""Digests of the contents of data files and folders, cheap enough to compute at every start.

Of a file larger than 4 GiB, 256 pieces of 1 MiB are compared; of a folder the names and sizes of all files and the
contents of at most 2,000. Files that a file names (the pictures of a table) are not compared.
"""

from __future__ import annotations

import hashlib
import os
from contextlib import suppress
from pathlib import Path
from typing import Any

from heed.storage.cache import content_of

_WHOLE = 1 << 32
"""Bytes up to which a file is read whole; reading a terabyte would keep a stream waiting for an hour."""
_PIECES, _PIECE = 256, 1 << 20
"""Pieces of a larger file that are read, spread evenly from its first byte to its last, and the bytes of each."""
_FILES = 2_000
"""Files of a folder whose contents are read, spread evenly over their names; of the others only names and sizes."""


def digest_of(path: Path) -> dict[str, Any] | None:
    """The size and a hash of a file or folder, to detect changes.

    Args:
        path: A regular file, read whole up to 4 GiB and in 256 pieces beyond; or a folder, by the names and sizes of
            all its files and the contents of at most 2,000.

    Returns:
        Plain values; None if it is missing, unreadable, or a pipe or device, which can be read only once.
    """
    with suppress(OSError):
        if path.is_dir():
            return _of_folder(path)
        if path.is_file():
            return _of_file(path)
    return None


def _of_file(path: Path) -> dict[str, Any]:
    size = path.stat().st_size
    if size <= _WHOLE:
        return content_of(path)
    hashed = hashlib.blake2b(digest_size=20)
    with path.open("rb") as file:
        for number in range(_PIECES):
            file.seek((size - _PIECE) * number // (_PIECES - 1))
            hashed.update(file.read(_PIECE))
    return {"bytes": size, "pieces": _PIECES, "blake2b": hashed.hexdigest()}


def _of_folder(path: Path) -> dict[str, Any]:
    sizes = dict(sorted(_sizes(path, "")))
    hashed, every = hashlib.blake2b(digest_size=20), -(-len(sizes) // _FILES)
    for number, (name, size) in enumerate(sizes.items()):
        hashed.update(f"{name}\0{size}\0".encode("utf-8", "surrogateescape"))
        if number % every == 0:
            hashed.update(_of_file(path / name)["blake2b"].encode())
    return {"files": len(sizes), "bytes": sum(sizes.values()), "blake2b": hashed.hexdigest()}


def _sizes(folder: Path, before: str) -> list[tuple[str, int]]:
    """Every visible file below a folder, by its name within, and its bytes."""
    found = []
    with os.scandir(folder) as entries:
        for entry in entries:
            if entry.name.startswith("."):
                continue
            if entry.is_dir(follow_symlinks=False):  # a link may lead back here
                found += _sizes(Path(entry.path), f"{before}{entry.name}/")
            elif entry.is_file():
                found.append((before + entry.name, entry.stat().st_size))
    return found
