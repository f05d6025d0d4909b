"""Random changes of training pictures: shifts and mirror images, on whole batches.

Pictures are arrays `(batch, height, width, channels)` from 0 to 255. Each random number is a hash of (seed, pass,
example), so neither the order of drawing, nor threads, nor the other examples of the batch matter, and no generator is
needed for each picture.
"""

from __future__ import annotations

import hashlib
from collections.abc import Sequence

import numpy as np
from numpy.lib.stride_tricks import as_strided
from numpy.typing import NDArray

from heed.config.pictures import AugmentSection
from heed.data.examples import STEP, mixed
from heed.data.pictures.decode import Array


class Draws:
    """The random numbers of some examples in one pass; each named use has separate numbers."""

    def __init__(self, seed: int, epoch: int, indices: Sequence[int] | NDArray[np.int64]) -> None:
        digest = hashlib.blake2b(f"{seed} {epoch}".encode(), digest_size=8).digest()
        start = np.frombuffer(digest, dtype=np.uint64)
        self._states = mixed(mixed(np.asarray(indices, dtype=np.uint64) * STEP + start) + start)

    def uniform(self, use: str) -> NDArray[np.float64]:
        """A number in [0, 1) for each example."""
        digest = np.frombuffer(hashlib.blake2b(use.encode(), digest_size=8).digest(), np.uint64)
        return (mixed(self._states ^ digest) >> np.uint64(11)).astype(np.float64) * 2.0**-53

    def below(self, use: str, count: int) -> NDArray[np.int64]:
        """A whole number from 0 to `count` - 1 for each example."""
        return (self.uniform(use) * count).astype(np.int64)

    def chance(self, use: str, probability: float) -> NDArray[np.bool_]:
        """True for each example with this probability."""
        return self.uniform(use) < probability


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
    batch, height, width, channels = pictures.shape
    wide = np.zeros((batch, height + 2 * border, width + 2 * border, channels), dtype=np.uint8)
    wide[:, border : border + height, border : border + width] = pictures
    # A view of every possible crop, so that one access copies all chosen ones.
    steps = wide.strides
    shape = (batch, 2 * border + 1, 2 * border + 1, height, width * channels)
    cuts = as_strided(wide, shape, (steps[0], steps[1], steps[2], steps[1], 1), writeable=False)
    return cuts[np.arange(batch), tops, lefts].reshape(pictures.shape)


class Augment:
    """The random changes of one run; they depend on (seed, pass, index of the picture) only."""

    def __init__(self, config: AugmentSection, seed: int) -> None:
        self.config = config
        self._seed = seed

    def pictures(self, pictures: Array, indices: Sequence[int] | NDArray[np.int64], epoch: int) -> Array:
        """Change sized pictures `(batch, height, width, channels)` one by one: flip, then shift (crop)."""
        c = self.config
        if not c.changes_pictures or not len(pictures):
            return pictures
        draws = Draws(self._seed, epoch, indices)
        if c.flip:
            pictures = flip(pictures, draws.chance("flip", 0.5))
        if c.crop:
            tops, lefts = (draws.below(use, 2 * c.crop + 1) for use in ("crop top", "crop left"))
            pictures = crop(pictures, c.crop, tops, lefts)
        return pictures

    def picture(self, picture: Array, index: int, epoch: int) -> Array:
        """Change one sized picture `(height, width, channels)`, with the same result as in any batch."""
        changed: Array = self.pictures(picture[None], [index], epoch)[0]
        return changed
