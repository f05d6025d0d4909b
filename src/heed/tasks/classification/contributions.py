"""Contribution of each word of a text to the probability of its label, measured by leaving the word out."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from heed.data.batch.texts import TokenText
from heed.data.tokens.tokenizer import END, START
from heed.observe.shading import Shading
from heed.tasks.base.looking import Words
from heed.tasks.classification.model import Classifier
from heed.tasks.classification.task import Classification

MOST_WORDS = 200
"""Largest number of words for which contributions are measured (one forward pass for each word)."""


def without_each_word(
    task: Classification, model: Classifier, encoded: TokenText, words: Words, label: str
) -> Shading | None:
    """Drop in the probability of a label when a word is left out, for every word; edits of the weights stay active.

    The start and end tokens are kept. None for a text of one word or of more than `MOST_WORDS`.
    """
    first = int(model.has_cls)  # the start token is not part of the text
    ids = [START] * first + task.tokens_of(encoded)
    own = [
        n for n, word in enumerate(words.tokens) if not {START, END}.intersection(ids[word.start : word.stop] or [END])
    ]
    if not 1 < len(own) <= MOST_WORDS:
        return None
    tokens = [words.tokens[n] for n in own]
    left = [_without(encoded, range(word.start - first, word.stop - first)) for word in tokens]
    number = task.labels.index(label)
    whole, *others = task.classify(model, [encoded, *left])[:, number].tolist()
    falls = tuple(whole - other for other in others)
    axis = replace(words.axis, labels=tuple(words.axis.labels[n] for n in own))
    title = f"Contribution of each {axis.kind}: drop in the probability of '{label}' when the {axis.kind} is left out"
    return Shading(title, axis, falls, max(map(abs, falls)), signed=True)


CLS, SEP = "[CLS]", "[SEP]"
"""Names of the learned token before a text, and of the token between the texts of a pair."""


def _without(encoded: TokenText, word: range) -> TokenText:
    """The text without some of its tokens; sentences that become empty are removed."""
    kept: list[Sequence[int]] = []
    start = 0
    for sentence in encoded.sentences:
        places = range(start, start + len(sentence))
        start = places.stop
        kept.append([token for place, token in zip(places, sentence, strict=True) if place not in word])
    return replace(encoded, sentences=[list(sentence) for sentence in kept if sentence])
