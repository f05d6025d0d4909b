"""Attention maps of looks, with their scores, masks and contexts, for every task."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import torch
from torch.nn.functional import pad

from heed.observe.choice import Choice, View
from heed.observe.maps import Axis
from heed.observe.trace import Maps, Trace
from heed.observe.words import merge_words
from heed.tasks.base.looking import Words

Shown = tuple[Axis, Axis, str]
"""The axes of a map, queries first, and its caption."""


def views_of(seen: Trace, choice: Choice, shown: Callable[[Maps], tuple[Maps, Shown] | None]) -> list[View]:
    """Views of the chosen attentions, each on its own axes.

    Args:
        seen: A trace of a pass over a batch, whose first entry is shown.
        choice: The mechanism, layers and heads to show.
        shown: Returns the maps of one attention to draw, `(1, heads, query, key)`, with their axes, which may be
            shorter; None if they are not drawn.
    """
    views = []
    for mechanism, layer in choice.layers(seen.mechanisms()):
        found = shown(seen.maps(mechanism, layer, entries=[0]))
        if found is None:
            continue
        maps, (query, key, caption) = found
        num_heads = maps.weights.shape[1]
        for head in choice.heads(num_heads):
            more = f" Mean of {num_heads} heads." if head is None else ""
            context = maps.context[0] if head is None else maps.context[0, head : head + 1]  # (heads, Q, d_value)
            drawn = maps.map(query, key, head=head, caption=caption + more)
            views.append(View(drawn, context.transpose(0, 1).flatten(1)[: len(query)], num_heads))
    return views


def view_of_words(view: View, query: Words, key: Words) -> View:
    """A view of subword tokens as a view of words; scores are kept if every word is one token."""
    one = view.map
    if len(query.axis) == len(one.query) and len(key.axis) == len(one.key):
        return replace(view, map=replace(one, query=query.axis, key=key.axis))
    merged = merge_words(one, query.axis, query.tokens, key.axis, key.tokens)
    return View(merged, query.mean(view.context.T).T, view.num_heads)


def views_of_text(seen: Trace, choice: Choice, words: Words, num_tokens: int) -> list[View]:
    """Views of the attention over one text's own words: self-attention, pooling.

    Args:
        seen: A trace of a pass over only this text; further tokens after it are not shown.
        choice: The mechanism, layers and heads to show.
        words: The words of the text.
        num_tokens: Number of tokens read, including further ones.
    """
    length = words.tokens[-1].stop if words.tokens else 0
    tokens = Words.counted(Axis(words.axis.name, words.axis.kind, ("",) * length), [1] * length)
    kind = words.axis.kind

    def shown(maps: Maps) -> tuple[Maps, Shown] | None:
        _, _, num_queries, num_keys = maps.weights.shape
        if num_queries == num_keys == num_tokens - 1:
            return _with_first(maps), (tokens.axis, tokens.axis, _EARLIER.format(kind=kind))
        if num_keys != num_tokens:
            return None
        if maps.mechanism == "pooling":
            learned = Axis("learned", "vector", tuple(str(i + 1) for i in range(num_queries)))
            return maps, (learned, tokens.axis, _POOLING.format(kind=kind))
        if num_queries != num_tokens:
            return None
        backwards = not bool(maps.mask.triu(1).any())  # no query attends to a later key
        caption = _BACK if maps.mechanism == "self" and backwards else _ROW
        return maps, (tokens.axis, tokens.axis, caption.format(kind=kind))

    def as_words(view: View) -> View:
        if view.map.mechanism == "pooling":
            each = Words.counted(view.map.query, [1] * len(view.map.query))
            return view_of_words(view, each, words)
        return view_of_words(view, words, words)

    return [as_words(view) for view in views_of(seen, choice, shown)]


_ROW = "Row i: where {kind} i looked. Weights before dropout."
_POOLING = "Row i: the share of each {kind} in the sum weighted by learned vector i. Weights before dropout."
_BACK = (
    "Row t: where the network looked after reading {kind} t, back to the first one. The result is used when reading "
    "{kind} t + 1; that of the last row is not used. Weights before dropout."
)
_EARLIER = (
    "Row t: where the network looked when it read {kind} t, among those before it. The first has none before it, so "
    "its row is empty. Weights before dropout."
)


def _with_first(maps: Maps) -> Maps:
    """Add an empty row for the first token, which attends to none, and an empty column for the last token."""

    def grown(x: torch.Tensor, value: float) -> torch.Tensor:
        return pad(x.float(), (0, 1, 1, 0), value=value)

    return replace(
        maps,
        weights=grown(maps.weights, 0.0),
        scores=grown(maps.scores, -torch.inf),
        mask=grown(maps.mask, 0.0) > 0,
        context=pad(maps.context, (0, 0, 1, 0)),
    )
