"""The command line. Heavy imports happen inside the commands, so that `--help` answers at once."""

from __future__ import annotations

import errno
import os
import sys
import warnings
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from typing import Any, NoReturn, TextIO, cast

_REFUSED = {errno.ENOSPC, errno.EDQUOT, errno.EFBIG, errno.EIO}
"""What systems answer that cannot write."""


def main(arguments: list[str] | None = None) -> None:
    """Run `heed`; errors about the user's input are one line and an exit code, never a traceback."""
    with _visible_streams():
        _run(arguments)


def _run(arguments: list[str] | None) -> None:
    from heed.cli.app import app
    from heed.errors import DiskError, HeedError
    from heed.visible import escaped

    try:
        with _warnings_in_one_line(), _flushed():
            app(arguments, standalone_mode=True)
    except HeedError as error:
        text = escaped("; ".join([str(error), *_notes(error)]))  # one line, whatever a name in it holds
        print(f"heed: {text}", file=sys.stderr)
        sys.exit(error.exit_code)
    except KeyboardInterrupt:
        print("heed: interrupted", file=sys.stderr)
        sys.exit(130)
    except BrokenPipeError:  # the reader of a pipe has gone, as with `heed predict ... | head`
        sys.stderr.close()
        sys.exit(1)
    except OSError as error:
        if error.filename is not None or error.errno not in _REFUSED:
            _say_memory_or_raise(error)
        _give_up_stdout()
        print(f"heed: cannot write to stdout: {error.strerror}", file=sys.stderr)
        sys.exit(DiskError.exit_code)
    except Exception as error:
        _say_memory_or_raise(error)


def _say_memory_or_raise(error: Exception) -> NoReturn:
    """End with one line where memory ran out in what explains nothing itself."""
    from heed.memory import READING, asked_for, explanation, is_memory_error

    if not is_memory_error(error):
        raise error
    said = explanation("in this command", asked_for(error), READING)
    print(f"heed: {'; '.join([str(said), *_notes(error)])}", file=sys.stderr)
    sys.exit(said.exit_code)


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


def _notes(error: BaseException) -> list[str]:
    """What was added to an error on its way: where the output so far is."""
    return getattr(error, "__notes__", [])


@contextmanager
def _flushed() -> Iterator[None]:
    """Write what is buffered for stdout before the end, where an error can still be told."""
    try:
        yield
    finally:
        sys.stdout.flush()


def _give_up_stdout() -> None:
    """Send what stdout did not take nowhere, so that Python does not try again, and complain, when it ends."""
    with suppress(OSError, ValueError), open(os.devnull, "w") as nowhere:
        os.dup2(nowhere.fileno(), sys.stdout.fileno())


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
