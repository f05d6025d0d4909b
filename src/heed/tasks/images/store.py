"""The sized pictures of one set."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from functools import cached_property

import numpy as np

from heed.data.pictures.decode import Array as Sized
from heed.data.pictures.sizing import Sizing
from heed.data.pictures.source import Pixels


class PictureStore:
    """Pictures at the size of the model, read when they are first asked for."""

    def __init__(self, pixels: Pixels, places: Sequence[str], sizing: Sizing, in_memory: int) -> None:
        self.pixels, self.places, self.sizing = pixels, list(places), sizing

    def __len__(self) -> int:
        return len(self.places)

    @cached_property
    def _all(self) -> Sized:
        pictures = [self.sizing.apply(one) for one in self.pixels.read(self.places)]
        return np.stack(pictures) if pictures else np.empty((0, *self.sizing.shape), dtype=np.uint8)

    def take(self, indices: Sequence[int]) -> Sized:
        """The pictures at these places, `(pictures, height, width, channels)`."""
        chosen: Sized = self._all[list(indices)]
        return chosen

    def parts(self) -> Iterator[Sized]:
        """All pictures, part by part."""
        yield self._all
