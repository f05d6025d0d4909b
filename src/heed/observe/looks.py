"""A look at one example as data: maps, shaded words, one frame per step; and which attention it shows.

A Transformer has one attention per layer, head and mechanism; `Choice` selects those that a look shows.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Literal

from torch import Tensor

from heed.errors import ConfigError
from heed.observe.maps import Axis, Map, Opens, Part, SignedMap
from heed.visible import visible


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
    """

    title: str
    axis: Axis
    weights: tuple[float, ...]
    # the absolute value that is drawn darkest; 1, or the largest one if all those of a long text are small
    darkest: float = 1.0
    tags: tuple[str, ...] = ()  # a second text for each position, or empty
    others: tuple[str, ...] = ()  # further text for each position (the next best tags), or empty
    spans: tuple[TagSpan, ...] = ()  # the spans found in a tagged text, in order, drawn in the colours of their types
    signed: bool = False  # True if numbers may be below 0; those are drawn in another colour
    listed: bool = False  # True to draw a table with a line for each position instead of running text
    # the attention whose only row it shows: its name and axes, and what the weights came from; None for other numbers
    opens: tuple[str, tuple[Axis, Axis], Opens] | None = field(default=None, compare=False, repr=False)

    def part_sum(self, part: Part) -> float:
        """The sum of the numbers of a part; for shares of one whole, the share of the part."""
        return sum(self.weights[part.start : part.stop])

    def __post_init__(self) -> None:
        assert len(self.weights) == len(self.axis) and len(self.tags) in (0, len(self.axis))
        assert self.signed or not any(weight < 0 for weight in self.weights), "a ramp from 0 cannot show these numbers"

    def level(self, i: int) -> float:
        """Darkness of position `i`, 0 to 1; negative for numbers below 0."""
        return min(1.0, max(-1.0, self.weights[i] / self.darkest)) if self.darkest > 0 else 0.0

    @property
    def scale(self) -> str:
        """Description of the range of the shades."""
        return f"shaded from {-self.darkest if self.signed else 0:.3g} to {self.darkest:.3g}"

    @property
    def said_scale(self) -> str:
        """The range, and the colour of numbers below 0."""
        return self.scale + ("; orange below 0" if self.signed else "")

    def number(self, i: int) -> str:
        """The number of a position as text, with its sign if numbers may be below 0."""
        return f"{self.weights[i]:+.3f}" if self.signed else f"{self.weights[i]:.3f}"


@dataclass(frozen=True)
class Glance:
    """The attention of one step: `weights` and `scores` `(key,)`, `context` `(d_value,)` with heads concatenated.

    `scores` is None for a mean over heads; `mask` is `(key,)`, True = may attend, or None.
    """

    name: str
    mechanism: str
    key: Axis
    weights: Tensor
    scores: Tensor | None
    mask: Tensor | None
    context: Tensor


@dataclass(frozen=True)
class EncoderFrame:
    """The encoder after reading one source token, or a language model after reading one token of its prompt."""

    index: int
    token: str
    states: dict[str, Tensor]  # hidden states at this token, `(d_hidden,)`, by name ("forward", "backward", "layer 0")
    gates: dict[str, float]  # mean of each gate over the units, in 0..1, by name ("forward update", ...)
    glances: tuple[Glance, ...] = ()  # self-attention from this token
    # for language models, the most probable next tokens with their probabilities, best first
    top: tuple[tuple[str, float], ...] = ()


@dataclass(frozen=True)
class DecoderFrame:
    """The decoder at one output token."""

    index: int
    so_far: tuple[str, ...]  # the tokens written before this one
    token: str
    state: Tensor  # the decoder's state after this step, `(d_hidden,)`
    glances: tuple[Glance, ...]  # each attention at this step, in the order of the maps
    top: tuple[tuple[str, float], ...]  # the most probable tokens with their probabilities, best first
    # mean of each gate over the units, by name ("forward update", ...)
    gates: dict[str, float] = field(default_factory=dict)


@dataclass(frozen=True)
class Look:
    """Everything that a look at one example shows; drawn by `heed.observe.shown`, `draw_svg` and `draw_html`."""

    title: str
    source: str
    target: str  # the output, generated or given
    maps: tuple[Map, ...]
    encoder: tuple[EncoderFrame, ...]  # one frame per source token
    decoder: tuple[DecoderFrame, ...]  # one frame per output token
    notes: tuple[str, ...] = ()  # further lines to show: score of the output, policies, self-checks
    # for a model without attention to the source, the vector `(d,)` that encodes all of it; else None
    summary: Tensor | None = None
    # the text with a number for each word: attention, contribution of the word, confidence of its tag
    shadings: tuple[Shading, ...] = ()
    names: tuple[str, str] = ("source", "target")  # names of source and target as shown; "" if there is no target
    # names of the two kinds of steps, each with the verb for what it does to its token
    parts: tuple[tuple[str, str], tuple[str, str]] = (("encoder", "reads"), ("decoder", "writes"))
    no_steps: str = ""  # why there are no steps, if there are none
    differences: tuple[SignedMap, ...] = ()  # of an edited look: its maps minus those without the edits
    unit: str = "word"  # what one step reads, for steps without next tokens
    hint: str = ""  # explanation of the steps, in place of the default one


_MOST_PROBABLE = "Most probable token at each step, with the edits and without, after the same tokens"


def compared(look: Look, plain: Look) -> Look:
    """An edited look with its differences from a look without the edits at the same input and output.

    Maps are subtracted where their axes agree; steps are compared by their most probable tokens.
    """
    before = {(one.mechanism, one.layer, one.head): one for one in plain.maps}
    pairs = [(one, before.get((one.mechanism, one.layer, one.head))) for one in look.maps]
    differences = tuple(
        SignedMap.between(one, other)
        for one, other in pairs
        if other is not None and (one.query, one.key) == (other.query, other.key)
    )
    shadings = look.shadings
    steps = list(zip(look.decoder, plain.decoder, strict=False))
    if steps and all(a.top and b.top and a.so_far == b.so_far for a, b in steps):
        first = [a.top[0] for a, _ in steps]
        others = tuple(f"{_listed(a.top)}; without: {_listed(b.top)}" for a, b in steps)
        axis = Axis("step", "token", tuple(token for token, _ in first))
        shares = tuple(probability for _, probability in first)
        shadings = (*shadings, Shading(_MOST_PROBABLE, axis, shares, others=others, listed=True))
    return replace(look, shadings=shadings, differences=differences)


def _listed(top: tuple[tuple[str, float], ...]) -> str:
    return ", ".join(f"{visible(token)} {probability:.3f}" for token, probability in top)


# Which attention to show ----------------------------------------------------------------------------------------


@dataclass(frozen=True)
class View:
    """A map to show, with its contexts `(query, d_value)` (heads concatenated) and the number of heads."""

    map: Map
    context: Tensor
    num_heads: int

    @cached_property
    def _mask(self) -> Tensor | None:
        """The mask of the map; None if it masks nothing."""
        return self.map.mask if self.map.has_masked else None

    def glance(self, position: int) -> Glance:
        """This attention at one query position."""
        scores, mask = self.map.scores, self._mask
        return Glance(
            self.map.title,
            self.map.mechanism,
            self.map.key,
            self.map.weights[position],
            None if scores is None else scores[position],
            None if mask is None else mask[position],
            self.context[position],
        )


@dataclass(frozen=True)
class Choice:
    """Selection of attention to show: mechanism (None for all), layer (negative counts from the last) and head."""

    mechanism: str | None = None
    layer: int | Literal["all"] = -1
    head: int | Literal["mean", "all"] = "mean"

    def __post_init__(self) -> None:
        for name, words in (("layer", ("all",)), ("head", ("mean", "all"))):
            given = getattr(self, name)
            if given not in words and (not isinstance(given, int) or isinstance(given, bool)):
                raise ConfigError(f"{name} is {given!r}; give a whole number, {' or '.join(map(repr, words))}")

    def check(self, seen: Sequence[tuple[str, int]]) -> None:
        """Check that the chosen mechanism and layer are among those seen.

        Raises:
            ConfigError: They are not, or the model has no attention; the message lists what was seen.
        """
        names = list(dict.fromkeys(name for name, _ in seen))
        if self.mechanism is not None and self.mechanism not in names:
            has = f"this model has {', '.join(names)} attention" if names else "this model has no attention"
            raise ConfigError(f"no '{self.mechanism}' attention: {has}")
        if not seen and (self.layer not in (-1, "all") or isinstance(self.head, int)):
            raise ConfigError("this model has no attention, so --layer and --head do not apply")
        if seen and self.layer != "all" and not any(self._numbers(seen, name) for name in names):
            numbers = {name: sum(n == name for n, _ in seen) for name in names}
            counts = ", ".join(f"{n} layer{'s' if n != 1 else ''} of {name} attention" for name, n in numbers.items())
            raise ConfigError(f"no layer {self.layer}: this model has {counts}, counted from 0")

    def layers(self, seen: Sequence[tuple[str, int]]) -> list[tuple[str, int]]:
        """The chosen (mechanism, layer) pairs, in the order seen."""
        meant = [(name, number) for name, number in seen if self.mechanism in (None, name)]
        return [(name, number) for name, number in meant if number in self._numbers(seen, name)]

    def _numbers(self, seen: Sequence[tuple[str, int]], name: str) -> list[int]:
        """The chosen layers of one mechanism."""
        layers = sorted(number for other, number in seen if other == name)
        if self.layer == "all":
            return layers
        if -len(layers) <= self.layer < 0:
            return [layers[self.layer]]
        return [self.layer] if self.layer in layers else []

    def heads(self, num_heads: int) -> list[int | None]:
        """The chosen heads; None is the mean of all.

        Raises:
            ConfigError: There is no such head.
        """
        if self.head == "all" or (num_heads == 1 and self.head == "mean"):
            return list(range(num_heads))
        if self.head == "mean":
            return [None]
        if not 0 <= self.head < num_heads:
            are = "is 1 head" if num_heads == 1 else f"are {num_heads} heads"
            raise ConfigError(f"no head {self.head}: there {are}, counted from 0")
        return [self.head]

    def hidden(self, views: Sequence[View]) -> str:
        """A note of the layers and heads shown; empty for a model with one layer and one head."""
        if all(view.num_heads == 1 and view.map.layer == 0 for view in views):
            return ""
        layers = {"all": "all layers", -1: "the last layer"}.get(self.layer, f"layer {self.layer}")
        heads = f"head {self.head}"
        if isinstance(self.head, str):
            count = max(view.num_heads for view in views)
            heads = f"the mean of {count} heads" if self.head == "mean" else "each head"
        return f"shown: {layers}, {heads}; change with --layer, --head and --mechanism"
