"""Runs that write, label or tag together."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any, NoReturn

import torch
from torch import Tensor

from heed.data.examples import Pair
from heed.data.batch.texts import TokenText
from heed.data.tokens.tokenizer import TextTokenizer
from heed.errors import ConfigError
from heed.generation import Ensemble
from heed.runs.train import Run, load
from heed.tasks.base.heads import CrfHead
from heed.tasks.translation.task import Prediction
from heed.tasks.classification.run import ClassificationRun
from heed.tasks.tagging.run import TaggingRun
from heed.tasks.translation.run import TranslationRun

__all__ = ["ClassificationEnsemble", "EnsembleRun", "TaggingEnsemble", "ensemble"]


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
        return f"<heed ensemble of {_names(self.runs)}>"

    def align(self, source: str, prediction: Prediction) -> list[tuple[int, int]]:
        """Pairs (source word, written word) by the attention of the first run."""
        return self.runs[0].align(source, prediction)

    def look(self, text: str, **options: Any) -> NoReturn:
        """An ensemble has as many maps as members.

        Raises:
            ConfigError: Always.
        """
        raise _one_at_a_time(self.runs)

    def export(self, to: str = "ctranslate2", quantization: str = "float32") -> NoReturn:
        """Other programs run one model.

        Raises:
            ConfigError: Always.
        """
        raise ConfigError(f"export one run at a time: {', '.join(str(run.folder) for run in self.runs)}")

    def writer(self, engine: str) -> NoReturn:
        """Other programs run one model.

        Raises:
            ConfigError: Always.
        """
        raise ConfigError(f"engine '{engine}' runs one model; several that write together need engine 'torch'")

    def _without_unknown(self, source: str, prediction: Prediction) -> Prediction:
        return self.runs[0]._without_unknown(source, prediction)

    def _aligned(self, pairs: Sequence[Pair]) -> None:
        return None  # an ensemble has no alignment of its own to be wrong


class ClassificationEnsemble(ClassificationRun):
    """Several runs that label together, by the mean of their probabilities; made by `ensemble`.

    Each run reads a text with its own tokenizer. Settings and data are those of the first run.

    Attributes:
        runs: The runs.
    """

    def __init__(self, runs: Sequence[ClassificationRun]) -> None:
        first = runs[0]
        super().__init__(first.folder, first.config, first.task, first.model, {})
        self.runs = tuple(runs)

    def __repr__(self) -> str:
        return f"<heed ensemble of {_names(self.runs)}>"

    def probabilities(self, texts: Sequence[str], encoded: Sequence[TokenText] | None = None) -> Tensor:
        """The mean of the runs' probabilities, `(texts, labels)`; each cuts the texts as it does."""
        return torch.stack([run.probabilities(texts) for run in self.runs]).mean(0)

    def look(self, text: str, **options: Any) -> NoReturn:
        """An ensemble has as many maps as members.

        Raises:
            ConfigError: Always.
        """
        raise _one_at_a_time(self.runs)


class TaggingEnsemble(TaggingRun):
    """Several runs that tag together, by the mean of their tags' probabilities; made by `ensemble`.

    Each word has the tag of the largest mean. Where a run has a CRF, the tags of a sentence are those of the largest
    product of means among the sequences that are allowed.

    Attributes:
        runs: The runs.
    """

    def __init__(self, runs: Sequence[TaggingRun]) -> None:
        first = next((run for run in runs if isinstance(run.model.head, CrfHead)), runs[0])
        super().__init__(first.folder, runs[0].config, first.task, first.model, {})
        self.runs = tuple(runs)

    def __repr__(self) -> str:
        return f"<heed ensemble of {_names(self.runs)}>"

    def tagged(self, sentences: Sequence[Sequence[str]]) -> list[tuple[list[str], Tensor]]:
        """The tags of each text, and the mean of the runs' probabilities, `(words, labels)`."""
        each = [[probabilities for _, probabilities in run.tagged(sentences)] for run in self.runs]
        means = [torch.stack(one).mean(0) for one in zip(*each, strict=True)]
        return [([self.task.labels[i] for i in self.model.head.choose(mean)], mean) for mean in means]

    def look(self, text: str, **options: Any) -> NoReturn:
        """An ensemble has as many maps as members.

        Raises:
            ConfigError: Always.
        """
        raise _one_at_a_time(self.runs)


def ensemble(runs: Sequence[Run[Any, Any] | str | Path]) -> Run[Any, Any]:
    """Let several runs of one task answer together: the mean of their probabilities decides.

    Args:
        runs: Runs or their folders, of any architectures. Runs of translation have the same tokenizers; runs of
            classification or tagging the same labels. Settings are those of the first.

    Raises:
        ConfigError: No run is given, they are of several tasks, or two differ in a tokenizer or their labels; the
            message names the first difference.
    """
    opened = [run if isinstance(run, Run) else load(run) for run in runs]
    if not opened:
        raise ConfigError("an ensemble needs at least one run")
    first = opened[0]
    for other in opened[1:]:
        if other.config.task != first.config.task:
            raise ConfigError(
                f"'{first.folder}' is a run of {first.config.task} and '{other.folder}' one of {other.config.task}; "
                "only runs of one task answer together"
            )
        if isinstance(first, TranslationRun) and isinstance(other, TranslationRun):
            _check_tokenizers(first, other)
        elif isinstance(first, ClassificationRun | TaggingRun):
            _check_labels(first, other)
    kinds: dict[type[Run[Any, Any]], Any] = {
        TranslationRun: EnsembleRun,
        ClassificationRun: ClassificationEnsemble,
        TaggingRun: TaggingEnsemble,
    }
    for kind, together in kinds.items():
        if isinstance(first, kind):
            return together(opened)  # type: ignore[no-any-return]
    raise ConfigError(f"'{first.folder}' is a run of {first.config.task}, and such runs do not answer together")


def _check_tokenizers(first: TranslationRun, other: TranslationRun) -> None:
    for side in ("source", "target"):
        if difference := _difference(first, other, side):
            raise ConfigError(
                f"'{first.folder}' and '{other.folder}' cannot write together, their {side} tokenizers differ: "
                f"{difference}; train one with tokenizer.from={first.folder}"
            )


def _check_labels(first: Run[Any, Any], other: Run[Any, Any]) -> None:
    mine, theirs = first.task.labels, other.task.labels
    if mine != theirs:
        only = [label for label in (*mine, *theirs) if (label in mine) != (label in theirs)]
        raise ConfigError(
            f"'{first.folder}' and '{other.folder}' cannot answer together, their labels differ: only one has "
            f"'{only[0]}'"
        )
    several = [getattr(run.config.data, "several_labels", False) for run in (first, other)]
    if several[0] != several[1]:
        raise ConfigError(
            f"'{first.folder}' and '{other.folder}' cannot answer together: data.several_labels is {several[0]} in one "
            f"and {several[1]} in the other"
        )


def _names(runs: Sequence[Run[Any, Any]]) -> str:
    return ", ".join(str(run.folder) for run in runs)


def _one_at_a_time(runs: Sequence[Run[Any, Any]]) -> ConfigError:
    return ConfigError(f"look inside one run at a time: {_names(runs)}")


def _difference(first: TranslationRun, other: TranslationRun, side: str) -> str:
    mine: TextTokenizer = getattr(first.task, f"{side}_tokenizer")
    theirs: TextTokenizer = getattr(other.task, f"{side}_tokenizer")
    difference = mine.first_difference(theirs)
    if not difference and side == "target" and mine.tags != theirs.tags:  # each token is one to choose from
        difference = f"the tags {' '.join(mine.tags) or '(none)'} and {' '.join(theirs.tags) or '(none)'}"
    return difference
