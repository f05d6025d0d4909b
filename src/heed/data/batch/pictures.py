"""Batches of pictures with labels."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial

import numpy as np
from torch import Tensor

from heed.data.batch.rows import Batch
from heed.data.pictures.augmentation import Augment
from heed.data.pictures.store import PictureForm, PictureStore

_TOGETHER, _MOST = 2**17, 16
"""Most values of pictures that are read and changed together, and most updates for which they are."""


@dataclass(frozen=True)
class PictureBatch(Batch):
    """Normalised pictures.

    Attributes:
        pixels: `(batch, channels, height, width)`, float32.
        targets: `(batch,)` label ids, or `(batch, num_labels)` shares of labels that sum to 1, if pictures were mixed.
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

    Pictures of all batches are read and changed together, which is faster if they are small. Each batch has its own
    tensors, so that computations on it do not depend on the others.

    Args:
        store: The pictures of the split.
        targets: Label ids of the split `(pictures,)`.
        batches: Indices of the pictures of each batch.
        form: Normalisation.
        augment: Random changes, in training.
        num_labels: Number of labels, needed if pictures are mixed.
        epoch: The pass for which changes are drawn.
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
    """Number of updates, of `num_pictures` each, whose batches are made at once: more for small pictures."""
    return max(1, min(_MOST, _TOGETHER // max(1, num_pictures * shape[0] * shape[1] * shape[2])))
