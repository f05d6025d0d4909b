"""Generation of sequences with any decoder, through its `start` and `step` only."""

from __future__ import annotations

from torch import Tensor

from heed.generation.beam import beam_search
from heed.generation.ensemble import Ensemble
from heed.generation.next_token import without_gradient
from heed.generation.options import BeamStep, Generated, Hypothesis, SearchOptions, Writer
from heed.generation.stepwise import SamplingOptions, Step, generate_steps, to_the_end
from heed.models.base import DecoderBody, Memory

__all__ = [
    "BeamStep",
    "Ensemble",
    "Generated",
    "Hypothesis",
    "SamplingOptions",
    "SearchOptions",
    "Step",
    "Writer",
    "beam_search",
    "generate",
    "generate_steps",
    "without_gradient",
]


def generate(
    model: DecoderBody,
    memory: Memory | None,
    prompt: Tensor,
    options: SearchOptions,
    prompt_lengths: Tensor | None = None,
    sampling: SamplingOptions | None = None,
) -> Generated:
    """Generate by sampling if `sampling` is given, else by beam search, or greedily if `beam_size` is 1.

    Arguments as for `beam_search`.

    Returns:
        Up to `num_best` hypotheses per source, best first; sampled ones are drawn independently and ordered by
        log-probability (before temperature, top-k and top-p).
    """
    with without_gradient():
        if sampling is None and options.beam_size > 1:
            return beam_search(model, memory, prompt, options, prompt_lengths)
        return to_the_end(generate_steps(model, memory, prompt, options, prompt_lengths, sampling))
