"""A lesson with training: hierarchical attention reads a document that defines politics.

A small HAN learns from generated documents in which one sentence reveals the subject. It then reads a document of
another kind, and each weight is compared with the change of the answer when that sentence is left out.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Any, NamedTuple

import torch
from torch import Tensor

from heed.lessons.parts import WORD_MODEL, Script, Stage, Table, double, score_on_test, sentences_of, train_small
from heed.observe.trace import trace

TITLE = "Politics is the way in which people who live together settle what is to be done."
DOCUMENT = (  # in our own words; the fourth sentence has words that occur in the training documents
    "Politics is the way in which people who live together settle what is to be done.",
    "Not everybody wants the same, and there is never enough for everyone.",
    "Some of it is loud, and most of it is not.",
    "The government and the parliament write the laws, and an election decides who sits in them.",
    "People have argued about it for a very long time.",
)
_MOST = 7  # sentences of a training document
_MOSTLY = 0.9  # share from which the claim counts as true
_STEPS = 150
_SETTINGS = (
    f"{WORD_MODEL} tokenizer.lowercase=true model.name=han model.d_embedding=32 model.d_hidden=16 "
    "model.d_attention=32 training.batch_tokens=1500 training.learning_rate=0.01 training.warmup=10"
)
_stage = Script("politics")


class Reading(NamedTuple):
    """Results of a HAN for a document: sentence weights, the words of each sentence with weights, probabilities."""

    sentences: Tensor
    words: list[tuple[tuple[str, ...], Tensor]]
    probabilities: Tensor


def stages() -> tuple[Stage, ...]:
    """Train the HAN, then read the document and the held-out ones with it; takes some seconds."""
    drawn = sentences_of("politics")[""]
    data = {split: [(text, label) for text, label, *_ in documents] for split, documents in drawn.items()}
    run = train_small("classification", _STEPS, _SETTINGS, **data)
    reading = _read(run, DOCUMENT)
    dropped = _without_each(run, DOCUMENT, int(reading.probabilities.argmax()))
    labels, shares = list(run.head.labels), reading.probabilities
    table = Table("probability", ("document",), tuple(labels), shares.unsqueeze(0), heat=True)
    shown = next(text for text, label in data["train"] if label == "politics")
    numbered = tuple(f"sentence {i + 1}" for i in range(len(DOCUMENT)))
    title = "the weight of each sentence, and the probability lost without it"
    both = torch.stack([reading.sentences, dropped], dim=1)
    lost = Table(title, numbered, ("weight", "lost"), both, heat=True, notes=DOCUMENT)
    return (
        _stage("document", {"probability": shares}, table, lines=DOCUMENT),
        _stage("training", lines=[f"politics: {shown}"], train=len(data["train"]), most=_MOST),
        _stage("sentences", {"weight": reading.sentences, "lost": dropped}, lost),
        _words(reading),
        _result(run, reading, dropped, [row for row in drawn["test"] if row[1] != "none"]),
    )


def _read(run: Any, sentences: Sequence[str]) -> Reading:
    """One traced pass over a document."""
    (encoded,) = encodings = run.input.encode_texts([" ".join(sentences)])
    batch = run.input.collate(encodings, [0], None)
    with torch.no_grad(), trace(run.model) as seen:
        run.model(**batch.inputs)
    tokens = run.tokenizer.tokens
    rows = seen.maps("words").weights[:, 0, 0].double()
    words = [(tuple(tokens[i] for i in ids), row[: len(ids)]) for ids, row in zip(encoded.sentences, rows, strict=True)]
    return Reading(seen.maps("sentences").weights[0, 0, 0].double(), words, run.probabilities([" ".join(sentences)])[0])


def _without_each(run: Any, sentences: tuple[str, ...], label: int) -> Tensor:
    """Decrease of a label's probability when each sentence in turn is left out."""
    left = [" ".join(sentences[:i] + sentences[i + 1 :]) for i in range(len(sentences))]
    probabilities = run.probabilities([" ".join(sentences), *left])[:, label].double()
    return probabilities[0] - probabilities[1:]  # type: ignore[no-any-return]


def _found(run: Any, documents: Sequence[tuple[str, ...]]) -> Tensor:
    """In which share of the documents attention finds the telling sentence, and the words in it.

    The largest weight is that of the telling sentence; in it, that of a telling word; of one or of its neighbour; and
    leaving out the sentence costs most.
    """
    hits = torch.zeros(4, dtype=torch.float64)
    for text, label, place, telling in documents:
        sentences, deciding = tuple(re.split(r"(?<=\.) ", text)), telling.split()
        reading = _read(run, sentences)
        words, weights = reading.words[int(place)]
        dropped = _without_each(run, sentences, run.head.labels.index(label))
        best = int(weights.argmax())
        hits[0] += int(reading.sentences.argmax()) == int(place)
        hits[1] += words[best] in deciding
        hits[2] += any(word in deciding for word in words[max(best - 1, 0) : best + 2])
        hits[3] += int(dropped.argmax()) == int(place)
    return hits / len(documents)


def _words(reading: Reading) -> Stage:
    """The words of every sentence with the weight that each got within it."""
    tables = []
    for i, (words, weights) in enumerate(reading.words):
        said = f"sentence {i + 1}, whose weight is {float(reading.sentences[i]):.3f}"
        tables.append(Table(said, ("weight",), words, weights.unsqueeze(0), heat=True))
    numbers = {f"sentence {i + 1}": weights for i, (_, weights) in enumerate(reading.words)}
    return _stage("words", numbers, *tables)


def _result(run: Any, reading: Reading, dropped: Tensor, documents: Sequence[tuple[str, ...]]) -> Stage:
    found, accuracy = _found(run, documents), score_on_test(run, "accuracy")
    top, needed = int(reading.sentences.argmax()), int(dropped.argmax())
    words, weights = reading.words[top]
    telling, word, beside, costs = found.tolist()
    if min(telling, word) >= _MOSTLY:
        holds = "The claim holds here"
    else:
        holds = f"The claim {'holds for sentences and not for words' if telling >= _MOSTLY else 'does not hold'} here"
    values = {
        **{"label": run.head.labels[int(reading.probabilities.argmax())], "sure": reading.probabilities.max()},
        **{"top": top + 1, "weight": reading.sentences[top], "best": words[int(weights.argmax())]},
        **{"best_weight": weights.max(), "where": "that sentence" if top == needed else f"sentence {needed + 1}"},
        **{"lost": dropped[needed], "accuracy": accuracy, "telling": telling, "costs": costs, "word": word},
        **{"beside": beside, "holds": holds, "first": reading.sentences[0]},
    }
    return _stage("result", {"found": found, "accuracy": double(accuracy)}, **values)
