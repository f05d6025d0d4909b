"""The command line. Heavy imports happen inside the commands, so that `--help` answers at once."""

from __future__ import annotations

import sys
import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any, TextIO, cast


def main(arguments: list[str] | None = None) -> None:
    """Run `heed`; errors about the user's input are one line and an exit code, never a traceback."""
    from heed.cli.app import app
    from heed.errors import HeedError
    from heed.visible import escaped

    with _visible_streams():
        try:
            with _warnings_in_one_line():
                app(arguments, standalone_mode=True)
        except HeedError as error:
            print(f"heed: {escaped(str(error))}", file=sys.stderr)  # one line, whatever a name in it holds
            sys.exit(error.exit_code)
        except KeyboardInterrupt:
            print("heed: interrupted", file=sys.stderr)
            sys.exit(130)
        except BrokenPipeError:  # the reader of a pipe has gone, as with `heed predict ... | head`
            sys.stderr.close()
            sys.exit(1)


@contextmanager
def _visible_streams() -> Iterator[None]:
    """Show on stderr, and on stdout where it is a terminal, what a terminal would obey or hide.

    Whatever a message holds: a label, the name of a file, a word typed. What goes into a pipe or a file stays exact.
    """
    from heed.visible import MARKS, VisibleStream

    out, err = sys.stdout, sys.stderr
    sys.stderr = cast("TextIO", VisibleStream(err))
    if out.isatty():  # directional marks are part of Hebrew and Arabic texts, and of maps that hold such
        sys.stdout = cast("TextIO", VisibleStream(out, "\n\t" + MARKS))
    try:
        yield
    finally:
        sys.stdout, sys.stderr = out, err


@contextmanager
def _warnings_in_one_line() -> Iterator[None]:
    """Print heed's own warnings as its errors are printed, and not as Python does, with the line of code."""
    from heed.errors import HeedWarning

    def show(message: Warning | str, category: type[Warning], *place: Any, **more: Any) -> None:
        if issubclass(category, HeedWarning):
            print(f"heed: {message}", file=sys.stderr)
        else:
            usual(message, category, *place, **more)

    with warnings.catch_warnings():
        warnings.simplefilter("always", HeedWarning)
        usual, warnings.showwarning = warnings.showwarning, show
        yield
