"""What a look at one example holds: its maps, and one frame per step for a reader who steps through it."""

from __future__ import annotations

from dataclasses import dataclass

from torch import Tensor

from heed.observe.maps import Axis, Map
from heed.observe.shading import Shading


@dataclass(frozen=True)
class Glance:
    """Where one attention looked at one step.

    Attributes:
        name: Which attention: mechanism, layer and head.
        mechanism: "cross", "encoder", "decoder".
        key: What it could look at, token by token.
        weights: `(key,)`.
        scores: `(key,)` before the softmax, or None for a mean over heads.
        mask: `(key,)`, True = may attend, or None where everything may.
        context: `(d_value,)`, what it brought back; of several heads one after the other.
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
    """The encoder after it read one source token.

    Attributes:
        index: Position of the token, from 0.
        token: Its text.
        states: Per name ("forward", "backward", "layer 0") the hidden state at this token, `(d_hidden,)`.
        gates: Per name ("forward update", ...) the mean of that gate over the units, a number in 0..1.
        glances: Where self-attention looked from this token.
    """

    index: int
    token: str
    states: dict[str, Tensor]
    gates: dict[str, float]
    glances: tuple[Glance, ...] = ()


@dataclass(frozen=True)
class DecoderFrame:
    """The decoder at one output token.

    Attributes:
        index: Position of the token, from 0.
        so_far: The tokens written before this one.
        token: The token written here.
        state: The decoder's state after this step, `(d_hidden,)`.
        glances: Where each attention looked at this step, in the order of the maps.
        top: The three most probable tokens with their probabilities, best first.
    """

    index: int
    so_far: tuple[str, ...]
    token: str
    state: Tensor
    glances: tuple[Glance, ...]
    top: tuple[tuple[str, float], ...]


@dataclass(frozen=True)
class Look:
    """Everything a look at one example shows; drawing it is `heed.observe.draw_text`, `draw_svg` and `draw_html`.

    Attributes:
        title: One line: which model, on what.
        source: The source text.
        target: The output that was looked at (generated, or given).
        maps: The attention maps, each with its own axes.
        encoder: One frame per source token.
        decoder: One frame per output token.
        notes: Lines a reader needs: score of the output, policies, self-checks.
        summary: For a model that does not attend to the source, the one vector `(d,)` through which it knows it, the
            same for every output token; else None.
        shadings: The text with a number for each word: what a label rests on, how sure each tag is.
        names: What a reader calls source and target.
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
