"""Looks as plain values for JSON, where tensors are lists of rounded numbers.

A dataclass is an object with its fields, a tuple a list. Fields that are not compared (`compare=False`) are left out.
"""

from __future__ import annotations

import base64
import math
import zlib
from dataclasses import fields, is_dataclass
from typing import Any

import numpy as np
import torch
from torch import Tensor

from heed.visible import to_json
from heed.watch.maps import Map
from heed.watch.remarks import remarks

_NAMES = {"glances": "attention"}
"""Fields with another name in files."""


def plain_values(value: Any) -> Any:
    """Tensors, dataclasses and their containers as plain values.

    Numbers are rounded: those of tensors to six decimals, others to six decimals or six digits, whichever is finer.
    Minus infinity (the score of a masked key) becomes None; "inf" and "nan" are the other numbers that JSON cannot
    express.
    """
    if isinstance(value, Tensor | np.ndarray):
        return _plain_array(value)
    if isinstance(value, float):
        if not -math.inf < value < math.inf:
            return None if value == -math.inf else str(value)
        finer = round(value, 6) if abs(value) >= 1 else float(f"{value:.6g}")
        return finer + 0.0  # turns -0.0 into 0.0
    if isinstance(value, list | tuple):
        return [plain_values(item) for item in value]
    if isinstance(value, dict):
        return {name: plain_values(item) for name, item in value.items()}
    if is_dataclass(value):
        extra = {}
        if isinstance(value, Map):
            extra = {"title": value.title}
            extra |= {"remarks": plain_values(found)} if (found := remarks(value)) else {}
        kept = [one.name for one in fields(value) if one.compare]
        return extra | {_NAMES.get(name, name): plain_values(getattr(value, name)) for name in kept}
    return value


def _plain_array(value: Tensor | np.ndarray[Any, Any]) -> Any:
    if isinstance(value, Tensor):
        value = value.detach().cpu()
        value = (value.float() if value.dtype in (torch.bfloat16, torch.float16) else value).numpy()
    if value.dtype == np.uint8 or not value.size:
        packed = base64.b64encode(zlib.compress(np.ascontiguousarray(value).tobytes())).decode()
        return {"type": str(value.dtype), "shape": list(value.shape), "zlib": packed}
    if value.dtype.kind != "f":
        return value.tolist()
    rounded = np.round(value.astype(np.float64), 6) + 0.0
    return rounded.tolist() if np.isfinite(rounded).all() else plain_values(rounded.tolist())


def json_of(form: str, value: Any, **more: Any) -> str:
    """A dataclass as one JSON object of a format, with a final newline; equal ones give equal bytes."""
    content = {"format": form, **plain_values(more), **plain_values(value)}
    return to_json(content, separators=(",", ":")) + "\n"
