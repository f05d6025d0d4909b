"""Raw text cut into words, each with its place, for models that were trained on words."""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Sequence
from functools import cache

_PATTERN = (
    r"(?:https?://|www\.)[^\s<>\"]*[^\s<>\".,;:!?')\]]"  # an address
    r"|[@#]\w+"  # a name or a tag of social media
    r"|[\u3040-\u30ff\u3400-\u9fff\uf900-\ufaff]"  # scripts without blanks: each character
    r"|\d+(?:[.,:/]\d+)*%?"
    r"|(?:[^\W\d_]\.){2,}"  # U.S.
    r"|\w+?(?=n['\u2019]t\b)|n['\u2019]t\b"  # do n't
    r"|['\u2019](?:s|m|re|ve|ll|d)\b"  # it 's
    r"|[^\W_](?:[\wMARKS]|-(?=\w)|['\u2019](?!(?:s|m|re|ve|ll|d|t)\b)(?=\w))*"
    r"|\.{2,}|(\S)\1*"
)

_ESCAPED = re.sub(r"\\u([0-9a-f]{4})", lambda found: chr(int(found[1], 16)), _PATTERN)
WORD = "(?i:" + _ESCAPED.replace("MARKS", r"\p{M}") + ")"
"""What `split_words` takes for a word, for the `tokenizers` library, whose expressions know the class of marks."""


@cache
def _pattern() -> re.Pattern[str]:
    """Vowel signs and accents that stand beside their letter are part of the word; `re` has no class for them."""
    marks = "".join(c for c in map(chr, range(0x300, 0x12000)) if unicodedata.category(c) in ("Mn", "Mc"))
    return re.compile(_PATTERN.replace("MARKS", re.escape(marks)), re.IGNORECASE)


def split_words(text: str) -> list[tuple[int, int]]:
    """The spans `(start, end)` of the words and marks of a text.

    Words keep hyphens and apostrophes inside them; English clitics ('s, n't) stand alone, as most corpora have them;
    so does every other mark, repeats of it together. Chinese and Japanese characters are words each.
    """
    return [found.span() for found in _pattern().finditer(text)]


def join_words(words: Sequence[str]) -> tuple[str, list[tuple[int, int]]]:
    """Words with a blank between them, and the span `(start, end)` of each."""
    spans, start = [], 0
    for word in words:
        spans.append((start, start + len(word)))
        start += len(word) + 1
    return " ".join(words), spans
