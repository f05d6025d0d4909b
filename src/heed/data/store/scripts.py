"""Scripts of texts, including right-to-left ones, and hidden control characters.

A script is named by the first word of its letters' Unicode names, a compatibility form by that of its base letter.
"""

from __future__ import annotations

import sys
import unicodedata
from collections.abc import Collection, Sequence
from functools import cache

import numpy as np

from heed.data.read.findings import Found

_BIDI = frozenset("\u061c\u200e\u200f\u202a\u202b\u202c\u202d\u202e\u2066\u2067\u2068\u2069")


@cache
def script_of(character: str) -> str:
    """The script of a letter, such as "Latin", "Cyrillic", "CJK"; "" for other characters."""
    if unicodedata.category(character) not in ("Lu", "Ll", "Lt", "Lo"):
        return ""
    plain = unicodedata.normalize("NFKC", character)[0]
    name = unicodedata.name(plain, "").partition(" ")[0]
    return name if name == "CJK" else name.capitalize()


class Scripts:
    """The scripts of one side of a set, collected text by text.

    Texts are counted only for scripts that run right to left or are not `known`; most texts have neither, which is
    checked for many at once.

    Attributes:
        texts: Script -> count and first places of texts with its letters (other scripts are only marked as present).
        right_to_left: The scripts that run right to left.
        known: The scripts of the training set; None for the training set itself.
        controls: Control character of the bidirectional algorithm -> count and first places of texts that contain it.
    """

    def __init__(self, known: Collection[str] | None = None) -> None:
        self.texts: dict[str, Found] = {}
        self.right_to_left: set[str] = set()
        self.controls: dict[str, Found] = {}
        self.known = known
        self._plain = np.zeros(sys.maxunicode + 1, dtype=bool)  # characters that need no further check

    def see(self, texts: Sequence[str], origins: Sequence[str]) -> None:
        """Add some texts."""
        codes = np.frombuffer("".join(texts).encode("utf-32-le"), dtype=np.uint32)
        if not self._plain[codes].all():
            for text, origin in zip(texts, origins, strict=True):
                self._see(text, origin)

    def _see(self, text: str, origin: str) -> None:
        scripts: dict[str, list[int]] = {}
        for c in set(text):
            if self._plain[ord(c)]:
                continue
            if script := script_of(c):
                scripts.setdefault(script, []).append(ord(c))
                if script not in self.right_to_left and unicodedata.bidirectional(c) in ("R", "AL"):
                    self.right_to_left.add(script)
            elif c in _BIDI:
                _count(self.controls, c, origin)
            else:
                self._plain[ord(c)] = True
        for script, letters in scripts.items():
            _count(self.texts, script, origin)
            if script not in self.right_to_left and (self.known is None or script in self.known):
                self._plain[letters] = True

    def found(self, side: str) -> list[Found]:
        """Findings on a side: right-to-left text and control characters."""
        what = "letters, written right to left; tokens are in reading order"
        found = [(f"{script} {what}", texts) for script, texts in self.texts.items() if script in self.right_to_left]
        for c, texts in sorted(self.controls.items()):
            found.append((f"the control character U+{ord(c):04X} ({unicodedata.name(c).lower()}), kept", texts))
        return [Found(side, what, "text", texts.count, texts.places) for what, texts in found]

    def unseen(self, side: str) -> list[Found]:
        """Warnings about scripts that the training set does not have."""
        known = self.texts if self.known is None else self.known
        what = "letters, which do not occur in the training set"
        unseen = [(script, texts) for script, texts in self.texts.items() if script not in known]
        return [Found(side, f"{script} {what}", "text", texts.count, texts.places, True) for script, texts in unseen]


def _count(kinds: dict[str, Found], kind: str, origin: str) -> None:
    kinds.setdefault(kind, Found("", kind, "text")).add(origin)
