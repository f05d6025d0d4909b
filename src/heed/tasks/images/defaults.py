"""What a run over pictures is where nobody says: the size of its model, of its patches, how long it trains.

Measured on digits, Fashion-MNIST and CIFAR-10 (docs/images.md).
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from heed.models.base import Body

if TYPE_CHECKING:
    from heed.tasks.images.config import ImagesConfig
    from heed.tasks.images.task import Images

_MINUTES, _SHORT = 2.0, 0.75
"""Minutes of a run, and of one over few small pictures."""
_FEW = 2_000_000
"""Numbers in the training pictures up to which these are few and small; scikit-learn's digits are 83,000."""
_GRID, _LARGEST_GRID = 8, 14
"""Patches from one side to the other, about, and at most."""
_LARGEST_PATCH = 16


def size_for(num_pictures: int) -> str:
    """The named size for an amount of training pictures."""
    return "tiny" if num_pictures <= 3_000 else "small"


def patch_fields(body: type[Body], size: str, given: dict[str, Any]) -> dict[str, Any]:
    """The size of patches that suits the pictures, where the model has patches and nobody named one.

    Of those that fill the picture the one that gives a grid of about 8 x 8; none where the named size is the paper's.
    """
    if "patch_size" not in body.config_class.model_fields or "patch_size" in given or size in ("base", "large"):
        return {}
    height, width = given["height"], given["width"]
    fitting = [p for p in range(2, _LARGEST_PATCH + 1) if height % p == 0 and width % p == 0]
    small = [p for p in fitting if max(height, width) // p <= _LARGEST_GRID] or fitting
    if not small:
        return {}  # the model says what would do
    return {"patch_size": min(small, key=lambda p: (abs(max(height, width) / p - _GRID), p))}


def with_training(task: Images, settled: ImagesConfig) -> ImagesConfig:
    """The settled configuration of a task with a time budget where none was given."""
    training = settled.training
    imported = getattr(settled.data, "imported", None) is not None  # it has no pictures to train on
    if not imported and training.minutes is None and training.steps is None and training.epochs is None:
        sizing = task.form.sizing
        numbers = len(task.splits.examples["train"]) * sizing.height * sizing.width * sizing.channels
        training = training.model_copy(update={"minutes": _SHORT if numbers <= _FEW else _MINUTES})
    return settled.model_copy(update={"training": training})
