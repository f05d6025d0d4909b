"""Batches of pictures with labels."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial

import numpy as np
from torch import Tensor

from heed.data.batch.rows import Batch
from heed.data.pictures.augment.augment import Augment
from heed.data.pictures.store import PictureStore
from heed.data.pictures.stored import PictureForm

_TOGETHER, _MOST = 2**17, 16
"""Values of the pictures that are read and changed together, and the number of updates that they are for."""


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
    batches: Sequence[list[int]],
    form: PictureForm,
    augment: Augment | None = None,
    *,
    num_labels: int = 0,
    epoch: int = 0,
) -> list[PictureBatch]:
    """Batches of some pictures of a split.

    Pictures are read and changed for all of them together, which takes less time where they are small. Each batch has
    tensors of its own, so that what is computed from it does not depend on the others.

    Args:
        store: The pictures of the split.
        targets: Label numbers of the split `(pictures,)`.
        batches: Which pictures.
        form: How they are normalised.
        augment: Random changes, in training.
        num_labels: How many labels there are, where pictures are mixed.
        epoch: The pass that the changes are drawn for.
    """
    change = None
    if augment is not None and augment.config.changes_pictures:
        change = partial(augment.pictures, epoch=epoch)
    pictures = store.take(np.array([i for indices in batches for i in indices], dtype=np.int64), change)
    made, start = [], 0
    for indices in batches:
        pixels = form.normalisation.tensor(pictures[start : start + len(indices)])
        chosen = targets[indices]
        if augment is not None:
            pixels, chosen = augment.batch(pixels, chosen, num_labels, indices, epoch)
        made.append(PictureBatch(indices, pixels, chosen))
        start += len(indices)
    return made


def updates_together(num_pictures: int, shape: tuple[int, int, int]) -> int:
    """For how many updates of so many pictures batches are made at a time: more of small pictures."""
    return max(1, min(_MOST, _TOGETHER // max(1, num_pictures * shape[0] * shape[1] * shape[2])))
