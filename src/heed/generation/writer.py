"""What else than a torch model can write outputs."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol

from heed.generation.options import Hypothesis, SearchOptions


class Writer(Protocol):
    """Another program that runs a trained model."""

    name: str
    """What a user calls it."""

    def write(self, sources: Sequence[list[int]], options: SearchOptions) -> list[list[Hypothesis]]:
        """The `num_best` hypotheses of each source, best first; one largest length for all sources.

        Raises:
            ConfigError: An option cannot be honoured, or a source is too long.
        """
