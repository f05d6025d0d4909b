"""What a search is asked for, and what it returns."""

from __future__ import annotations

from dataclasses import dataclass, field

import torch
from torch import Tensor

from heed.errors import ConfigError
from heed.models.base import DecoderBody

__all__ = ["BeamStep", "Generated", "Hypothesis", "SearchOptions", "next_log_probs"]


@dataclass(frozen=True)
class SearchOptions:
    """How to write.

    Attributes:
        end_token: Ends a sequence.
        max_length: Largest number of tokens, the end token included; one number, or one per source.
        min_length: Smallest number of tokens before the end token.
        beam_size: Sequences kept per source; 1 is greedy.
        length_penalty: Hypotheses are compared by log-probability / length ** length_penalty.
        num_best: Hypotheses returned per source, at most `beam_size`.
        forbidden: Tokens that are never written (padding, start).
    """

    end_token: int
    max_length: int | tuple[int, ...]
    min_length: int = 0
    beam_size: int = 1
    length_penalty: float = 1.0
    num_best: int = 1
    forbidden: tuple[int, ...] = ()

    def check(self) -> None:
        """Refuse what no search can do.

        Raises:
            ConfigError: `num_best` is larger than `beam_size`, or the length penalty is negative.
        """
        if self.num_best > self.beam_size:
            raise ConfigError(f"num_best {self.num_best} is more than beam_size {self.beam_size} keeps")
        if self.length_penalty < 0:
            raise ConfigError(f"length_penalty {self.length_penalty} is negative; 0 compares plain log-probabilities")

    def limits(self, num_sources: int) -> list[int]:
        """The largest length of each source."""
        if isinstance(self.max_length, int):
            return [self.max_length] * num_sources
        assert len(self.max_length) == num_sources
        return list(self.max_length)


@dataclass(frozen=True)
class Hypothesis:
    """One sequence that was written.

    Attributes:
        tokens: Without the start and the end token.
        log_probs: Natural log-probability of each token, the end token included where it was written.
        score: Sum of `log_probs` / number of them ** length_penalty; what hypotheses are ranked by.
        finished: Whether the end token was written; False where the largest length cut it off.
    """

    tokens: tuple[int, ...]
    log_probs: tuple[float, ...]
    score: float
    finished: bool

    @property
    def log_prob(self) -> float:
        """Log-probability of the whole sequence."""
        return sum(self.log_probs)


@dataclass(frozen=True)
class BeamStep:
    """One step of a beam search, per kept row.

    Attributes:
        sources: `(rows,)`, the source of each row.
        parents: `(rows,)`, the row of the step before that each continues.
        tokens: `(rows,)`, the token each wrote.
        log_probs: `(rows,)`, its log-probability.
        totals: `(rows,)`, log-probability of the row so far.
    """

    sources: list[int]
    parents: list[int]
    tokens: list[int]
    log_probs: list[float]
    totals: list[float]


@dataclass(frozen=True)
class Generated:
    """The hypotheses of each source, best first, and the steps of a beam search (empty for greedy)."""

    hypotheses: list[list[Hypothesis]]
    steps: list[BeamStep] = field(default_factory=list)


def next_log_probs(
    model: DecoderBody, hidden: Tensor, lengths: Tensor | None, options: SearchOptions, written: int
) -> Tensor:
    """Log-probabilities of the next token of each row, `(rows, vocab_size)`.

    Args:
        model: Gives the output layer.
        hidden: `(rows, n, d)`, of which only each row's last real position is used.
        lengths: `(rows,)` number of real positions, or None where all are.
        options: Forbidden tokens and smallest length, whose tokens get -inf (the others are not renormalised).
        written: Tokens already written.
    """
    if lengths is None:
        last = hidden[:, -1]
    else:
        last = hidden[torch.arange(len(hidden), device=hidden.device), lengths - 1]
    log_probs = torch.log_softmax(model.logits(last).float(), dim=-1)
    banned = list(options.forbidden)
    if written < options.min_length:
        banned.append(options.end_token)
    if banned:
        log_probs[:, banned] = -torch.inf
    return log_probs
