"""A user's function that is called during training: `heed.train(..., callback=function)`."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any, Literal

import torch

from heed.tasks.base.run import Run
from heed.training.loop import Trainer


@dataclass(frozen=True)
class TrainingEvent:
    """The argument of a callback after an update or a validation.

    Attributes:
        kind: "update" or "validation".
        step: Updates done.
        total_steps: Updates of the whole run as planned now; None before the first plan.
        seconds: Time since the run began, without pauses between interruption and resumption.
        loss: Of the update, the mean over its targets in nats; or of the validation set.
        learning_rate: Of the update; None after a validation.
        scores: Of the validation, by name, including the loss; empty after an update.
        run: After a validation, the run with its present weights: it predicts, and `run.look(text)` shows its
            attention. None after an update.
    """

    kind: Literal["update", "validation"]
    step: int
    total_steps: int | None
    seconds: float
    loss: float
    learning_rate: float | None = None
    scores: Mapping[str, float] = field(default_factory=dict)
    run: Run[Any, Any] | None = None


Callback = Callable[[TrainingEvent], object]
"""Called after each update and validation; training ends if it returns True."""


class Caller:
    """Calls a user's function at the events of a trainer; its random draws do not affect training."""

    def __init__(self, callback: Callback, trainer: Trainer, run: Run[Any, Any]) -> None:
        self._callback = callback
        self._trainer = trainer
        self._run = run
        trainer.listen(self._logged)

    def _logged(self, event: str, step: int, values: Mapping[str, float]) -> None:
        if event == "update":
            self._call("update", loss=values["loss"], learning_rate=values["learning_rate"])

    def validated(self, scores: Mapping[str, float]) -> None:
        """Call the function after a validation; the model is in evaluation mode."""
        self._call("validation", loss=scores["loss"], scores=dict(scores), run=self._run)

    def _call(self, kind: Literal["update", "validation"], **values: Any) -> None:
        progress, trainer = self._trainer.progress, self._trainer
        event = TrainingEvent(kind, progress.step, progress.total_steps, trainer.budget.elapsed, **values)
        with torch.random.fork_rng(devices=[]):
            if self._callback(event) is True:
                trainer.enough.set()
