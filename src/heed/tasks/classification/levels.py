"""Attention weights and gates of hierarchical models: both levels, words and sentences, over the whole text."""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor

from heed.layers.groups import length_groups
from heed.observe.choice import Choice
from heed.observe.maps import Axis
from heed.observe.records import GateRecord
from heed.observe.shading import Shading
from heed.observe.trace import Trace
from heed.tasks.base.looking import Network, Words


def level_shadings(seen: Trace, choice: Choice, lengths: Sequence[int], words: Words, titles: Axis) -> list[Shading]:
    """The weight of each sentence in the text, and of each word in its sentence and so in the text.

    Args:
        seen: A trace of a pass over one text.
        choice: Which attention to show.
        lengths: The number of tokens of each sentence.
        words: The words of the text.
        titles: The axis of the sentences.
    """
    chosen = {mechanism: layer for mechanism, layer in choice.layers(seen.mechanisms())}
    weights = {name: seen.maps(name, layer).weights[:, 0, 0] for name, layer in chosen.items()}
    shadings = []
    if "words" in weights:
        rows = zip(weights["words"], lengths, strict=True)
        within = words.sum(torch.cat([row[:length] for row, length in rows]).unsqueeze(0))[0]
        title = "Weight of each word in the sum over its sentence"
        if "sentences" in weights:
            of_word = _of_each_token(weights["sentences"][0], lengths)[[word.start for word in words.tokens]]
            within, title = within * of_word, f"{title}, times the weight of the sentence in the sum over the text"
        shadings.append(_shading(title, words.axis, within))
    if "sentences" in weights:
        title = "Weight of each sentence in the sum over the text"
        shadings.append(_shading(title, titles, weights["sentences"][0], listed=True))
    return shadings


def _shading(title: str, axis: Axis, shares: Tensor, listed: bool = False) -> Shading:
    return Shading(title, axis, tuple(shares.tolist()), float(shares.max()) if len(shares) else 1.0, listed=listed)


def _of_each_token(of_sentences: Tensor, lengths: Sequence[int]) -> Tensor:
    """Repeat the number of each sentence for each of its tokens."""
    return of_sentences.repeat_interleave(torch.tensor(lengths, device=of_sentences.device))


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
