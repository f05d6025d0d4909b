"""From decoded pictures to the input of a model: sizing, random changes in training, normalisation, storage.

| crop | part that the model sees |
|---|---|
| centre | the largest centred part of the model's shape, scaled |
| pad | the whole picture, scaled, centred between black borders |
| squash | the whole picture, scaled to the model's shape without keeping proportions |

Sized pictures are arrays `(batch, height, width, channels)` from 0 to 255. Each random number is a hash of (seed, pass,
example), so neither the order of drawing, nor threads, nor the other examples of the batch matter, and no generator is
needed for each picture.

Normalisation is of each channel over the training pictures: value = (pixel / 255 - mean) / deviation. A run's sizing
and normalisation are saved as `pictures.json`: size, channels, crop, levels, mean, deviation.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import asdict, dataclass
from functools import cached_property, partial
from pathlib import Path
from typing import Annotated, Literal, NamedTuple, Self

import numpy as np
import torch
from numpy.typing import NDArray
from PIL import Image
from pydantic import ConfigDict, Field
from torch import Tensor

from heed.config.sections import AugmentSection
from heed.data.examples import STEP, mixed
from heed.data.pictures.decode import Array, Decoded, Pixels, eight_bits, named, with_channels
from heed.errors import DataError
from heed.storage.disk import write_whole
from heed.storage.files import damaged, read_object, validated

Crop = Literal["centre", "pad", "squash"]
Resample = Literal["nearest", "bilinear", "bicubic", "lanczos"]

Indices = Sequence[int] | NDArray[np.int64]
FILE = "pictures.json"
Side = Annotated[int, Field(gt=0, le=1 << 14)]
"""Pixels of a side."""
Finite = Annotated[float, Field(allow_inf_nan=False)]
_SMALLEST, _LARGEST, _STEP = 32, 224, 16
"""Range and step in pixels of sizes chosen for pictures of several sizes; multiples of the step fit patches."""


class Box(NamedTuple):
    """A part of a picture, in pixels from its upper left corner; it extends beyond a padded picture.

    The model's pixel in row y and column x covers rows from `top + y * (bottom - top) / height` and columns from
    `left + x * (right - left) / width`, where height and width are the model's.
    """

    top: float
    left: float
    bottom: float
    right: float


@dataclass(frozen=True)
class Sizing:
    """Scaling and cropping of pictures to one size; `crop` is explained in the module docstring."""

    __pydantic_config__ = ConfigDict(extra="forbid")

    height: Side  # pixels from top to bottom
    width: Side  # pixels from left to right
    channels: int  # 1 for grey, 3 for red, green and blue
    crop: Crop = "centre"  # treatment of pictures of another shape
    resample: Resample = "bilinear"  # Pillow's filter for scaling, with smoothing when a picture becomes smaller
    # With crop centre, the shorter side is scaled to this number of pixels and the model's size is cut out of the
    # middle (for checkpoints that were evaluated with a margin); with crop squash, both sides are scaled to it first.
    # By default the cut is as large as possible
    shorter: Side | None = None
    levels: tuple[Finite, Finite] | None = None  # of pictures with more than 8 bits a value: over all training pictures

    @property
    def shape(self) -> tuple[int, int, int]:
        """Height, width, channels."""
        return self.height, self.width, self.channels

    def apply(self, picture: Decoded) -> Array:
        """A decoded picture as `(height, width, channels)`; unchanged if it has that shape and 8 bits a value."""
        picture = with_channels(eight_bits(picture, self.levels), self.channels)
        if picture.shape == self.shape and self.shorter is None:
            return picture
        image = Image.fromarray(np.ascontiguousarray(picture[:, :, 0] if self.channels == 1 else picture))
        return np.asarray(self._sized(image), dtype=np.uint8).reshape(self.shape)

    def apply_all(self, pictures: Iterable[Decoded]) -> Array:
        """Decoded pictures of any size as one array `(batch, height, width, channels)`."""
        return np.array([self.apply(picture) for picture in pictures], dtype=np.uint8).reshape(-1, *self.shape)

    def placed(self, original_size: tuple[int, int]) -> Box:
        """The part of an original of this height and width that the model sees."""
        height, width = original_size
        if self.crop == "centre" and self.shorter is None:
            return self._centre(height, width)
        top, left, inner_height, inner_width = self._inside(height, width)
        down, across = height / inner_height, width / inner_width  # pixels of the original for one of the result
        return Box(-top * down, -left * across, (self.height - top) * down, (self.width - left) * across)

    def _sized(self, image: Image.Image) -> Image.Image:
        resample = Image.Resampling[self.resample.upper()]
        if self.crop == "centre" and self.shorter is None:
            top, left, bottom, right = self._centre(image.height, image.width)
            return image.resize((self.width, self.height), resample, (left, top, right, bottom))
        top, left, inner_height, inner_width = self._inside(image.height, image.width)
        scaled = image.resize((inner_width, inner_height), resample)
        whole = Image.new(image.mode, (self.width, self.height))  # black
        whole.paste(scaled, (left, top))
        return whole

    def _centre(self, height: int, width: int) -> Box:
        """The largest centred box of the model's shape."""
        scale = min(height / self.height, width / self.width)
        inner_height, inner_width = self.height * scale, self.width * scale
        top, left = (height - inner_height) / 2, (width - inner_width) / 2
        return Box(top, left, min(top + inner_height, height), min(left + inner_width, width))

    def _inside(self, height: int, width: int) -> tuple[int, int, int, int]:
        """Row and column in the result at which the scaled original begins (negative if it is cut), and its size."""
        if self.crop == "pad":
            scale = min(self.height / height, self.width / width)
            inner_height, inner_width = (max(1, round(side * scale)) for side in (height, width))
            return (self.height - inner_height) // 2, (self.width - inner_width) // 2, inner_height, inner_width
        inner_height = inner_width = self.shorter or 0
        if self.crop == "squash" and self.shorter is None:
            inner_height, inner_width = self.height, self.width
        elif self.crop == "centre":
            longer = max(1, int(inner_height * max(height, width) / min(height, width)))  # down, as in torchvision
            inner_height, inner_width = (inner_height, longer) if height <= width else (longer, inner_width)
        return -((inner_height - self.height) // 2), -((inner_width - self.width) // 2), inner_height, inner_width


def settled_size(sizes: Sequence[tuple[int, int]]) -> tuple[int, int]:
    """Height and width chosen for pictures of these heights and widths, if the user gives none.

    Their own if all have the same size, of at most 224 pixels a side. Otherwise a square: the median of their shorter
    sides, rounded down to a multiple of 16, from 32 to 224.

    Raises:
        DataError: There are no pictures.
    """
    if not sizes:
        raise DataError("data.size is 'auto', but there are no pictures to choose a size from; set data.size")
    if len(set(sizes)) == 1 and max(sizes[0]) <= _LARGEST:
        return sizes[0]
    shorter = float(np.median([min(size) for size in sizes]))
    side = min(_LARGEST, max(_SMALLEST, int(shorter) // _STEP * _STEP))
    return side, side


_SIDES = (160, 112, 80, 56, 40, 32)
"""Shorter sides for a short time budget: about half of the pixels each time, and multiples of 8 for patches."""


def smaller_sizes(height: int, width: int) -> list[tuple[int, int]]:
    """A size and smaller ones of about its proportions, the largest first; the sides of smaller ones are 8 n."""
    shorter = min(height, width)
    scaled = [(round(height / shorter * side / 8) * 8, round(width / shorter * side / 8) * 8) for side in _SIDES]
    return [(height, width), *(size for size in scaled if min(size) < shorter)]


def uniform(seed: int, epoch: int, indices: Indices, use: str) -> NDArray[np.float64]:
    """A random number in [0, 1) for each example in one pass; each named use has separate numbers."""
    start, purpose = (
        np.frombuffer(hashlib.blake2b(text.encode(), digest_size=8).digest(), np.uint64)
        for text in (f"{seed} {epoch}", use)
    )
    states = mixed(mixed(np.asarray(indices, np.uint64) * STEP + start) + start)
    return (mixed(states ^ purpose) >> np.uint64(11)).astype(np.float64) * 2.0**-53


def flip(pictures: Array, chosen: NDArray[np.bool_]) -> Array:
    """Mirror the chosen pictures, left to right."""
    flipped = pictures.copy()
    flipped[chosen] = pictures[chosen][:, :, ::-1]
    return flipped


def crop(pictures: Array, border: int, tops: NDArray[np.int64], lefts: NDArray[np.int64]) -> Array:
    """Cut pictures of the same size out of pictures with a black border, at these rows and columns.

    Args:
        pictures: `(batch, height, width, channels)`.
        border: Pixels of black on each side.
        tops: First row of each, from 0 to `2 * border`.
        lefts: First column of each, from 0 to `2 * border`.

    Source: He et al. 2016, arXiv:1512.03385, section 4.2.
    """
    _, height, width, _ = pictures.shape
    wide = np.pad(pictures, ((0, 0), (border, border), (border, border), (0, 0)))
    corners = zip(wide, tops.tolist(), lefts.tolist(), strict=True)
    cut = [picture[top : top + height, left : left + width] for picture, top, left in corners]
    return np.array(cut, dtype=np.uint8).reshape(pictures.shape)


@dataclass(frozen=True)
class Augment:
    """The random changes of one run; they depend on (seed, pass, index of the picture) only."""

    config: AugmentSection
    seed: int

    def pictures(self, pictures: Array, indices: Indices, epoch: int) -> Array:
        """Change sized pictures `(batch, height, width, channels)` one by one: flip, then shift (crop)."""
        draw, border = partial(uniform, self.seed, epoch, indices), self.config.crop
        if self.config.flip:
            pictures = flip(pictures, draw("flip") < 0.5)
        if border:
            tops, lefts = ((draw(use) * (2 * border + 1)).astype(np.int64) for use in ("crop top", "crop left"))
            pictures = crop(pictures, border, tops, lefts)
        return pictures


@dataclass(frozen=True)
class Normalisation:
    """Mean and standard deviation of each channel, with pixel values from 0 to 1; deviation 1 for constant ones."""

    mean: tuple[Finite, ...]
    deviation: tuple[Annotated[Finite, Field(gt=0)], ...]

    @classmethod
    def of(cls, parts: Iterable[Array], channels: int) -> Self:
        """From parts `(batch, height, width, channels)`; computed from exact counts, so their order does not matter."""
        counts = np.zeros((channels, 256), dtype=np.int64)
        for part in parts:
            for channel in range(channels):
                counts[channel] += np.bincount(part[..., channel].reshape(-1), minlength=256)
        values = np.arange(256) / 255.0
        total = np.maximum(1, counts.sum(1))
        mean = counts @ values / total
        deviation = np.sqrt(np.maximum(0.0, (counts * (values - mean[:, None]) ** 2).sum(1) / total))
        # A channel with one pixel value is constant, whatever the rounding error of the mean.
        varies = (counts > 0).sum(1) > 1
        return cls(tuple(mean.tolist()), tuple(np.where(varies, deviation, 1.0).tolist()))

    def tensor(self, pictures: Array) -> Tensor:
        """Pictures `(batch, height, width, channels)` as float32 `(batch, channels, height, width)`."""
        scale, shift = self._line
        planes = torch.from_numpy(pictures).permute(0, 3, 1, 2)
        # Takes half the time of other ways to convert bytes to floats and move the channels.
        pixels = torch.empty(planes.shape).copy_(planes)
        return pixels.mul_(scale).add_(shift)

    @cached_property
    def _line(self) -> tuple[Tensor, Tensor]:
        """Factor and summand of a pixel, `(channels, 1, 1)` each."""
        scale = torch.tensor([1.0 / (255.0 * deviation) for deviation in self.deviation])
        shift = torch.tensor([-mean / deviation for mean, deviation in zip(self.mean, self.deviation, strict=True)])
        return scale.view(-1, 1, 1), shift.view(-1, 1, 1)


@dataclass(frozen=True)
class PictureForm:
    """Conversion of decoded pictures to model inputs: sizing, then normalisation."""

    sizing: Sizing
    normalisation: Normalisation

    def tensor(self, pictures: Iterable[Decoded]) -> Tensor:
        """Decoded pictures of any size as normalised float32 `(batch, channels, height, width)`."""
        return self.normalisation.tensor(self.sizing.apply_all(pictures))

    def save(self, folder: Path) -> None:
        """Write `pictures.json` into a run folder."""
        text = json.dumps(asdict(self.sizing) | asdict(self.normalisation), indent=1) + "\n"
        write_whole(folder / FILE, lambda part: part.write_text(text, encoding="utf-8"))

    @classmethod
    def load(cls, folder: Path) -> Self:
        """Read from the `pictures.json` of a run folder.

        Raises:
            RunError: The file is missing or damaged.
        """
        path = folder / FILE
        values = read_object(path)
        normal = {name: values.pop(name) for name in ("mean", "deviation") if name in values}
        sizing = validated(path, json.dumps(values), Sizing)
        normalisation = validated(path, json.dumps(normal), Normalisation)
        numbers = len(normalisation.mean), len(normalisation.deviation)
        if sizing.channels not in (1, 3) or numbers != (sizing.channels, sizing.channels):
            raise damaged(path, f"{sizing.channels} channels, but {numbers[0]} means, {numbers[1]} deviations")
        if sizing.levels is not None and sizing.levels[0] > sizing.levels[1]:
            low, high = sizing.levels
            raise damaged(path, f"the level {low:g} of black is above that of white, {high:g}")
        return cls(sizing, normalisation)


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
        return np.concatenate(list(self._pixels.each(changed, parts, chunk_size=1)))

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
