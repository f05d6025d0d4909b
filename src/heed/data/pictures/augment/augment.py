"""All random changes of a configuration, in order."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray
from torch import Tensor

from heed.config.augment import AugmentSection
from heed.data.pictures.augment.draws import Draws
from heed.data.pictures.augment.erasing import erase
from heed.data.pictures.augment.geometry import crop, flip
from heed.data.pictures.augment.mixing import mix
from heed.data.pictures.augment.randaugment import randaugment
from heed.data.pictures.decode import Array


class Augment:
    """The random changes of one run; they depend on (seed, pass, index of the picture) only."""

    def __init__(self, config: AugmentSection, seed: int) -> None:
        self.config = config
        self._seed = seed

    def pictures(self, pictures: Array, indices: Sequence[int] | NDArray[np.int64], epoch: int) -> Array:
        """Change sized pictures `(batch, height, width, channels)` one by one: flip, crop, RandAugment, erase."""
        c = self.config
        if not c.changes_pictures or not len(pictures):
            return pictures
        draws = Draws(self._seed, epoch, indices)
        if c.flip:
            pictures = flip(pictures, draws.chance("flip", 0.5))
        if c.crop:
            tops, lefts = (draws.below(use, 2 * c.crop + 1) for use in ("crop top", "crop left"))
            pictures = crop(pictures, c.crop, tops, lefts)
        if c.randaugment:
            pictures = randaugment(pictures, c.randaugment, c.magnitude, draws)
        if c.erase:
            pictures = erase(pictures, c.erase, draws)
        return pictures

    def picture(self, picture: Array, index: int, epoch: int) -> Array:
        """Change one sized picture `(height, width, channels)`, with the same result as in any batch."""
        changed: Array = self.pictures(picture[None], [index], epoch)[0]
        return changed

    def batch(
        self, pixels: Tensor, targets: Tensor, num_labels: int, indices: Sequence[int] | NDArray[np.int64], epoch: int
    ) -> tuple[Tensor, Tensor]:
        """Mix normalised pictures `(batch, channels, height, width)` with one another: mixup, cutmix.

        Returns:
            The pixels, in the shape given; and label ids `(batch,)` as given or, if pictures are mixed, shares of
            labels `(batch, num_labels)`.
        """
        c = self.config
        if not c.mixes:
            return pixels, targets
        return mix(pixels, targets, num_labels, c.mixup, c.cutmix, Draws(self._seed, epoch, indices))
