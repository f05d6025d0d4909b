"""Documents with one deciding sentence: a hierarchical network finds it, and the word in it."""

import numpy as np
import pytest

import heed
from heed.data.embedded.texts import DECIDING, OTHER, draw_documents
from heed.data.examples import split_sentences
from heed.errors import DataError

SETTINGS = {
    "data.sentences": [3, 8],
    "data.train": 1000,
    "data.valid": 50,
    "data.test": 100,
    "model.d_embedding": 24,
    "model.d_hidden": 12,
    "model.d_attention": 16,
    "training.learning_rate": 0.05,
    "training.warmup": 20,
    "training.validate_every": 120,
    "training.threads": 1,
    "training.device": "cpu",
    "evaluation.bootstrap": 10,
}


def test_one_sentence_decides_and_it_is_known_which():
    documents = draw_documents("train", 300, (2, 6), seed=1)
    deciding = {word: label for label, words in DECIDING.items() for word in words}
    for document in documents:
        text = document.text.text
        sentences = [text[start:end].lower() for start, end in split_sentences(text)]
        assert 2 <= len(sentences) <= 6
        found = [(i, w) for i, s in enumerate(sentences) for w in s.rstrip(".").split() if w in deciding]
        if document.word:
            assert found == [(document.sentence, document.word)]
            assert document.text.labels == (deciding[document.word],)
        else:
            assert found == [] and document.sentence is None and document.text.labels == (OTHER,)
    assert {document.text.labels[0] for document in documents} == {*DECIDING, OTHER}
    assert not {d.text.text for d in documents} & {d.text.text for d in draw_documents("test", 100, (2, 6), seed=1)}
    with pytest.raises(DataError, match=r"sentences is \(4, 2\)"):
        draw_documents("train", 1, (4, 2), seed=1)


def test_han_finds_the_deciding_sentence_and_its_word(tmp_path):
    run = heed.train(
        "classification", data="planted", model="han", size="tiny", steps=120, out=tmp_path / "run",
        settings=SETTINGS, quiet=True,
    )  # fmt: skip
    assert run.report["scores"]["test"]["accuracy"]["value"] >= 0.97
    planted = [document for document in draw_documents("test", 60, (3, 8), seed=1) if document.word]
    sentence_found = word_found = 0
    for document in planted:
        look = run.look(document.text.text, contributions=False).look
        shadings = {shading.axis.kind: shading for shading in look.shadings}
        sentences, words = shadings["sentence"], shadings["word"]
        top = int(np.argmax(sentences.weights))
        lengths = [len(label.split()) for label in sentences.axis.labels]
        start = sum(lengths[:top])
        inside = words.weights[start : start + lengths[top]]
        sentence_found += top == document.sentence
        word_found += words.axis.labels[start + int(np.argmax(inside))].lower() == document.word
    assert sentence_found >= 0.9 * len(planted)
    assert word_found >= 0.9 * len(planted)
