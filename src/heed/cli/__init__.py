"""The command line. Heavy imports happen inside the commands, so that `--help` answers at once."""

from __future__ import annotations

import sys
import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any


def main(arguments: list[str] | None = None) -> None:
    """Run `heed`; errors about the user's input are one line and an exit code, never a traceback."""
    from heed.cli.app import app
    from heed.errors import HeedError

    try:
        with _warnings_in_one_line():
            app(arguments, standalone_mode=True)
    except HeedError as error:
        print(f"heed: {error}", file=sys.stderr)
        sys.exit(error.exit_code)
    except KeyboardInterrupt:
        print("heed: interrupted", file=sys.stderr)
        sys.exit(130)
    except BrokenPipeError:  # the reader of a pipe has gone, as with `heed predict ... | head`
        sys.stderr.close()
        sys.exit(1)


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
