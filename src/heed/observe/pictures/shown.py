"""A look at a picture that displays itself: as text, page, drawing, PNG or JSON."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Literal

from heed.observe.pictures.distance import Distances
from heed.observe.pictures.frames import PictureLook, PictureMap, plain_distances, plain_look
from heed.observe.pictures.html import distances_to_html, look_to_html
from heed.observe.pictures.layout import DISTANCE_CAPTION, distance_words, distances_scene, look_scene
from heed.observe.pictures.scene import to_png, to_svg
from heed.observe.pictures.terminal import distances_to_lines, look_to_lines
from heed.observe.shown import Shown, save_as
from heed.visible import to_json

FORMAT = "heed-picture-look-1"


def _forms(shown: Shown) -> dict[str, Callable[[], str | bytes]]:
    return {".html": shown.html, ".svg": shown.svg, ".png": shown.png, ".json": shown.json, ".txt": shown.text}


class ShownPicture(Shown):
    """The result of `run.look(picture)`: a look, shown with or without its steps."""

    def __init__(self, look: PictureLook, steps: bool) -> None:
        self.look = look
        self.steps = steps

    @property
    def maps(self) -> tuple[PictureMap, ...]:
        """The maps over the picture."""
        return self.look.maps

    def text(self, width: int = 100, color: bool | Literal["grey"] = False) -> str:
        """Text for a terminal; `color` "grey" is for terminals with 256 colours."""
        ink: Literal["24-bit", "grey", "none"] = "grey" if color == "grey" else "24-bit" if color else "none"
        return "\n".join(look_to_lines(self.look, steps=self.steps, width=width, ink=ink))

    def html(self) -> str:
        """One self-contained HTML page."""
        return look_to_html(self.look, steps=self.steps)

    def svg(self, index: int | None = None) -> str:
        """The picture and its maps as one SVG image; with an index, only that map."""
        return to_svg(look_scene(self.look if index is None else self.look.only(index)))

    def png(self, index: int | None = None) -> bytes:
        """The drawing of `svg` as a PNG."""
        return to_png(look_scene(self.look if index is None else self.look.only(index)))

    def json(self) -> str:
        """All numbers as JSON with six decimals; no pixels."""
        content = {"format": FORMAT, **plain_look(self.look)}
        return to_json(content, separators=(",", ":")) + "\n"

    def save(self, path: str | Path) -> None:
        """Write .html, .svg, .png, .json or .txt, as the file name says; another ending is a ConfigError."""
        save_as(path, _forms(self))

    def __repr__(self) -> str:
        count = len(self.maps)
        return f"<look at {self.look.source!r}: {count} map{'' if count == 1 else 's'}; print it, or save it as .html>"


class ShownDistances(Shown):
    """The mean attention distance of a model by layer over several pictures, as a plot."""

    def __init__(self, title: str, distances: Distances) -> None:
        self.title = title
        self.distances = distances

    def text(self, width: int = 100, color: bool | Literal["grey"] = False) -> str:
        """A line for each layer."""
        return "\n".join([self.title, "", *distances_to_lines(self.distances, width)])

    def html(self) -> str:
        """One self-contained HTML page."""
        caption = DISTANCE_CAPTION.format(**distance_words(self.distances))
        return distances_to_html(self.title, distances_scene(self.distances, head=False), caption)

    def svg(self, index: int | None = None) -> str:
        """The plot as SVG."""
        return to_svg(distances_scene(self.distances))

    def png(self, index: int | None = None) -> bytes:
        """The plot as a PNG."""
        return to_png(distances_scene(self.distances))

    def json(self) -> str:
        """The numbers as JSON."""
        content = {"format": FORMAT, "title": self.title, "distances": plain_distances(self.distances)}
        return to_json(content, separators=(",", ":")) + "\n"

    def save(self, path: str | Path) -> None:
        """Write .html, .svg, .png, .json or .txt, as the file name says; another ending is a ConfigError."""
        save_as(path, _forms(self))

    def __repr__(self) -> str:
        layers, heads = self.distances.values.shape
        return f"<mean attention distance of {layers} layers of {heads} heads; print it, or save it as .svg>"
