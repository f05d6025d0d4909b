"""Generation one token a step, for any way to choose the token. Finished rows leave the batch."""

from __future__ import annotations

from collections.abc import Callable, Generator
from typing import TypeVar

import torch
from torch import Tensor

from heed.attention import Rows
from heed.generation.next_token import NextTokenScores, without_gradient
from heed.generation.options import Hypothesis, SearchOptions, without
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
