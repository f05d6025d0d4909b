"""How predictions are written: what the lines of each task are, and which options they know."""

from __future__ import annotations

import json
from abc import ABC, abstractmethod
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, ClassVar, Generic, TypeVar

from heed.data.tokens.tokenizer import TextTokenizer
from heed.data.tokens.words import split_words
from heed.errors import ConfigError
from heed.generation import SamplingOptions
from heed.runs.train import Run
from heed.tasks.classification.run import ClassificationRun
from heed.tasks.classification.task import LabelPrediction
from heed.tasks.tagging.run import TaggingRun
from heed.tasks.tagging.task import TagPrediction
from heed.tasks.translation.run import TranslationRun
from heed.tasks.translation.task import Prediction

__all__ = ["Outputs", "PredictOptions", "Written", "outputs_of"]

R = TypeVar("R", bound=Run[Any, Any])


@dataclass(frozen=True)
class PredictOptions:
    """The options of the command, as typed."""

    nbest: int = 1
    beam: int | None = None
    sample: bool = False
    temperature: float = 1.0
    top_k: int | None = None
    top_p: float | None = None
    seed: int = 1
    prefix: str = ""
    align: bool = False
    as_json: bool = False
    sort: bool = False
    columns: bool = False
    engine: str = "torch"
    horizon: int | None = None

    def sampling(self) -> SamplingOptions | None:
        """How to draw, or None.

        Raises:
            ConfigError: An option of sampling was given without --sample, or with a value that cannot be.
        """
        if self.sample:
            if self.beam is not None:
                raise ConfigError(f"--beam {self.beam} searches and --sample draws; give one of them")
            return SamplingOptions(self.temperature, self.top_k, self.top_p, self.seed)
        given = {"temperature": (self.temperature, 1.0), "top-k": (self.top_k, None), "top-p": (self.top_p, None)}
        for name, (value, default) in {**given, "seed": (self.seed, 1)}.items():
            if value != default:
                raise ConfigError(f"--{name} {value} is about drawing outputs, so it needs --sample")
        return None

    def refuse_others(self, task: str, known: tuple[str, ...]) -> None:
        """Refuse options that a task does not know.

        Raises:
            ConfigError: One of them was given.
        """
        for name, default in vars(PredictOptions()).items():
            if name not in known and getattr(self, name) != default:
                option = {"as_json": "json", "top_k": "top-k", "top_p": "top-p"}.get(name, name)
                raise ConfigError(f"--{option} does not apply to a run of {task}")


@dataclass(frozen=True)
class Written:
    """What is written for one text: its lines, and how unsure the model is (0 where that is not asked)."""

    lines: tuple[str, ...]
    uncertainty: float = 0.0


class Outputs(ABC, Generic[R]):
    """The outputs of a run of one task."""

    known: ClassVar[tuple[str, ...]]
    """The options that apply."""

    def __init__(self, run: R, options: PredictOptions) -> None:
        options.refuse_others(run.config.task, self.known)
        self.run = run
        self.options = options

    @property
    @abstractmethod
    def tokenizer(self) -> TextTokenizer:
        """What reads the texts."""

    def unknown_in(self, text: str) -> list[str]:
        """The pieces of a text that training never saw."""
        return self.tokenizer.unknown_in(text)

    @abstractmethod
    def write(self, texts: list[str]) -> Iterator[Written]:
        """The output of each text."""

    @abstractmethod
    def answer(self, text: str) -> str:
        """The output of one text, for the person who typed it."""


class TranslationOutputs(Outputs[TranslationRun]):
    """A text a line, or its candidates, with alignments where they are wanted."""

    known = ("nbest", "beam", "sample", "temperature", "top_k", "top_p", "seed", "prefix", "align", "as_json", "engine")

    @property
    def tokenizer(self) -> TextTokenizer:
        """The source's."""
        return self.run.task.source_tokenizer

    def write(self, texts: list[str]) -> Iterator[Written]:
        """Each text's candidates."""
        options = self.options
        results = self.run.candidates(
            texts,
            num_best=options.nbest,
            beam_size=options.beam,
            sampling=options.sampling(),
            prefix=options.prefix,
            engine=options.engine,
        )
        for text, candidates in zip(texts, results, strict=True):
            yield Written(tuple(self._line(text, candidate) for candidate in candidates))

    def _line(self, source: str, candidate: Prediction) -> str:
        links = self.run.align(source, candidate) if self.options.align else None
        if self.options.as_json:
            return _translation_json(source, candidate, links)
        columns = [_one_line(candidate.text)]
        if self.options.nbest > 1:
            columns.insert(0, f"{candidate.score:.4f}")
        if links is not None:
            columns.append(" ".join(f"{i}-{j}" for i, j in links))
        return "\t".join(columns)

    def answer(self, text: str) -> str:
        """The best output and its probability."""
        best = self.run.predict(text, engine=self.options.engine)
        return f"{best.text}    (log-probability {best.log_prob:.3f})"


class ClassificationOutputs(Outputs[ClassificationRun]):
    """`label TAB probability` a line; with --nbest that many labels, `probability TAB label`; sorted, the text too."""

    known = ("nbest", "as_json", "sort")

    @property
    def tokenizer(self) -> TextTokenizer:
        """The task's."""
        return self.run.task.tokenizer

    def write(self, texts: list[str]) -> Iterator[Written]:
        """Each text's label."""
        for text, prediction in zip(texts, self.run.predict(texts), strict=True):
            yield Written(self._lines(text, prediction), prediction.uncertainty)

    def _lines(self, text: str, prediction: LabelPrediction) -> tuple[str, ...]:
        if self.options.as_json:
            values = {
                "text": text,
                "label": list(prediction.labels) if self.run.task.config.data.several_labels else prediction.label,
                "probability": round(prediction.probability, 6),
                "probabilities": {label: round(p, 6) for label, p in prediction.probabilities.items()},
            }
            return (json.dumps(values, ensure_ascii=False),)
        if self.options.sort:
            return ("\t".join([f"{prediction.uncertainty:.4f}", prediction.label, _one_line(text)]),)
        if self.options.nbest > 1:
            ranked = sorted(prediction.probabilities.items(), key=lambda item: -item[1])[: self.options.nbest]
            return tuple(f"{probability:.4f}\t{label}" for label, probability in ranked) or ("",)
        return (f"{prediction.label}\t{prediction.probability:.4f}" if prediction.probabilities else "",)

    def answer(self, text: str) -> str:
        """The label and the probabilities."""
        return self.run.predict(text).summary()


class TaggingOutputs(Outputs[TaggingRun]):
    """The entities of a text on its line, tabs between them: `start-end label probability words`.

    Plain tags are written as `word/tag`.
    """

    known = ("as_json", "sort", "columns")

    @property
    def tokenizer(self) -> TextTokenizer:
        """The task's."""
        return self.run.task.tokenizer

    def unknown_in(self, text: str) -> list[str]:
        """The words of a text that training never saw."""
        return self.run.task.unknown_in(text[start:end] for start, end in split_words(text))

    def write(self, texts: list[str]) -> Iterator[Written]:
        """Each text's entities."""
        for text, prediction in zip(texts, self.run.predict(texts), strict=True):
            yield Written((self._line(text, prediction),), prediction.uncertainty)

    def _line(self, text: str, prediction: TagPrediction) -> str:
        if self.options.as_json:
            return json.dumps({"text": text, **prediction.as_values()}, ensure_ascii=False)
        line = prediction.summary()
        return "\t".join([f"{prediction.uncertainty:.4f}", _one_line(text), line]) if self.options.sort else line

    def answer(self, text: str) -> str:
        """The entities."""
        return self.run.predict(text).summary() or "(no entity)"


_OUTPUTS: dict[type[Run[Any, Any]], type[Outputs[Any]]] = {
    TranslationRun: TranslationOutputs,
    ClassificationRun: ClassificationOutputs,
    TaggingRun: TaggingOutputs,
}


def outputs_of(run: Run[Any, Any], options: PredictOptions) -> Outputs[Any]:
    """The outputs of a run.

    Raises:
        ConfigError: An option does not apply to its task.
    """
    kind = next(kind for of, kind in _OUTPUTS.items() if isinstance(run, of))
    return kind(run, options)


def _one_line(text: str) -> str:
    """A text without the line breaks and tabs that a model may have learned: a line in is a line out."""
    return text.translate({ord(c): " " for c in "\n\r\t"})


def _translation_json(source: str, candidate: Prediction, links: list[tuple[int, int]] | None) -> str:
    values = {
        "source": source,
        "text": candidate.text,
        "score": round(candidate.score, 6),
        "log_prob": round(candidate.log_prob, 6),
        "tokens": candidate.tokens,
        "token_probs": [round(p, 6) for p in candidate.token_probs],
        "finished": candidate.finished,
    }
    if links is not None:
        values["alignment"] = links
    return json.dumps(values, ensure_ascii=False)
