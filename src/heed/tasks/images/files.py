"""Pictures named on the command line: files, folders, patterns, archives, idx files."""

from __future__ import annotations

import glob
import os
from collections.abc import Iterable, Sequence
from pathlib import Path

from heed.data.pictures.archives import open_archive
from heed.data.pictures.idx import is_idx, read_idx
from heed.data.pictures.names import is_archive, is_hidden, is_picture
from heed.errors import ConfigError


def places_of(names: Iterable[str]) -> list[str]:
    """The place of each named picture, in order; files need not exist.

    Raises:
        ConfigError: A folder or an archive contains no picture, or no file matches a pattern.
        DataError: An archive cannot be read.
    """
    return [place for name in names for place in _places(name)]


def _places(name: str) -> Sequence[str]:
    path = Path(name)
    if path.is_dir():
        return _inside(path)
    if path.is_file():
        if is_archive(path):
            found = [one for one in open_archive(path).names if is_picture(one) and not is_hidden(one.split("/"))]
            if not found:
                raise ConfigError(f"'{name}' contains no pictures")
            return [f"{name}!{one}" for one in sorted(found)]
        if not is_picture(name) and is_idx(path):
            return [f"{name}#{i}" for i in range(len(read_idx(path)))]
        return [name]
    if glob.has_magic(name):
        matching = sorted(glob.glob(name, recursive=True))
        if not matching:
            raise ConfigError(f"no file matches '{name}'")
        return [place for one in matching for place in ([one] if Path(one).is_file() else _inside(Path(one)))]
    return [name]


def _inside(folder: Path) -> list[str]:
    """The pictures in a folder at any depth, by file extension; hidden files and folders are left out."""
    found = []
    for root, folders, files in os.walk(folder):
        folders[:] = sorted(one for one in folders if not is_hidden([one]))
        found += [os.path.join(root, one) for one in files if is_picture(one) and not is_hidden([one])]
    if not found:
        raise ConfigError(f"folder '{folder}' contains no pictures (files that end in .jpg, .png and so on)")
    return sorted(found)
