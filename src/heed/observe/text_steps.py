"""The steps of a look as lines of text: what the encoder held at each token, what the decoder did at each."""

from __future__ import annotations

from torch import Tensor

from heed.observe.frames import DecoderFrame, EncoderFrame, Look
from heed.observe.labels import FIXED_VECTOR, joined, lines_up, source_labels, visible
from heed.observe.maps import Axis

__all__ = ["fixed_vector_to_lines", "steps_to_lines"]

_FIRST = 6
_LARGEST = 5
_COLUMN = 8
_BARS = "▁▂▃▄▅▆▇█"


def steps_to_lines(look: Look, width: int) -> list[list[str]]:
    """Describe every frame.

    Args:
        look: Whose frames.
        width: Columns of the terminal.

    Returns:
        One block of lines per frame.
    """
    encoder = [_encoder_lines(frame, len(look.encoder)) for frame in look.encoder]
    return encoder + [_decoder_lines(frame, look, width) for frame in look.decoder]


def fixed_vector_to_lines(vector: Tensor, width: int) -> list[str]:
    """The summary of a model without attention, a bar per unit, from minus its largest size to plus it.

    Args:
        vector: `(d,)`.
        width: Columns of the terminal.

    Returns:
        Lines: what it is, its numbers, the bars, and what they mean.
    """
    values = vector.detach().double()
    largest = float(values.abs().max()) if len(values) else 0.0
    heights = (values / (largest or 1.0) + 1) / 2 * (len(_BARS) - 1)
    bars = "".join(_BARS[round(height)] for height in heights.tolist())
    return [
        FIXED_VECTOR,
        _vector(vector),
        "",
        *(bars[start : start + width] for start in range(0, len(bars), width)),
        "",
        f"one bar a unit: {_BARS[0]} -{largest:.2f} to {_BARS[-1]} {largest:.2f}",
    ]


def _encoder_lines(frame: EncoderFrame, count: int) -> list[str]:
    lines = [f"encoder step {frame.index + 1} of {count}: reads {visible(frame.token)}"]
    lines += [f"  {name:<10} {_vector(state)}" for name, state in frame.states.items()]
    gates = ", ".join(f"{name} {gate:.3f}" for name, gate in frame.gates.items())
    return lines + ([f"  {'gate means':<10} {gates}"] if gates else [])


def _decoder_lines(frame: DecoderFrame, look: Look, width: int) -> list[str]:
    lines = [f"decoder step {frame.index + 1} of {len(look.decoder)}: writes {visible(frame.token)}"]
    kind = "character" if all(len(token) <= 1 for token in frame.so_far) else "token"
    so_far = joined(Axis("target", kind, frame.so_far), 0, len(frame.so_far))
    lines.append(f"  {'so far':<10} {visible(so_far) if so_far else '(nothing)'}")
    lines.append(f"  {'state':<10} {_vector(frame.state)}")
    if frame.weights is not None:
        axis = source_labels(look, len(frame.weights))
        grid = all(lines_up(label) for label in axis.labels)
        lines += _table(axis, frame, width) if grid else _largest(axis, frame)
    if frame.context is not None:
        lines.append(f"  {'context':<10} {_vector(frame.context)}")
    if look.summary is not None:
        lines.append(f"  {'source':<10} the fixed vector, the same at every step: {_vector(look.summary)}")
    best = "  ".join(f"{visible(token)} {probability:.3f}" for token, probability in frame.top)
    return [*lines, f"  {'next token':<10} {best}"]


def _vector(vector: Tensor) -> str:
    values = vector.detach().double().flatten()
    first = " ".join(f"{value:6.3f}" for value in values[:_FIRST].tolist())
    more = f" ... ({len(values)} in all)" if len(values) > _FIRST else ""
    return f"norm {float(values.norm()):.3f}, values {first}{more}"


def _rows(frame: DecoderFrame) -> list[tuple[str, list[float]]]:
    named = (("scores", frame.scores), ("weights", frame.weights))
    return [(name, tensor.detach().double().tolist()) for name, tensor in named if tensor is not None]


def _table(axis: Axis, frame: DecoderFrame, width: int) -> list[str]:
    """Keys, scores and weights under each other, in blocks that fit the width."""
    per_block = max(1, (width - 13) // _COLUMN)
    lines = []
    for start in range(0, len(axis), per_block):
        part = slice(start, start + per_block)
        keys = "".join(f"{visible(label)[: _COLUMN - 1]:>{_COLUMN}}" for label in axis.labels[part])
        lines.append(f"  {'keys':<10} {keys}")
        for name, values in _rows(frame):
            lines.append(f"  {name:<10} " + "".join(f"{value:{_COLUMN}.3f}" for value in values[part]))
    return lines


def _largest(axis: Axis, frame: DecoderFrame) -> list[str]:
    """The keys with most weight, each on a line that ends with its label: such labels have no columns."""
    rows = dict(_rows(frame))
    order = sorted(range(len(axis)), key=lambda i: -rows["weights"][i])[:_LARGEST]
    lines = [f"  {'weights':<10} the {len(order)} largest of {len(axis)}"]
    for i in order:
        score = f"  score {rows['scores'][i]:.3f}" if "scores" in rows else ""
        lines.append(f"  {'':<10} {rows['weights'][i]:.3f}{score}  key {i + 1}  {visible(axis.labels[i])}")
    return lines
