"""Documents cut into sentences."""

from __future__ import annotations

import re

_BREAKS = re.compile(r"\s*(?:<br\s*/?>|[\n\r\u2028\u2029])\s*", re.IGNORECASE)
_ENDS = re.compile(  # group 1: the first character of the next sentence
    r"(?<=[.!?\u2026])[\"'\u201d\u2019)\]]*\s+(?=[\"'\u201c\u2018(\[]*([^\W_]))"  # "... it." He | end! (Then
    r"|(?<=[\u3002\uff01\uff1f\u0964\u06d4\u061f\u1362])\s*"  # full stops of scripts without spaces or capitals
)
_NO_END = re.compile(r"(?:\b(?:mr|mrs|ms|dr|prof|st|vs|etc|no|jr|sr|inc|e\.g|i\.e)|\b[A-Z])\.$", re.IGNORECASE)


def without_breaks(text: str) -> str:
    """A text with a space for each line break and `<br />`, for models that do not read sentence by sentence."""
    return _BREAKS.sub(" ", text)


def is_blank(text: str) -> bool:
    """True if a text contains nothing but spaces and breaks."""
    return not without_breaks(text).strip()


def split_sentences(text: str, separator: str | None = None) -> list[tuple[int, int]]:
    """The spans `(start, end)` of the sentences of a document, in order, none blank.

    Without a separator, texts are cut at line breaks and `<br />`; after . ! ? ... followed by spaces and a letter or
    digit that is not lowercase, except after an initial or a common abbreviation; and after the full stops of Chinese,
    Japanese, Hindi, Urdu, Arabic and Amharic.
    """
    spans: list[tuple[int, int]] = []
    breaks = re.compile(re.escape(separator)) if separator is not None else _BREAKS
    start = 0
    for found in [*breaks.finditer(text), None]:
        end = len(text) if found is None else found.start()
        spans += [(start, end)] if separator is not None else _within(text, start, end)
        start = end if found is None else found.end()
    trimmed = []
    for start, end in spans:
        inside = text[start:end]
        start += len(inside) - len(inside.lstrip())
        end -= len(inside) - len(inside.rstrip())
        if start < end:
            trimmed.append((start, end))
    return trimmed


def _within(text: str, start: int, end: int) -> list[tuple[int, int]]:
    """The sentences between two breaks."""
    spans = []
    begin = start
    for found in _ENDS.finditer(text, start, end):
        if found.end() == begin or (found[1] or "").islower() or _NO_END.search(text[begin : found.start()]):
            continue
        spans.append((begin, found.end()))
        begin = found.end()
    return [*spans, (begin, end)]
