"""Source words that a model attended to while it wrote, and how often attention agrees with known links."""

from __future__ import annotations

from collections.abc import Sequence

from heed.data.examples import Link, Pair, Span
from heed.data.tokens.tokenizer import UNKNOWN
from heed.models.base import PairDecoder
from heed.tasks.base.looking import Words, watched
from heed.tasks.translation.task import Translation
from heed.tasks.translation.word_weights import taught_place

_BATCH = 64
"""Pairs that are aligned at once."""


def aligned_characters(
    best: Sequence[int], query_spans: Sequence[Span], key_spans: Sequence[Span], links: Sequence[Link]
) -> tuple[int, int]:
    """Count the target characters whose largest weight lies in the source text they come from.

    `best` is the source token with the largest weight of each target token; spans are those of the tokens' characters.

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


def _read(task: Translation, model: PairDecoder) -> tuple[int, slice | list[int]]:
    """The layer and the heads to read attention from."""
    place = taught_place(task, model)
    return (-1, slice(None)) if place is None else (place.layer, slice(None) if place.heads is None else [*place.heads])


def aligned_counts(task: Translation, model: PairDecoder, pairs: Sequence[Pair]) -> tuple[list[int], list[int]] | None:
    """Number of linked target characters that attention aligns right, per pair (references, teacher forcing).

    Uses the layer and heads that were trained with links, else the last layer and the mean over heads. Pairs without
    known links count 0.

    Returns:
        Right and linked characters per pair (see `aligned_characters`); None for a model that does not attend
        to the source.
    """
    if not model.aligns:
        return None
    device = next(model.parameters()).device
    layer, heads = _read(task, model)
    right, linked = [0] * len(pairs), [0] * len(pairs)
    known = [i for i, pair in enumerate(pairs) if pair.links]
    known.sort(key=lambda i: len(pairs[i].source))
    for start in range(0, len(known), _BATCH):
        chosen = known[start : start + _BATCH]
        batch = task.collate_pairs([pairs[i] for i in chosen]).to(device)
        with watched(model, mechanism="cross", layer=layer) as seen:
            model(batch.source, batch.source_mask, batch.target)
        weights = seen.maps("cross").weights[:, heads].mean(1)  # (B, T, S)
        for row, i in enumerate(chosen):
            query_spans = task.target_tokenizer.encode(pairs[i].target).spans
            key_spans = task.source_tokenizer.encode(pairs[i].source).spans
            first = len(task.frame[0])
            best = weights[row, :, first : first + len(key_spans)].argmax(-1).tolist()
            right[i], linked[i] = aligned_characters(best, query_spans, key_spans, pairs[i].links or ())
    return right, linked


def word_links(
    task: Translation, model: PairDecoder, source: str, ids: Sequence[int]
) -> tuple[list[tuple[int, int]], dict[int, str]]:
    """The source word with the largest attention weight for each written word.

    Returns:
        Pairs (source word, target word), counted from 0, punctuation marks as words (the Pharaoh format of word
        aligners); and for each unknown token, by position, the source word with its largest weight. Both are empty for
        a model that does not attend to the source.
    """
    if not ids or not model.aligns:
        return [], {}
    batch = task.forced_batch(source, ids).to(next(model.parameters()).device)
    layer, heads = _read(task, model)
    with watched(model, mechanism="cross", layer=layer) as seen:
        model(batch.source, batch.source_mask, batch.target)
    inside = task.within(batch.source.shape[1])
    sources = Words.of(task.source_tokenizer, batch.source[0, inside].tolist(), "source", {})
    targets = Words.of(task.target_tokenizer, ids, "target", {})
    # Rows are tokens written, without the end token's, columns source words.
    per_word = sources.sum(seen.maps("cross").weights[0, heads].mean(0)[: len(ids), inside])
    best = targets.mean(per_word.T).argmax(0).tolist()
    spans = task.source_tokenizer.encode(source).spans
    instead = {}
    for position in (n for n, token in enumerate(ids) if token == UNKNOWN):
        word = sources.tokens[int(per_word[position].argmax())]
        instead[position] = source[spans[word.start][0] : spans[word.stop - 1][1]].strip()
    return list(zip(best, range(len(best)), strict=True)), instead
