"""A large map as a picture with one pixel for each cell: a PNG inside an SVG, written with the standard library."""

from __future__ import annotations

import base64
import struct
import zlib

from heed.observe import palette
from heed.observe.maps import Map

MOST_CELLS = 64 * 64
"""Larger maps are drawn as pixels: an SVG with a rectangle for each cell would be tens of megabytes."""

MASKED = "#d9dde2"
_STEPS = 250
_MASKED = 255


def map_to_png(map: Map) -> bytes:
    """The cells of a map as a palette image, the first query at the top; equal maps give equal bytes."""
    lines = bytearray()
    for row in map.cells():
        lines.append(0)  # no filter
        lines.extend(_MASKED if w is None else round(min(max(w, 0.0), 1.0) * _STEPS) for w in row)
    colors = [palette.shade(min(i, _STEPS) / _STEPS) for i in range(_MASKED)] + [MASKED]
    head = struct.pack(">IIBBBBB", len(map.key), len(map.query), 8, 3, 0, 0, 0)  # 8 bits, numbers of colours
    chunks = [
        (b"IHDR", head),
        (b"PLTE", b"".join(bytes.fromhex(color[1:]) for color in colors)),
        (b"IDAT", zlib.compress(bytes(lines), 9)),
        (b"IEND", b""),
    ]
    return b"\x89PNG\r\n\x1a\n" + b"".join(_chunk(kind, content) for kind, content in chunks)


def _chunk(kind: bytes, content: bytes) -> bytes:
    return struct.pack(">I", len(content)) + kind + content + struct.pack(">I", zlib.crc32(kind + content))


def map_to_image(map: Map, x: int, y: int, cell: int) -> str:
    """The picture as an SVG element, each pixel drawn as a square of side `cell`."""
    data = base64.b64encode(map_to_png(map)).decode()
    return (
        f'<image x="{x}" y="{y}" width="{cell * len(map.key)}" height="{cell * len(map.query)}" '
        f'preserveAspectRatio="none" style="image-rendering:pixelated" href="data:image/png;base64,{data}"/>'
    )
