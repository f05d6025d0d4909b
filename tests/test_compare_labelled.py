"""Comparing, joining and continuing runs of classification and tagging."""

import json
import random

import numpy as np
import pytest
import torch

import heed
from commands import call
from heed.errors import ConfigError, DataError
from heed.tasks import check_config, task_class
from heed.tasks.heads.tags import Tagged

FILLER = "the of and film story it was we saw plot".split()
TRAINING = {"batch_tokens": 300, "threads": 1, "device": "cpu", "learning_rate": 0.02, "warmup": 5, "seed": 1}
SMALL = {"d_embedding": 12, "d_hidden": 8, "dropout": 0.0}


def texts(count, seed):
    rng = random.Random(seed)
    lines = []
    for _ in range(count):
        label, word = rng.choice([("pos", "great"), ("neg", "awful"), ("so-so", "fair")])
        words = rng.choices(FILLER, k=rng.randint(2, 9))
        words.insert(rng.randrange(len(words) + 1), word)
        lines.append(f"{label} {' '.join(words)}\n")
    return "".join(lines)


def sentences(count, seed):
    rng = random.Random(seed)
    made = []
    for _ in range(count):
        rows = [(word, "O") for word in rng.choices(FILLER, k=rng.randint(1, 4))]
        if rng.random() < 0.8:
            rows += [("Ann", "B-per"), ("Lee", "I-per"), ("in", "O"), (rng.choice(["Rome", "Oslo"]), "B-loc")]
        made.append("".join(f"{word}\t{tag}\n" for word, tag in rows))
    return "\n".join(made)


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    folder = tmp_path_factory.mktemp("labelled")
    for name, count, seed in (("train", 120, 1), ("valid", 30, 2), ("test", 60, 3)):
        (folder / f"{name}.txt").write_text(texts(count, seed))
        (folder / f"{name}.conll").write_text(sentences(count, seed))
    return folder


def trained(folder, task, name, steps=12, files=None, parent=None, **fields):
    ending = "txt" if task == "classification" else "conll"
    settings = {f"model.{key}": value for key, value in SMALL.items()} | {"evaluation.bootstrap": 20}
    settings |= {f"training.{key}": value for key, value in TRAINING.items()}
    return heed.train(
        task,
        train=(files or folder) / f"train.{ending}",
        valid=(files or folder) / f"valid.{ending}",
        test=(files or folder) / f"test.{ending}",
        steps=steps,
        parent=parent,
        out=folder / name,
        settings=settings | fields,
        quiet=True,
    )


@pytest.fixture(scope="module")
def labels(folder):
    """Two runs that cut texts otherwise, one of them hardly trained."""
    return [
        trained(folder, "classification", "words", steps=40),
        trained(folder, "classification", "parts", steps=8, **{"tokenizer.kind": "bpe", "tokenizer.vocab_size": 60}),
    ]


@pytest.fixture(scope="module")
def tags(folder):
    return [
        trained(folder, "tagging", "softmax", steps=6),
        trained(folder, "tagging", "crf", steps=40, **{"model.head": "crf"}),
    ]


# --- comparisons


def test_runs_of_classification_are_compared(labels):
    comparison = heed.compare(labels, resamples=200)
    for row, run in zip(comparison.rows, labels, strict=True):
        report = run.report["scores"]["test"]
        assert row["accuracy"] == pytest.approx(report["accuracy"]["value"])
        assert row["macro_f1"] == pytest.approx(report["macro_f1"]["value"])
        assert row["calibration_error"] == pytest.approx(report["calibration_error"], abs=1e-6)
    better, worse = comparison.rows
    assert worse["accuracy_minus_best_high"] < 0 and better["accuracy_best"] == "words"
    assert comparison.length_unit == "characters"  # their tokens differ
    text = comparison.text(width=400)
    assert "accuracy % by text characters" in text and "training texts/s" in text and "beam" not in text
    example = json.loads(comparison.to_json())["examples"][0]
    assert example["reference"] in ("pos", "neg", "so-so") and set(example["outputs"]) == {"words", "parts"}
    page = comparison.to_html(sentences=3)
    assert page.count('<section class="shading"') == page.count("<details>") > 0
    assert "<dt>label</dt>" in page


def test_runs_of_tagging_are_compared(tags):
    comparison = heed.compare(tags, resamples=200)
    assert comparison.length_unit == "words"
    example = next(e for e in json.loads(comparison.to_json())["examples"] if "[" in e["reference"])
    assert "[Ann Lee]per in [" in example["reference"]
    page = comparison.to_html(sentences=3)
    assert "as the tags" in page and '<span class="found c' in page
    drawn, different = comparison.chosen(9)  # sentences without any entity have no F1 of their own
    assert len(drawn) + len(different) <= 9


def test_what_cannot_be_compared_is_named(folder, labels, tags, tmp_path):
    with pytest.raises(ConfigError, match=r"words' is a run of classification and '.*crf' one of tagging; only"):
        heed.compare([labels[0], tags[1]])
    with pytest.raises(ConfigError, match="beam_size 3 does not apply to runs of classification"):
        heed.compare(labels, beam_size=3)
    for name in ("train", "valid", "test"):
        (tmp_path / f"{name}.txt").write_text((folder / f"{name}.txt").read_text())
    lines = (folder / "test.txt").read_text().splitlines()
    label, text = lines[0].split(maxsplit=1)
    other = "neg" if label != "neg" else "pos"
    (tmp_path / "test.txt").write_text("\n".join([f"{other} {text}", *lines[1:]]))
    elsewhere = trained(folder, "classification", "elsewhere", steps=1, files=tmp_path)
    with pytest.raises(DataError, match=f"the label of example 1 is '{label}' and '{other}'"):
        heed.compare([labels[0], elsewhere])


def test_a_model_that_weighs_no_words_says_so(folder, labels):
    bag = trained(folder, "classification", "bag", 2, **{"model.name": "bag", "model.d_hidden": 8})
    assert "This model has no attention to shade words with" in heed.compare([labels[0], bag], resamples=20).to_html(
        sentences=2
    )


# --- runs that answer together


def test_runs_of_classification_label_by_their_mean_probability(labels, capsys):
    both = heed.ensemble([labels[0], labels[1].folder])
    texts = ["the film was great", "", "awful plot of the saw"]
    each = [run.predict(texts) for run in labels]
    for one, *members in zip(both.predict(texts), *each, strict=True):
        for label, probability in one.probabilities.items():
            assert probability == pytest.approx(np.mean([m.probabilities[label] for m in members]), abs=1e-6)
        assert (one.label == "") == (members[0].label == "")
    assert heed.ensemble([labels[0], labels[0]]).predict(texts) == labels[0].predict(texts)
    report = both.evaluate("test")
    assert report["examples"] == 60 and report["accuracy"]["value"] > labels[1].evaluate()["accuracy"]["value"]
    code, out, _ = call(capsys, "evaluate", labels[0].folder, "--with", labels[1].folder, "--json")
    assert code == 0 and json.loads(out)["test"]["accuracy"] == report["accuracy"]
    code, out, _ = call(capsys, "predict", labels[0].folder, "--with", labels[1].folder, texts[0])
    assert out.startswith(both.predict(texts[0]).label + "\t")
    with pytest.raises(ConfigError, match="`look` is not available for an ensemble; use one run at a time"):
        both.look(texts[0])


def test_runs_of_tagging_tag_by_their_mean_probability_and_with_a_crf_legally(tags):
    texts = ["we saw Ann Lee in Rome", ""]
    both = heed.ensemble(tags)
    for one, *members in zip(both.predict(texts), *(run.predict(texts) for run in tags), strict=True):
        assert one.words == members[0].words
        for prediction in (one, *members):
            assert len(prediction.tags) == len(one.words)
    names = both.head.labels
    words = [["Ann", "Lee", "in", "Rome"]]
    (_, mean), *given = (run.answers(words)[0] for run in (both, *tags))
    torch.testing.assert_close(mean, torch.stack([probabilities for _, probabilities in given]).mean(0))
    inside, outside = names.index("I-per"), names.index("O")
    drawn = torch.full((2, len(names)), 0.01)
    drawn[0, outside], drawn[1, inside] = 0.9, 0.9  # I-per after O is none that BIO allows
    drawn = [Tagged([], drawn)]
    legal = [["O", "O"], ["B-per", "I-per"], ["O", "B-per"], ["O", "B-loc"]]
    assert [names[i] for i in both.head.together(drawn).tags] in legal
    assert [names[i] for i in tags[0].head.together(drawn).tags] == ["O", "I-per"]


def test_what_cannot_answer_together_is_named(folder, labels, tags, tmp_path):
    with pytest.raises(ConfigError, match=r"run of classification and '.*crf' one of tagging; only runs of one task"):
        heed.ensemble([labels[0], tags[1]])
    for name in ("train", "valid", "test"):
        (tmp_path / f"{name}.txt").write_text((folder / f"{name}.txt").read_text().replace("so-so", "neg"))
    two = trained(folder, "classification", "two", steps=1, files=tmp_path)
    with pytest.raises(ConfigError, match="cannot form an ensemble: their labels differ, only one has 'so-so'"):
        heed.ensemble([labels[0], two])


# --- runs that start from others


def child(run, files, ending, **sections):
    data = {name: str(files / f"{name}.{ending}") for name in ("train", "valid")}
    values = {"task": run.config.task, "data": data, "model": {"from": str(run.folder)}, **sections}
    task = task_class(run.config.task).prepare(check_config(values, "test"))
    torch.manual_seed(1)
    model = task.build_model()
    drawn = {name: tensor.clone() for name, tensor in model.state_dict().items()}
    return task, model, drawn


def test_a_tagger_takes_transitions_and_characters(folder, tmp_path):
    fields = {"model.head": "crf", "model.characters": "cnn", "model.num_filters": 4, "model.d_character": 4}
    parent = trained(folder, "tagging", "letters", 3, **fields)
    for name, count, seed in (("train", 40, 7), ("valid", 10, 8)):
        (tmp_path / f"{name}.conll").write_text(sentences(count, seed).replace("loc", "place").replace("Rome", "Ürö"))
    task, model, _ = child(parent, tmp_path, "conll")
    taken = task.parent.copy_into(model, task)
    assert taken.new == () and taken.tokens["head.crf.transitions"] == (3, 5)
    own, theirs = model.state_dict()["head.crf.transitions"], parent.model.state_dict()["head.crf.transitions"]
    (i, j), (k, n) = ([t.head.labels.index(label) for label in ("B-per", "O")] for t in (task, parent.task))
    assert own[i, j] == theirs[k, n]
    known, total = taken.tokens["characters.embedding.weight"]
    assert 4 < known < total


def test_what_does_not_apply_is_named(folder, labels):
    with pytest.raises(ConfigError, match=r"tokenizer.shared is true, which does not apply to classification"):
        child(labels[0], folder, "txt", tokenizer={"shared": True})
