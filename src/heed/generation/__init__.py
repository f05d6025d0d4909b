"""Generation of sequences with any decoder, through its `start` and `step` only."""

from __future__ import annotations

from collections.abc import Generator

from torch import Tensor

from heed.generation.beam import beam_search
from heed.generation.ensemble import Ensemble
from heed.generation.greedy import greedy_search, greedy_steps
from heed.generation.next_token import without_gradient
from heed.generation.options import BeamStep, Generated, Hypothesis, SearchOptions
from heed.generation.sampling import SamplingOptions, sample, sample_steps
from heed.generation.stepwise import Step
from heed.generation.writer import Writer
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
    "greedy_search",
    "sample",
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

    Arguments and result as for `beam_search`.
    """
    with without_gradient():
        if sampling is not None:
            return sample(model, memory, prompt, options, sampling, prompt_lengths)
        search = greedy_search if options.beam_size == 1 else beam_search
        return search(model, memory, prompt, options, prompt_lengths)


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
    if sampling is not None:
        return sample_steps(model, memory, prompt, options, sampling, prompt_lengths)
    return greedy_steps(model, memory, prompt, options, prompt_lengths)
