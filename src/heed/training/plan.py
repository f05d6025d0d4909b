"""The plan of a run under a time budget: how many updates fit, the warm-up, the validations, and when training ends.

budget = time before training + updates + validations + scoring of the kept weights

The first plan is made before the first update, from the measured time of a trial step and of validating a few examples;
the next after three seconds of updates (or 2 % of a longer budget), then after each validation and each 2 % of the
budget, since validation and scoring times change during training (an untrained decoder writes outputs of full length)
and machines slow down. A new plan changes how fast the learning rate moves from then on, never its present value, so
that it reaches its peak after a tenth of the updates and, with a cosine schedule, zero when the run ends.

A validation takes at most 4 % of the budget: of a set that would take longer, an evenly chosen part is validated on.

A run under a time budget ends early only where validation gets worse: after three validations without a better score
and with a loss above the lowest by more than noise, it lowers the rate to zero over a sixth of the updates so far and
ends (`training.patience: auto`). A run whose loss is level uses its budget: the rate has yet to fall.
"""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass

from heed.config import TrainingConfig
from heed.training.checkpoint import Progress
from heed.training.contracts import Trainable
from heed.training.optimizer import Schedule
from heed.training.processes import Processes

VALIDATIONS = 12
"""Validations of a run, unless the configuration or their cost requires another number."""
_MAX_WARM_UP, _WARM_UP = 100, 0.1
"""The warm-up "auto": a share of the planned updates (Devlin et al. 2019, appendix A.3), up to a number of them."""
_STEEPEST = 0.02
"""The minimum share of the remaining updates over which a warm-up that has begun is completed."""
_REPLANNED, _PROBE_SECONDS = 0.02, 3.0
"""The plan is updated after a share of the budget, or some seconds of a short one, with or without a validation."""
_VALIDATING = 0.2
"""The largest share of the remaining time that validations take."""
_VALIDATION, _PART = 0.04, 0.025
"""The largest share of the budget for one validation; and its share where only a part of the set is validated on."""
_UNKNOWN = 1.0
"""Seconds of an update that nobody has measured."""
_MEASURED_AT = (0.3, 0.75)
"""Shares of the training time after which scoring is timed, at the next validation."""
_MEASURING = (0.03, 0.15)
"""Maximum time for this: a share of the budget, and a share of the expected scoring time."""
_ENDING = 1 / 6
"""Further updates of a run that ends early, as a share of the updates done."""
_WRITING = 0.5
"""Seconds for the report and the checksums at the end, in addition to the time of a checkpoint."""
_FEW, _TRIED = 1 / 64, 0.01
"""Share of the validation set that is tried first, and the maximum time for trying, as a share of the budget."""
_WINDOW = 0.1
"""Share of the budget over which the speed is averaged, about."""


def warm_up(config: TrainingConfig, total: int) -> int:
    """The number of updates of the warm-up, if a run has `total` updates."""
    if config.warmup == "auto":
        return min(_MAX_WARM_UP, int(_WARM_UP * total))
    updates = config.warmup if isinstance(config.warmup, int) else round(config.warmup * total)
    return updates if config.steps is not None else min(updates, total // 2)


def begin(p: Progress, config: TrainingConfig) -> None:
    """Plan a run that begins, as far as its number of updates is given."""
    p.total_steps = config.steps
    p.warmup = None if config.steps is None else warm_up(config, config.steps)
    p.validate_every = config.validate_every
    if config.steps is not None and config.validate_every is None:
        p.validate_every = math.ceil(config.steps / VALIDATIONS)


def go_on(p: Progress, config: TrainingConfig, changed: Collection[str]) -> None:
    """Change the plan of a resumed run by the fields that differ from those of its beginning."""
    if config.micro_batches is not None and "training.micro_batches" in changed:
        p.micro_batches = config.micro_batches
    if {"training.steps", "training.minutes", "training.epochs"} & {*changed}:
        p.total_steps, p.planned_at, p.risen, p.course = None, 0, 0.0, 0.0  # to be planned again
        p.bad, p.worse, p.ending = 0, 0, False
    if config.steps is not None:
        p.total_steps, p.warmup = config.steps, warm_up(config, config.steps)  # a run may be resumed to train longer
    if "training.validate_every" in changed and config.validate_every is not None:
        p.validate_every = config.validate_every


@dataclass(frozen=True)
class Plan:
    """The number of updates of a run, the distance between its validations, and the schedule of its learning rate."""

    total_steps: int  # updates of the whole run
    validate_every: int  # updates between validations
    schedule: Schedule  # of the learning rate, from now on

    def put_into(self, p: Progress) -> None:
        """Store the plan in the progress of a run."""
        p.total_steps, p.validate_every = self.total_steps, self.validate_every
        s = self.schedule
        p.warmup, p.planned_at, p.risen, p.course = s.warmup, s.since, s.risen, s.behind


USABLE = 0.8
"""Approximate share of a budget that is left for updates."""


@dataclass(frozen=True)
class SizeChoice:
    """A size and a batch, and the updates that fit into a budget with them."""

    size: str  # named size of the model
    batch: float  # share of the usual batch
    updates: int
    larger: Mapping[str, int]  # updates that fit of the sizes that were not chosen, with the smallest batch

    def __str__(self) -> str:
        others = "".join(f", of size {size} only {updates:,}" for size, updates in self.larger.items())
        return f"about {self.updates:,} updates fit into the time budget{others}"


def choose_size(
    sizes: Sequence[str],
    batches: Sequence[float],
    measure: Callable[[str], tuple[float, float]],
    is_enough: Callable[[str, float, int], bool],
    seconds: float,
) -> SizeChoice:
    """The largest size of which enough updates fit into a budget, with the largest such batch; else the smallest.

    Args:
        sizes: Named sizes, the largest first.
        batches: Shares of the usual batch, the largest first; a smaller batch is tried before a smaller size.
        measure: Seconds of an update of a size apart from its batch (the optimiser's step), and of the usual batch.
        is_enough: True if a number of updates is enough for a size with a share of the usual batch.
        seconds: The budget.
    """
    larger: dict[str, int] = {}
    for size in sizes:
        fixed, of_batch = measure(size)
        for batch in batches:
            updates = max(1, int(USABLE * seconds / max(1e-9, fixed + batch * of_batch)))
            if is_enough(size, batch, updates):
                return SizeChoice(size, batch, updates, larger)
        larger[size] = updates
    return SizeChoice(size, batch, larger.pop(size), larger)


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
        self._expected = _UNKNOWN  # seconds of an update, before any is measured

    @property
    def elapsed(self) -> float:
        """Seconds of the whole run, including those before an interruption."""
        return time.perf_counter() - self._started

    @property
    def left(self) -> float:
        """Seconds until the budget is spent."""
        return self.seconds - self.elapsed

    def expect(self, seconds: float) -> None:
        """Plan with this many seconds for an update until some have been made."""
        self._expected = seconds

    def add(self, seconds: float) -> None:
        """Count time that was spent before an interruption."""
        self._started -= seconds

    def updated(self, seconds: float) -> None:
        """Record the seconds of an update, including everything done around it."""
        keep = max(0.5, 1.0 - seconds / (_WINDOW * self.seconds)) if self.seconds else 0.0
        self._recent = [keep * self._recent[0] + seconds, keep * self._recent[1] + 1.0]

    def is_spent(self, p: Progress) -> bool:
        """True if training must end now to leave time for what follows."""
        return self.elapsed + self._validation(p) + self.writing > self._deadline(p) + 0.01 * self.seconds

    def may_plan(self, p: Progress) -> bool:
        """True if the plan may change: not for a fixed number of updates, an early end or a finished run."""
        return self.seconds > 0 and not p.ending and p.step != p.total_steps

    def is_due(self, p: Progress) -> bool:
        """True if enough time has passed to update the plan."""
        wait = max(_REPLANNED * self.seconds, min(_PROBE_SECONDS, 0.1 * self.seconds))
        return self.may_plan(p) and self.elapsed - self._planned > wait and self._recent[1] > 0

    def try_validation(self, p: Progress, evaluate: Callable[[], object], processes: Processes) -> None:
        """Measure a validation, and choose the share of the validation set on which the run validates.

        A part of the set is tried, then larger ones while they take little time, since the first examples also pay for
        what is done once.
        """
        share, seconds, task = _FEW / 4.0, 0.0, self._task
        while share < 1.0 and 4.0 * seconds <= max(_TRIED * self.seconds, 0.25):
            task.valid_share = share = min(1.0, 4.0 * share)
            start = time.perf_counter()
            evaluate()
            seconds = processes.broadcast(time.perf_counter() - start)
        p.valid_share = task.valid_share = self.part_to_validate(seconds / share)
        p.validation_seconds = seconds / share * p.valid_share

    def part_to_validate(self, seconds: float) -> float:
        """The share of the validation set to validate on, if all of it takes this many seconds."""
        if self.seconds == 0 or seconds * self._task.trained_validation <= _VALIDATION * self.seconds:
            return 1.0
        return min(1.0, _PART * self.seconds / seconds)

    def is_whole(self, p: Progress) -> bool:
        """True if training ends because more updates would not help the task, not for lack of time."""
        return p.total_steps is not None and p.total_steps == self._task.most_updates

    def plan(self, p: Progress, after_validation: bool = True) -> Plan:
        """Plan the rest of the run from the speed so far.

        Args:
            p: The run's progress, with the expected seconds of a validation.
            after_validation: True if it has just validated: only then the distance between validations changes.
        """
        seconds, count = self._recent
        mean = p.training_seconds / p.step if p.step and p.training_seconds else self._expected
        pace = max(1e-6, seconds / count if count else mean)
        validation = self._validation(p) + self.writing
        self._planned = self.elapsed
        left = max(0.0, self._deadline(p) - self._planned)
        if (fixed := self._config.validate_every) is not None:
            updates, every = int((left - validation) / (pace + validation / fixed)), fixed
        elif after_validation or p.total_steps is None or p.validate_every is None:
            number = min(math.ceil(VALIDATIONS * left / self.seconds), int(_VALIDATING * left / max(1e-6, validation)))
            updates = int((left - max(1, number) * validation) / pace)
            every = max(1, math.ceil(updates / max(1, number)))
        else:
            every = p.validate_every
            coming = max(1, math.ceil((p.total_steps - max(p.kept, default=0)) / every))
            updates = int((left - coming * validation) / pace)
        maximum = self._task.most_updates
        if maximum is not None and p.step + updates > maximum:
            updates, every = maximum - p.step, fixed or math.ceil(maximum / VALIDATIONS)
        total = p.step + max(1 if p.total_steps is None else 0, updates)
        if p.total_steps is None:
            return Plan(total, every, Schedule(warm_up(self._config, total), total))
        return Plan(total, every, self._onward(p, total))

    def _onward(self, p: Progress, total: int) -> Schedule:
        """The schedule from its present position to the end of a run of `total` updates."""
        now = p.schedule
        risen, warmup = now.rise(p.step), now.warmup
        if risen < 1.0:
            soon = p.step + math.ceil(_STEEPEST * (total - p.step))
            warmup = max(warm_up(self._config, total), min(warmup, soon))
        return Schedule(warmup, total, p.step, risen, now.decay(p.step))

    def patience_is_lost(self, p: Progress) -> bool:
        """True if training should end because validations get worse (or no better, where a number is given)."""
        patience = self._config.patience
        if patience != "auto":
            return patience is not None and p.bad >= patience
        if self.seconds == 0 or p.total_steps is None or p.ending or p.worse < self._task.patience:
            return False
        return p.step + self._last_updates(p) < p.total_steps  # else it ends by then anyway

    def end_early(self, p: Progress, select_by: str, loss: float | None) -> tuple[str, bool]:
        """Plan the end of a run that no longer improves; return what to say, and whether it ends immediately.

        By default the learning rate first falls to zero: that often improves the score after all, and it makes no run
        worse.

        Args:
            p: The run's progress.
            select_by: The score that no longer improves.
            loss: Of the last validation; None if it was before the run was resumed.
        """
        reason = f"no better {select_by} in {p.bad} validations"
        if p.worse and p.lowest_loss is not None and loss is not None:
            reason += f", and the loss rose from {p.lowest_loss:.4g} to {loss:.4g}"
        if self._config.patience != "auto" or self._config.schedule != "cosine":
            return reason, True
        updates = self._last_updates(p)
        total = p.step + updates
        Plan(total, max(1, math.ceil(updates / 2)), self._onward(p, total)).put_into(p)
        p.ending = True
        return f"{reason}; lowering the learning rate to zero until training ends at update {total}", False

    def _last_updates(self, p: Progress) -> int:
        """Number of updates over which the learning rate falls to zero when a run ends early."""
        return math.ceil(_ENDING * p.step)

    def try_scoring(self, p: Progress, score: Callable[[float, float], float | None]) -> None:
        """Measure occasionally how long scoring will take; `score` is `try_scoring` of `Trainer`."""
        passed = sum(self.elapsed > share * self._deadline(p) for share in _MEASURED_AT)
        if passed > self._tried:
            self._tried, expected = passed, self.scoring(p)
            measured = score(min(_MEASURING[0] * self.seconds, _MEASURING[1] * expected), expected)
            self._scoring = self._scoring if measured is None else measured

    def _validation(self, p: Progress) -> float:
        """Expected seconds of the next validation; before the first, they were measured on an untrained model."""
        return (1.0 if p.kept else self._task.trained_validation) * p.validation_seconds

    def scoring(self, p: Progress) -> float:
        """Expected seconds of scoring the kept weights on every split."""
        unmeasured = self._validation(p) / p.valid_share * self._task.finishing_work
        return unmeasured if self._scoring is None else self._scoring

    def _deadline(self, p: Progress) -> float:
        """When training must end."""
        last = self._validation(p) * (self._config.average > 1) + _WRITING + self.writing
        if p.valid_share < 1.0:
            last += self._validation(p) / p.valid_share  # the kept weights are validated on the whole set
        # However slow they were at first, at most a third of the budget is reserved for validating and scoring a model
        # that is still learning: an output that never ends would otherwise end training.
        maximum = 0.6 if self._scoring is not None and self._tried == len(_MEASURED_AT) else 1 / 3
        return self.seconds - min(last + self.scoring(p), maximum * self.seconds)
