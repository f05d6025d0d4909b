"""Files of pictures: by name (pictures, archives, ignored ones), the idx format of MNIST and similar sets, archives.

An idx file has numbers of one type in any number of dimensions. Source: LeCun, Cortes and Burges, the MNIST database of
handwritten digits, "FILE FORMATS".

Archives are read in place: zip and plain tar by offset, compressed tar unpacked once. The members of a compressed tar
stay in memory if they are small together; a larger tar is unpacked into a file of the cache folder, keyed by its
content.
"""

from __future__ import annotations

import gzip
import json
import os
import re
import struct
import tarfile
import weakref
import zipfile
import zlib
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from math import prod
from pathlib import Path
from threading import Lock
from typing import Any

import numpy as np
from numpy.typing import NDArray

from heed.errors import DataError
from heed.storage.cache import contents_of, find_entry, key_of, make_entry
from heed.storage.files import open_regular


class PictureError(DataError):
    """A picture cannot be used; the message is the reason without the file, `rule` the rule that counts it."""

    def __init__(self, rule: str, reason: str) -> None:
        super().__init__(reason)
        self.rule = rule


ENDINGS = frozenset(
    ".jpg .jpeg .jpe .jfif .png .apng .gif .webp .bmp .dib .tif .tiff .ppm .pgm .pbm .pnm .avif .jp2 .j2k .jpx "
    ".ico .qoi .sgi .heic .heif".split()
)
"""Endings of picture files; the format is recognised from the content, whatever the ending."""
SPLITS = {
    **dict.fromkeys(("train", "training"), "train"),
    **dict.fromkeys(("valid", "val", "validation", "dev"), "valid"),
    **dict.fromkeys(("test", "testing", "t10k"), "test"),
}
"""Words in names of folders and files -> their split."""
_ARCHIVE = re.compile(r"(.*?\.(?:zip|tar|tar\.gz|tgz|tar\.bz2|tbz2?|tar\.xz|txz))!(.*)", re.IGNORECASE | re.DOTALL)
_SYSTEM = {"thumbs.db", "desktop.ini", "__macosx", "icon\r"}


def is_picture(name: str) -> bool:
    """True if a name has the ending of a picture."""
    return Path(name).suffix.lower() in ENDINGS


def is_archive(path: Path | str) -> bool:
    """True if a file is an archive, by its ending."""
    return _ARCHIVE.fullmatch(f"{Path(path).name}!") is not None


def archive_in(place: str) -> tuple[str, str] | None:
    """A place such as "photos.zip!cat/1.jpg" as archive and member; None for another place."""
    found = _ARCHIVE.fullmatch(place)
    return None if found is None else (found.group(1), found.group(2))


def is_hidden(parts: Sequence[str]) -> bool:
    """True if a file is hidden, or created by operating systems in folders of pictures."""
    return any(part.startswith(".") or part.lower() in _SYSTEM for part in parts)


def split_in(name: str) -> str | None:
    """The split that a file or folder name gives, as in "cifar10_train.tar.gz" or "t10k-images-idx3-ubyte"."""
    found = {SPLITS[word] for word in re.split(r"[^a-z0-9]+", name.lower()) if word in SPLITS}
    return found.pop() if len(found) == 1 else None


_NUMBERS = {0x08: "uint8", 0x09: "int8", 0x0B: "int16", 0x0C: "int32", 0x0D: "float32", 0x0E: "float64"}
_GZIP = b"\x1f\x8b"


def is_idx(path: Path) -> bool:
    """True if a file begins like an idx file: two zero bytes, a type, a number of dimensions."""
    try:
        with open_regular(path) as file:
            head = file.read(4)
            if head.startswith(_GZIP):
                file.seek(0)
                head = gzip.GzipFile(fileobj=file).read(4)
    except (OSError, EOFError, zlib.error):
        return False
    return len(head) == 4 and head[:2] == b"\0\0" and head[2] in _NUMBERS and 1 <= head[3] <= 4


def read_idx(path: Path) -> NDArray[np.uint8]:
    """The bytes of an idx file, gzipped or not: pictures `(number, height, width[, channels])`, or labels `(number,)`.

    Raises:
        DataError: The file cannot be read, is not an idx file of bytes, or is cut off.
    """
    try:
        with open_regular(path) as file:
            data = file.read()
        data = gzip.decompress(data) if data.startswith(_GZIP) else data
    except FileNotFoundError:
        raise DataError(f"no file '{path}'") from None
    except OSError as error:
        raise DataError(f"cannot read '{path}': {error.strerror or error}") from None
    except (EOFError, zlib.error) as error:
        raise DataError(f"'{path}' is cut off or damaged: {error}") from None
    if len(data) < 4 or data[:2] != b"\0\0" or data[2] not in _NUMBERS:
        raise DataError(
            f"'{path}' is not an idx file: it begins with {data[:4].hex(' ') or 'nothing'}, expected 00 00 08"
        )
    if data[2] != 0x08:
        raise DataError(f"'{path}' contains numbers of type {_NUMBERS[data[2]]}, expected bytes (00 00 08)")
    dimensions = data[3]
    start = 4 + 4 * dimensions
    if len(data) < start:
        raise DataError(f"'{path}' is cut off: its header has {len(data)} bytes, expected {start}")
    shape = struct.unpack(f">{dimensions}I", data[4:start])
    if len(data) - start != prod(shape):
        what = " x ".join(f"{size:,}" for size in shape)
        raise DataError(
            f"'{path}' is cut off or damaged: {what} bytes are {prod(shape):,}, but {len(data) - start:,} follow its "
            "header"
        )
    return np.frombuffer(data, np.uint8, offset=start).reshape(shape)


def labels_beside(images: Path) -> list[Path]:
    """Possible files of a picture file's labels: its name with "labels" for "images" and "idx1" for "idx3"."""
    name = images.name
    changed = {re.sub("images", "labels", name.replace("idx3", "idx1")), re.sub("image", "label", name)}
    stems = {re.sub(r"\.gz$", "", one) for one in changed if one != name}
    found = [images.with_name(stem + ending) for stem in sorted(stems) for ending in ("", ".gz")]
    return found


_SMALL = 256 * 2**20
"""Most bytes of unpacked members that stay in memory."""
_LARGEST = 2**30
"""Most bytes of a member; a zip can declare more than fits in memory."""


class Archive:
    """The members of one archive, by name.

    `names` are its regular files, in order; `problem` says why it ends too soon, else "".
    """

    _members: Mapping[str, Any]

    def __init__(self, path: Path) -> None:
        self.path = path
        self.problem = ""

    @property
    def names(self) -> list[str]:
        """Names of its regular files."""
        return list(self._members)

    def get(self, key: str) -> bytes:
        """The bytes of a member.

        Raises:
            PictureError: There is no such member, or it cannot be read.
        """
        raise NotImplementedError


class ZipPictures(Archive):
    """A zip archive."""

    def __init__(self, path: Path) -> None:
        super().__init__(path)
        self._files: dict[int, zipfile.ZipFile] = {}
        self._lock = Lock()
        self._members = {one.filename.replace("\\", "/"): one for one in self._file().infolist() if not one.is_dir()}

    def _file(self) -> zipfile.ZipFile:
        """The file as opened by this process, since forked processes would share its position."""
        with self._lock:
            if os.getpid() not in self._files:
                try:
                    self._files = {os.getpid(): zipfile.ZipFile(self.path)}
                except (zipfile.BadZipFile, NotImplementedError) as error:
                    raise DataError(f"'{self.path}' is not a zip archive, or is cut off: {error}") from None
            return self._files[os.getpid()]

    def get(self, key: str) -> bytes:
        member = self._members.get(key)
        if member is None:
            raise PictureError("missing file", f"is not in {self.path.name}")
        if member.flag_bits & 1:
            raise PictureError("encrypted file", "is encrypted; unpack the archive with its password")
        if member.file_size > _LARGEST:
            raise PictureError("too large", f"has {member.file_size:,} bytes, more than any picture")
        try:
            return self._file().read(member)
        except (zipfile.BadZipFile, zlib.error, EOFError, OSError, NotImplementedError, RuntimeError) as error:
            raise PictureError("damaged picture", f"cannot be unpacked: {error}") from None


class TarPictures(Archive):
    """A plain tar, or the unpacked content of a compressed one: bytes in a file or in memory, by offset."""

    def __init__(
        self, path: Path, members: Mapping[str, tuple[int, int]], held: Path | bytearray, problem: str = ""
    ) -> None:
        super().__init__(path)
        self._members, self.problem = members, problem
        self._held = held if isinstance(held, bytearray) else os.open(held, os.O_RDONLY)
        if isinstance(self._held, int):
            weakref.finalize(self, os.close, self._held)

    def get(self, key: str) -> bytes:
        if key not in self._members:
            raise PictureError("missing file", f"is not in {self.path.name}")
        start, size = self._members[key]
        if isinstance(self._held, bytearray):
            return bytes(memoryview(self._held)[start : start + size])
        try:
            data = os.pread(self._held, size, start)
        except OSError as error:
            raise PictureError("unreadable file", f"cannot be read: {error.strerror or error}") from None
        if len(data) < size:
            raise PictureError("damaged picture", f"is cut off: only {len(data):,} of its {size:,} bytes are present")
        return data


def open_archive(path: Path) -> Archive:
    """Open an archive, unpacking a compressed tar.

    Raises:
        DataError: The file is missing or not an archive, or the cache folder has no room for its content.
    """
    try:
        with open_regular(path) as file:
            magic = file.read(6)
        if zipfile.is_zipfile(path):
            return ZipPictures(path)
        if magic[:2] == b"\x1f\x8b" or magic[:3] == b"BZh" or magic == b"\xfd7zXZ\0":
            return _unpacked(path)
        return _plain(path)
    except FileNotFoundError:
        raise DataError(f"no file '{path}'") from None
    except IsADirectoryError:
        raise DataError(f"'{path}' is a folder; expected an archive") from None
    except OSError as error:
        raise DataError(f"cannot read '{path}': {error.strerror or error}") from None


def _plain(path: Path) -> TarPictures:
    members: dict[str, tuple[int, int]] = {}
    problem = ""
    try:
        with tarfile.open(path, "r:") as tar:
            for member in tar:
                if member.isreg():
                    members[_clean(member.name)] = (member.offset_data, member.size)
    except tarfile.TarError as error:
        problem = str(error)
    if not members:
        raise DataError(f"'{path}' is not a readable archive{f': {problem}' if problem else ', or is empty'}")
    size = path.stat().st_size
    if any(start + length > size for start, length in members.values()):
        problem = "unexpected end of data"
    return TarPictures(path, members, path, problem)


@dataclass
class _Unpacking:
    """State of unpacking a compressed tar."""

    members: dict[str, tuple[int, int]] = field(default_factory=dict)
    size: int = 0
    problem: str = ""

    def read(self, path: Path, write: Callable[[bytes], object]) -> Iterator[int]:
        """Write the members one after the other; yields the total size after each."""
        try:
            with tarfile.open(path, "r|*") as tar:
                for member in tar:
                    if not member.isreg() or member.size > _LARGEST:
                        continue
                    file = tar.extractfile(member)
                    data = b"" if file is None else file.read()
                    if len(data) < member.size:
                        raise EOFError(f"'{member.name}' has {len(data):,} of its {member.size:,} bytes")
                    write(data)
                    self.members[_clean(member.name)] = (self.size, len(data))
                    self.size += len(data)
                    yield self.size
        except (tarfile.TarError, EOFError, zlib.error, OSError) as error:
            if isinstance(error, OSError) and error.errno is not None and not isinstance(error, EOFError):
                raise
            self.problem = str(error) or type(error).__name__


def _unpacked(path: Path) -> TarPictures:
    """A compressed tar, with its members in memory or, if they are large, in the cache folder."""
    contents = contents_of([path]) if path.stat().st_size > _SMALL // 4 else None
    key = None if contents is None else key_of(kind="pictures", contents=contents)
    entry = None if key is None else find_entry(key)
    if entry is None:
        unpacking, held = _Unpacking(), bytearray()
        if all(size <= _SMALL for size in unpacking.read(path, held.extend)):
            if not unpacking.members:
                why = unpacking.problem or "it contains no file"
                raise DataError(f"'{path}' is not a readable archive: {why}")
            return TarPictures(path, unpacking.members, held, unpacking.problem)
        del held

        def make(folder: Path) -> dict[str, Any]:
            whole = _Unpacking()
            with (folder / "members.bin").open("wb") as file:
                for _ in whole.read(path, file.write):
                    pass
            (folder / "members.json").write_text(json.dumps(whole.members), encoding="utf-8")
            return {"problem": whole.problem, "file": str(path.absolute())}

        entry = make_entry(key or key_of(kind="pictures", contents=contents_of([path])), make)
    members = json.loads((entry.path / "members.json").read_text(encoding="utf-8"))
    known = {name: (start, size) for name, (start, size) in members.items()}
    return TarPictures(path, known, entry.path / "members.bin", entry.record["problem"])


def _clean(name: str) -> str:
    """The name of a member without a leading "./"."""
    return name.removeprefix("./").replace("\\", "/")
