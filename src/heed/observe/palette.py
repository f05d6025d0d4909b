"""Colours of weights: one ramp from nothing to everything, in even steps of perceived lightness.

The anchors were computed in OKLCH with lightness falling (or rising) in equal steps, and are written down so that
the bytes of a figure depend on nothing else. `LIGHT` is for white paper, `DARK` for dark pages and terminals.
"""

from __future__ import annotations

LIGHT = (
    "#f7fbfc", "#bbebfc", "#8bd7f6", "#61c0ee", "#3da8e2", "#248fd2", "#1a76bd", "#1c5da3", "#1f4785", "#1e3364",
    "#192240",
)  # fmt: skip
DARK = (
    "#1e212b", "#1b315b", "#08477a", "#005f87", "#017892", "#03929b", "#0dac9f", "#44c598", "#8ed594", "#c8e39f",
    "#f5f2be",
)  # fmt: skip

# Okabe and Ito 2008: eight colours that people with any colour vision can tell apart; here those seen on both schemes.
LINES = ("#0072b2", "#d55e00", "#009e73", "#cc79a7", "#e69f00", "#56b4e9")

LEVELS = 20
"""Pages colour by class, one per twentieth: that keeps a cell short and lets light and dark share one page."""


def _channels(color: str) -> tuple[int, int, int]:
    return int(color[1:3], 16), int(color[3:5], 16), int(color[5:7], 16)


def shade(weight: float, ramp: tuple[str, ...] = LIGHT) -> str:
    """The colour `"#rrggbb"` of a weight in 0..1 (clamped) on a ramp of equidistant anchors."""
    place = min(max(weight, 0.0), 1.0) * (len(ramp) - 1)
    below = min(int(place), len(ramp) - 2)
    part = place - below
    pairs = zip(_channels(ramp[below]), _channels(ramp[below + 1]), strict=True)
    return "#" + "".join(f"{round(low + (high - low) * part):02x}" for low, high in pairs)


def _luminance(color: str) -> float:
    """Relative luminance as the Web Content Accessibility Guidelines define it."""
    linear = [c / 12.92 if c <= 0.04045 else ((c + 0.055) / 1.055) ** 2.4 for c in (x / 255 for x in _channels(color))]
    return 0.2126 * linear[0] + 0.7152 * linear[1] + 0.0722 * linear[2]


def contrast(first: str, second: str) -> float:
    """Contrast ratio of two colours, from 1 (equal) to 21 (black on white); text needs 4.5."""
    high, low = sorted((_luminance(first), _luminance(second)), reverse=True)
    return (high + 0.05) / (low + 0.05)


def ink(background: str) -> str:
    """Black or white, whichever reads better on a background."""
    return max("#000000", "#ffffff", key=lambda color: contrast(color, background))


def level(weight: float) -> int:
    """The class of a weight, 0 to `LEVELS`."""
    return round(min(max(weight, 0.0), 1.0) * LEVELS)


def css_variables(ramp: tuple[str, ...]) -> str:
    """Custom properties `--w0: background; --t0: text; ...` for one ramp."""
    colors = [shade(i / LEVELS, ramp) for i in range(LEVELS + 1)]
    return "".join(f"--w{i}:{color};--t{i}:{ink(color)};" for i, color in enumerate(colors))


def paint(text: str, weight: float) -> str:
    """The text on a ground as dark as the weight is small, in terminal colours."""
    background = shade(weight, DARK)
    codes = [";".join(str(int(c[i : i + 2], 16)) for i in (1, 3, 5)) for c in (background, ink(background))]
    return f"\x1b[48;2;{codes[0]}m\x1b[38;2;{codes[1]}m{text}\x1b[0m"
