"""A drawing as a PDF: its SVG, written by CairoSVG (`pip install 'heed-attention[pdf]'`), its text as text."""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

from heed.errors import ConfigError
from heed.show.png import drawn_by, family_of, fonts_for
from heed.show.scene import NO_PDF, Label, Scene, to_svg
from heed.visible import clean
from heed.watch.maps import runs_right_to_left


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
    made: bytes = svg2pdf(bytestring=sharp.encode())
    return re.sub(rb"/CreationDate \(D:\d{14}", b"/CreationDate (D:20000101000000", made)


def with_families(scene: Scene, fonts: Sequence[Path]) -> Scene:
    """The drawing with the family of each text that the first font has not all characters of.

    Pieces of a text that does not begin at the left are joined: CairoSVG would draw each at the same place.
    """
    items = []
    for item in scene.items:
        if isinstance(item, Label) and item.runs and item.style in ("middle", "end", "row", "number"):
            item = replace(item, text="".join(text for text, _ in item.runs), runs=())
        if isinstance(item, Label) and (missing := {c for c in clean(item.text) if c.strip()}):
            most = max(fonts, key=lambda path: len(drawn_by(path, missing)))  # the first of equal ones
            item = item if most == fonts[0] else replace(item, family=family_of(most))
        items.append(item)
    return replace(scene, items=items)
