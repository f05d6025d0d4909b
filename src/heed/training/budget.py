"""A run's time budget: when training must end, and how many updates fit.

budget = time before training + updates + validations + scoring of the kept weights

The number of updates is planned when the speed of a few is known (after three seconds, or 2 % of a longer budget), and
again after each validation and each 2 % of the budget, since validation and scoring times change during training
(an untrained decoder writes outputs of full length) and machines slow down. A new plan changes how fast the learning
rate falls from then on, never its present value, so that a cosine schedule reaches zero when the run ends.

After three validations without a better score, a run under a time budget lowers the rate to zero over a sixth of the
updates so far and ends (`training.patience: auto`); the rest of the budget is not used.
"""

from __future__ import annotations

import math
import time
from collections.abc import Callable
from dataclasses import dataclass

from heed.config import TrainingConfig
from heed.training.checkpoint import Progress
from heed.training.contracts import Trainable
from heed.training.optimizer import course_at

VALIDATIONS = 12
"""Validations of a run, unless the configuration or their cost requires another number."""
_PROBE_SECONDS, _PROBE_SHARE = 3.0, 0.02
"""How long the speed is measured before the number of updates is decided: seconds, or a share of a longer budget."""
_VALIDATING = 0.2
"""The largest share of the remaining time that validations take."""
_REPLANNED = 0.02
"""Share of the budget after which the plan is updated, with or without a validation."""
_MEASURED_AT = (0.3, 0.75)
"""Shares of the training time after which scoring is timed, at the next validation."""
_MEASURING = (0.03, 0.15)
"""Most time for this: a share of the budget, and a share of the expected scoring time."""
_ENDING = 1 / 6
"""Further updates of a run that ends early, as a share of the updates done."""
_WRITING = 0.5
"""Seconds for the report and the checksums at the end, in addition to the time of a checkpoint."""
_WINDOW = 500
"""Number of last updates (about) over which the speed is averaged."""


@dataclass(frozen=True)
class Plan:
    """The number of updates of a run, and the distance between its validations."""

    total_steps: int  # updates of the whole run
    validate_every: int  # updates between validations
    planned_at: int  # update from which this plan applies
    course: float  # share of the learning-rate schedule completed by then

    def put_into(self, p: Progress) -> None:
        """Store the plan in the progress of a run."""
        p.total_steps, p.validate_every = self.total_steps, self.validate_every
        p.planned_at, p.course = self.planned_at, self.course


class Budget:
    """The clock of a run, and its time budget.

    Attributes:
        seconds: The budget; 0 where `training.steps` sets the number of updates.
        writing: Seconds that the last checkpoint took.
    """

    def __init__(self, config: TrainingConfig, task: Trainable, began: float | None = None) -> None:
        """Start the clock, or take it from `began`."""
        self.seconds = 60.0 * (config.minutes or 0.0) if config.steps is None else 0.0
        self.writing = 0.0
        self._config = config
        self._task = task
        self._started = time.perf_counter() if began is None else began
        self._planned = 0.0  # when the plan was made
        self._scoring: float | None = None  # seconds that scoring takes, once measured
        self._tried = 0  # number of attempts to measure it
        self._recent = [0.0, 0.0]  # seconds of the last updates and their number, older updates weighing less

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

    def updated(self, seconds: float) -> None:
        """Record the seconds of an update, including everything done around it."""
        keep = 1.0 - 1.0 / _WINDOW
        self._recent = [keep * self._recent[0] + seconds, keep * self._recent[1] + 1.0]

    def is_spent(self, p: Progress) -> bool:
        """True if training must end now to leave time for what follows."""
        return self.elapsed + self._validation(p) + self.writing > self._deadline(p) + 0.01 * self.seconds

    def may_plan(self, p: Progress) -> bool:
        """True if the plan may change: not for a fixed number of updates, an early end or a finished run."""
        return self.seconds > 0 and not p.ending and p.step != p.total_steps and self._recent[1] > 0

    def is_due(self, p: Progress) -> bool:
        """True if enough time has passed to update the plan."""
        return self.may_plan(p) and self.elapsed - self._planned > _REPLANNED * self.seconds

    def plan(self, p: Progress, after_validation: bool = True) -> Plan:
        """Plan the rest of the run from the speed so far.

        Args:
            p: The run's progress; without a plan, its only validation was of a model that had hardly learned.
            after_validation: True if it has just validated: only then the distance between validations changes.
        """
        seconds, count = self._recent
        pace = max(1e-6, seconds / count if count else p.training_seconds / max(1, p.step))
        validation = self._validation(p) + self.writing
        self._planned = self.elapsed
        left = max(0.0, self._deadline(p) - self._planned)
        given = self._config.validate_every
        validated = p.kept[-1] if p.kept else 0
        if given is not None:
            updates = int((left - validation) / (pace + validation / given))
            every = given
        elif after_validation or p.total_steps is None or p.validate_every is None:
            wanted = min(math.ceil(VALIDATIONS * left / self.seconds), int(_VALIDATING * left / validation))
            updates = int((left - max(1, wanted) * validation) / pace)
            every = max(1, math.ceil(updates / max(1, wanted)))
        else:
            every = p.validate_every
            coming = max(1, math.ceil((p.total_steps - validated) / every))
            updates = int((left - coming * validation) / pace)
        if p.total_steps is None:
            return Plan(p.step + max(1, updates), every, 0, 0.0)
        course = course_at(p.step, self._config.warmup, p.total_steps, p.planned_at, p.course)
        return Plan(p.step + max(0, updates), every, p.step, course)

    def patience_is_lost(self, p: Progress) -> bool:
        """True if training should end because validations no longer improve."""
        patience = self._config.patience
        if patience != "auto":
            return patience is not None and p.bad >= patience
        if self.seconds == 0 or p.total_steps is None or p.ending or p.bad < self._task.patience:
            return False
        return p.step + self._last_updates(p) < p.total_steps  # else it ends by then anyway

    def plan_ending(self, p: Progress) -> Plan | None:
        """The plan for the end of a run that no longer improves; None if it ends immediately.

        By default the learning rate first falls to zero: that often improves the score after all, and it makes no run
        worse.
        """
        c = self._config
        if c.patience != "auto" or c.schedule != "cosine" or p.step <= c.warmup:
            return None
        updates = self._last_updates(p)
        course = course_at(p.step, c.warmup, p.total_steps, p.planned_at, p.course)
        return Plan(p.step + updates, max(1, math.ceil(updates / 2)), p.step, course)

    def _last_updates(self, p: Progress) -> int:
        """Number of updates over which the learning rate falls to zero when a run ends early."""
        return math.ceil(_ENDING * p.step)

    def try_scoring(self, p: Progress, score: Callable[[float, float], float | None]) -> None:
        """Measure occasionally how long scoring will take; `score` is `try_scoring` of `Trainer`."""
        passed = sum(self.elapsed > share * self._deadline(p) for share in _MEASURED_AT)
        if passed > self._tried:
            self._tried = passed
            expected = p.validation_seconds * self._task.finishing_work if self._scoring is None else self._scoring
            measured = score(min(_MEASURING[0] * self.seconds, _MEASURING[1] * expected), expected)
            self._scoring = self._scoring if measured is None else measured

    def _validation(self, p: Progress) -> float:
        """Expected seconds of the next validation; the first was of a model that had hardly learned."""
        return (self._task.trained_validation if p.total_steps is None else 1.0) * p.validation_seconds

    def _deadline(self, p: Progress) -> float:
        """When training must end."""
        last = self._validation(p) * (self._config.average > 1) + _WRITING + self.writing
        scoring = self._validation(p) * self._task.finishing_work if self._scoring is None else self._scoring
        # However slow they were at first, at most a third of the budget is reserved for validating and scoring a model
        # that is still learning: an output that never ends would otherwise end training.
        most = 0.6 if self._scoring is not None and self._tried == len(_MEASURED_AT) else 1 / 3
        return self.seconds - min(last + scoring, most * self.seconds)
