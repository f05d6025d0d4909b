"""Pixels of pictures by place, and the sized pictures of a split, kept in memory if they fit.

A place is a text: a path, or `train-images-idx3-ubyte.gz#17`, `memory:train#17`, `digits#17` (by number, from 0).
`Pixels` reads any of them in any order, from several threads at once and in forked processes. Decoding and scaling
release Python's lock, so threads are as fast as processes, without copies between them.
"""

from __future__ import annotations

import hashlib
import os
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from itertools import islice
from pathlib import Path
from threading import Lock, current_thread
from typing import Any, TypeVar

import numpy as np
from numpy.typing import NDArray

from heed.data.pictures.decode import MAX_PIXELS, Array, Decoded, PictureFacts, decode, decoded, levels_of
from heed.data.pictures.files import PictureError, read_idx
from heed.data.pictures.sizing import Indices, Normalisation, Sizing
from heed.errors import DataError
from heed.storage.files import open_regular
from heed.threads import cores

T = TypeVar("T")
R = TypeVar("R")
_TOGETHER = 8
"""Pictures that one thread reads at a time."""
_OPENING = Lock()
"""Held while files are opened; of the module, so that a run can be copied by pickle."""


class Pixels:
    """Reader of pictures by place.

    `sources` have the pictures of places with a number, by the name before "#"; they are indexed by the number, safe in
    threads and in forked processes, and return the bytes of a file or an array. `examined` are facts about decoded
    pictures, by place. Where `problems` is a dictionary, a picture that cannot be read is black, and its error is kept
    there, by place.
    """

    def __init__(self, *, max_pixels: int = MAX_PIXELS, workers: int | str = "auto") -> None:
        """Arguments as in `data.max_pixels` and `data.workers`."""
        self.max_pixels = max_pixels
        self.workers = min(8, len(cores())) if workers == "auto" else int(workers)
        self.sources: dict[str, Any] = {}
        self.examined: dict[str, PictureFacts] = {}
        self.problems: dict[str, DataError] | None = None

    @classmethod
    def of(cls, data: object, python_data: Mapping[str, Any] | None = None) -> Pixels:
        """Reader for a `data` section; `python_data` are pictures passed in Python, by split."""
        pixels = cls(max_pixels=getattr(data, "max_pixels", MAX_PIXELS), workers=getattr(data, "workers", "auto"))
        for examples in (python_data or {}).values():
            pixels.sources |= getattr(examples, "sources", {})
        return pixels

    def get(self, place: str) -> bytes | NDArray[Any]:
        """The bytes of a file, or the array, at a place.

        Raises:
            PictureError: There is nothing readable at the place, which the message does not name.
        """
        name, _, number = place.rpartition("#")
        if number.isdecimal():
            with _OPENING:
                if name not in self.sources and os.path.isfile(name) and not os.path.isfile(place):
                    self.sources[name] = read_idx(Path(name))
            if name in self.sources:
                data: bytes | NDArray[Any] = self.sources[name][int(number)]
                return data
        try:
            with open_regular(Path(place)) as file:
                return file.read()
        except FileNotFoundError:
            raise PictureError("missing file", "does not exist") from None
        except OSError as error:
            raise PictureError("unreadable file", f"cannot be read: {error.strerror or error}") from None

    def decode(self, place: str) -> Decoded:
        """The upright pixels at one place, `(height, width, channels)`.

        Raises:
            PictureError: As for `get` and the function `decode`.
        """
        try:
            return decode(self.get(place), max_pixels=self.max_pixels)
        except DataError as error:
            if self.problems is None:
                raise
            self.problems[place] = error
            return np.zeros((1, 1, 1), np.uint8)

    def read(self, places: Sequence[str]) -> list[Decoded]:
        """The pixels at some places, as for `decode`.

        Raises:
            DataError: A picture cannot be read; the message names it and says why.
        """
        return list(self.each(named(self.decode), places))

    def facts(self, places: Sequence[str]) -> list[PictureFacts]:
        """The sizes and channels of the pictures at some places, before sizing.

        Raises:
            DataError: A picture cannot be read; the message names it and says why.
        """
        unknown = [place for place in places if place not in self.examined]
        for _ in self.each(named(lambda place: self.examine(place, self.get(place))), unknown):
            pass
        return [self.examined[place] for place in places]

    def examine(self, place: str, data: bytes | NDArray[Any]) -> PictureFacts:
        """Decode the data at a place and keep its facts.

        Raises:
            PictureError: The data cannot be decoded.
        """
        pixels, notes = decoded(data, self.max_pixels)
        height, width, channels = pixels.shape
        facts = PictureFacts(height, width, channels, notes, levels_of(pixels))
        self.examined[place] = facts
        return facts

    def each(self, function: Callable[[T], R], items: Iterable[T], together: int = _TOGETHER) -> Iterator[R]:
        """`function` of every item, in order, computed by `workers` threads for `together` items at a time."""
        remaining = iter(items)
        parts = iter(lambda: list(islice(remaining, together)), [])
        pool = ThreadPoolExecutor(max(1, self.workers), thread_name_prefix="pictures")
        try:
            while some := list(islice(parts, max(1, 8 * self.workers))):
                apply = pool.map if self.workers and len(some) > 1 else map
                for results in apply(lambda part: [function(item) for item in part], some):
                    yield from results
        finally:  # after an error the garbage collector may close it in one of these threads, which cannot join itself
            pool.shutdown(wait=not current_thread().name.startswith("pictures"))


def named(read: Callable[[str], R]) -> Callable[[str], R]:
    """A function of a place whose errors name it.

    Raises:
        DataError: For a `PictureError`.
    """

    def read_named(place: str) -> R:
        try:
            return read(place)
        except PictureError as error:
            raise DataError(f"'{place}' {error}") from None

    return read_named


def picture_digest(data: bytes | NDArray[Any]) -> str:
    """A hash that identifies a picture: of its file's bytes, or of an array's shape and values."""
    if isinstance(data, bytes):
        return hashlib.blake2b(data, digest_size=16).hexdigest()
    digest = hashlib.blake2b(repr(data.shape).encode(), digest_size=16)
    digest.update(np.ascontiguousarray(data).data)
    return digest.hexdigest()


Change = Callable[[Array, Indices], Array]
"""Changes sized pictures `(batch, height, width, channels)`, given with their indices, independently of each other."""

_PART = 1_000
"""Pictures processed at a time."""
_SAMPLE = 2_000
"""Evenly spread pictures from which the normalisation of a set that is not kept is computed."""
_SHARED = 2**20
"""Values of a batch's pictures from which on several threads change them."""


class PictureStore:
    """Sized pictures by index; results do not depend on memory or on the number of threads."""

    def __init__(self, pixels: Pixels, places: Sequence[str], sizing: Sizing, in_memory: int = 2_000) -> None:
        """Store the pictures at these places.

        Args:
            pixels: Reader of the pictures, with `workers` threads.
            places: Places of the pictures.
            sizing: Sizing to one size.
            in_memory: Megabytes; if the sized pictures need no more, they are kept, and each is decoded once.
        """
        self.sizing = sizing
        self._places, self._pixels = places, pixels
        self._values = sizing.height * sizing.width * sizing.channels
        self.is_kept = len(places) * self._values <= in_memory * 10**6
        self._kept = np.empty((len(places) if self.is_kept else 0, *sizing.shape), dtype=np.uint8)
        self._known = np.zeros(len(places), dtype=bool)

    def __len__(self) -> int:
        return len(self._places)

    def take(self, indices: Indices, change: Change | None = None) -> Array:
        """The pictures at these indices, each changed by `change`, `(batch, height, width, channels)`.

        Raises:
            DataError: A picture can no longer be read; the message names it.
        """
        every, workers = np.asarray(indices, dtype=np.int64), self._pixels.workers
        is_fast = self._known[every].all() and (change is None or len(every) * self._values < _SHARED)
        is_shared = workers > 1 and len(every) >= 2 * workers and not is_fast

        def changed(part: NDArray[np.int64]) -> Array:
            pictures = self._sized(part)
            return pictures if change is None else change(pictures, part)

        if not is_shared:
            return changed(every)
        parts = np.array_split(every, 2 * workers)  # some are slower than others
        return np.concatenate(list(self._pixels.each(changed, parts, together=1)))

    def select(self, indices: Sequence[int]) -> PictureStore:
        """The pictures at these indices, none of them kept."""
        return PictureStore(self._pixels, [self._places[i] for i in indices], self.sizing, in_memory=0)

    def skip_reading(self) -> None:
        """Take any values for the pixels of pictures that are kept: a trial measures no reading."""
        self._known[:] = self.is_kept

    def parts(self, indices: Sequence[int] | None = None) -> Iterator[Array]:
        """The pictures at these indices, by default all, some at a time."""
        chosen = range(len(self)) if indices is None else indices
        for start in range(0, len(chosen), _PART):
            yield self.take(chosen[start : start + _PART])

    def normalisation(self) -> Normalisation:
        """Mean and deviation of each channel over all pictures, or over 2,000 of them if they are not kept."""
        sample = None
        if not self.is_kept and len(self) > _SAMPLE:
            sample = [i * len(self) // _SAMPLE for i in range(_SAMPLE)]
        return Normalisation.of(self.parts(sample), self.sizing.channels)

    def _sized(self, indices: NDArray[np.int64]) -> Array:
        """The pictures, read one by one, so that only one in its original size is in memory."""
        read = named(self._pixels.decode)
        if not self.is_kept:
            return self.sizing.apply_all(read(self._places[i]) for i in indices.tolist())
        for i in indices[~self._known[indices]].tolist():
            self._kept[i] = self.sizing.apply(read(self._places[i]))
            self._known[i] = True  # set last, since another thread may read it
        return self._kept[indices]
