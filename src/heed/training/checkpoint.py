"""Checkpoints: weights, optimiser, random state and place in the data, in safetensors and JSON, never pickle.

A checkpoint is written under a temporary name, flushed to the disk with checksums of its files, and renamed; only then
are older ones deleted. The newest two are kept whole: if one is damaged, only the updates since the other are lost. Of
training on a GPU, a copy in the memory of the processor is written while updates go on (`Saving`).
Of the snapshots that `training.snapshots` asks for, the weights are kept.

`Selection` chooses the weights to keep at the end: those of the best validation, or a better average of the last ones.
"""

from __future__ import annotations

import hashlib
import json
import math
import re
import threading
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path

import torch
from safetensors import SafetensorError, safe_open
from torch import Tensor, nn

from heed.errors import DiskError, RunError
from heed.storage.disk import remove_folder, remove_leftovers, write_checksums, write_folder
from heed.storage.files import (
    CHECKSUMS,
    OtherFormatError,
    check_regular,
    damaged,
    describe_damage,
    listed,
    read_object,
    recorded,
    refuse_other_format,
    validated,
)
from heed.training.optimizer import Optimizer, Schedule
from heed.training.processes import Processes
from heed.training.weights import apply_weights, average_weights, load_weights, read_tensors, save_tensors, unshared

FORMAT = 4
_WEIGHTS, _OPTIMIZER, _RANDOM = "model.safetensors", "optimizer.safetensors", "random.safetensors"
_CARRIED, _PROGRESS = "carried.safetensors", "progress.json"
_NOISE = 0.02
"""A validation loss this share above the lowest has risen."""
_WHOLE = 2
"""Number of the newest checkpoints that are kept whole, to resume from; of older ones only weights are kept."""


@dataclass
class Progress:
    """Everything but tensors that resuming a run needs."""

    step: int = 0  # updates done
    epoch: int = 0  # pass over the data
    batch: int = 0  # batches of this pass already used
    plan: str = ""  # a hash of this pass's batches; the place is meaningless for other batches
    total_steps: int | None = None  # updates of the whole run; None until decided
    warmup: int | None = None  # updates of the warm-up; None until decided
    planned_at: int = 0  # update from which the present plan applies
    risen: float = 0.0  # share of the warm-up completed by then
    course: float = 0.0  # share of its decay completed by then
    ending: bool = False  # True while a run that ends early lowers its learning rate to zero
    validate_every: int | None = None  # updates between validations; None until decided
    threads: int = 1  # processor threads, so that a resumed run computes the same sums
    processes: int = 1  # number of processes that trained together
    precision: str = ""  # of the forward pass; "" in older checkpoints: as configured
    micro_batches: int = 1  # micro-batches of a batch, so that a resumed run draws the same dropout
    seconds: float = 0.0  # time spent so far
    training_seconds: float = 0.0  # of that, time spent on updates
    waiting_seconds: float = 0.0  # of that, time spent waiting for their batches
    tokens: int = 0  # target tokens of all updates
    padding: float = 0.0  # sum over the updates of the share of padding in their batches
    validation_seconds: float = 0.0  # time of the last validation, or the expected one before the first
    valid_share: float = 1.0  # share of the validation set that is validated on
    best_step: int = 0  # step of the best validation; 0 for none
    best_rank: list[float] = field(default_factory=list)  # its score and minus its loss, compared in this order
    best_scores: dict[str, float] = field(default_factory=dict)  # all its scores
    judged_by: str = ""  # a hash of the data and settings that all scores are computed with
    lowest_loss: float | None = None  # of all validations after the warm-up
    bad: int = 0  # validations since the best one, the warm-up not counted
    worse: int = 0  # of these, the last ones with a loss above the lowest
    kept: list[int] = field(default_factory=list)  # steps whose weights are on disk
    snapshots: dict[str, int] = field(default_factory=dict)  # by share of the planned updates, the step of its weights

    @property
    def schedule(self) -> Schedule:
        """The schedule of the learning rate by the present plan."""
        return Schedule(self.warmup or 0, self.total_steps, self.planned_at, self.risen, self.course)

    @property
    def tokens_per_second(self) -> float:
        """Target tokens a second, the mean over all updates; validations do not count."""
        return self.tokens / max(1e-9, self.training_seconds)

    @property
    def waiting_share(self) -> float:
        """The share of the time of all updates that was spent waiting for batches."""
        return self.waiting_seconds / max(1e-9, self.training_seconds)

    @property
    def is_warm(self) -> bool:
        """True if the learning rate has reached its peak."""
        return self.step >= (self.warmup or 0)

    def due(self, fractions: Sequence[float]) -> dict[str, int]:
        """The fractions of the planned updates that are reached and have no snapshot yet, with the present step."""
        total = self.total_steps
        reached = [f"{part:g}" for part in fractions if total and self.step >= max(1, round(part * total))]
        return {part: self.step for part in reached if part not in self.snapshots}


@dataclass
class Checkpoint:
    """A checkpoint as read from disk."""

    weights: dict[str, Tensor]
    optimizer: dict[str, Tensor]
    random: dict[str, Tensor]
    progress: Progress
    carried: dict[str, Tensor] = field(default_factory=dict)
    place: str = ""  # where it was read, for messages

    def restore(self, model: nn.Module, optimizer: Optimizer | None, rank: int, device: torch.device) -> Progress:
        """Restore model, optimiser and random state.

        Newly trained parameters begin without a state of the optimiser; the state of untrained ones is ignored.

        Args:
            model: The weights are copied into it.
            optimizer: The state is copied into it; None where the kind of optimiser has changed.
            rank: Number of this process: each has its own random state.
            device: On which it trains.

        Raises:
            RunError: The checkpoint is of another model.
        """
        apply_weights(model, self.weights, self.place)
        states = optimizer.state if optimizer is not None else {}
        named = ((name, states.get(p, {})) for name, p in model.named_parameters(remove_duplicate=False))
        current = {f"{name}.{key}": tensor for name, state in named for key, tensor in state.items()}
        for name in [name for name in self.optimizer if name in current]:
            written, shape = self.optimizer[name], tuple(current[name].shape)
            if written.shape != shape:
                where = f"{self.place}: optimiser state '{name}'"
                raise RunError(f"{where} has shape {tuple(written.shape)}, expected {shape}")
            current[name].copy_(written)
        if f"{rank}.cpu" in self.random:
            torch.set_rng_state(self.random[f"{rank}.cpu"])
        else:  # there were fewer processes when it was written
            torch.manual_seed(draw_seed(self.progress.step, rank))
        if device.type == "cuda" and f"{rank}.cuda" in self.random:
            torch.cuda.set_rng_state(self.random[f"{rank}.cuda"], device)
        return self.progress

    def carried_by(self, rank: int) -> dict[str, Tensor]:
        """What one process carries, under its own names."""
        return {name.removeprefix(f"{rank}."): t for name, t in self.carried.items() if name.startswith(f"{rank}.")}


def saves_in_background(device: torch.device) -> bool:
    """Whether checkpoints are written while training goes on: on a GPU.

    On a CPU, the thread takes its time from the updates and the copy its memory (benchmarks/NOTES.md).
    """
    return device.type == "cuda"


Explained = Callable[[DiskError], DiskError]


class Saving:
    """Writes the checkpoints of a run, one at a time; on a GPU in a thread, for which the end of the process waits."""

    def __init__(self, folder: Path, device: torch.device, processes: Processes, explained: Explained) -> None:
        """Prepare.

        Args:
            folder: The folder of the checkpoints.
            device: That of training.
            processes: The processes that train together; the first one writes.
            explained: Makes the error to raise of one of the disk.
        """
        self._folder, self._device, self._processes, self._explained = folder, device, processes, explained
        self._in_background = saves_in_background(device)
        self._thread = threading.Thread()
        self._error: BaseException | None = None

    def save(
        self, model: nn.Module, optimizer: Optimizer, progress: Progress, carried: dict[str, Tensor], fingerprint: str
    ) -> None:
        """Write `step-N`, or begin to; it gets its name only when it is complete and on the disk. Prune the folder.

        Args:
            model: Its weights are written.
            optimizer: Its state is written.
            progress: Everything but tensors.
            carried: State that this process's task carries from batch to batch; if none has any, no file is written.
            fingerprint: Hash of what determines the run's model, stored with the weights; see `check_fingerprint`.

        Raises:
            DiskError: The disk is full or writing fails; older checkpoints stay.
        """
        group = self._processes
        state = random_state(group.rank, self._device), {f"{group.rank}.{name}": t for name, t in carried.items()}
        randoms, carrieds = zip(*group.gather(state), strict=True)
        if not group.is_first:
            return
        states = ((name, optimizer.state.get(p, {})) for name, p in model.named_parameters())
        files = {
            _WEIGHTS: unshared(model.state_dict()),
            _OPTIMIZER: {f"{name}.{key}": t.detach().contiguous() for name, s in states for key, t in s.items()},
            _RANDOM: {name: t for tensors in randoms for name, t in tensors.items()},
            _CARRIED: {name: t.contiguous() for tensors in carrieds for name, t in tensors.items()},
        }
        if self._in_background:
            files = {file: {name: t.to("cpu", copy=True) for name, t in part.items()} for file, part in files.items()}
        values = json.dumps({"format": FORMAT, **asdict(progress)}, indent=1)
        self.check(wait=True)
        self._thread = threading.Thread(
            target=self._write, args=[f"step-{progress.step}", files, values, fingerprint], name="heed-checkpoint"
        )
        if self._in_background:
            self._thread.start()
        else:
            self._thread.run()
            self.check()

    def _write(self, name: str, files: dict[str, dict[str, Tensor]], values: str, fingerprint: str) -> None:
        needed = sum(t.nbytes for tensors in files.values() for t in tensors.values())
        try:
            with write_folder(self._folder / name, needed) as part:
                for file, tensors in files.items():
                    metadata = {"made_of": fingerprint} if fingerprint and file == _WEIGHTS else None
                    if tensors or file != _CARRIED:
                        save_tensors(tensors, part / file, metadata)
                (part / _PROGRESS).write_text(values)
            prune_checkpoints(self._folder)
        except BaseException as error:
            self._error = error

    def wait(self) -> None:
        """Wait until all is written or has failed."""
        if self._thread.ident is not None:  # it was started
            self._thread.join()

    def check(self, wait: bool = False) -> None:
        """Raise the error of what was written last, once; with `wait`, wait for its end.

        Raises:
            DiskError: The disk is full or writing fails; older checkpoints stay.
        """
        if wait:
            self.wait()
        error, self._error = self._error, None
        if error is not None:
            raise self._explained(error) if isinstance(error, DiskError) else error


def load_checkpoint(path: Path) -> Checkpoint:
    """Read a checkpoint after comparing its checksums.

    Raises:
        RunError: The checkpoint is damaged or of another format; the message says how.
    """
    stored_progress(path)  # of another format, it is not damaged
    if damage := _damage(path):
        raise RunError(f"checkpoint {path} is damaged: {damage}")
    try:
        carried = read_tensors(path / _CARRIED) if (path / _CARRIED).is_file() else {}
        weights, optimizer, random = (read_tensors(path / name) for name in (_WEIGHTS, _OPTIMIZER, _RANDOM))
        return Checkpoint(weights, optimizer, random, _read_progress(path), carried, str(path))
    except RunError as error:
        raise RunError(f"checkpoint {path} is damaged: {error}") from None


def check_fingerprint(path: Path, fingerprint: str) -> None:
    """Refuse a checkpoint without the fingerprint of its run.

    Raises:
        RunError: It does not, so its weights may fit the model but not its tokenizers, labels or settings.
    """
    weights = path / _WEIGHTS
    try:
        check_regular(weights)
        with safe_open(str(weights), "pt") as file:
            stored = (file.metadata() or {}).get("made_of", "")
    except (RunError, SafetensorError, OSError):  # reported when it is read
        return
    if stored != fingerprint:
        raise RunError(
            f"{weights} is of another run, with other tokenizers, labels or settings of the model; put the "
            f"checkpoints of {path.parent.parent} back, or remove this one"
        )


def _damage(path: Path) -> str:
    """The damaged files and what is wrong with each; empty for a whole checkpoint."""
    return "; ".join(f"{name} is {what}" for name, what in describe_damage(path).items())


def stored_progress(path: Path) -> Progress:
    """The progress of a checkpoint; without values if it is damaged, which the check of the checksums reports.

    Raises:
        RunError: The checkpoint is of another format.
    """
    try:
        return _read_progress(path)
    except OtherFormatError:
        raise
    except RunError:
        return Progress()


def _read_progress(path: Path) -> Progress:
    values = read_object(path / _PROGRESS)
    refuse_other_format(path / _PROGRESS, values.pop("format", None), FORMAT, f"{path} has checkpoint format")
    if unknown := values.keys() - Progress.__dataclass_fields__.keys():
        raise damaged(path / _PROGRESS, f"unknown field {min(unknown)!r}")
    return validated(path / _PROGRESS, json.dumps(values), Progress)


def check_fingerprints(folder: Path, fingerprint: str) -> None:
    """Refuse a folder of checkpoints with one of another run; see `check_fingerprint`."""
    for path in _steps_in(folder):
        check_fingerprint(path, fingerprint)


def checkpoints_in(folder: Path) -> list[Path]:
    """The checkpoints of a folder that hold more than weights, newest first."""
    return [p for p in sorted(_steps_in(folder), key=step_of, reverse=True) if _holds_progress(p)]


def latest_checkpoint(folder: Path, say: Callable[[str], None] = lambda message: None) -> Path | None:
    """The newest undamaged checkpoint, or None; `say` is called with a warning for each damaged one.

    Raises:
        RunError: The newest checkpoint is of another format.
    """
    for path in checkpoints_in(folder):
        stored_progress(path)
        if not (damage := _damage(path)):
            return path
        say(f"warning: checkpoint {path.name} is damaged ({damage}); trying the previous one")
    return None


def prune_checkpoints(folder: Path) -> None:
    """Delete all but the newest two checkpoints; of older ones, the weights that these two list are kept."""
    remove_leftovers(folder)
    whole = checkpoints_in(folder)[:_WHOLE]
    needed = {step for p in map(stored_progress, whole) for step in (*p.kept, *p.snapshots.values())}
    for path in {*_steps_in(folder)} - {*whole}:
        (_keep_weights if step_of(path) in needed else remove_folder)(path)


def _keep_weights(path: Path) -> None:
    files = [p for p in path.iterdir() if p.name not in (_WEIGHTS, CHECKSUMS)]
    if files and _WEIGHTS in listed(path):  # without a readable record, the folder stays as it is
        # First, so that the folder never lacks a recorded file; not hashed again, so that damage stays visible.
        write_checksums(path, [_WEIGHTS], recorded(path))
        for file in files:
            file.unlink(missing_ok=True)


def _steps_in(folder: Path) -> list[Path]:
    """The folders with the name of a checkpoint; other folders are not heed's."""
    return [p for p in folder.glob("step-*") if re.fullmatch(r"step-[0-9]{1,18}", p.name) and p.is_dir()]


def stored_steps(folder: Path) -> list[int]:
    """The updates whose weights are in a folder of checkpoints, in order."""
    return sorted(step_of(path) for path in _steps_in(folder) if _WEIGHTS in listed(path))


def step_of(path: Path) -> int:
    """The number of updates after which a checkpoint was written."""
    return int(path.name.removeprefix("step-"))


def _holds_progress(path: Path) -> bool:
    """True if training can resume from it: the checksums of weights alone list no other file."""
    names = listed(path)
    return _PROGRESS in names or not names  # without checksums it is damaged, which is to be reported


def draw_seed(*numbers: int) -> int:
    """A seed computed from some numbers."""
    return int.from_bytes(hashlib.blake2b(repr(numbers).encode(), digest_size=7).digest(), "big")


def random_state(rank: int, device: torch.device) -> dict[str, Tensor]:
    """The random state of this process, which is number `rank`, and of the GPU on which it trains, if any."""
    state = {f"{rank}.cpu": torch.get_rng_state()}
    if device.type == "cuda":
        state[f"{rank}.cuda"] = torch.cuda.get_rng_state(device)
    return state


Scores = dict[str, float]
Evaluate = Callable[[], Scores]
Say = Callable[[str], None]


class Selection:
    """Ranks validations and, in the end, puts the weights worth keeping into the model."""

    def __init__(
        self, average: int, select_by: str, checkpoints: Path, model: nn.Module, evaluate: Evaluate, say: Say
    ) -> None:
        """Prepare.

        Args:
            average: Number of the last validations whose weights are averaged; 1 for no average.
            select_by: The score by which validations are ranked.
            checkpoints: The folder of the weights.
            model: Weights are copied into it.
            evaluate: Validates the present weights of the model.
            say: Called with warnings about damaged weights.
        """
        self._average, self._select_by, self._checkpoints = average, select_by, checkpoints
        self._model, self._evaluate, self._say = model, evaluate, say

    def rank(self, scores: Scores) -> list[float]:
        """Sort key of a validation: the score, then the loss."""
        loss = scores["loss"] if math.isfinite(scores["loss"]) else math.inf
        return [-loss] if self._select_by == "loss" else [scores[self._select_by], -loss]

    def note(self, p: Progress, scores: Scores) -> None:
        """Record a validation of the present weights."""
        rank, loss, is_warm = self.rank(scores), scores["loss"], p.is_warm
        # Weights of the warm-up are kept only as long as there are no others.
        replaces = is_warm and p.best_step < (p.warmup or 0) and math.isfinite(loss)
        if not p.best_rank or rank > p.best_rank or replaces:
            p.best_rank, p.best_step, p.bad, p.worse, p.best_scores = rank, p.step, 0, 0, scores
        else:
            p.bad += is_warm
            rises = not (p.lowest_loss is not None and loss <= (1.0 + _NOISE) * p.lowest_loss)
            p.worse = p.worse + 1 if is_warm and rises else 0
        if is_warm and math.isfinite(loss):
            p.lowest_loss = loss if p.lowest_loss is None else min(p.lowest_loss, loss)
        steps = [*p.kept, p.step]
        p.kept = [step for step in steps if step in {*steps[-self._average :], p.best_step}]

    def score_again(self, p: Progress) -> None:
        """Score all kept weights again after the validation data, or how it is scored, has changed."""
        model = self._model
        present, step, steps = {name: t.clone() for name, t in model.state_dict().items()}, p.step, p.kept
        p.best_rank, p.best_scores, p.best_step, p.bad, p.worse, p.lowest_loss, p.kept = [], {}, 0, 0, 0, None, []
        for p.step in filter(self._is_whole, steps):
            load_weights(model, self._weights(p.step))
            self.note(p, self._evaluate())
        p.step = step
        model.load_state_dict(present)

    def choose(self, p: Progress) -> tuple[str, Scores, Scores | None]:
        """Put the weights worth keeping at the end of a run into the model.

        Returns:
            A description of these weights, their scores, and those of the average, if one was tried.
        """
        model = self._model
        try:
            if damage := self._damage(p.best_step):
                raise RunError(damage)
            load_weights(model, self._weights(p.best_step))
        except RunError as error:
            self._say(f"warning: {error}; keeping the weights of the last update instead of the best")
            description = f"update {p.step} (the best weights, of update {p.best_step}, could not be read)"
            return description, self._evaluate(), None
        recent = p.kept[-self._average :] if self._average > 1 else []
        recent = [step for step in recent if self._is_whole(step)] if len(recent) > 1 else []
        if len(recent) < 2:
            return f"update {p.best_step}", p.best_scores, None
        best = {name: tensor.clone() for name, tensor in model.state_dict().items()}
        apply_weights(model, average_weights([self._weights(step) for step in recent]), "the average")
        average = self._evaluate()
        if self.rank(average) > p.best_rank:
            return f"the average of updates {', '.join(map(str, recent))}", average, average
        model.load_state_dict(best)
        return f"update {p.best_step}", p.best_scores, average

    def _is_whole(self, step: int) -> bool:
        if damage := self._damage(step):
            self._say(f"warning: {damage}; leaving these weights out")
        return not damage

    def _damage(self, step: int) -> str:
        """The first problem of the weights of a checkpoint; empty if they are as they were written."""
        path = self._weights(step).parent
        return next((f"{path / name} is {what}" for name, what in describe_damage(path, names=[_WEIGHTS]).items()), "")

    def _weights(self, step: int) -> Path:
        return self._checkpoints / f"step-{step}" / _WEIGHTS
