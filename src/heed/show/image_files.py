"""Drawings as PNG, rendered from their SVG by resvg, and as PDF, by CairoSVG (`pip install 'heed-attention[pdf]'`).

resvg draws nothing without fonts, and an empty box for a character that its fonts lack. So the fonts are chosen here,
checked character by character, and a missing one is an error that says what to install. In a PDF, text stays text.
"""

from __future__ import annotations

import os
import re
import struct
import unicodedata
import zlib
from collections.abc import Iterable, Sequence
from contextlib import suppress
from dataclasses import replace
from functools import cache
from pathlib import Path

import resvg_py
from PIL import ImageFont

from heed.errors import ConfigError
from heed.show.scene import NO_PDF, Label, Scene, to_svg, width_of
from heed.visible import clean
from heed.watch.maps import runs_right_to_left

_FOLDERS = (
    "/usr/share/fonts",
    "/usr/local/share/fonts",
    "~/.local/share/fonts",
    "~/.fonts",
    "~/Library/Fonts",
    "/Library/Fonts",
    "/System/Library/Fonts",
)
_PREFERRED = (
    ("DejaVuSans.ttf", "DejaVuSans-Bold.ttf"),
    ("NotoSans-Regular.ttf", "NotoSans-Bold.ttf"),
    ("Arial.ttf", "Arial Bold.ttf"),
    ("LiberationSans-Regular.ttf", "LiberationSans-Bold.ttf"),
)
"""The fonts that drawings ask for: plain and bold."""
_PACKAGES = {
    "fonts-noto-cjk": ("CJK", "HIRAGANA", "KATAKANA", "HANGUL", "IDEOGRAPHIC", "BOPOMOFO"),
    "fonts-dejavu-core": ("LATIN", "GREEK", "CYRILLIC", "DIGIT"),
}
_SHARPNESS = 2.0
_LARGEST = 32_000
"""Pixels of the longer side: four bytes for each are 4 GB of memory at most."""


def to_png(
    scene: Scene,
    fonts: Sequence[Path] = (),
    *,
    theme: str | None = None,
    width: str | float | None = None,
    scale: float | None = None,
    dpi: float | None = None,
) -> bytes:
    """The drawing as a PNG; equal drawings give equal bytes with the same fonts.

    Args:
        scene: The drawing.
        fonts: Files of fonts to use before those of the system.
        theme: As in `Figure`.
        width: As in `Figure`.
        scale: As in `Figure`.
        dpi: As in `Figure`.

    Raises:
        ConfigError: No font has some character, a given file is not a font, or the picture would be too large.
    """
    if dpi is not None and scale is not None:
        raise ConfigError(f"--dpi {dpi:g} and --scale {scale:g} both say how many pixels there are; omit one of them")
    scale = dpi / 96 if dpi is not None else _SHARPNESS if scale is None else scale
    zoom = scale * (1.0 if width is None else width_of(width)[2] / scene.width)
    tall = zoom * max(scene.width, scene.height)
    if not (scale > 0 and 1 <= tall <= _LARGEST):
        named = f"scale {scale:g}" if dpi is None else f"dpi {dpi:g}"
        raise ConfigError(
            f"{named}: the picture would have {tall:,.0f} pixels on its longer side, expected 1 to {_LARGEST:,}"
        )
    text = "".join(clean(item.text) for item in scene.items if isinstance(item, Label))
    chosen = fonts_for(text, fonts)
    font = _font(chosen[0]) if chosen else None
    family = font.getname()[0] if font else None
    drawn: bytes = resvg_py.svg_to_bytes(
        svg_string=to_svg(scene, theme=theme or "light"),
        zoom=zoom,
        skip_system_fonts=True,
        font_files=[str(path) for path in chosen],
        font_family=family,
        sans_serif_family=family,
    )
    return drawn if dpi is None else _with_dpi(drawn, dpi)


def _with_dpi(png: bytes, dpi: float) -> bytes:
    """A PNG that says how many pixels are an inch, from which programs take its size (PNG specification, pHYs)."""
    chunk = b"pHYs" + struct.pack(">IIB", round(dpi / 0.0254), round(dpi / 0.0254), 1)
    after = 8 + 4 + 4 + 13 + 4  # signature and header
    return png[:after] + struct.pack(">I", 9) + chunk + struct.pack(">I", zlib.crc32(chunk)) + png[after:]


def family_of(path: Path) -> str:
    """The family of a font."""
    font = _font(path)
    return (font and font.getname()[0]) or ""


def fonts_for(text: str, first: Sequence[Path] = ()) -> list[Path]:
    """Files of fonts that together have all characters of a text, the given ones first.

    Raises:
        ConfigError: No font has some character, or a given file is not a font.
    """
    for path in first:
        if not os.path.isfile(path):
            raise ConfigError(f"--font {path}: no such file")
        if _font(path) is None:
            raise ConfigError(f"--font {path} is not a font (.ttf, .otf or .ttc)")
    missing = {character for character in text if unicodedata.category(character)[0] not in "ZCM"}
    system = _system_fonts()
    names = next((pair for pair in _PREFERRED if pair[0] in system), ())
    chosen = [*first, *(system[name] for name in names if name in system)]
    for path in chosen:
        missing -= drawn_by(path, missing)
    for path in sorted(system.values()) if missing else ():
        if added := drawn_by(path, missing):
            chosen.append(path)
            missing -= added
    if missing:
        raise ConfigError(_refusal(missing))
    return chosen


@cache
def _system_fonts() -> dict[str, Path]:
    """The font files of the system by name."""
    roots = [Path(os.path.expanduser(folder)) for folder in reversed(_FOLDERS)]
    return {path.name: path for root in roots for kind in ("otf", "ttc", "ttf") for path in root.rglob(f"*.{kind}")}


@cache
def _font(path: Path) -> ImageFont.FreeTypeFont | None:
    for size in (20, 109):  # fonts of coloured pictures have one size only
        with suppress(OSError):
            return ImageFont.truetype(str(path), size)
    return None


def drawn_by(path: Path, characters: Iterable[str]) -> set[str]:
    """The characters that a font has: those that it does not draw as it draws a character that no font has."""
    if (font := _font(path)) is None:
        return set()
    absent = bytes(font.getmask("\U0010ffff"))
    return {character for character in characters if bytes(font.getmask(character)) != absent}


def _refusal(missing: Iterable[str]) -> str:
    """The script of the first missing character, and what to install."""
    first = min(missing)
    script = unicodedata.name(first, "UNKNOWN").split(" ")[0].split("-")[0]
    package = next((name for name, scripts in _PACKAGES.items() if script in scripts), "fonts-noto-core")
    if unicodedata.category(first) == "So":
        script, package = "emoji and symbols", "fonts-noto-color-emoji"
    script_name = script if script == "CJK" or script.islower() else script.capitalize()
    return (
        f"no font for PNG has the character '{first}' ({script_name}); install fonts for it "
        f"(Debian: apt install {package}), give one with --font FILE, or write .svg or .html"
    )


# PDF -----------------------------------------------------------------------------------------------------------------


def to_pdf(scene: Scene, *, theme: str | None = None, width: str | float | None = None) -> bytes:
    """The drawing as a PDF of one page, as large as the figure; equal drawings give equal bytes with the same fonts.

    Raises:
        ConfigError: CairoSVG or the library cairo is not installed, no font has some character, or a text is of a
            script whose letters join or are written from right to left, which CairoSVG does not shape.
    """
    try:
        from cairosvg import svg2pdf
    except ImportError:
        raise ConfigError(NO_PDF) from None
    except OSError:  # the Python package is there
        raise ConfigError("PDF needs the library cairo (Debian: apt install libcairo2)") from None
    texts = [clean(item.text) for item in scene.items if isinstance(item, Label)]
    for text in texts:
        joined = next((c for c in text if unicodedata.category(c) in ("Mn", "Mc")), "")
        if joined or runs_right_to_left(text):
            raise ConfigError(f"a PDF cannot show the script of '{text}'; write .svg or .png")
    drawn = to_svg(with_families(scene, fonts_for("".join(texts))), theme=theme or "light", width=width)
    # without it, cells of a picture would run into one another
    sharp = drawn.replace("image-rendering:pixelated", "image-rendering:optimizeSpeed")
    content: bytes = svg2pdf(bytestring=sharp.encode())
    return re.sub(rb"/CreationDate \(D:\d{14}", b"/CreationDate (D:20000101000000", content)


def with_families(scene: Scene, fonts: Sequence[Path]) -> Scene:
    """The drawing with the family of each text that the first font has not all characters of.

    Pieces of a text that does not begin at the left are joined: CairoSVG would draw each at the same place.
    """
    items = []
    for item in scene.items:
        if isinstance(item, Label) and item.runs and item.style in ("middle", "end", "row", "number"):
            item = replace(item, text="".join(text for text, _ in item.runs), runs=())
        if isinstance(item, Label) and (missing := {c for c in clean(item.text) if c.strip()}):
            best = max(fonts, key=lambda path: len(drawn_by(path, missing)))  # the first of equal ones
            item = item if best == fonts[0] else replace(item, family=family_of(best))
        items.append(item)
    return replace(scene, items=items)
