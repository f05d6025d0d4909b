"""Settings of a run that starts from a body which was trained before on much text, as BERT: smaller rates, a warm-up.

Only fields that the user did not give are changed, and they are written into the run's configuration.

Layers are the blocks of a Transformer or the layers of a recurrent network. A run that is stopped and resumed trains
the same parts at the same updates.
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
"""Largest learning rate of a body of this width; wider ones have smaller rates, in proportion (768: 8e-5)."""
_WARM_UP = 0.1
"""Share of the updates over which the rate rises (Devlin et al. 2019, appendix A.3)."""
_MOST_WARM_UP = 100


def is_fine_tuning(config: RunConfig, parent: Parent | None, interfaces: tuple[Interface, ...]) -> bool:
    """Whether a run goes on with the body of a parent that was made to be trained before."""
    if parent is None or parent.task.config.model.name != config.model.name:
        return False
    own = body_class(config.model.name, interfaces)
    return issubclass(own, TokenEncoder) and own.fine_tuned


def with_fine_tuning(config: C, batches: int) -> C:
    """The configuration with what suits the fine-tuning of its settled model; `batches` are those of one pass."""
    training, fields = config.training, dict[str, Any]()
    width = max(_WIDTH, (config.model.model_extra or {}).get("d_model", _WIDTH))
    fields["learning_rate"] = float(f"{_RATE * _WIDTH / width:.2g}")
    updates = training.steps or math.ceil((training.epochs or 10) * batches / training.accumulate)
    fields["warmup"] = min(_MOST_WARM_UP, math.ceil(_WARM_UP * updates))
    update = {name: value for name, value in fields.items() if name not in training.model_fields_set}
    return config.model_copy(update={"training": training.model_copy(update=update)})
