"""Classification from files to labels, scores and looks, on toy texts that are learned in seconds."""

import json
import random

import numpy as np
import pytest
import torch
from sklearn.metrics import f1_score

import heed
from commands import call
from heed.data.tokens import START
from heed.errors import ConfigError
from heed.evaluation.labels import calibration_error, f1_measures, label_outcomes
from heed.evaluation.measures import values_of
from heed.evaluation.significance import summarise
from heed.tasks import check_config, task_class
from heed.tasks.base.labels import LabelPrediction, outcomes_of
from heed.tasks.classification import look_at_text
from heed.watch.edits import Uniform

FILLER = "the of and film story it was we saw plot".split()
TRAINING = {"steps": 60, "batch_tokens": 300, "threads": 1, "device": "cpu", "learning_rate": 0.01}
SMALL = {"d_embedding": 16, "d_hidden": 12, "dropout": 0.0, "d_pooling": 12}


def toy_lines(count, seed, words=(("pos", "great"), ("neg", "awful"))):
    """Texts of filler with one word that decides."""
    rng = random.Random(seed)
    lines = []
    for _ in range(count):
        label, word = rng.choice(words)
        text = rng.choices(FILLER, k=rng.randint(2, 9))
        text.insert(rng.randrange(len(text) + 1), word)
        lines.append(f"{label} {' '.join(text)}\n")
    return "".join(lines)


@pytest.fixture(scope="module")
def files(tmp_path_factory):
    folder = tmp_path_factory.mktemp("data")
    for name, count, seed in (("train", 300, 1), ("valid", 60, 2), ("test", 80, 3)):
        (folder / f"{name}.txt").write_text(toy_lines(count, seed))
    return folder


def settings(files, **model):
    data = {name: str(files / f"{name}.txt") for name in ("train", "valid", "test")}
    return {
        "task": "classification",
        "data": data,
        "model": {"name": "rnn", "cell": "gru", **SMALL, **model},
        "training": TRAINING,
        "evaluation": {"bootstrap": 50},
    }


def prepare(values):
    return task_class("classification").prepare(check_config(values, "test"))


@pytest.fixture(scope="module")
def run(files, tmp_path_factory):
    out = tmp_path_factory.mktemp("runs") / "run"
    return heed.train(
        "classification",
        train=files / "train.txt",
        valid=files / "valid.txt",
        test=files / "test.txt",
        out=out,
        quiet=True,
        settings={f"model.{k}": v for k, v in {"cell": "gru", **SMALL}.items()}
        | {f"training.{k}": v for k, v in TRAINING.items()}
        | {"evaluation.bootstrap": 50},
    )


def test_the_deciding_word_is_learned_and_looked_at(run):
    assert run.report["scores"]["test"]["accuracy"]["value"] >= 0.95
    assert run.predict("the film was great").label == "pos"
    shown = run.look("we saw the story and it was awful of film")
    shading, added = shown.look.shadings
    assert shown.target == "neg"
    assert added.axis.labels[int(np.argmax(added.weights))] == "awful" and "'neg'" in added.title
    assert shading.axis.labels[int(np.argmax(shading.weights))] == "awful"
    assert np.isclose(sum(shading.weights), 1.0, atol=1e-5)


def test_probabilities_are_those_of_all_labels_and_a_blank_text_has_none(run):
    prediction, blank = run.predict(["great film", " "])
    assert np.isclose(sum(prediction.probabilities.values()), 1.0, atol=1e-5)
    assert prediction.probability == max(prediction.probabilities.values())
    assert blank.label == "" and blank.probabilities == {} and blank.uncertainty == 1.0


def test_a_word_cut_between_two_sentences_is_listed_in_the_first(files):
    values = settings(files)
    values["model"] = {"name": "han", "d_embedding": 8, "d_hidden": 4, "d_attention": 4}
    values["data"]["max_sentence"] = 3  # tokens
    values["tokenizer"] = {"kind": "bpe", "vocab_size": 30}
    task = prepare(values)
    text = "great film awful story"
    look = look_at_text(task, task.build_model().eval(), text)
    sentences = next(one for one in look.shadings if one.axis.kind == "sentence")
    assert len(sentences.axis) > 4 and " ".join(filter(None, sentences.axis.labels)) == text


@pytest.mark.parametrize("text", ["the film was great it was", "great film"])  # the second has no three words
@pytest.mark.parametrize("model", ["mlp", "cnn"])
def test_what_each_word_gives_to_the_vector_of_the_text_is_a_step(files, model, text):
    values = settings(files)
    values["model"] = {"name": model, "d_embedding": 8, **({"d_hidden": 6} if model == "mlp" else {"windows": [2, 3]})}
    task = prepare(values)
    network = task.build_model().eval()
    frames = look_at_text(task, network, text).encoder
    assert [frame.token for frame in frames] == text.split()
    batch = task.batch_of([text])
    with torch.no_grad():
        vector = network.body(**batch.inputs)[0]
        if model == "mlp":
            found = torch.tanh(sum(frame.states["W_i x_i"] for frame in frames) + network.body.hidden.bias)
        else:
            grams = [[f.states[kind] for f in frames if kind in f.states] for kind in ("2-grams", "3-grams")]
            assert list(map(len, grams)) == [max(1, len(frames) - 1), max(1, len(frames) - 2)]
            found = torch.cat([torch.stack(of_width).amax(0) for of_width in grams])
    torch.testing.assert_close(found, vector)


def test_an_edit_reaches_the_pooling_attention(run):
    (shading,) = run.look("the film was great", edits=[Uniform("pooling")]).look.shadings  # nothing is left out then
    assert np.allclose(shading.weights, 0.25)


def test_a_text_to_look_at_must_hold_something_and_has_no_target(run, capsys):
    with pytest.raises(ConfigError, match="blank"):
        run.look(" ")
    code, _, err = call(capsys, "look", run.folder, "great", "--target", "pos")
    assert code == 2 and "--target does not apply to a run of classification" in err


# --- the model


@pytest.mark.parametrize("pooling", ["last", "first", "mean", "max", "attention"])
def test_of_a_text_without_tokens_only_the_bias_is_left(files, pooling):
    task = prepare(settings(files, pooling=pooling))
    model = task.build_model().eval()
    batch = task.collate([0, 1])
    empty = model(batch.inputs["tokens"], torch.zeros_like(batch.inputs["mask"]))
    torch.testing.assert_close(empty, model.output.bias.expand(2, 2))


def test_cls_is_a_token_before_the_text_whose_state_is_classified(files):
    encoder = {"name": "encoder", "pooling": "cls", "d_model": 16, "num_heads": 2, "num_layers": 1, "d_ff": 16}
    values = settings(files)
    values["model"] = encoder
    task = prepare(values)
    model = task.build_model().eval()
    texts = task.input.encode_texts(["great", "we saw the film and it was awful"])
    logits = model(**task.input.collate(texts, [0, 1], None).inputs)
    for row, text in enumerate(texts):
        before = torch.tensor([[START, *task.input.tokens_of(text)]])
        state = model.body(before, torch.ones_like(before, dtype=torch.bool))[:, 0]
        torch.testing.assert_close(logits[row], model.output(state)[0], rtol=1e-4, atol=1e-5)
    look = look_at_text(task, model, "it was awful")
    (shading, _), (attention,) = look.shadings, look.maps
    assert shading.axis.labels == ("it", "was", "awful") and "Attention of [CLS]" in shading.title
    assert attention.key.labels == ("[CLS]", "it", "was", "awful")
    np.testing.assert_allclose(shading.weights, attention.weights[0, 1:], atol=1e-6)
    with pytest.raises(ConfigError, match="model rnn a token before the text cannot read the text; use model encoder"):
        prepare(settings(files, pooling="cls"))


def test_last_pooling_takes_each_direction_where_it_has_read_everything(files):
    task = prepare(settings(files, pooling="last"))
    model = task.build_model().eval()
    batch = task.collate([0, 1, 2])
    hidden, mask = model.body(**batch.inputs), batch.inputs["mask"]
    last = model.body.last(hidden, mask)
    for row, length in enumerate(mask.sum(1).tolist()):
        d = SMALL["d_hidden"]
        torch.testing.assert_close(last[row], torch.cat([hidden[row, length - 1, :d], hidden[row, 0, d:]]))


def test_one_output_is_two_with_the_difference_of_their_logits(files):
    """sigmoid(a) = softmax([0, a]): both heads learn the same thing."""
    task = prepare(settings(files, head="sigmoid"))
    model = task.build_model()
    assert model.output.out_features == 1
    batch = task.collate([0, 1, 2])
    logits = model(**batch.inputs)
    both = torch.cat([torch.zeros_like(logits), logits], dim=1)
    expected = torch.nn.functional.cross_entropy(both, batch.targets["labels"], reduction="sum")
    torch.testing.assert_close(task.loss(model, batch, 0.0), expected)
    torch.testing.assert_close(task.head.probabilities(logits), both.softmax(-1))


def test_balanced_weights_make_every_class_count_alike(files, tmp_path):
    path = tmp_path / "a.txt"
    path.write_text(toy_lines(30, 1, [("a", "great")]) + toy_lines(10, 2, [("b", "awful")]))
    values = settings(files)
    values["data"] = {"train": str(path), "valid": str(path), "class_weights": "balanced"}
    task = prepare(values)
    assert task.head.class_weights(task.truths("train")) == pytest.approx([40 / 60, 40 / 20])
    values["data"]["class_weights"] = {"b": 3.0}
    task = prepare(values)
    assert task.head.class_weights(task.truths("train")) == [1.0, 3.0]
    values["data"]["class_weights"] = {"c": 3.0}
    with pytest.raises(ConfigError, match="no training text has the label 'c'"):
        prepare(values)


def test_several_labels_are_decisions_of_their_own(tmp_path):
    rng = random.Random(1)
    rows = ["text,label"]
    for _ in range(240):
        labels = [name for name in ("red", "blue") if rng.random() < 0.5]
        words = rng.choices(FILLER, k=4) + labels
        rng.shuffle(words)
        rows.append(f'{" ".join(words)},"{",".join(labels)}"')
    (tmp_path / "a.csv").write_text("\n".join(rows) + "\n")
    values = {"train": str(tmp_path / "a.csv"), "valid": 40, "several_labels": True, "test": str(tmp_path / "a.csv")}
    model = {"name": "rnn", "cell": "gru", **SMALL}
    config = {"task": "classification", "data": values, "model": model, "training": {**TRAINING, "steps": 90}}
    (tmp_path / "c.yaml").write_text(json.dumps(config))
    run = heed.train(tmp_path / "c.yaml", out=tmp_path / "run", quiet=True)
    assert run.report["scores"]["test"]["accuracy"]["value"] > 0.9
    assert set(run.predict("the red film blue").labels) == {"red", "blue"}
    assert run.predict("the plot").labels == ()
    assert "confusion" not in run.report["scores"]["test"]


# --- what is refused


@pytest.mark.parametrize(
    ("model", "message"),
    [
        ({"poling": "mean"}, r"unknown field 'model.poling' for RNNConfig; did you mean 'pooling'\?"),
        ({"d_hiden": 3}, r"unknown field 'model.d_hiden' for RNNConfig; did you mean 'd_hidden'\?"),
        ({"pooling": "sum"}, "pooling is 'sum'"),
        ({"name": "bahdanau"}, "bahdanau"),
        ({"vocab_size": 7}, "model.vocab_size is 7, but the data has"),
    ],
)
def test_a_wrong_field_of_model_or_head_is_named(files, model, message):
    with pytest.raises(ConfigError, match=message):
        prepare(settings(files, **model))


def test_a_long_text_is_read_up_to_a_length_and_told(files, tmp_path):
    path = tmp_path / "long.txt"
    path.write_text("pos " + "great " * 50_000 + "\nneg awful\nneg dull\n")
    values = settings(files)
    values["data"] = {"train": str(path), "valid": str(path), "max_length": 100}
    task = prepare(values)
    assert "train: 1 text is longer than data.max_length 100 tokens" in task.notes
    assert task.collate([0, 1]).inputs["tokens"].shape == (2, 100)


# --- scores


def test_scores_of_labels_worked_out_by_hand():
    true = np.eye(3, dtype=bool)[[0, 0, 1, 2]]
    predicted = np.eye(3, dtype=bool)[[0, 1, 1, 1]]
    probabilities = np.where(predicted, 0.8, 0.1)
    report = summarise(label_outcomes("abbb", true, predicted, probabilities, ["a", "b", "c"], False), 50)
    assert report["accuracy"]["value"] == 0.5 and report["micro_f1"]["value"] == 0.5
    assert report["confusion"]["matrix"] == [[1, 1, 0], [0, 1, 0], [0, 1, 0]]
    assert report["per_label"]["b"] == {"precision": pytest.approx(1 / 3), "recall": 1.0, "f1": 0.5, "support": 1}
    assert np.isclose(report["macro_f1"]["value"], (2 / 3 + 1 / 2 + 0) / 3)
    assert np.isclose(report["calibration_error"], 0.3)  # 80 % sure, 50 % right
    assert report["accuracy"]["low"] <= 0.5 <= report["accuracy"]["high"]


def test_macro_f1_leaves_out_labels_that_nobody_has_and_counts_those_that_are_only_said_or_only_true():
    true, predicted = np.eye(5, dtype=bool)[[0, 0, 1, 1]], np.eye(5, dtype=bool)[[0, 0, 1, 3]]
    assert np.isclose(f1_measures(true, predicted)[1].score(), (1 + 2 / 3 + 0) / 3)  # 2 and 4 are on neither side
    report = summarise(label_outcomes("aabd", true, predicted, np.eye(5)[[0, 0, 1, 3]], list("abcde"), False), 20)
    assert np.isclose(report["macro_f1"]["value"], (1 + 2 / 3 + 0) / 3)
    nobody = np.zeros((2, 3), dtype=bool)
    assert values_of(f1_measures(nobody, nobody)) == {"accuracy": 1.0, "macro_f1": 0.0, "micro_f1": 0.0}


def test_f1_is_that_of_scikit_learn():
    rng = np.random.default_rng(0)
    for _ in range(20):
        true, predicted = rng.random((30, 4)) < 0.3, rng.random((30, 4)) < 0.4
        _, macro, micro = (measure.score() for measure in f1_measures(true, predicted))
        assert np.isclose(macro, f1_score(true.astype(int), predicted.astype(int), average="macro", zero_division=0))
        assert np.isclose(micro, f1_score(true.astype(int), predicted.astype(int), average="micro", zero_division=0))


def test_a_calibrated_model_has_no_calibration_error():
    true = np.zeros((1000, 2), dtype=bool)
    true[:750, 0] = True
    true[750:, 1] = True
    predicted = np.zeros_like(true)
    predicted[:, 0] = True
    assert calibration_error(true, predicted, np.tile([0.75, 0.25], (1000, 1))).score() < 1e-9
    assert np.isclose(calibration_error(true, predicted, np.tile([1.0, 0.0], (1000, 1))).score(), 0.25)


def test_a_decision_against_a_label_is_as_sure_as_it_is_improbable():
    right = np.array([[True, False]])
    assert np.isclose(calibration_error(right, right, np.array([[0.9, 0.1]]), several=True).score(), 0.1)


def test_the_errors_that_the_model_was_surest_of_come_first():
    said = [LabelPrediction("a", ("a",), p, {"a": p, "b": 1 - p}) for p in (0.6, 0.9, 0.7, 0.8)]
    found = outcomes_of(
        said, [("b",), ("b",), ("b",), ("a",)], ["a", "b"], False, lambda i: {"origin": f"t:{i}", "text": "text"}
    )
    assert [(one["origin"], one["probability"]) for one in found.details["errors"]] == [
        ("t:1", 0.9),
        ("t:2", 0.7),
        ("t:0", 0.6),
    ]


# --- commands


def test_predict_writes_a_line_for_a_line(run, capsys, tmp_path):
    path = tmp_path / "in.txt"
    path.write_text("great film\n\nawful film\n")
    code, out, _ = call(capsys, "predict", run.folder, "--input", path)
    lines = out.splitlines()
    assert code == 0 and len(lines) == 3
    assert lines[0].split("\t")[0] == "pos" and lines[1] == "" and lines[2].split("\t")[0] == "neg"
    _, out, _ = call(capsys, "predict", run.folder, "great film", "--json")
    assert json.loads(out)["label"] == "pos"
    _, out, _ = call(capsys, "predict", run.folder, "great film", "--nbest", "2")
    assert [line.split("\t")[1] for line in out.splitlines()] == ["pos", "neg"]


def test_texts_for_labelling_come_least_certain_first(run, capsys):
    _, out, _ = call(capsys, "predict", run.folder, "great great", "the plot of", "awful", "--sort", "uncertainty")
    rows = [line.split("\t") for line in out.splitlines()]
    values = [float(row[0]) for row in rows]
    assert values == sorted(values, reverse=True) and rows[0][2] == "the plot of"


@pytest.mark.parametrize("option", [["--beam", "3"], ["--align"], ["--prefix", "a"], ["--columns"]])
def test_an_option_that_does_not_apply_is_refused(run, capsys, option):
    code, _, err = call(capsys, "predict", run.folder, "great", *option)
    assert code == 2 and f"{option[0]} does not apply to a run of classification" in err


def test_evaluate_lists_errors_and_scores_files(run, capsys, tmp_path):
    path = tmp_path / "wrong.txt"
    path.write_text("neg great film\npos great story\n")
    code, out, _ = call(capsys, "evaluate", run.folder, path, "--errors", "3")
    assert code == 0 and "50.00%" in out and "wrong.txt:1  is neg, predicted pos" in out and "great film" in out


def test_a_prediction_of_several_labels_and_lines_of_texts_with_tabs():
    several = LabelPrediction("a,b", ("a", "b"), 0.5, {"b": 0.625, "a": 0.9, "c": 0.1}, several=True)
    assert several.as_json()["label"] == ["a", "b"] and several.as_json()["probabilities"]["c"] == 0.1
    one = LabelPrediction("a", ("a",), 0.9, {"b": 0.1, "a": 0.9})
    assert one.lines("so\tgood", {"sort": "uncertainty"}) == ("0.1000\ta\tso good",)
    assert LabelPrediction("", (), 0.0, {}).lines(" ", {}) == ("",)
