"""Sampling: each next token is drawn from the model's distribution, with temperature, top-k and top-p."""

from __future__ import annotations

import math
from collections.abc import Generator
from dataclasses import dataclass

import torch
from torch import Tensor

from heed.errors import ConfigError
from heed.generation.next_token import NextTokenScores
from heed.generation.options import Generated, SearchOptions
from heed.generation.repetition import Repetition
from heed.generation.stepwise import Step, to_the_end, write_steps
from heed.models.base import DecoderBody, Memory


@dataclass(frozen=True)
class SamplingOptions:
    """Options of sampling; the same seed and source give the same outputs in any batch.

    Source: top_k as in Fan et al. 2018 (arXiv:1805.04833), top_p as in Holtzman et al. 2020 (arXiv:1904.09751).
    """

    temperature: float = 1.0  # divides log-probabilities: below 1 sharper, above 1 flatter
    top_k: int | None = None  # draw only from this many most probable tokens
    top_p: float | None = None  # draw from the smallest set of most probable tokens with this total probability
    seed: int | tuple[int, ...] = 1  # one for all sources, or one per source

    def __post_init__(self) -> None:
        if not 0 < self.temperature < math.inf:
            raise ConfigError(
                f"temperature is {self.temperature}, expected a finite number above 0 (the limit 0 is greedy search)"
            )
        if self.top_k is not None and self.top_k < 1:
            raise ConfigError(f"top_k is {self.top_k}, expected at least 1")
        if self.top_p is not None and not 0 < self.top_p <= 1:
            raise ConfigError(f"top_p is {self.top_p}, expected more than 0 and at most 1")


def sample(
    model: DecoderBody,
    memory: Memory | None,
    prompt: Tensor,
    options: SearchOptions,
    sampling: SamplingOptions,
    prompt_lengths: Tensor | None = None,
) -> Generated:
    """Draw `num_best` outputs per source, independently. Arguments as for `beam_search`.

    Returns:
        `num_best` hypotheses per source, by descending log-probability (before temperature, top-k and top-p).
    """
    return to_the_end(sample_steps(model, memory, prompt, options, sampling, prompt_lengths))


def sample_steps(
    model: DecoderBody,
    memory: Memory | None,
    prompt: Tensor,
    options: SearchOptions,
    sampling: SamplingOptions,
    prompt_lengths: Tensor | None = None,
) -> Generator[Step, None, Generated]:
    """Like `sample`, step by step; yields like `write_steps`; the rows of one source are adjacent."""
    num_sources, times = len(prompt), options.num_best
    seeds = [sampling.seed] * num_sources if isinstance(sampling.seed, int) else sampling.seed
    generators = [torch.Generator().manual_seed(seed % 2**63) for seed in seeds]
    assert len(generators) == num_sources
    repetition = None if options.repetition_penalty == 1 else Repetition(options, prompt, prompt_lengths, times)

    def draw(
        scores: NextTokenScores, hidden: Tensor, lengths: Tensor | None, written: int, rows: list[int]
    ) -> tuple[Tensor, Tensor]:
        # Each source has its own random numbers, one for each of its rows, open or ended: the draws of a row depend
        # neither on other sources nor on which rows have ended. (On the CPU, where a seed means the same everywhere.)
        numbers = {n: torch.rand(times, generator=generators[n]) for n in sorted({row // times for row in rows})}
        uniform = torch.stack([numbers[row // times][row % times] for row in rows]).to(hidden.device)
        if repetition is None:
            log_probs = scores.log_probs(hidden, lengths, written)
            tokens = _draw(log_probs, uniform, sampling)
        else:
            log_probs, penalised = scores.changed(hidden, lengths, written, lambda logits: repetition(logits, rows))
            tokens = _draw(penalised, uniform, sampling)
            repetition.add(rows, tokens)
        return tokens, log_probs.gather(1, tokens.unsqueeze(1)).squeeze(1)

    outputs = yield from write_steps(model, memory, prompt, options, draw, times, prompt_lengths)
    per_source = [outputs[i : i + times] for i in range(0, len(outputs), times)]
    return Generated([sorted(group, key=lambda h: -h.log_prob) for group in per_source])


def _draw(log_probs: Tensor, uniform: Tensor, sampling: SamplingOptions) -> Tensor:
    """One token per row by the inverse of the cumulative distribution over tokens sorted by probability."""
    ordered, index = log_probs.double().sort(dim=-1, descending=True)
    probabilities = torch.softmax((ordered - ordered[:, :1]) / sampling.temperature, dim=-1)
    if sampling.top_k is not None:
        probabilities[:, sampling.top_k :] = 0.0
    if sampling.top_p is not None:
        before = probabilities.cumsum(-1) - probabilities  # the token that crosses top_p still counts
        probabilities[before >= sampling.top_p * probabilities.sum(-1, keepdim=True)] = 0.0
    cumulative = probabilities.cumsum(-1)
    place = torch.searchsorted(cumulative, (uniform.double() * cumulative[:, -1]).unsqueeze(1), right=True)
    last = (probabilities > 0).sum(-1, keepdim=True) - 1  # rounding must not go past the last possible token
    return index.gather(1, torch.minimum(place, last)).squeeze(1)
