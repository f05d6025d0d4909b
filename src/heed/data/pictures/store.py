"""The pictures of a split in a model's form, kept in memory if they fit, else decoded on access; and their batches.

A run's sizing and normalisation are saved as `pictures.json`: size, channels, crop, levels, mean, deviation.
"""

from __future__ import annotations

import json
import math
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import asdict, dataclass
from functools import partial
from pathlib import Path
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray
from pydantic import TypeAdapter, ValidationError
from torch import Tensor

from heed.data.batch import Batch
from heed.data.pictures.augmentation import Augment
from heed.data.pictures.decode import Array, Decoded
from heed.data.pictures.sizing import Normalisation, Sizing
from heed.data.pictures.source import Pixels
from heed.storage.disk import write_whole
from heed.storage.files import damaged, read_object

FILE = "pictures.json"
_WIDEST = 1 << 14
"""Most pixels of a side."""


@dataclass(frozen=True)
class PictureForm:
    """Conversion of decoded pictures to model inputs: sizing, then normalisation."""

    sizing: Sizing
    normalisation: Normalisation

    def sized(self, pictures: Sequence[Decoded]) -> Array:
        """Decoded pictures of any size as one array `(batch, height, width, channels)`."""
        if not pictures:
            return np.empty((0, *self.sizing.shape), dtype=np.uint8)
        return np.stack([self.sizing.apply(picture) for picture in pictures])

    def tensor(self, pictures: Sequence[Array] | Array) -> Tensor:
        """Decoded pictures of any size, or sized ones, as normalised float32 `(batch, channels, height, width)`."""
        if isinstance(pictures, np.ndarray) and pictures.shape[1:] == self.sizing.shape:
            return self.normalisation.tensor(pictures)
        return self.normalisation.tensor(self.sized([*pictures]))

    def text(self) -> str:
        """As JSON."""
        values: dict[str, Any] = {**asdict(self.sizing), **asdict(self.normalisation)}
        return json.dumps(values, indent=1) + "\n"

    def save(self, folder: Path) -> None:
        """Write `pictures.json` into a run folder."""
        text = self.text()
        write_whole(folder / FILE, lambda part: part.write_text(text, encoding="utf-8"))

    @classmethod
    def load(cls, folder: Path) -> Self:
        """Read from the `pictures.json` of a run folder.

        Raises:
            RunError: The file is missing or damaged.
        """
        path = folder / FILE
        values = read_object(path)
        try:
            mean, deviation = (tuple(map(float, values.pop(name))) for name in ("mean", "deviation"))
            form = cls(
                TypeAdapter(Sizing).validate_json(json.dumps(values), strict=True), Normalisation(mean, deviation)
            )
            if unknown := values.keys() - asdict(form.sizing).keys():
                raise ValueError(f"it has an unknown field {min(unknown)!r}")
            sides = [side for side in (form.sizing.height, form.sizing.width, form.sizing.shorter) if side is not None]
            if not (0 < min(sides) <= max(sides) <= _WIDEST and form.sizing.channels in (1, 3)):
                raise ValueError(f"its pictures have {sides} pixels a side and {form.sizing.channels} channels")
            levels = form.sizing.levels or (0.0, 0.0)
            if not all(map(math.isfinite, mean + deviation + levels)) or min(deviation, default=1.0) <= 0:
                raise ValueError("a mean or level is not finite, or a deviation is not above 0")
            if levels[0] > levels[1]:
                raise ValueError(f"the level {levels[0]:g} of black is above that of white, {levels[1]:g}")
            if not len(mean) == len(deviation) == form.sizing.channels:
                raise ValueError(f"{form.sizing.channels} channels, but {len(mean)} means, {len(deviation)} deviations")
            return form
        except ValidationError as error:
            first = error.errors()[0]
            raise damaged(path, f"{'.'.join(map(str, first['loc']))}: {first['msg']}") from None
        except KeyError as error:
            raise damaged(path, f"it has no {error}") from None
        except (ValueError, TypeError, OverflowError) as error:
            raise damaged(path, str(error)) from None


Indices = Sequence[int] | NDArray[np.int64]
Change = Callable[[Array, Indices], Array]
"""Changes sized pictures `(batch, height, width, channels)`, given with their indices, independently of each other."""

_TOGETHER = 1_000
"""Pictures processed at a time."""
_SAMPLE = 2_000
"""Evenly spread pictures from which the normalisation of a set that is not kept is computed."""
_SHARED = 2**20
"""Values of a batch's pictures from which on several threads change them."""


class PictureStore:
    """Sized pictures by index; results do not depend on memory or on the number of threads.

    Decoding and scaling release Python's lock, so threads are as fast as processes, without copies between them.
    """

    def __init__(self, pixels: Pixels, places: Sequence[str], sizing: Sizing, in_memory: int = 2_000) -> None:
        """Store the pictures at these places.

        Args:
            pixels: Reader of the pictures, with `workers` threads.
            places: Places of the pictures (`heed.data.pictures.source`).
            sizing: Sizing to one size.
            in_memory: Megabytes; if the sized pictures need no more, they are kept, and each is decoded once.
        """
        self.sizing = sizing
        self._places, self._pixels = places, pixels
        self._values = sizing.height * sizing.width * sizing.channels
        self.is_kept = len(places) * self._values <= in_memory * 10**6
        self._kept = np.empty((len(places) if self.is_kept else 0, *sizing.shape), dtype=np.uint8)
        self._known = np.zeros(len(places), dtype=bool)
        self._pool: ThreadPoolExecutor | None = None

    def __len__(self) -> int:
        return len(self._places)

    def take(self, indices: Indices, change: Change | None = None) -> Array:
        """The pictures at these indices, each changed by `change`, `(batch, height, width, channels)`.

        Raises:
            DataError: A picture can no longer be read; the message names it.
        """
        parts = self._parts(indices, change is not None)

        def made(part: Indices) -> Array:
            pictures = self._sized(part)
            return pictures if change is None else change(pictures, part)

        if len(parts) == 1:
            return made(parts[0])
        if self._pool is None:
            self._pool = ThreadPoolExecutor(self._pixels.workers, thread_name_prefix="pictures")
        return np.concatenate(list(self._pool.map(made, parts)))

    def skip_reading(self) -> None:
        """Take any values for the pixels of pictures that are kept: a trial measures no reading."""
        self._known[:] = True

    def parts(self, indices: Sequence[int] | None = None) -> Iterator[Array]:
        """The pictures at these indices, by default all, some at a time."""
        chosen = range(len(self)) if indices is None else indices
        for start in range(0, len(chosen), _TOGETHER):
            yield self.take(chosen[start : start + _TOGETHER])

    def normalisation(self) -> Normalisation:
        """Mean and deviation of each channel over all pictures, or over 2,000 of them if they are not kept."""
        sample = None
        if not self.is_kept and len(self) > _SAMPLE:
            sample = [i * len(self) // _SAMPLE for i in range(_SAMPLE)]
        return Normalisation.of(self.parts(sample), self.sizing.channels)

    def _parts(self, indices: Indices, changed: bool) -> Sequence[Indices]:
        """The indices for each thread; one part if several would not be faster."""
        workers, count = self._pixels.workers, len(indices)
        if workers < 2 or count < 2 * workers:
            return [indices]
        heavy = changed and count * self._values >= _SHARED
        if not heavy and self.is_kept and self._known[np.asarray(indices)].all():
            return [indices]
        number = 4 * workers if count >= 16 * workers else workers  # some are slower than others
        return [indices[i * count // number : (i + 1) * count // number] for i in range(number)]

    def _sized(self, indices: Indices) -> Array:
        places: NDArray[np.int64] = np.asarray(indices, dtype=np.int64)
        if not self.is_kept:
            pictures = np.empty((len(places), *self.sizing.shape), dtype=np.uint8)
            for row, i in enumerate(places.tolist()):
                pictures[row] = self._one(i)
            return pictures
        for i in places[~self._known[places]].tolist():
            self._kept[i] = self._one(i)
            self._known[i] = True  # set last, since another thread may read it
            self._pixels.forget([self._places[i]])
        return self._kept[places]

    def _one(self, index: int) -> Array:
        # Read one by one, so that only one picture in its original size is in memory.
        (picture,) = self._pixels.read([self._places[index]], self.sizing.channels)
        return self.sizing.apply(picture)


@dataclass(frozen=True)
class PictureBatch(Batch):
    """Normalised pictures."""

    indices: list[int]
    pixels: Tensor  # `(batch, channels, height, width)`, float32
    targets: Tensor  # `(batch,)` label ids

    @property
    def num_targets(self) -> int:
        """Number of pictures."""
        return len(self.indices)

    @property
    def padding_share(self) -> float:
        return 0.0


def collate_pictures(
    store: PictureStore,
    targets: Tensor,
    indices: list[int],
    form: PictureForm,
    augment: Augment | None = None,
    *,
    epoch: int = 0,
) -> PictureBatch:
    """A batch of some pictures of a split.

    Args:
        store: The pictures of the split.
        targets: Label ids of the split `(pictures,)`.
        indices: The pictures of the batch.
        form: Normalisation.
        augment: Random changes, in training.
        epoch: The pass for which changes are drawn.
    """
    change = None
    if augment is not None and augment.config.changes_pictures:
        change = partial(augment.pictures, epoch=epoch)
    pixels = form.normalisation.tensor(store.take(np.array(indices), change))
    return PictureBatch(indices, pixels, targets[indices])
