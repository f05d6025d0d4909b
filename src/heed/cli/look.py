"""`heed look`."""

from __future__ import annotations

import sys
import tempfile
import webbrowser
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import heed
from heed import folder
from heed.cli.options import options_of, read_as_texts
from heed.cli.terminal import form_of, show_drawing, use_color, width, write_output
from heed.errors import ConfigError
from heed.tasks.base.capabilities import capability
from heed.tasks.base.curves import curves_of
from heed.tasks.base.run import TextRun
from heed.threads import sparing


@dataclass(frozen=True)
class Drawing:
    """The options of `heed look`: what is drawn, and how."""

    steps: bool
    form: str | None
    out: Path | None
    open_it: bool
    mechanism: str | None
    layer: str
    head: str
    force: bool = False
    fonts: tuple[Path, ...] = ()


@sparing()
def run_look(name: str, texts: list[str], flags: dict[str, Any], drawing: Drawing) -> None:
    """Draw a look, or without a text the curves of training, in the terminal; or write it to a file or stdout."""
    out, form = drawing.out, form_of(drawing.form, drawing.out, ("html", "svg", "png", "json", "text"))
    if drawing.open_it:
        if form != "html" and (drawing.form is not None or out is not None):
            raise ConfigError(f"--open shows an HTML page, not {form}; omit --as, and end --out in .html")
        form = "html"
    if drawing.fonts and form != "png":
        raise ConfigError("--font is for PNG; end --out in .png")
    if not texts:
        _refuse_options_of_a_text(flags, drawing)
        shown: Any = curves_of(folder.find(name, folder.State.BEGUN), force=drawing.force)
    else:
        shown = _look(name, texts, flags, drawing)
    if form == "text" and out is None:
        show_drawing(shown.text(width(), use_color()))
        return
    drawn = shown.png(fonts=drawing.fonts) if form == "png" else getattr(shown, form)()
    if drawing.open_it and out is None:
        out = Path(tempfile.mkdtemp(prefix="heed-")) / "look.html"
    write_output(drawn, out)
    if drawing.open_it and out is not None:
        webbrowser.open(out.absolute().as_uri())


def _look(name: str, texts: list[str], flags: dict[str, Any], drawing: Drawing) -> Any:
    run = heed.load(name, force=drawing.force)
    if isinstance(run, TextRun):
        for _, line in read_as_texts(texts):
            print(f"heed: {line}", file=sys.stderr)
    typed = run.typed(texts) if isinstance(run, TextRun) else texts
    several = getattr(run, "looks_at_several", False)
    if len(typed) != 1 and not several:
        raise ConfigError(f"look takes one text, but {len(typed)} were given; put a text with spaces in quotes")
    layer, head = drawing.layer, drawing.head
    return capability(run, "look").look(
        typed[0] if len(typed) == 1 else typed,
        steps=drawing.steps,
        mechanism=drawing.mechanism,
        layer="all" if layer == "all" else _number("layer", layer, "a number or all"),
        head=head if head in ("mean", "all") else _number("head", head, "a number, mean or all"),
        **options_of(run.config.task, "look", flags),
    )


def _refuse_options_of_a_text(flags: dict[str, Any], drawing: Drawing) -> None:
    """Refuse options that need a text."""
    plain = {"steps": False, "mechanism": None, "layer": "-1", "head": "mean"}
    given = [name for name, value in plain.items() if getattr(drawing, name) != value] + list(flags)
    if given:
        raise ConfigError(
            f"--{given[0]} needs a text to look at (without one, the training curves are drawn); give the text "
            "after the run"
        )


def _number(name: str, text: str, words: str) -> int:
    try:
        return int(text)
    except ValueError:
        raise ConfigError(f"--{name} is '{text}'; give {words}") from None
