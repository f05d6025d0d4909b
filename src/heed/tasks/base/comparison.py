"""What a comparison asks of a task: examples, references, lengths, outputs with their measures, and a look."""

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
"""The set is predicted again until this much time is measured, or this many times."""

R = TypeVar("R", bound=Run[Any, Any])
E = TypeVar("E")
"""An example."""
O = TypeVar("O")  # noqa: E741
"""What a run says of an example."""


@dataclass(frozen=True)
class Speed:
    """How fast a run gave its outputs."""

    examples: float  # examples a second; the median over passes
    tokens: float  # tokens written a second, end tokens included; read, for a task that writes none
    passes: int  # how often the whole set was predicted


class Examiner(ABC, Generic[R, E, O]):
    """What a comparison knows of a task, for some runs on the same examples."""

    names: ClassVar[tuple[str, str]]
    """What a reader calls a source and a reference."""
    kind: ClassVar[str] = "sentences"
    """What a page calls several sources."""
    targets: ClassVar[str]
    """What training counts: the loss is a mean over them."""
    has_beam: ClassVar[bool] = False
    """Whether outputs are searched for."""

    def __init__(self, runs: Sequence[R], examples: Sequence[E]) -> None:
        self.runs = runs
        self.examples = examples
        self.sources = [self.source_of(example) for example in examples]
        self.references, self.remarks = self._references()
        self.lengths, self.length_unit = self._lengths()

    @classmethod
    @abstractmethod
    def source_of(cls, example: E) -> str:
        """What is read."""

    @classmethod
    @abstractmethod
    def truth_of(cls, example: E) -> str:
        """What is right, as the data has it."""

    def _references(self) -> tuple[list[str], list[str]]:
        return [self.truth_of(example) for example in self.examples], []

    @abstractmethod
    def _lengths(self) -> tuple[list[int], str]:
        """The length of each source and its unit: tokens where all runs cut sources alike."""

    def predict(self, run: R, examples: Sequence[E], beam_size: int | None) -> list[O]:
        """What a run says of some examples; `beam_size` only where `has_beam`."""
        reader: Any = run
        return reader.predict([self.source_of(example) for example in examples])  # type: ignore[no-any-return]

    @abstractmethod
    def count_tokens(self, run: R, outputs: Sequence[O]) -> int:
        """Tokens that the outputs for all examples took."""

    def outcomes(self, run: R, outputs: Sequence[O]) -> Outcomes:
        """The outputs for all examples with the measures of the task, the most telling first."""
        return run.outcomes(self.examples, outputs)

    def source_html(self, index: int) -> str:
        """A source on a page."""
        return f'<dd dir="auto">{escape(clean(self.sources[index]))}</dd>'

    def drawing(self, run: R, index: int, beam_size: int | None, numbers: Iterator[int]) -> str:
        """A look at an example as HTML, by default its shaded words; `numbers` numbers the maps of the page."""
        shown = capability(run, Looks).look(self.sources[index])
        assert isinstance(shown, ShownLook), "a task whose looks are no texts draws them itself"
        return shadings_html(shown.look)


def predict_timed(examiner: Examiner[R, E, O], run: R, beam_size: int | None) -> tuple[list[O], Speed]:
    """The outputs for all examples, and the speed at which they came, after a first pass over a few."""
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
    """Tokens of each text where all tokenizers cut alike, else characters."""
    lengths = [[len(ids) for ids in tokenizer.encode_all(texts)] for tokenizer in tokenizers]
    if all(other == lengths[0] for other in lengths[1:]):
        return lengths[0], f"{tokenizers[0].unit}s"
    return [len(text) for text in texts], "characters"


def shadings_html(look: Look) -> str:
    """The shaded words of a look."""
    if not look.shadings:
        return '<p class="hint">This model has no attention of which words could be shaded.</p>'
    return "".join(shading_to_html(shading, numbers=False) for shading in look.shadings)
