"""Words on a ground as dark as their number: where a model looked, what words contribute, how surprising tokens are."""

from __future__ import annotations

from dataclasses import dataclass

from heed.observe.maps import Axis, Part


@dataclass(frozen=True)
class TagSpan:
    """Positions `start` to `stop` (exclusive) that are one thing of some type; `color` numbers the type."""

    start: int
    stop: int
    label: str
    color: int


@dataclass(frozen=True)
class Shading:
    """One number per position of a text: weights and probabilities in 0..1, contributions, or surprisal in bits.

    Where the axis has parts, each stands in lines of its own, behind the sum of its numbers and its name.

    Attributes:
        darkest: The size that is drawn darkest; 1, or the largest where the numbers of a long text are all small.
        tags: A second text for each position, or nothing.
        others: Further text for each position (the next best tags), or nothing.
        spans: Of tagged texts what is found in them, in order: drawn in colours by type, the numbers beside it.
        signed: Numbers may be below 0, drawn in another colour.
        listed: Drawn as a table with a line for each position, not as running text.
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
        """The sum of the numbers of a part: of shares of one whole, the share of the part."""
        return sum(self.weights[part.start : part.stop])

    def __post_init__(self) -> None:
        assert len(self.weights) == len(self.axis) and len(self.tags) in (0, len(self.axis))

    def level(self, i: int) -> float:
        """How dark position `i` is, 0 to 1; below 0 for numbers below 0."""
        return min(1.0, max(-1.0, self.weights[i] / self.darkest)) if self.darkest > 0 else 0.0

    @property
    def scale(self) -> str:
        """What the shades mean."""
        return f"shaded from {-self.darkest if self.signed else 0:.3g} to {self.darkest:.3g}"
