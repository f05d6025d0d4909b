"""The steps of a look as HTML: one frame per encoder token and output token, and a bar to step through them.

All frames are in the page, for printing and screen readers; the script shows one at a time.
"""

from __future__ import annotations

from html import escape

import torch
from torch import Tensor

from heed.observe.frames import DecoderFrame, EncoderFrame, Glance, Look
from heed.observe.html_map import shaded_words
from heed.observe.labels import FIXED_VECTOR, clean, visible
from heed.observe.maps import unmasked
from heed.observe.number_tables import Table, table_to_html

_ATTENDS = "it scores the source, turns scores into weights, computes the context, and predicts the next token."
_FIXED = "it updates its state, which sees the source only through one fixed vector, and predicts the next token."
_UNITS = 128
_HEIGHT = 20


def fixed_vector_to_html(vector: Tensor) -> str:
    """The summary of a model without attention, `(d,)`, as a `<section>` in place of maps."""
    return "\n".join(
        [
            '<section id="fixed-vector"><h2>The fixed vector</h2>',
            f'<p class="caption">{escape(FIXED_VECTOR)} In the strip, each bar is one unit.</p>',
            f'<dl class="rows">{_row("source", _strip(vector, _scale(vector)))}</dl>',
            "</section>",
        ]
    )


def steps_to_html(look: Look) -> str:
    """Draw the frames of a look as a `<section>`, encoder first; empty if a look has no frames."""
    scales = _scales(look)
    frames = [_encoder(frame, look, scales) for frame in look.encoder]
    frames += [_decoder(frame, look, scales) for frame in look.decoder]
    if not frames:
        return ""
    articles = [
        f'<article class="frame" data-step="{i + 1}" aria-label="step {i + 1} of {len(frames)}">{frame}</article>'
        for i, frame in enumerate(frames)
    ]
    return "\n".join(
        [
            '<section class="steps" id="steps"><h2>Step by step</h2>',
            f'<p class="hint">{_hint(look)} '
            "In the strips, each bar is one unit: positive above the line, negative below.</p>",
            _bar(len(frames)),
            *articles,
            "</section>",
        ]
    )


def _hint(look: Look) -> str:
    if look.hint:
        return escape(clean(look.hint))
    if look.names[0] != "source":
        return _contents(look)
    does = _ATTENDS if look.summary is None else _FIXED
    return f"The encoder reads the source token by token; then the decoder writes one token a step: {does}"


def _contents(look: Look) -> str:
    """Description of the steps over one text."""
    frames: list[EncoderFrame | DecoderFrame] = [*look.encoder, *look.decoder]
    has_next = any(frame.top for frame in frames)
    parts = [
        "the model's state" if look.decoder or any(frame.states for frame in look.encoder) else "",
        "the mean of each gate" if any(frame.gates for frame in frames) else "",
        "where it looked" if any(frame.glances for frame in frames) else "",
        "the most probable next tokens" if has_next else "",
    ]
    *most, last = [part for part in parts if part]
    unit = "token" if has_next else look.unit
    return f"{unit.capitalize()} by {unit}: " + (f"{', '.join(most)} and {last}." if most else f"{last}.")


def _bar(count: int) -> str:
    return (
        '<div class="stepbar live" role="group" aria-label="Steps">'
        '<button type="button" class="previous" aria-label="previous step">&#9664;&#xFE0E;</button>'
        '<button type="button" class="play" aria-pressed="false">Play</button>'
        '<button type="button" class="next" aria-label="next step">&#9654;&#xFE0E;</button>'
        f'<input type="range" min="1" max="{count}" value="1" aria-label="step">'
        f'<span class="where" role="status">1 / {count}</span></div>'
    )


def _scales(look: Look) -> dict[str, float]:
    """The largest absolute value of each kind of vector over all frames, at least 1, so that frames can be compared."""
    scales: dict[str, float] = {}
    vectors = [item for frame in look.encoder for item in frame.states.items()]
    vectors += [("state", frame.state) for frame in look.decoder]
    frames: list[EncoderFrame | DecoderFrame] = [*look.encoder, *look.decoder]
    vectors += [(glance.name, glance.context) for frame in frames for glance in frame.glances]
    for name, vector in vectors:
        scales[name] = max(scales.get(name, 1.0), _scale(vector))
    return scales


def _scale(vector: Tensor) -> float:
    return max(1.0, float(vector.detach().abs().max())) if vector.numel() else 1.0


def _head(part: tuple[str, str], frame: EncoderFrame | DecoderFrame, count: int) -> str:
    return f"<h3>{part[0].capitalize()} {frame.index + 1} of {count}: {part[1]} {_token(frame.token)}</h3>"


def _encoder(frame: EncoderFrame, look: Look, scales: dict[str, float]) -> str:
    head = _head(look.parts[0], frame, len(look.encoder))
    strips = [_row(name, _strip(state, scales[name])) for name, state in frame.states.items()]
    return (
        head
        + '<dl class="rows">'
        + "".join([*strips, *_gates(frame.gates), *_glances(frame.glances, scales), *_next(frame.top)])
        + "</dl>"
    )


def _decoder(frame: DecoderFrame, look: Look, scales: dict[str, float]) -> str:
    so_far = "".join(f"<bdi>{escape(visible(token))}</bdi>" for token in frame.so_far) or "nothing yet"
    rows = [_row("so far", f'<span class="sofar" dir="auto">{so_far}</span>')]
    rows += [_row("state", _strip(frame.state, scales["state"])), *_gates(frame.gates)]
    rows += _glances(frame.glances, scales)
    if look.summary is not None:
        strip = _strip(look.summary, _scale(look.summary))
        rows.append(_row("source (the same at every step)", strip))
    rows += _next(frame.top)
    head = _head(look.parts[1], frame, len(look.decoder))
    return head + '<dl class="rows">' + "".join(rows) + "</dl>"


def _next(top: tuple[tuple[str, float], ...]) -> list[str]:
    rows = "".join(_row(_token(token), _meter(probability), raw=True) for token, probability in top)
    return [_row("next token", f'<dl class="rows top">{rows}</dl>')] if top else []


def _gates(gates: dict[str, float]) -> list[str]:
    return [_row(f"{name} (mean)", _meter(gate)) for name, gate in gates.items()]


def _glances(glances: tuple[Glance, ...], scales: dict[str, float]) -> list[str]:
    """Shaded keys, numbers and context of each attention; with its name if there are several."""
    rows = []
    for glance in glances:
        of = f"{glance.name}: " if len(glances) > 1 else ""
        kind = "character" if glance.key.kind == "character" else "word"
        shaded = shaded_words(glance.key, unmasked(glance.weights, glance.mask))
        rows += [
            _row(f"{of}looks at", f'<p class="keys {kind}" dir="auto">{shaded}</p>'),
            _row("numbers", _numbers(glance)),
            _row("context", _strip(glance.context, scales[glance.name])),
        ]
    return rows


def _token(token: str) -> str:
    return f'<bdi class="token">{escape(visible(token))}</bdi>'


def _row(name: str, content: str, *, raw: bool = False) -> str:
    return f"<div><dt>{name if raw else escape(clean(name))}</dt><dd>{content}</dd></div>"


def _meter(value: float) -> str:
    part = min(max(value, 0.0), 1.0) * 100
    return f'<span class="meter"><i style="width:{part:.1f}%"></i></span> <span class="value">{value:.3f}</span>'


def _strip(vector: Tensor, scale: float) -> str:
    """A vector as a row of bars around a middle line, with its norm."""
    values = vector.detach().double().flatten().tolist()
    shown = values[:_UNITS]
    middle = _HEIGHT / 2
    bars = {"up": "", "down": ""}
    for i, value in enumerate(shown):
        length = value / scale * middle
        if abs(length) >= 0.05:
            bars["up" if length > 0 else "down"] += f"M{i * 3 + 1} {middle:g}v{-length:.1f}"
    paths = "".join(f'<path class="{name}" d="{path}"/>' for name, path in bars.items())
    norm = float(vector.detach().double().norm())
    count = f"{len(values)} units" if len(shown) == len(values) else f"first {_UNITS} of {len(values)} units"
    said = f"{count}, scale \u00b1{scale:.2f}, norm {norm:.3f}"
    width = len(shown) * 3
    return (
        f'<svg class="strip" viewBox="0 0 {width} {_HEIGHT}" style="width:{width}px" preserveAspectRatio="none" '
        f'role="img" aria-label="{said}">{paths}<path class="line" d="M0 {middle:g}H{width}"/></svg>'
        f'<span class="value">{said}</span>'
    )


def _numbers(glance: Glance) -> str:
    """Keys, scores and weights as a table."""
    rows = {"score": glance.scores, "weight": glance.weights}
    shown = {name: values.detach() for name, values in rows.items() if values is not None}
    mask = None if glance.mask is None else glance.mask.expand(len(shown), -1)
    heat = tuple(name == "weight" for name in shown)
    values = torch.stack([values.double() for values in shown.values()])
    return table_to_html(Table("scores and weights", tuple(shown), glance.key.labels, values, heat, mask))
