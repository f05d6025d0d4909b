"""A lesson with training: hierarchical attention reads a document that defines politics.

A small HAN learns from generated documents in which one sentence reveals the subject. It then reads a document of
another kind, and each weight is compared with the change of the answer when that sentence is left out.
"""

from __future__ import annotations

import re
from typing import Any, NamedTuple

import torch
from torch import Tensor

from heed.lessons.parts import WORD_MODEL, Script, Stage, double, score_on_test, sentences_of, table_of, train_small
from heed.watch.trace import trace

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
    lost: Tensor  # probability of a label that is lost without each sentence


def stages() -> tuple[Stage, ...]:
    """Train the HAN, then read the document and the held-out ones with it; takes some seconds."""
    drawn = sentences_of("politics")[""]
    data = {split: [(text, label) for text, label, *_ in documents] for split, documents in drawn.items()}
    run = train_small("classification", _STEPS, _SETTINGS, **data)
    label, hits = run.predict(" ".join(DOCUMENT)).label, []
    reading = _read(run, DOCUMENT, label)
    for text, subject, place, deciding in (row for row in drawn["test"] if row[1] != "none"):
        other, sentence = _read(run, tuple(re.split(r"(?<=\.) ", text)), subject), int(place)
        words, weights = other.words[sentence]
        best, telling = int(weights.argmax()), {*deciding.split()}
        near = bool(telling & {*words[max(best - 1, 0) : best + 2]})
        largest = [int(values.argmax()) == sentence for values in (other.sentences, other.lost)]
        hits.append([largest[0], words[best] in telling, near, largest[1]])
    shares = double(hits).mean(0)
    found = dict(zip(("telling", "word", "beside", "costs"), shares.tolist(), strict=True))
    top, needed = int(reading.sentences.argmax()), int(reading.lost.argmax())
    words, weights = reading.words[top]
    numbered = [f"sentence {i + 1}" for i in range(len(DOCUMENT))]
    both, shown = (
        torch.stack([reading.sentences, reading.lost], dim=1),
        next(d for d in data["train"] if d[1] == "politics"),
    )
    tables = (
        table_of(f"{name}, whose weight is {float(share):.3f}", ("weight",), words, weights, heat=True)
        for name, share, (words, weights) in zip(numbered, reading.sentences, reading.words, strict=True)
    )
    of_words = dict(zip(numbered, (weights for _, weights in reading.words), strict=True))
    lost = {"weight": reading.sentences, "lost": reading.lost, "numbered": numbered, "both_notes": DOCUMENT}
    return (
        _stage("document", probability=reading.probabilities, labels=run.head.labels, lines=DOCUMENT),
        _stage("training", lines=[f"politics: {shown[0]}"], train=len(data["train"]), most=_MOST),
        _stage("sentences", both=both, **lost),
        _stage("words", *tables, **of_words),
        _stage(
            "result",
            **{**found, "found": shares, "accuracy": double(score_on_test(run, "accuracy")), "label": label},
            **{"sure": reading.probabilities.max(), "top": top + 1, "weight": reading.sentences[top]},
            **{"best": words[int(weights.argmax())], "best_weight": weights.max(), "same": top == needed},
            **{"needed": needed + 1, "lost": reading.lost[needed], "first": reading.sentences[0]},
            **{f"finds_{name}": found[name] >= _MOSTLY for name in ("telling", "word")},
        ),
    )


def _read(run: Any, sentences: tuple[str, ...], label: str) -> Reading:
    """One traced pass over a document, and one without each sentence in turn."""
    (encoded,) = encodings = run.input.encode_texts([" ".join(sentences)])
    batch = run.input.collate(encodings, [0], None)
    with torch.no_grad(), trace(run.model) as seen:
        run.model(**batch.inputs)
    tokens, rows = run.tokenizer.tokens, seen.maps("words").weights[:, 0, 0].double()
    words = [(tuple(tokens[i] for i in ids), row[: len(ids)]) for ids, row in zip(encoded.sentences, rows, strict=True)]
    left = [" ".join(sentences[:i] + sentences[i + 1 :]) for i in range(len(sentences))]
    probabilities = run.probabilities([" ".join(sentences), *left]).double()
    of_label = probabilities[:, run.head.labels.index(label)]
    weights = seen.maps("sentences").weights[0, 0, 0].double()
    return Reading(weights, words, probabilities[0], of_label[0] - of_label[1:])
