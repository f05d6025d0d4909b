"""A task's part in comparisons: examples, references, lengths, outputs with their measures, and a look."""

from __future__ import annotations

import statistics
import time
from abc import ABC, abstractmethod
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from html import escape
from typing import Any, ClassVar, Generic, TypeVar

from heed.evaluation.measures import Outcomes
from heed.observe.draw_shading import shading_to_html
from heed.observe.frames import Look
from heed.observe.labels import clean
from heed.observe.shown import ShownLook
from heed.tasks.base.capabilities import Looks, capability
from heed.tasks.base.run import Run

_TIMED_SECONDS, _MOST_PASSES = 2.0, 5
"""Prediction of the set is repeated until this much time is measured, or this many times."""

R = TypeVar("R", bound=Run[Any, Any])
E = TypeVar("E")
"""An example."""
O = TypeVar("O")  # noqa: E741
"""A run's output for an example."""


@dataclass(frozen=True)
class Speed:
    """How fast a run gave its outputs."""

    examples: float  # examples per second; the median over passes
    tokens: float  # tokens written per second, end tokens included; tokens read, for a task that writes none
    passes: int  # how often the whole set was predicted


class Examiner(ABC, Generic[R, E, O]):
    """A task's part in a comparison of runs on the same examples."""

    names: ClassVar[tuple[str, str]]
    """Names of a source and of a reference, for readers."""
    kind: ClassVar[str] = "sentences"
    """Plural name of the sources on a page."""
    targets: ClassVar[str]
    """Plural name of the training targets; the loss is a mean over them."""
    has_beam: ClassVar[bool] = False
    """True if outputs are found by beam search."""

    def __init__(self, runs: Sequence[R], examples: Sequence[E]) -> None:
        self.runs = runs
        self.examples = examples
        self.sources = [self.source_of(example) for example in examples]
        self.references, self.remarks = self._references()
        self.lengths, self.length_unit = self._lengths()

    @classmethod
    @abstractmethod
    def source_of(cls, example: E) -> str:
        """The input of an example."""

    @classmethod
    @abstractmethod
    def truth_of(cls, example: E) -> str:
        """The correct output, as given in the data."""

    def _references(self) -> tuple[list[str], list[str]]:
        return [self.truth_of(example) for example in self.examples], []

    @abstractmethod
    def _lengths(self) -> tuple[list[int], str]:
        """The length of each source, and its unit: tokens if all runs tokenize the sources alike."""

    def predict(self, run: R, examples: Sequence[E], beam_size: int | None) -> list[O]:
        """Outputs of a run for some examples; `beam_size` only if `has_beam`."""
        reader: Any = run
        return reader.predict([self.source_of(example) for example in examples])  # type: ignore[no-any-return]

    @abstractmethod
    def count_tokens(self, run: R, outputs: Sequence[O]) -> int:
        """Tokens written for all examples; tokens read, for a task that writes none."""

    def outcomes(self, run: R, outputs: Sequence[O]) -> Outcomes:
        """The outputs for all examples with the measures of the task, the most important first."""
        return run.outcomes(self.examples, outputs)

    def source_html(self, index: int) -> str:
        """A source as HTML."""
        return f'<dd dir="auto">{escape(clean(self.sources[index]))}</dd>'

    def drawing(self, run: R, index: int, beam_size: int | None, numbers: Iterator[int]) -> str:
        """A look at an example as HTML, shaded words by default; `numbers` numbers the maps of the page."""
        shown = capability(run, Looks).look(self.sources[index])
        assert isinstance(shown, ShownLook), "a task whose looks are not at texts must override `drawing`"
        return shadings_html(shown.look)


def predict_timed(examiner: Examiner[R, E, O], run: R, beam_size: int | None) -> tuple[list[O], Speed]:
    """The outputs for all examples and their speed, measured after a warm-up on a few examples."""
    examples = examiner.examples
    examiner.predict(run, examples[: min(16, len(examples))], beam_size)
    seconds: list[float] = []
    while not seconds or (sum(seconds) < _TIMED_SECONDS and len(seconds) < _MOST_PASSES):
        start = time.perf_counter()
        outputs = examiner.predict(run, examples, beam_size)
        seconds.append(time.perf_counter() - start)
    taken = statistics.median(seconds)
    return outputs, Speed(len(examples) / taken, examiner.count_tokens(run, outputs) / taken, len(seconds))


def token_lengths(tokenizers: Sequence[Any], texts: Sequence[str]) -> tuple[list[int], str]:
    """Length of each text and its unit: tokens if all tokenizers give the same lengths, else characters."""
    lengths = [[len(ids) for ids in tokenizer.encode_all(texts)] for tokenizer in tokenizers]
    if all(other == lengths[0] for other in lengths[1:]):
        return lengths[0], f"{tokenizers[0].unit}s"
    return [len(text) for text in texts], "characters"


def shadings_html(look: Look) -> str:
    """The shaded words of a look."""
    if not look.shadings:
        return '<p class="hint">This model has no attention to shade words with.</p>'
    return "".join(shading_to_html(shading, numbers=False) for shading in look.shadings)
