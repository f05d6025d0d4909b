"""How often attention looks where the truth is."""

from __future__ import annotations

from collections.abc import Sequence

from heed.data.examples import Link, Span

__all__ = ["aligned_characters"]


def aligned_characters(
    best: Sequence[int], query_spans: Sequence[Span], key_spans: Sequence[Span], links: Sequence[Link]
) -> tuple[int, int]:
    """Count the target characters whose largest weight lies in the source text they come from.

    Args:
        best: For each target token the source token with its largest weight.
        query_spans: Character span of each target token.
        key_spans: Character span of each source token.
        links: The truth: target spans and the source spans that say them.

    Returns:
        Number of linked target characters that are aligned right, and number of linked target characters. A
        character counts as right when the source token most attended to overlaps the linked source span. The
        alignment error is 1 - right / linked; with single best keys it is 1 - precision.
    """
    right = linked = 0
    for link in links:
        for token, (start, end) in enumerate(query_spans):
            shared = min(end, link.target[1]) - max(start, link.target[0])
            if shared <= 0:
                continue
            linked += shared
            first, last = key_spans[best[token]]
            if first < link.source[1] and last > link.source[0]:
                right += shared
    return right, linked
