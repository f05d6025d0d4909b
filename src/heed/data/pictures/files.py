"""Files of pictures: by name (pictures, archives, ignored ones), and the idx format of MNIST and similar sets.

An idx file has numbers of one type in any number of dimensions. Source: LeCun, Cortes and Burges, the MNIST database of
handwritten digits, "FILE FORMATS".
"""

from __future__ import annotations

import gzip
import re
import struct
import zlib
from collections.abc import Sequence
from math import prod
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from heed.errors import DataError
from heed.storage.files import open_regular
from heed.visible import shell_word


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
_ARCHIVE = re.compile(r"(.+?)\.(zip|tar|tar\.gz|tgz|tar\.bz2|tbz2?|tar\.xz|txz)", re.IGNORECASE)
_SYSTEM = {"thumbs.db", "desktop.ini", "__macosx", "icon\r"}


def is_picture(name: str) -> bool:
    """True if a name has the ending of a picture."""
    return Path(name).suffix.lower() in ENDINGS


def refuse_archive(path: Path | str) -> None:
    """Refuse an archive, recognised by its ending, with the command that unpacks it.

    Raises:
        DataError: It is an archive.
    """
    if (found := _ARCHIVE.fullmatch(Path(path).name)) is None:
        return
    module, folder = "zipfile" if found[2].lower() == "zip" else "tarfile", Path(path).with_name(found[1])
    command = f"python -m {module} -e {shell_word(path)} {shell_word(folder)}"
    raise DataError(f"'{path}' is an archive; unpack it and give the folder: {command}")


def is_hidden(parts: Sequence[str]) -> bool:
    """True if a file is hidden, or created by operating systems in folders of pictures."""
    return any(part.startswith(".") or part.lower() in _SYSTEM for part in parts)


def split_in(name: str) -> str | None:
    """The split that a file or folder name gives, as in "t10k-images-idx3-ubyte"."""
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
