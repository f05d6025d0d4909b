"""The two levels of hierarchical classifiers, words and sentences: their weights in looks."""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Sequence
from dataclasses import replace
from itertools import accumulate, pairwise

import torch
from torch import Tensor

from heed.observe.looks import Choice, Shading, darkest_share
from heed.observe.maps import Axis, Opens, Part
from heed.observe.trace import Trace
from heed.tasks.base.looking import Words

_LEARNED = Axis("learned", "vector", ("learned vector",))
"""The row of an attention that has one learned query."""


def level_shadings(seen: Trace, choice: Choice, lengths: Sequence[int], words: Words, titles: Axis) -> list[Shading]:
    """The weight of each sentence in the text, and of each word in its sentence and so in the text.

    `lengths` are the numbers of tokens of the sentences, `titles` their axis.
    """
    maps = {name: seen.maps(name, layer) for name, layer in choice.layers(seen.mechanisms())}
    weights = {name: one.weights[:, 0, 0] for name, one in maps.items()}
    openers = {name: replace(one.openers[0], head=0) for name, one in maps.items()}
    shadings = []
    if "words" in weights:
        rows = zip(weights["words"], lengths, strict=True)
        within = words.sum(torch.cat([row[:length] for row, length in rows]).unsqueeze(0))[0]
        ends = list(accumulate(lengths, initial=0))
        inside = [max(n for n, end in enumerate(ends[:-1]) if end <= word.start) for word in words.tokens]
        title, shares = "Weight of each word in the sum over its sentence", within.new_ones(len(lengths))
        if "sentences" in weights:
            title += ", times the weight of the sentence in the sum over the text"
            shares = weights["sentences"][0]
        placed = zip(words.tokens, inside, strict=True)
        key = [range(word.start - ends[n], min(word.stop, ends[n + 1]) - ends[n]) for word, n in placed]
        within_sentences = list(zip(inside, shares[inside].tolist(), strict=True))
        opener, axis = replace(openers["words"], key=key, within=within_sentences), words.axis
        if both := "sentences" in weights:
            starts = [*(bisect_left(inside, n) for n in range(len(lengths))), len(inside)]
            parts = (Part(f"sentence {n}", *of) for n, of in enumerate(pairwise(starts), start=1))
            axis = replace(axis, parts=tuple(parts))
        shaded = of_shares(title, axis, within * shares[inside], opens=("words attention", opener))
        shadings.append(replace(shaded, nested=both))
    if "sentences" in weights:
        title, opens = "Weight of each sentence in the sum over the text", ("sentences attention", openers["sentences"])
        shadings.append(of_shares(title, titles, weights["sentences"][0], listed=True, opens=opens))
    return shadings


def of_shares(
    title: str, axis: Axis, shares: Tensor, listed: bool = False, opens: tuple[str, Opens] | None = None
) -> Shading:
    """A shading of shares of one whole; `opens` is the attention that they are weights of, by name."""
    weights = tuple(shares.tolist())
    opened = None if opens is None else (opens[0], (_LEARNED, axis), opens[1])
    return Shading(title, axis, weights, darkest_share(weights), listed=listed, opens=opened)


def sentences_of(words: Words, lengths: Sequence[int]) -> Words:
    """The sentences of a text, each labelled with the words that begin in it."""
    each = list(zip(words.axis.labels, words.tokens, strict=True))
    ends = pairwise(accumulate(lengths, initial=0))
    between = "" if words.axis.kind == "character" else " "
    labels = tuple(between.join(word for word, at in each if start <= at.start < stop) for start, stop in ends)
    return Words.counted(Axis("text", "sentence", labels), [1] * len(lengths))
