"""Beam search with length normalisation for any decoder; finished sources leave the batch.

A hypothesis y is ranked by log p(y | x) / |y| ** length_penalty, |y| counting the end token (Graves 2013;
Bahdanau et al. 2015 normalise with exponent 1). The search of a source ends when no open row can still beat the
hypotheses to return: log-probabilities only fall, so an open row can reach at most
log p / max_length ** length_penalty. With a beam as wide as the tree, the search is exhaustive. `early_stopping` ends
it earlier, as other programs do.
"""

from __future__ import annotations

import math

import torch
from torch import Tensor

from heed.attention import Rows
from heed.generation.next_token import NextTokenScores
from heed.generation.options import BeamStep, Generated, Hypothesis, SearchOptions, without
from heed.models.base import DecoderBody, Memory
from heed.threads import threads_for

_Row = tuple[float, int, int, float]
"""A candidate: its log-probability, the row that it continues, its new token, and that token's log-probability."""


def beam_search(
    model: DecoderBody,
    memory: Memory | None,
    prompt: Tensor,
    options: SearchOptions,
    prompt_lengths: Tensor | None = None,
) -> Generated:
    """Keep the `beam_size` most probable partial outputs of each source at each step.

    Args:
        model: Any decoder.
        memory: The encoded sources, or None for a language model.
        prompt: `(sources, n)`, tokens to continue: the start token, possibly followed by a forced prefix.
        options: Beam size, length penalty, limits and forbidden tokens.
        prompt_lengths: `(sources,)`, if prompts are padded on the right.

    Returns:
        Up to `num_best` hypotheses per source, best first, and every step of the search.

    Raises:
        ConfigError: `num_best` is larger than `beam_size`, the length penalty is negative, or a repetition penalty is
            set.
    """
    options.check()
    num_sources, width = len(prompt), options.beam_size
    limits = options.limits(num_sources)
    done: list[list[Hypothesis]] = [[] for _ in range(num_sources)]
    steps: list[BeamStep] = []

    active = list(range(num_sources))  # unfinished sources; each has `beams` adjacent rows
    totals = torch.zeros(num_sources, 1, device=prompt.device)
    state = model.start(memory, Rows.repeat(num_sources, device=prompt.device))
    scores = NextTokenScores(model, options)
    tokens, lengths = prompt, prompt_lengths
    for written in range(max(limits, default=0)):
        with threads_for(model, tokens.numel(), "step"):
            hidden, state = model.step(tokens, state, lengths)
            # At most `beams` of the candidates end, so 2 * width contain `width` open ones (or all there are).
            best = scores.best(hidden, lengths, written, totals, 2 * width)
        beams, num_candidates = totals.shape[1], best.tokens.shape[1]
        parts = (best.totals.tolist(), best.rows.tolist(), best.tokens.tolist(), best.log_probs.tolist())
        leaving = set()
        going: list[list[_Row]] = []
        for a, (source, *candidates) in enumerate(zip(active, *parts, strict=True)):
            ended: list[_Row] = []
            open_rows: list[_Row] = []
            may_end = 2 * width if options.early_stopping == "never" else width
            for place, (total, row, token, log_prob) in enumerate(zip(*candidates, strict=True)):
                if total == -math.inf:
                    break
                parent = a * beams + row
                if place >= may_end and token == options.end_token:
                    continue
                if token == options.end_token or _stops(options, source, steps, parent, token):
                    ended.append((total, parent, token, log_prob))
                elif len(open_rows) < width:
                    open_rows.append((total, parent, token, log_prob))
            is_last = written + 1 >= limits[source]
            _collect(done[source], [*ended, *open_rows] if is_last else ended, steps, options)
            if (
                is_last
                or not open_rows
                or _settled(done[source], open_rows[0][0], written + 1, limits[source], options)
            ):
                leaving.add(a)
            nowhere = (-math.inf, a * beams, candidates[2][0], -math.inf)  # pads all sources to the same number of rows
            going.append(open_rows + [nowhere] * (min(width, num_candidates) - len(open_rows)))
        if len(leaving) == len(active):
            break
        stay = without(leaving, len(active))
        active = [active[a] for a in stay]
        sources = [source for source in active for _ in going[stay[0]]]
        all_totals, parents, written_tokens, log_probs = map(
            list, zip(*(row for a in stay for row in going[a]), strict=True)
        )
        steps.append(BeamStep(sources, parents, written_tokens, log_probs, all_totals))
        totals = torch.tensor(all_totals, device=prompt.device).view(len(active), -1)
        state = state.select(torch.tensor(parents, device=prompt.device))
        tokens, lengths = torch.tensor(written_tokens, device=prompt.device).unsqueeze(1), None
    return Generated([hypotheses[: options.num_best] for hypotheses in done], steps)


def _stops(options: SearchOptions, source: int, steps: list[BeamStep], parent: int, token: int) -> bool:
    """True if `options.stop` ends a row of the last step after `token`, which is not the end token."""
    return options.stop is not None and options.stop(source, [*_trace_back(steps, parent)[0], token])


def _settled(done: list[Hypothesis], open_total: float, written: int, limit: int, options: SearchOptions) -> bool:
    """True if the search of a source ends, after `written` of at most `limit` tokens.

    By default this means that no open row can still enter the result.
    """
    never = options.early_stopping == "never"
    needed = options.num_best if never else options.beam_size
    if len(done) < needed:
        return False
    if options.early_stopping == "full":
        return True
    bound: float = open_total / (limit if never else written) ** options.length_penalty
    return done[needed - 1].score >= bound


def _collect(done: list[Hypothesis], rows: list[_Row], steps: list[BeamStep], options: SearchOptions) -> None:
    """Add rows to the hypotheses of their source, sorted, best first."""
    for total, parent, token, log_prob in rows:
        written, probs = _trace_back(steps, parent)
        probs.append(log_prob)
        ended = token == options.end_token
        score = total / len(probs) ** options.length_penalty
        sequence = written if ended else [*written, token]
        done.append(Hypothesis(tuple(sequence), tuple(probs), score, ended))
    if rows:
        done.sort(key=lambda h: -h.score)


def _trace_back(steps: list[BeamStep], row: int) -> tuple[list[int], list[float]]:
    """All tokens and log-probabilities of a row of the last step."""
    tokens, log_probs = [], []
    for step in reversed(steps):
        tokens.append(step.tokens[row])
        log_probs.append(step.log_probs[row])
        row = step.parents[row]
    return tokens[::-1], log_probs[::-1]
