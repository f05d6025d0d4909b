"""Which scripts texts are written in, which of them run right to left, and where control characters hide.

A script is named by the first word of its letters' Unicode names, compatibility forms by the letter they stand for.
"""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Container

from heed.data.findings import Found

__all__ = ["Scripts", "script_of"]

_LATIN = re.compile(r"[A-Za-z\u00c0-\u024f\u1e00-\u1eff]")
_OTHER = re.compile(r"[^\x00-\x7f\u00a0-\u024f\u0300-\u036f\u1e00-\u1eff\u2010-\u2027\u2030-\u203e\u20a0-\u20bf]")
"""What plain Latin text does not hold; most texts need no closer look."""
_BIDI = frozenset("\u061c\u200e\u200f\u202a\u202b\u202c\u202d\u202e\u2066\u2067\u2068\u2069")


def script_of(character: str) -> str:
    """The script of a letter, as "Latin", "Cyrillic", "CJK"; "" for what is no letter."""
    if unicodedata.category(character) not in ("Lu", "Ll", "Lt", "Lo"):
        return ""
    plain = unicodedata.normalize("NFKC", character)[0]
    name = unicodedata.name(plain, "").partition(" ")[0]
    return name if name == "CJK" else name.capitalize()


class Scripts:
    """The scripts of one side of a set, gathered text by text.

    Attributes:
        texts: Script -> how many texts hold letters of it, and the first of them.
        right_to_left: Those of the scripts that run right to left.
        controls: Control character of the bidirectional algorithm -> how many texts hold it, and the first of them.
    """

    def __init__(self) -> None:
        self.texts: dict[str, Found] = {}
        self.right_to_left: set[str] = set()
        self.controls: dict[str, Found] = {}
        self._seen: set[str] = set()  # every character so far
        self._letters: dict[str, set[str]] = {}  # those of each script

    def see(self, text: str, origin: str) -> None:
        """Add one text."""
        if text.isascii() or not _OTHER.search(text):
            if _LATIN.search(text):
                self._count(self.texts, "Latin", origin)
            return
        characters = set(text)
        for c in characters - self._seen:
            self._seen.add(c)
            if script := script_of(c):
                self._letters.setdefault(script, set()).add(c)
                if unicodedata.bidirectional(c) in ("R", "AL"):
                    self.right_to_left.add(script)
        for script, letters in self._letters.items():
            if not letters.isdisjoint(characters):
                self._count(self.texts, script, origin)
        if not _BIDI.isdisjoint(characters):
            for c in characters & _BIDI:
                self._count(self.controls, c, origin)

    @staticmethod
    def _count(kinds: dict[str, Found], kind: str, origin: str) -> None:
        if kind not in kinds:
            kinds[kind] = Found("", kind, "text")
        kinds[kind].add(origin)

    def found(self, side: str) -> list[Found]:
        """What is worth saying of a side: text from right to left, control characters."""
        result = [
            Found(side, f"{script} letters, right to left; tokens stand in the order of reading", "text", *_seen(texts))
            for script, texts in self.texts.items()
            if script in self.right_to_left
        ]
        for c, texts in sorted(self.controls.items()):
            name = unicodedata.name(c).lower()
            result.append(Found(side, f"the control character U+{ord(c):04X} ({name}), kept", "text", *_seen(texts)))
        return result

    def unseen(self, side: str, known: Container[str]) -> list[Found]:
        """The scripts that are not among those known, as warnings."""
        return [
            Found(side, f"{script} letters, of which the training set has none", "text", *_seen(texts), warning=True)
            for script, texts in self.texts.items()
            if script not in known
        ]


def _seen(texts: Found) -> tuple[int, list[str]]:
    return texts.count, texts.places
