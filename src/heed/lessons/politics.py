"""A lesson with training: hierarchical attention reads a document that defines politics.

A small HAN learns from generated documents in which one sentence reveals the subject. It then reads a document of
another kind, and each weight is compared with the change of the answer when that sentence is left out.
"""

from __future__ import annotations

from collections.abc import Sequence
from random import Random
from typing import Any, NamedTuple

import torch
from torch import Tensor

from heed.data.embedded.generated import SPLITS, Split, split_of
from heed.lessons.parts import Stage, Table, double
from heed.lessons.training import train_small
from heed.observe.trace import trace

TITLE = "Politics is the way in which people who live together settle what is to be done."
DOCUMENT = (
    "Politics is the way in which people who live together settle what is to be done.",
    "Not everybody wants the same, and there is never enough for everyone.",
    "Some of it is loud, and most of it is not.",
    "The government and the parliament write the laws, and an election decides who sits in them.",
    "People have argued about it for a very long time.",
)
"""The document, in our own words; the fourth sentence has the words that occur in the training documents."""
_TELLING = {
    "politics": ("government", "parliament", "election", "laws", "ministers", "voters"),
    "economics": ("prices", "markets", "trade", "wages", "money", "banks"),
    "biology": ("cells", "plants", "animals", "genes", "species", "blood"),
    "music": ("melodies", "rhythm", "singers", "choirs", "violins", "songs"),
}
_NONE = "none"
"""The label of documents without a telling sentence; without it, finding nothing would reveal one of the subjects."""
_SENTENCES = (
    "The {a} and the {b} are what it is about.",
    "It deals with the {a} and the {b}.",
    "Nobody can speak of it without the {a}.",
    "The {a} and the {b} decide who has a part in it.",
    "In every town the {a} depend on the {b}.",
)
_FILLER = (
    "Not everybody wants the same.",
    "There is never enough of it for everyone.",
    "Some of it is loud, and most of it is quiet.",
    "People have argued about it for a very long time.",
    "It is the way in which people spend a day together.",
    "Books are written about it every year.",
    "Those who live with it know it best.",
    "What is to be done next is hard to say.",
    "It happens at home, at work and in the street.",
    "One can learn it at school.",
)
_MOST = 7
"""Maximum number of sentences of a training document."""
_SIZES = {"train": 1_200, "valid": 60, "test": 150}
_MOSTLY = 0.9
"""Share from which the claim counts as true."""
_STEPS = 150
_SETTINGS: dict[str, Any] = {
    "tokenizer.kind": "word",
    "tokenizer.min_count": 1,
    "tokenizer.lowercase": True,
    "model.name": "han",
    "model.size": "tiny",
    "model.d_embedding": 32,
    "model.d_hidden": 16,
    "model.d_attention": 32,
    "model.dropout": 0.0,
    "training.batch_tokens": 1_500,
    "training.learning_rate": 0.01,
    "training.warmup": 10,
    "training.label_smoothing": 0.0,
}


class Document(NamedTuple):
    """A document: its sentences, the number of the telling one (or None), its telling words, and the label."""

    sentences: tuple[str, ...]
    telling: int | None
    words: tuple[str, ...]
    label: str

    @property
    def text(self) -> str:
        """The whole document."""
        return " ".join(self.sentences)


class Reading(NamedTuple):
    """Results of a HAN for a document: sentence weights, the words of each sentence with weights, probabilities."""

    sentences: Tensor
    words: list[tuple[tuple[str, ...], Tensor]]
    probabilities: Tensor


def draw_documents(split: Split) -> list[Document]:
    """The documents of a split; a hash of the text decides the split."""
    rng = Random(f"politics {split}")
    drawn: list[Document] = []
    while len(drawn) < _SIZES[split]:
        sentences = rng.sample(_FILLER, rng.randint(2, _MOST - 1))
        label, place = rng.choice((*_TELLING, _NONE)), None
        words: tuple[str, ...] = ()
        if label != _NONE:
            place, form = rng.randint(0, len(sentences)), rng.choice(_SENTENCES)
            a, b = rng.sample(_TELLING[label], 2)
            said = form.format(a=a, b=b)
            words = tuple(word for word in (a, b) if word in said)
            sentences.insert(place, said)
        document = Document(tuple(sentences), place, words, label)
        if split_of(document.text) == split:
            drawn.append(document)
    return drawn


def politics_stages() -> tuple[Stage, ...]:
    """Train the HAN, then read the document and the held-out ones with it; takes some seconds."""
    drawn = {split: draw_documents(split) for split in SPLITS}
    data = {split: [(one.text, one.label) for one in documents] for split, documents in drawn.items()}
    run = train_small("classification", _STEPS, _SETTINGS, **data)
    reading = _read(run, DOCUMENT)
    dropped = _without_each(run, DOCUMENT, int(reading.probabilities.argmax()))
    found = _found(run, [document for document in drawn["test"] if document.telling is not None])
    accuracy = float(run.report["scores"]["test"]["accuracy"]["value"])
    labels = list(run.task.labels)
    return (
        _document(labels, reading),
        _training(drawn["train"]),
        _sentences(reading, dropped),
        _words(reading),
        _verdict(reading, dropped, labels, found, accuracy),
    )


def _read(run: Any, sentences: Sequence[str]) -> Reading:
    """One traced pass over a document."""
    (encoded,) = run.task.encode_texts([" ".join(sentences)])
    batch = run.task.collate_encoded([encoded], [0])
    with torch.no_grad(), trace(run.model) as seen:
        run.model(batch.tokens, batch.mask)
    tokens = run.task.tokenizer.tokens
    rows = seen.maps("words").weights[:, 0, 0].double()
    words = [(tuple(tokens[i] for i in ids), row[: len(ids)]) for ids, row in zip(encoded.sentences, rows, strict=True)]
    return Reading(seen.maps("sentences").weights[0, 0, 0].double(), words, run.probabilities([" ".join(sentences)])[0])


def _without_each(run: Any, sentences: tuple[str, ...], label: int) -> Tensor:
    """Decrease of a label's probability when each sentence in turn is left out."""
    left = [" ".join(sentences[:i] + sentences[i + 1 :]) for i in range(len(sentences))]
    probabilities = run.probabilities([" ".join(sentences), *left])[:, label].double()
    return probabilities[0] - probabilities[1:]  # type: ignore[no-any-return]


def _found(run: Any, documents: Sequence[Document]) -> Tensor:
    """How often attention finds the telling sentence, and the telling words in it.

    Returns:
        The shares of the documents in which the telling sentence has the largest weight; a telling word has the largest
        weight in it; a telling word or its neighbour has; and leaving out the sentence costs most.
    """
    hits = torch.zeros(4, dtype=torch.float64)
    for document in documents:
        reading = _read(run, document.sentences)
        assert document.telling is not None
        words, weights = reading.words[document.telling]
        dropped = _without_each(run, document.sentences, run.task.labels.index(document.label))
        hits[0] += int(reading.sentences.argmax()) == document.telling
        best = int(weights.argmax())
        hits[1] += words[best] in document.words
        hits[2] += any(word in document.words for word in words[max(best - 1, 0) : best + 2])
        hits[3] += int(dropped.argmax()) == document.telling
    return hits / len(documents)


def _document(labels: Sequence[str], reading: Reading) -> Stage:
    return Stage(
        "document",
        "what is this about?",
        (
            "The document is a definition of politics in our own words, one sentence per line.",
            "A hierarchical network reads words, then sentences, with attention at both levels.",
        ),
        "s_i = sum_t alpha_it h_it, alpha_it = softmax_t(tanh(W h_it + b)' u);  v = sum_i alpha_i h_i likewise",
        {"probability": reading.probabilities},
        (Table("probability", ("document",), tuple(labels), reading.probabilities.unsqueeze(0), heat=True),),
        lines=DOCUMENT,
    )


def _training(documents: Sequence[Document]) -> Stage:
    shown = next(document for document in documents if document.label == "politics")
    return Stage(
        "training",
        "the training documents",
        (
            f"{_SIZES['train']:,} documents of 2 to {_MOST} sentences about politics, economics, biology, music or "
            "nothing. If there is a subject, one sentence reveals it; the others occur with every subject.",
            "The name of the subject is in none of them: the network has never read the word politics.",
        ),
        "",
        lines=(f"{shown.label}: {shown.text}",),
    )


def _sentences(reading: Reading, dropped: Tensor) -> Stage:
    table = Table(
        "the weight of each sentence, and the probability lost without it",
        tuple(f"sentence {i + 1}" for i in range(len(DOCUMENT))),
        ("weight", "lost"),
        torch.stack([reading.sentences, dropped], dim=1),
        heat=True,
        notes=DOCUMENT,
    )
    return Stage(
        "sentences",
        "attention to sentences",
        (
            "weight: the attention to the sentence. It tells what was averaged, not what mattered.",
            "lost: how much less probable the label is when the document is read without that sentence.",
        ),
        "",
        {"weight": reading.sentences, "lost": dropped},
        (table,),
    )


def _words(reading: Reading) -> Stage:
    """The words of every sentence with the weight that each got within it."""
    tables = []
    for i, (words, weights) in enumerate(reading.words):
        said = f"sentence {i + 1}, whose weight is {float(reading.sentences[i]):.3f}"
        tables.append(Table(said, ("weight",), words, weights.unsqueeze(0), heat=True))
    unknown = sorted({word for word in " ".join(DOCUMENT).lower().split() if "politics" in word})
    return Stage(
        "words",
        "attention to words",
        (
            "Weights sum to 1 within each sentence, even in sentences with almost no weight themselves.",
            f"<unk> stands for words that are not in the training documents; '{unknown[0]}' is one of them.",
        ),
        "",
        {f"sentence {i + 1}": weights for i, (_, weights) in enumerate(reading.words)},
        tuple(tables),
    )


def _verdict(reading: Reading, dropped: Tensor, labels: Sequence[str], found: Tensor, accuracy: float) -> Stage:
    label = labels[int(reading.probabilities.argmax())]
    top, needed = int(reading.sentences.argmax()), int(dropped.argmax())
    words, weights = reading.words[top]
    best = words[int(weights.argmax())]
    where = "that sentence" if top == needed else f"sentence {needed + 1}"
    telling, word, beside, costs = (f"{float(share):.0%}" for share in found)
    if float(found[:2].min()) >= _MOSTLY:
        holds = "The claim holds here"
    elif float(found[0]) >= _MOSTLY:
        holds = "The claim holds for sentences and not for words here"
    else:
        holds = "The claim does not hold here"
    lines = (
        f"The document is labelled {label} ({float(reading.probabilities.max()):.2f}). Sentence {top + 1} has the most "
        f"weight ({float(reading.sentences[top]):.2f}), and in it '{best}' ({float(weights.max()):.2f}); leaving out "
        f"{where} lowers the probability most ({float(dropped[needed]):.2f}).",
        f"Of the held-out documents, {accuracy:.0%} are labelled correctly. Of those with a telling sentence, it has "
        f"the largest weight in {telling}, and leaving it out costs most in {costs}; within it, a telling word has the "
        f"largest weight in {word}, a telling word or the one next to it in {beside}.",
        f"{holds}, on documents made so that one sentence decides. A weight belongs not to a word but to the state at "
        "that word, which has read its neighbours on both sides: the weight of 'the' can be due to the word after it.",
        f"The first sentence, the definition itself, has weight {float(reading.sentences[0]):.3f}: the network knows "
        "six words of each subject, and none of them is in that sentence.",
    )
    return Stage(
        "verdict",
        "what this shows",
        (
            "Claim of the notes: hierarchical attention finds the sentences, and in them the words, that decide.",
            "Here the deciding words are known, so the claim can be checked by counting.",
        ),
        "",
        {"found": found, "accuracy": double(accuracy)},
        lines=lines,
    )
