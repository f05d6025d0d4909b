"""What fits into time and memory: size and batch of a new model, parts of a checkpoint that are trained.

Times are those of a measured update of each candidate.
"""

from __future__ import annotations

import copy
import math
from typing import Any

import torch

from heed.config.settling import C, default_batch
from heed.memory import free_memory, size_text
from heed.tasks.base.transfer import frozen_by, layers_of_model, without_numbers
from heed.training.cost import TrialStep, training_bytes
from heed.training.device import choose_device, choose_precision, step_explained
from heed.training.optimizer import make_optimizer
from heed.training.plan import SizeChoice, choose_size

_ORDER = ("large", "base", "small", "tiny")
_MIN_BATCH = 0.25
"""Share of the field's default down to which halves of the usual batch are tried; on a GPU that is far more."""
_SLOWEST = 2e9
"""Floating-point operations a second that any processor does: a size of which enough updates fit is not measured."""
_SEEN = 4.0
"""Positions that a model of language must see for each of its parameters, else a smaller one learns more."""
_SHORT = 0.1
"""Seconds of a trial that are too few to judge a whole batch by."""
_TUNED = 200
"""Updates that fine-tuning should have: if fewer fit into the minutes, parts are frozen."""
_FROZEN: tuple[tuple[str, ...], ...] = ((), ("embeddings",), ("embeddings", "encoder"))
"""Parts of a translator that are frozen, in the order of the attempts."""
_FROZEN_WITH_NEW_TOKENS: tuple[tuple[str, ...], ...] = ((), ("encoder",))
"""The same if some tokens are new, since their embeddings must be trained."""
_ROOM = 0.8
"""Share of the free memory for weights, gradients and moments, of the budget for updates."""


def fit_to_budget(task: Any) -> Any:
    """The configuration of a new task with a size and a batch that fit into its time budget.

    A smaller batch is tried before a smaller size. Fields that the user set are kept. Nothing changes without a time
    budget or for a run that starts from another one.
    """
    config, training, field = task.config, task.config.training, task.input.batch_field
    has_data = hasattr(config.data, "train") and not task.is_imported
    if training.steps is not None or training.epochs is not None or config.model.from_ is not None or not has_data:
        return config
    is_free, largest = config.model.size == "auto", task.size
    available = [name for name in _ORDER if name == "base" or name in task.body_class.config_class.sizes]
    is_free = is_free and largest in available
    sizes = available[available.index(largest) :] if is_free else [largest]
    usual = getattr(training, field)
    smallest = 1.0 if config.has(f"training.{field}") else _MIN_BATCH * default_batch(config, field) / usual
    batches = tuple(2.0**-n for n in range(12) if 2.0**-n >= smallest)
    if len(sizes) * len(batches) == 1:
        return config
    trials, is_language = dict[str, _Trial](), task.input.texts_are_examples

    def measure(size: str) -> tuple[float, float]:
        trials[size] = trial = _Trial(task, size)
        return trial.measure(60.0 * training.minutes)

    def is_enough(size: str, batch: float, updates: int) -> bool:
        trial = trials[size]
        seen = updates * batch * trial.positions
        is_trained = size == sizes[-1] or not is_language or seen >= _SEEN * trial.parameters
        return is_trained and updates >= int(task.enough_updates)

    choice = choose_size(sizes, batches, measure, is_enough, 60.0 * training.minutes)
    settled = with_choice(config, field, largest, choice)
    if settled is not config:
        batch, what = getattr(settled.training, field), [f"size {choice.size}"] * is_free
        what += [f"training.{field} {batch:,} instead of {usual:,}"] * (choice.batch < 1.0)
        task.splits.remarks.append(f"{' and '.join(what)}: {choice}")
    return settled


def freeze_to_fit(task: Any) -> Any:
    """The configuration of fine-tuning with frozen embeddings, or encoder too, where memory or minutes are short.

    With tokens that the parent lacks, such as those of `model.like`, the embeddings are trained. A frozen parameter has
    no gradient and no moments. The time of an update is that of all parts, less the optimiser's and the gradients'
    share (a third of the passes) of the frozen parameters.
    """
    config, training = task.config, task.config.training
    if config.has("training.freeze") or config.has("training.unfreeze_every"):
        return config
    model = without_numbers(task)
    total = sum(p.numel() for p in model.parameters())
    names, layers = dict(model.named_parameters()), layers_of_model(model, task.body(model))
    attempts = _FROZEN_WITH_NEW_TOKENS if task.parent.lacks_tokens(task) else _FROZEN
    frozen = [sum(names[name].numel() for name in frozen_by(parts, layers, 0)) for parts in attempts]
    device = choose_device(training.device)
    free = torch.cuda.mem_get_info(device)[0] if device.type == "cuda" else free_memory()
    needed = [training_bytes(total, total - count, training.optimizer) for count in frozen]
    chosen, why = 0, ""
    if free is not None and needed[0] > _ROOM * free:
        chosen = next((n for n, size in enumerate(needed) if size <= _ROOM * free), len(attempts) - 1)
        why = f"training all {total:,} parameters takes {size_text(needed[0])}, and {size_text(free)} are free"
    if training.minutes is not None and training.steps is None and training.epochs is None:
        budget = _ROOM * 60.0 * training.minutes
        update, passes = seconds_of(task, budget)
        frozen_shares = [count / total for count in frozen]
        seconds = [update * (1 - share) + passes * (1 - share / 3) for share in frozen_shares]
        enough = next((n for n, each in enumerate(seconds) if _TUNED * each <= budget), len(attempts) - 1)
        if enough > chosen:
            chosen = enough
            counts = (f"{budget / seconds[n]:,.0f}" for n in (0, enough))
            why = "about {} updates of all parts fit into the budget, about {} with these frozen".format(*counts)
    return config.settle(why, {"training.freeze": [*attempts[chosen]]}) if chosen else config


def with_choice(config: C, field: str, largest: str, choice: SizeChoice) -> C:
    """The configuration with the size and batch that fit into its time budget, where they are not the usual ones."""
    values: dict[str, Any] = {"model.size": choice.size} if choice.size != largest else {}
    if choice.batch < 1.0:
        values[f"training.{field}"] = max(1, round(choice.batch * getattr(config.training, field)))
    return config.settle(str(choice), values) if values else config


def seconds_of(task: Any, budget: float) -> tuple[float, float]:
    """Seconds of the optimiser's step and of a batch of a task that is not settled, as `_Trial.measure`."""
    return _Trial(task, task.size).measure(budget)


class _Trial:
    """A task with a model of another size, for measuring its updates."""

    def __init__(self, task: Any, size: str) -> None:
        self.task = copy.copy(task)
        # Caches of the trial, which depend on its size, must not reach the task.
        self.task.__dict__.update({name: {**value} for name, value in vars(task).items() if type(value) is dict})
        self.task._splits = copy.copy(task.splits)
        self.task._splits.remarks = []  # the task adds the same remarks
        self.task.is_trial = True
        section = task.config.model.model_copy(update={"size": size})
        self.task.config = task.config.model_copy(update={"model": section})
        self.task.config = self.task.settled()
        self.task.fit()
        self.parameters = 0
        self.positions = 0.0

    def measure(self, budget: float) -> tuple[float, float]:
        """Seconds of the optimiser's step, and of a batch forward and backward; about none if clearly fast enough."""
        task, training = self.task, self.task.config.training
        plan = task.train_batches(0)
        sample = plan[:: max(1, len(plan) // 8)]
        device = choose_device(training.device)
        random = torch.random.fork_rng([device] if device.type == "cuda" else [])
        with random, step_explained("before the first update", 1):
            model = task.build_model().to(device)
            self.parameters = sum(p.numel() for p in model.parameters())
            self.positions = sum(map(task.work, sample)) / len(sample)
            operations = 6.0 * self.parameters * self.positions * task.planned.reuse
            if operations * task.enough_updates < _SLOWEST * budget:
                return 0.0, operations / _SLOWEST
            task.carry({})
            step = TrialStep(
                model,
                make_optimizer(model, training),
                task,
                training,
                device,
                choose_precision(training.precision, device),
                task.work,
            )
            middle = plan[len(plan) // 2]
            few = middle[: math.ceil(len(middle) / 8)]
            step.run(few)  # fills caches and pools
            step.run(few)
            if step.timed[-1][1] < _SHORT:
                step.run(middle)
        positions, passes, update = step.timed[-1]
        return update, passes * self.positions / positions * min(training.accumulate, len(plan))
