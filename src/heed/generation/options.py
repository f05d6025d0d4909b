"""Options and results of a search, and the interface of other programs that generate in place of a torch model."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Literal, Protocol

from heed.errors import ConfigError

EarlyStopping = Literal["never", "heuristic", "full"]
"""When the beam search of a source ends.

- never: when no open row can still beat the hypotheses to return, however long it gets;
- heuristic: when `beam_size` hypotheses have ended, and no open row would beat the worst of them if it ended now;
- full: when `beam_size` hypotheses have ended.

With the last two, a row ends only if its end token is among the `beam_size` best candidates. They match `generate` of
the library transformers with `early_stopping` false (its default) and true.
"""


@dataclass(frozen=True)
class SearchOptions:
    """Options of a search."""

    end_token: int  # ends a sequence
    max_length: int | tuple[int, ...]  # maximum number of tokens with the end token; one number, or one per source
    min_length: int = 0  # minimum number of tokens before the end token
    beam_size: int = 1  # sequences kept per source; 1 is greedy
    length_penalty: float = 1.0  # hypotheses are compared by log-probability / length ** length_penalty
    num_best: int = 1  # hypotheses returned per source, at most `beam_size`
    forbidden: tuple[int, ...] = ()  # tokens that are never written (padding, start)
    forbidden_first: tuple[int, ...] = ()  # tokens that are never the first one written
    stop: Callable[[int, Sequence[int]], bool] | None = None  # (number of source, tokens) -> True to end
    repetition_penalty: float = 1.0  # makes tokens that were read or written less likely; see `Repetition`
    renormalize: bool = False  # leave out forbidden tokens before the softmax instead of after
    early_stopping: EarlyStopping = "never"  # when the beam search of a source ends
    read: tuple[tuple[int, ...], ...] | None = None  # per source, the tokens that count as read; default: the prompt

    def check(self) -> None:
        """Check that the options are valid together.

        Raises:
            ConfigError: `num_best` is larger than `beam_size`, the length penalty is negative, or the repetition
                penalty is not a finite number above 0 or is set for a beam search.
        """
        self.check_repetition()
        if self.repetition_penalty != 1 and self.beam_size > 1:
            raise ConfigError(
                f"repetition_penalty {self.repetition_penalty} works only with greedy search and sampling: a beam of "
                f"{self.beam_size} compares the log-probabilities of whole outputs"
            )
        if self.num_best > self.beam_size:
            raise ConfigError(f"num_best is {self.num_best}, expected at most beam_size, {self.beam_size}")
        if self.length_penalty < 0:
            raise ConfigError(f"length_penalty is {self.length_penalty}, expected at least 0 (no length normalisation)")

    def check_repetition(self) -> None:
        """Raise a ConfigError if the repetition penalty is not a finite number above 0."""
        if not 0 < self.repetition_penalty < math.inf:
            raise ConfigError(
                f"repetition_penalty is {self.repetition_penalty}, expected a finite number above 0 (1 changes nothing)"
            )

    def banned(self, written: int) -> tuple[int, ...]:
        """The tokens that may not follow `written` tokens."""
        banned = self.forbidden if written >= self.min_length else (*self.forbidden, self.end_token)
        return banned if written else (*banned, *self.forbidden_first)

    def limits(self, num_sources: int) -> list[int]:
        """The maximum output length for each source."""
        if isinstance(self.max_length, int):
            return [self.max_length] * num_sources
        assert len(self.max_length) == num_sources
        return list(self.max_length)


@dataclass(frozen=True)
class Hypothesis:
    """One generated sequence."""

    tokens: tuple[int, ...]  # without the start and the end token
    log_probs: tuple[float, ...]  # natural log-probability of each token, including the end token if it was written
    score: float  # sum of `log_probs` / number of them ** length_penalty; hypotheses are ranked by it
    finished: bool  # True if the end token was written; False if cut off at the maximum length

    @property
    def log_prob(self) -> float:
        """Log-probability of the whole sequence."""
        return sum(self.log_probs)


@dataclass(frozen=True)
class BeamStep:
    """One step of a beam search: an entry for each kept row."""

    sources: list[int]  # `(rows,)`, the source of each row
    parents: list[int]  # `(rows,)`, the row of the previous step that each row continues
    tokens: list[int]  # `(rows,)`, the token that each row wrote
    log_probs: list[float]  # `(rows,)`, the log-probability of that token
    totals: list[float]  # `(rows,)`, log-probability of the row so far


@dataclass(frozen=True)
class Generated:
    """The hypotheses of each source, best first, and the steps of a beam search (empty for greedy)."""

    hypotheses: list[list[Hypothesis]]
    steps: list[BeamStep] = field(default_factory=list)


def without(leaving: set[int], count: int) -> list[int]:
    """The places `0 .. count - 1` without those that leave, whose gaps are filled with the last places.

    If few leave, few move, so that states can be changed in place.
    """
    stay = [n for n in range(count) if n not in leaving]
    last = iter(reversed(stay))
    return [n if n not in leaving else next(last) for n in range(len(stay))]


class Writer(Protocol):
    """Another program that runs a trained model."""

    name: str
    """Name of the engine, for users."""

    def write(self, sources: Sequence[list[int]], options: SearchOptions) -> list[list[Hypothesis]]:
        """The `num_best` hypotheses of each source, best first; all sources have the same maximum length.

        Raises:
            ConfigError: An option is not supported, or a source is too long.
        """
