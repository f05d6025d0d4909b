"""Colours of weights: one ramp from 0 to 1, in even steps of perceived lightness.

The anchors were computed in OKLCH with lightness falling (or rising) in equal steps, and are constants here so that the
bytes of a figure depend on nothing else. `LIGHT` is for white paper, `DARK` for dark pages and terminals.
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

# Okabe and Ito 2008: eight colours that people with any colour vision can distinguish; these are visible on both
# schemes.
LINES = ("#0072b2", "#d55e00", "#009e73", "#cc79a7", "#e69f00", "#56b4e9")
_DASHES = ("", "6 3", "2 3", "9 3 2 3")

UP_LIGHT, DOWN_LIGHT = ("#f7fbfc", "#9bd4f2", "#3c9fdc", "#1a6fb4"), ("#fdfaf6", "#fcd3a6", "#f0994a", "#c2600f")
UP_DARK, DOWN_DARK = ("#1e212b", "#0f4a6e", "#1b7fae", "#5fc3e8"), ("#1e212b", "#5e3512", "#a8611d", "#ffa657")
"""Ramps of numbers above and below 0."""

TAGS_LIGHT = ("#aedcf7", "#ffd7a0", "#c5e8b7", "#e3c8f5", "#f7c6cf", "#f4eb9c", "#b8ece4", "#d9d4c7")
TAGS_DARK = ("#0b4f73", "#704300", "#285b1c", "#57347a", "#7d2c41", "#5a5100", "#0c5a52", "#544f43")
"""Background colours of types, reused from the first after the last; each type is also drawn with its name."""

LEVELS = 20
"""Number of CSS classes for weights above 0; classes keep the cells short and serve the light and the dark scheme."""

SIGNED_LEVELS = 10
"""The same for signed numbers, on each side of 0."""


def dashes(number: int) -> str:
    """The dashes of an SVG line, which differ between lines of the same colour; "" for none."""
    return _DASHES[number // len(LINES) % len(_DASHES)]


def _channels(color: str) -> tuple[int, int, int]:
    return int(color[1:3], 16), int(color[3:5], 16), int(color[5:7], 16)


def shade(weight: float, ramp: tuple[str, ...] = LIGHT, grey: bool = False) -> str:
    """The colour `"#rrggbb"` of a weight in 0..1 (clamped) on a ramp of equidistant anchors, or a grey as light."""
    place = min(max(weight, 0.0), 1.0) * (len(ramp) - 1)
    below = min(int(place), len(ramp) - 2)
    part = place - below
    pairs = zip(_channels(ramp[below]), _channels(ramp[below + 1]), strict=True)
    channels = [low + (high - low) * part for low, high in pairs]
    if grey:  # as CSS `grayscale(1)`
        channels = [0.2126 * channels[0] + 0.7152 * channels[1] + 0.0722 * channels[2]] * 3
    return "#" + "".join(f"{round(channel):02x}" for channel in channels)


def inks(grounds: tuple[str, str]) -> tuple[str, str]:
    """`ink` on a ground of each scheme."""
    return ink(grounds[0]), ink(grounds[1])


def _luminance(color: str) -> float:
    """Relative luminance as the Web Content Accessibility Guidelines define it."""
    linear = [c / 12.92 if c <= 0.04045 else ((c + 0.055) / 1.055) ** 2.4 for c in (x / 255 for x in _channels(color))]
    return 0.2126 * linear[0] + 0.7152 * linear[1] + 0.0722 * linear[2]


def contrast(first: str, second: str) -> float:
    """Contrast ratio of two colours, from 1 (equal) to 21 (black on white); text needs 4.5."""
    high, low = sorted((_luminance(first), _luminance(second)), reverse=True)
    return (high + 0.05) / (low + 0.05)


def ink(background: str) -> str:
    """Black or white, whichever has more contrast on a background."""
    return max("#000000", "#ffffff", key=lambda color: contrast(color, background))


def level(weight: float) -> int:
    """Number of the CSS class of a weight, 0 to `LEVELS`."""
    return round(min(max(weight, 0.0), 1.0) * LEVELS)


def css_level(weight: float, signed: bool = False) -> str:
    """The CSS class of a weight, "w0" to "w20"; signed: "a0" to "a10", below 0 "b1" to "b10"."""
    if not signed:
        return f"w{level(weight)}"
    size = round(min(abs(weight), 1.0) * SIGNED_LEVELS)
    return f"{'b' if weight < 0 and size else 'a'}{size}"


def signed_shade(weight: float, dark: bool = False) -> str:
    """The colour of a number in -1..1."""
    up, down = (UP_DARK, DOWN_DARK) if dark else (UP_LIGHT, DOWN_LIGHT)
    return shade(abs(weight), down if weight < 0 else up)


def shades(weight: float, signed: bool = False, grey: bool = False) -> tuple[str, str]:
    """The colours of a weight, or of a number in -1..1, for a light and a dark ground."""
    if signed:
        return signed_shade(weight), signed_shade(weight, dark=True)
    return shade(weight, LIGHT, grey), shade(weight, DARK, grey)


def css_variables(dark: bool) -> str:
    """CSS custom properties of one scheme: each background colour and the colour of text on it.

    `--w0: ...; --t0: ...` for weights, `--a..., --at...` and `--b..., --bt...` for numbers above and below 0, `--c...,
    --ct...` for types.
    """
    weights = [shade(i / LEVELS, DARK if dark else LIGHT) for i in range(LEVELS + 1)]
    parts = [f"--w{i}:{color};--t{i}:{ink(color)};" for i, color in enumerate(weights)]
    for name, sign in (("a", 1), ("b", -1)):
        colors = [signed_shade(sign * i / SIGNED_LEVELS, dark) for i in range(SIGNED_LEVELS + 1)]
        parts += [f"--{name}{i}:{color};--{name}t{i}:{ink(color)};" for i, color in enumerate(colors)]
    tags = TAGS_DARK if dark else TAGS_LIGHT
    return "".join([*parts, *(f"--c{i}:{color};--ct{i}:{ink(color)};" for i, color in enumerate(tags))])


def css_classes() -> str:
    """A CSS class for each level and type: background and text colour."""
    names = [("w", "t", range(LEVELS + 1)), ("c", "ct", range(len(TAGS_LIGHT)))]
    names += [(n, f"{n}t", range(SIGNED_LEVELS + 1)) for n in "ab"]
    return "".join(f".{n}{i}{{background:var(--{n}{i});color:var(--{t}{i})}}" for n, t, levels in names for i in levels)


def paint(text: str, weight: float, signed: bool = False, grey: bool = False) -> str:
    """The text on the background colour of a weight (dark for small weights), with terminal codes."""
    return on_ground(text, shades(weight, signed, grey)[1])


def halves(upper: float | None, lower: float | None) -> str:
    """One character in the colours of two weights, one above the other; None keeps the terminal's background."""
    if upper is None and lower is None:
        return " "
    front, back, sign = (lower, None, "▄") if upper is None else (upper, lower, "▀")
    grounds = [(38, front), *([] if back is None else [(48, back)])]
    codes = [f"\x1b[{kind};2;{';'.join(map(str, _channels(shade(weight or 0.0, DARK))))}m" for kind, weight in grounds]
    return f"{''.join(codes)}{sign}\x1b[0m"


def on_ground(text: str, background: str) -> str:
    """The text on a background colour, with terminal codes."""
    codes = [";".join(str(int(c[i : i + 2], 16)) for i in (1, 3, 5)) for c in (background, ink(background))]
    return f"\x1b[48;2;{codes[0]}m\x1b[38;2;{codes[1]}m{text}\x1b[0m"
