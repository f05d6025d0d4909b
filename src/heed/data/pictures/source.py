"""Pixels of pictures by place: files, idx files, data sets of the Hub, arrays in memory.

A place is a text: a path, or `train-images-idx3-ubyte.gz#17`, `memory:train#17`, `digits#17` (by number, from 0).
`Pixels` reads any of them in any order, from several threads at once and in forked processes.
"""

from __future__ import annotations

import hashlib
import os
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass
from itertools import islice
from pathlib import Path
from threading import Lock
from typing import Any, Protocol, TypeVar

import numpy as np
from numpy.typing import NDArray

from heed.data.pictures.decode import MAX_PIXELS, Decoded, PictureError, PictureFacts, decode, decoded, levels_of
from heed.data.pictures.files import SPLITS, is_hidden, is_idx, is_picture, read_idx, split_in
from heed.errors import DataError
from heed.storage.files import open_regular
from heed.threads import cores

T = TypeVar("T")
R = TypeVar("R")
_KEPT = 256 * 2**20
"""Most bytes of pixels that are kept between reading, when every picture is decoded, and training."""
_TOGETHER = 32
"""Pictures that one thread reads at a time."""
_OPENING = Lock()
"""Held while files are opened; of the module, so that a run can be copied by pickle."""


class Source(Protocol):
    """Many pictures by key; safe in threads and in forked processes."""

    def get(self, key: str) -> bytes | NDArray[Any]:
        """The bytes of the file of one picture, or its array.

        Raises:
            PictureError: There is no such picture, or it cannot be read.
        """
        ...


class Arrays:
    """Pictures in memory, by number: arrays, or one array of all."""

    def __init__(self, arrays: Sequence[NDArray[Any]] | NDArray[Any]) -> None:
        self.arrays = arrays

    def get(self, key: str) -> NDArray[Any]:
        """One array."""
        array: NDArray[Any] = self.arrays[int(key)]
        return array


class Pixels:
    """Reader of pictures by place."""

    def __init__(self, *, max_pixels: int = MAX_PIXELS, workers: int | str = "auto") -> None:
        """Arguments as in `data.max_pixels` and `data.workers`."""
        self.max_pixels = max_pixels
        self.workers = min(8, len(cores())) if workers == "auto" else int(workers)
        self._sources: dict[str, Source] = {}
        self._facts: dict[str, PictureFacts] = {}
        self._same: dict[PictureFacts, PictureFacts] = {}
        self._facts_of: dict[str, PictureFacts] = {}
        self._kept: dict[str, Decoded] = {}
        self._room = _KEPT

    @classmethod
    def of(cls, data: object, given: Mapping[str, Any] | None = None) -> Pixels:
        """Reader for a `data` section; `given` are pictures passed in Python, by split."""
        pixels = cls(max_pixels=getattr(data, "max_pixels", MAX_PIXELS), workers=getattr(data, "workers", "auto"))
        for held in (given or {}).values():
            for name, source in getattr(held, "sources", {}).items():
                pixels.add(name, source)
        return pixels

    def add(self, name: str, source: Source) -> None:
        """Add a source under a name: the part of its places before "#"."""
        self._sources[name] = source

    def get(self, place: str) -> bytes | NDArray[Any]:
        """The bytes of a file, or the array, at a place.

        Raises:
            PictureError: There is nothing readable at the place, which the message does not name.
        """
        source, key = self._find(place)
        if source is not None:
            return source.get(key)
        return bytes_of(Path(place))

    def _find(self, place: str) -> tuple[Source | None, str]:
        """The source of a place and the picture's key in it; None and the place for a separate file."""
        head, mark, number = place.rpartition("#")
        if mark and number.isdecimal():
            if head in self._sources:
                return self._sources[head], number
            if os.path.isfile(head) and not os.path.isfile(place):
                with _OPENING:
                    if head not in self._sources:
                        self._sources[head] = Arrays(read_idx(Path(head)))
                return self._sources[head], number
        return None, place

    def decode(self, place: str, channels: int | None = None) -> Decoded:
        """The pixels at one place.

        Raises:
            PictureError: As for `get` and `decode`.
        """
        kept = self._kept.get(place)
        return decode(self.get(place) if kept is None else kept, channels, max_pixels=self.max_pixels)

    def read(self, places: Sequence[str], channels: int | None = None) -> list[Decoded]:
        """The upright pixels at some places, each `(height, width, channels)`; `channels` as for `decode`.

        Raises:
            DataError: A picture cannot be read; the message names it and says why.
        """

        def one(place: str) -> Decoded:
            try:
                return self.decode(place, channels)
            except PictureError as error:
                raise DataError(f"'{place}' {error}") from None

        return list(self.each(one, places))

    def facts(self, places: Sequence[str]) -> list[PictureFacts]:
        """The sizes and channels of the pictures at some places, before sizing.

        Raises:
            DataError: A picture cannot be read; the message names it and says why.
        """

        def one(place: str) -> PictureFacts:
            try:
                return self.examine(place, self.get(place))
            except PictureError as error:
                raise DataError(f"'{place}' {error}") from None

        known = [self._facts.get(place) or self._facts_of.get(place.rpartition("#")[0]) for place in places]
        missing = iter(self.each(one, [place for place, facts in zip(places, known, strict=True) if facts is None]))
        return [next(missing) if facts is None else facts for facts in known]

    def examine(self, place: str, data: bytes | NDArray[Any]) -> PictureFacts:
        """Decode the data at a place; keep its facts, and the pixels of small pictures while there is room.

        Raises:
            PictureError: The data cannot be decoded.
        """
        pixels, notes = decoded(data, self.max_pixels)
        height, width, channels = pixels.shape
        facts = PictureFacts(height, width, channels, notes, levels_of(pixels))
        self._facts[place] = self._same.setdefault(facts, facts)
        if isinstance(data, bytes) and pixels.nbytes <= self._room:
            self._room -= pixels.nbytes
            self._kept[place] = pixels
        return facts

    def note_all(self, name: str, facts: PictureFacts) -> None:
        """Set the facts of all pictures of a source."""
        self._facts_of[name] = facts

    def forget(self, places: Iterable[str] | None = None) -> None:
        """Free pixels that were kept when pictures were read, by default of all pictures.

        They are decoded again when needed.
        """
        if places is None:
            self._kept = {}
            return
        for place in places:
            self._kept.pop(place, None)

    def each(self, function: Callable[[T], R], items: Iterable[T]) -> Iterator[R]:
        """`function` of every item, in order, computed by `workers` threads."""
        if self.workers == 0:
            yield from map(function, items)
            return
        rest = iter(items)
        first = list(islice(rest, _TOGETHER))
        if len(first) < _TOGETHER and len(first) < 2 * self.workers:
            yield from map(function, first)
            return

        def some(part: list[T]) -> list[R]:
            return [function(item) for item in part]

        size = _TOGETHER
        with ThreadPoolExecutor(self.workers, thread_name_prefix="pictures") as pool:
            waiting: deque[Future[list[R]]] = deque([pool.submit(some, first)])
            try:
                while waiting:
                    while len(waiting) < 2 * self.workers and (part := list(islice(rest, size))):
                        waiting.append(pool.submit(some, part))
                    yield from waiting.popleft().result()
            finally:
                for one in waiting:
                    one.cancel()


def bytes_of(path: Path) -> bytes:
    """The bytes of a picture's file.

    Raises:
        PictureError: The file cannot be read.
    """
    try:
        with open_regular(path) as file:
            return file.read()
    except FileNotFoundError:
        raise PictureError("missing file", "does not exist") from None
    except OSError as error:
        raise PictureError("unreadable file", f"cannot be read: {error.strerror or error}") from None


def picture_digest(data: bytes | NDArray[Any]) -> str:
    """A hash that identifies a picture: of its file's bytes, or of an array's shape and values."""
    digest = hashlib.blake2b(digest_size=16)
    if isinstance(data, bytes):
        digest.update(data)
    else:
        digest.update(repr(data.shape).encode())
        digest.update(np.ascontiguousarray(data).data)
    return digest.hexdigest()


Parts = tuple[str, ...]
"""A path inside a folder, part by part."""


@dataclass
class Listing:
    """The files in a folder, by name, without hidden ones."""

    path: str  # the path that was given
    prefix: str  # beginning of every place in it, with a separator at the end
    files: list[Parts]  # paths of the files inside it, sorted
    empty: list[Parts]  # folders without entries

    @classmethod
    def of(cls, path: str) -> Listing:
        """List a folder.

        Raises:
            DataError: It cannot be read.
        """
        files: list[Parts] = []
        empty: list[Parts] = []
        for parts, is_empty in _walk(Path(path), (), set()):
            (empty if is_empty else files).append(parts)
        return cls(path, f"{path.rstrip('/')}/", sorted(files), sorted(empty))

    @property
    def pictures(self) -> list[Parts]:
        """The files with names of pictures; all files if there are none."""
        return [parts for parts in self.files if is_picture(parts[-1])] or self.files

    @property
    def root(self) -> Parts:
        """The folder of the class folders: the outermost with several entries, or whose folders contain pictures."""
        root: Parts = ()
        inside = self.pictures
        while inside and all(len(parts) > len(root) + 2 for parts in inside):
            if len({parts[len(root)] for parts in inside}) > 1:
                break
            root = inside[0][: len(root) + 1]
        return root

    def place(self, parts: Parts) -> str:
        """The place of a file."""
        return self.prefix + "/".join(parts)

    def splits(self) -> dict[str, str]:
        """Split -> its folder, if there are folders such as train and test with class folders in them.

        Empty without a training folder or without another one.
        """
        root = self.root
        depth = len(root) + 1
        below = [parts for parts in self.pictures if parts[: len(root)] == root and len(parts) > depth]
        tops = sorted({parts[len(root)] for parts in below if len(parts) > depth + 1})
        found = {SPLITS[top.lower()]: top for top in tops if top.lower() in SPLITS}
        others = {parts[len(root)] for parts in below} - {top for top in tops if top.lower() in SPLITS}
        if "train" not in found or len(found) < 2 or any(top.lower() not in SPLITS for top in others):
            return {}
        return {split: self.prefix + "/".join((*root, top)) for split, top in found.items()}


def _walk(folder: Path, inside: Parts, above: set[tuple[int, int]]) -> Iterator[tuple[Parts, bool]]:
    """The files below a folder, following links, with False; and empty folders, with True."""
    try:
        stat = folder.stat()
        entries = sorted(os.scandir(folder), key=lambda entry: entry.name)
    except OSError as error:
        raise DataError(f"cannot read folder '{folder}': {error.strerror or error}") from None
    identity = (stat.st_dev, stat.st_ino)
    if identity in above:  # a link to an enclosing folder
        return
    shown = [entry for entry in entries if not is_hidden((entry.name,))]
    if not shown and inside:
        yield inside, True
    for entry in shown:
        parts = (*inside, entry.name)
        if entry.is_dir():
            yield from _walk(Path(entry.path), parts, above | {identity})
        else:
            yield parts, False


def bundles(path: str) -> dict[str, str]:
    """Split -> its idx file of pictures, in a folder of such files; else empty."""
    if not os.path.isdir(path):
        return {}
    files = sorted(entry.path for entry in os.scandir(path) if entry.is_file() and not is_hidden((entry.name,)))
    found: dict[str, str] = {}
    for file in files:
        name = os.path.basename(file)
        if "label" not in name and "idx1" not in name and is_idx(Path(file)):
            split = split_in(name) or ""
            if split in found:  # several files for the same split
                return {}
            found[split] = file
    return found
