"""Defaults of a run over pictures: size of the model and of its patches, training settings.

The number of passes over few small pictures was measured: scikit-learn's digits, 99.1 % of the test pictures over
three seeds, in 11 s of one thread; choosing weights from early validations of 100 pictures gave 98.3 %.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any

from heed.models.base import Body

if TYPE_CHECKING:
    from heed.tasks.images.config import ImagesConfig
    from heed.tasks.images.task import Images

_MINUTES, _EPOCHS = 2.0, 30
"""Minutes of a run; for few small pictures passes instead, so that runs are bit-identical."""
_FEW = 2_000_000
"""Largest number of values in the training pictures for "few and small"; scikit-learn's digits have 83,000."""
_GRID, _LARGEST_GRID = 8, 14
"""Patches along a side: target and maximum."""
_LARGEST_PATCH = 16
_FEW_RATE, _RATE, _FINE_RATE, _WIDTH = 0.004, 0.002, 0.0005, 128
"""Largest learning rates at this width: for few small pictures, for others, and for a pretrained body."""


_VALIDATED = 0.8
"""Share of a run over few small pictures after which it is validated, as at its end; earlier validations of few
pictures would choose weights by chance."""
_FEW_VALIDATED = 200
"""Largest number of validation pictures for which accuracy is too coarse: with 100 it soon is 100 %."""


def is_imported(task: Images) -> bool:
    """True if the run was imported and so has no training pictures."""
    return getattr(task.config.data, "imported", None) is not None


def size_for(task: Images) -> str:
    """The named size for the training pictures: tiny for few large ones, otherwise small; base for imported models."""
    if is_imported(task):
        return "base"
    return "tiny" if not is_small(task) and len(task.splits.examples["train"]) <= 3_000 else "small"


def selected_by(task: Images) -> str:
    """The validation score that chooses the best checkpoint."""
    if is_imported(task):
        return "accuracy"
    return "loss" if len(task.splits.examples["valid"]) <= _FEW_VALIDATED else "accuracy"


def patch_fields(body: type[Body], size: str, given: dict[str, Any]) -> dict[str, Any]:
    """The default patch size, if the model has patches and no size is given.

    Among the sizes that divide the picture, that with the grid closest to 8 x 8; none for sizes of the paper.
    """
    if "patch_size" not in body.config_class.model_fields or "patch_size" in given or size in ("base", "large"):
        return {}
    height, width = given["height"], given["width"]
    fitting = [p for p in range(2, _LARGEST_PATCH + 1) if height % p == 0 and width % p == 0]
    small = [p for p in fitting if max(height, width) // p <= _LARGEST_GRID] or fitting
    if not small:
        return {}  # the model reports the sizes that fit
    return {"patch_size": min(small, key=lambda p: (abs(max(height, width) / p - _GRID), p))}


def is_small(task: Images) -> bool:
    """True if the pictures are few and small and the model is not large, so that passes are fast."""
    sizing, section = task.form.sizing, task.config.model
    numbers = len(task.splits.examples["train"]) * sizing.height * sizing.width * sizing.channels
    return numbers <= _FEW and section.size in ("auto", "tiny", "small") and section.from_ is None


def with_training(task: Images, settled: ImagesConfig) -> ImagesConfig:
    """The settled configuration, with defaults that suit the pictures and the model for fields not given."""
    if is_imported(task):
        return settled
    training, augment, fields = settled.training, settled.augment, dict[str, Any]()
    small, width = is_small(task), max(_WIDTH, (settled.model.model_extra or {}).get("d_model", _WIDTH))
    rate = _FINE_RATE if settled.model.from_ is not None else _FEW_RATE if small and width == _WIDTH else _RATE
    fields["learning_rate"] = float(f"{rate * _WIDTH / width:.2g}")
    if training.minutes is None and training.steps is None and training.epochs is None:
        fields |= {"epochs": _EPOCHS} if small else {"minutes": _MINUTES}
        if small:
            updates = math.ceil(len(task.train_batches(0)) / training.accumulate) * _EPOCHS
            fields["validate_every"] = math.ceil(_VALIDATED * updates)
        if small and not augment.model_fields_set:
            # Shifting any picture by a pixel or two keeps its class.
            augment = augment.model_copy(update={"crop": max(1, min(task.form.sizing.shape[:2]) // 8)})
    fields = {name: value for name, value in fields.items() if name not in training.model_fields_set}
    return settled.model_copy(update={"training": training.model_copy(update=fields), "augment": augment})
