"""Rows of weights as short text, for the script of a page: about one character a cell, less if neighbours are equal.

A weight is a whole number of thousandths, 0 to 1000, or -1 if masked. The digits are the 92 printable ASCII characters,
starting with the space, that need no escape in JSON or in a script element.

    0 .. 79      one digit
    80 .. 1000   80 + (n - 80) // 92, then (n - 80) % 92
    a run        91, then n + 1 (masked: 0), then its length by two digits, the larger one first

Only masked cells and numbers below 80 come in runs. `unpack` of `look.js` reads this.
"""

from __future__ import annotations

from itertools import groupby

import numpy as np

from heed.observe.maps import Map

DIGITS = "".join(chr(code) for code in range(32, 127) if chr(code) not in '"<\\')
_BASE = len(DIGITS)
_SHORT = 80
"""Numbers below this are written as one digit."""
_RUN = DIGITS[-1]
_LONG = 5
"""Number of cells from which a run is shorter."""
_MOST = _BASE**2 - 1


def packed(map: Map) -> list[str]:
    """The packed rows of a map."""
    thousandths = np.rint(map.weights.detach().double().cpu().numpy() * 1000).astype(np.int64)
    if map.mask is not None:
        thousandths[~map.mask.cpu().numpy()] = -1
    return [_row(row) for row in thousandths.tolist()]


def _row(row: list[int]) -> str:
    parts: list[str] = []
    for number, group in groupby(row):
        count = sum(1 for _ in group)
        while (number < 0 and count) or (number < _SHORT and count >= _LONG):
            some = min(count, _MOST)
            parts.append(_RUN + DIGITS[number + 1] + DIGITS[some // _BASE] + DIGITS[some % _BASE])
            count -= some
        parts.append(_number(number) * count)
    return "".join(parts)


def _number(number: int) -> str:
    if number < 0:
        return ""
    if number < _SHORT:
        return DIGITS[number]
    high, low = divmod(number - _SHORT, _BASE)
    return DIGITS[_SHORT + high] + DIGITS[low]
