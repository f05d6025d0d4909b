"""What names say of files: which are pictures, which are archives, and which nobody means."""

from __future__ import annotations

import re
from collections.abc import Sequence
from pathlib import Path

ENDINGS = frozenset(
    ".jpg .jpeg .jpe .jfif .png .apng .gif .webp .bmp .dib .tif .tiff .ppm .pgm .pbm .pnm .avif .jp2 .j2k .jpx "
    ".ico .qoi .sgi .heic .heif".split()
)
"""Endings of files that are surely meant to be pictures; a file is opened by what it holds, whatever its ending."""
SPLITS = {
    **dict.fromkeys(("train", "training"), "train"),
    **dict.fromkeys(("valid", "val", "validation", "dev"), "valid"),
    **dict.fromkeys(("test", "testing", "t10k"), "test"),
}
"""Words in names of folders and files -> the set that they hold."""
_ARCHIVE = re.compile(r"(.*?\.(?:zip|tar|tar\.gz|tgz|tar\.bz2|tbz2?|tar\.xz|txz))!(.*)", re.IGNORECASE | re.DOTALL)
_SYSTEM = {"thumbs.db", "desktop.ini", "__macosx", "icon\r"}


def is_picture(name: str) -> bool:
    """Whether a name ends as that of a picture."""
    return Path(name).suffix.lower() in ENDINGS


def is_archive(path: Path | str) -> bool:
    """Whether a file is an archive, by its ending."""
    return _ARCHIVE.fullmatch(f"{Path(path).name}!") is not None


def archive_in(place: str) -> tuple[str, str] | None:
    """A place such as "photos.zip!cat/1.jpg" as archive and member; None where it is none."""
    found = _ARCHIVE.fullmatch(place)
    return None if found is None else (found.group(1), found.group(2))


def is_hidden(parts: Sequence[str]) -> bool:
    """Whether a file is hidden, or one that systems leave in folders of pictures."""
    return any(part.startswith(".") or part.lower() in _SYSTEM for part in parts)


def split_in(name: str) -> str | None:
    """The set that a file or folder holds by its name, as "cifar10_train.tar.gz" and "t10k-images-idx3-ubyte"."""
    found = {SPLITS[word] for word in re.split(r"[^a-z0-9]+", name.lower()) if word in SPLITS}
    return found.pop() if len(found) == 1 else None
