"""Generation of sequences with any decoder, through its `start` and `step` only."""

from heed.generation.ensemble import Ensemble
from heed.generation.search import (
    BeamStep,
    Generated,
    Hypothesis,
    SamplingOptions,
    SearchOptions,
    Step,
    Writer,
    beam_search,
    generate,
    generate_steps,
    without_gradient,
)

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
