"""A run's time budget: when training must end, and how many updates fit.

budget = what came before training + updates + validations + scoring of the weights that are kept

The number of updates is planned when the speed of a few is known (after three seconds, or 2 % of a longer budget), and
again after each validation and each 2 % of the budget, since validation and scoring take another time than at first (an
untrained decoder writes outputs of full length) and machines slow down. A new plan changes how fast the learning rate
falls from then on, never its value, so that a cosine ends at zero where the run does.

A run under a budget that has three validations without a better score lets the rate fall to zero over a sixth of the
updates so far, and ends (`training.patience: auto`); the rest of the budget is given back.
"""

from __future__ import annotations

import math
import time
from collections.abc import Callable
from dataclasses import dataclass

from heed.config import TrainingConfig
from heed.training.checkpoint import Progress
from heed.training.contracts import Trainable
from heed.training.schedule import course_at

VALIDATIONS = 12
"""Validations of a run, where neither the configuration nor their cost says otherwise."""
_PROBE_SECONDS, _PROBE_SHARE = 3.0, 0.02
"""How long the speed is measured before the number of updates is decided: seconds, or a share of a longer budget."""
_VALIDATING = 0.2
"""The largest share of what is left that validations take."""
_REPLANNED = 0.02
"""After how large a share of the budget the plan is made anew, validation or not."""
_MEASURED_AT = (0.3, 0.75)
"""After which shares of the time for training scoring is tried, at the next validation."""
_MEASURING = (0.03, 0.15)
"""What this may take each time: a share of the budget, and of what all of it is thought to take."""
_ENDING = 1 / 6
"""How many more updates a run that ends early makes, as a share of those made."""
_WRITING = 0.5
"""Seconds for the report and the checksums at the end, beside what a checkpoint takes."""
_WINDOW = 500
"""Over about how many of the last updates the speed is averaged."""


@dataclass(frozen=True)
class Plan:
    """How many updates a run has, and where it validates."""

    total_steps: int  # updates of the whole run
    validate_every: int  # updates between validations
    planned_at: int  # update from which this plan counts
    course: float  # share of the learning rate's course behind it then

    def put_into(self, p: Progress) -> None:
        """Go on as planned."""
        p.total_steps, p.validate_every = self.total_steps, self.validate_every
        p.planned_at, p.course = self.planned_at, self.course


class Budget:
    """The clock of a run, and its time budget.

    Attributes:
        seconds: The budget; 0 where the run is given in updates.
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
        self._scoring: float | None = None  # seconds that scoring takes, once it is measured
        self._tried = 0  # how often that was tried
        self._recent = [0.0, 0.0]  # seconds of the last updates and their number, older ones counting less

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
        """Note what an update took, all around it included."""
        keep = 1.0 - 1.0 / _WINDOW
        self._recent = [keep * self._recent[0] + seconds, keep * self._recent[1] + 1.0]

    def is_spent(self, p: Progress) -> bool:
        """Whether training must end, so that time remains for what follows."""
        return self.elapsed + self._validation(p) + self.writing > self._deadline(p) + 0.01 * self.seconds

    def may_plan(self, p: Progress) -> bool:
        """Whether the plan may change: not where the run is given in updates, ends early, or is done."""
        return self.seconds > 0 and not p.ending and p.step != p.total_steps and self._recent[1] > 0

    def is_due(self, p: Progress) -> bool:
        """Whether enough time has passed for the plan to be made anew."""
        return self.may_plan(p) and self.elapsed - self._planned > _REPLANNED * self.seconds

    def plan(self, p: Progress, after_validation: bool = True) -> Plan:
        """Plan the rest of the run from the speed so far.

        Args:
            p: Where the run stands; without a plan, its only validation was of a model that had hardly learned.
            after_validation: Whether it has just validated: only then the distance between validations changes.
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
        """Whether training is to end for want of better validations."""
        patience = self._config.patience
        if patience != "auto":
            return patience is not None and p.bad >= patience
        if self.seconds == 0 or p.total_steps is None or p.ending or p.bad < self._task.patience:
            return False
        return p.step + self._last_updates(p) < p.total_steps  # else it ends by then anyway

    def plan_ending(self, p: Progress) -> Plan | None:
        """The plan of a run that has lost patience; None where it ends at once.

        Where nothing else is said, the learning rate first falls to zero: that often gives the better score that was
        missed, and it makes no run worse.
        """
        c = self._config
        if c.patience != "auto" or c.schedule != "cosine" or p.step <= c.warmup:
            return None
        updates = self._last_updates(p)
        course = course_at(p.step, c.warmup, p.total_steps, p.planned_at, p.course)
        return Plan(p.step + updates, max(1, math.ceil(updates / 2)), p.step, course)

    def _last_updates(self, p: Progress) -> int:
        """Over how many updates the learning rate of a run that ends early falls to zero."""
        return math.ceil(_ENDING * p.step)

    def try_scoring(self, p: Progress, score: Callable[[float, float], float | None]) -> None:
        """Learn now and then what scoring will take; `score` is that of `Trainer`."""
        passed = sum(self.elapsed > share * self._deadline(p) for share in _MEASURED_AT)
        if passed > self._tried:
            self._tried = passed
            expected = p.validation_seconds * self._task.finishing_work if self._scoring is None else self._scoring
            measured = score(min(_MEASURING[0] * self.seconds, _MEASURING[1] * expected), expected)
            self._scoring = self._scoring if measured is None else measured

    def _validation(self, p: Progress) -> float:
        """What the next validation takes; the first one was of a model that had hardly learned."""
        return (self._task.trained_validation if p.total_steps is None else 1.0) * p.validation_seconds

    def _deadline(self, p: Progress) -> float:
        """When training must end."""
        last = self._validation(p) * (self._config.average > 1) + _WRITING + self.writing
        scoring = self._validation(p) * self._task.finishing_work if self._scoring is None else self._scoring
        # However slow they were at first, validation and scoring of a model that is still learning keep no more than a
        # third: an output that never ends would end training.
        most = 0.6 if self._scoring is not None and self._tried == len(_MEASURED_AT) else 1 / 3
        return self.seconds - min(last + scoring, most * self.seconds)
