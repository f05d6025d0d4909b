"""Lines of a file or of stdin as they stand."""

from __future__ import annotations

import sys
from pathlib import Path

from heed.errors import ConfigError


def read_lines(path: Path | None) -> list[str]:
    """Lines of a file or of stdin, without their line ends; nothing else is stripped.

    Raises:
        ConfigError: The file is missing or is not UTF-8; the message names file, line and byte.
    """
    try:
        data = sys.stdin.buffer.read() if path is None else path.read_bytes()
    except OSError as error:
        raise ConfigError(f"cannot read '{path}': {error.strerror}") from None
    if not data:
        return []
    lines = []
    for number, raw in enumerate(data.removeprefix(b"\xef\xbb\xbf").removesuffix(b"\n").split(b"\n"), start=1):
        line = raw.removesuffix(b"\r")
        try:
            lines.append(line.decode("utf-8"))
        except UnicodeDecodeError as error:
            byte = line[error.start]
            where = "stdin" if path is None else f"'{path}'"
            raise ConfigError(f"{where} line {number}: byte 0x{byte:02x} at {error.start + 1} is not UTF-8") from None
    return lines
