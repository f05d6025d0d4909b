"""Labels of rows that are numbers: recognised, learned, scored, refused; and the stated baselines of tables."""

import json
import re
import shutil
from types import SimpleNamespace

import numpy as np
import pandas
import pytest
import torch
import yaml
from PIL import Image
from sklearn.ensemble import HistGradientBoostingClassifier, HistGradientBoostingRegressor
from sklearn.linear_model import LogisticRegression, Ridge
from sklearn.metrics import mean_absolute_error, r2_score, root_mean_squared_error
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

import heed
from commands import call
from heed.data.examples import evenly
from heed.data.kinds.numbers import target_of
from heed.errors import ConfigError, DataError
from heed.evaluation.forecasts import number_measures
from heed.serve.served import Served
from heed.tasks import check_config
from heed.tasks.heads.labels import Labels
from heed.tasks.table import TASK, predict_rows

QUICK = {"training.threads": 1, "training.device": "cpu", "evaluation.bootstrap": 20, "training.warmup": 5}
QUICK |= {"training.learning_rate": 0.02, "training.batch_tokens": 100, "model.d_hidden": 16}
REGRESSION = "label 'price' holds numbers (300 different, "


def homes(count, seed, scale=1.0):
    """Rows (size, age, rooms, price); the price is linear in size and age, with a little noise."""
    rng = np.random.default_rng(seed)
    values = rng.normal(size=(count, 3))
    price = scale * (2000 + 300 * values[:, 0] - 100 * values[:, 1] + rng.normal(0, 30, count))
    return values, price


def write(path, values, price, label="price"):
    rows = [f"{a:.6f},{b:.6f},{c:.6f},{y}\n" for (a, b, c), y in zip(values, price, strict=True)]
    path.write_text(f"size,age,rooms,{label}\n" + "".join(rows))
    return path


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    folder = tmp_path_factory.mktemp("regression")
    for name, scale in (("a", 1.0), ("b", 1000.0)):
        for split, count in (("train", 300), ("valid", 60), ("test", 80)):
            write(folder / f"{name}.{split}.csv", *homes(count, count, scale))
    return folder


def trained(folder, name, out, **settings):
    files = {split: folder / f"{name}.{split}.csv" for split in ("train", "valid", "test")}
    settings = QUICK | {"data.columns.label": "price"} | settings
    return heed.train("table", **files, steps=120, out=out, settings=settings, quiet=True)


@pytest.fixture(scope="module")
def run(folder):
    return trained(folder, "a", folder / "run")


def prepared(path, valid=None, **sections):
    data = {"train": str(path), "valid": str(valid or path), "columns": {"label": "price"}, **sections.pop("data", {})}
    return TASK.prepare(check_config({"task": "table", "data": data, "model": {"d_hidden": 4}, **sections}, "test"))


# --- which labels are numbers


@pytest.mark.parametrize(
    ("labels", "target"),
    [
        (["0", "1"] * 9, "classes"),
        ([str(n % 20) for n in range(60)], "classes"),
        ([str(n % 21) for n in range(60)], "number"),
        ([str(-n) for n in range(60)], "number"),
        (["0.5", "1"] * 9, "number"),
        (["1.0", "2.0", "1"] * 9, "classes"),
        (["1e3", "2e3", "5e-1"] * 9, "number"),
        (["yes", "no"] * 9, "classes"),
        ([*(str(n) for n in range(60)), "n/a"], "number"),  # then refused by name
        ([*(str(n) for n in range(60)), *["n/a"] * 9], "classes"),
        ([f"{n}_000" for n in range(60)], "classes"),
        (["nan", "inf"] * 9, "classes"),
    ],
)
def test_labels_are_numbers_if_they_are_many_or_have_fractions(labels, target):
    assert target_of(SimpleNamespace(target="auto"), labels) == target
    for given in ("classes", "number"):
        assert target_of(SimpleNamespace(target=given), labels) == given


def test_training_says_what_the_label_is_and_the_run_keeps_it(folder, tmp_path, capsys, monkeypatch):
    monkeypatch.chdir(tmp_path)
    train, test = folder / "a.train.csv", folder / "a.test.csv"
    words = ("train", "table", train, "--test", test, "--out", "run", "training.steps=2", "data.columns.label=price")
    code, out, err = call(capsys, *words, "evaluation.bootstrap=20")
    assert code == 0 and REGRESSION.replace("300", "250") in out + err  # 50 are held out
    assert "): regression; data.target=classes treats them as classes" in out + err
    config = yaml.safe_load((tmp_path / "run" / "config.yaml").read_text())
    assert config["data"]["target"] == "number" and config["evaluation"]["select_by"] == "loss"
    assert json.loads((tmp_path / "run" / "target.json").read_text())["columns"] == ["price"]
    assert not (tmp_path / "run" / "labels.json").exists()
    code, out, err = call(capsys, "train", "run", "--resume", "training.steps=3")
    assert code == 0 and "regression" in out + err
    code, _, err = call(capsys, "train", "run", "--resume", "data.target=classes", "training.steps=4")
    assert code == 2 and "data.target classes is not that of the run in run; start a new run" in err


def test_labels_that_are_classes_stay_classes(folder, tmp_path):
    values, price = homes(60, 1)
    path = write(tmp_path / "a.csv", values, (price > 2000).astype(int))
    task = prepared(path)
    assert task.head.labels == ("0", "1") and isinstance(task.head, Labels)
    assert task.config.data.target == "classes" and "regression" not in task.notes
    task = prepared(path, data={"target": "number"})
    assert task.head.name == "price" and task.config.evaluation.select_by == "loss"
    task = prepared(folder / "a.train.csv", data={"target": "classes"})
    assert isinstance(task.head, Labels) and len(task.head.labels) == 300


def test_numbers_with_a_decimal_comma_are_numbers(tmp_path):
    values, price = homes(60, 1)
    rows = [f"{a:.3f};{b:.3f};{c:.3f};{y:.2f}\n" for (a, b, c), y in zip(values, price, strict=True)]
    (tmp_path / "a.csv").write_text("size;age;rooms;price\n" + "".join(rows).replace(".", ","))
    task = prepared(tmp_path / "a.csv")
    assert task.head.standard.mean[0] == pytest.approx(np.round(price, 2).mean())


# --- computed


def test_the_loss_and_the_scores_are_those_of_numpy_and_scikit_learn(folder):
    task = prepared(folder / "a.train.csv", folder / "a.valid.csv")
    torch.manual_seed(1)
    model = task.build_model().eval()
    (_, price), (_, valid) = homes(300, 300), homes(60, 60)
    rows = task.splits.examples["train"]
    first, last = model.body.layers[0], model.output
    standard = (rows.values - rows.values.mean(0)) / rows.values.std(0)
    weights = [p.detach().numpy().astype(float) for p in (first.weight, first.bias, last.weight, last.bias)]
    said = (np.tanh(standard @ weights[0].T + weights[1]) @ weights[2].T + weights[3])[:, 0]
    target = (price - price.mean()) / price.std()
    assert model.output.weight.shape == (1, 4)
    batch = task.collate(list(range(300)))
    assert task.loss(model, batch, 0.0).item() == pytest.approx(((said - target) ** 2).sum(), rel=1e-5)

    scores = task.validate(model)
    numbers = price.mean() + price.std() * np.array(task.answers(model, task.encoded("valid")))
    assert scores["loss"] == pytest.approx((((numbers - valid) / price.std()) ** 2).mean(), rel=1e-5)
    assert scores["mae"] == pytest.approx(mean_absolute_error(valid, numbers), rel=1e-5)
    assert scores["rmse"] == pytest.approx(root_mean_squared_error(valid, numbers), rel=1e-5)
    assert scores["r2"] == pytest.approx(r2_score(valid, numbers), rel=1e-5)


@pytest.mark.parametrize(("scale", "digits"), [(0.004, 5), (0.4, 3), (4, 2), (40, 1), (4e5, 0)])
def test_errors_have_digits_by_the_deviation_of_the_numbers(scale, digits):
    true = scale * np.array([-1.0, 1.0] * 5)
    mae, rmse, r2 = number_measures(true, true + 0.1 * scale)
    assert mae.digits == rmse.digits == digits and r2.digits == 3


@pytest.mark.parametrize("far", [0.0, 1e9])
def test_r2_is_exact_far_from_zero_and_of_any_resample(far):
    rng = np.random.default_rng(1)
    true = far + rng.normal(size=50)
    said = true + rng.normal(size=50)
    r2 = number_measures(true, said)[2]
    assert r2.score() == pytest.approx(r2_score(true, said), rel=1e-6)
    drawn = rng.integers(0, 50, 50)
    assert r2.of(drawn).score() == pytest.approx(r2_score(true[drawn], said[drawn]), rel=1e-6)
    assert np.isnan(number_measures(np.full(3, 7.0), np.arange(3.0))[2].score())


def test_a_linear_relation_is_learned_in_any_unit(folder, run):
    scores = run.report["scores"]["test"]
    other = trained(folder, "b", folder / "thousands").report["scores"]["test"]
    assert scores["r2"]["value"] > 0.9 and scores["r2"]["low"] < scores["r2"]["value"] < scores["r2"]["high"]
    assert other["r2"]["value"] == pytest.approx(scores["r2"]["value"], abs=1e-3)
    assert other["mae"]["value"] == pytest.approx(1000 * scores["mae"]["value"], rel=1e-2)
    for name in ("mean", "ridge regression", "gradient boosting"):
        one, two = scores["baselines"][name], other["baselines"][name]
        assert two["r2"]["value"] == pytest.approx(one["r2"]["value"], abs=1e-4)
        assert two["rmse"]["value"] == pytest.approx(1000 * one["rmse"]["value"], rel=1e-3)


def test_baselines_of_numbers_are_those_of_scikit_learn(run):
    train, test = run.examples("train"), run.examples("test")
    y, true = (np.array([*map(float, rows.labels)]) for rows in (train, test))
    linear = make_pipeline(StandardScaler(), Ridge()).fit(train.values, y).predict(test.values)
    boosted = HistGradientBoostingRegressor(early_stopping=False, random_state=1)
    boosted = boosted.fit(train.values, (y - y.mean()) / y.std()).predict(test.values) * y.std() + y.mean()
    for name, said in (("mean", y.mean()), ("ridge regression", linear), ("gradient boosting", boosted)):
        scores = run.report["scores"]["test"]["baselines"][name]
        expected = np.abs(said - true).mean(), np.sqrt(((said - true) ** 2).mean())
        assert (scores["mae"]["value"], scores["rmse"]["value"]) == pytest.approx(expected, rel=1e-4)
    assert "mean" not in run.report["scores"]["test"].get("better_baselines", {})


def test_baselines_of_classes_are_those_of_scikit_learn(tmp_path, monkeypatch):
    values, price = homes(200, 5)
    kinds = np.where(price > 2100, "dear", np.where(price > 1900, "fair", "cheap"))
    path = write(tmp_path / "kinds.csv", values, kinds, "label")
    run = heed.train("table", train=path, test=path, steps=1, out=tmp_path / "kinds", settings=QUICK, quiet=True)
    train, test = run.examples("train"), run.examples("test")
    for name, estimator in (
        ("logistic regression", make_pipeline(StandardScaler(), LogisticRegression(max_iter=200))),
        ("gradient boosting", HistGradientBoostingClassifier(early_stopping=False, random_state=1)),
    ):
        right = estimator.fit(train.values, train.labels).predict(test.values) == test.labels
        scores = run.report["scores"]["test"]["baselines"][name]
        assert scores["accuracy"]["value"] == pytest.approx(right.mean()) and right.mean() > 0.8
    card = (run.folder / "README.md").read_text()
    assert "baseline (majority class)" in card and "baseline (gradient boosting)" in card

    monkeypatch.setattr("heed.tasks.table._CELLS", 1)
    monkeypatch.setattr("heed.tasks.table._ROWS", 50)
    again = heed.load(run.folder).evaluate("test")["baselines"]
    counted = f"{len(train)} rows"
    assert [*again] == ["majority class", *(f"{name}, fitted to 50 of {counted}" for name in
                                            ("logistic regression", "gradient boosting"))]  # fmt: skip
    monkeypatch.setattr("heed.tasks.table._WIDE", 1)
    assert len(heed.load(run.folder).evaluate("test")["baselines"]) == 2


def test_a_few_rows_of_a_set_are_scored_as_under_a_time_budget(run):
    assert run.score(evenly(run.examples("test"), 5))["examples"] == 5
    assert run.score(evenly(run.examples("test"), 1))["r2"]["value"] == 0


# --- used


def test_commands_and_python_give_the_number(folder, run, capsys, tmp_path):
    (tmp_path / "new.csv").write_text("rooms,size,age\n0,0.0,0.0\n0,1,0\n")
    rows = [{"rooms": 0, "size": size, "age": 0} for size in (0, 1)]
    values = [one.value for one in run.predict(rows)]
    assert values == pytest.approx([2000, 2300], abs=150)
    assert [one.value for one in predict_rows(heed.load(run.folder), tmp_path / "new.csv")] == values
    assert (
        run.predict(rows[0]).value == pytest.approx(values[0]) and repr(run.predict(rows[0])) == f"<'{values[0]:.7g}'>"
    )
    assert run.predict(rows).to_frame()["value"].tolist() == pytest.approx(values, rel=1e-6)
    code, out, _ = call(capsys, "predict", run.folder, "--input", tmp_path / "new.csv")
    assert code == 0 and [float(line) for line in out.splitlines()] == pytest.approx(values, rel=1e-6)
    code, out, _ = call(capsys, "predict", run.folder, "--input", tmp_path / "new.csv", "--json")
    assert code == 0 and [json.loads(line) for line in out.splitlines()] == [
        {"value": float(f"{v:.7g}")} for v in values
    ]
    assert Served("run", run.folder).predict(rows, {}) == [one.as_json() for one in run.predict(rows)]
    code, _, err = call(capsys, "predict", run.folder, "--input", tmp_path / "new.csv", "--nbest", 2)
    assert code == 2 and "--nbest does not apply to a run of table" in err


def test_evaluate_lists_scores_baselines_and_the_largest_errors(folder, run, capsys):
    code, out, _ = call(capsys, "evaluate", run.folder, folder / "a.test.csv", "--errors", 2)
    assert code == 0 and "baseline (mean): MAE " in out and "baseline (ridge regression)" in out
    lines = [line.split() for line in out.splitlines()]
    assert [line[0] for line in lines if line and line[0] in ("MAE", "RMSE", "R2")] == ["MAE", "RMSE", "R2"]
    errors = run.evaluate("test")["errors"]
    sizes = [abs(one["true"] - one["predicted"]) for one in errors]
    assert sizes == sorted(sizes, reverse=True) and len(errors) == 80
    shown = f"{errors[0]['origin']}  is {errors[0]['true']:.7g}, predicted {errors[0]['predicted']:.7g}"
    assert out.count("predicted") == 2 and shown in out


def test_check_describes_the_label(folder, capsys):
    code, out, _ = call(capsys, "check", "table", folder / "a.train.csv", "data.columns.label=price", "data.valid=9")
    assert code == 0 and "label:\n  price " in out and "holds numbers (291 different" in out


def test_a_frame_is_learned_and_scored_in_python(tmp_path):
    values, price = homes(120, 3)
    frame = pandas.DataFrame(values, columns=["size", "age", "rooms"]).assign(price=price)
    settings = QUICK | {"data.columns.label": "price"}
    run = heed.train("table", train=frame, valid=20, steps=2, out=tmp_path / "run", settings=settings, quiet=True)
    assert run.config.data.target == "number" and len(run.examples("valid")) == 20
    report = run.evaluate(frame)
    assert report["examples"] == 120 and set(report["baselines"]) == {"mean", "ridge regression", "gradient boosting"}
    with pytest.raises(DataError, match=r"examples\[1\]: the label 'high' is not a finite number"):
        run.evaluate(frame.head(2).assign(price=["1.5", "high"]))


def test_a_run_starts_from_another_one_of_the_same_label_only(folder, run, tmp_path):
    own = trained(folder, "b", tmp_path / "same", **{"model.from": str(run.folder)})
    assert own.report["parent"]["tokens"]["output.weight"] == {"taken": 1, "of": 1}
    values, price = homes(60, 1)
    path = write(tmp_path / "a.csv", values, (price > 2000).astype(int))
    settings = {"data.columns.label": "price", "model.from": str(run.folder)} | QUICK
    other = heed.train("table", train=path, steps=1, out=tmp_path / "other", settings=settings, quiet=True)
    assert other.task.head.labels == ("0", "1") and "output.weight" in other.report["parent"]["new"]


# --- refused


@pytest.mark.parametrize(
    ("price", "sections", "error", "message"),
    [
        (None, {"evaluation": {"select_by": "accuracy"}}, ConfigError,
         r"evaluation.select_by accuracy does not apply to label 'price', which is a number .*; set it to loss"),
        (None, {"training": {"label_smoothing": 0.1}}, ConfigError, "training.label_smoothing does not apply to label"),
        ([*range(40), "n/a"], {}, DataError,
         r"a.csv:42: the label 'n/a' is not a finite number .*data.target=classes"),
        ([*range(40), "1e200"], {}, DataError, r"a.csv:42: the label '1e200' is not a finite number below 1e150"),
        (["a", "b"] * 9, {"data": {"target": "number"}}, DataError, r"a.csv:2: the label 'a' is not a finite number"),
        ([2.5] * 9, {}, DataError, "every training example has the label '2.5'"),
        (None, {"data": {"target": "numbers"}}, ConfigError, "data.target is 'numbers'"),
    ],
)  # fmt: skip
def test_what_does_not_fit_a_number_is_refused(tmp_path, price, sections, error, message):
    price = [n + 0.5 for n in range(30)] if price is None else price
    path = write(tmp_path / "a.csv", homes(len(price), 1)[0], price)
    with pytest.raises(error, match=message):
        prepared(path, **sections)


def test_a_number_of_a_text_is_learned(tmp_path, capsys):
    rng = np.random.default_rng(3)
    words = np.array("good bad film plot actor".split())
    texts = [" ".join(rng.choice(words, 6)) for _ in range(300)]
    prices = [f"{text.count('good') * 1.5 + rng.uniform(0, 0.5):.4f}" for text in texts]
    path = tmp_path / "a.csv"
    pandas.DataFrame({"text": texts, "price": prices}).to_csv(path, index=False)
    settings = QUICK | {"data.target": "number", "data.columns.label": "price", "tokenizer.kind": "word"}
    settings = {name: value for name, value in settings.items() if not name.startswith("model.")}
    run = heed.train(
        "classification", train=path, model="rnn", steps=150, settings=settings, out=tmp_path / "run", quiet=True
    )
    assert 40 <= len(run.examples("valid")) <= 50  # numbers, each there once, are held out like texts without labels
    valid = run.examples("valid")
    said = np.array([one.value for one in run.predict([example.text for example in valid])])
    true = np.array([float(example.labels[0]) for example in valid])
    scores = run.evaluate("valid")
    assert scores["mae"]["value"] == pytest.approx(np.abs(said - true).mean(), rel=1e-5)
    assert scores["mae"]["value"] < 0.5 * np.abs(true - true.mean()).mean()
    again = heed.load(tmp_path / "run")
    assert again.predict("good good film").value == run.predict("good good film").value
    assert call(capsys, "look", str(tmp_path / "run"), "good good film")[0] == 0
    value = again.predict("good good film").value
    assert again.attribute("good good film").of.score == pytest.approx(value, rel=1e-5)
    (drawn,) = again.look("good good film").look.maps
    effect = drawn.effect
    edited = again.look("good good film", edits=[heed.Uniform(drawn.mechanism, drawn.layer)]).look
    assert effect.equal.before == pytest.approx(value, rel=1e-5) and not effect.still
    assert effect.equal.after == pytest.approx(float(edited.target), rel=1e-5)
    assert effect.lines[0] == f"equal weights: number 'price': {value:.4g} -> {effect.equal.after:.4g}"
    with pytest.raises(ConfigError, match="the model predicts one number, 'price', and no labels; leave out 'cheap'"):
        again.attribute("good good film", target="cheap")
    for option in ("--nbest 2", "--sort uncertainty"):
        code, _, err = call(capsys, "predict", str(tmp_path / "run"), *option.split(), "good film")
        assert code == 2 and f"{option.split()[0]} is for runs that predict labels" in err
    path.write_text(path.read_text().replace(prices[40], "many"))
    with pytest.raises(DataError, match=r"a.csv:42: the label 'many' is not a finite number .*data.target=classes"):
        heed.train(
            "classification", train=path, model="rnn", steps=2, settings=settings, out=tmp_path / "other", quiet=True
        )


def test_numbers_of_texts_that_repeat_are_no_swapped_columns(tmp_path):
    rng = np.random.default_rng(3)
    words = np.array("good bad film plot actor".split())
    frame = pandas.DataFrame(
        {"text": [" ".join(rng.choice(words, 1)) for _ in range(80)], "label": rng.uniform(size=80)}
    )
    settings = {"data.target": "number", "training.threads": 1, "evaluation.bootstrap": 5}
    run = heed.train("classification", train=frame, model="rnn", steps=1, settings=settings, out=tmp_path, quiet=True)
    assert run.evaluate(frame)["examples"] == 80


@pytest.fixture(scope="module")
def dials(tmp_path_factory):
    """Pictures whose brightness is a number from 0 to 10, and their table."""
    folder, rng = tmp_path_factory.mktemp("dials"), np.random.default_rng(2)
    rows = []
    for n in range(150):
        level = rng.uniform()
        pixels = np.clip(rng.normal(level, 0.05, (8, 8)), 0, 1)
        Image.fromarray((255 * pixels).astype(np.uint8)).save(folder / f"{n}.png")
        rows.append(f"{n}.png,{10 * level:.3f}\n")
    for name, some in (("dials", rows[:120]), ("valid", rows[120:])):
        (folder / f"{name}.csv").write_text("path,label\n" + "".join(some))
    return folder


@pytest.fixture(scope="module")
def reader(dials):
    settings = {"data.target": "number", "training.epochs": 8, "training.threads": 1, "evaluation.bootstrap": 5}
    settings |= {"model.num_filters": [8, 8], "training.warmup": 5, "training.device": "cpu"}
    files = {"train": dials / "dials.csv", "valid": dials / "valid.csv", "out": dials / "cnn"}
    return heed.train("images", model="cnn", settings=settings, quiet=True, **files)


def test_a_number_of_a_picture_is_learned_looked_at_and_attributed(reader, dials, capsys):
    examples = reader.examples("valid")
    true = np.array([float(example.label) for example in examples])
    predicted = np.array([one.value for one in reader.predict([example.place for example in examples])])
    scores = reader.evaluate("valid")
    assert scores["mae"]["value"] == pytest.approx(np.abs(predicted - true).mean(), rel=1e-5)
    assert scores["rmse"]["value"] < 0.5 * true.std()
    assert {"mean", "nearest neighbour on pixels"} == {*scores["baselines"]}
    assert not reader.config.augment.flip  # a dial mirrored shows another number

    file = str(dials / "3.png")
    value = reader.predict(file).value
    looked = reader.look(file)
    assert looked.look.label == looked.look.prediction == f"{value:.7g}" and not looked.look.top
    assert f"number  {value:.7g}" in looked.text()
    shown = reader.attribute(file, steps=100)
    assert shown.caption.startswith(f"integrated gradients: score {value:.4f}")
    difference = value - float(re.search(r"baseline (-?[0-9.]+)", shown.caption)[1])
    assert float(shown.weights.sum()) == pytest.approx(difference, abs=0.02 * abs(value))
    assert call(capsys, "look", str(reader.folder), file, "--label", "7")[0] == 2
    assert call(capsys, "predict", str(reader.folder), file)[1] == f"{file}\t{value:.7g}\n"
    page = dials / "errors.html"
    assert (
        "largest errors first" in call(capsys, "evaluate", str(reader.folder), "--errors", "2", "--page", str(page))[1]
    )
    assert "pictures, largest errors first" in page.read_text()
    with pytest.raises(
        ConfigError,
        match=r"data.target is number: .* of this task support only classes; train with data.target=classes",
    ):
        heed.export(reader.folder, to="huggingface", out=dials / "exported")


def test_check_draws_samples_by_their_number(dials, capsys):
    page = dials / "samples.html"
    out = call(capsys, "check", "images", str(dials / "dials.csv"), "data.target=number", "--out", str(page))[1]
    assert "mean" in out and "labels in the same shares" not in out and page.read_text().count("training pictures") == 4
    files = ("check", "images", str(dials / "dials.csv"))
    assert call(capsys, *files)[2].endswith("if the labels are numbers to predict, set data.target=number\n")
    (dials / "whole.csv").write_text("path,label\n" + "".join(f"{n}.png,{n % 25}\n" for n in range(150)))
    out = call(capsys, "check", "images", str(dials / "whole.csv"))[1]
    assert "the 25 labels are numbers, each a class of its own here; data.target=number predicts a number" in out


def test_runs_that_predict_numbers_are_compared_and_not_with_labels(reader, dials, tmp_path):
    files = {split: dials / f"{name}.csv" for split, name in (("train", "dials"), ("valid", "valid"))}
    classes = [line.split(",")[1] for file in files.values() for line in file.read_text().splitlines()[1:]]
    settings = {"data.classes": [*dict.fromkeys(classes)], "training.threads": 1, "evaluation.bootstrap": 5}
    out = tmp_path / "classes"
    other = heed.train("images", model="cnn", **files, out=out, steps=1, settings=settings, quiet=True)
    compared = heed.compare([reader, shutil.copytree(reader.folder, tmp_path / "copy")])
    assert "MAE" in str(compared) and "RMSE" in str(compared)
    with pytest.raises(ConfigError, match=r"gives a number and '.*classes' gives a label; only runs with the same"):
        heed.compare([reader, other])


@pytest.mark.parametrize("settings", [{"data.class_weights": "balanced"}, {"data.several_labels": True}])
def test_settings_of_classes_do_not_apply_to_a_number(tmp_path, settings):
    rows = "".join(f"{'good ' * (n % 7)}film,{n / 7}\n" for n in range(40))
    (tmp_path / "a.csv").write_text("text,label\n" + rows)
    settings |= {"data.target": "number"}
    with pytest.raises(
        ConfigError, match=rf"{next(iter(settings))} does not apply to label 'label', which is a number"
    ):
        heed.train("classification", train=tmp_path / "a.csv", steps=1, out=tmp_path / "run", settings=settings)
