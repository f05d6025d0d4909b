"""The training loop. It sees tasks only as `Trainable`.

    while training goes on:  batches -> losses -> backward -> clip -> step

What happens between two updates (validation, plans, checkpoints, the end) is in `training/callbacks.py`.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Collection, Generator, Iterator
from contextlib import nullcontext
from pathlib import Path

import torch
from torch import nn

from heed.config import TrainingConfig
from heed.data.batch import pin
from heed.errors import counted
from heed.memory import memory_explained
from heed.training.batches import Draw, Feed, Place, draws
from heed.training.callbacks import (
    AGAIN,
    INTERRUPTED,
    Callback,
    Due,
    Interrupt,
    Plan,
    Save,
    Stop,
    Unfreeze,
    Update,
    Updates,
    Validate,
)
from heed.training.checkpoint import Progress, draw_seed, latest_checkpoint, load_checkpoint
from heed.training.contracts import Batch, Losses, Trainable, TrainResult
from heed.training.cost import Cost, TrialStep, limit_to_free_cores, may_choose_threads, predict_cost, resumed_threads
from heed.training.device import (
    LOWER_VALIDATION,
    autocast,
    choose_precision,
    compiled,
    device_of,
    may_choose_precision,
    scoring,
    step_explained,
)
from heed.training.optimizer import clip_gradient, make_optimizer
from heed.training.plan import Budget, begin, go_on
from heed.training.processes import Processes, Sums, current
from heed.training.progress import MetricsLog, Reporter, RisingLoss, begin_line, interrupts


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
        self.judged_by, self.fingerprint = "", ""  # hashes of the data and settings of validations, and of the model
        self.reporter = reporter
        self.on_validation, self.try_scoring = on_validation, try_scoring
        groups = task.groups(self.model)
        self.optimizer = make_optimizer(self.model, config, groups)
        self.progress = Progress(threads=0, micro_batches=config.micro_batches or 1)  # 0: not chosen yet
        self.metrics = MetricsLog(folder / "metrics.jsonl", reporter.say, self.processes.is_first)
        self.budget = Budget(config, task, began)
        self.enough = threading.Event()  # set by a callback: no further updates
        self.asks = False  # True in all processes if a callback may set `enough`
        self._stop = threading.Event()
        self._chooses_threads = may_choose_threads(config, self.device, self.processes)
        may_choose = may_choose_precision(config, self.device, self.processes)
        self._chooses_precision = may_choose and task.is_exact_in_bf16
        self.listen = self.metrics.listen
        self._rising = RisingLoss(config, lambda: self.progress.total_steps, reporter.say)
        self.listen(self._rising)
        self.updates, self.validating, self.planning, self.saver = Updates(self), Validate(self), Plan(self), Save(self)
        self.unfreezing = Unfreeze(self, groups)
        in_order = Interrupt(self), self.validating, self.planning, self.saver, Stop(self), self.unfreezing
        self.callbacks: tuple[Callback, ...] = in_order

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
        path = latest_checkpoint(self.checkpoints, self.say) if resume else None
        if path is None:
            self._begin()
        else:
            self._go_on(path, changed)
        self.metrics.keep_until(self.progress.step)
        self._rising.recall(self.metrics.events() if path is not None else ())
        self.say(begin_line(self.progress, self.device, self.precision))
        self.unfreezing.at(self.progress.step)
        self.wrap()
        self.budget.add(self.progress.seconds)
        if self.progress.total_steps is None:
            self.first_plan()
        feed, saving = self._feed(), self.saver.saving
        try:
            fast = compiled(self.model, self.task.same_shapes) if self.config.compile else nullcontext()
            with interrupts(self._stop, self.reporter), fast:
                while (reason := self._before_update()) is None:
                    self._update(feed)
                self.updates.read()
                saving.check(wait=True)
                self.processes.broadcast(None)  # all may read the checkpoints now, which the first process has written
        finally:
            feed.close()
            saving.wait()
            self.reporter.close()
            # The DDP wrapper must be freed before the process group: freed later, it ends the group's threads while
            # holding Python's lock, and one of them may wait for that lock (seen as a hang at the end).
            del self._losses
        self.progress.seconds = self.budget.elapsed
        kept_weights = "the last update" if reason == INTERRUPTED else self.validating.choose()
        if reason != INTERRUPTED:
            self.model.eval()
        at_end = self.progress, self.validating.scores, kept_weights, self.task.valid_share
        return TrainResult(self.checkpoints.parent, reason != INTERRUPTED, reason, *at_end)

    def predict_cost(self, work: Callable[[list[int]], int]) -> Cost:
        """Predict the cost of an update; `work` gives the padded positions of a batch. Call it before `run`.

        Also chooses micro-batches, threads and, on some processors, the precision.
        """
        if self.config.threads is not None:
            torch.set_num_threads(self.config.threads)
        with step_explained("before the first update", self.progress.micro_batches):
            trial = TrialStep(self.model, self.optimizer, self.task, self.config, self.device, self.precision, work)
            choices = self._chooses_threads, self._chooses_precision
            cost = predict_cost(trial, self.processes, *choices)
        self.budget.expect(cost.seconds)
        p, counts = self.progress, self.processes.gather(cost.micro_batches)
        p.threads, p.micro_batches, self.precision = cost.threads, max(counts), cost.precision
        return cost

    def _begin(self) -> None:
        p, c = self.progress, self.config
        p.threads = p.threads or torch.get_num_threads()
        p.processes, p.judged_by, p.precision = self.processes.count, self.judged_by, self.precision
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
        if self.config.precision == "auto" and self.device.type == "cpu":
            self.precision = p.precision or "float32"
        p.precision = self.precision
        go_on(p, c, changed)
        self.task.valid_share = p.valid_share
        self.say(f"resumed at update {p.step} ({counted(p.threads, 'thread')})")
        if (now := self.processes.count) != (before := p.processes):
            self.say(f"the checkpoint was written by {counted(before, 'process', 'es')}; resuming with {now}")
            p.processes = now
        if p.judged_by != self.judged_by:
            p.judged_by = self.judged_by
            if p.kept:
                self.validating.selection.score_again(p)
                scored = f"kept weights scored again, the best are those of update {p.best_step}"
                self.say(f"data or settings have changed: {scored}")

    def _before_update(self) -> str | None:
        """Call the callbacks in order; return why training ends here, or None."""
        while True:
            self.saver.saving.check()
            due = Due(
                *self.processes.any(
                    self.budget.is_due(self.progress),
                    self._stop.is_set(),
                    self.budget.seconds > 0 and self.progress.step > 0 and self.budget.is_spent(self.progress),
                    self.saver.is_due(),
                    self.enough.is_set(),
                )
            )
            reason = next(filter(None, (callback(due) for callback in self.callbacks)), None)
            if reason != AGAIN:
                return reason

    def _feed(self) -> Generator[Draw] | Feed[Draw]:
        """The batches of each update from the current place on; for a GPU made ahead, in pinned memory."""
        p, count = self.progress, self.progress.micro_batches
        arguments = self.task, self.config, self.processes, Place(p.epoch, p.batch, p.plan), self.say
        if self.device.type == "cuda":
            return Feed(draws(*arguments, pin, count))
        return draws(*arguments, micro_batches=count)

    def _update(self, feed: Iterator[Draw]) -> None:
        """One update: losses and gradients of its batches, clipping, the optimiser's step."""
        p, c, start = self.progress, self.config, time.perf_counter()
        draw = next(feed)
        p.epoch, p.batch, p.plan = draw.place.epoch, draw.place.batch, draw.place.plan
        batches = [(batch.to(self.device), counts) for batch, counts in draw.batches]
        waited = time.perf_counter() - start
        rate = c.learning_rate * p.schedule.factor(c.schedule, p.step + 1)
        for group in self.optimizer.param_groups:
            group["lr"] = rate * group["factor"]
        self.model.train()
        if self._chooses_threads:
            limit_to_free_cores(p.threads)
        count = int(self.processes.total(draw.targets)[0])
        sums = self._backward(batches, count)
        closed = sums.close(clip_gradient(self.model, c.clip))
        examples = [i for batch, _ in batches for i in batch.indices]
        update = Update(sums, p.step + 1, p.epoch, rate, count, draw.padding, examples)
        late = self.device.type == "cuda" and self.optimizer.skips and not self.asks and self.processes.count == 1
        if late:
            # The processor reads the sums an update later, when they have arrived: so the GPU never waits for it.
            self.optimizer.step(closed.mul(0.0).sum().ne(0.0).float())  # 0 times what is not finite is NaN
        else:
            self.updates.numbers(update)
            self.optimizer.step()
        self.optimizer.zero_grad()
        p.step += 1
        self.updates.read()
        update.took = {"seconds": time.perf_counter() - start, "waited": waited}
        p.training_seconds += update.took["seconds"]
        p.waiting_seconds += waited
        p.tokens += count
        p.padding += draw.padding
        self.updates.unread = update
        if not late:
            self.updates.read()
        self.budget.updated(time.perf_counter() - start)

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

    def evaluate(self) -> dict[str, float]:
        """Validation scores of the present weights, without changing them or the random state."""
        self.model.eval()
        inside = memory_explained("while validating", LOWER_VALIDATION), scoring(self.precision, self.device)
        with torch.no_grad(), inside[0], inside[1]:
            return self.task.validate(self.model)

    def say(self, message: str) -> None:
        """Print a message that stays, in the first process."""
        if self.processes.is_first:
            self.reporter.say(message)

    def wrap(self) -> None:
        """Prepare model and loss to sum the gradients of all trained parameters over the processes."""
        self._losses = self.processes.wrap(Losses(self.model, self.task, self.config.label_smoothing))
