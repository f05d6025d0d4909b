"""Which weights of a run are kept: the best validation's, or an average of the last checkpoints that is better."""

from __future__ import annotations

import math
from collections.abc import Callable
from pathlib import Path

from torch import nn

from heed.config import TrainingConfig
from heed.errors import RunError
from heed.storage.seal import describe_damage
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
        """What validations are compared by: the score, and where it is the same, the loss."""
        loss = scores["loss"] if math.isfinite(scores["loss"]) else math.inf
        return [-loss] if self._select_by == "loss" else [scores[self._select_by], -loss]

    def note(self, p: Progress, scores: Scores) -> None:
        """Take a validation of the weights as they stand into account."""
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
            p: Where the run ended.
            model: Gets the weights.
            evaluate: Validates the model as it stands.
            averaged: Told the scores of the average, where one was tried.
            say: Told of weights that are damaged.

        Returns:
            Which weights these are, for people, and their scores.
        """
        recent = p.kept[-self._average :]
        try:
            self._check(p.best_step)
            load_weights(model, self._weights(p.best_step))
        except RunError as error:
            say(f"warning: {error}; the weights of the last update are kept instead of the best")
            return f"update {p.step} (those of the best, {p.best_step}, could not be read)", evaluate()
        if self._average > 1 and len(recent) > 1:
            recent = [step for step in recent if self._is_whole(step, say)]
        if self._average > 1 and len(recent) > 1:
            best = {name: tensor.clone() for name, tensor in model.state_dict().items()}
            apply_weights(model, average_weights([self._weights(step) for step in recent]), "the average")
            scores = evaluate()
            averaged(scores)
            if self.rank(scores) > p.best_rank:
                return f"average of updates {', '.join(map(str, recent))}", scores
            model.load_state_dict(best)
        # A checkpoint of an earlier version does not hold the scores of the best.
        return f"update {p.best_step}", p.best_scores or evaluate()

    def _is_whole(self, step: int, say: Callable[[str], None]) -> bool:
        try:
            self._check(step)
        except RunError as error:
            say(f"warning: {error}; the average is without them")
            return False
        return True

    def _check(self, step: int) -> None:
        """Refuse weights of a checkpoint that are not as they were written."""
        path = self._weights(step)
        for name, problem in describe_damage(path.parent, names=[path.name]).items():
            raise RunError(f"{path.parent / name} is {problem}")

    def _weights(self, step: int) -> Path:
        return self._checkpoints / f"step-{step}" / "model.safetensors"
