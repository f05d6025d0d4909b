"""Interface of other programs that generate outputs in place of a torch model."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol

from heed.generation.options import Hypothesis, SearchOptions


class Writer(Protocol):
    """Another program that runs a trained model."""

    name: str
    """Name of the engine, for users."""

    def write(self, sources: Sequence[list[int]], options: SearchOptions) -> list[list[Hypothesis]]:
        """The `num_best` hypotheses of each source, best first; all sources have the same maximum length.

        Raises:
            ConfigError: An option is not supported, or a source is too long.
        """
