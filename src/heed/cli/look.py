"""`heed look`."""

from __future__ import annotations

import sys
import tempfile
import webbrowser
from pathlib import Path
from typing import Any

import heed
from heed.cli.terminal import use_color, width
from heed.errors import ConfigError
from heed.tasks.translation.run import TranslationRun

__all__ = ["run_look"]

_ENDINGS = {".html": "html", ".svg": "svg", ".json": "json", ".txt": "text"}


def run_look(
    name: str,
    text: str,
    target: str | None,
    steps: bool,
    form: str,
    out: Path | None,
    open_it: bool,
    beam: int | None,
    mechanism: str | None,
    layer: str,
    head: str,
) -> None:
    """Draw a look in the terminal, or write it to a file or stdout."""
    if out is not None and form == "text":
        if out.suffix not in _ENDINGS:
            raise ConfigError(f"'{out}' does not say how to draw; end it in {', '.join(_ENDINGS)}, or give --as")
        form = _ENDINGS[out.suffix]
    if open_it:
        if form not in ("text", "html"):
            raise ConfigError(f"--open shows a page, and --as {form} is none")
        form = "html"
    run = heed.load(name)
    options: dict[str, Any] = {}
    if isinstance(run, TranslationRun):
        options["beam_size"] = beam
    elif beam is not None:
        raise ConfigError(f"--beam does not apply to a run of {run.config.task}")
    shown = run.look(
        text,
        target=target,
        steps=steps,
        mechanism=mechanism,
        layer="all" if layer == "all" else _number("layer", layer, "all"),
        head=head if head in ("mean", "all") else _number("head", head, "mean or all"),  # type: ignore[arg-type]
        **options,
    )
    if form == "text" and out is None:
        print(shown.text(width(), use_color()))
        return
    drawn = {"html": shown.html, "svg": shown.svg, "json": shown.json, "text": shown.text}[form]()
    if open_it and out is None:
        out = Path(tempfile.mkdtemp(prefix="heed-")) / "look.html"
    if out is None:
        sys.stdout.write(drawn)
        return
    out.write_text(drawn, encoding="utf-8")
    print(f"wrote {out}", file=sys.stderr)
    if open_it:
        webbrowser.open(out.absolute().as_uri())


def _number(name: str, text: str, words: str) -> int:
    try:
        return int(text)
    except ValueError:
        raise ConfigError(f"--{name} is '{text}'; give a number or {words}") from None
