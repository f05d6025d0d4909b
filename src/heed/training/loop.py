"""The training loop: updates, validation, budget, early stopping, checkpoints. It sees tasks only as `Trainable`."""

from __future__ import annotations

import math
import threading
import time
from collections.abc import Callable, Collection, Generator, Iterator
from contextlib import nullcontext
from functools import cache, partial
from pathlib import Path

import torch
from torch import nn

from heed.config import TrainingConfig
from heed.data.batch import pin
from heed.errors import DiskError, counted
from heed.memory import memory_explained
from heed.training.batches import Draw, Feed, Place, draws
from heed.training.checkpoint import Progress, Saving, Selection, draw_seed, latest_checkpoint, load_checkpoint
from heed.training.contracts import Batch, Losses, Trainable, TrainResult
from heed.training.cost import Cost, TrialStep, give_way, may_choose_threads, predict_cost, resumed_threads
from heed.training.device import (
    LOWER_VALIDATION,
    autocast,
    choose_precision,
    compiled,
    device_of,
    predicting,
    step_explained,
)
from heed.training.optimizer import Unfreezing, clip_gradient, make_optimizer
from heed.training.plan import Budget, begin, go_on
from heed.training.processes import Numbers, Processes, Sums, current
from heed.training.progress import (
    MetricsLog,
    Reporter,
    RisingLoss,
    begin_line,
    interrupts,
    not_finite,
    not_saved,
    plan_line,
    progress_line,
    validation_line,
)


class Trainer:
    """Trains one model on one task into one run folder."""

    def __init__(
        self,
        model: nn.Module,
        task: Trainable,
        config: TrainingConfig,
        select_by: str,
        folder: Path,
        reporter: Reporter,
        on_validation: Callable[[Trainer, dict[str, float]], None] | None = None,
        began: float | None = None,
        try_scoring: Callable[[float, float], float | None] | None = None,
    ) -> None:
        """Prepare; `run` trains.

        Args:
            model: Moved to the chosen device.
            task: Makes batches, loss and validation scores.
            config: The section `training`.
            select_by: Validation score by which the best weights are chosen.
            folder: The run folder, for `checkpoints/` and `metrics.jsonl`.
            reporter: Prints messages and progress.
            on_validation: Called after each validation, with the model in evaluation mode.
            began: `time.perf_counter()` at the start of the budget; now by default.
            try_scoring: Scores a part of the examples as after training and returns the estimated seconds for all of
                them (None: not possible). Arguments: seconds to spend, and the seconds expected for all.
        """
        self.processes: Processes = current()
        self.device = device_of(config, self.processes)
        self.precision = choose_precision(config.precision, self.device)
        self.model = model.to(self.device)
        self.task, self.config, self.select_by = task, config, select_by
        self.checkpoints = folder / "checkpoints"
        self.judged_by, self.made_of = "", ""  # hashes of the data and settings of validations, and of the model
        self.reporter = reporter
        self.on_validation, self._try_scoring = on_validation, try_scoring
        groups = task.groups(self.model)
        self.optimizer = make_optimizer(self.model, config, groups)
        self._unfreezing = Unfreezing(groups)
        self.progress = Progress(threads=0, micro_batches=config.micro_batches or 1)  # 0: not chosen yet
        self.validation: dict[str, float] = {}
        self._metrics = MetricsLog(folder / "metrics.jsonl", reporter.say, self.processes.is_first)
        self._stop = threading.Event()
        self.budget = Budget(config, task, began)
        judging = self.model, self.evaluate, self._say
        self._selection = Selection(config.average, select_by, self.checkpoints, *judging)
        self._saved_at = time.perf_counter()
        self._saving = Saving(self.checkpoints, self.device, self.processes, self._not_saved)
        self._unread: Callable[[], object] = bool  # logs the last update
        self._announced = False  # True once the planned number of updates was printed
        self._chooses_threads = may_choose_threads(config, self.device, self.processes)
        self.listen = self._metrics.listen
        self._rising = RisingLoss(config, lambda: self.progress.total_steps, reporter.say)
        self.listen(self._rising)
        self.enough = threading.Event()  # set by a callback: no further updates
        self._heard: list[bool] | None = None  # what the signs of all processes were after the last update
        self._ahead: tuple[Draw, float] | None = None  # the next update, if it was made before, and all its targets
        self.asks = False  # True in all processes if a callback may set `enough`

    # The run --------------------------------------------------------------------------------------------------

    def run(self, resume: bool = False, changed: Collection[str] = ()) -> TrainResult:
        """Train until the budget, the patience or the user ends it; the model then holds the weights to keep.

        Args:
            resume: Resume from the newest undamaged checkpoint, if there is one.
            changed: Fields whose values differ from those at the start of the run, such as "training.minutes".

        Raises:
            TrainingError: The loss is not finite, or memory ran out.
            DiskError: A checkpoint cannot be written.
            RunError: The checkpoint is of another model or format.
        """
        path = latest_checkpoint(self.checkpoints, self._say) if resume else None
        if path is None:
            self._begin()
        else:
            self._go_on(path, changed)
        self._metrics.keep_until(self.progress.step)
        self._rising.recall(self._metrics.events() if path is not None else ())
        self._say(begin_line(self.progress, self.device, self.precision))
        self._unfreezing.at(self.progress.step)
        self._losses = self._wrapped()
        self.budget.add(self.progress.seconds)
        if self.progress.total_steps is None:
            self.first_plan()
        feed = self._feed()
        try:
            fast = compiled(self.model, self.task.same_shapes) if self.config.compile else nullcontext()
            with interrupts(self._stop, self.reporter), fast:
                reason = self._train(feed)
                self._read_last()
                self._saving.check(wait=True)
                self.processes.broadcast(None)  # all may read the checkpoints now, which the first process has written
        finally:
            feed.close()
            self._saving.wait()
            self.reporter.close()
            # The DDP wrapper must be freed before the process group: freed later, it ends the group's threads while
            # holding Python's lock, and one of them may wait for that lock (seen as a hang at the end).
            del self._losses
        self.progress.seconds = self.budget.elapsed
        if reason == "interrupted":
            return self._result(False, reason, "the last update")
        kept, self.validation, average = self._selection.choose(self.progress)
        if average is not None:
            self._metrics.write("average", self.progress.step, **average)
        self._validate_whole()
        self.model.eval()
        return self._result(True, reason, kept)

    def predict_cost(self, work: Callable[[list[int]], int]) -> Cost:
        """Predict the cost of an update; `work` gives the padded positions of a batch. Call it before `run`.

        Also chooses micro-batches and threads.
        """
        if self.config.threads is not None:
            torch.set_num_threads(self.config.threads)
        given = (self.model, self.optimizer, self.task, self.config, self.device, self.precision, work)
        with step_explained("before the first update", self.progress.micro_batches):
            cost = predict_cost(TrialStep(*given), self.processes, self._chooses_threads)
        self.budget.expect(cost.seconds)
        p, counts = self.progress, self.processes.gather(cost.micro_batches)
        p.threads, p.micro_batches = cost.threads, max(counts)
        return cost

    def _begin(self) -> None:
        p, c = self.progress, self.config
        p.threads = p.threads or torch.get_num_threads()
        p.processes, p.judged_by = self.processes.count, self.judged_by
        self.task.carry({})  # clear the state left by measured steps
        begin(p, c)
        if self.processes.rank > 0:  # the weights are the same everywhere, dropout is not
            torch.manual_seed(draw_seed(c.seed, self.processes.rank))

    def _go_on(self, path: Path, changed: Collection[str]) -> None:
        c = self.config
        optimizer = None if "training.optimizer" in changed else self.optimizer
        checkpoint, rank = load_checkpoint(path), self.processes.rank
        self.progress = p = checkpoint.restore(self.model, optimizer, rank, self.device)
        # Each process reads streams of its own.
        self.task.carry(checkpoint.carried_by(rank) if p.processes == self.processes.count else {})
        p.threads = resumed_threads(c, changed, p.threads)
        torch.set_num_threads(p.threads)
        go_on(p, c, changed)
        self.task.valid_share = p.valid_share
        self._say(f"resumed at update {p.step} ({counted(p.threads, 'thread')})")
        if (now := self.processes.count) != (before := p.processes):
            self._say(f"the checkpoint was written by {counted(before, 'process', 'es')}; resuming with {now}")
            p.processes = now
        if p.judged_by != self.judged_by:
            p.judged_by = self.judged_by
            if p.kept:
                self._selection.score_again(p)
                scored = f"kept weights scored again, the best are those of update {p.best_step}"
                self._say(f"data or settings have changed: {scored}")

    def _train(self, feed: Iterator[Draw]) -> str:
        p, self._batches = self.progress, feed
        while True:
            self._saving.check()
            # Before the next update rather than after the last: a resumed run may owe a validation to its last update.
            planned, stop, late, unsaved = self._heard or self.processes.any(*self._signs(p.step))
            self._heard = None
            if stop:
                self._write()
                return "interrupted"
            if self._owes_validation(p.step):
                self._validate()
                self._plan()
                continue
            if planned:
                self._plan(after_validation=False)
                continue
            if (unsaved and p.step > 0) or p.due(self.config.snapshots):
                self._write()
            if self.asks and self.processes.any(self.enough.is_set())[0]:
                self._validate()
                return f"ended by the callback at update {p.step}"
            if p.step == p.total_steps:
                if p.ending:
                    return f"ended early after {p.total_steps} updates, because {self.select_by} no longer improved"
                return "1 update done" if p.total_steps == 1 else f"all {p.total_steps} updates done"
            if self._unfreezing.is_over(p.step) and self.budget.patience_is_lost(p):
                said, at_once = self.budget.end_early(p, self.select_by, self.validation.get("loss"))
                if at_once:
                    return said
                self._say(said)
            if late:
                self._validate()
                return f"time budget used up at update {p.step} of {p.total_steps}"
            start = time.perf_counter()
            (draw, targets), self._ahead = self._ahead or (next(feed), None), None
            self._update(draw, targets, start)

    def _signs(self, step: int) -> list[bool]:
        """After `step` updates: is a plan due, was the run interrupted, is time over, is a checkpoint due."""
        return [
            self.budget.is_due(self.progress),
            self._stop.is_set(),
            self.budget.seconds > 0 and step > 0 and self.budget.is_spent(self.progress),
            time.perf_counter() - self._saved_at > 60 * self.config.save_minutes,
        ]

    def _owes_validation(self, step: int) -> bool:
        """True if a validation is due after `step` updates and has not happened."""
        p = self.progress
        last = p.kept[-1] if p.kept else 0
        if step == last or step == p.total_steps:
            return step != last
        if p.validate_every is None:
            return False
        if self.budget.seconds == 0 or self.config.validate_every is not None:
            return step % p.validate_every == 0
        return step - last >= p.validate_every  # this number changes with the plan

    def _feed(self) -> Generator[Draw] | Feed[Draw]:
        """The batches of each update from the current place on; for a GPU made ahead, in pinned memory."""
        p, count = self.progress, self.progress.micro_batches
        given = self.task, self.config, self.processes, Place(p.epoch, p.batch, p.plan), self._say
        return Feed(draws(*given, pin, count)) if self.device.type == "cuda" else draws(*given, micro_batches=count)

    def _update(self, draw: Draw, targets: float | None, start: float) -> None:
        """One update; `start` is when its batches were asked for, so that speeds include the data.

        `targets` are those of all processes, None if they have not been summed yet.

        Several processes exchange one tensor: the sums, what `_signs` says, and the targets of the next update, whose
        batches are therefore made before, unless a validation comes first.
        """
        p, c = self.progress, self.config
        if begun := self._unfreezing.at(p.step):
            self._losses = self._wrapped()  # DDP must sum the gradients of the newly trained parameters too
            self._say(f"update {p.step}: training {' and '.join(begun)} from here on")
        p.epoch, p.batch, p.plan = draw.place.epoch, draw.place.batch, draw.place.plan
        batches = [(batch.to(self.device), counts) for batch, counts in draw.batches]
        waited = time.perf_counter() - start
        rate = c.learning_rate * p.schedule.factor(c.schedule, p.step + 1)
        for group in self.optimizer.param_groups:
            group["lr"] = rate * group["factor"]
        self.model.train()
        if self._chooses_threads:
            give_way(p.threads)
        count = int(self.processes.total(draw.targets)[0] if targets is None else targets)
        sums = self._backward(batches, count)
        closed = sums.close(clip_gradient(self.model, c.clip))
        examples = [i for batch, _ in batches for i in batch.indices]
        if self.processes.count > 1 and not self._owes_validation(p.step + 1):
            asked, following = time.perf_counter(), next(self._batches)
            waited += time.perf_counter() - asked
            sums.counts = [*self._signs(p.step + 1), following.targets]
        numbers = cache(partial(self._numbers, sums, p.step + 1, p.epoch, rate, examples))
        late = self.device.type == "cuda" and self.optimizer.skips and not self.asks and self.processes.count == 1
        if late:
            # The processor reads the sums an update later, when they have arrived: so the GPU never waits for it.
            self.optimizer.step(closed.mul(0.0).sum().ne(0.0).float())  # 0 times what is not finite is NaN
        else:
            numbers()
            if sums.counts:
                *signs, targets = sums.counts
                self._heard, self._ahead = [number > 0 for number in signs], (following, targets)
            self.optimizer.step()
        self.optimizer.zero_grad()
        p.step += 1
        self._read_last()
        seconds = time.perf_counter() - start
        p.training_seconds += seconds
        p.waiting_seconds += waited
        p.tokens += count
        p.padding += draw.padding
        self._unread = partial(self._log, numbers, p.step, rate, count, draw.padding, seconds=seconds, waited=waited)
        if not late:
            self._read_last()
        self.budget.updated(time.perf_counter() - start)

    def _numbers(self, sums: Sums, step: int, epoch: int, rate: float, examples: list[int]) -> Numbers:
        """What `Sums.read` gives of an update, if all is finite."""
        total, parts, norm = sums.read(self.processes)
        if not (math.isfinite(total) and math.isfinite(norm)):
            what = f"the gradient's norm is {norm}" if math.isfinite(total) else f"the loss is {total}"
            at = f"update {step} (pass {epoch + 1}, learning rate {rate:.2g}) on {self.task.describe(examples, epoch)}"
            self._saving.check(wait=True)  # the message names the last checkpoint
            raise not_finite(f"{what} at {at}", self.config, self.checkpoints)
        return total, parts, norm

    def _log(
        self, numbers: Callable[[], Numbers], step: int, rate: float, count: int, padding: float, **took: float
    ) -> None:
        """Write the numbers of an update to the log and the terminal."""
        total, parts, norm = numbers()
        values = {"loss": total / count, "learning_rate": rate, "gradient_norm": norm, "tokens": count}
        values |= {f"loss.{name}": value / count for name, value in parts.items()}
        self._metrics.write("update", step, **values, **took)
        self.reporter.update(progress_line(self.progress, self.budget, total / count, padding, self.task.targets))

    def _read_last(self) -> None:
        """Log the last update, if its numbers have not been read."""
        unread, self._unread = self._unread, bool
        unread()

    def _backward(self, batches: list[tuple[Batch, bool]], count: int) -> Sums:
        """Compute the gradient of (sum of losses / target tokens) over all batches and processes; return the sums.

        DistributedDataParallel takes the mean over the processes, so each multiplies by their number.
        """
        sums = Sums()
        when = f"at update {self.progress.step + 1}, with {len(batches[0][0].indices)} examples at a time"
        with step_explained(when, self.progress.micro_batches):
            for number, (batch, counts) in enumerate(batches, start=1):
                last = number == len(batches)
                with nullcontext() if last else self.processes.no_sync(self._losses):
                    with autocast(self.precision, self.device):
                        loss, terms = self._losses(batch)
                    if not counts:
                        loss, terms = loss * 0.0, {name: term * 0.0 for name, term in terms.items()}
                    (loss / (count / self.processes.count)).backward()
                sums.add(loss, terms)
        return sums

    def first_plan(self) -> None:
        """Measure a validation on a few examples, and make the first plan if training has a time budget."""
        if not self.progress.kept:
            self.budget.try_validation(self.progress, self.evaluate, self.processes)
        if self.budget.seconds > 0:
            self.processes.broadcast(self.budget.plan(self.progress)).put_into(self.progress)

    def _validate_whole(self) -> None:
        """Validate the kept weights on the whole validation set, if training used a part and time was reserved."""
        p, seconds = self.progress, self.progress.validation_seconds / self.progress.valid_share
        if p.valid_share < 1.0 and self.processes.any(seconds < self.budget.left + 0.05 * self.budget.seconds)[0]:
            self.task.valid_share = 1.0
            self.validation = self.evaluate()

    def _plan(self, after_validation: bool = True) -> None:
        """Plan again how many updates fit the budget; the first measured plan is printed."""
        p = self.progress
        if not self.budget.may_plan(p):
            return
        if after_validation and self.processes.count == 1 and self._try_scoring is not None:
            self.budget.try_scoring(p, self._try_scoring)
        self.processes.broadcast(self.budget.plan(p, after_validation)).put_into(p)
        if not self._announced:
            self._announced = True
            self._say(plan_line(p, self.budget))

    # Validation and weights -----------------------------------------------------------------------------------

    def _validate(self) -> None:
        """Validate, save and say so, if that has not been done after the last update."""
        p = self.progress
        if p.kept[-1:] == [p.step]:
            return
        self._read_last()
        start = time.perf_counter()
        self.validation = self.evaluate()
        p.validation_seconds = max(0.1, time.perf_counter() - start)
        self._selection.note(p, self.validation)
        self._metrics.write("validation", p.step, **self.validation)
        self._say(validation_line(p, self.validation))
        self._write()
        if self.on_validation is not None and self.processes.is_first:
            self.on_validation(self, self.validation)

    def evaluate(self) -> dict[str, float]:
        """Validation scores of the present weights, without changing them or the random state."""
        self.model.eval()
        inside = memory_explained("while validating", LOWER_VALIDATION), predicting(self.precision, self.device)
        with torch.no_grad(), inside[0], inside[1]:
            return self.task.validate(self.model)

    def _write(self) -> None:
        """Write a checkpoint and delete those no longer needed, on a GPU while training goes on."""
        self._read_last()
        p, start = self.progress, time.perf_counter()
        p.seconds = self.budget.elapsed
        p.snapshots |= p.due(self.config.snapshots)
        self._saving.save(self.model, self.optimizer, p, self.task.carried(), self.made_of)
        self._saved_at = time.perf_counter()
        self.budget.writing = self._saved_at - start

    def _not_saved(self, error: DiskError) -> DiskError:
        return not_saved(error, self.progress, self.checkpoints)

    # Around it ------------------------------------------------------------------------------------------------

    def _say(self, message: str) -> None:
        if self.processes.is_first:
            self.reporter.say(message)

    def _wrapped(self) -> nn.Module:
        return self.processes.wrap(Losses(self.model, self.task, self.config.label_smoothing))

    def _result(self, finished: bool, reason: str, kept: str) -> TrainResult:
        at_end = self.progress, self.validation, kept, self.task.valid_share
        return TrainResult(self.checkpoints.parent, finished, reason, *at_end)
