"""What the words of a text add to the probability of its label, measured by leaving each of them out."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from heed.data.batch.texts import TokenText
from heed.observe.shading import Shading
from heed.tasks.base.looking import Words
from heed.tasks.classification.model import Classifier
from heed.tasks.classification.task import Classification

MOST_WORDS = 200
"""A text of more words is not read once more without each of them."""


def without_each_word(
    task: Classification, model: Classifier, encoded: TokenText, words: Words, label: str
) -> Shading | None:
    """How far the probability of a label falls when a word is left out, for every word; edits of the weights hold.

    None for a text of one word, which leaves nothing, and of more than `MOST_WORDS`.
    """
    tokens = [word for word, name in zip(words.tokens, words.axis.labels, strict=True) if name != CLS]
    if not 1 < len(tokens) <= MOST_WORDS:
        return None
    first = tokens[0].start  # [CLS] is no token of the text
    left = [_without(encoded, range(word.start - first, word.stop - first)) for word in tokens]
    number = task.labels.index(label)
    whole, *others = task.classify(model, [encoded, *left])[:, number].tolist()
    falls = tuple(whole - other for other in others)
    axis = replace(words.axis, labels=words.axis.labels[-len(tokens) :])
    title = f"What each {axis.kind} adds: how far the probability of '{label}' falls when it is left out"
    return Shading(title, axis, falls, max(map(abs, falls)), signed=True)


CLS = "[CLS]"
"""Name of the learned token before a text."""


def _without(encoded: TokenText, word: range) -> TokenText:
    """The text without some of its tokens; a sentence of which nothing stays is left out."""
    kept: list[Sequence[int]] = []
    start = 0
    for sentence in encoded.sentences:
        places = range(start, start + len(sentence))
        start = places.stop
        kept.append([token for place, token in zip(places, sentence, strict=True) if place not in word])
    return replace(encoded, sentences=[list(sentence) for sentence in kept if sentence])
