"""N-grams beside a classifier: held to NumPy, fitted as scikit-learn does, shown, and there by default."""

import json
import random

import numpy as np
import pytest
import torch
from sklearn.feature_extraction.text import TfidfVectorizer
from sklearn.linear_model import LogisticRegression

import heed
from heed.data.tokens.special import UNKNOWN
from heed.errors import RunError
from heed.tasks import check_config, task_class
from heed.tasks.heads.tfidf import ALONE, NAME, NETWORK, TfidfClassifier
from heed.tasks.inputs import ngrams
from heed.tasks.inputs.ngrams import Fit, Ngrams

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
    task = task_class("classification").prepare(check_config(values, "test"))
    torch.manual_seed(1)
    model = task.build_model()
    return task, model, task.start(model)


def right(task, logits, examples):
    """Whether logits decide for the labels of each example."""
    said = [{*task.head.predict(row).labels} for row in task.head.probabilities(logits)]
    return [labels == {*one.labels} for labels, one in zip(said, examples, strict=True)]


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


def drawn_ngrams(words, characters):
    rng, rows = np.random.default_rng(0), len(words) + len(characters)
    idf, weight, bias = (rng.random(shape, dtype=np.float32) for shape in (rows, (rows, 3), 3))
    return Ngrams(Fit(2, 4, "logistic", 1.0, 1), (tuple(words), tuple(characters)), idf, weight, bias)


def test_logits_are_those_of_numpy():
    made = drawn_ngrams(["good", "not", "not good"], [" go", "goo", "ood "])
    found = made.logits([["not", "good", "good"], ["dull"], []]).numpy()
    idf, expected = made.idf, made.bias.copy()
    for kind in ([0, 1, 2], [3, 4, 5]):  # words; characters
        expected += idf[kind] / np.linalg.norm(idf[kind]) @ made.weight[kind]
    assert np.allclose(found, [expected, made.bias, made.bias], atol=1e-6)
    parts = made.parts(["not", "good", "good"])
    assert [*parts] == ["good", "not", "not good", "go-", "-goo-", "-ood"]
    assert np.allclose(sum(parts.values()) + made.bias, expected, atol=1e-6)


def test_what_was_saved_is_restored_and_damage_is_refused(tmp_path):
    made = drawn_ngrams(["a", "b"], [" a "])
    made.save(tmp_path)
    again = Ngrams.restore(tmp_path)
    assert again.fit == made.fit and again.names == made.names
    assert torch.equal(again.logits([["a"], ["b", "a"]]), made.logits([["a"], ["b", "a"]]))
    names = (tmp_path / "ngrams.json").read_text()
    drawn_ngrams(["a"], [" a "]).save(tmp_path)
    (tmp_path / "ngrams.json").write_text(names)
    with pytest.raises(RunError, match=r"ngrams.safetensors is damaged: .*'weight': \(2, 3\).* expected .*\(3, 3\)"):
        Ngrams.restore(tmp_path)
    (tmp_path / "ngrams.safetensors").write_bytes(b"no")
    with pytest.raises(RunError, match=r"ngrams.safetensors is damaged"):
        Ngrams.restore(tmp_path)
    (tmp_path / "ngrams.json").unlink()
    with pytest.raises(RunError, match=r"ngrams.json"):
        Ngrams.restore(tmp_path)


def test_words_are_in_lower_case():
    assert ngrams.words_of("Not GOOD, I") == ["not", "good", ",", "i"]


def test_words_that_the_tokenizer_does_not_know_count(tmp_path):
    """Each label has words of its own that occur once in training; their beginning tells the label."""
    rng = random.Random(5)

    def drawn(count):
        letters = "abcdefghijklmnop"
        made = (("neg", "mis") if rng.random() < 0.5 else ("pos", "pre") for _ in range(count))
        return "".join(f"{label} the {start}{''.join(rng.choices(letters, k=6))} film\n" for label, start in made)

    for name, count in (("train", 80), ("valid", 40), ("test", 40)):
        (tmp_path / f"{name}.txt").write_text(drawn(count))
    task, _, started = prepared(settings(tmp_path))
    examples = task.splits.examples["test"]
    test = task.input.encode(examples)
    assert all(UNKNOWN in task.input.tokens_of(text) for text in test)
    assert all(right(task, torch.tensor(np.stack([text.ngrams for text in test])), examples))
    assert started["ngrams"].fit.characters == 5 and started["ngrams"].fit.held_out > 0.95


@pytest.mark.parametrize("stem", ["", "3"])
def test_the_fit_is_scikit_learns(folder, stem):
    model = {"name": "rnn", "ngrams": 2, "ngram_characters": 0, **SMALL}
    task, model, started = prepared(settings(folder, stem, model=model))
    texts, fit = [example.text for example in task.splits.examples["train"]], started["ngrams"].fit
    vectorizer = TfidfVectorizer(ngram_range=(1, fit.longest), token_pattern=r"\S+", binary=True)
    x, labels = vectorizer.fit_transform(texts), task.head.true(task.truths("train"), range(len(texts))).numpy()
    assert sorted(vectorizer.vocabulary_) == [*started["ngrams"].names[0]]

    def one(label):
        made = LogisticRegression(C=fit.strength, solver="liblinear")
        return made.fit(x, labels == label).decision_function(x)

    right = np.stack([one(0), one(1), one(2)], 1) if stem else np.stack([-one(1) / 2, one(1) / 2], 1)
    found = started["ngrams"].logits(map(str.split, texts)).numpy()
    assert np.allclose(found, right * fit.scale, atol=0.02 * np.abs(right * fit.scale).max())
    assert "alone they are right on 100.0% of training texts held out from the fit" in str(started["ngrams"])
    json.dumps(started["ngrams"].as_report())


def test_training_sees_logits_of_n_grams_that_were_not_fitted_to_the_text(folder, tmp_path):
    task, model, _ = prepared(settings(folder))
    batch, beside = task.collate([0, 1, 2]), task.input.fit()[1]
    model.eval()
    with torch.no_grad():
        assert torch.equal(batch.inputs["ngrams"], beside[[0, 1, 2]])
        logits = model(**batch.inputs | {"ngrams": torch.zeros(3, 2)}) + beside[[0, 1, 2]]
        loss = float(task.loss(model, batch, 0.0))
    encoded = task.input.encode(task.splits.examples["train"])
    fitted = torch.tensor([text.ngrams for text in encoded])
    assert not torch.allclose(fitted, beside, atol=1e-3)
    assert np.isclose(loss, float(torch.nn.functional.cross_entropy(logits, batch.targets["labels"], reduction="sum")))
    task.save(tmp_path)
    again = task_class("classification").restore(task.config, tmp_path)
    # A resumed run continues with the same logits.
    assert torch.equal(again.collate([3, 4]).inputs["ngrams"], beside[[3, 4]])


def test_of_many_texts_a_sample_is_fitted_and_the_others_have_logits_of_that_fit(folder):
    task, _, _ = prepared(settings(folder))
    texts, targets = task.splits.examples["train"], task.head.linear_targets(task.truths("train"))
    made, beside = ngrams.learn(texts, task.input.words_of, targets, (2, 0), work=2.5 * 4)
    assert made.fit.step == 3 and made.fit.texts == 80 and len(beside) == 240
    others = [n for n in range(240) if n % 3]
    assert torch.equal(beside[others], made.logits([task.input.words_of(texts[n]) for n in others]))
    assert torch.equal(made.held_out_logits(texts, task.input.words_of, targets), beside)
    assert targets.right(beside.numpy()) > 0.95


def test_loss_and_c_are_those_that_are_right_on_most_held_out_texts(folder, tmp_path, monkeypatch):
    given = sorted((folder / "train.txt").read_text().splitlines(keepends=True))
    rare = tmp_path / "rare.txt"  # of few texts with a label, too weak a regression finds none
    rare.write_text("".join(given[:80] + given[-20:]))

    def chosen(*losses):
        monkeypatch.setattr(ngrams, "_LOSSES", losses)
        return prepared(settings(folder, train=str(rare)))[2]["ngrams"].fit

    weak, good, hinge = ("logistic", 1e-6), ("logistic", 10.0), ("squared_hinge", 1.0)
    assert chosen(weak).held_out == 0.8 < chosen(good).held_out
    for losses in ((weak, good), (good, weak)):
        assert chosen(*losses) == chosen(good)
    assert chosen(weak, hinge).loss == "squared_hinge"
    assert chosen(("logistic", 20.0), good).strength == 20.0  # as good as each other: the first


def test_of_many_classes_single_words_and_characters_are_chosen_too(tmp_path):
    """Each of 40 labels has a stem, in words with an ending that the others share; pairs of words only distract."""
    rng, letters = random.Random(3), "bcdfghklmnprstvz"
    stems = ["".join(rng.choices(letters, k=5)) for _ in range(40)]
    for name, count in (("train", 400), ("valid", 40), ("test", 80)):
        ends = ["".join(rng.choices(letters, k=4)) for _ in range(count)]
        words = [[stems[n % 40] + end, *rng.choices(WORDS, k=4)] for n, end in enumerate(ends)]
        lines = (f"{stems[n % 40]} {' '.join(rng.sample(text, 5))}\n" for n, text in enumerate(words))
        (tmp_path / f"{name}.txt").write_text("".join(lines))
    task, _, started = prepared(settings(tmp_path, model={"name": "bag", "ngrams": 2}))
    fit = started["ngrams"].fit
    assert fit.characters == 5 and fit.held_out > 0.9
    examples = task.splits.examples["test"]
    alone = right(task, started["ngrams"].logits(map(task.input.words_of, examples)), examples)
    svm = TfidfClassifier(
        [e.text for e in task.splits.examples["train"]], [e.labels for e in task.splits.examples["train"]], False
    )
    of_svm = [one.labels == e.labels for one, e in zip(svm.predict([e.text for e in examples]), examples, strict=True)]
    assert sum(alone) / len(alone) > 0.9 > sum(of_svm) / len(of_svm)


def test_nothing_is_drawn_for_n_grams(folder):
    without, beside = (prepared(settings(folder, model={"name": "rnn", "ngrams": n, **SMALL}))[1] for n in (0, 2))
    own = without.state_dict()
    assert all(torch.equal(own[name], tensor) for name, tensor in beside.state_dict().items() if name in own)
    assert {*beside.state_dict()} - {*own} == {"ngram_scale"}


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
    examples = task.splits.examples["test"]
    said = [{*task.head.predict(one).labels} for one in task.answers(made, task.input.encode(examples))]
    assert said == [{*one.labels} for one in examples]


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
    corpus, linear = task.input.encode_texts(["the film was not good"]), task.input.linear
    neg, pos = corpus[0].ngrams
    bias = linear.bias[0] - linear.bias.mean()
    look = run.look("the film was not good").look
    (shading,) = (s for s in look.shadings if s.title.startswith("N-gram classifier"))
    scaled = model.ngram_scale.item() * ((neg - pos) / 2 - bias)
    everything = linear.parts(task.input.words_of(task.input.example_of("the film was not good")))
    if len(everything) <= 12:  # all are listed
        assert np.isclose(sum(shading.weights), scaled, atol=1e-5)
    first, second = model(**task.input.collate(corpus, [0], None).inputs)[0].tolist()
    linear, together = model.ngram_scale.item() * (neg - pos) / 2, (first - second) / 2
    (note,) = (note for note in look.notes if note.startswith("score of"))
    parts = f"n-grams {linear:+.4f}, network {together - linear:+.4f}, together {together:+.4f}"
    assert note == f"score of 'neg' (minus the mean score of all labels): {parts}"
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
        config = (
            task_class("classification")
            .prepare(check_config(settings(folder, model=model, training=training), "test"))
            .config
        )
        return config.model.model_extra["ngrams"], config.training

    longest, training = settled({}, {"minutes": 1})
    assert (longest, training.learning_rate) == (2, 0.001) and training.validate_every is not None
    assert settled({}, {"minutes": 1, "learning_rate": 0.01})[1].learning_rate == 0.01
    for model, given in (({"name": "rnn"}, {"minutes": 1}), ({}, {"steps": 5}), ({"ngrams": 0}, {"minutes": 1})):
        longest, training = settled(model, given)
        assert (longest, training.learning_rate, training.validate_every) == (0, 0.003, None)


@pytest.mark.parametrize(("labels", "rate"), [(19, 0.001), (20, 0.003)])
def test_of_many_labels_the_network_beside_them_learns_at_the_usual_rate(tmp_path, labels, rate):
    path = tmp_path / "train.txt"
    path.write_text("".join(f"l{n % labels} a word of {n % labels}\n" for n in range(6 * labels)))
    config = {"task": "classification", "data": {"train": str(path), "valid": labels}, "training": {"minutes": 1}}
    settled = task_class("classification").prepare(check_config(config, "test")).config
    assert settled.model.settings["ngrams"] == 2 and settled.training.learning_rate == rate


def test_the_baseline_stands_in_the_report(run):
    values = run.report["scores"]["test"]["baselines"][NAME]
    assert {*values} == {"accuracy", "macro_f1"} and values["accuracy"]["value"] == 1.0
    network = run.report["scores"]["test"]["baselines"][NETWORK]["accuracy"]["value"]
    assert network == run.evaluate("test")["baselines"][NETWORK]["accuracy"]["value"] <= 1.0
    alone = run.report["scores"]["test"]["baselines"][ALONE]["accuracy"]["value"]
    assert alone >= 0.95 and run.evaluate("test")["baselines"][ALONE]["accuracy"]["value"] == alone


def test_the_baseline_is_scikit_learns():
    texts, labels = ["good film", "bad film", "so so", "good plot", "bad plot ."], [["p"], ["n"], ["o"], ["p"], ["n"]]
    made = TfidfClassifier(texts, labels, several=False)
    assert [one.label for one in made.predict(["a good thing", "bad", "so"])] == ["p", "n", "o"]
    several = TfidfClassifier(["good film", "bad film", "good and bad"], [["p"], ["n"], ["p", "n"]], several=True)
    assert [one.labels for one in several.predict(["good bad", "good film"])] == [("n", "p"), ("p",)]
