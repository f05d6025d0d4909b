"""Pictures as pixels: any file or array as grey or red, green and blue, as it is displayed; and pictures by place.

| given | read as |
|---|---|
| black and white, grey, grey with transparency | one channel |
| palette | one channel if all its colours are grey, else three |
| transparent pixels | over white |
| CMYK, YCbCr, LAB, HSV | red, green and blue |
| grey of 16 or 32 bits a value, floating point | one channel of these numbers; `eight_bits` scales them |
| colours of 16 bits a value | the high byte, which is all that Pillow reads |
| rotated or mirrored by EXIF | upright |
| animated, several pages | the first picture |

Only formats that Pillow reads without other programs are opened.

A place is a text: a path, or `train-images-idx3-ubyte.gz#17`, `memory:train#17`, `digits#17` (by number, from 0).
`Pixels` reads any of them in any order, from several threads at once and in forked processes. Decoding and scaling
release Python's lock, so threads are as fast as processes, without copies between them.
"""

from __future__ import annotations

import hashlib
import io
import os
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from itertools import islice
from pathlib import Path
from threading import Lock, current_thread
from typing import Any, TypeVar

import numpy as np
from numpy.typing import NDArray
from PIL import Image, ImageOps, UnidentifiedImageError

from heed.data.pictures.files import PictureError, read_idx
from heed.errors import DataError
from heed.storage.files import open_regular
from heed.threads import cores

Array = NDArray[np.uint8]
"""Pixels `(height, width, channels)`, 1 or 3 channels."""
Decoded = NDArray[Any]
"""Pixels as `Array`, or grey `(height, width, 1)` of uint16, int32 or float32 from a file with more bits a value."""
Levels = tuple[float, float]
"""Values of more bits that become 0 and 255."""
MAX_PIXELS = 100_000_000
"""Default of `data.max_pixels`: pixels of the largest picture that is decoded."""
FORMATS = ("JPEG", "PNG", "GIF", "WEBP", "BMP", "TIFF", "PPM", "AVIF", "JPEG2000", "ICO", "QOI", "SGI")
"""Formats that are opened, by Pillow's names."""
_GREY = {"1", "L", "LA", "La"}
_WIDE: dict[str, np.dtype[Any]] = {"I;16": np.dtype("u2"), "I": np.dtype("i4"), "F": np.dtype("f4")}
"""Numbers of grey pictures with more than 8 bits a value, by Pillow's mode."""
_ALPHA = {"LA", "La", "PA", "RGBA", "RGBa"}
_pixel_bound_lock = Lock()


@dataclass(frozen=True, slots=True)
class PictureFacts:
    """Facts about a picture before it is sized: upright size in pixels, channels, and remarks on reading it."""

    height: int
    width: int
    channels: int  # 1 if it is grey, else 3
    notes: tuple[str, ...] = ()  # such as "animated, the first frame is used"
    levels: Levels | None = None  # least and largest finite value of a picture with more than 8 bits a value


def decode(data: bytes | NDArray[Any], channels: int | None = None, *, max_pixels: int = MAX_PIXELS) -> Decoded:
    """The pixels of a picture, upright, `(height, width, channels)`.

    Args:
        data: The bytes of its file, or an array: decoded, or 8-bit as for `from_array`.
        channels: 1 for grey (ITU-R 601 luma), 3 for red, green and blue; None for 1 if it is grey, else 3.
        max_pixels: Most pixels; a larger picture is refused before it is decoded.

    Raises:
        PictureError: The data is not a picture, cut off, damaged, or has too many pixels; the message is the reason.
    """
    return with_channels(decoded(data, max_pixels)[0], channels)


def decoded(data: bytes | NDArray[Any], max_pixels: int = MAX_PIXELS) -> tuple[Decoded, tuple[str, ...]]:
    """The pixels of a picture as for `decode`, and remarks on reading it.

    Raises:
        PictureError: As for `decode`.
    """
    if not isinstance(data, bytes):
        is_wide = data.ndim == 3 and data.shape[2] == 1 and data.dtype in _WIDE.values()
        return (data if is_wide else from_array(data)), ()
    if not data:
        raise PictureError("empty file", "is empty (0 bytes)")
    with _explains_damage(), _opened(data, max_pixels) as image:
        notes = []
        if getattr(image, "is_animated", False) and image.format in ("GIF", "PNG", "WEBP", "AVIF"):
            notes.append("animated, the first frame is used")
        if image.mode.startswith("I"):
            notes.append("16 bits a value, reduced to 8")
        elif any(";16" in str(tile) for tile in getattr(image, "tile", ())):  # as Pillow names such modes
            notes.append("colours of 16 bits a value, only the upper 8 are read")
        return from_pillow(image), tuple(notes)


def levels_of(pixels: Decoded) -> Levels | None:
    """The least and the largest finite value of a picture with more than 8 bits a value; None for others."""
    finite = pixels[np.isfinite(pixels)] if pixels.dtype != np.uint8 else pixels[:0]
    return (float(finite.min()), float(finite.max())) if finite.size else None


def eight_bits(pixels: Decoded, levels: Levels | None = None) -> Array:
    """Pixels of 8 bits: as they are, or those of more bits scaled so that `levels` become 0 and 255, others clipped.

    Without levels, the high byte of 16 bits; of floating point, 0 to 1 as 0 to 255 if nothing is larger.
    """
    if pixels.dtype == np.uint8:
        return pixels
    if levels is not None:
        low, high = levels
        inside = np.clip(np.where(np.isnan(pixels), low, pixels).astype(np.float64), low, high)
        values = np.rint((inside - low) * (255 / ((high - low) or 1)))
    elif pixels.dtype == np.float32:
        values = np.nan_to_num(pixels)
        values = np.rint(np.clip(values * (255 if values.max() <= 1 else 1), 0, 255))
    else:
        values = np.clip(pixels, 0, 65_535) >> 8
    return values.astype(np.uint8)


def with_channels(pixels: Decoded, channels: int | None) -> Decoded:
    """Pixels `(height, width, channels)`: grey repeated, or colours as luma; None leaves the channels as they are."""
    if channels is None or pixels.shape[2] == channels:
        return pixels
    if channels == 3:
        return np.repeat(pixels, 3, axis=2)
    return np.array(Image.fromarray(pixels, "RGB").convert("L"))[:, :, None]


def from_array(array: Any, is_unit: bool | None = None) -> Array:
    """An array or tensor as pixels `(height, width, 1 or 3)`.

    Values are 8-bit numbers, booleans, or numbers from 0 to 1 or from 0 to 255. The shape is `(height, width)`,
    `(height, width, 1 or 3)`, `(height, width, 4)` (transparent, over white) or `(1 or 3, height, width)`.

    Args:
        array: The array.
        is_unit: True if floating-point values are from 0 to 1; by default if none is larger.

    Raises:
        PictureError: The array has another shape or other values.
    """
    values = np.asarray(array)
    if values.ndim == 2:
        values = values[:, :, None]
    if values.ndim == 3 and values.shape[2] not in (1, 3, 4) and values.shape[0] in (1, 3):
        values = values.transpose(1, 2, 0)
    if values.ndim != 3 or values.shape[2] not in (1, 3, 4) or not values.size:
        raise PictureError(
            "not a picture",
            f"is an array of shape {np.asarray(array).shape}, expected (height, width) or (height, width, 3)",
        )
    if values.dtype == bool:
        values = values.astype(np.uint8) * np.uint8(255)
    pixels = np.ascontiguousarray(values) if values.dtype == np.uint8 else _as_bytes(values, is_unit)
    return pixels if values.shape[2] != 4 else _over_white(Image.fromarray(pixels, "RGBA"))


def _as_bytes(values: NDArray[Any], is_unit: bool | None) -> Array:
    """Numbers from 0 to 1 (floats only) or 0 to 255, as bytes."""
    if not np.issubdtype(values.dtype, np.number) or np.issubdtype(values.dtype, np.complexfloating):
        raise PictureError("not a picture", f"is an array of {values.dtype}, expected numbers from 0 to 255")
    lowest, highest = float(values.min()), float(values.max())
    scale = 255 if np.issubdtype(values.dtype, np.floating) and (highest <= 1 if is_unit is None else is_unit) else 1
    rounded = np.rint(values.astype(np.float64) * scale)
    if not (0 <= rounded.min() and rounded.max() <= 255):  # also False for NaN
        wider = "; give 16 bits as a Pillow image (Image.fromarray)" * (values.dtype == np.uint16)
        expected = f"expected 0 to 255, or 0 to 1{wider}"
        raise PictureError("not a picture", f"has values from {lowest:g} to {highest:g}, {expected}")
    return rounded.astype(np.uint8)


@contextmanager
def _explains_damage() -> Iterator[None]:
    """Context manager and decorator that reports any error as a damaged picture: Pillow's plugins raise any class.

    Raises:
        PictureError: As before, or for another error.
    """
    try:
        yield
    except (PictureError, MemoryError):
        raise
    except Exception as error:
        reason = " ".join(str(error).split()) or type(error).__name__
        raise PictureError("damaged picture", f"is cut off or damaged: {reason}") from None


def _opened(data: bytes, max_pixels: int) -> Image.Image:
    try:
        with _pixel_bound_lock:  # Pillow's own bound on pixels is global
            bound, Image.MAX_IMAGE_PIXELS = Image.MAX_IMAGE_PIXELS, None
            try:
                image = Image.open(io.BytesIO(data), formats=FORMATS)
            finally:
                Image.MAX_IMAGE_PIXELS = bound
    except UnidentifiedImageError:
        raise PictureError("not a picture", f"is not a picture: {_looks_like(data)}") from None
    width, height = image.size
    if width * height > max_pixels:
        raise PictureError(
            "too many pixels",
            f"has {width:,} x {height:,} = {width * height:,} pixels, more than data.max_pixels={max_pixels}",
        )
    return image


def _looks_like(data: bytes) -> str:
    """Description of the content of a file that is not a picture."""
    if data[4:12] in (b"ftypheic", b"ftypheix", b"ftypmif1", b"ftyphevc"):
        return "it is HEIC, which heed cannot read; save it as JPEG"
    return f"it begins with {data[:20]!r}"


@_explains_damage()
def from_pillow(image: Image.Image) -> Decoded:
    """A Pillow image as pixels, as it is displayed, whatever the camera's orientation.

    Raises:
        PictureError: The image is damaged.
    """
    image.load()  # may change its mode
    with suppress(Exception):  # a damaged EXIF block; the pixels are intact
        image = ImageOps.exif_transpose(image)
    if image.mode == "F" or image.mode.startswith("I"):
        return np.array(image, dtype=_WIDE.get(image.mode, _WIDE["I;16"]))[:, :, None]
    is_grey = image.mode in _GREY or (image.mode in ("P", "PA") and _is_grey(image))
    if image.mode in _ALPHA or "transparency" in image.info:
        pixels = _over_white(image.convert("RGBA"))
        return pixels[:, :, :1] if is_grey else pixels
    return np.array(image.convert("L"))[:, :, None] if is_grey else np.array(image.convert("RGB"))


def _is_grey(image: Image.Image) -> bool:
    """True if all colours of a palette are grey."""
    palette = np.asarray(image.getpalette("RGB") or [0, 0, 0]).reshape(-1, 3)
    return bool((palette == palette[:, :1]).all())


def _over_white(image: Image.Image) -> Array:
    """A transparent picture on a white page."""
    page = Image.new("RGBA", image.size, "white")
    return np.array(Image.alpha_composite(page, image).convert("RGB"))


T = TypeVar("T")
R = TypeVar("R")
_CHUNK = 8
"""Pictures that one thread reads at a time."""
_sources_lock = Lock()
"""Guards `Pixels.sources`; a global of the module, so that a run can be copied by pickle."""


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
            with _sources_lock:
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

    def each(self, function: Callable[[T], R], items: Iterable[T], chunk_size: int = _CHUNK) -> Iterator[R]:
        """`function` of every item, in order, computed by `workers` threads for `chunk_size` items at a time."""
        remaining = iter(items)
        parts = iter(lambda: list(islice(remaining, chunk_size)), [])
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
