"""What a run over pictures is where nobody says: the size of its model and of its patches, how it is trained.

Of these, the passes over few small pictures were measured: scikit-learn's digits, 99.1 % of the test pictures over
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
"""Minutes of a run; and passes of one over few small pictures, so that it repeats bit for bit."""
_FEW = 2_000_000
"""Numbers in the training pictures up to which these are few and small; scikit-learn's digits are 83,000."""
_GRID, _LARGEST_GRID = 8, 14
"""Patches from one side to the other, about, and at most."""
_LARGEST_PATCH = 16
_FEW_RATE, _RATE, _FINE_RATE, _WIDTH = 0.004, 0.002, 0.0005, 128
"""Largest learning rates: over few small pictures, else, and of a body that was trained before; of this width."""


_VALIDATED = 0.8
"""After which share of such a run it is validated, and at its end: few pictures would choose earlier weights by chance.
"""
_FEW_VALIDATED = 200
"""Validation pictures up to which accuracy tells checkpoints apart too coarsely: of 100 it is soon 100 %."""


def is_imported(task: Images) -> bool:
    """Whether a run was imported, so that it has no pictures to train on."""
    return getattr(task.config.data, "imported", None) is not None


def size_for(task: Images) -> str:
    """The named size for an amount of training pictures: tiny for few that are large."""
    if is_imported(task):
        return "base"
    return "tiny" if not is_small(task) and len(task.splits.examples["train"]) <= 3_000 else "small"


def selected_by(task: Images) -> str:
    """The validation score that chooses weights."""
    if is_imported(task):
        return "accuracy"
    return "loss" if len(task.splits.examples["valid"]) <= _FEW_VALIDATED else "accuracy"


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


def is_small(task: Images) -> bool:
    """Whether a run is over few small pictures and by a model that is not large, so that passes take a moment."""
    sizing, section = task.form.sizing, task.config.model
    numbers = len(task.splits.examples["train"]) * sizing.height * sizing.width * sizing.channels
    return numbers <= _FEW and section.size in ("auto", "tiny", "small") and section.from_ is None


def with_training(task: Images, settled: ImagesConfig) -> ImagesConfig:
    """The settled configuration of a task with what suits its pictures and its model, where nothing was given."""
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
            # Shifted by a pixel or two, a picture of any kind still shows the same.
            augment = augment.model_copy(update={"crop": max(1, min(task.form.sizing.shape[:2]) // 8)})
    fields = {name: value for name, value in fields.items() if name not in training.model_fields_set}
    return settled.model_copy(update={"training": training.model_copy(update=fields), "augment": augment})
