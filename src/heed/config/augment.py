"""The configuration section of random changes of training pictures."""

from __future__ import annotations

from pydantic import Field

from heed.config.sections import Section


class AugmentSection(Section):
    """Random changes of training pictures (`heed.data.pictures.augment`), in this order; none by default.

    Random draws depend only on the seed, the pass and the picture.
    """

    flip: bool = False
    """Mirror half of the pictures, left to right."""
    crop: int = Field(0, ge=0)
    """Add a black border of this many pixels and crop the result to the picture's size at a random place; 4 is usual
    for pictures of 32 x 32 pixels, 0 is none."""
    randaugment: int = Field(0, ge=0)
    """Random operations on each picture, of RandAugment's 14 (Cubuk et al. 2020); 2 is usual, 0 is none."""
    magnitude: int = Field(9, ge=0, le=30)
    """Strength of the operations of RandAugment, from 0 to 30."""
    erase: float = Field(0.0, ge=0, le=1)
    """Share of the pictures in which a random rectangle is replaced by noise (Zhong et al. 2020); 0.25 is usual."""
    mixup: float = Field(0.0, ge=0)
    """Mix each picture and its label with another of the batch, in a proportion drawn from Beta(mixup, mixup) (Zhang
    et al. 2018); 0.2 is usual, 0 is none."""
    cutmix: float = Field(0.0, ge=0)
    """Replace a random rectangle of each picture by that of another of the batch and mix the labels by area, which is
    drawn from Beta(cutmix, cutmix) (Yun et al. 2019); 1 is usual, 0 is none. Together with mixup, each is applied to
    half of the pictures."""

    @property
    def changes_pictures(self) -> bool:
        """True if pictures are changed one by one."""
        return self.flip or self.crop > 0 or self.randaugment > 0 or self.erase > 0

    @property
    def mixes(self) -> bool:
        """True if pictures and labels of a batch are mixed, so that targets are shares of labels."""
        return self.mixup > 0 or self.cutmix > 0
