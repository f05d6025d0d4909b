"""A run's time budget: when training must end, and how many updates fit."""

from __future__ import annotations

import math
import time

from heed.config import TrainingConfig
from heed.training.checkpoint import Progress

VALIDATIONS = 12
"""Validations of a run, where neither the configuration nor their cost says otherwise."""
_PROBE_SECONDS, _PROBE_SHARE = 3.0, 0.02
"""How long the speed is measured before the number of updates is decided: seconds, or a share of a longer budget."""


class Budget:
    """The clock of a run, and its time budget.

    Attributes:
        seconds: The budget; 0 where the run is given in updates.
    """

    def __init__(self, config: TrainingConfig, began: float | None, finishing_work: float) -> None:
        """Start the clock, or take it from `began`; `finishing_work` follows training, in validations."""
        self.seconds = 60.0 * (config.minutes or 0.0) if config.steps is None else 0.0
        self._validate_every = config.validate_every
        self._finishing_work = finishing_work + (config.average > 1)
        self._started = time.perf_counter() if began is None else began

    @property
    def elapsed(self) -> float:
        """Seconds of the whole run, including those before an interruption."""
        return time.perf_counter() - self._started

    @property
    def left(self) -> float:
        """Seconds until the budget is spent."""
        return self.seconds - self.elapsed

    @property
    def probe(self) -> float:
        """Seconds of updates after which the speed is known."""
        return max(_PROBE_SHARE * self.seconds, min(_PROBE_SECONDS, 0.1 * self.seconds))

    def add(self, seconds: float) -> None:
        """Count time that was spent before an interruption."""
        self._started -= seconds

    def is_spent(self, p: Progress) -> bool:
        """Whether training must end, so that time remains for what follows."""
        return self.elapsed > self._deadline(p)

    def plan(self, p: Progress) -> tuple[int, int]:
        """The updates of the whole run, and after how many of them to validate, from the speed so far."""
        left = self._deadline(p) - self.elapsed
        validations = max(1, min(VALIDATIONS, int(0.2 * left / p.validation_seconds)))
        # 3 % is left for what a short probe does not see.
        updates = int(0.97 * (left - validations * p.validation_seconds) / (p.training_seconds / p.step))
        total = p.step + max(1, updates)
        return total, self._validate_every or math.ceil(total / validations)

    def _deadline(self, p: Progress) -> float:
        """Never more than a third is kept for what follows, however slow one validation was."""
        return self.seconds - min(1.0 + p.validation_seconds * self._finishing_work, self.seconds / 3)
