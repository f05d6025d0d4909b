"""The two levels of hierarchical classifiers, words and sentences: their weights and recurrent networks in looks."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from itertools import accumulate, pairwise

import torch
from torch import Tensor

from heed.layers.ragged import length_groups
from heed.observe.looks import Choice, Shading
from heed.observe.maps import Axis, Opens
from heed.observe.records import GateRecord
from heed.observe.trace import Trace
from heed.tasks.base.looking import Network, Words

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
        opener = replace(openers["words"], key=key, within=within_sentences)
        shadings.append(of_shares(title, words.axis, within * shares[inside], opens=("words attention", opener)))
    if "sentences" in weights:
        title, opens = "Weight of each sentence in the sum over the text", ("sentences attention", openers["sentences"])
        shadings.append(of_shares(title, titles, weights["sentences"][0], listed=True, opens=opens))
    return shadings


def of_shares(
    title: str, axis: Axis, shares: Tensor, listed: bool = False, opens: tuple[str, Opens] | None = None
) -> Shading:
    """A shading of shares of one whole; `opens` is the attention that they are weights of, by name."""
    largest = float(shares.max()) if len(shares) else 1.0
    opened = None if opens is None else (opens[0], (_LEARNED, axis), opens[1])
    return Shading(title, axis, tuple(shares.tolist()), largest, listed=listed, opens=opened)


def level_networks(seen: Trace, lengths: Sequence[int]) -> tuple[list[Network], list[Network]]:
    """The recurrent networks over the words, sentence after sentence, and those over the sentences."""
    words, sentences = [], []
    for kind in ("forward", "backward"):
        calls = [record for record in seen.gate_records if record.name == f"body.words.{kind}_cells.0"]
        if calls:
            words.append(_over_words(kind, calls, lengths))
        calls = [record for record in seen.gate_records if record.name == f"body.sentences.{kind}_cells.0"]
        if calls:
            gates = calls[-1].gates()
            rows = {name: gate[0, : len(lengths)] for name, gate in gates.items()}
            sentences.append(Network.of(f"sentence {kind}", 0, f"sentence {kind}", rows))
    return words, sentences


def _over_words(kind: str, calls: Sequence[GateRecord], lengths: Sequence[int]) -> Network:
    """The gates over the words in text order; the model reads sentences in groups of similar length."""
    rows: dict[int, dict[str, Tensor]] = {}
    for numbers, call in zip(length_groups(list(lengths)), calls, strict=True):
        gates = call.gates()
        for row, number in enumerate(numbers):
            rows[number] = {name: gate[row, : lengths[number]] for name, gate in gates.items()}
    joined = {name: torch.cat([rows[n][name] for n in range(len(lengths))]) for name in rows[0]}
    return Network.of(kind, 0, kind, joined)


def sentences_of(words: Words, lengths: Sequence[int]) -> Words:
    """The sentences of a text, each labelled with the words that begin in it."""
    each = list(zip(words.axis.labels, words.tokens, strict=True))
    ends = pairwise(accumulate(lengths, initial=0))
    between = "" if words.axis.kind == "character" else " "
    labels = tuple(between.join(word for word, at in each if start <= at.start < stop) for start, stop in ends)
    return Words.counted(Axis("text", "sentence", labels), [1] * len(lengths))
