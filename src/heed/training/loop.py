"""The training loop: updates, validation, budget, early stopping, checkpoints. It knows tasks only by `Trainable`."""

from __future__ import annotations

import math
import threading
import time
from collections.abc import Callable, Collection
from contextlib import nullcontext
from pathlib import Path

import torch
from torch import Tensor, nn

from heed.config import TrainingConfig
from heed.device import pin
from heed.errors import DiskError, RunError, TrainingError
from heed.training.batches import Draw, Place, draws
from heed.training.budget import VALIDATIONS, Budget
from heed.training.checkpoint import (
    Progress,
    apply_weights,
    average_weights,
    draw_seed,
    latest_checkpoint,
    load_checkpoint,
    load_weights,
    of_rank,
    prune_checkpoints,
    random_state,
    restore,
    save_checkpoint,
)
from heed.training.compiled import compiled
from heed.training.contracts import Batch, Carries, Groups, Trainable, TrainResult, parts_of
from heed.training.cost import Cost, TrialStep, predict_cost
from heed.training.device import autocast, choose_precision, device_of, memory_explained
from heed.training.feed import Feed
from heed.training.interrupt import Interrupts
from heed.training.metrics import MetricsLog
from heed.training.optimizer import make_optimizer
from heed.training.processes import Processes, current
from heed.training.progress import Reporter, duration, progress_line
from heed.training.schedule import rate_factor


class _Losses(nn.Module):
    """A model and its task's loss as one module: what DistributedDataParallel wants to wrap."""

    def __init__(self, model: nn.Module, task: Trainable, label_smoothing: float) -> None:
        super().__init__()
        self.model = model
        self._task = task
        self._label_smoothing = label_smoothing

    def forward(self, batch: Batch) -> tuple[Tensor, dict[str, Tensor]]:
        return parts_of(self._task.loss(self.model, batch, self._label_smoothing))


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
    ) -> None:
        """Prepare; `run` trains.

        Args:
            model: Is moved to the chosen device.
            task: Gives batches, loss and validation scores.
            config: The section `training`.
            select_by: Validation score by which the best weights are chosen.
            folder: The run folder; `checkpoints/` and `metrics.jsonl` go there.
            reporter: Told about the run.
            on_validation: Called after each validation, the model being in evaluation mode.
            began: `time.perf_counter()` when the budget began to run; now by default.
        """
        self.processes: Processes = current()
        self.device = device_of(config, self.processes)
        self.precision = choose_precision(config.precision, self.device)
        self.model = model.to(self.device)
        self.task = task
        self.config = config
        self.select_by = select_by
        self.checkpoints = folder / "checkpoints"
        self.reporter = reporter
        self.on_validation = on_validation
        self.optimizer = make_optimizer(model, config, task.groups(model) if isinstance(task, Groups) else ())
        self.progress = Progress()
        self.validation: dict[str, float] = {}
        self._metrics = MetricsLog(folder / "metrics.jsonl", reporter.say, self.processes.is_first)
        self._stop = threading.Event()
        self.budget = Budget(config, began, task.finishing_work)
        self._saved_at = time.perf_counter()
        self._measured = 0.0  # seconds of updates in this process
        self._micro_batches = config.micro_batches or 1
        self.listen = self._metrics.listen
        self.enough = threading.Event()  # set by a callback: no further updates
        self.asks = False  # whether a callback may set it, which all processes know

    # The run --------------------------------------------------------------------------------------------------

    def run(self, resume: bool = False, changed: Collection[str] = ()) -> TrainResult:
        """Train until the budget, the patience or the user ends it; the model then holds the weights to keep.

        Args:
            resume: Go on from the last whole checkpoint, if there is one.
            changed: Fields that differ from those the run began with, as "training.minutes".

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
        many = f", {self.processes.count} processes" if self.processes.count > 1 else ""
        count = self.progress.micro_batches
        divided_in = f", {count} micro-batches a batch" if count > 1 else ""
        self._say(
            f"device {self.device}, {self.precision}, {self.progress.threads} "
            f"thread{'s' if self.progress.threads > 1 else ''}{many}{divided_in}"
        )
        self._losses = self.processes.wrap(_Losses(self.model, self.task, self.config.label_smoothing))
        self.budget.add(self.progress.seconds)
        feed = self._feed()
        try:
            with Interrupts(self._stop, self.reporter), compiled(self.model) if self.config.compile else nullcontext():
                reason = self._train(feed)
        finally:
            feed.close()
            self.reporter.close()
            # What sums gradients must go before the group of processes: freed after it, it is what ends the group's
            # threads, with Python's lock held, and one of them may wait for that lock (seen as a hang at the end).
            del self._losses
        self.progress.seconds = self.budget.elapsed
        if reason == "interrupted":
            self._write()
            return self._result(False, reason, "the last update")
        return self._result(True, reason, self._choose_weights())

    def predict_cost(self, work: Callable[[list[int]], int]) -> Cost:
        """Predict what an update takes, `work` being the padded positions of a batch; call it before `run`.

        Also chooses micro-batches and threads.
        """
        if self.config.threads is not None:
            torch.set_num_threads(self.config.threads)
        given = (self.model, self.optimizer, self.task, self.config, self.device, self.precision, work)
        # A launcher shares the cores out itself.
        choose_threads = self.config.threads is None and self.device.type == "cpu" and self.processes.count == 1
        with memory_explained("before the first update", self._micro_batches):
            cost = predict_cost(TrialStep(*given), self.processes, choose_threads)
        self._micro_batches = self.processes.broadcast(cost.micro_batches)
        return cost

    def _begin(self) -> None:
        p, c = self.progress, self.config
        p.micro_batches = self._micro_batches
        p.threads = torch.get_num_threads()
        p.processes = self.processes.count
        if isinstance(self.task, Carries):
            self.task.carry({})  # without what measured steps left
        p.total_steps = c.steps
        p.validate_every = c.validate_every
        if c.steps is not None and c.validate_every is None:
            p.validate_every = math.ceil(c.steps / VALIDATIONS)
        if self.processes.rank > 0:  # the weights are the same everywhere, dropout is not
            torch.manual_seed(draw_seed(c.seed, self.processes.rank))

    def _go_on(self, path: Path, changed: Collection[str]) -> None:
        c = self.config
        optimizer = None if "training.optimizer" in changed else self.optimizer
        checkpoint, rank = load_checkpoint(path), self.processes.rank
        self.progress = p = restore(checkpoint, self.model, optimizer, str(path), rank)
        if isinstance(self.task, Carries):
            same = p.processes == self.processes.count  # each process reads streams of its own
            self.task.carry(of_rank(checkpoint.carried, rank) if same else {})
        if c.threads is not None and "training.threads" in changed:
            p.threads = c.threads
        torch.set_num_threads(p.threads)
        if c.micro_batches is not None and "training.micro_batches" in changed:
            p.micro_batches = c.micro_batches
        if c.steps is not None:
            p.total_steps = c.steps  # a run may be resumed to train longer
        elif {"training.steps", "training.minutes"} & {*changed}:
            p.total_steps = None  # to be planned anew
        if "training.validate_every" in changed and c.validate_every is not None:
            p.validate_every = c.validate_every
        self._say(f"resumed at update {p.step} ({p.threads} thread{'s' if p.threads > 1 else ''})")
        if p.processes != self.processes.count:
            self._say(f"the checkpoint was written by {p.processes} processes; resuming with {self.processes.count}")
            p.processes = self.processes.count

    def _train(self, feed: Feed[Draw]) -> str:
        p = self.progress
        while True:
            # Before the next update rather than after the last: a resumed run may owe a validation to its last update.
            probed, stop, late, unsaved = self.processes.any(
                p.total_steps is None and self._measured >= self.budget.probe,
                self._stop.is_set(),
                self.budget.seconds > 0 and p.total_steps is not None and self.budget.is_spent(p),
                time.perf_counter() - self._saved_at > 60 * self.config.save_minutes,
            )
            if stop:
                return "interrupted"
            if probed or self._owes_validation():
                self._validate()
                if probed:
                    self._plan()
                continue
            if unsaved and p.step > 0:
                self._write()
            if self.asks and self.processes.any(self.enough.is_set())[0]:
                if p.kept[-1:] != [p.step]:
                    self._validate()
                return f"ended by the callback at update {p.step}"
            if p.step == p.total_steps:
                return f"all {p.total_steps} updates done"
            if self.config.patience is not None and p.bad >= self.config.patience:
                return f"no better {self.select_by} in {p.bad} validations"
            if late:
                if p.kept[-1:] != [p.step]:
                    self._validate()
                return f"the time was up at update {p.step} of {p.total_steps}"
            start = time.perf_counter()
            self._update(next(feed), start)

    def _owes_validation(self) -> bool:
        """Whether the last update is one to validate after, and that has not happened."""
        p = self.progress
        due = p.step == p.total_steps or (p.validate_every is not None and p.step % p.validate_every == 0)
        return p.step > 0 and due and p.kept[-1:] != [p.step]

    def _feed(self) -> Feed[Draw]:
        """The batches of each update from the place in the data on; for a GPU in memory that it reads by itself."""
        p, on_gpu = self.progress, self.device.type == "cuda"
        place = Place(p.epoch, p.batch, p.plan)
        given = self.task, self.config, self.processes, place, self._say
        count = p.micro_batches
        return Feed(draws(*given, pin, count) if on_gpu else draws(*given, micro_batches=count), ahead=on_gpu)

    def _update(self, draw: Draw, start: float) -> None:
        """One update; `start` is when its batches were asked for, so that speeds include the data."""
        p, c = self.progress, self.config
        p.epoch, p.batch, p.plan = draw.place.epoch, draw.place.batch, draw.place.plan
        batches = [(batch.to(self.device), counts) for batch, counts in draw.batches]
        waited = time.perf_counter() - start
        rate = c.learning_rate * rate_factor(c.schedule, p.step + 1, c.warmup, p.total_steps)
        for group in self.optimizer.param_groups:
            group["lr"] = rate * group["factor"]
        self.model.train()
        (summed,) = self.processes.total(draw.targets)
        count = int(summed)
        total, parts = self._backward(batches, count)
        norm = nn.utils.clip_grad_norm_(self.model.parameters(), c.clip or math.inf).item()
        if not (math.isfinite(total) and math.isfinite(norm)):
            self._fail(total, norm, rate, [batch for batch, _ in batches])
        self.optimizer.step()
        self.optimizer.zero_grad()
        p.step += 1
        seconds = time.perf_counter() - start
        self._measured += seconds
        p.training_seconds += seconds
        p.waiting_seconds += waited
        p.tokens += count
        p.padding += draw.padding
        values = {"loss": total / count, "learning_rate": rate, "gradient_norm": norm, "tokens": count}
        values |= {f"loss.{name}": value / count for name, value in parts.items()}
        self._metrics.write("update", p.step, **values, seconds=seconds, waited=waited)
        self.reporter.update(progress_line(p, self.budget, total / count, draw.padding))

    def _backward(self, batches: list[tuple[Batch, bool]], count: int) -> tuple[float, dict[str, float]]:
        """Gradient of (sum of losses / target tokens), over all batches and processes as if they were one; the sums.

        DistributedDataParallel takes the mean over the processes, so each multiplies by their number.
        """
        total, parts = 0.0, dict[str, float]()
        when = f"at update {self.progress.step + 1}, with {len(batches[0][0].indices)} examples at a time"
        with memory_explained(when, self.progress.micro_batches):
            for number, (batch, counts) in enumerate(batches, start=1):
                last = number == len(batches)
                with nullcontext() if last else self.processes.no_sync(self._losses):
                    with autocast(self.precision, self.device):
                        loss, terms = self._losses(batch)
                    if not counts:
                        loss, terms = loss * 0.0, {name: term * 0.0 for name, term in terms.items()}
                    (loss / (count / self.processes.count)).backward()
                total += loss.item()
                parts = {name: parts.get(name, 0.0) + term.item() for name, term in terms.items()}
        total, *others = self.processes.total(total, *parts.values())
        return total, dict(zip(parts, others, strict=True))

    def _fail(self, total: float, norm: float, rate: float, batches: list[Batch]) -> None:
        what = f"the loss is {total}" if not math.isfinite(total) else f"the gradient's norm is {norm}"
        indices = [i for batch in batches for i in batch.indices]
        before = latest_checkpoint(self.checkpoints)
        back = f"; the last checkpoint is {before.name}" if before is not None else ""
        raise TrainingError(
            f"{what} at update {self.progress.step + 1} (epoch {self.progress.epoch}, learning rate {rate:.2g}) "
            f"on {self.task.describe(indices)}; lower training.learning_rate (now {self.config.learning_rate}) or "
            f"raise training.warmup (now {self.config.warmup}){back}"
        )

    def _plan(self) -> None:
        """Decide, once, how many updates fit the budget."""
        p = self.progress
        p.total_steps, p.validate_every = self.processes.broadcast(self.budget.plan(p))
        end = time.strftime("%H:%M:%S", time.localtime(time.time() + self.budget.left))
        rate = p.step / p.training_seconds
        self._say(f"{rate:.1f} updates/s: {p.total_steps} updates in {duration(self.budget.seconds)}, done at {end}")

    # Validation and weights -----------------------------------------------------------------------------------

    def _validate(self) -> None:
        p = self.progress
        start = time.perf_counter()
        self.validation = self.evaluate()
        p.validation_seconds = max(0.1, time.perf_counter() - start)
        rank = self._rank(self.validation)
        if not p.best_rank or rank > p.best_rank:
            p.best_rank, p.best_step, p.bad = rank, p.step, 0
        else:
            p.bad += 1
        self._metrics.write("validation", p.step, **self.validation)
        scores = ", ".join(f"{name} {value:.4f}" for name, value in self.validation.items())
        self._say(f"update {p.step}{'' if p.total_steps is None else f' of {p.total_steps}'}: {scores}")
        kept = [*p.kept, p.step]
        wanted = {*kept[-self.config.average :], p.best_step}
        p.kept = [step for step in kept if step in wanted]
        self._write()
        if self.on_validation is not None and self.processes.is_first:
            self.on_validation(self, self.validation)

    def evaluate(self) -> dict[str, float]:
        """Scores of the model as it stands, without changing it or the random state."""
        self.model.eval()
        with torch.no_grad():
            return self.task.validate(self.model)

    def _rank(self, scores: dict[str, float]) -> list[float]:
        loss = scores["loss"] if math.isfinite(scores["loss"]) else math.inf
        return [-loss] if self.select_by == "loss" else [scores[self.select_by], -loss]

    def _write(self) -> None:
        """Write a checkpoint, then delete those no longer needed."""
        p = self.progress
        p.seconds = self.budget.elapsed
        rank, task = self.processes.rank, self.task
        own = task.carried() if isinstance(task, Carries) else {}
        states = self.processes.gather((random_state(rank), {f"{rank}.{name}": t for name, t in own.items()}))
        if self.processes.is_first:
            random, carried = (
                {name: t for state in one for name, t in state.items()} for one in zip(*states, strict=True)
            )
            try:
                save_checkpoint(self.checkpoints, self.model, self.optimizer, p, random, carried)
            except DiskError as error:
                before = latest_checkpoint(self.checkpoints)
                last = f"the last checkpoint is {before.name}" if before is not None else "there is no checkpoint yet"
                raise DiskError(
                    f"{error}; stopped at update {p.step}, {last}; when there is room, go on with: "
                    f"heed train {self.checkpoints.parent} --resume"
                ) from None
            prune_checkpoints(self.checkpoints)
        self._saved_at = time.perf_counter()

    def _choose_weights(self) -> str:
        """Put the weights worth keeping into the model: the best checkpoint's, or an average that is better."""
        p = self.progress
        recent = p.kept[-self.config.average :]
        try:
            load_weights(self.model, self.checkpoints / f"step-{p.best_step}" / "model.safetensors")
        except RunError as error:
            self._say(f"warning: {error}; the weights of the last update are kept instead of the best")
            self.validation = self.evaluate()
            return f"update {p.step} (those of the best, {p.best_step}, could not be read)"
        if self.config.average > 1 and len(recent) > 1:
            best = {name: tensor.clone() for name, tensor in self.model.state_dict().items()}
            paths = [self.checkpoints / f"step-{step}" / "model.safetensors" for step in recent]
            apply_weights(self.model, average_weights(paths), "the average")
            scores = self.evaluate()
            self._metrics.write("average", p.step, **scores)
            if self._rank(scores) > p.best_rank:
                self.validation = scores
                return f"average of updates {', '.join(map(str, recent))}"
            self.model.load_state_dict(best)
        if p.best_step != p.step or self.config.average > 1 or not self.validation:
            self.validation = self.evaluate()
        self.model.eval()
        return f"update {p.best_step}"

    # Around it ------------------------------------------------------------------------------------------------

    def _say(self, message: str) -> None:
        if self.processes.is_first:
            self.reporter.say(message)

    def _result(self, finished: bool, reason: str, kept: str) -> TrainResult:
        p = self.progress
        padding = p.padding / max(1, p.step)
        rate = p.tokens / max(1e-9, p.training_seconds)
        waiting = p.waiting_seconds / max(1e-9, p.training_seconds)
        return TrainResult(self.checkpoints.parent, finished, reason, p, self.validation, kept, rate, padding, waiting)
