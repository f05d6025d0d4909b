"""What a run does between its updates: `Trainer.run` calls these in order before each of them, and logs each."""

from __future__ import annotations

import math
import time
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple

from heed.errors import DiskError
from heed.training.checkpoint import Progress, Saving, Selection
from heed.training.optimizer import Group
from heed.training.processes import Numbers, Sums
from heed.training.progress import not_finite, not_saved, plan_line, progress_line, validation_line

INTERRUPTED = "interrupted"
"""The reason for the end of a run that can be resumed."""
AGAIN = "again"
"""Returned by a callback that took time or changed the plan: all are called again."""


class Due(NamedTuple):
    """What is due in any of the processes."""

    plan: bool  # a new plan
    stop: bool  # the end, by an interruption
    end: bool  # the end, by the time budget
    save: bool  # a checkpoint
    enough: bool  # the end, by the user's callback


class Callback:
    """Called before each update of a `heed.training.loop.Trainer`."""

    def __init__(self, trainer: Any) -> None:
        self._trainer = trainer

    def __call__(self, due: Due) -> str | None:
        """Act where it is due; return why training ends here, AGAIN, or None."""
        raise NotImplementedError


class Interrupt(Callback):
    """Saves and ends a run that the user interrupts."""

    def __call__(self, due: Due) -> str | None:
        if due.stop:
            self._trainer.saver.run()
            return INTERRUPTED
        return None


class Validate(Callback):
    """Validates, and selects the weights to keep.

    Attributes:
        scores: Those of the last validation.
        selection: Which weights are worth keeping.
    """

    def __init__(self, trainer: Any) -> None:
        super().__init__(trainer)
        self.scores: dict[str, float] = {}
        average, judging = trainer.config.average, (trainer.model, trainer.evaluate, trainer.say)
        self.selection = Selection(average, trainer.select_by, trainer.checkpoints, *judging)

    def __call__(self, due: Due) -> str | None:
        # Before the next update rather than after the last: a resumed run may owe a validation to its last update.
        if not self._is_owed():
            return None
        self.run()
        self._trainer.planning.make()
        return AGAIN

    def _is_owed(self) -> bool:
        """True if a validation is due and has not happened."""
        p: Progress = self._trainer.progress
        last = p.kept[-1] if p.kept else 0
        if p.step == last or p.step == p.total_steps:
            return p.step != last
        if p.validate_every is None:
            return False
        if self._trainer.budget.seconds == 0 or self._trainer.config.validate_every is not None:
            return p.step % p.validate_every == 0
        return p.step - last >= p.validate_every  # this number changes with the plan

    def run(self) -> None:
        """Validate, save and say so, if that has not been done after the last update."""
        t, p = self._trainer, self._trainer.progress
        if p.kept[-1:] == [p.step]:
            return
        t.updates.read()
        start = time.perf_counter()
        self.scores = t.evaluate()
        p.validation_seconds = max(0.1, time.perf_counter() - start)
        self.selection.note(p, self.scores)
        t.metrics.write("validation", p.step, **self.scores)
        t.say(validation_line(p, self.scores))
        t.saver.run()
        if t.on_validation is not None and t.processes.is_first:
            t.on_validation(t, self.scores)

    def choose(self) -> str:
        """Put the weights worth keeping into the model and return a description of them.

        They are validated on the whole validation set, if training used a part of it and time was reserved.
        """
        t, p = self._trainer, self._trainer.progress
        description, self.scores, average = self.selection.choose(p)
        if average is not None:
            t.metrics.write("average", p.step, **average)
        seconds = p.validation_seconds / p.valid_share
        if p.valid_share < 1.0 and t.processes.any(seconds < t.budget.left + 0.05 * t.budget.seconds)[0]:
            t.task.valid_share = 1.0
            self.scores = t.evaluate()
        return description


class Plan(Callback):
    """Plans again how many updates fit the budget."""

    def __init__(self, trainer: Any) -> None:
        super().__init__(trainer)
        self._announced = False  # True once the planned number of updates was printed

    def __call__(self, due: Due) -> str | None:
        if not due.plan:
            return None
        self.make(after_validation=False)
        return AGAIN

    def make(self, after_validation: bool = True) -> None:
        """Make a new plan, if it may change; the first measured plan is printed."""
        t, p = self._trainer, self._trainer.progress
        if not t.budget.may_plan(p):
            return
        if after_validation and t.processes.count == 1 and t.try_scoring is not None:
            t.budget.try_scoring(p, t.try_scoring)
        t.processes.broadcast(t.budget.plan(p, after_validation)).put_into(p)
        if not self._announced:
            self._announced = True
            t.say(plan_line(p, t.budget))


class Save(Callback):
    """Writes a checkpoint every `training.save_minutes` and at the snapshots, on a GPU while training goes on."""

    def __init__(self, trainer: Any) -> None:
        super().__init__(trainer)
        self._at = time.perf_counter()
        self.saving = Saving(trainer.checkpoints, trainer.device, trainer.processes, self._explained)

    def __call__(self, due: Due) -> str | None:
        p = self._trainer.progress
        if (due.save and p.step > 0) or p.due(self._trainer.config.snapshots):
            self.run()
        return None

    def is_due(self) -> bool:
        """True if enough time has passed since the last checkpoint."""
        minutes: float = self._trainer.config.save_minutes
        return time.perf_counter() - self._at > 60 * minutes

    def run(self) -> None:
        """Write a checkpoint and delete those no longer needed."""
        t, p = self._trainer, self._trainer.progress
        t.updates.read()
        start = time.perf_counter()
        p.seconds = t.budget.elapsed
        p.snapshots |= p.due(t.config.snapshots)
        self.saving.save(t.model, t.optimizer, p, t.task.carried(), t.fingerprint)
        self._at = time.perf_counter()
        t.budget.writing = self._at - start

    def _explained(self, error: DiskError) -> DiskError:
        return not_saved(error, self._trainer.progress, self._trainer.checkpoints)


class Stop(Callback):
    """Ends a run after its last update, without progress, without time, or where the user's callback asks for it."""

    def __call__(self, due: Due) -> str | None:
        t, p = self._trainer, self._trainer.progress
        if due.enough:
            t.validating.run()
            return f"ended by the callback at update {p.step}"
        if p.step == p.total_steps:
            if p.ending:
                return f"ended early after {p.total_steps} updates, because {t.select_by} no longer improved"
            return "1 update done" if p.total_steps == 1 else f"all {p.total_steps} updates done"
        if t.unfreezing.is_over(p.step) and t.budget.patience_is_lost(p):
            message, at_once = t.budget.end_early(p, t.select_by, t.validating.scores.get("loss"))
            if at_once:
                return str(message)
            t.say(message)
        if due.end:
            t.validating.run()
            return f"time budget used up at update {p.step} of {p.total_steps}"
        return None


class Unfreeze(Callback):
    """Trains groups that are frozen at first from their update on, which follows from the number of updates done."""

    def __init__(self, trainer: Any, groups: Sequence[Group]) -> None:
        super().__init__(trainer)
        late = (group for group in groups if group.since > 0 and group.rate > 0)
        self._groups = [(group, [p for p in group.parameters if p.requires_grad]) for group in late]

    def __call__(self, due: Due) -> str | None:
        step = self._trainer.progress.step
        if begun := self.at(step):
            self._trainer.wrap()  # DDP must sum the gradients of the newly trained parameters too
            self._trainer.say(f"update {step}: training {' and '.join(begun)} from here on")
        return None

    def at(self, step: int) -> list[str]:
        """Freeze and unfreeze for the state after `step` updates; return the names of newly trained groups."""
        due = [(group, parameters) for group, parameters in self._groups if step >= group.since]
        begun = [group.name for group, parameters in due if parameters and not parameters[0].requires_grad]
        for group, parameters in self._groups:
            for parameter in parameters:
                parameter.requires_grad_(step >= group.since)
        return begun

    def is_over(self, step: int) -> bool:
        """True if all groups are trained."""
        return all(step >= group.since for group, _ in self._groups)


@dataclass
class Update:
    """An update whose numbers may still be on their way from a GPU."""

    sums: Sums
    step: int  # its number, from 1
    epoch: int  # pass over the data
    rate: float  # learning rate
    targets: int  # of all processes
    padding: float  # mean share of padding
    examples: list[int]  # this process's
    took: dict[str, float] = field(default_factory=dict)  # seconds, and those of them spent waiting for batches
    numbers: Numbers | None = None  # once read


class Updates:
    """The log of updates; the numbers of the last one may be read later."""

    def __init__(self, trainer: Any) -> None:
        self._trainer = trainer
        self.unread: Update | None = None

    def numbers(self, update: Update) -> Numbers:
        """The numbers of an update.

        Raises:
            TrainingError: The loss or the gradient is not finite.
        """
        if update.numbers is None:
            t = self._trainer
            update.numbers = total, _, norm = update.sums.read(t.processes)
            if not (math.isfinite(total) and math.isfinite(norm)):
                what = f"the gradient's norm is {norm}" if math.isfinite(total) else f"the loss is {total}"
                at = f"update {update.step} (pass {update.epoch + 1}, learning rate {update.rate:.2g})"
                t.saver.saving.check(wait=True)  # the message names the last checkpoint
                examples = t.task.describe(update.examples, update.epoch)
                raise not_finite(f"{what} at {at} on {examples}", t.config, t.checkpoints)
        return update.numbers

    def read(self) -> None:
        """Write the numbers of the last update to the log and the terminal, unless that has been done."""
        update, self.unread = self.unread, None
        if update is None:
            return
        t, count = self._trainer, update.targets
        total, parts, norm = self.numbers(update)
        values = {"loss": total / count, "learning_rate": update.rate, "gradient_norm": norm, "tokens": count}
        values |= {f"loss.{name}": value / count for name, value in parts.items()}
        t.metrics.write("update", update.step, **values, **update.took)
        t.reporter.update(progress_line(t.progress, t.budget, total / count, update.padding, t.task.targets))
