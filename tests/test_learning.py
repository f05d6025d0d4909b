"""What it is all for: small tasks are learned, with the attention where it must be."""

from pathlib import Path

import numpy as np
import pytest
import torch

import heed
from heed.data.embedded.pairs import DigitSource
from heed.data.embedded.texts import DECIDING, OTHER, draw_documents
from heed.data.examples import split_sentences
from heed.errors import DataError
from heed.watch.edits import Uniform

pytestmark = pytest.mark.usefixtures("as_installed")


def share_of_rows_on_the_line(run, kind, longest, count=40):
    """Rows of maps of held-out strings whose largest weight lies on the (anti-)diagonal, in the model's own outputs."""
    right = rows = 0
    for pair in DigitSource(kind, (3, longest), seed=77).sample("test", count):
        shown = run.look(pair.source)
        places = shown.maps[0].best()[: len(pair.source)]  # the row of the end token may look anywhere
        wanted = list(range(len(pair.source)))
        wanted = wanted if kind == "copy" else wanted[::-1]
        right += sum(place == want for place, want in zip(places, wanted, strict=False))
        rows += len(wanted)
    return right / rows


def check_learned(run, kind, longest):
    test = run.report["scores"]["test"]
    assert test["exact_match"]["value"] >= 0.95
    assert test["alignment_error"]["value"] <= 0.05
    assert share_of_rows_on_the_line(run, kind, longest) >= 0.95
    # and the attention is what does it
    pairs = run.task.splits.examples["test"]
    with heed.edit(run.model, Uniform("cross")):
        outputs = run.predict([pair.source for pair in pairs])
    assert sum(out.text == pair.target for out, pair in zip(outputs, pairs, strict=True)) < 0.5 * len(pairs)


def test_copying_is_learned_along_the_diagonal(tmp_path):
    settings = {"data.length": [3, 6], "data.train": 5_000, "data.valid": 50, "data.test": 200}
    settings |= {f"model.d_{part}": 48 for part in ("embedding", "hidden", "attention")}
    settings |= {"training.batch_tokens": 400, "training.learning_rate": 0.01, "training.warmup": 50}
    settings |= {"training.validate_every": 300, "training.threads": 1, "training.device": "cpu"}
    run = heed.train("translation", data="copy", steps=300, out=tmp_path / "run", quiet=True, settings=settings)
    check_learned(run, "copy", 6)
    weights = run.look("90210").maps[0].weights
    assert torch.diagonal(weights[:5, :5]).min() > 0.5


@pytest.mark.slow
@pytest.mark.parametrize("kind", ["copy", "reverse"])
def test_the_recipes_are_learned_along_the_line(kind, tmp_path):
    recipe = Path(__file__).parents[1] / "examples" / f"{kind}.yaml"
    settings = {"training.threads": 1, "training.device": "cpu", "data.test": 300, "training.validate_every": 1_000}
    run = heed.train(recipe, steps=1_000, out=tmp_path / "run", quiet=True, settings=settings)
    check_learned(run, kind, 12)
    assert run.report["scores"]["test"]["exact_match"]["value"] >= 0.99


# --- Documents with one deciding sentence: a hierarchical network finds it, and the word in it


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
