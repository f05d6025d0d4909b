"""Terminals, and the files that commands read and write."""

from __future__ import annotations

import os
import shutil
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Literal, TextIO

from heed.errors import ConfigError
from heed.storage import outputs
from heed.visible import lines, plain_stream

_ENDINGS = {".html": "html", ".svg": "svg", ".png": "png", ".json": "json", ".txt": "text"}


def use_color() -> bool:
    """Whether stdout is a terminal that wants colour (NO_COLOR and pipes do not)."""
    return sys.stdout.isatty() and "NO_COLOR" not in os.environ and os.environ.get("TERM") != "dumb"


def colors_of_pictures() -> bool | Literal["grey"]:
    """How pictures are drawn on stdout: in 24-bit colour (True), in grey where a terminal does not say it has it."""
    if not use_color():
        return False
    return True if os.environ.get("COLORTERM", "").lower() in ("truecolor", "24bit") else "grey"


def interactive() -> bool:
    """Whether a person can answer."""
    return sys.stdin.isatty() and sys.stdout.isatty()


def width() -> int:
    """Columns of the terminal; 100 in a pipe."""
    return shutil.get_terminal_size((100, 24)).columns


def show(text: object) -> None:
    """Print lines for people: nothing in them is hidden or obeyed by a terminal, whatever they hold."""
    print(lines(str(text)))


def show_drawing(text: str) -> None:
    """Print what was drawn for this terminal, with colours; its labels were made visible where it was drawn."""
    print(text, file=plain_stream(sys.stdout), flush=True)


def form_of(form: str | None, out: Path | None, forms: tuple[str, ...]) -> str:
    """The form that was asked for by --as, else the one that the ending of the file names, else "text".

    Raises:
        ConfigError: The ending names none of the forms.
    """
    if form is not None:
        return form
    if out is None:
        return "text"
    endings = {ending: name for ending, name in _ENDINGS.items() if name in forms}
    if out.suffix not in endings:
        raise ConfigError(f"no format is known for '{out}'; end it in {', '.join(endings)}, or give --as")
    return endings[out.suffix]


@contextmanager
def open_output(path: Path | None) -> Iterator[TextIO]:
    """A file for the output, which gets its name when it is whole; or stdout."""
    if path is None:
        yield sys.stdout
        return
    try:
        with outputs.open_output(path) as file:
            yield file
    except KeyboardInterrupt as error:  # typer, which would catch it, says nothing
        print(f"heed: {'; '.join(['interrupted', *getattr(error, '__notes__', [])])}", file=sys.stderr)
        raise SystemExit(130) from None


def write_output(text: str | bytes, out: Path | None) -> None:
    """Write to a file, or to stdout; bytes go to a file only."""
    if out is None:
        assert isinstance(text, str)
        sys.stdout.write(text)
        return
    outputs.write_outputs({out: text})
    print(f"wrote {out}", file=sys.stderr)
