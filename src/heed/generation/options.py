"""What a search is asked for, and what it returns."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Literal

from heed.errors import ConfigError

EarlyStopping = Literal["never", "heuristic", "full"]
"""When the beam search of a source ends.

- never: when no open row can still beat the hypotheses to return, however long it gets;
- heuristic: when as many have ended as the beam is wide, and no open row would beat the worst of them if it ended now;
- full: when as many have ended as the beam is wide.

In the last two a row ends only if its end is among as many best candidates as the beam is wide. They are those of
`generate` in the library transformers, with `early_stopping` false (its default) and true.
"""


@dataclass(frozen=True)
class SearchOptions:
    """How to write."""

    end_token: int  # ends a sequence
    max_length: int | tuple[int, ...]  # largest number of tokens, the end token included; one number, or one per source
    min_length: int = 0  # smallest number of tokens before the end token
    beam_size: int = 1  # sequences kept per source; 1 is greedy
    length_penalty: float = 1.0  # hypotheses are compared by log-probability / length ** length_penalty
    num_best: int = 1  # hypotheses returned per source, at most `beam_size`
    forbidden: tuple[int, ...] = ()  # tokens that are never written (padding, start)
    forbidden_first: tuple[int, ...] = ()  # tokens that are never the first one written
    stop: Callable[[int, Sequence[int]], bool] | None = None  # whether what was written for a source, by number, ends
    repetition_penalty: float = 1.0  # makes tokens that were read or written less likely; see `Repetition`
    renormalize: bool = False  # tokens that are forbidden are left out before the softmax, not after
    early_stopping: EarlyStopping = "never"  # when the beam search of a source ends
    read: tuple[tuple[int, ...], ...] | None = None  # per source, the tokens it counts as read; by default the prompt's

    def check(self) -> None:
        """Refuse what no search can do.

        Raises:
            ConfigError: `num_best` is larger than `beam_size`, the length penalty is negative, or the repetition
                penalty is not a finite number above 0, or is asked of a beam.
        """
        self.check_repetition()
        if self.repetition_penalty != 1 and self.beam_size > 1:
            raise ConfigError(
                f"repetition_penalty {self.repetition_penalty} is for greedy search and sampling: a beam of "
                f"{self.beam_size} compares the log-probabilities of whole outputs"
            )
        if self.num_best > self.beam_size:
            raise ConfigError(f"num_best {self.num_best} is more than beam_size {self.beam_size} keeps")
        if self.length_penalty < 0:
            raise ConfigError(f"length_penalty {self.length_penalty} is negative; 0 compares plain log-probabilities")

    def check_repetition(self) -> None:
        """Refuse a repetition penalty that is not a finite number above 0, with a ConfigError."""
        if not 0 < self.repetition_penalty < math.inf:
            raise ConfigError(
                f"repetition_penalty is {self.repetition_penalty}, expected a finite number above 0 (1 changes nothing)"
            )

    def banned(self, written: int) -> tuple[int, ...]:
        """The tokens that may not be next, after `written` of them."""
        banned = self.forbidden if written >= self.min_length else (*self.forbidden, self.end_token)
        return banned if written else (*banned, *self.forbidden_first)

    def limits(self, num_sources: int) -> list[int]:
        """The largest length of each source."""
        if isinstance(self.max_length, int):
            return [self.max_length] * num_sources
        assert len(self.max_length) == num_sources
        return list(self.max_length)


@dataclass(frozen=True)
class Hypothesis:
    """One sequence that was written."""

    tokens: tuple[int, ...]  # without the start and the end token
    log_probs: tuple[float, ...]  # natural log-probability of each token, the end token included where it was written
    score: float  # sum of `log_probs` / number of them ** length_penalty; what hypotheses are ranked by
    finished: bool  # whether the end token was written; False where the largest length cut it off

    @property
    def log_prob(self) -> float:
        """Log-probability of the whole sequence."""
        return sum(self.log_probs)


@dataclass(frozen=True)
class BeamStep:
    """One step of a beam search, per kept row."""

    sources: list[int]  # `(rows,)`, the source of each row
    parents: list[int]  # `(rows,)`, the row of the step before that each continues
    tokens: list[int]  # `(rows,)`, the token each wrote
    log_probs: list[float]  # `(rows,)`, its log-probability
    totals: list[float]  # `(rows,)`, log-probability of the row so far


@dataclass(frozen=True)
class Generated:
    """The hypotheses of each source, best first, and the steps of a beam search (empty for greedy)."""

    hypotheses: list[list[Hypothesis]]
    steps: list[BeamStep] = field(default_factory=list)


def without(leaving: set[int], count: int) -> list[int]:
    """The places `0 .. count - 1` that stay, the last ones in the places of those that leave.

    Where little leaves little moves: states can be changed in place.
    """
    stay = [n for n in range(count) if n not in leaving]
    last = iter(reversed(stay))
    return [n if n not in leaving else next(last) for n in range(len(stay))]
