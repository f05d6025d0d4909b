"""A look as JSON: complete, rounded to six decimals; equal looks give equal bytes."""

from __future__ import annotations

import math
from dataclasses import fields, is_dataclass
from typing import Any

import torch
from torch import Tensor

from heed.observe.frames import DecoderFrame, EncoderFrame, Look
from heed.observe.maps import Axis, Map
from heed.observe.shading import Shading
from heed.visible import to_json

FORMAT = "heed-look-2"
_NAMES = {"glances": "attention"}
"""Fields with another name in the file."""

_OPTIONAL = {(EncoderFrame, "top"), (DecoderFrame, "gates"), (Axis, "parts")}
"""Fields that are omitted if empty."""


def plain(value: Any) -> Any:
    """Tensors, dataclasses and their containers as plain values: numbers with six decimals, None if not finite."""
    if isinstance(value, Tensor):
        return value.tolist() if value.dtype == torch.bool else plain(value.detach().double().tolist())
    if isinstance(value, float):
        # Scores of masked keys are -inf, which JSON cannot express; adding 0.0 turns -0.0 into 0.0.
        return round(value, 6) + 0.0 if math.isfinite(value) else None
    if isinstance(value, list | tuple):
        return [plain(item) for item in value]
    if isinstance(value, dict):
        return {name: plain(item) for name, item in value.items()}
    if isinstance(value, Map):
        names = ["title", "mechanism", "layer", "head", "caption", "query", "key", "weights", "scores", "mask"]
        return {name: plain(getattr(value, name)) for name in names}
    if isinstance(value, Shading):
        names = ["title", "axis", "weights", *(("tags", "others") if value.tags else ())]
        names += [name for name in ("spans", "signed") if getattr(value, name)]
        return {name: plain(getattr(value, name)) for name in names}
    if is_dataclass(value):
        names = [one.name for one in fields(value)]
        names = [name for name in names if (type(value), name) not in _OPTIONAL or getattr(value, name)]
        return {_NAMES.get(name, name): plain(getattr(value, name)) for name in names}
    return value


def look_to_json(look: Look) -> str:
    """A look as one JSON object, with a final newline.

    Rows and columns of `weights` follow the labels of `query` and `key`; numbers that are not finite (scores of masked
    keys) are null.
    """
    names = ("title", "source", "target", "notes", "shadings", "maps", "summary", "encoder", "decoder")
    content = {"format": FORMAT, **{name: plain(getattr(look, name)) for name in names}}
    return to_json(content, separators=(",", ":")) + "\n"
