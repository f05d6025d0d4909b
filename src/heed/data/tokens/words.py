"""Raw text cut into words with their spans, for models that were trained on words."""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Sequence
from functools import cache

_PATTERN = (
    r"(?:https?://|www\.)[^\s<>\"]*[^\s<>\".,;:!?')\]]"  # an address
    r"|[@#]\w+"  # a name or a tag of social media
    r"|[\u3040-\u30ff\u3400-\u9fff\uf900-\ufaff]"  # scripts without spaces: each character
    r"|\d+(?:[.,:/]\d+)*%?"
    r"|(?:[^\W\d_]\.){2,}"  # U.S.
    r"|\w+?(?=n['\u2019]t\b)|n['\u2019]t\b"  # do n't
    r"|['\u2019](?:s|m|re|ve|ll|d)\b"  # it 's
    r"|[^\W_](?:[\wMARKS]|-(?=\w)|['\u2019](?!(?:s|m|re|ve|ll|d|t)\b)(?=\w))*"
    r"|\.{2,}|(\S)\1*"
)

_ESCAPED = re.sub(r"\\u([0-9a-f]{4})", lambda found: chr(int(found[1], 16)), _PATTERN)
WORD = "(?i:" + _ESCAPED.replace("MARKS", r"\p{M}") + ")"
"""The words of `split_words` as an expression for the `tokenizers` library, which knows the class of marks."""


@cache
def _pattern() -> re.Pattern[str]:
    """The expression with all vowel signs and accents, which are part of a word; `re` has no class for them."""
    marks = "".join(c for c in map(chr, range(0x300, 0x12000)) if unicodedata.category(c) in ("Mn", "Mc"))
    return re.compile(_PATTERN.replace("MARKS", re.escape(marks)), re.IGNORECASE)


def split_words(text: str) -> list[tuple[int, int]]:
    """The spans `(start, end)` of the words and marks of a text.

    Words keep hyphens and apostrophes inside them; English clitics ('s, n't) are separate words, as in most corpora; so
    is every other mark, together with repeats of it. Each Chinese or Japanese character is a word.
    """
    return [found.span() for found in _pattern().finditer(text)]


def join_words(words: Sequence[str]) -> tuple[str, list[tuple[int, int]]]:
    """Words joined by spaces, and the span `(start, end)` of each."""
    spans, start = [], 0
    for word in words:
        spans.append((start, start + len(word)))
        start += len(word) + 1
    return " ".join(words), spans
