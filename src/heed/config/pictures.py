"""Configuration section of random changes of training pictures."""

from __future__ import annotations

from pydantic import Field

from heed.config.sections import Section


class AugmentSection(Section):
    """Random changes of training pictures (`heed.data.pictures.sizing`), in this order.

    By default, sets of at most 10,000 pictures are cropped, and mirrored unless a label looks like text. Random draws
    depend only on the seed, the pass and the picture.
    """

    flip: bool = False
    """Mirror half of the pictures, left to right; by default in sets of at most 10,000 whose labels name no characters,
    numbers or directions."""
    crop: int = Field(0, ge=0)
    """Add a black border of this many pixels and crop the result to the picture's size at a random place; 4 is usual
    for pictures of 32 x 32 pixels, 0 is none. By default an eighth of the shorter side in sets of at most 10,000, but
    none for models of patches (vit)."""

    @property
    def changes_pictures(self) -> bool:
        """True if training pictures are changed."""
        return self.flip or self.crop > 0
