"""Writing sequences, over the start/step contract of decoders only."""

from __future__ import annotations

from contextlib import AbstractContextManager

import torch
from torch import Tensor

from heed.attention import watch
from heed.generation.beam import beam_search
from heed.generation.ensemble import Ensemble
from heed.generation.greedy import greedy_search
from heed.generation.options import BeamStep, Generated, Hypothesis, SearchOptions
from heed.generation.sampling import SamplingOptions, sample
from heed.generation.writer import Writer
from heed.models.base import DecoderBody, Memory

__all__ = [
    "BeamStep",
    "Ensemble",
    "Generated",
    "Hypothesis",
    "SamplingOptions",
    "SearchOptions",
    "Writer",
    "beam_search",
    "generate",
    "greedy_search",
    "sample",
    "without_gradient",
]


def without_gradient() -> AbstractContextManager[object]:
    """Where outputs are written: nothing is differentiated; where nobody watches nothing ever can be, which is faster.

    What a watcher keeps must stay tensors that he can do anything with.
    """
    return torch.inference_mode() if watch.slot is None else torch.no_grad()


def generate(
    model: DecoderBody,
    memory: Memory | None,
    prompt: Tensor,
    options: SearchOptions,
    prompt_lengths: Tensor | None = None,
    sampling: SamplingOptions | None = None,
) -> Generated:
    """Write with a beam, greedily where its size is 1, or by sampling where that is asked for; as `beam_search`."""
    with without_gradient():
        if sampling is not None:
            return sample(model, memory, prompt, options, sampling, prompt_lengths)
        search = greedy_search if options.beam_size == 1 else beam_search
        return search(model, memory, prompt, options, prompt_lengths)
