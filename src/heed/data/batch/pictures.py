"""Batches of pictures with labels."""

from __future__ import annotations

from dataclasses import dataclass

from torch import Tensor

from heed.data.batch.rows import Batch


@dataclass(frozen=True)
class PictureBatch(Batch):
    """Normalised pictures.

    Attributes:
        pixels: `(batch, channels, height, width)`, float32.
        targets: `(batch,)` label numbers, or `(batch, num_labels)` shares of each label that sum to 1, where pictures
            were mixed.
    """

    indices: list[int]
    pixels: Tensor
    targets: Tensor

    @property
    def num_targets(self) -> int:
        """Number of pictures."""
        return len(self.indices)

    @property
    def padding_share(self) -> float:
        """Pictures are all of one size."""
        return 0.0
