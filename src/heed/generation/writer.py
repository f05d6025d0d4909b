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
        """Search for the best outputs.

        Args:
            sources: Tokens of each, in any order and number.
            options: How to write; one largest length for all.

        Returns:
            `num_best` hypotheses per source, best first.

        Raises:
            ConfigError: An option cannot be honoured, or a source is too long.
        """
        ...
