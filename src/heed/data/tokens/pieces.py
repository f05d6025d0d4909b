"""Tokens as text: punctuation marks, joined word pieces, texts with masks."""

from __future__ import annotations

import json
import re
import unicodedata
from collections.abc import Iterable

from tokenizers import Tokenizer

from heed.data.tokens.special import BLANK, CONTINUED, MASK, SIGNS

_BEFORE, _AFTER = re.compile(r" (?=[.,:;!?%)\]}\u2026\u3002\uff0c])"), re.compile(r"(?<=[(\[{$\u00bf\u00a1]) ")
"""Spaces to leave out: before the first kind of marks, and after the second."""
_INSIDE = re.compile(r"(?<=\w) (['\u2019]) (?=\w)")
"""An apostrophe within a word."""


def is_mark(text: str) -> bool:
    """True if a token is one punctuation mark (vowel signs of Indian scripts are not)."""
    return len(text) == 1 and text != BLANK and (text in SIGNS or unicodedata.category(text).startswith("P"))


def joined(pieces: Iterable[str]) -> str:
    """Word pieces as text: spaces between words, except next to marks where English has none."""
    text = "".join(piece.removeprefix(CONTINUED) if is_continued(piece) else f" {piece.strip()}" for piece in pieces)
    return _INSIDE.sub(r"\1", _AFTER.sub("", _BEFORE.sub("", text))).strip()


def is_continued(piece: str) -> bool:
    """True if a word piece continues the word before it ("##" alone is two characters of a text)."""
    return piece.startswith(CONTINUED) and piece != CONTINUED


def around_masks(text: str, mask: str, with_blank: bool) -> list[str]:
    """The parts of a text between its masks, "[MASK]" or `mask`; `with_blank` removes the spaces before each mask."""
    names = "|".join(map(re.escape, {MASK, mask}))
    return re.split(rf"\s*(?:{names})" if with_blank else names, text)


def without_prefix(library: Tokenizer) -> Tokenizer:
    """The tokenizer without the space that it prepends to texts; unchanged if it prepends none."""
    state = json.loads(library.to_str())
    cutter = state["pre_tokenizer"] or {}
    first = cutter["pretokenizers"][0] if cutter.get("type") == "Sequence" else cutter
    if first.get("type") != "Metaspace" or first["prepend_scheme"] == "never":
        return library
    first["prepend_scheme"] = "never"
    result = Tokenizer.from_str(json.dumps(state))
    result.encode_special_tokens = True
    return result
