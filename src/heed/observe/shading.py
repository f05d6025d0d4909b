"""Words shaded by a number: attention weights, contributions of words, or surprisal of tokens."""

from __future__ import annotations

from dataclasses import dataclass

from heed.observe.maps import Axis, Part


@dataclass(frozen=True)
class TagSpan:
    """Positions `start` to `stop` (exclusive) of one tagged span; `color` is the index of its type."""

    start: int
    stop: int
    label: str
    color: int


@dataclass(frozen=True)
class Shading:
    """One number per position of a text: weights and probabilities in 0..1, contributions, or surprisal in bits.

    If the axis has parts, each is drawn on separate lines that start with the sum of its numbers and its name.

    Attributes:
        darkest: The absolute value that is drawn darkest; 1, or the largest one if all those of a long text are small.
        tags: A second text for each position, or empty.
        others: Further text for each position (the next best tags), or empty.
        spans: The spans found in a tagged text, in order, drawn in the colours of their types.
        signed: True if numbers may be below 0; those are drawn in another colour.
        listed: True to draw a table with a line for each position instead of running text.
    """

    title: str
    axis: Axis
    weights: tuple[float, ...]
    darkest: float = 1.0
    tags: tuple[str, ...] = ()
    others: tuple[str, ...] = ()
    spans: tuple[TagSpan, ...] = ()
    signed: bool = False
    listed: bool = False

    def part_sum(self, part: Part) -> float:
        """The sum of the numbers of a part; for shares of one whole, the share of the part."""
        return sum(self.weights[part.start : part.stop])

    def __post_init__(self) -> None:
        assert len(self.weights) == len(self.axis) and len(self.tags) in (0, len(self.axis))

    def level(self, i: int) -> float:
        """Darkness of position `i`, 0 to 1; negative for numbers below 0."""
        return min(1.0, max(-1.0, self.weights[i] / self.darkest)) if self.darkest > 0 else 0.0

    @property
    def scale(self) -> str:
        """Description of the range of the shades."""
        return f"shaded from {-self.darkest if self.signed else 0:.3g} to {self.darkest:.3g}"
