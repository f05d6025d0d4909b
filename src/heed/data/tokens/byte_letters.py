"""The printable letters by which the `tokenizers` library represents bytes, as GPT-2's code did.

Printable characters of Latin-1 represent themselves; the 68 other bytes are U+0100 and the characters after it.

A token of bytes may be part of a character: outputs that end within a character show U+FFFD, and where tokens are shown
one by one, such bytes are shown by number in angle brackets. The words of a look are whole characters.
"""

from __future__ import annotations

import codecs
from collections.abc import Iterable

_PRINTABLE = {*range(0x21, 0x7F), *range(0xA1, 0xAD), *range(0xAE, 0x100)}


def _letters() -> str:
    others = iter(range(0x100, 0x200))
    return "".join(chr(byte if byte in _PRINTABLE else next(others)) for byte in range(256))


LETTERS = _letters()
"""The letter of each byte."""
BYTES = {letter: byte for byte, letter in enumerate(LETTERS)}
"""The byte of each letter."""


def _shown(error: UnicodeError) -> tuple[str, int]:
    assert isinstance(error, UnicodeDecodeError)
    return "".join(f"\u27e8{byte:02x}\u27e9" for byte in error.object[error.start : error.end]), error.end


codecs.register_error("heed-bytes", _shown)


def readable(raw: bytes) -> str:
    """Bytes as text; those that are not UTF-8, such as parts of a character, by number: \u27e8e2\u27e9."""
    return raw.decode("utf-8", "heed-bytes")


def whole_characters(tokens: Iterable[bytes]) -> list[range]:
    """The indices of tokens, given by their bytes, in groups of whole characters; a token without bytes is alone."""
    groups, start, waiting, n = [], 0, b"", -1
    for n, raw in enumerate(tokens):
        if waiting and not (raw and 0x80 <= raw[0] < 0xC0):  # an incomplete character that this token does not continue
            groups.append(range(start, n))
            start, waiting = n, b""
        waiting = _unfinished(waiting + raw)
        if not waiting:
            groups.append(range(start, n + 1))
            start = n + 1
    return [*groups, range(start, n + 1)] if waiting else groups


def _unfinished(raw: bytes) -> bytes:
    """The last bytes if they are the beginning of an incomplete character, else none."""
    for size in range(1, min(3, len(raw)) + 1):
        byte = raw[-size]
        if byte >= 0xC0:
            needed = 2 if byte < 0xE0 else 3 if byte < 0xF0 else 4
            return raw[-size:] if size < needed else b""
        if byte < 0x80:
            return b""
    return b""
