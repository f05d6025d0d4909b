"""Ensembles of translation runs, which write by the mean of their probabilities."""

from __future__ import annotations

from collections.abc import Sequence

from heed.errors import ConfigError
from heed.generation import Ensemble
from heed.tasks.translation.run import TranslationRun, Translator


class TranslationEnsemble(Translator):
    """Several runs that write together.

    Settings, data and tokenizers are those of the first run. The first run's attention also gives links between words,
    and the source words that replace unknown ones.

    Raises:
        ConfigError: The runs have different tokenizers; the message names the first difference.
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
        if not difference and side == "target" and mine.tags != theirs.tags:  # tags are tokens of the output layer
            difference = f"the tags {' '.join(mine.tags) or '(none)'} and {' '.join(theirs.tags) or '(none)'}"
        if difference:
            raise ConfigError(
                f"'{first.folder}' and '{other.folder}' cannot form an ensemble: their {side} tokenizers differ: "
                f"{difference}; train one with tokenizer.from={first.folder}"
            )
