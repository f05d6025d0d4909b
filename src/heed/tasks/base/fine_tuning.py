"""Fine-tuning settings for a run that starts from a pretrained body, such as BERT: smaller learning rates, a warm-up.

Only fields that the user did not give are changed, and they are written into the run's configuration.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any, TypeVar

from heed.config import RunConfig
from heed.models.base import Interface, TokenEncoder
from heed.registry import body_class

if TYPE_CHECKING:
    from heed.tasks.base.transfer import Parent

C = TypeVar("C", bound=RunConfig)
_RATE, _WIDTH = 5e-4, 128
"""Largest learning rate, for a body of this width; wider bodies have proportionally smaller rates (768: 8e-5)."""
_WARM_UP = 0.1
"""Share of the updates over which the learning rate rises (Devlin et al. 2019, appendix A.3)."""
_MOST_WARM_UP = 100


def is_fine_tuning(config: RunConfig, parent: Parent | None, interfaces: tuple[Interface, ...]) -> bool:
    """True if a run has the same model as its parent, and that is a model for pretraining and fine-tuning."""
    if parent is None or parent.task.config.model.name != config.model.name:
        return False
    own = body_class(config.model.name, interfaces)
    return issubclass(own, TokenEncoder) and own.fine_tuned


def with_fine_tuning(config: C, batches: int) -> C:
    """The configuration with learning rate and warm-up for fine-tuning; `batches` is the number in one pass."""
    training, fields = config.training, dict[str, Any]()
    width = max(_WIDTH, (config.model.model_extra or {}).get("d_model", _WIDTH))
    fields["learning_rate"] = float(f"{_RATE * _WIDTH / width:.2g}")
    updates = training.steps or math.ceil((training.epochs or 10) * batches / training.accumulate)
    fields["warmup"] = min(_MOST_WARM_UP, math.ceil(_WARM_UP * updates))
    update = {name: value for name, value in fields.items() if name not in training.model_fields_set}
    return config.model_copy(update={"training": training.model_copy(update=update)})
