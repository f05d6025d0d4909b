"""Recognition of pictures in a file or folder given to a task of texts or numbers, from a small part of it."""

from __future__ import annotations

import os
import tarfile
import zipfile
import zlib
from collections.abc import Iterable, Iterator
from itertools import islice
from pathlib import Path

from heed.data.pictures.idx import is_idx
from heed.data.pictures.names import is_archive, is_hidden, is_picture
from heed.data.read.columns import facts_of
from heed.data.read.contents import Content
from heed.data.read.findings import Findings
from heed.data.read.head import Head, is_table, regular_rows
from heed.errors import DataError

_LOOKED_AT = 50
"""Files of a folder or an archive whose names are examined."""
_FILES = 1_000
"""Entries of folders after which no further folder is examined."""


def picture_content(path: Path) -> Content | None:
    """Description of a file or folder of pictures, for messages; None for anything else."""
    try:
        if path.is_dir():
            return _of_names(_files(path), "it is a folder of pictures")
        if not path.is_file():
            return None
        if is_picture(path.name):
            return Content("pictures", "it is a picture")
        if is_archive(path):
            members = ((name, is_picture(name)) for name in _members(path))
            return _of_names(members, "it is an archive of pictures")
        if is_idx(path):
            return Content("pictures", "it is an idx file, like those of MNIST")
        return _of_table(path) if is_table(path) else None
    except (OSError, DataError, EOFError, zlib.error, tarfile.TarError, zipfile.BadZipFile):
        return None  # reading the file reports why


def _of_names(files: Iterable[tuple[str, bool]], why: str) -> Content | None:
    """The content of files if most are pictures; each is given with True if it is one."""
    some = list(islice(files, _LOOKED_AT))
    found = [name for name, is_one in some if is_one]
    return Content("pictures", f"{why} (as {found[0]})") if len(found) * 2 > len(some) else None


def _files(folder: Path) -> Iterator[tuple[str, bool]]:
    """Names of files below a folder, each with True if it is a picture or contains pictures."""
    looked = 0
    for where, folders, files in os.walk(folder):
        folders[:] = sorted(name for name in folders if not is_hidden((name,)))
        for name in sorted(files):
            if is_hidden((name,)):
                continue
            file = Path(where, name)
            holds = (is_archive(file) or is_idx(file)) and picture_content(file) is not None
            yield file.relative_to(folder).as_posix(), holds or is_picture(name)
        looked += len(files) + len(folders)
        if looked > _FILES:
            return


def _members(path: Path) -> Iterator[str]:
    """Names of files in an archive, in their order."""
    if zipfile.is_zipfile(path):
        with zipfile.ZipFile(path) as archive:
            yield from (one.filename for one in archive.infolist() if _shown(one.filename) and not one.is_dir())
    else:
        with tarfile.open(path, "r|*") as tar:
            yield from (one.name for one in tar if one.isreg() and _shown(one.name))


def _shown(name: str) -> bool:
    return not is_hidden(tuple(part for part in name.split("/") if part not in ("", ".")))


def _of_table(path: Path) -> Content | None:
    """The content of a table with a column of picture names and no texts."""
    head = Head.of(path, Findings("skip"))
    separator = head.separator("\t" if path.suffix == ".tsv" else ",") if head.filled else None
    if separator is None:
        return None
    rows = regular_rows(head.rows(separator))
    columns = facts_of(rows[1:], rows[0])
    named = [one for one in columns if one.first and all(map(is_picture, one.first))]
    if not named or any(one.words > 2 for one in columns):
        return None
    return Content("pictures", f"its column '{named[0].name}' names pictures (as {named[0].first[0]})")
