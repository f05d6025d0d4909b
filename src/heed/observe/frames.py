"""What a look at one example holds: its maps, and one frame per step for a reader who steps through it."""

from __future__ import annotations

from dataclasses import dataclass, field

from torch import Tensor

from heed.observe.maps import Axis, Map
from heed.observe.shading import Shading


@dataclass(frozen=True)
class Glance:
    """The attention of one step: `weights` and `scores` `(key,)`, `context` `(d_value,)`, heads one after the other.

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
    """The encoder after it read one source token; or a language model after it read a token of its prompt.

    Attributes:
        states: Per name ("forward", "backward", "layer 0") the hidden state at this token, `(d_hidden,)`.
        gates: Per name ("forward update", ...) the mean of that gate over the units, a number in 0..1.
        glances: Self-attention from this token.
        top: Of a language model the most probable next tokens with their probabilities, best first.
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
        gates: Per name ("forward update", ...) the mean of that gate over the units.
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
    """Everything a look at one example shows; drawing it is `heed.observe.draw_text`, `draw_svg` and `draw_html`.

    Attributes:
        target: The output that was looked at (generated, or given).
        encoder: One frame per source token.
        decoder: One frame per output token.
        notes: Lines a reader needs: score of the output, policies, self-checks.
        summary: For a model without attention to the source, the one vector `(d,)` that holds all of it; else None.
        shadings: The text with a number for each word: where a model looked, what a word adds, how sure each tag is.
        names: Names of source and target for a reader; "" where there is no target.
        parts: Names of the two kinds of steps, and what each does with its token.
        no_steps: Why there are no steps, where there are none.
        unit: What a step reads where it says nothing of a next token.
        hint: What the steps are, where that is not said of every look alike.
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
