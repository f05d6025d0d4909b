"""The command line. Heavy imports happen inside the commands, so that `--help` answers at once."""

from __future__ import annotations

import sys


def main(arguments: list[str] | None = None) -> None:
    """Run `heed`; errors about the user's input are one line and an exit code, never a traceback."""
    from heed.cli.app import app
    from heed.errors import HeedError

    try:
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
