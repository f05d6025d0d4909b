"""Greedy search: always the most probable next token. Finished rows leave the batch."""

from __future__ import annotations

import torch
from torch import Tensor

from heed.attention import Rows
from heed.generation.options import Generated, Hypothesis, SearchOptions, next_log_probs
from heed.models.base import DecoderBody, Memory

__all__ = ["greedy_search"]


def greedy_search(
    model: DecoderBody,
    memory: Memory | None,
    prompt: Tensor,
    options: SearchOptions,
    prompt_lengths: Tensor | None = None,
) -> Generated:
    """Write the most probable token at each step.

    Args:
        model: Any decoder.
        memory: The encoded sources, or None for a language model.
        prompt: `(sources, n)`, tokens to continue: the start token, perhaps with a forced prefix.
        options: Limits and forbidden tokens.
        prompt_lengths: `(sources,)` where prompts are padded on the right.

    Returns:
        One hypothesis per source.
    """
    num_sources = len(prompt)
    limits = options.limits(num_sources)
    tokens: list[list[int]] = [[] for _ in range(num_sources)]
    log_probs: list[list[float]] = [[] for _ in range(num_sources)]
    finished = [False] * num_sources

    active = list(range(num_sources))
    state = model.start(memory, Rows.repeat(num_sources, device=prompt.device))
    step, lengths = prompt, prompt_lengths
    for written in range(max(limits, default=0)):
        hidden, state = model.step(step, state, lengths)
        best, token = next_log_probs(model, hidden, lengths, options, written).max(dim=-1)
        stay = []
        for row, (source, t, p) in enumerate(zip(active, token.tolist(), best.tolist(), strict=True)):
            log_probs[source].append(p)
            if t == options.end_token:
                finished[source] = True
            else:
                tokens[source].append(t)
                if written + 1 < limits[source]:
                    stay.append(row)
        if not stay:
            break
        if len(stay) < len(active):
            rows = torch.tensor(stay, device=prompt.device)
            state, token = state.select(rows), token[rows]
            active = [active[row] for row in stay]
        step, lengths = token.unsqueeze(1), None

    def hypothesis(source: int) -> Hypothesis:
        p = log_probs[source]
        score = sum(p) / max(1, len(p)) ** options.length_penalty
        return Hypothesis(tuple(tokens[source]), tuple(p), score, finished[source])

    return Generated([[hypothesis(source)] for source in range(num_sources)])
