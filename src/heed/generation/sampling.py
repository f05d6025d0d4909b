"""Sampling: each next token drawn from the model's distribution, perhaps flattened, sharpened or cut."""

from __future__ import annotations

import math
from dataclasses import dataclass

import torch
from torch import Tensor

from heed.attention import Rows
from heed.errors import ConfigError
from heed.generation.options import Generated, Hypothesis, SearchOptions, next_log_probs
from heed.models.base import DecoderBody, Memory

__all__ = ["SamplingOptions", "sample"]


@dataclass(frozen=True)
class SamplingOptions:
    """How to draw.

    Attributes:
        temperature: Log-probabilities are divided by it: below 1 sharper, above 1 flatter.
        top_k: Draw from this many most probable tokens only (Fan et al. 2018, arXiv:1805.04833).
        top_p: Draw from the smallest set of most probable tokens that holds this probability (Holtzman et al. 2020,
            arXiv:1904.09751).
        seed: The same seed and source give the same outputs, in whatever batch; one number for all sources, or one
            per source.
    """

    temperature: float = 1.0
    top_k: int | None = None
    top_p: float | None = None
    seed: int | tuple[int, ...] = 1

    def __post_init__(self) -> None:
        if not 0 < self.temperature < math.inf:
            raise ConfigError(f"temperature is {self.temperature}, expected more than 0 (greedy search is the limit)")
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
    """Draw `num_best` outputs per source, independently.

    Args:
        model: Any decoder.
        memory: The encoded sources, or None for a language model.
        prompt: `(sources, n)`, tokens to continue.
        options: Limits, forbidden tokens, number of outputs.
        sampling: How to draw.
        prompt_lengths: `(sources,)` where prompts are padded on the right.

    Returns:
        `num_best` hypotheses per source, by descending log-probability under the model (before temperature and cuts).
    """
    num_sources, times = len(prompt), options.num_best
    limits = [limit for limit in options.limits(num_sources) for _ in range(times)]
    seeds = [sampling.seed] * num_sources if isinstance(sampling.seed, int) else sampling.seed
    generators = [torch.Generator().manual_seed(seed % 2**63) for seed in seeds]
    assert len(generators) == num_sources
    rows = Rows.repeat(num_sources, times, device=prompt.device)
    tokens: list[list[int]] = [[] for _ in limits]
    log_probs: list[list[float]] = [[] for _ in limits]
    finished = [False] * len(limits)

    active = list(range(len(limits)))
    state = model.start(memory, rows)
    step = prompt.repeat_interleave(times, dim=0)
    lengths = None if prompt_lengths is None else prompt_lengths.repeat_interleave(times)
    for written in range(max(limits, default=0)):
        hidden, state = model.step(step, state, lengths)
        now = next_log_probs(model, hidden, lengths, options, written)
        # Each source has its own numbers, drawn for every row it ever had: what is drawn for one depends neither on
        # its neighbours nor on which rows have ended. (On the CPU, where a seed means the same everywhere.)
        numbers = {n: torch.rand(times, generator=generators[n]) for n in sorted({row // times for row in active})}
        uniform = torch.stack([numbers[row // times][row % times] for row in active]).to(now.device)
        token = _draw(now, uniform, sampling)
        drawn = now.gather(1, token.unsqueeze(1)).squeeze(1)
        stay = []
        for row, (output, t, p) in enumerate(zip(active, token.tolist(), drawn.tolist(), strict=True)):
            log_probs[output].append(p)
            if t == options.end_token:
                finished[output] = True
            else:
                tokens[output].append(t)
                if written + 1 < limits[output]:
                    stay.append(row)
        if not stay:
            break
        kept = torch.tensor(stay, device=prompt.device)
        if len(stay) < len(active):
            state, token = state.select(kept), token[kept]
            active = [active[row] for row in stay]
        step, lengths = token.unsqueeze(1), None

    outputs = [
        Hypothesis(tuple(t), tuple(p), sum(p) / max(1, len(p)) ** options.length_penalty, done)
        for t, p, done in zip(tokens, log_probs, finished, strict=True)
    ]
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
    last = (probabilities > 0).sum(-1, keepdim=True) - 1  # rounding must not step behind the last possible token
    return index.gather(1, torch.minimum(place, last)).squeeze(1)
