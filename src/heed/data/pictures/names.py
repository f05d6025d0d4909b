"""File names: which are pictures, which are archives, and which are ignored."""

from __future__ import annotations

import re
from collections.abc import Sequence
from pathlib import Path

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
