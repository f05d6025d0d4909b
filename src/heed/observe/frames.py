"""A look at one example as data: its maps, and one frame per step."""

from __future__ import annotations

from dataclasses import dataclass, field

from torch import Tensor

from heed.observe.maps import Axis, Map
from heed.observe.shading import Shading


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
    """The encoder after reading one source token, or a language model after reading one token of its prompt.

    Attributes:
        states: Hidden states at this token, `(d_hidden,)`, by name ("forward", "backward", "layer 0").
        gates: Mean of each gate over the units, in 0..1, by name ("forward update", ...).
        glances: Self-attention from this token.
        top: For language models, the most probable next tokens with their probabilities, best first.
    """

    index: int
    token: str
    states: dict[str, Tensor]
    gates: dict[str, float]
    glances: tuple[Glance, ...] = ()
    top: tuple[tuple[str, float], ...] = ()


@dataclass(frozen=True)
class DecoderFrame:
    """The decoder at one output token.

    Attributes:
        so_far: The tokens written before this one.
        state: The decoder's state after this step, `(d_hidden,)`.
        glances: Each attention at this step, in the order of the maps.
        top: The most probable tokens with their probabilities, best first.
        gates: Mean of each gate over the units, by name ("forward update", ...).
    """

    index: int
    so_far: tuple[str, ...]
    token: str
    state: Tensor
    glances: tuple[Glance, ...]
    top: tuple[tuple[str, float], ...]
    gates: dict[str, float] = field(default_factory=dict)


@dataclass(frozen=True)
class Look:
    """Everything that a look at one example shows; drawn by `heed.observe.draw_text`, `draw_svg` and `draw_html`.

    Attributes:
        target: The output, generated or given.
        encoder: One frame per source token.
        decoder: One frame per output token.
        notes: Further lines to show: score of the output, policies, self-checks.
        summary: For a model without attention to the source, the vector `(d,)` that encodes all of it; else None.
        shadings: The text with a number for each word: attention, contribution of the word, confidence of its tag.
        names: Names of source and target as shown; "" if there is no target.
        parts: Names of the two kinds of steps, each with the verb for what it does to its token.
        no_steps: Why there are no steps, if there are none.
        unit: What one step reads, for steps without next tokens.
        hint: Explanation of the steps, in place of the default one.
    """

    title: str
    source: str
    target: str
    maps: tuple[Map, ...]
    encoder: tuple[EncoderFrame, ...]
    decoder: tuple[DecoderFrame, ...]
    notes: tuple[str, ...] = ()
    summary: Tensor | None = None
    shadings: tuple[Shading, ...] = ()
    names: tuple[str, str] = ("source", "target")
    parts: tuple[tuple[str, str], tuple[str, str]] = (("encoder", "reads"), ("decoder", "writes"))
    no_steps: str = ""
    unit: str = "word"
    hint: str = ""
