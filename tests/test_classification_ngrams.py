"""N-grams beside a classifier: held to NumPy, fitted as scikit-learn does, shown, and there by default."""

import json
import random

import numpy as np
import pytest
import torch
from sklearn.linear_model import LogisticRegression

import heed
from heed.layers.ngrams import HashedNgrams, hash_ngrams
from heed.tasks import check_config
from heed.tasks.classification import ngrams
from heed.tasks.classification.ngrams import NAME, TfidfClassifier
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
    layer = HashedNgrams(2, 500, 3)
    for name in ("weight", "bias", "idf"):
        getattr(layer, name).copy_(torch.rand_like(getattr(layer, name)))
    tokens = torch.tensor([[5, 6, 5, 6], [9, 0, 0, 0], [0, 0, 0, 0]])
    found = layer(tokens, tokens > 0).numpy()
    weight, bias, idf = (getattr(layer, name).numpy() for name in ("weight", "bias", "idf"))
    for row, ids in enumerate([[5, 6, 5, 6], [9], []]):
        row_ids = torch.tensor(ids, dtype=torch.long)
        buckets = hash_ngrams(row_ids, row_ids > 0, 2, 500).flatten().tolist()
        held = sorted({b for b in buckets if b >= 0})
        x = idf[held] / max(1e-9, np.linalg.norm(idf[held]))
        assert np.allclose(found[row], bias + x @ weight[held], atol=1e-6)


def test_sentences_are_read_apart():
    layer = HashedNgrams(2, 1000, 2)
    nested = torch.tensor([[[5, 6], [7, 0]]])
    flat = torch.tensor([[5, 6, 7]])
    apart = {b for b in layer.buckets(nested, nested > 0)[0].tolist() if b >= 0}
    whole = {b for b in layer.buckets(flat, flat > 0)[0].tolist() if b >= 0}
    assert apart < whole and len(whole - apart) == 1  # the pair 6 7


@pytest.mark.parametrize("stem", ["", "3"])
def test_the_fit_is_the_mean_of_two_logistic_regressions_over_tfidf(folder, stem):
    task, model, started = prepared(settings(folder, stem))
    texts = task.encoded("train")
    grams = [ngrams_of(task.tokens_of(text), 2) for text in texts]
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
    batch = task.collate_encoded(texts, list(range(len(texts))))
    assert np.allclose(model.ngrams(batch.tokens, batch.mask).numpy(), right, atol=2e-2)
    assert "alone they are right on 100.0% of training texts held out from the fit" in str(started["ngrams"])
    json.dumps(started["ngrams"].as_report())


def test_training_sees_logits_of_n_grams_that_were_not_fitted_to_the_text(folder):
    task, model, _ = prepared(settings(folder))
    texts = task.encoded("train")
    batch = task.collate_encoded(texts, [0, 1, 2])
    model.eval()
    with torch.no_grad():
        fitted = model.ngrams(batch.tokens, batch.mask)
        beside = task.strength_and_held_out[1][[0, 1, 2]]
        expected = model(batch.tokens, batch.mask) - fitted + beside
        loss = float(task.loss(model, batch, 0.0))
    assert not torch.allclose(fitted, beside, atol=1e-3)
    assert np.isclose(loss, float(torch.nn.functional.cross_entropy(expected, batch.labels, reduction="sum")))
    again = Classification.prepare(check_config(settings(folder), "test"))
    # A resumed run continues with the same logits.
    assert torch.equal(again.strength_and_held_out[1], task.strength_and_held_out[1])


def test_the_strength_is_the_one_that_is_right_on_most_held_out_texts(folder, tmp_path, monkeypatch):
    given = sorted((folder / "train.txt").read_text().splitlines(keepends=True))
    rare = tmp_path / "rare.txt"  # of few texts with a label, too weak a regression finds none
    rare.write_text("".join(given[:80] + given[-20:]))

    def chosen(*strengths, most=ngrams._FEW):
        monkeypatch.setattr(ngrams, "_STRENGTHS", strengths)
        monkeypatch.setattr(ngrams, "_FEW", most)
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
        neg, pos = model.ngrams(batch.tokens, batch.mask)[0].tolist()
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


def test_the_baseline_is_fitted_once_and_stands_in_the_report(run):
    values = run.report["scores"]["test"]["baselines"][NAME]
    assert {*values} == {"accuracy", "macro_f1"} and values["accuracy"]["value"] == 1.0
    first = run._tfidf
    run.evaluate("valid")
    assert run._tfidf is first


def test_the_baseline_is_scikit_learns():
    texts, labels = ["good film", "bad film", "so so", "good plot", "bad plot ."], [["p"], ["n"], ["o"], ["p"], ["n"]]
    made = TfidfClassifier(texts, labels, several=False)
    assert [one.label for one in made.predict(["a good thing", "bad", "so"])] == ["p", "n", "o"]
    several = TfidfClassifier(["good film", "bad film", "good and bad"], [["p"], ["n"], ["p", "n"]], several=True)
    assert [one.labels for one in several.predict(["good bad", "good film"])] == [("n", "p"), ("p",)]
