"""Multi-line drawings, side by side in a terminal."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import zip_longest

GAP = 3
"""Columns between two drawings."""

Block = list[tuple[str, int]]
"""Lines, each with its width in terminal columns (without colour codes)."""


def beside(blocks: Sequence[Block], width: int) -> list[str]:
    """Lay out blocks side by side, as many as fit the width, the rest below."""
    lines: list[str] = []
    row: list[Block] = []
    used = 0
    for block in blocks:
        size = max(columns for _, columns in block)
        if row and used + GAP + size > width:
            lines += [*_joined(row), ""]
            row, used = [], 0
        row.append(block)
        used += size + (GAP if used else 0)
    return [*lines, *_joined(row)]


def _joined(blocks: Sequence[Block]) -> list[str]:
    sizes = [max(columns for _, columns in block) for block in blocks]
    lines = []
    for parts in zip_longest(*blocks, fillvalue=("", 0)):
        cells = [text + " " * (size - used) for (text, used), size in zip(parts, sizes, strict=True)]
        lines.append((" " * GAP).join(cells).rstrip(" "))
    return lines
