"""Entity tags: reading entities from tags in any scheme, and writing them as tags.

| scheme | an entity of one word; one of two words; two adjacent ones of the same type |
|---|---|
| bio (IOB2) | B; B I; B B |
| iob1 | I; I I; I B |
| io | I; I I; I I (they become one) |
| bioes (BILOU) | S; B E; S S |
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence

OUTSIDE = "O"
Entity = tuple[str, int, int]
"""Type, first word, word after the last."""

_TAG = re.compile(r"[BIESLUM]-.+")
_SAME = {"L": "E", "U": "S", "M": "I"}
"""BILOU and BMEWO letters for those of BIOES."""


def is_entity_tag(tag: str) -> bool:
    """True if a tag is a letter of one of the schemes, a hyphen, and a type."""
    return _TAG.fullmatch(tag) is not None


def _parts(tag: str) -> tuple[str, str]:
    if tag == OUTSIDE:
        return OUTSIDE, ""
    letter, _, kind = tag.partition("-")
    return _SAME.get(letter, letter), kind


def entities(tags: Sequence[str]) -> list[Entity]:
    """The entities of a sentence in any scheme, even if the sequence of tags is illegal.

    An entity begins at B and S, and at I and E after O, after a finished entity or where the type changes, as in
    conlleval and in seqeval's default mode.
    """
    found: list[Entity] = []
    begun: int | None = None
    before, kind_before = OUTSIDE, ""
    for i, tag in enumerate([*tags, OUTSIDE]):
        letter, kind = _parts(tag)
        begins = letter in "BS" or (letter != OUTSIDE and (before in "OES" or kind != kind_before))
        if begun is not None and (letter == OUTSIDE or begins):
            found.append((kind_before, begun, i))
            begun = None
        if begins:
            begun = i
        before, kind_before = letter, kind
    return found


def may_follow(before: str | None, tag: str) -> bool:
    """True if BIO allows a tag after `before` (None: at the start of a sentence): I only inside its entity."""
    letter, kind = _parts(tag)
    return not (letter == "I" and is_entity_tag(tag)) or before in (f"B-{kind}", f"I-{kind}")


def write_tags(found: Iterable[Entity], length: int, scheme: str = "bio") -> list[str]:
    """The tags of entities in a scheme: bio, iob1, io or bioes."""
    tags = [OUTSIDE] * length
    ends: dict[int, str] = {}
    for kind, start, end in found:
        letters = ["I"] * (end - start)
        if scheme == "bio" or (scheme == "iob1" and ends.get(start) == kind):
            letters[0] = "B"
        elif scheme == "bioes":
            letters[0], letters[-1] = "B", "E"
            letters = ["S"] if len(letters) == 1 else letters
        ends[end] = kind
        tags[start:end] = [f"{letter}-{kind}" for letter in letters]
    return tags


def find_scheme(sentences: Iterable[Sequence[str]]) -> str:
    """The tagging scheme of a corpus: bio, iob1, io, bioes, or plain (no tag marks an entity)."""
    letters: set[str] = set()
    starts_with_i = b_alone = False
    for tags in sentences:
        before = (OUTSIDE, "")
        for tag in tags:
            if tag != OUTSIDE and not is_entity_tag(tag):
                before = (OUTSIDE, "")
                continue
            letter, kind = _parts(tag)
            letters.add(letter)
            follows = before[0] != OUTSIDE and before[1] == kind
            starts_with_i |= letter == "I" and not follows
            b_alone |= letter == "B" and not follows
            before = letter, kind
    letters.discard(OUTSIDE)
    if not letters:
        return "plain"
    if letters & {"E", "S"}:
        return "bioes"
    if "B" not in letters:
        return "io"
    return "iob1" if starts_with_i and not b_alone else "bio"
