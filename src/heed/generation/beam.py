"""Beam search with length normalisation over the start/step contract: any decoder, sources leave when they are done.

A hypothesis y is ranked by log p(y | x) / |y| ** length_penalty, |y| counting the end token (Graves 2013;
Bahdanau et al. 2015 normalise with exponent 1). The search of a source ends when no open row can still beat the
hypotheses it would return: log-probabilities only fall, so an open row can reach at most
log p / max_length ** length_penalty. With a beam as wide as the tree it is exhaustive search.
"""

from __future__ import annotations

import torch
from torch import Tensor

from heed.attention import Rows
from heed.generation.options import BeamStep, Generated, Hypothesis, SearchOptions, next_log_probs
from heed.models.base import DecoderBody, Memory

__all__ = ["beam_search"]


def beam_search(
    model: DecoderBody,
    memory: Memory | None,
    prompt: Tensor,
    options: SearchOptions,
    prompt_lengths: Tensor | None = None,
) -> Generated:
    """Keep the `beam_size` most probable beginnings of each source at each step.

    Args:
        model: Any decoder.
        memory: The encoded sources, or None for a language model.
        prompt: `(sources, n)`, tokens to continue: the start token, perhaps with a forced prefix.
        options: Beam size, length penalty, limits and forbidden tokens.
        prompt_lengths: `(sources,)` where prompts are padded on the right.

    Returns:
        Up to `num_best` hypotheses per source, best first, and every step of the search.

    Raises:
        ConfigError: `num_best` is larger than `beam_size`, or the length penalty is negative.
    """
    options.check()
    num_sources, width = len(prompt), options.beam_size
    limits = options.limits(num_sources)
    done: list[list[Hypothesis]] = [[] for _ in range(num_sources)]
    steps: list[BeamStep] = []

    active = list(range(num_sources))  # sources still being written for; each has `beams` rows, side by side
    beams = 1
    totals = torch.zeros(num_sources, 1, device=prompt.device)
    state = model.start(memory, Rows.repeat(num_sources, device=prompt.device))
    tokens, lengths = prompt, prompt_lengths
    for written in range(max(limits, default=0)):
        hidden, state = model.step(tokens, state, lengths)
        log_probs = next_log_probs(model, hidden, lengths, options, written)  # (A * beams, V)
        vocab_size = log_probs.shape[-1]
        joint = totals.unsqueeze(-1) + log_probs.view(len(active), beams, vocab_size)
        # At most `beams` of the candidates end, so 2 * width hold `width` that go on (or all there are).
        num_candidates = min(2 * width, beams * vocab_size)
        best, flat = joint.flatten(1).topk(num_candidates, dim=-1)  # (A, candidates)
        first_row = torch.arange(len(active), device=prompt.device).unsqueeze(1) * beams
        parents, tokens = first_row + flat // vocab_size, flat % vocab_size

        ends = tokens == options.end_token
        _collect(best, parents, tokens, ends, log_probs, active, done, steps, options)
        open_best, place = best.masked_fill(ends, -torch.inf).topk(min(width, num_candidates), dim=-1)
        parents, tokens = parents.gather(1, place), tokens.gather(1, place)
        keep = []
        for a, (source, total) in enumerate(zip(active, open_best[:, 0].tolist(), strict=True)):
            if written + 1 >= limits[source]:
                cut = open_best[a : a + 1], parents[a : a + 1], tokens[a : a + 1]
                every = torch.ones_like(cut[2], dtype=torch.bool)
                _collect(*cut, every, log_probs, [source], done, steps, options)
            elif total > -torch.inf and not _settled(done[source], total, limits[source], options):
                keep.append(a)
        if not keep:
            break
        kept = torch.tensor(keep, device=prompt.device)
        active = [active[a] for a in keep]
        totals, parents, tokens = open_best[kept], parents[kept], tokens[kept]
        beams = totals.shape[1]
        rows = parents.flatten()
        steps.append(
            BeamStep(
                [source for source in active for _ in range(beams)],
                rows.tolist(),
                tokens.flatten().tolist(),
                log_probs[rows, tokens.flatten()].tolist(),
                totals.flatten().tolist(),
            )
        )
        state, tokens, lengths = state.select(rows), tokens.flatten().unsqueeze(1), None
    return Generated([hypotheses[: options.num_best] for hypotheses in done], steps)


def _settled(done: list[Hypothesis], open_total: float, limit: int, options: SearchOptions) -> bool:
    """Whether no open row can still enter what is returned."""
    if len(done) < options.num_best:
        return False
    bound: float = open_total / limit**options.length_penalty
    return done[options.num_best - 1].score >= bound


def _collect(
    best: Tensor,
    parents: Tensor,
    tokens: Tensor,
    chosen: Tensor,
    log_probs: Tensor,
    active: list[int],
    done: list[list[Hypothesis]],
    steps: list[BeamStep],
    options: SearchOptions,
) -> None:
    """Turn the chosen candidates into hypotheses of their sources, which stay sorted, best first."""
    for a, c in (chosen & (best > -torch.inf)).nonzero().tolist():
        row, token = int(parents[a, c]), int(tokens[a, c])
        written, probs = _trace_back(steps, row)
        probs.append(float(log_probs[row, token]))
        ended = token == options.end_token
        score = float(best[a, c]) / len(probs) ** options.length_penalty
        sequence = written if ended else [*written, token]
        done[active[a]].append(Hypothesis(tuple(sequence), tuple(probs), score, ended))
        done[active[a]].sort(key=lambda h: -h.score)


def _trace_back(steps: list[BeamStep], row: int) -> tuple[list[int], list[float]]:
    """Tokens and log-probabilities of a row of the last step, from its beginning."""
    tokens, log_probs = [], []
    for step in reversed(steps):
        tokens.append(step.tokens[row])
        log_probs.append(step.log_probs[row])
        row = step.parents[row]
    return tokens[::-1], log_probs[::-1]
