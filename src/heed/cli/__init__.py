"""The command line. Slow imports happen inside the commands, so that `--help` is fast."""

from __future__ import annotations

import errno
import io
import os
import sys
import warnings
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from typing import Any, NoReturn, TextIO, cast

_REFUSED = {errno.ENOSPC, errno.EDQUOT, errno.EFBIG, errno.EIO, errno.EBADF}
"""Error numbers of a failed write."""


def main(arguments: list[str] | None = None) -> None:
    """Run `heed`; errors in the user's input are reported as one line and an exit code, never a traceback."""
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
        _end(escaped("; ".join([str(error), *_notes(error)])), error.exit_code)  # one line, whatever a name contains
    except KeyboardInterrupt:
        _end("interrupted", 130)
    except BrokenPipeError:  # the reader of a pipe has gone, as with `heed predict ... | head`
        sys.stderr.close()
        sys.exit(1)
    except OSError as error:
        if error.filename is not None and error.strerror:  # a name too long, a folder without permission
            _end(f"cannot use '{os.fsdecode(error.filename)}': {error.strerror}", HeedError.exit_code)
        if error.errno not in _REFUSED:
            _say_memory_or_raise(error)
        _give_up_stdout()
        _end(f"cannot write to stdout: {error.strerror}", DiskError.exit_code)
    except UnicodeEncodeError as error:
        if error.encoding == "utf-8":  # files are UTF-8, so any other encoding is that of stdout
            raise
        _give_up_stdout()
        lacking = f"stdout is {sys.stdout.encoding}, which lacks {error.object[error.start]!a}"
        _end(f"{lacking}; set PYTHONIOENCODING=utf-8", DiskError.exit_code)
    except Exception as error:
        _say_memory_or_raise(error)


def _end(message: str, code: int) -> NoReturn:
    print(f"heed: {message}", file=sys.stderr)
    sys.exit(code)


def _say_memory_or_raise(error: Exception) -> NoReturn:
    """Exit with one line if memory ran out in code without its own message; otherwise raise the error again."""
    from heed.memory import READING, asked_for, explanation, is_memory_error

    if not is_memory_error(error):
        raise error
    memory_error = explanation("in this command", asked_for(error), READING)
    _end("; ".join([str(memory_error), *_notes(error)]), memory_error.exit_code)


@contextmanager
def _visible_streams() -> Iterator[None]:
    """Make control characters visible on stderr, without long words, and on stdout if it is a terminal.

    They may come from a label, the name of a file or a word typed. Output to pipes and files is unchanged, names of
    files that are not UTF-8 included. A closed stdin is empty, a closed stdout refuses what is written.
    """
    from heed.errors import bounded
    from heed.visible import MARKS, VisibleStream

    stdin, out, err = sys.stdin, sys.stdout or _Closed(), sys.stderr
    sys.stdin, sys.stdout = stdin or io.TextIOWrapper(io.BytesIO()), out
    messages = err or open(os.devnull, "w")  # takes file descriptor 2, which no other file may get
    sys.stderr = cast("TextIO", VisibleStream(messages, ignored=(OSError, ValueError), shortened=bounded))
    if isinstance(out, io.TextIOWrapper) and out.errors == "strict":
        out.reconfigure(errors="surrogateescape")
    if out.isatty():  # directional marks are part of Hebrew and Arabic texts, and of maps of such texts
        sys.stdout = cast("TextIO", VisibleStream(out, "\n\t" + MARKS))
    try:
        yield
    finally:
        sys.stdin, sys.stdout, sys.stderr = stdin, out, err
        if messages is not err:
            messages.close()


class _Closed(io.StringIO):
    """Replaces a closed stdout, and refuses writes as it does."""

    def write(self, text: str) -> int:
        raise OSError(errno.EBADF, "it is closed")


def _notes(error: BaseException) -> list[str]:
    """Notes added to an error: where the output written so far is."""
    return getattr(error, "__notes__", [])


@contextmanager
def _flushed() -> Iterator[None]:
    """Flush stdout before the end, while an error can still be reported."""
    try:
        yield
    finally:
        sys.stdout.flush()


def _give_up_stdout() -> None:
    """Discard the rest of stdout's buffer, so that Python does not try to write it, and complain, at exit."""
    with suppress(OSError, ValueError), open(os.devnull, "w") as nowhere:
        os.dup2(nowhere.fileno(), sys.stdout.fileno())


@contextmanager
def _warnings_in_one_line() -> Iterator[None]:
    """Print warnings like heed's errors; those of libraries with the library's name, not with paths and code."""
    from heed.errors import HeedWarning

    def show(message: Warning | str, category: type[Warning], filename: str, *_: Any, **__: Any) -> None:
        text = str(message)
        if not issubclass(category, HeedWarning):
            library = filename.replace("\\", "/").rpartition("-packages/")[2].split("/")[0].removesuffix(".py")
            text = f"warning of {library or 'Python'}: {' '.join(text.split())}"
        print(f"heed: {text}", file=sys.stderr)

    with warnings.catch_warnings():
        warnings.simplefilter("always", HeedWarning)
        warnings.showwarning = show
        yield
