"""Use of a trained language model: continue, rank, score and look at texts."""

from __future__ import annotations

from collections.abc import Generator, Sequence
from typing import Any, overload

from heed.data.examples import Example
from heed.errors import ConfigError
from heed.generation import SamplingOptions
from heed.models.base import LanguageModel
from heed.observe.frames import Look
from heed.tasks.base.looking import LooksAtText
from heed.tasks.base.run import TextRun
from heed.tasks.language_modelling.continuation import Continuation, WritingOptions
from heed.tasks.language_modelling.look import look_at
from heed.tasks.language_modelling.ranking import RankedChoice, rank
from heed.tasks.language_modelling.scored import ScoredText, score_each
from heed.tasks.language_modelling.task import LanguageModelling
from heed.tasks.language_modelling.writing import context_of, continue_all, stream


class ContinuesText(TextRun[LanguageModelling, LanguageModel, Continuation], LooksAtText):
    """The part of a run of language modelling that uses its model."""

    text_columns = ("prompt", "text")
    options = frozenset(
        ("length", "min_length", "beam_size", "length_penalty", "sampling", "stop", "repetition_penalty", "num_best")
    )

    def predictions(self, texts: Sequence[str], **options: Any) -> list[Continuation]:
        """Continue each prompt; an empty one begins a document.

        Args:
            texts: The prompts.
            options: `length` (largest number of tokens), `min_length`, `beam_size`, `length_penalty` (the
                configuration's by default), `sampling` (`heed.generation.SamplingOptions`), `stop` (texts before which
                the output is cut), `repetition_penalty`; see `WritingOptions`.

        Raises:
            ConfigError: An option is invalid.
        """
        return [candidates[0] for candidates in self.candidates(texts, **options)]

    def candidates(self, texts: Sequence[str], num_best: int = 1, **options: Any) -> list[list[Continuation]]:
        """The `num_best` best, or sampled, continuations of each prompt, best first."""
        if isinstance(texts, str):
            raise ConfigError(f"candidates takes several texts; for one, write [{texts!r}]")
        return continue_all(self.task, self.model, texts, self.writing(num_best=num_best, **options))

    def write(self, prompt: str, **options: Any) -> Generator[str, None, Continuation]:
        """Continue a prompt, yielding the text piece by piece; the generator returns the whole continuation.

        `for piece in run.write("Once upon"): print(piece, end="", flush=True)`. Options as of `predictions`, without a
        beam.
        """
        return stream(self.task, self.model, prompt, self.writing(**options))

    def writing(
        self,
        *,
        length: int | None = None,
        min_length: int | None = None,
        beam_size: int | None = None,
        length_penalty: float | None = None,
        sampling: SamplingOptions | None = None,
        num_best: int = 1,
        **others: Any,
    ) -> WritingOptions:
        """Options of writing, by default the configuration's; a beam's length is kept within the context."""
        given = self.task.config.generation
        if beam_size is None:
            beam_size = 1 if sampling is not None else max(num_best, given.beam_size)
        if length is None:
            context = context_of(self.task, self.model)
            length = given.max_length if context is None or beam_size == 1 else min(given.max_length, context)
        return WritingOptions(
            length=length,
            min_length=min_length if min_length is not None else given.min_length,
            beam_size=beam_size,
            length_penalty=length_penalty if length_penalty is not None else given.length_penalty,
            sampling=sampling,
            num_best=num_best,
            **others,
        )

    def rank(self, prompt: str, choices: Sequence[str], end: bool = False) -> list[RankedChoice]:
        """Rank continuations of a prompt by log-probability, most probable first; see `ranking`.

        Args:
            prompt: The prompt; an empty one begins a document.
            choices: At least one; none blank, none repeated.
            end: Also count the end token after each choice.

        Raises:
            ConfigError: The choices cannot be ranked.
        """
        return rank(self.task, self.model, [(prompt, choices)], end)[0]

    @overload
    def score(self, examples: str, stride: int | None = None) -> ScoredText: ...

    @overload
    def score(self, examples: Sequence[Example], stride: int | None = None) -> dict[str, Any]: ...

    def score(self, examples: str | Sequence[Example], stride: int | None = None) -> ScoredText | dict[str, Any]:
        """Score a text token by token; or score documents and return the report as plain values.

        Args:
            examples: A text, or documents.
            stride: Tokens by which the window advances in a text longer than the context; a quarter of the context by
                default. Documents are scored with `evaluation.stride`.
        """
        if isinstance(examples, str):
            return score_each(self.task, self.model, [examples], stride)[0]
        return super().score(examples)

    def _look(self, text: str, **options: Any) -> Look:
        return look_at(self.task, self.model, text, **options)
