"""Words on a ground as dark as their number: what a label rests on, how sure a tag is, how surprising a token."""

from __future__ import annotations

from dataclasses import dataclass

from heed.observe.maps import Axis


@dataclass(frozen=True)
class Shading:
    """One number per position of a text: weights and probabilities in 0..1, or surprisal in bits.

    Attributes:
        darkest: The number that is drawn darkest; 1, or the largest where the weights of a long text are all small.
        tags: A second text under each position, or nothing.
        others: Further text for each position (the next best tags), or nothing.
    """

    title: str
    axis: Axis
    weights: tuple[float, ...]
    darkest: float = 1.0
    tags: tuple[str, ...] = ()
    others: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        assert len(self.weights) == len(self.axis) and len(self.tags) in (0, len(self.axis))

    def level(self, i: int) -> float:
        """How dark position `i` is, 0 to 1."""
        return min(1.0, self.weights[i] / self.darkest) if self.darkest > 0 else 0.0

    @property
    def scale(self) -> str:
        """What the shades mean."""
        return f"shaded from 0 to {self.darkest:.3g}"
