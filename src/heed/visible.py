"""Safe display of users' text: invisible characters, terminal controls and directional overrides are made visible.

Labels, tags, columns, names of files and texts may contain any Unicode character: an escape sequence that sets the
title of a terminal or clears it, an override that reverses the rest of a line, a zero-width character in which two
labels that look the same differ. `clean` is for drawings, where a character stays one character; `escaped` is for
messages and for output of commands, where the character must be identifiable.

Left unchanged: joiners where the script needs them (Persian, Indic scripts, emoji), one variation selector after a
character, and combining marks.

Sources: Unicode 15.1, `Default_Ignorable_Code_Point`; UAX #9, section 2 (directional formatting characters); RFC 5892,
appendices A.1 and A.2 (where joiners are needed); ECMA-48 (control functions; C1 has ESC [ and ESC ] in one character).
"""

from __future__ import annotations

import json
import re
import shlex
import unicodedata
from collections.abc import Callable, Iterable
from contextlib import suppress
from functools import partial
from pathlib import Path
from typing import Any, TextIO

MARKS = "\u061c\u200e\u200f"
"""Directional marks: they have no width and affect only the order of their neighbours."""

_JOINERS = "\u200c\u200d"
_SELECTORS = "\ufe00-\ufe0f\U000e0100-\U000e01ef"
_HIDDEN = re.compile(
    "[\\x00-\\x1f\\x7f-\\x9f"  # C0, DEL and C1
    "\u00ad\u034f\u061c\u070f\u115f\u1160\u17b4\u17b5\u180b-\u180f"
    "\u200b-\u200f\u2028-\u202e\u2060-\u206f"
    f"\u3164{_SELECTORS}\ufeff\uffa0\ufff0-\ufffb"
    "\\ud800-\\udfff\ufdd0-\ufdef\ufffe\uffff"
    "\U0001bca0-\U0001bca3\U0001d173-\U0001d17a\U000e0000-\U000e00ff\U000e01f0-\U000e0fff]"
)
_SELECTOR = re.compile(f"[{_SELECTORS}]")
_REPLACEMENT = "\ufffd"
_VIRAMA = 9
"""The canonical combining class of viramas, the signs that remove the vowel of an Indic consonant."""
_JOINING = frozenset({"ARABIC", "SYRIAC", "MONGOLIAN", "NKO", "MANDAIC"})


def clean(text: str) -> str:
    """Replace each hidden character by a visible one: a control picture (U+240A for line feed) or U+FFFD."""
    return _HIDDEN.sub(lambda match: match[0] if _is_needed(match) else _picture(match[0]), text)


def escaped(text: str, keep: str = "") -> str:
    r"""Replace hidden characters by Python's escapes: `\x1b`, `\u202e`.

    Args:
        text: Any text.
        keep: Characters that stay, such as "\n" in a text of several lines.
    """

    def shown(match: re.Match[str]) -> str:
        return match[0] if match[0] in keep or _is_needed(match) else _code(match[0])

    return _HIDDEN.sub(shown, text)


def lines(text: str) -> str:
    """A text of several lines, `escaped` except for line ends and tabs."""
    return escaped(text, "\n\t")


def visible(label: str) -> str:
    """A visible label: outer spaces as U+2423, other outer blanks as U+237D, a lone mark on a dotted circle."""
    text = clean(label)
    if not text:
        return "\u2205"
    if all(unicodedata.category(c) in {"Mn", "Me", "Mc", "Cf"} for c in text):
        return "\u25cc" + "".join(c for c in text if unicodedata.category(c) != "Cf")
    left = len(text) - len(text.lstrip())
    right = max(left, len(text.rstrip()))
    blanks = {i: "\u2423" if text[i] == " " else "\u237d" for i in (*range(left), *range(right, len(text)))}
    return "".join(blanks.get(i, c) for i, c in enumerate(text))


def to_json(value: Any, indent: int | None = None, separators: tuple[str, str] | None = None) -> str:
    """A value as JSON: letters unescaped, hidden characters as JSON escapes.

    Numbers that are not finite, which JSON cannot express, become null.
    """
    write = partial(json.dumps, ensure_ascii=False, allow_nan=False, indent=indent, separators=separators)
    try:
        text = write(value)
    except ValueError:
        text = write(json.loads(json.dumps(value), parse_constant=lambda _: None))
    return _HIDDEN.sub(_in_json, text)


def _in_json(match: re.Match[str]) -> str:
    # json has escaped C0 in strings; outside them its only hidden character is the line end of an indent.
    return match[0] if match[0] == "\n" or _is_needed(match) else json.dumps(match[0])[1:-1]


def markdown(text: str) -> str:
    """Escape one line of text for Markdown, so that tags, links and emphasis in it have no effect."""
    return re.sub(r"([\\`*_{}\[\]()<>#+!|~&$])", r"\\\1", escaped(text))


def code_span(text: str) -> str:
    """One line of text as a Markdown code span, with any backticks in it."""
    shown = escaped(text)
    longest = max((len(run) for run in re.findall("`+", shown)), default=0)
    fence, blank = "`" * (longest + 1), " " if "`" in shown else ""
    return f"{fence}{blank}{shown}{blank}{fence}"


def shell_word(word: str | Path) -> str:
    """Quote a word for a shell; "./" goes before a path that begins with a dash, so that it is not an option."""
    text = f"./{word}" if isinstance(word, Path) and str(word).startswith("-") else str(word)
    if escaped(text) == text:
        return shlex.quote(text)
    parts = (f"\\{c}" if c in "\\'" else c if c.isprintable() else _bytes(c) for c in text)
    return f"$'{''.join(parts)}'"


class VisibleStream:
    """A text stream that makes control characters visible; `plain` is the underlying stream.

    Other libraries' progress bars may still return to the start of their line and move up a line.
    """

    def __init__(
        self,
        plain: TextIO,
        keep: str = "\n\t",
        ignored: tuple[type[Exception], ...] = (),
        shortened: Callable[[str], str] = str,
    ) -> None:
        """Characters of `keep` stay as they are; `ignored` errors of the stream have no effect."""
        self.plain = plain
        self._keep, self._ignored, self._shortened = keep, ignored, shortened

    def write(self, text: str) -> int:
        """Write a text through `escaped`."""
        start = _MOVES.match(text)
        assert start is not None  # it also matches the empty string
        with suppress(*self._ignored):
            self.plain.write(start[0] + self._shortened(escaped(text[start.end() :], self._keep)))
        return len(text)

    def flush(self) -> None:
        """Flush the stream."""
        with suppress(*self._ignored):
            self.plain.flush()

    def writelines(self, texts: Iterable[str]) -> None:
        """Write texts one after the other."""
        for text in texts:
            self.write(text)

    def __getattr__(self, name: str) -> Any:
        """Delegate everything else to the underlying stream."""
        return getattr(self.plain, name)


_MOVES = re.compile(r"\r|\n*(\x1b\[A)+\Z|")


def plain_stream(stream: Any) -> Any:
    """The stream under a `VisibleStream`, for output with its own escape sequences; any other stream unchanged."""
    return stream.plain if isinstance(stream, VisibleStream) else stream


def _is_needed(match: re.Match[str]) -> bool:
    """True for a joiner or selector in a place where the script needs it."""
    text, at = match.string, match.start()
    before = text[at - 1] if at else ""
    if not before:
        return False
    if _SELECTOR.match(match[0]):
        return not before.isspace() and not _HIDDEN.match(before)
    if match[0] not in _JOINERS:
        return False
    if unicodedata.combining(before) == _VIRAMA:
        return True
    after = text[at + 1 : at + 2]
    if match[0] == "\u200d":  # an emoji made of several, such as a family; the selector is part of the first
        return _is_emoji(text[at - 2 : at - 1] if before == "\ufe0f" else before) and _is_emoji(after)
    return _joins(before) and _joins(after)


def _is_emoji(character: str) -> bool:
    return bool(character) and (unicodedata.category(character) == "So" or "\U0001f3fb" <= character <= "\U0001f3ff")


def _joins(character: str) -> bool:
    """True for a letter, or a mark on one, of a script whose letters join."""
    return (
        bool(character)
        and unicodedata.category(character)[0] in "LM"
        and unicodedata.name(character, "").split(" ")[0] in _JOINING
    )


def _picture(character: str) -> str:
    code = ord(character)
    if code < 0x20:
        return chr(0x2400 + code)  # Unicode's own pictures of the control characters
    if code == 0x7F:
        return "\u2421"
    return "\u2424" if character in "\u2028\u2029" else _REPLACEMENT


def _code(character: str) -> str:
    return character.encode("unicode_escape").decode("ascii")


def _bytes(character: str) -> str:
    """A character as shell escapes of its bytes, with three digits, so that a following digit is not taken for part."""
    errors = "surrogateescape" if "\udc80" <= character <= "\udcff" else "surrogatepass"
    return "".join(f"\\{byte:03o}" for byte in character.encode("utf-8", errors))
