"""What parts of a text add to the score of a label where that is a sum of them, and what the model holds of each."""

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
"""N-grams that are listed."""


def evidence(
    task: Classification, model: Classifier, seen: Trace, words: Words, num_tokens: int, label: str
) -> list[Shading]:
    """The parts of this model's score that can be told apart, each with what it adds; nothing for most models.

    Args:
        task: Knows the labels.
        model: What was watched.
        seen: A trace of a pass over the text alone.
        words: Its words.
        num_tokens: Its tokens.
        label: The label that they are evidence for.
    """
    if isinstance(model.body, CNN):
        return [_ngrams(task, model, model.body, seen, words, num_tokens, label)]
    return []


def states_of_words(model: Classifier, seen: Trace, words: Words, num_tokens: int) -> list[dict[str, Tensor]]:
    """What a network that reads all of a text at once holds of each word, by name; nothing for other models.

    Of `mlp` it is W_i x_i, the word's part of the sums behind tanh `(d_hidden,)`; of `cnn` the largest value of each
    filter over the n-grams that begin in the word `(num_filters,)`, for each width. Behind the last n-gram there is
    none.
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
    """What a unit of the text's vector adds to the score of a label, `(d_output,)`.

    Of labels of which one is chosen only differences count: the score is then that of the label less the mean score.
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
    """The n-grams on which filters are largest, with the sum of what those filters add."""
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
    said = [f"largest in {filters[n]} filter{'s' * (filters[n] != 1)}" for n in best]
    what = "less the mean score of all labels" if not task.sigmoid else "before the sigmoid"
    title = (
        f"N-grams on which filters are largest, the {len(best)} that count most: what they add to the score of "
        f"'{label}' ({what})"
    )
    return Shading(
        title, Axis("text", "n-gram", labels), sums, max(map(abs, sums), default=1.0),
        others=tuple(said), signed=True, listed=True,
    )  # fmt: skip


def _text(words: Words, tokens: range) -> str:
    """The words of some tokens."""
    inside = [
        name for name, word in zip(words.axis.labels, words.tokens, strict=True)
        if word.start < tokens.stop and word.stop > tokens.start
    ]  # fmt: skip
    return ("" if words.axis.kind == "character" else " ").join(inside)
