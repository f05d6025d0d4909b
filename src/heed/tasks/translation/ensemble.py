"""Runs of translation that write together: the mean of their probabilities decides."""

from __future__ import annotations

from collections.abc import Sequence

from heed.errors import ConfigError
from heed.generation import Ensemble
from heed.tasks.translation.run import TranslationRun, Translator


class TranslationEnsemble(Translator):
    """Several runs that write together.

    Settings, data and tokenizers are those of the first run. What needs one model's attention is asked of the first
    run too: links between words, and the source word for an unknown one.

    Raises:
        ConfigError: Two differ in a tokenizer; the message names the first difference.
    """

    def __init__(self, runs: Sequence[TranslationRun]) -> None:
        first = runs[0]
        for other in runs[1:]:
            _check_tokenizers(first, other)
        super().__init__(first.folder, first.config, first.task, Ensemble([run.model for run in runs]), {}, runs)

    @property
    def attending(self) -> Translator:
        """The first run."""
        return self.members[0]  # type: ignore[no-any-return]


def _check_tokenizers(first: TranslationRun, other: TranslationRun) -> None:
    for side, mine in first.task.tokenizers().items():
        theirs = other.task.tokenizers()[side]
        difference = mine.first_difference(theirs)
        if not difference and side == "target" and mine.tags != theirs.tags:  # each token is one to choose from
            difference = f"the tags {' '.join(mine.tags) or '(none)'} and {' '.join(theirs.tags) or '(none)'}"
        if difference:
            raise ConfigError(
                f"'{first.folder}' and '{other.folder}' cannot write together, their {side} tokenizers differ: "
                f"{difference}; train one with tokenizer.from={first.folder}"
            )
