"""Continuations of prompts, and the options of writing them."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from heed.data.tokens.tokenizer import END
from heed.errors import ConfigError
from heed.generation import SamplingOptions, SearchOptions
from heed.tasks.base.predictions import short


@dataclass(frozen=True, repr=False)
class Continuation:
    """Output of a model after a prompt.

    Attributes:
        text: The output, without the prompt and without the stop text.
        prompt: The prompt.
        tokens: Every token that was written, as text: "</s>" last where the model ended the document, and those that
            spell the stop text.
        log_probs: Natural log-probability of each token under the model (before temperature, cuts and penalties).
        finished: True if the model ended the document or wrote a stop text; False if the output was cut off.
        stopped_by: The stop text that ended the output, or None.
        score: Ranking score of candidates: log-probability / number of tokens ** length_penalty.
        ids: The tokens as numbers, without the end token.
        unread: Tokens at the beginning of the prompt that lie outside the model's context and were not read.
    """

    text: str
    prompt: str
    tokens: tuple[str, ...]
    log_probs: tuple[float, ...]
    finished: bool
    stopped_by: str | None
    score: float
    ids: tuple[int, ...]
    unread: int = 0

    def __repr__(self) -> str:
        return f"<{short(self.text)}{'' if self.finished else ', cut off'}>"

    def rows(self) -> list[dict[str, Any]]:
        """Prompt and output as a row of a table."""
        return [{"prompt": self.prompt, "text": self.text, "log_prob": self.log_prob, "finished": self.finished}]

    @property
    def log_prob(self) -> float:
        """Natural log-probability of everything that was written, given the prompt."""
        return sum(self.log_probs)


@dataclass(frozen=True)
class WritingOptions:
    """Options of continuing a prompt.

    Attributes:
        length: Largest number of tokens to write, the end token included.
        min_length: Smallest number of tokens before the end token.
        beam_size: Width of the beam; 1 is greedy.
        num_best: Candidates per prompt.
        length_penalty: Candidates are compared by log-probability / length ** length_penalty.
        sampling: Sample instead of searching.
        stop: Texts before which the output is cut; the earliest counts.
        repetition_penalty: See `heed.generation.repetition`; also applies to tokens of the prompt. Not with a beam.
    """

    length: int = 100
    min_length: int = 0
    beam_size: int = 1
    num_best: int = 1
    length_penalty: float = 1.0
    sampling: SamplingOptions | None = None
    stop: tuple[str, ...] = ()
    repetition_penalty: float = 1.0

    def __post_init__(self) -> None:
        if self.length < 1:
            raise ConfigError(f"length is {self.length}, expected at least 1 token")
        if isinstance(self.stop, str):
            raise ConfigError(f"stop takes several texts; for one, write [{self.stop!r}]")
        if "" in self.stop:
            raise ConfigError("a stop text is empty; give the text before which the output should end")
        if self.sampling is not None and self.beam_size > 1:
            raise ConfigError(f"beam_size {self.beam_size} cannot be combined with sampling; give only one")
        if self.sampling is None and self.num_best > self.beam_size:
            raise ConfigError(
                f"num_best {self.num_best} needs a beam_size of at least {self.num_best}, or sampling; "
                f"the beam_size is {self.beam_size}"
            )
        object.__setattr__(self, "stop", tuple(self.stop))
        self.search(1).check()

    @property
    def streams(self) -> bool:
        """True if there is a single output that only grows, so that it can be streamed."""
        return self.beam_size == self.num_best == 1

    def search(
        self, max_length: int | tuple[int, ...], min_length: int = 0, forbidden: tuple[int, ...] = ()
    ) -> SearchOptions:
        """Return the search options, without stop texts."""
        best = self.num_best if self.sampling is None else 1
        return SearchOptions(
            END,
            max_length,
            min_length,
            beam_size=self.beam_size,
            length_penalty=self.length_penalty,
            num_best=best,
            forbidden=forbidden,
            repetition_penalty=self.repetition_penalty,
        )
