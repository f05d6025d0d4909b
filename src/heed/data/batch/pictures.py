"""Batches of pictures with labels."""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial

from torch import Tensor

from heed.data.batch.rows import Batch
from heed.data.pictures.augment.augment import Augment
from heed.data.pictures.store import PictureStore
from heed.data.pictures.stored import PictureForm


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


def collate_pictures(
    store: PictureStore,
    targets: Tensor,
    indices: list[int],
    form: PictureForm,
    augment: Augment | None = None,
    *,
    num_labels: int = 0,
    epoch: int = 0,
) -> PictureBatch:
    """A batch of some pictures of a split.

    Args:
        store: The pictures of the split.
        targets: Label numbers of the split `(pictures,)`.
        indices: Which pictures.
        form: How they are normalised.
        augment: Random changes, in training.
        num_labels: How many labels there are, where pictures are mixed.
        epoch: The pass that the changes are drawn for.
    """
    change = None
    if augment is not None and augment.config.changes_pictures:
        change = partial(augment.pictures, epoch=epoch)
    pixels = form.normalisation.tensor(store.take(indices, change))
    chosen = targets[indices]
    if augment is not None:
        pixels, chosen = augment.batch(pixels, chosen, num_labels, indices, epoch)
    return PictureBatch(indices, pixels, chosen)
