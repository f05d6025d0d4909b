"""Generation of sequences with any decoder, through its `start` and `step` only."""

from heed.generation.ensemble import Ensemble
from heed.generation.search import (
    BeamStep,
    Candidate,
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
    "Candidate",
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
