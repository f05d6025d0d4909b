"""The steps of a look as text: the encoder at each source token, the decoder at each output token."""

from __future__ import annotations

from collections.abc import Iterator

from torch import Tensor

from heed.observe.frames import DecoderFrame, EncoderFrame, Glance, Look
from heed.observe.labels import FIXED_VECTOR, MASKED, clean, joined, lines_up, visible
from heed.observe.maps import Axis, Part, unmasked

_FIRST = 6
_LARGEST = 5
_COLUMN = 8
_BARS = "▁▂▃▄▅▆▇█"


def steps_to_lines(look: Look, width: int) -> list[list[str]]:
    """Describe every frame, one block of lines each."""
    encoder = [_encoder_lines(frame, look, width) for frame in look.encoder]
    return encoder + [_decoder_lines(frame, look, width) for frame in look.decoder]


def fixed_vector_to_lines(vector: Tensor, width: int) -> list[str]:
    """The summary `(d,)` of a model without attention, a bar for each unit, scaled to the largest absolute value."""
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
        f"one bar for each unit: {_BARS[0]} -{largest:.2f} to {_BARS[-1]} {largest:.2f}",
    ]


def _encoder_lines(frame: EncoderFrame, look: Look, width: int) -> list[str]:
    part, does = look.parts[0]
    lines = [f"{part} step {frame.index + 1} of {len(look.encoder)}: {does} {visible(frame.token)}"]
    lines += [f"  {name:<10} {_vector(state)}" for name, state in frame.states.items()]
    return lines + _gates(frame.gates) + _glances(frame.glances, width) + _next(frame.top)


def _decoder_lines(frame: DecoderFrame, look: Look, width: int) -> list[str]:
    part, does = look.parts[1]
    lines = [f"{part} step {frame.index + 1} of {len(look.decoder)}: {does} {visible(frame.token)}"]
    kind = "character" if all(len(token) <= 1 for token in frame.so_far) else "token"
    so_far = joined(Axis("target", kind, frame.so_far), 0, len(frame.so_far))
    lines.append(f"  {'so far':<10} {visible(so_far) if so_far else '(nothing)'}")
    lines.append(f"  {'state':<10} {_vector(frame.state)}")
    lines += _gates(frame.gates)
    lines += _glances(frame.glances, width)
    if look.summary is not None:
        lines.append(f"  {'source':<10} the fixed vector, the same at every step: {_vector(look.summary)}")
    return lines + _next(frame.top)


def _next(top: tuple[tuple[str, float], ...]) -> list[str]:
    best = "  ".join(f"{visible(token)} {probability:.3f}" for token, probability in top)
    return [f"  {'next token':<10} {best}"] if top else []


def _gates(gates: dict[str, float]) -> list[str]:
    means = ", ".join(f"{name} {gate:.3f}" for name, gate in gates.items())
    return [f"  {'gate means':<10} {means}"] if means else []


def _vector(vector: Tensor) -> str:
    values = vector.detach().double().flatten()
    first = " ".join(f"{value:6.3f}" for value in values[:_FIRST].tolist())
    more = f" ... ({len(values)} in all)" if len(values) > _FIRST else ""
    return f"norm {float(values.norm()):.3f}, values {first}{more}"


def _glances(glances: tuple[Glance, ...], width: int) -> list[str]:
    """Scores, weights and context of each attention; with its name if there are several."""
    lines = []
    for glance in glances:
        lines += [f"  {glance.name}"] if len(glances) > 1 else []
        grid = all(lines_up(label) for label in glance.key.labels)
        lines += _table(glance, width) if grid else _largest(glance)
        lines.append(f"  {'context':<10} {_vector(glance.context)}")
    return lines


def _rows(glance: Glance) -> list[tuple[str, list[float | None]]]:
    """Scores and weights, None for masked keys."""
    named = (("scores", glance.scores), ("weights", glance.weights))
    return [(name, unmasked(tensor, glance.mask)) for name, tensor in named if tensor is not None]


def _table(glance: Glance, width: int) -> list[str]:
    """Keys, scores and weights as a table, in blocks that fit the width."""
    per_block = max(1, (width - 13) // _COLUMN)
    lines = []
    for name, block in _blocks(glance.key, per_block):
        lines += [f"  {name}"] if name else []
        part = slice(block.start, block.stop)
        keys = "".join(f"{visible(label)[: _COLUMN - 1]:>{_COLUMN}}" for label in glance.key.labels[part])
        lines.append(f"  {'keys':<10} {keys}")
        for name, values in _rows(glance):
            lines.append(f"  {name:<10} " + "".join(_cell(value) for value in values[part]))
    return lines


def _blocks(axis: Axis, size: int) -> Iterator[tuple[str, range]]:
    """The positions of an axis in blocks of at most `size`; each part of it begins a new one, with its name."""
    for part in axis.parts or (Part("", 0, len(axis)),):
        for start in range(part.start, part.stop, size):
            yield (
                visible(part.label) if part.label and start == part.start else "",
                range(start, min(start + size, part.stop)),
            )


def _cell(value: float | None) -> str:
    return f"{MASKED:>{_COLUMN}}" if value is None else f"{value:{_COLUMN}.3f}"


def _largest(glance: Glance) -> list[str]:
    """The keys with most weight, each on a line that ends with its label, for labels that do not line up."""
    rows = dict(_rows(glance))
    may = [i for i, weight in enumerate(rows["weights"]) if weight is not None]
    order = sorted(may, key=lambda i: -float(glance.weights[i]))[:_LARGEST]
    lines = [f"  {'weights':<10} the {len(order)} largest of {len(may)}"]
    for i in order:
        score = f"  score {rows['scores'][i]:.3f}" if "scores" in rows else ""
        where = f" ({clean(glance.key.part_at(i))})" if glance.key.parts else ""
        lines.append(f"  {'':<10} {rows['weights'][i]:.3f}{score}  key {i + 1}  {visible(glance.key.labels[i])}{where}")
    return lines
