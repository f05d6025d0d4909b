"""Looks as plain values and back: for JSON, where tensors are lists of rounded numbers, and for .npz, with arrays.

A dataclass is an object with its fields, a tuple a list. The types of the fields say how a value is read back; nothing
else is made of it, and nothing is executed. Fields that are not compared (`compare=False`) are left out.
"""

from __future__ import annotations

import base64
import io
import math
import types
import typing
import zlib
from collections.abc import Mapping
from dataclasses import MISSING, Field, fields, is_dataclass
from typing import Any, get_args, get_origin, get_type_hints
from zipfile import ZIP_DEFLATED, ZipFile, ZipInfo

import numpy as np
import torch
from torch import Tensor

from heed.observe.maps import Map, SignedMap, Tokens, Traces
from heed.observe.remarks import remarks
from heed.visible import to_json

Arrays = dict[str, np.ndarray[Any, Any]]
"""Arrays of an .npz file by the place of their value: "maps.0.weights"."""

_NAMES = {"glances": "attention"}
"""Fields with another name in files."""
_KINDS = {"SignedMap": SignedMap, "Tokens": Tokens, "Traces": Traces}
"""Subclasses that a file may name, as `type`."""


def kept(value: Any) -> list[Field[Any]]:
    """The fields of a dataclass that a file has."""
    return [one for one in fields(value) if one.compare]


def plain_values(value: Any, arrays: Arrays | None = None, place: str = "") -> Any:
    """Tensors, dataclasses and their containers as plain values.

    With `arrays`, tensors and pixels are put there, and numbers are exact. Otherwise they are rounded: those of tensors
    to six decimals, others to six decimals or six digits, whichever is finer. Minus infinity (the score of a masked
    key) becomes None; "inf" and "nan" are the other numbers that JSON cannot express.
    """
    if isinstance(value, Tensor | np.ndarray):
        return _plain_array(value, arrays, place)
    if isinstance(value, float):
        if not -math.inf < value < math.inf:
            return None if value == -math.inf else str(value)
        finer = round(value, 6) if abs(value) >= 1 else float(f"{value:.6g}")
        return (finer if arrays is None else value) + 0.0  # adding 0.0 turns -0.0 into 0.0
    if isinstance(value, list | tuple):
        return [plain_values(item, arrays, f"{place}.{i}") for i, item in enumerate(value)]
    if isinstance(value, dict):
        return {name: plain_values(item, arrays, f"{place}.{name}") for name, item in value.items()}
    if is_dataclass(value):
        extra = {"type": type(value).__name__} if type(value).__name__ in _KINDS else {}
        if isinstance(value, Map):  # for readers; `read_value` computes them again
            extra |= {"title": value.title}
            extra |= {"remarks": plain_values(found)} if (found := remarks(value)) else {}
        own = {_NAMES.get(one.name, one.name): getattr(value, one.name) for one in kept(value)}
        return extra | {name: plain_values(item, arrays, f"{place}.{name}") for name, item in own.items()}
    return value


def _plain_array(value: Tensor | np.ndarray[Any, Any], arrays: Arrays | None, place: str) -> Any:
    if isinstance(value, Tensor):
        value = value.detach().cpu()
        value = (value.float() if value.dtype in (torch.bfloat16, torch.float16) else value).numpy()
    if arrays is not None:
        arrays[place.removeprefix(".")] = value
        return {"array": place.removeprefix(".")}
    if value.dtype == np.uint8 or not value.size:
        packed = base64.b64encode(zlib.compress(np.ascontiguousarray(value).tobytes())).decode()
        return {"type": str(value.dtype), "shape": list(value.shape), "zlib": packed}
    if value.dtype.kind != "f":
        return value.tolist()
    rounded = np.round(value.astype(np.float64), 6) + 0.0
    return rounded.tolist() if np.isfinite(rounded).all() else plain_values(rounded.tolist())


def read_value(kind: Any, value: Any, arrays: Mapping[str, Any] | None = None, place: str = "") -> Any:
    """Undo `plain_values`: a value of a type, such as a dataclass of looks.

    Raises:
        ValueError: It is no value of that type; the message says where.
    """
    origin, inner = get_origin(kind), get_args(kind)
    if origin in (types.UnionType, typing.Union):
        (some,) = (one for one in inner if one is not types.NoneType)
        return None if value is None else read_value(some, value, arrays, place)
    if kind is Tensor or origin is np.ndarray:
        array = _read_array(value, arrays, place)
        if origin is np.ndarray and array.dtype != np.uint8:
            raise ValueError(f"{place} has numbers of type {array.dtype}, expected pixels (uint8)")
        return torch.from_numpy(array) if kind is Tensor else array
    if kind is float and (value is None or value in ("inf", "nan")):
        return -math.inf if value is None else float(value)
    if kind is float and type(value) is int:
        return float(value)
    if kind in (str, int, float, bool):
        return _of_type(kind, value, place)
    if origin is dict:
        named = _of_type(dict, value, place)
        return {name: read_value(inner[1], one, arrays, f"{place}.{name}") for name, one in named.items()}
    if origin is tuple or hasattr(kind, "_fields"):
        items = _of_type(list, value, place)
        several = origin is tuple and inner[-1] is Ellipsis
        each = [inner[0]] * len(items) if several else inner or [*get_type_hints(kind).values()]
        if len(each) != len(items):
            raise ValueError(f"{place} has {len(items)} values, expected {len(each)}")
        made = [read_value(one, v, arrays, f"{place}.{i}") for i, (one, v) in enumerate(zip(each, items, strict=True))]
        return tuple(made) if origin is tuple else kind(*made)
    given = _of_type(dict, value, place)
    kind = _KINDS.get(given["type"], kind) if issubclass(kind, Map) and "type" in given else kind
    hints, found = get_type_hints(kind), {}
    for one in kept(kind):
        name = _NAMES.get(one.name, one.name)
        if name in given:
            found[one.name] = read_value(hints[one.name], given[name], arrays, f"{place}.{name}")
        elif one.default is MISSING and one.default_factory is MISSING:
            raise ValueError(f"{place or 'the look'} has no '{name}'")
    return kind(**found)


def _of_type(kind: type, value: Any, place: str) -> Any:
    if type(value) is not kind:
        said = "null" if value is None else type(value).__name__
        raise ValueError(f"{place.removeprefix('.')} is {said}, expected {kind.__name__}")
    return value


def _read_array(value: Any, arrays: Mapping[str, Any] | None, place: str) -> np.ndarray[Any, Any]:
    """An array: of the file, packed, or a list; numbers that are not whole become float32."""
    if arrays is not None:
        name = _of_type(dict, value, place).get("array")
        if name not in arrays:
            raise ValueError(f"array '{name}' of {place.removeprefix('.')} is missing")
        return typing.cast("np.ndarray[Any, Any]", arrays[name])
    if isinstance(value, dict):
        form, shape = value.get("type"), _of_type(list, value.get("shape"), place)
        size = math.prod(_of_type(int, one, place) for one in shape)
        if form not in ("uint8", "float32", "float64", "bool") or (size and form != "uint8"):
            raise ValueError(f"{place.removeprefix('.')} is of type '{form}', expected pixels (uint8), or no numbers")
        data = zlib.decompressobj().decompress(base64.b64decode(value["zlib"]), max(1, size))
        return np.frombuffer(data, form).reshape(shape).copy()
    try:
        array = np.array(value)
    except ValueError:
        raise ValueError(f"the rows of {place.removeprefix('.')} differ in length") from None
    if array.dtype.kind not in "fbi":  # with null, "inf" or "nan"
        array = np.array(_numbers(value, place))
    return array.astype(np.float32) if array.dtype.kind == "f" else array


def _numbers(value: Any, place: str) -> Any:
    return [_numbers(one, place) for one in value] if isinstance(value, list) else read_value(float, value, None, place)


def json_of(form: str, value: Any, **more: Any) -> str:
    """A dataclass as one JSON object of a format, with a final newline; equal ones give equal bytes."""
    content = {"format": form, **plain_values(more), **plain_values(value)}
    return to_json(content, separators=(",", ":")) + "\n"


def npz_of(form: str, value: Any, **more: Any) -> bytes:
    """A dataclass as an .npz file: the array `look`, which is JSON in UTF-8, and the arrays that it names."""
    arrays: Arrays = {}
    content = {"format": form, **plain_values(more, arrays), **plain_values(value, arrays)}
    text = np.frombuffer(to_json(content, separators=(",", ":")).encode(), np.uint8)
    file = io.BytesIO()
    with ZipFile(file, "w") as archive:
        for name, array in {"look": text, **arrays}.items():
            member = ZipInfo(f"{name}.npy")  # dated 1980, so that equal looks give equal bytes
            member.compress_type = ZIP_DEFLATED
            with archive.open(member, "w", force_zip64=True) as target:
                np.lib.format.write_array(target, np.ascontiguousarray(array), allow_pickle=False)
    return file.getvalue()
