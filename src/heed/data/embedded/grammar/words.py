"""Words with the parts of the meaning that they express, to link two languages."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from heed.data.examples import Link, Span


@dataclass(frozen=True, slots=True)
class Word:
    """A word or punctuation mark, and the parts of the meaning it expresses ("main.subject"), most important first.

    Words of two languages that express the same part are linked.
    """

    text: str
    says: tuple[str, ...] = ()


def say(texts: Sequence[str], *parts: str) -> list[Word]:
    """Words that express the same parts together."""
    return [Word(text, parts) for text in texts]


def join(words: Sequence[Word]) -> tuple[str, list[Span]]:
    """The sentence, with a capital first letter, and the span of each word."""
    text, spans = "", []
    for word in words:
        if text and word.text not in ".,?" and text != "¿":
            text += " "
        begin = len(text)
        text += word.text if begin > 1 else word.text[:1].upper() + word.text[1:]  # ¿Ha, El, The
        spans.append((begin, len(text)))
    return text, spans


def link(
    source: Sequence[Word], source_spans: Sequence[Span], target: Sequence[Word], target_spans: Sequence[Span]
) -> tuple[Link, ...]:
    """Link each target word to the source words that express the same parts.

    These are one run of adjacent words, around the first word that expresses the most important part found in the
    source. A target word without a counterpart in the source (the German comma) has no link.
    """
    said_at: dict[str, list[int]] = {}
    for i, word in enumerate(source):
        for part in word.says:
            said_at.setdefault(part, []).append(i)
    links = []
    for word, span in zip(target, target_spans, strict=True):
        parts = [part for part in word.says if part in said_at]
        if not parts:
            continue
        same = {i for part in parts for i in said_at[part]}
        first = last = said_at[parts[0]][0]
        while first - 1 in same:
            first -= 1
        while last + 1 in same:
            last += 1
        links.append(Link(target=span, source=(source_spans[first][0], source_spans[last][1])))
    return tuple(links)
