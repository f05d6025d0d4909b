"""Runs that write together."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any, NoReturn

from heed.data.examples import Pair
from heed.data.tokenizer import TextTokenizer
from heed.errors import ConfigError
from heed.generation import Ensemble
from heed.run import Run, load
from heed.tasks.translation import Prediction
from heed.uses.translation import TranslationRun

__all__ = ["EnsembleRun", "ensemble"]


class EnsembleRun(TranslationRun):
    """Several runs that write together; made by `ensemble`.

    Settings, data and tokenizers are those of the first run. What needs one model's attention is asked of the first
    run too: links between words, and the source word for an unknown one.

    Attributes:
        runs: The runs.
    """

    def __init__(self, runs: Sequence[TranslationRun]) -> None:
        first = runs[0]
        super().__init__(first.folder, first.config, first.task, Ensemble([run.model for run in runs]), {})
        self.runs = tuple(runs)

    def __repr__(self) -> str:
        return f"<heed ensemble of {', '.join(str(run.folder) for run in self.runs)}>"

    def align(self, source: str, prediction: Prediction) -> list[tuple[int, int]]:
        """Pairs (source word, written word) by the attention of the first run."""
        return self.runs[0].align(source, prediction)

    def look(self, text: str, **options: Any) -> NoReturn:
        """An ensemble has as many maps as members.

        Raises:
            ConfigError: Always.
        """
        raise ConfigError(f"look inside one run at a time: {', '.join(str(run.folder) for run in self.runs)}")

    def _without_unknown(self, source: str, prediction: Prediction) -> Prediction:
        return self.runs[0]._without_unknown(source, prediction)

    def _aligned(self, pairs: Sequence[Pair]) -> None:
        return None  # an ensemble has no alignment of its own to be wrong


def ensemble(runs: Sequence[TranslationRun | str | Path]) -> EnsembleRun:
    """Let several runs write together: at each step the mean of their probabilities decides.

    Args:
        runs: Runs or their folders; of any architectures, with the same tokenizers. Settings are those of the first.

    Raises:
        ConfigError: No run is given, or two differ in a tokenizer; the message names the first difference.
    """
    opened = [_open(run) for run in runs]
    if not opened:
        raise ConfigError("an ensemble needs at least one run")
    first = opened[0]
    for other in opened[1:]:
        for side in ("source", "target"):
            if difference := _difference(first, other, side):
                raise ConfigError(
                    f"'{first.folder}' and '{other.folder}' cannot write together, their {side} tokenizers differ: "
                    f"{difference}; train one with tokenizer.from={first.folder}"
                )
    return EnsembleRun(opened)


def _open(run: Run[Any, Any] | str | Path) -> TranslationRun:
    """A run of translation.

    Raises:
        ConfigError: It is one of another task.
    """
    opened = run if isinstance(run, Run) else load(run)
    if not isinstance(opened, TranslationRun):
        raise ConfigError(
            f"'{opened.folder}' is a run of {opened.config.task}, and only runs of translation write together"
        )
    return opened


def _difference(first: TranslationRun, other: TranslationRun, side: str) -> str:
    mine: TextTokenizer = getattr(first.task, f"{side}_tokenizer")
    theirs: TextTokenizer = getattr(other.task, f"{side}_tokenizer")
    difference = mine.first_difference(theirs)
    if not difference and side == "target" and mine.tags != theirs.tags:  # each token is one to choose from
        difference = f"the tags {' '.join(mine.tags) or '(none)'} and {' '.join(theirs.tags) or '(none)'}"
    return difference
