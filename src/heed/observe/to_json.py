"""A look as JSON: complete, rounded to six decimals, the same bytes every time."""

from __future__ import annotations

import json
import math
from typing import Any

from torch import Tensor

from heed.observe.draw_shading import shading_values
from heed.observe.frames import DecoderFrame, EncoderFrame, Glance, Look
from heed.observe.maps import Axis, Map

FORMAT = "heed-look-2"


def _rounded(value: Any) -> Any:
    if isinstance(value, list):
        return [_rounded(item) for item in value]
    # Scores of masked keys are -inf, which JSON cannot say; adding 0.0 turns -0.0 into 0.0.
    return round(value, 6) + 0.0 if math.isfinite(value) else None


def numbers(tensor: Tensor | None) -> Any:
    """Nested lists of a tensor, six decimals; None for None and for what is not finite."""
    return None if tensor is None else _rounded(tensor.detach().double().tolist())


def _axis(axis: Axis) -> dict[str, Any]:
    return {"name": axis.name, "kind": axis.kind, "labels": list(axis.labels)}


def _map(map: Map) -> dict[str, Any]:
    return {
        "title": map.title,
        "mechanism": map.mechanism,
        "layer": map.layer,
        "head": map.head,
        "caption": map.caption,
        "query": _axis(map.query),
        "key": _axis(map.key),
        "weights": numbers(map.weights),
        "scores": numbers(map.scores),
        "mask": None if map.mask is None else map.mask.tolist(),
    }


def _glance(glance: Glance) -> dict[str, Any]:
    return {
        "name": glance.name,
        "mechanism": glance.mechanism,
        "key": _axis(glance.key),
        "weights": numbers(glance.weights),
        "scores": numbers(glance.scores),
        "mask": None if glance.mask is None else glance.mask.tolist(),
        "context": numbers(glance.context),
    }


def _encoder(frame: EncoderFrame) -> dict[str, Any]:
    return {
        "index": frame.index,
        "token": frame.token,
        "states": {name: numbers(state) for name, state in frame.states.items()},
        "gates": {name: _rounded(float(gate)) for name, gate in frame.gates.items()},
        "attention": [_glance(glance) for glance in frame.glances],
    }


def _decoder(frame: DecoderFrame) -> dict[str, Any]:
    return {
        "index": frame.index,
        "so_far": list(frame.so_far),
        "token": frame.token,
        "state": numbers(frame.state),
        "attention": [_glance(glance) for glance in frame.glances],
        "top": [[token, _rounded(float(probability))] for token, probability in frame.top],
    }


def look_to_json(look: Look) -> str:
    """Write a look as JSON.

    Args:
        look: What to write.

    Returns:
        One JSON object, with a final newline. Rows and columns of `weights` follow the labels of `query` and `key`;
        what is not finite (the score of a masked key) is null.
    """
    content = {
        "format": FORMAT,
        "title": look.title,
        "source": look.source,
        "target": look.target,
        "notes": list(look.notes),
        "shadings": [shading_values(shading) for shading in look.shadings],
        "maps": [_map(map) for map in look.maps],
        "summary": numbers(look.summary),
        "encoder": [_encoder(frame) for frame in look.encoder],
        "decoder": [_decoder(frame) for frame in look.decoder],
    }
    text = json.dumps(content, ensure_ascii=False, allow_nan=False, separators=(",", ":")) + "\n"
    # A lone surrogate (bytes that were no text) cannot be written as UTF-8; as an escape it can, and reads back equal.
    return text.encode("utf-8", "backslashreplace").decode("utf-8")
