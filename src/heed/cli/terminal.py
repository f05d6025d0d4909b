"""Output of commands: terminals, files and drawings."""

from __future__ import annotations

import os
import shutil
import sys
import tempfile
import webbrowser
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, TextIO

from heed.cli.options import Drawing
from heed.errors import ConfigError
from heed.show.scene import check_figure
from heed.storage import disk
from heed.visible import escaped, lines, plain_stream

_ENDINGS = {".html": "html", ".svg": "svg", ".png": "png", ".pdf": "pdf", ".json": "json", ".txt": "text"}


def use_color() -> bool:
    """True if stdout is a terminal with colour (not with NO_COLOR, and not a pipe)."""
    return sys.stdout.isatty() and "NO_COLOR" not in os.environ and os.environ.get("TERM") != "dumb"


def interactive() -> bool:
    """True if the user can be asked for input."""
    return sys.stdin.isatty() and sys.stdout.isatty()


def width() -> int:
    """Columns of the terminal; 100 in a pipe."""
    return shutil.get_terminal_size((100, 24)).columns


def show(text: object) -> None:
    """Print lines with all control characters made visible."""
    print(lines(str(text)))


def show_drawing(text: str) -> None:
    """Print a drawing with colours; control characters in its labels must have been made visible already."""
    print(text, file=plain_stream(sys.stdout), flush=True)


def form_of(form: str | None, out: Path | None, forms: tuple[str, ...]) -> str:
    """The format given by --as, else by the ending of the file, else "text".

    Raises:
        ConfigError: The ending is of none of the formats, or the path is wrong.
        DiskError: Nothing can be written there.
    """
    disk.check_output(out)
    if form is not None:
        return form
    if out is None:
        return "text"
    endings = {ending: name for ending, name in _ENDINGS.items() if name in forms}
    if out.suffix not in endings:
        raise ConfigError(
            f"cannot tell the format of '{out}' from its ending; end it in {', '.join(endings)}, or give --as"
        )
    return endings[out.suffix]


@contextmanager
def open_output(path: Path | None) -> Iterator[TextIO]:
    """A file for the output, which gets its name when it is complete; or stdout."""
    if path is None:
        yield sys.stdout
        return
    try:
        with disk.open_output(path) as file:
            yield file
    except KeyboardInterrupt as error:  # typer would catch it without a message
        print(f"heed: {'; '.join(['interrupted', *getattr(error, '__notes__', [])])}", file=sys.stderr)
        raise SystemExit(130) from None


def write_output(text: str | bytes, out: Path | None) -> None:
    """Write to a file, or to stdout; bytes go to a file only."""
    if out is None:
        assert isinstance(text, str)
        sys.stdout.write(text)
        return
    disk.write_outputs({out: text})
    print(f"wrote {out}", file=sys.stderr)


def say(messages: Iterable[str]) -> None:
    """Print messages on stderr, one line each whatever a name in them contains, without empty ones."""
    for message in filter(None, messages):
        print(f"heed: {escaped(message)}", file=sys.stderr)


def drawing_form(drawing: Drawing) -> str:
    """The format of a drawing.

    Raises:
        ConfigError: Options contradict one another.
    """
    form = form_of(drawing.form, drawing.out, ("html", "svg", "png", "pdf", "json", "text"))
    if drawing.open_it:
        if form != "html" and (drawing.form is not None or drawing.out is not None):
            raise ConfigError(f"--open shows an HTML page, not {form}; omit --as, and end --out in .html")
        form = "html"
    check_figure(drawing.figure(), form)
    return form


def write_drawing(drawing: Drawing, shown: Any) -> None:
    """Draw in the terminal, or write to the file or stdout."""
    form, out = drawing_form(drawing), drawing.out
    if form == "text" and out is None:
        show_drawing(shown.text(width(), use_color()))
        return
    drawn = getattr(shown, form)(**drawing.figure())
    if drawing.open_it and out is None:
        out = Path(tempfile.mkdtemp(prefix="heed-")) / "look.html"
    write_output(drawn, out)
    if drawing.open_it and out is not None:
        webbrowser.open(out.absolute().as_uri())
