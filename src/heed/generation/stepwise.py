"""Greedy decoding and sampling: every row writes one token a step."""

from __future__ import annotations

import math
from collections.abc import Callable, Generator
from dataclasses import dataclass
from typing import TypeVar

import torch
from torch import Tensor

from heed.attention import Rows
from heed.errors import ConfigError
from heed.generation.next_token import NextTokenScores, Repetition, without_gradient
from heed.generation.options import Generated, Hypothesis, SearchOptions, without
from heed.models.base import DecoderBody, Memory
from heed.threads import threads_for

Choose = Callable[[NextTokenScores, Tensor, Tensor | None, int, list[int]], tuple[Tensor, Tensor]]
"""Chooses the next tokens: from next-token scores, hidden states `(open rows, n, d)`, their lengths, the number of
tokens written and the numbers of the open rows, to tokens and their log-probabilities, both `(open rows,)`."""


T = TypeVar("T")
Step = list[tuple[int, int]]
"""(number of row, token) for each row that wrote a token."""


def write_steps(
    model: DecoderBody,
    memory: Memory | None,
    prompt: Tensor,
    options: SearchOptions,
    choose: Choose,
    times: int = 1,
    prompt_lengths: Tensor | None = None,
) -> Generator[Step, None, list[Hypothesis]]:
    """Write `times` adjacent rows for each source; `choose` picks each row's next token.

    Nothing is computed before the first step is requested. Other arguments as for `beam_search`.

    Yields:
        After each step, the tokens written in it, without end tokens.

    Returns:
        One hypothesis per row.
    """
    num_sources = len(prompt)
    limits = [limit for limit in options.limits(num_sources) for _ in range(times)]
    tokens: list[list[int]] = [[] for _ in limits]
    log_probs: list[list[float]] = [[] for _ in limits]
    finished = [False] * len(limits)

    active = list(range(len(limits)))
    with without_gradient():
        state = model.start(memory, Rows.repeat(num_sources, times, device=prompt.device))
        step = prompt.repeat_interleave(times, dim=0)
        lengths = None if prompt_lengths is None else prompt_lengths.repeat_interleave(times)
        scores = NextTokenScores(model, options)
    for written in range(max(limits, default=0)):
        # Not around the whole loop: between two steps the caller's code runs.
        with without_gradient(), threads_for(model, step.numel(), "step"):
            hidden, state = model.step(step, state, lengths)
            token, chosen = choose(scores, hidden, lengths, written, active)
        leaving = set()
        new: Step = []
        for row, (output, t, p) in enumerate(zip(active, token.tolist(), chosen.tolist(), strict=True)):
            log_probs[output].append(p)
            if t == options.end_token:
                finished[output] = True
                leaving.add(row)
                continue
            tokens[output].append(t)
            new.append((output, t))
            stops = options.stop is not None and options.stop(output // times, tokens[output])
            if stops or written + 1 >= limits[output]:
                leaving.add(row)
        yield new
        if len(leaving) == len(active):
            break
        with without_gradient():
            if leaving:
                stay = without(leaving, len(active))
                kept = torch.tensor(stay, device=prompt.device)
                state, token = state.select(kept), token[kept]
                active = [active[row] for row in stay]
            step, lengths = token.unsqueeze(1), None
    return [
        Hypothesis(tuple(t), tuple(p), sum(p) / max(1, len(p)) ** options.length_penalty, done)
        for t, p, done in zip(tokens, log_probs, finished, strict=True)
    ]


def to_the_end(steps: Generator[Step, None, T]) -> T:
    """Run all steps and return their result."""
    while True:
        try:
            next(steps)
        except StopIteration as end:
            return end.value  # type: ignore[no-any-return]


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


def generate_steps(
    model: DecoderBody,
    memory: Memory | None,
    prompt: Tensor,
    options: SearchOptions,
    prompt_lengths: Tensor | None = None,
    sampling: SamplingOptions | None = None,
) -> Generator[Step, None, Generated]:
    """Like `generate` without a beam, token by token: yields each row's token as soon as it is generated.

    Row i of the `num_best` rows of source n has the number n * `num_best` + i; its hypothesis may have another place
    among those returned at the end.
    """
    assert sampling is not None or options.beam_size == 1
    times = 1 if sampling is None else options.num_best
    draw = None if sampling is None else _drawing(sampling, len(prompt), times)
    repetition = None if options.repetition_penalty == 1 else Repetition(options, prompt, prompt_lengths, times)

    def choose(
        scores: NextTokenScores, hidden: Tensor, lengths: Tensor | None, written: int, rows: list[int]
    ) -> tuple[Tensor, Tensor]:
        if draw is None and repetition is None:
            best = scores.best(hidden, lengths, written, hidden.new_zeros(len(hidden), 1), 1)
            return best.tokens.squeeze(1), best.log_probs.squeeze(1)
        if repetition is None:
            log_probs = chosen_from = scores.log_probs(hidden, lengths, written)
        else:
            log_probs, chosen_from = scores.changed(hidden, lengths, written, lambda logits: repetition(logits, rows))
        tokens = chosen_from.argmax(-1) if draw is None else draw(chosen_from, rows)
        if repetition is not None:
            repetition.add(rows, tokens)
        return tokens, log_probs.gather(1, tokens.unsqueeze(1)).squeeze(1)

    outputs = yield from write_steps(model, memory, prompt, options, choose, times, prompt_lengths)
    per_source = [outputs[i : i + times] for i in range(0, len(outputs), times)]
    return Generated([sorted(group, key=lambda h: -h.log_prob) for group in per_source])


def _drawing(sampling: SamplingOptions, num_sources: int, times: int) -> Callable[[Tensor, list[int]], Tensor]:
    """A function that draws the tokens of rows from their scores; the rows of one source are adjacent."""
    seeds = [sampling.seed] * num_sources if isinstance(sampling.seed, int) else sampling.seed
    generators = [torch.Generator().manual_seed(seed % 2**63) for seed in seeds]
    assert len(generators) == num_sources

    def draw(scores: Tensor, rows: list[int]) -> Tensor:
        # Each source has its own random numbers, one for each of its rows, open or ended: the draws of a row depend
        # neither on other sources nor on which rows have ended. (On the CPU, where a seed means the same everywhere.)
        numbers = {n: torch.rand(times, generator=generators[n]) for n in sorted({row // times for row in rows})}
        uniform = torch.stack([numbers[row // times][row % times] for row in rows]).to(scores.device)
        return _draw(scores, uniform, sampling)

    return draw


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
