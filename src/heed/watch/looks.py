"""A look at one example as data: maps, shaded words, one frame per step; and which attention it shows.

A Transformer has one attention per layer, head and mechanism; `Choice` selects those that a look shows.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Any, Literal

import torch
from torch import Tensor
from torch.nn.functional import pad

from heed.errors import ConfigError
from heed.visible import visible
from heed.watch.effects import Answer, Effect
from heed.watch.maps import (
    FIXED_VECTOR,
    MERGED,
    Axis,
    Map,
    Part,
    WithEffect,
    common_units,
    cut,
    difference_of,
    merge_subwords,
    text_of,
)
from heed.watch.remarks import Hint, counted_rows


@dataclass(frozen=True)
class TagSpan:
    """Positions `start` to `stop` (exclusive) of one tagged span; `color` is the index of its type."""

    start: int
    stop: int
    label: str
    color: int


@dataclass(frozen=True)
class Shading(WithEffect):
    """One number per position of a text: weights and probabilities in 0..1, contributions, or surprisal in bits.

    If the axis has parts, each is drawn on separate lines that start with the sum of its numbers and its name. If it is
    `nested`, a number is the weight of a part (a sentence) times that of a word in it; then parts have bars, and a word
    is shaded by the root of its number, so that words of parts with little weight can be told apart.

    Source of `nested`: Yang et al. 2016, section 3.4.
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
    nested: bool = False  # True if numbers are products of two weights, as above
    row: Map | None = field(
        default=None, compare=False, repr=False
    )  # the map of one row that it shows, if it shows one
    effect: Effect | None = None  # of other weights on the output; None if it was not computed
    panel: str = field(default="words", compare=False)  # its name for `--panels`

    def part_sum(self, part: Part) -> float:
        """The sum of the numbers of a part; for shares of one whole, the share of the part."""
        return sum(self.weights[part.start : part.stop])

    def __post_init__(self) -> None:
        assert len(self.weights) == len(self.axis) and len(self.tags) in (0, len(self.axis))
        assert self.signed or not any(weight < 0 for weight in self.weights), "a ramp from 0 cannot show these numbers"

    def level(self, i: int) -> float:
        """Darkness of position `i`, 0 to 1; negative for numbers below 0."""
        level = min(1.0, max(-1.0, self.weights[i] / self.darkest)) if self.darkest > 0 else 0.0
        return math.copysign(math.sqrt(abs(level)), level) if self.nested else level

    @property
    def scale(self) -> str:
        """Description of the range of the shades."""
        by = " by the square root" if self.nested else ""
        return f"shaded{by} from {-self.darkest if self.signed else 0:.3g} to {self.darkest:.3g}"

    @property
    def scale_with_colors(self) -> str:
        """The range, and the colour of numbers below 0."""
        return self.scale + ("; orange below 0" if self.signed else "")

    def number(self, i: int) -> str:
        """The number of a position as text, with its sign if numbers may be below 0."""
        number = round(self.weights[i], 3)
        return f"{number:+.3f}" if self.signed and number else f"{abs(number):.3f}"


def darkest_share(weights: Sequence[float]) -> float:
    """The share of a whole that is drawn darkest: four times an even one, or the largest, so even ones are pale."""
    return min(1.0, max(4.0 / max(1, len(weights)), *weights, 0.0))


@dataclass(frozen=True)
class AttentionStep:
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
    attention: tuple[AttentionStep, ...] = ()  # self-attention from this token
    # for language models, the most probable next tokens with their probabilities, best first
    top: tuple[tuple[str, float], ...] = ()


@dataclass(frozen=True)
class DecoderFrame:
    """The decoder at one output token."""

    index: int
    so_far: tuple[str, ...]  # the tokens written before this one
    token: str
    state: Tensor  # the decoder's state after this step, `(d_hidden,)`
    attention: tuple[AttentionStep, ...]  # each attention at this step, in the order of the maps
    top: tuple[tuple[str, float], ...]  # the most probable tokens with their probabilities, best first
    # mean of each gate over the units, by name ("forward update", ...)
    gates: dict[str, float] = field(default_factory=dict)


@dataclass(frozen=True)
class Comparison:
    """The map of another network for the same input and output, and the difference of the run's map from it."""

    first: int  # the number of the run's map in `maps`
    map: Map
    difference: Map | None = None  # the run's map minus this one; None if their axes differ


@dataclass(frozen=True)
class Look:
    """Everything that a look at one example shows; drawn by `heed.show.shown`, `draw_svg` and `draw_html`."""

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
    second: str = ""  # the second text, of a pair of texts
    no_steps: str = ""  # why there are no steps, if there are none
    unedited: str | None = None  # of an edited look, the output without the edits; None for other looks
    unit: str = "word"  # the unit that one step reads, for steps without next tokens
    hint: str = ""  # explanation of the steps, in place of the default one
    beside: tuple[Comparison, ...] = ()  # maps of another network, or of the same without the edits
    # the generated output with its tokens, for another look at it; None if there is none, or it was given
    output: Any = field(default=None, compare=False, repr=False)
    # a pass that recomputes the output, for other weights; None where no output is recomputed
    answer: Answer | None = field(default=None, compare=False, repr=False)

    @property
    def texts(self) -> list[tuple[str, str]]:
        """The source (both texts of a pair) and, last, the output, each with its name."""
        second = [("second", self.second)] * bool(self.second)
        return [(self.names[0], self.source), *second, (self.names[1], self.target)]

    @property
    def attention(self) -> list[Map]:
        """The attention of the output to the source, where there is any; else all attention that is shown."""
        maps = [map for map in (*self.maps, *rows_of(self)) if map.is_distribution]
        return [map for map in maps if map.mechanism in ("cross", "words", "turns")] or maps

    @property
    def together(self) -> list[list[Map]]:
        """Each map with that of the other network and the difference."""
        rows: list[list[Map]] = [[map] for map in self.maps]
        for other in self.beside:
            rows[other.first] += [other.map, *([] if other.difference is None else [other.difference])]
        return rows

    @property
    def drawn(self) -> list[Map]:
        """All maps in drawing order."""
        return [map for maps in self.together for map in maps]

    @property
    def differences(self) -> list[Map]:
        """The maps minus those of the other network, or minus those without the edits."""
        return [other.difference for other in self.beside if other.difference is not None]


_UNITS = 32


def vector_map(vector: Tensor) -> Map:
    """The vector `(d,)` that encodes the source of a model without attention to it, in rows of 32 units."""
    values = vector.detach().double().flatten()
    count = -(-len(values) // _UNITS)
    grid = pad(values, (0, count * _UNITS - len(values))).view(count, _UNITS)
    there = torch.arange(grid.numel(), device=grid.device).view(count, _UNITS) < len(values)
    rows = Axis(f"the first of {_UNITS} units", "unit", tuple(f"{_UNITS * n}+" for n in range(count)))
    columns = Axis("the following units", "unit", tuple(map(str, range(_UNITS))))
    vmax = float(values.abs().max()) if values.any() else 1.0
    parts = "source", 0, None, rows, columns, grid, None, there, FIXED_VECTOR
    return Map(*parts, name="the fixed vector", unit="state", signed=True, vmax=vmax)


@dataclass(frozen=True)
class Steps:
    """The steps of a look."""

    look: Look


_UNKNOWN = "?"
"""First character of a word that was never seen in training."""
_MOST_PROBABLE = "Most probable token at each step, with the edits and without, after the same tokens"


WITHOUT_EDITS = "the model without the edits"


def compare_looks(look: Look, other: Look, name: str, untrained: bool = False, differences: bool = True) -> Look:
    """A look with the maps of another network at the same input and output, their differences, and notes.

    Maps are matched by mechanism, layer and head, the others of a mechanism by position. Those of different tokens are
    subtracted on the words that both are made of. Attention that a look shows as a shading becomes a map of one row.
    Beside the same network without edits, shadings stay, and steps are compared by their most probable tokens.

    Args:
        look: The look of the run.
        other: The look of the other network.
        name: The name of the other network, or `WITHOUT_EDITS`.
        untrained: The other network is the untrained one, so the distance belongs to the run's map.
        differences: Whether the differences are drawn.
    """
    edited = name == WITHOUT_EDITS
    maps = [*look.maps, *([] if look.beside or edited else (replace(map, weight_source=None) for map in rows_of(look)))]
    others = [*other.maps, *([] if edited else rows_of(other))]
    pairs, notes = _matched(maps, others, name)
    comparisons = []
    for i, j in sorted(pairs.items()):
        map, matched = maps[i], others[j]
        pair = _on_common_units(map, replace(matched, query=map.query) if _alike(map.query, matched.query) else matched)
        difference = None if isinstance(pair, str) else _difference(*pair, name)
        if isinstance(pair, str):
            notes.append(f"{map.title}: nothing is subtracted: {pair}")
        elif untrained and difference is not None:
            maps[i] = replace(map, untrained=difference.distance)
        comparisons.append(Comparison(i, replace(matched, of=name), difference if differences else None))
    shadings = (*look.shadings, *(_steps_compared(look, other) if edited else ()))
    comparisons, notes = [*look.beside, *comparisons], [*look.notes, *notes]
    return replace(look, maps=tuple(maps), beside=tuple(comparisons), notes=tuple(notes), shadings=shadings)


def _steps_compared(look: Look, plain: Look) -> list[Shading]:
    """The most probable tokens of each step with the edits and without, after the same tokens."""
    steps = list(zip(look.decoder, plain.decoder, strict=False))
    if not steps or not all(a.top and b.top and a.so_far == b.so_far for a, b in steps):
        return []
    first = [a.top[0] for a, _ in steps]
    others = tuple(f"{_listed(a.top)}; without: {_listed(b.top)}" for a, b in steps)
    axis = Axis("step", "token", tuple(token for token, _ in first))
    probabilities = tuple(probability for _, probability in first)
    return [Shading(_MOST_PROBABLE, axis, probabilities, others=others, listed=True)]


def _alike(axis: Axis, other: Axis) -> bool:
    """True if two axes differ at most in the source words that each network shows for unknown words of the output."""
    pairs = zip(axis.labels, other.labels, strict=False)
    same = all(a == b or (a[:1] == b[:1] == _UNKNOWN) for a, b in pairs)
    return same and len(axis.labels) == len(other.labels) and axis.kind == other.kind


def rows_of(look: Look) -> list[Map]:
    """The attention that a look shows as shadings, as maps of one row."""
    return [shading.row for shading in look.shadings if shading.row is not None]


def _matched(run_maps: Sequence[Map], others: Sequence[Map], name: str) -> tuple[dict[int, int], list[str]]:
    """The index of the other map for the index of each map of the run, and notes on maps that do not match by name."""
    kinds = [[(type(map), map.mechanism, map.name) for map in maps] for maps in (run_maps, others)]
    places = {(kind, map.layer, map.head): j for j, (kind, map) in enumerate(zip(kinds[1], others, strict=True))}
    named = [(kind, map.layer, map.head) for kind, map in zip(kinds[0], run_maps, strict=True)]
    matches = {i: places[key] for i, key in enumerate(named) if key in places}
    notes = []
    for kind in dict.fromkeys(kinds[0]):
        unmatched = (i for i, other in enumerate(kinds[0]) if other == kind and i not in matches)
        candidates = (j for j, other in enumerate(kinds[1]) if other == kind and j not in {*matches.values()})
        for i, j in [*zip(unmatched, candidates, strict=False)]:
            matches[i] = j
            notes.append(f"matched by position: {run_maps[i].title}, and {others[j].title} of {name}")
    notes += [f"{map.title}: {name} has no such map" for i, map in enumerate(run_maps) if i not in matches]
    return matches, notes + [
        f"{map.title}: only {name} has it" for j, map in enumerate(others) if j not in matches.values()
    ]


def _on_common_units(map: Map, other: Map) -> tuple[Map, Map] | str:
    """Two maps on their common units of text, or why there are none."""
    axes, units = [], []
    for name, (a, b) in {"rows": (map.query, other.query), "columns": (map.key, other.key)}.items():
        if (ranges := common_units(a, b)) is None:
            texts = (repr(visible(cut(text_of(axis, 0, len(axis)), 40))) for axis in (a, b))
            return f"the {name} are different texts, {' and '.join(texts)}"
        labels = []
        for i, j in zip(*ranges, strict=True):
            whole = next((axis.labels[at.start] for axis, at in ((a, i), (b, j)) if len(at) == 1), None)
            labels.append(whole or "".join(a.labels[i.start : i.stop]).strip())
        axes.append(Axis(a.name, "word", tuple(labels)))
        units.append(ranges)
    maps = []
    for number, drawn in enumerate((map, other)):
        rows, columns = units[0][number], units[1][number]
        same = (len(rows), len(columns)) == (len(drawn.query), len(drawn.key))
        maps.append(drawn if same else merge_subwords(drawn, axes[0], rows, axes[1], columns))
    return maps[0], maps[1]


def _difference(map: Map, other: Map, name: str) -> Map:
    """The weights of a map minus those of another network's, with the agreement and the distance of their rows."""
    caption = f"{map.unit.capitalize()} minus that of {name}, for the same input and output."
    caption += f" {MERGED}" if MERGED in f"{map.caption}{other.caption}" else ""
    rows = counted_rows(map) & counted_rows(other)
    agreement = distance = None
    if map.is_distribution and bool(rows.any()):
        a, b = (drawn.weights.detach().double()[rows] for drawn in (map, other))
        agreement = float((a.argmax(-1) == b.argmax(-1)).double().mean())
        distance = float((a - b).abs().sum(-1).mean()) / 2
        caption += (
            f" Agreement: {agreement:.2f} of the rows have their largest weight on the same key. Distance: "
            f"{distance:.2f}, the mean total variation of the rows."
        )
    title = f"{map.title}: minus that of {name}"
    return difference_of(map, other, title, caption, agreement=agreement, distance=distance)


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

    def step(self, position: int) -> AttentionStep:
        """This attention at one query position."""
        scores, mask = self.map.scores, self._mask
        return AttentionStep(
            self.map.title,
            self.map.mechanism,
            self.map.key,
            self.map.weights[position],
            None if scores is None else scores[position],
            None if mask is None else mask[position],
            self.context[position],
        )


ROLLOUT = "rollout"
"""Mechanism of the maps of attention rolled out over the layers of an encoder."""


@dataclass(frozen=True)
class Choice:
    """Selection of attention to show: mechanism (None for all), layer (negative counts from the last) and head.

    With `rollout`, the attention of an encoder from its first layer up to that one, rolled out.
    """

    mechanism: str | None = None
    layer: int | Literal["all"] = -1
    head: int | Literal["mean", "all"] = "mean"
    rollout: bool = False

    def __post_init__(self) -> None:
        for name, words in (("layer", ("all",)), ("head", ("mean", "all"))):
            value = getattr(self, name)
            if value not in words and (not isinstance(value, int) or isinstance(value, bool)):
                raise ConfigError(f"{name} is {value!r}; give a whole number, {' or '.join(map(repr, words))}")

    def check(self, seen: Sequence[tuple[str, int]]) -> None:
        """Check that the chosen mechanism and layer are among those seen.

        Raises:
            ConfigError: They are not, or the model has no attention; the message lists what was seen.
        """
        names = list(dict.fromkeys(name for name, _ in seen))
        if self.rollout and "encoder" not in names:
            has = f"{' and '.join(names)} attention" if names else "no attention"
            causal = ", under whose causal mask the first tokens would gain weight at every layer, whatever was learned"
            other = "; where words also mix through recurrent states, shares cannot be followed" if names else ""
            raise ConfigError(
                "no rollout: it follows self-attention through the blocks of an encoder (Abnar and Zuidema 2020), but "
                f"this model has {has}{causal if 'decoder' in names else other}"
            )
        if self.rollout and isinstance(self.head, int):
            raise ConfigError(f"rollout takes the mean of the heads of each layer; leave out --head {self.head}")
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
        mechanism = "encoder" if self.rollout else self.mechanism
        meant = [(name, number) for name, number in seen if mechanism in (None, name)]
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
        if self.rollout or all(view.num_heads == 1 and view.map.layer == 0 for view in views):
            return ""
        layers = {"all": "all layers", -1: "the last layer"}.get(self.layer, f"layer {self.layer}")
        heads = f"head {self.head}"
        if isinstance(self.head, str):
            count = max(view.num_heads for view in views)
            heads = f"the mean of {count} heads" if self.head == "mean" else "each head"
        return Hint(f"shown: {layers}, {heads}", "layer", "head", "mechanism")
