"""N-grams beside a classifier: held to NumPy, fitted as scikit-learn does, shown, and there by default."""

import json
import random

import numpy as np
import pytest
import torch
from heed.tasks.classification.ngrams import ALONE, NAME, Reading, TfidfClassifier
from sklearn.linear_model import LogisticRegression

import heed
from heed.data.tokens.special import UNKNOWN
from heed.layers.ngrams import HashedNgrams
from heed.tasks import check_config
from heed.tasks.classification import ngrams
from heed.tasks.classification.task import Classification

WORDS = "the of and film story it was we saw plot".split()
SMALL = {"d_embedding": 8, "d_hidden": 6, "d_pooling": 6, "dropout": 0.0, "cell": "gru"}
TRAINING = {"steps": 30, "batch_tokens": 300, "threads": 1, "device": "cpu"}


def lines(count, seed, labels=("neg", "pos")):
    """Texts whose label only a pair of words tells: "not good" or "good not"."""
    rng, pairs = random.Random(seed), [["not", "good"], ["good", "not"], ["rather", "dull"]]
    result = []
    for _ in range(count):
        number = rng.randrange(len(labels))
        text = rng.choices(WORDS, k=rng.randint(2, 7))
        place = rng.randrange(len(text) + 1)
        result.append(f"{labels[number]} {' '.join([*text[:place], *pairs[number], *text[place:]])}\n")
    return "".join(result)


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    path = tmp_path_factory.mktemp("data")
    for name, count, seed in (("train", 240, 1), ("valid", 60, 2), ("test", 60, 3)):
        (path / f"{name}.txt").write_text(lines(count, seed))
        (path / f"{name}3.txt").write_text(lines(count, seed, ("neg", "pos", "so")))
    return path


def settings(folder, stem="", **changed):
    model, training = changed.pop("model", {"name": "rnn", "ngrams": 2, **SMALL}), changed.pop("training", TRAINING)
    data = {name: str(folder / f"{name}{stem}.txt") for name in ("train", "valid", "test")}
    return {"task": "classification", "data": {**data, **changed}, "model": model, "training": training}


def prepared(values):
    task = Classification.prepare(check_config(values, "test"))
    torch.manual_seed(1)
    model = task.build_model()
    return task, model, task.start(model)


@pytest.fixture(scope="module")
def run(folder, tmp_path_factory):
    values = settings(folder)
    return heed.train(
        "classification",
        **{name: folder / f"{name}.txt" for name in ("train", "valid", "test")},
        out=tmp_path_factory.mktemp("runs") / "run",
        quiet=True,
        settings={f"{section}.{k}": v for section in ("model", "training") for k, v in values[section].items()}
        | {"evaluation.bootstrap": 20},
    )


def ngrams_of(ids, longest):
    return {tuple(ids[i : i + n]) for n in range(1, longest + 1) for i in range(len(ids) - n + 1)}


def test_logits_are_those_of_numpy():
    torch.manual_seed(0)
    layer = HashedNgrams(500, 3, characters=True)
    for name in ("weight", "bias", "idf"):
        getattr(layer, name).copy_(torch.rand_like(getattr(layer, name)))
    weight, bias, idf = (getattr(layer, name).numpy() for name in ("weight", "bias", "idf"))
    texts = [[3, 41, 500, 999], [7], [600], []]
    found = layer(torch.tensor([row + [-1] * (4 - len(row)) for row in texts])).numpy()
    for row, held in enumerate(texts):
        expected = bias.copy()
        for kind in ([b for b in held if b < 500], [b for b in held if b >= 500]):  # words; characters
            if kind:
                expected += idf[kind] / np.linalg.norm(idf[kind]) @ weight[kind]
        assert np.allclose(found[row], expected, atol=1e-6)


def test_n_grams_are_of_words_in_lower_case_and_of_characters_within_them():
    reading = Reading(2, 4, 10**6)
    words = ngrams.words_of("Not GOOD, I")
    assert words == ["not", "good", ",", "i"]
    names = reading.names(words)
    assert names[:7] == ["not", "good", ",", "i", "not good", "good ,", ", i"]
    assert names[7:12] == ["no-", "-not-", "-ot", "not-", "-not"] and {"goo-", "-ood"} < {*names[12:]}
    rows = reading.rows(words)
    assert len(rows) == len(names) and (rows[:7] < 10**6).all() and (rows[7:] >= 10**6).all()
    # An n-gram is in the same row wherever it occurs.
    again = dict(zip(reading.names(["good", "i"]), reading.rows(["good", "i"]).tolist(), strict=True))
    first = dict(zip(names, rows.tolist(), strict=True))
    assert all(first[name] == row for name, row in again.items() if name in first and name != "i")


def test_words_that_the_tokenizer_does_not_know_count(tmp_path):
    """Each label has words of its own that occur once in training; their beginning tells the label."""
    rng = random.Random(5)

    def drawn(count):
        letters = "abcdefghijklmnop"
        made = (("neg", "mis") if rng.random() < 0.5 else ("pos", "pre") for _ in range(count))
        return "".join(f"{label} the {start}{''.join(rng.choices(letters, k=6))} film\n" for label, start in made)

    for name, count in (("train", 80), ("valid", 40), ("test", 40)):
        (tmp_path / f"{name}.txt").write_text(drawn(count))
    task, model, started = prepared(settings(tmp_path))
    test = task.encoded("test")
    assert all(UNKNOWN in task.tokens_of(text) for text in test)
    alone = task.ngram_logits(model, test)
    assert (task.decide(task.probabilities(alone)) == task.indicators(test)).all()
    assert started["ngrams"].characters == 4 and started["ngrams"].held_out > 0.95


@pytest.mark.parametrize("stem", ["", "3"])
def test_the_fit_is_the_mean_of_two_logistic_regressions_over_tfidf(folder, stem):
    model = {"name": "rnn", "ngrams": 2, "ngram_characters": 0, **SMALL}
    task, model, started = prepared(settings(folder, stem, model=model))
    texts = task.encoded("train")
    grams = [ngrams_of(example.text.split(), 2) for example in task.splits.examples["train"]]
    names = sorted(set().union(*grams))
    x = np.array([[name in own for name in names] for own in grams], dtype=float)
    x *= np.log((1 + len(x)) / (1 + x.sum(0))) + 1
    x /= np.linalg.norm(x, axis=1, keepdims=True)
    labels = np.array([text.labels[0] for text in texts])

    def one(label):
        ratio = [np.log((np.sum(x[labels == label] > 0, 0) + 1) / (np.sum(x[labels == label] > 0, 0) + 1).sum())]
        ratio += [np.log((np.sum(x[labels != label] > 0, 0) + 1) / (np.sum(x[labels != label] > 0, 0) + 1).sum())]
        made = LogisticRegression(C=started["ngrams"].strength, solver="liblinear")
        r = ratio[0] - ratio[1]
        return (made.fit(x, labels == label).decision_function(x)
                + made.fit(x * r, labels == label).decision_function(x * r)) / 2  # fmt: skip

    right = np.stack([one(0), one(1), one(2)], 1) if stem else np.stack([-one(1) / 2, one(1) / 2], 1)
    right *= task.chosen_ngrams.scale
    batch = task.collate_encoded(texts, list(range(len(texts))))
    assert np.allclose(model.ngrams(batch.ngrams).numpy(), right, atol=0.02 * np.abs(right).max())
    assert "alone they are right on 100.0% of training texts held out from the fit" in str(started["ngrams"])
    json.dumps(started["ngrams"].as_report())


def test_training_sees_logits_of_n_grams_that_were_not_fitted_to_the_text(folder):
    task, model, _ = prepared(settings(folder))
    texts = task.encoded("train")
    batch = task.collate_encoded(texts, [0, 1, 2])
    model.eval()
    with torch.no_grad():
        fitted = model.ngrams(batch.ngrams)
        beside = task.chosen_ngrams.logits[[0, 1, 2]]
        expected = task.forward(model, batch) - fitted + beside
        loss = float(task.loss(model, task.collate([0, 1, 2]), 0.0))
    assert not torch.allclose(fitted, beside, atol=1e-3)
    assert np.isclose(loss, float(torch.nn.functional.cross_entropy(expected, batch.labels, reduction="sum")))
    again = Classification.prepare(check_config(settings(folder), "test"))
    # A resumed run continues with the same logits.
    assert torch.equal(again.chosen_ngrams.logits, task.chosen_ngrams.logits)


def test_the_strength_is_the_one_that_is_right_on_most_held_out_texts(folder, tmp_path, monkeypatch):
    given = sorted((folder / "train.txt").read_text().splitlines(keepends=True))
    rare = tmp_path / "rare.txt"  # of few texts with a label, too weak a regression finds none
    rare.write_text("".join(given[:80] + given[-20:]))

    def chosen(*strengths, most=ngrams._MANY):
        monkeypatch.setattr(ngrams, "_STRENGTHS", strengths)
        monkeypatch.setattr(ngrams, "_MANY", most)
        return prepared(settings(folder, train=str(rare)))[2]["ngrams"]

    weak, good = chosen(1e-6), chosen(10.0)
    assert weak.held_out == 0.8 < good.held_out
    for strengths in ((1e-6, 10.0), (10.0, 1e-6)):
        assert chosen(*strengths) == good
    assert chosen(20.0, 10.0).strength == 20.0  # as good as each other: the first
    large = chosen(1e-6, 10.0, most=10)  # too much work to choose
    assert large == weak
    assert large.as_report()["strength"] == 1e-6


def test_nothing_is_drawn_for_n_grams(folder):
    without, beside = (prepared(settings(folder, model={"name": "rnn", "ngrams": n, **SMALL}))[1] for n in (0, 2))
    own = without.state_dict()
    assert all(torch.equal(own[name], tensor) for name, tensor in beside.state_dict().items() if name in own)
    assert {*beside.state_dict()} - {*own} == {"ngram_scale", "ngrams.weight", "ngrams.bias", "ngrams.idf"}


@pytest.mark.parametrize(
    ("changed", "model"),
    [
        ({"several_labels": True}, {"name": "cnn", "ngrams": 2, "d_embedding": 8, "num_filters": 4}),
        ({}, {"name": "rnn", "ngrams": 2, "head": "sigmoid", **SMALL}),
        ({"class_weights": "balanced"}, {"name": "rnn", "ngrams": 2, "pooling": "mean", **SMALL}),
        ({}, {"name": "han", "ngrams": 2, "d_embedding": 8, "d_hidden": 4, "d_attention": 4}),
        ({}, {"name": "encoder", "ngrams": 2, "pooling": "cls", "size": "tiny"}),
    ],
)
def test_n_grams_stand_beside_every_body_and_head(folder, changed, model):
    task, made, _ = prepared(settings(folder, model=model, **changed))
    made.output.weight.data.zero_()
    made.output.bias.data.zero_()
    texts = task.encoded("test")
    assert (task.decide(task.classify(made, texts)) == task.indicators(texts)).all()


def test_a_run_learns_loads_looks_and_starts_another(run, folder, tmp_path):
    assert run.report["scores"]["test"]["accuracy"]["value"] == 1.0
    assert run.report["ngrams"]["longest"] == 2 and 0.9 < run.report["ngrams"]["held_out"] <= 1.0
    texts = ["we saw good not film", "not good"]
    assert heed.load(run.folder).predict(texts) == run.predict(texts)
    shown = run.look("the film was not good , not good")
    (shading,) = (s for s in shown.look.shadings if s.title.startswith("N-gram classifier"))
    assert shown.target == "neg" and shading.axis.labels[int(np.argmax(shading.weights))] == "not good"
    assert shading.axis.labels.count("not good") == 1
    task, model = run.task, run.model
    (encoded,) = task.encode_texts(["the film was not good"])
    batch = task.collate_encoded([encoded], [0])
    with torch.no_grad():
        neg, pos = model.ngrams(batch.ngrams)[0].tolist()
    bias = model.ngrams.bias[0].item() - model.ngrams.bias.mean().item()
    (shading,) = (s for s in run.look("the film was not good").look.shadings if s.title.startswith("N-gram classifier"))
    scaled = model.ngram_scale.item() * ((neg - pos) / 2 - bias)
    assert np.isclose(sum(shading.weights), scaled, atol=1e-5)  # nine n-grams: all are listed
    child = heed.train(
        "classification",
        train=folder / "train.txt",
        valid=folder / "valid.txt",
        out=tmp_path / "child",
        quiet=True,
        settings={"model.from": str(run.folder), "training.steps": 2, "training.threads": 1},
    )
    assert child.task.config.model.model_extra["ngrams"] == 2


def test_they_are_there_only_where_nobody_named_a_model_or_steps(folder):
    def settled(model, training):
        config = Classification.prepare(check_config(settings(folder, model=model, training=training), "test")).config
        return config.model.model_extra["ngrams"], config.training

    longest, training = settled({}, {"minutes": 1})
    assert (longest, training.learning_rate) == (2, 0.001) and training.validate_every is not None
    assert settled({}, {"minutes": 1, "learning_rate": 0.01})[1].learning_rate == 0.01
    for model, given in (({"name": "rnn"}, {"minutes": 1}), ({}, {"steps": 5}), ({"ngrams": 0}, {"minutes": 1})):
        longest, training = settled(model, given)
        assert (longest, training.learning_rate, training.validate_every) == (0, 0.003, None)


def test_the_baseline_stands_in_the_report(run):
    values = run.report["scores"]["test"]["baselines"][NAME]
    assert {*values} == {"accuracy", "macro_f1"} and values["accuracy"]["value"] == 1.0
    alone = run.report["scores"]["test"]["baselines"][ALONE]["accuracy"]["value"]
    assert alone >= 0.95 and run.evaluate("test")["baselines"][ALONE]["accuracy"]["value"] == alone


def test_the_baseline_is_scikit_learns():
    texts, labels = ["good film", "bad film", "so so", "good plot", "bad plot ."], [["p"], ["n"], ["o"], ["p"], ["n"]]
    made = TfidfClassifier(texts, labels, several=False)
    assert [one.label for one in made.predict(["a good thing", "bad", "so"])] == ["p", "n", "o"]
    several = TfidfClassifier(["good film", "bad film", "good and bad"], [["p"], ["n"], ["p", "n"]], several=True)
    assert [one.labels for one in several.predict(["good bad", "good film"])] == [("n", "p"), ("p",)]
