"""The training loop: updates, validation, budget, early stopping, checkpoints. It knows tasks only by `Trainable`."""

from __future__ import annotations

import json
import math
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import torch
from torch import nn

from heed.config import TrainingConfig
from heed.errors import TrainingError
from heed.training.checkpoint import (
    Progress,
    apply_weights,
    average_weights,
    latest_checkpoint,
    load_checkpoint,
    load_weights,
    remove_checkpoint,
    restore,
    save_checkpoint,
)
from heed.training.contracts import Batch, Trainable, TrainResult
from heed.training.device import autocast, choose_device, choose_precision, probe_threads
from heed.training.interrupt import Interrupts
from heed.training.optimizer import make_optimizer
from heed.training.progress import Reporter, duration
from heed.training.schedule import rate_factor

__all__ = ["Trainer"]

_PROBE_SECONDS, _PROBE_SHARE = 3.0, 0.02
"""How long the speed is measured before the number of updates is decided: seconds, or a share of a longer budget."""
_VALIDATIONS = 12


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
            model: What to train; moved to the chosen device.
            task: What it learns.
            config: How.
            select_by: Validation score by which the best weights are chosen.
            folder: The run folder; `checkpoints/` and `metrics.jsonl` go there.
            reporter: Told what happens.
            on_validation: Called after each validation, the model being in evaluation mode.
            began: `time.perf_counter()` when the budget began to run; now by default.
        """
        self.device = choose_device(config.device)
        self.precision = choose_precision(config.precision, self.device)
        self.model = model.to(self.device)
        self.task = task
        self.config = config
        self.select_by = select_by
        self.checkpoints = folder / "checkpoints"
        self.reporter = reporter
        self.on_validation = on_validation
        self.optimizer = make_optimizer(model, config, self.device)
        self.progress = Progress()
        self.validation: dict[str, float] = {}
        self._metrics = folder / "metrics.jsonl"
        self._stop = threading.Event()
        self._started = time.perf_counter() if began is None else began
        self._training_seconds = 0.0
        self._tokens = 0
        self._padding: list[float] = []
        self._validation_seconds = 0.0

    # The run --------------------------------------------------------------------------------------------------

    def run(self, resume: bool = False) -> TrainResult:
        """Train until the budget, the patience or the user ends it; the model then holds the weights to keep.

        Raises:
            TrainingError: The loss is not finite, or memory ran out.
        """
        if resume and (path := latest_checkpoint(self.checkpoints)) is not None:
            self.progress = restore(load_checkpoint(path), self.model, self.optimizer, str(path))
            torch.set_num_threads(self.progress.threads)
            if self.config.steps is not None:
                self.progress.total_steps = self.config.steps  # a run may be resumed to train longer
            self.reporter.say(f"resumed at update {self.progress.step} ({self.progress.threads} threads)")
        else:
            self.progress.threads = self._choose_threads()
            self.progress.total_steps = self.config.steps
            self.progress.validate_every = self.config.validate_every
            if self.config.steps is not None and self.config.validate_every is None:
                self.progress.validate_every = math.ceil(self.config.steps / _VALIDATIONS)
        self.reporter.say(
            f"device {self.device}, {self.precision}, {self.progress.threads} "
            f"thread{'s' if self.progress.threads > 1 else ''}"
        )
        self._started -= self.progress.seconds
        try:
            with self._interruptible():
                reason = self._train()
        finally:
            self.reporter.close()
        self.progress.seconds = time.perf_counter() - self._started
        if reason == "interrupted":
            save_checkpoint(self.checkpoints, self.model, self.optimizer, self.progress)
            return self._result(False, reason, "the last update")
        return self._result(True, reason, self._choose_weights())

    def _train(self) -> str:
        p = self.progress
        updates = self._updates()
        while True:
            # Before the next update rather than after the last: a resumed run may owe a validation to its last update.
            probe = max(_PROBE_SHARE * self._budget(), min(_PROBE_SECONDS, 0.1 * self._budget()))
            probed = p.total_steps is None and self._training_seconds >= probe
            if probed or self._owes_validation():
                self._validate()
            if probed:
                self._plan()
            if self._stop.is_set():
                return "interrupted"
            if p.step == p.total_steps:
                return f"all {p.total_steps} updates done"
            if self.config.patience is not None and p.bad >= self.config.patience:
                return f"no better {self.select_by} in {p.bad} validations"
            if self.config.steps is None and p.total_steps is not None and self._elapsed() > self._deadline():
                if p.kept[-1:] != [p.step]:
                    self._validate()
                return f"the time was up at update {p.step} of {p.total_steps}"
            start = time.perf_counter()
            self._update(next(updates), start)
            if self._stop.is_set():
                return "interrupted"

    def _owes_validation(self) -> bool:
        """Whether the last update is one to validate after, and that has not happened."""
        p = self.progress
        due = p.step == p.total_steps or (p.validate_every is not None and p.step % p.validate_every == 0)
        return p.step > 0 and due and p.kept[-1:] != [p.step]

    def _updates(self) -> Iterator[list[Batch]]:
        """The batches of each update, from the place in the data on, without end."""
        p = self.progress
        while True:
            plan = self.task.train_batches(p.epoch)
            while p.batch < len(plan):
                chosen = plan[p.batch : p.batch + self.config.accumulate]
                p.batch += len(chosen)
                yield [self.task.collate(indices) for indices in chosen]
            p.epoch, p.batch = p.epoch + 1, 0

    def _update(self, batches: list[Batch], start: float) -> None:
        """One update; `start` is when its batches began to be made, so that speeds include the data."""
        p, c = self.progress, self.config
        rate = c.learning_rate * rate_factor(c.schedule, p.step + 1, c.warmup, p.total_steps)
        for group in self.optimizer.param_groups:
            group["lr"] = rate
        self.model.train()
        count = sum(batch.num_targets for batch in batches)
        total = self._backward(batches, count)
        norm = nn.utils.clip_grad_norm_(self.model.parameters(), c.clip or math.inf).item()
        if not (math.isfinite(total) and math.isfinite(norm)):
            self._fail(total, norm, rate, batches)
        self.optimizer.step()
        self.optimizer.zero_grad(set_to_none=True)
        p.step += 1
        seconds = time.perf_counter() - start
        self._training_seconds += seconds
        self._tokens += count
        self._padding.append(sum(b.padding_share for b in batches) / len(batches))
        self._log("update", loss=total / count, learning_rate=rate, gradient_norm=norm, tokens=count, seconds=seconds)
        self.reporter.update(self._line(total / count))

    def _backward(self, batches: list[Batch], count: int) -> float:
        """Gradient of (sum of losses / target tokens), over all batches of the update as if they were one."""
        total = 0.0
        try:
            for batch in batches:
                moved = batch.to(self.device)
                with autocast(self.precision, self.device):
                    loss = self.task.loss(self.model, moved, self.config.label_smoothing)
                (loss / count).backward()
                total += loss.item()
        except (torch.OutOfMemoryError, MemoryError, RuntimeError) as error:
            if not _is_out_of_memory(error):
                raise
            raise TrainingError(
                f"out of memory at update {self.progress.step + 1}, in a batch of {len(batches[0].indices)} examples; "
                f"lower training.batch_tokens (now {self.config.batch_tokens}) and raise training.accumulate "
                f"(now {self.config.accumulate}) by the same factor, or choose a smaller model"
            ) from None
        return total

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

    # Budget ---------------------------------------------------------------------------------------------------

    def _budget(self) -> float:
        return (self.config.minutes or 0.0) * 60.0

    def _elapsed(self) -> float:
        return time.perf_counter() - self._started

    def _reserve(self) -> float:
        """Time kept for what follows training; never more than a third, however slow one validation was."""
        wanted = 1.0 + self._validation_seconds * (self.task.finishing_work + (self.config.average > 1))
        return min(wanted, self._budget() / 3)

    def _deadline(self) -> float:
        return self._budget() - self._reserve()

    def _plan(self) -> None:
        """Decide, once, how many updates fit the budget."""
        p = self.progress
        per_update = self._training_seconds / len(self._padding)
        left = self._deadline() - self._elapsed()
        validations = max(1, min(_VALIDATIONS, int(0.2 * left / self._validation_seconds)))
        # 3 % is left for what a short probe does not see.
        updates = int(0.97 * (left - validations * self._validation_seconds) / per_update)
        p.total_steps = p.step + max(1, updates)
        p.validate_every = self.config.validate_every or math.ceil(p.total_steps / validations)
        end = time.strftime("%H:%M:%S", time.localtime(time.time() + self._budget() - self._elapsed()))
        self.reporter.say(
            f"{1 / per_update:.1f} updates/s: {p.total_steps} updates in {duration(self._budget())}, done at {end}"
        )

    # Validation and weights -----------------------------------------------------------------------------------

    def _validate(self) -> None:
        p = self.progress
        start = time.perf_counter()
        self.validation = self.evaluate()
        self._validation_seconds = max(0.1, time.perf_counter() - start)
        rank = self._rank(self.validation)
        if not p.best_rank or rank > p.best_rank:
            p.best_rank, p.best_step, p.bad = rank, p.step, 0
        else:
            p.bad += 1
        self._log("validation", **self.validation)
        scores = ", ".join(f"{name} {value:.4f}" for name, value in self.validation.items())
        self.reporter.say(f"update {p.step}{'' if p.total_steps is None else f' of {p.total_steps}'}: {scores}")
        p.seconds = self._elapsed()
        self._save()
        if self.on_validation is not None:
            self.on_validation(self, self.validation)

    def evaluate(self) -> dict[str, float]:
        """Scores of the model as it stands, without changing it or the random state."""
        self.model.eval()
        with torch.no_grad():
            return self.task.validate(self.model)

    def _rank(self, scores: dict[str, float]) -> list[float]:
        loss = scores["loss"] if math.isfinite(scores["loss"]) else math.inf
        return [-loss] if self.select_by == "loss" else [scores[self.select_by], -loss]

    def _save(self) -> None:
        """Save; then keep the optimiser of this checkpoint only, and weights of the best and of the last few."""
        p = self.progress
        kept = [*p.kept, p.step]
        wanted = {*kept[-self.config.average :], p.best_step}
        p.kept = [step for step in kept if step in wanted]
        newest = save_checkpoint(self.checkpoints, self.model, self.optimizer, p)
        for path in self.checkpoints.glob("step-*"):  # those before it go only now that it is whole
            step = int(path.name.removeprefix("step-"))
            if path != newest:
                remove_checkpoint(self.checkpoints, step, keep_weights=step in wanted)

    def _choose_weights(self) -> str:
        """Put the weights worth keeping into the model: the best checkpoint's, or an average that is better."""
        p = self.progress
        load_weights(self.model, self.checkpoints / f"step-{p.best_step}" / "model.safetensors")
        recent = p.kept[-self.config.average :]
        if self.config.average > 1 and len(recent) > 1:
            best = {name: tensor.clone() for name, tensor in self.model.state_dict().items()}
            paths = [self.checkpoints / f"step-{step}" / "model.safetensors" for step in recent]
            apply_weights(self.model, average_weights(paths), "the average")
            scores = self.evaluate()
            self._log("average", **scores)
            if self._rank(scores) > p.best_rank:
                self.validation = scores
                return f"average of updates {', '.join(map(str, recent))}"
            self.model.load_state_dict(best)
        if p.best_step != p.step or self.config.average > 1 or not self.validation:
            self.validation = self.evaluate()
        self.model.eval()
        return f"update {p.best_step}"

    # Around it ------------------------------------------------------------------------------------------------

    def _choose_threads(self) -> int:
        if self.config.threads is not None:
            torch.set_num_threads(self.config.threads)
        elif self.device.type == "cpu":
            plan = self.task.train_batches(0)
            batch = self.task.collate(plan[len(plan) // 2])
            state = torch.get_rng_state()

            def run() -> None:
                self.task.loss(self.model, batch, 0.0).backward()
                self.optimizer.zero_grad(set_to_none=True)

            self.model.train()
            probe_threads(run)
            torch.set_rng_state(state)
        return torch.get_num_threads()

    def _interruptible(self) -> Interrupts:
        return Interrupts(self._stop, self.reporter)

    def _log(self, event: str, **values: float) -> None:
        with self._metrics.open("a", encoding="utf-8") as file:
            file.write(json.dumps({"event": event, "step": self.progress.step, **values}) + "\n")

    def _line(self, loss: float) -> str:
        p = self.progress
        of = "" if p.total_steps is None else f"/{p.total_steps}"
        rate = self._tokens / self._training_seconds
        left = "measuring speed"
        if self.config.steps is None and p.total_steps is not None:
            left = f"{duration(self._budget() - self._elapsed())} left"
        elif p.total_steps is not None:
            left = f"{duration((p.total_steps - p.step) * self._training_seconds / len(self._padding))} left"
        return f"update {p.step}{of}  loss {loss:.4f}  {rate:,.0f} tokens/s  padding {self._padding[-1]:.0%}  {left}"

    def _result(self, finished: bool, reason: str, kept: str) -> TrainResult:
        padding = sum(self._padding) / max(1, len(self._padding))
        rate = self._tokens / max(1e-9, self._training_seconds)
        return TrainResult(
            self.checkpoints.parent, finished, reason, self.progress, self.validation, kept, rate, padding
        )


def _is_out_of_memory(error: BaseException) -> bool:
    if isinstance(error, torch.OutOfMemoryError | MemoryError):
        return True
    return "can't allocate memory" in str(error)
