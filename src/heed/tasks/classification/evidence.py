"""Contributions of parts of a text to a label's score, for models whose score is a sum over parts; states of words."""

from __future__ import annotations

from collections import Counter, defaultdict

from torch import Tensor

from heed.models.cnn import CNN
from heed.models.mlp import MLP
from heed.observe.maps import Axis
from heed.observe.shading import Shading
from heed.observe.trace import Trace
from heed.tasks.base.looking import Words
from heed.tasks.classification.model import Classifier
from heed.tasks.classification.task import Classification

_MOST = 12
"""Largest number of n-grams listed."""


def evidence(
    task: Classification, model: Classifier, seen: Trace, words: Words, num_tokens: int, label: str
) -> list[Shading]:
    """Contributions of the n-grams that the filters of a CNN select; an empty list for other models.

    Args:
        task: The task, which has the labels.
        model: The traced model.
        seen: A trace of a pass over the text alone.
        words: The words of the text.
        num_tokens: The number of tokens of the text.
        label: The label whose score is explained.
    """
    if isinstance(model.body, CNN):
        return [_ngrams(task, model, model.body, seen, words, num_tokens, label)]
    return []


def states_of_words(model: Classifier, seen: Trace, words: Words, num_tokens: int) -> list[dict[str, Tensor]]:
    """The named states of each word in a network that reads the whole text at once; an empty list for other models.

    For `mlp`: W_i x_i, the word's part of the sums inside tanh, `(d_hidden,)`. For `cnn`: for each width, the largest
    value of each filter over the n-grams that start in the word, `(num_filters,)`; words in which no n-gram starts
    have none.
    """
    if isinstance(model.body, MLP):
        (shares,) = seen.tensors("shares")
        return [{"W_i x_i": shares[0, word.start : word.stop].sum(0)} for word in words.tokens]
    if isinstance(model.body, CNN):
        grams = list(zip(model.body.windows, seen.tensors("ngrams"), strict=True))
        return [
            {
                f"{width}-grams": found[0, word.start : word.stop].amax(0)
                for width, found in grams
                if word.start < max(1, num_tokens - width + 1)
            }
            for word in words.tokens
        ]
    return []


def weights_for(task: Classification, model: Classifier, label: str) -> Tensor:
    """Weight of each unit of the text's vector in the score of a label, `(d_output,)`.

    With softmax only differences count, so the score is the label's score minus the mean score of all labels.
    """
    weight, number = model.output.weight.detach(), task.labels.index(label)
    if not task.sigmoid:
        return weight[number] - weight.mean(0)
    if task.config.data.several_labels:
        return weight[number]
    return weight[0] if number == 1 else -weight[0]


def _ngrams(
    task: Classification, model: Classifier, body: CNN, seen: Trace, words: Words, num_tokens: int, label: str
) -> Shading:
    """The n-grams at which filters are largest, each with the summed contribution of those filters."""
    add = weights_for(task, model, label).split([bank.out_channels for bank in body.filters])
    parts: dict[range, float] = defaultdict(float)
    filters: Counter[range] = Counter()
    for width, found, weight in zip(body.windows, seen.tensors("ngrams"), add, strict=True):
        values, places = found[0].max(0)  # (num_filters,): the value that pooling keeps, and its first place
        for value, place in zip((values * weight).tolist(), places.tolist(), strict=True):
            ngram = range(place, min(place + width, num_tokens))
            parts[ngram] += value
            filters[ngram] += 1
    best = sorted(parts, key=lambda ngram: (-abs(parts[ngram]), ngram.start, ngram.stop))[:_MOST]
    labels = tuple(_text(words, ngram) for ngram in best)
    sums = tuple(parts[ngram] for ngram in best)
    said = [f"maximum of {filters[n]} filter{'s' * (filters[n] != 1)}" for n in best]
    what = "minus the mean score of all labels" if not task.sigmoid else "before the sigmoid"
    title = (
        f"The {len(best)} n-grams with the largest contributions to the score of '{label}' ({what}), "
        "through the filters that are largest on them"
    )
    return Shading(
        title, Axis("text", "n-gram", labels), sums, max(map(abs, sums), default=1.0),
        others=tuple(said), signed=True, listed=True,
    )  # fmt: skip


def _text(words: Words, tokens: range) -> str:
    """The words that contain some tokens."""
    inside = [
        name for name, word in zip(words.axis.labels, words.tokens, strict=True)
        if word.start < tokens.stop and word.stop > tokens.start
    ]  # fmt: skip
    return ("" if words.axis.kind == "character" else " ").join(inside)
