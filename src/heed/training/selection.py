"""Choice of the weights to keep: those of the best validation, or a better average of the last checkpoints."""

from __future__ import annotations

import math
from collections.abc import Callable
from pathlib import Path

from torch import nn

from heed.config import TrainingConfig
from heed.errors import RunError
from heed.storage.files import describe_damage
from heed.training.checkpoint import Progress
from heed.training.weights import apply_weights, average_weights, load_weights

Scores = dict[str, float]


class Selection:
    """Ranks validations and, in the end, puts the weights worth keeping into the model."""

    def __init__(self, config: TrainingConfig, select_by: str, checkpoints: Path) -> None:
        self._average = config.average
        self._select_by = select_by
        self._checkpoints = checkpoints

    def rank(self, scores: Scores) -> list[float]:
        """Sort key of a validation: the score, then the loss."""
        loss = scores["loss"] if math.isfinite(scores["loss"]) else math.inf
        return [-loss] if self._select_by == "loss" else [scores[self._select_by], -loss]

    def note(self, p: Progress, scores: Scores) -> None:
        """Record a validation of the present weights."""
        rank = self.rank(scores)
        if not p.best_rank or rank > p.best_rank:
            p.best_rank, p.best_step, p.bad, p.best_scores = rank, p.step, 0, scores
        else:
            p.bad += 1
        kept = [*p.kept, p.step]
        wanted = {*kept[-self._average :], p.best_step}
        p.kept = [step for step in kept if step in wanted]

    def choose(
        self,
        p: Progress,
        model: nn.Module,
        evaluate: Callable[[], Scores],
        averaged: Callable[[Scores], None],
        say: Callable[[str], None],
    ) -> tuple[str, Scores]:
        """Put the weights worth keeping into the model.

        Args:
            p: Progress at the end of the run.
            model: The weights are copied into it.
            evaluate: Validates the present weights of the model.
            averaged: Called with the scores of the average, if one was tried.
            say: Called with a warning about damaged weights.

        Returns:
            A description of these weights, and their scores.
        """
        recent = p.kept[-self._average :]
        try:
            self._check(p.best_step)
            load_weights(model, self._weights(p.best_step))
        except RunError as error:
            say(f"warning: {error}; keeping the weights of the last update instead of the best")
            return f"update {p.step} (the best weights, of update {p.best_step}, could not be read)", evaluate()
        if self._average > 1 and len(recent) > 1:
            recent = [step for step in recent if self._is_whole(step, say)]
        if self._average > 1 and len(recent) > 1:
            best = {name: tensor.clone() for name, tensor in model.state_dict().items()}
            apply_weights(model, average_weights([self._weights(step) for step in recent]), "the average")
            scores = evaluate()
            averaged(scores)
            if self.rank(scores) > p.best_rank:
                return f"the average of updates {', '.join(map(str, recent))}", scores
            model.load_state_dict(best)
        # A checkpoint of an earlier version lacks the scores of the best validation.
        return f"update {p.best_step}", p.best_scores or evaluate()

    def _is_whole(self, step: int, say: Callable[[str], None]) -> bool:
        try:
            self._check(step)
        except RunError as error:
            say(f"warning: {error}; leaving these weights out of the average")
            return False
        return True

    def _check(self, step: int) -> None:
        """Refuse damaged weights of a checkpoint."""
        path = self._weights(step)
        for name, problem in describe_damage(path.parent, names=[path.name]).items():
            raise RunError(f"{path.parent / name} is {problem}")

    def _weights(self, step: int) -> Path:
        return self._checkpoints / f"step-{step}" / "model.safetensors"
