"""A look that displays itself: in a notebook as a page, printed as text, saved as whatever the file name says."""

from __future__ import annotations

import html
from pathlib import Path

from heed.errors import ConfigError
from heed.observe.draw_html import look_to_html
from heed.observe.draw_shading import shading_to_svg
from heed.observe.draw_svg import map_to_svg, vector_to_svg
from heed.observe.draw_text import look_to_text
from heed.observe.frames import Look
from heed.observe.labels import FIXED_VECTOR
from heed.observe.maps import Map
from heed.observe.to_json import look_to_json


class ShownLook:
    """What `run.look(...)` returns.

    Attributes:
        look: The maps and frames.
        steps: Whether every step is shown.
    """

    def __init__(self, look: Look, steps: bool) -> None:
        self.look = look
        self.steps = steps

    @property
    def maps(self) -> tuple[Map, ...]:
        """The attention maps."""
        return self.look.maps

    @property
    def target(self) -> str:
        """The output that was looked at."""
        return self.look.target

    def text(self, width: int = 100, color: bool = False) -> str:
        """As text for a terminal."""
        return look_to_text(self.look, steps=self.steps, width=width, color=color)

    def html(self) -> str:
        """As one self-contained page."""
        return look_to_html(self.look, steps=self.steps)

    def svg(self, index: int = -1) -> str:
        """One map (by default the last) as SVG; the shaded words of a label or of tags; else the one fixed vector."""
        if self.look.shadings:
            return shading_to_svg(self.look.shadings[0])
        if not self.maps and self.look.summary is not None:
            return vector_to_svg(self.look.summary, self.look.title, FIXED_VECTOR)
        return map_to_svg(self.maps[index])

    def json(self) -> str:
        """Everything as JSON."""
        return look_to_json(self.look)

    def save(self, path: str | Path) -> None:
        """Write .html, .svg, .json or .txt, as the file name says.

        Raises:
            ConfigError: Another ending.
        """
        kinds = {".html": self.html, ".svg": self.svg, ".json": self.json, ".txt": self.text}
        ending = Path(path).suffix
        if ending not in kinds:
            raise ConfigError(f"'{path}' ends in '{ending}'; valid: {', '.join(kinds)}")
        Path(path).write_text(kinds[ending](), encoding="utf-8")

    def __str__(self) -> str:
        return self.text()

    def _repr_html_(self) -> str:
        # An iframe keeps the page's style and script apart from the notebook's.
        page = html.escape(self.html(), quote=True)
        return f'<iframe srcdoc="{page}" style="width:100%;height:640px;border:0" title="heed look"></iframe>'
