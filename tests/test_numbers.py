"""Rows of numbers with labels, and series of numbers with their dates: read, learned, continued, refused."""

import csv
import io
import json
import math
import random
from datetime import date, timedelta
from html import unescape

import numpy as np
import pytest
import torch
from torch.testing import assert_close

import heed
from commands import call
from heed.cli import main
from heed.data.corpus import hashes_in, label_sets_in
from heed.data.kinds.features import Standard, constant_lines
from heed.data.kinds.numbers import Rows, iter_rows, number_columns, read_rows
from heed.errors import ConfigError, DataError
from heed.evaluation.forecasts import error_measures, error_report, last_value, seasonal_naive
from heed.tasks import check_config
from heed.tasks.inputs.rows import standardised
from heed.tasks.inputs.windows import Stretch
from heed.tasks.series import TASK as SERIES
from heed.tasks.series import NextRow
from heed.tasks.table import TASK as TABLE
from heed.tasks.work import Work

TRAINING = {"training.threads": 1, "training.device": "cpu", "evaluation.bootstrap": 20, "training.warmup": 5}


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    folder = tmp_path_factory.mktemp("numbers")
    rng = random.Random(1)
    for name, count in (("train", 150), ("valid", 30), ("test", 30)):
        kinds = [rng.randrange(3) for _ in range(count)]
        lines = [
            f"{rng.gauss(5 + 4 * k, 1):.3f},{rng.gauss(2000 - 800 * (k == 1), 90):.1f},{'abc'[k]}\n" for k in kinds
        ]
        (folder / f"{name}.csv").write_text("length,width,label\n" + "".join(lines))
    months = [f"{50 + 10 * math.sin(math.pi * t / 6):.4f}\n" for t in range(180)]
    (folder / "sales.csv").write_text("sold\n" + "".join(months))
    return folder


# --- reading


def test_rows_kept_as_arrays_are_split_like_rows_one_by_one(tmp_path):
    for name, rows in {"a": "1,2,yes\n\n-3.5,1e3,no\n", "b": "7,8,yes\n1,2,no\n"}.items():
        (tmp_path / f"{name}.csv").write_text(f"x,y,label\n{rows}")
    numbers = Rows.joined([read_rows(tmp_path / f"{name}.csv", None, "label") for name in "ab"])
    rows = list(numbers)
    assert [row.origin for row in rows] == ["a.csv:2", "a.csv:4", "b.csv:2", "b.csv:3"]
    assert np.array_equal(hashes_in(numbers), hashes_in(rows))
    (sets, each), (wanted, wanted_each) = label_sets_in(numbers), label_sets_in(rows)
    assert [sets[n] for n in each] == [wanted[n] for n in wanted_each] == [("yes",), ("no",), ("yes",), ("no",)]
    assert list(numbers.select(np.array([3, 1]))) == [rows[3], rows[1]]
    assert numbers.select([3, 1])[0].origin == "b.csv:3"


def test_columns_are_found_by_name_and_number_and_labels_may_be_missing_in_what_is_predicted(tmp_path):
    (tmp_path / "a.tsv").write_text("x\tkind\ty\n1\ta\t-2.5e1\n\n3\tb\t4\n")
    for wanted, columns in ((None, ("x", "y")), (["y", "x"], ("y", "x")), ([2], ("y",))):
        read = read_rows(tmp_path / "a.tsv", wanted, "kind")
        assert read.columns == columns and read.labels == ("a", "b")
        assert read.cells["y"].iloc[0] == -25 and [row.origin for row in read] == ["a.tsv:2", "a.tsv:4"]
    (tmp_path / "b.csv").write_text("y,x\n4,3\n")
    assert read_rows(tmp_path / "b.csv", ("x", "y"), None).cells.values.tolist() == [[3, 4]]


@pytest.mark.parametrize(
    ("content", "message"),
    [
        ("x,label\n" + "1,a\n" * 20 + "abc,b\n", r"a.csv' line 22, column 'x': 'abc' is not a number, but most values"),
        ("x,label\n1,a\ninf,b\n", r"a.csv' line 3, column 'x': 'inf' is not a finite number"),
        ("x,label\n1,a\n2\n", r"a.csv' line 3 has 1 columns, but its first line names 2"),
        ("x,label\n1,\n", r"a.csv' line 2, column 'label': the label is missing"),
        (
            "x,lable\n1,a\n",
            r"a.csv': no column is called label, labels, class, target, species, ...; "
            r"data.columns.label=NAME chooses from 'x' \(1\), 'lable' \(a\)",
        ),
        ("x,label\n", r"a.csv' has a header \(x, label\) but no rows"),
        ("\n \n", r"a.csv' contains only blank lines; expected names of columns in its first line, then rows"),
        ("label\na\n", r"a.csv' has no column besides the label 'label'"),
    ],
)
def test_a_mistake_is_named_with_file_line_and_column(tmp_path, content, message):
    (tmp_path / "a.csv").write_text(content)
    with pytest.raises(DataError, match=message):
        read_rows(tmp_path / "a.csv", None, "label")


def test_a_mistake_in_a_file_with_decimal_commas_is_quoted_as_it_stands(tmp_path):
    (tmp_path / "a.csv").write_text("x;y\n" + "1,5;2,5\n" * 20 + "3,5;1,2,3\n")
    with pytest.raises(DataError, match=r"line 22, column 'y': '1,2,3' is not a number"):
        read_rows(tmp_path / "a.csv", None)


def test_a_file_that_is_read_in_parts_has_each_row_once(tmp_path):
    (tmp_path / "a.csv").write_text("x,label\n" + "".join(f"{n},{'ab'[n % 2]}\n" for n in range(5)))
    parts = list(iter_rows(tmp_path / "a.csv", None, "label", num_rows=2))
    assert [part.cells["x"].tolist() for part in parts] == [[0, 1], [2, 3], [4]]
    assert [part.labels for part in parts] == [("a", "b"), ("a", "b"), ("a",)]
    assert [part.origin(0) for part in parts] == ["a.csv:2", "a.csv:4", "a.csv:6"]


def test_columns_are_standardised_and_back_and_a_constant_one_stays_finite():
    values = np.array([[1.0, 5.0], [3.0, 5.0]])
    standard = Standard.of(("a", "b"), values)
    assert standard.apply(values).tolist() == [[-1, 0], [1, 0]]
    np.testing.assert_allclose(standard.undo(standard.apply(values)), values)


# --- rows with labels


def table(folder, **sections):
    data = {name: str(folder / f"{name}.csv") for name in ("train", "valid", "test")}
    return check_config({"task": "table", "data": data, **sections}, "test")


@pytest.fixture(scope="module")
def flowers(folder):
    files = {name: folder / f"{name}.csv" for name in ("train", "valid", "test")}
    settings = TRAINING | {"training.learning_rate": 0.05, "training.batch_tokens": 50}
    return heed.train("table", **files, steps=40, out=folder / "flowers", settings=settings, quiet=True)


def test_rows_are_learned_and_the_training_rows_statistics_travel_with_the_run(folder, flowers):
    assert flowers.report["scores"]["test"]["accuracy"]["value"] >= 0.95
    row = {"length": 5.0, "width": 2000.0}
    assert flowers.predict(row).label == "a"
    again = heed.load(flowers.folder)
    assert again.predict([row, {"width": 1200, "length": 9}]) == flowers.predict([row, {"width": 1200, "length": 9}])
    train, test = (read_rows(folder / f"{name}.csv", None, "label").cells.mean() for name in ("train", "test"))
    np.testing.assert_allclose(again.task.input.standard.mean, train)
    assert not np.allclose(again.task.input.standard.mean, test)
    with pytest.raises(DataError, match="rows has no column 'width', which the training rows have; its columns are"):
        flowers.predict({"length": 5})


def test_the_model_reads_the_same_whatever_the_units(folder, tmp_path):
    lines = (folder / "train.csv").read_text().splitlines()
    rows = [line.split(",") for line in lines[1:]]
    (tmp_path / "train.csv").write_text(
        lines[0] + "\n" + "".join(f"{1000 * float(a) - 7},{float(b) / 50},{c}\n" for a, b, c in rows)
    )
    read = []
    for path in (folder, tmp_path):
        data = {"train": str(path / "train.csv"), "valid": str(path / "train.csv")}
        task = TABLE.prepare(check_config({"task": "table", "data": data}, "test"))
        read.append(task.encoded("train"))
    assert_close(read[0], read[1], rtol=1e-4, atol=1e-4)


def test_the_commands_on_rows(folder, flowers, capsys, tmp_path):
    (tmp_path / "new.csv").write_text("width,length\n2000,5\n1200,9\n")
    code, out, _ = call(capsys, "predict", flowers.folder, "--input", tmp_path / "new.csv")
    assert code == 0 and [line.split("\t")[0] for line in out.splitlines()] == ["a", "b"]
    code, out, _ = call(capsys, "predict", flowers.folder, "--input", tmp_path / "new.csv", "--json")
    assert json.loads(out.splitlines()[0])["label"] == "a"
    code, out, _ = call(capsys, "evaluate", flowers.folder, folder / "valid.csv", "--errors", 2)
    assert code == 0 and "accuracy" in out
    for words, message in (
        (["predict", flowers.folder, "5,2000"], "a run of table reads a file of columns; name it with --input"),
        (
            ["predict", flowers.folder, "--input", folder / "sales.csv"],
            "sales.csv' has no column 'length', which the training rows have; its columns are 'sold' (50.0000, ",
        ),
        (["predict", flowers.folder, "--input", tmp_path / "new.csv", "--beam", 2], "--beam does not apply"),
        (
            ["look", flowers.folder, "x"],
            "`look` is not available for table (its network reads a whole row at once, so it has no steps, no gates "
            "and no attention); it is for classification, dialogue, images, language_modelling, pretraining, series, "
            "summarisation, tagging, translation",
        ),
        (["evaluate", flowers.folder, "--with", flowers.folder], "(`--with`) is not available for table"),
        (
            ["train", "table", folder / "train.csv", "tokenizer.kind=bpe"],
            "tokenizer.kind is bpe, which does not apply to table",
        ),
    ):
        code, _, err = call(capsys, *words)
        assert code == 2 and message in err, err


def test_labels_of_rows_are_checked(folder, flowers, tmp_path):
    (tmp_path / "one.csv").write_text("x,label\n1,a\n2,a\n3,a\n")
    with pytest.raises(DataError, match="every training example has the label 'a'"):
        TABLE.prepare(check_config({"task": "table", "data": {"train": str(tmp_path / "one.csv"), "valid": 1}}, "test"))
    (tmp_path / "test.csv").write_text("length,width,label\n1,2,d\n")
    values = table(folder).model_dump(by_alias=True)
    values["data"]["test"] = str(tmp_path / "test.csv")
    for scored in (
        lambda: TABLE.prepare(check_config(values, "test")),
        lambda: flowers.evaluate(tmp_path / "test.csv"),
    ):
        with pytest.raises(DataError, match=r"test.csv:2: label 'd' was never seen in training; valid: a, b, c"):
            scored()


# --- series


def series(folder, **data):
    values = {"train": str(folder / "sales.csv"), "window": 24, "horizon": 6, **data}
    return check_config({"task": "series", "data": values, "model": {"size": "tiny"}}, "test")


@pytest.fixture(scope="module")
def sales(folder):
    settings = TRAINING | {"training.learning_rate": 0.01, "data.window": 24, "data.horizon": 6, "data.season": 12}
    settings |= {"data.test": 24, "model.size": "tiny", "training.batch_tokens": 120}
    return heed.train(
        "series", train=folder / "sales.csv", steps=60, out=folder / "sales", settings=settings, quiet=True
    )


def test_a_series_is_forecast_and_held_against_naive_forecasts(folder, sales):
    shown = sales.report["scores"]["test"]["columns"]["sold"]
    assert shown["model"]["mae"]["value"] < shown["last value"]["mae"]["value"]
    assert shown["last value"]["gain"]["value"] > 0
    assert shown["seasonal naive"]["mae"]["value"] < 1e-3  # it repeats itself exactly
    values = number_columns(read_rows(folder / "sales.csv"), ["sold"])
    forecast = sales.predict(values)
    assert forecast.shape == (6, 1) and sales.predict(values[:, 0].tolist(), horizon=3).shape == (3, 1)
    np.testing.assert_allclose(heed.load(sales.folder).predict(values), forecast)


def test_nothing_that_follows_is_read(folder):
    """What a network says after row t depends on no later row, so a forecast cannot peek."""
    task = SERIES.prepare(series(folder))
    torch.manual_seed(1)
    model = task.build_model().eval()
    values = torch.randn(2, 10, 1)
    other = values.clone()
    other[:, 6:] += 5
    assert torch.equal(model(values)[:, :6], model(other)[:, :6])
    whole, (states) = model.read(values)
    first, states = model.read(values[:, :4])
    second, _ = model.read(values[:, 4:], states)
    assert_close(torch.cat([first, second], dim=1), whole)
    steps = values
    for _ in range(3):
        steps = torch.cat([steps, model(steps)[:, -1:]], dim=1)
    assert_close(model(values, 2)[:, 9:], steps[:, 10:])


@pytest.mark.parametrize("field", ["bidirectional", "backward"])
def test_a_network_that_reads_the_future_is_refused_with_the_reason(folder, capsys, field):
    code, _, err = call(capsys, "train", "series", folder / "sales.csv", f"model.{field}=true")
    assert code == 2
    assert f"model.{field} is true, but a forecaster that reads backwards would see the row to predict" in err


def test_the_last_rows_are_held_out_in_time(folder):
    task = SERIES.prepare(series(folder, test=24, valid=12))
    (train,), valid, test = (task.splits.examples[name] for name in ("train", "valid", "test"))
    assert (train.rows, [one.rows for one in valid], [one.rows for one in test]) == (144, [6] * 2, [6] * 4)
    assert (valid[0].start, test[0].start) == (144, 156) and len(test[-1].values) == 180
    starts = [i for epoch in range(3) for batch in task.train_batches(epoch) for i in batch]
    assert max(starts) + 24 + 1 <= 144 and task.train_batches(0) != task.train_batches(1)
    batch = task.collate([0, 7])
    values = batch.inputs["values"][1]
    assert_close(values[1:], batch.targets["rows"][1, : len(values) - 1])
    with pytest.raises(
        DataError,
        match=r"'sales.csv' has 180 rows \(12 held out for validation, 150 for testing\); training needs at least",
    ):
        SERIES.prepare(series(folder, test=150, valid=12))


def test_a_forecast_reads_the_last_rows_of_a_series(folder):
    task = SERIES.prepare(series(folder))
    torch.manual_seed(1)
    model = task.build_model().eval()
    values = number_columns(read_rows(folder / "sales.csv"), ["sold"])[:175]
    examples = [Stretch(rows, len(rows), "") for rows in (values, values[-24:], values[:24])]
    whole, end, begin = task.answers(model, task.input.encode(examples))
    np.testing.assert_allclose(whole, end, rtol=1e-5)
    assert not np.allclose(whole, begin)


def test_a_forecast_is_scored_on_rows_that_it_has_not_read(folder, sales, monkeypatch):
    read = []

    def answers(task, model, encoded, head):
        read.extend(encoded)
        return [torch.zeros(6, 1) for _ in encoded]

    monkeypatch.setattr(Work, "answers", answers)
    values = number_columns(read_rows(folder / "sales.csv"), ["sold"])
    measured = sales.outcomes(sales.examples("test"))
    standard = sales.task.input.standard
    assert [rows[:n].tolist() for rows, n in read] == [
        pytest.approx(standard.apply(values[at - 24 : at])) for at in range(156, 180, 6)
    ]
    wrong = np.abs(values[156:] - standard.undo(np.zeros((1, 1))))
    assert measured.measure("sold_mae").score() == pytest.approx(wrong.mean())


def test_the_training_rows_are_forecast_after_a_first_window(folder, sales):
    rows = sales.examples("train")[0].values
    data, forecasts = sales.config.data, sales.input.scorable(sales.examples("train"), "train")
    assert [one.start for one in forecasts] == [*range(data.window, len(rows), data.horizon)]
    assert sum(one.rows for one in forecasts) == len(rows) - data.window
    scores = sales.evaluate("train")
    errors = [
        np.abs(np.asarray(forecast)[: one.rows] - one.values[one.start :])
        for one, forecast in zip(forecasts, sales.predicted(forecasts), strict=True)
    ]
    assert scores["columns"]["sold"]["model"]["mae"]["value"] == pytest.approx(np.concatenate(errors).mean(), rel=1e-5)


def test_every_series_counts_in_the_validation_loss(folder):
    data = {"train": [str(folder / "sales.csv"), str(folder / "other.csv")], "window": 24, "valid": 12}
    rng = np.random.default_rng(1)
    (folder / "other.csv").write_text("sold\n" + "".join(f"{50 + x:.3f}\n" for x in rng.normal(0, 9, 120)))
    task = SERIES.prepare(check_config({"task": "series", "data": data}, "test"))
    torch.manual_seed(1)
    model, both = task.build_model().eval(), task.splits.examples["valid"]
    whole, each = task.validate(model)["loss"], []
    for part in both:
        task.splits.examples["valid"] = [part]
        task.fit()
        each.append(task.validate(model)["loss"])
    assert whole == pytest.approx(sum(each) / 2) and each[0] != pytest.approx(each[1])


def test_naive_forecasts_and_scores_worked_out_by_hand():
    context = np.array([[1.0], [2.0], [3.0], [4.0]])
    assert last_value(context, 3)[:, 0].tolist() == [4, 4, 4]
    assert seasonal_naive(context, 5, 3)[:, 0].tolist() == [2, 3, 4, 2, 3]
    assert seasonal_naive(context, 2, 9)[:, 0].tolist() == [1, 2]
    true = [np.array([[1.0], [2.0]]), np.array([[4.0]])]
    made = {"model": [np.array([[1.0], [4.0]]), np.array([[3.0]])], "last value": [np.zeros((2, 1)), np.zeros((1, 1))]}
    shown = error_report(error_measures(true, made, ["x"]), resamples=50)["x"]
    assert shown["model"]["mae"]["value"] == pytest.approx(1.0)
    assert shown["model"]["rmse"]["value"] == pytest.approx(math.sqrt(5 / 3))
    gain = shown["last value"]["gain"]  # by origin 1 - (2 / 2) / (3 / 2) and 1 - 1 / 4
    assert gain["value"] == pytest.approx(1 - 1.0 / (7 / 3))
    assert gain["low"] == pytest.approx(1 / 3) and gain["high"] == pytest.approx(3 / 4)


def test_no_gain_is_reported_over_a_forecast_without_errors():
    true = [np.array([[1.0]]), np.array([[4.0]])]
    made = {"model": [np.array([[2.0]]), np.array([[3.0]])], "last value": [np.array([[1.0]]), np.array([[5.0]])]}
    columns = error_report(error_measures(true, made, ["x"]), resamples=50)
    assert "gain" not in columns["x"]["last value"]  # a resample of the first forecast alone has no error
    lines = NextRow().report({"examples": 2, "horizon": 1, "columns": columns})
    assert lines[0] == "  of up to 1 row each (data.horizon)" and lines[-1].endswith("   - (its MAE is almost 0)")


def test_the_commands_on_series(folder, sales, capsys):
    code, out, _ = call(capsys, "predict", sales.folder, "--input", folder / "sales.csv", "--horizon", 4)
    lines = io.StringIO(out).read().splitlines()
    assert code == 0 and lines[0] == "sold" and len(lines) == 5 and all(float(line) for line in lines[1:])
    code, out, _ = call(capsys, "evaluate", sales.folder)
    assert code == 0 and "test: 4 forecasts\n  of up to 6 rows each" in out and "seasonal naive" in out
    code, out, _ = call(capsys, "evaluate", sales.folder, folder / "sales.csv", "--json")
    assert json.loads(out)[str(folder / "sales.csv")]["examples"] == 26
    code, out, _ = call(capsys, "check", "series", folder / "sales.csv")
    assert code == 0 and "sold" in out and "train: 162 rows of 1 series" in out
    code, out, _ = call(capsys, "look", sales.folder, folder / "sales.csv", "--steps")
    assert code == 0 and "gates over the rows" in out and "series step 1 of 24: reads row 157: sold" in out
    for words, message in (
        (["nowhere.csv"], "nowhere.csv"),
        ([folder / "sales.csv", "--head", "0"], "has no attention; a look shows its gates"),
    ):
        code, _, err = call(capsys, "look", sales.folder, *words)
        assert code == 2 and message in err


def test_a_look_at_a_series_shows_its_gates_row_by_row(folder, sales):
    shown = sales.look(folder / "sales.csv", steps=True)
    values = number_columns(read_rows(folder / "sales.csv"), ["sold"])
    assert shown.target == f"row 181: sold {sales.predict(values)[0, 0]:.6g}"
    rows = standardised(sales.task.input.standard, values[-24:]).unsqueeze(0)
    with torch.no_grad():
        states, _ = sales.model.body.read(rows)
    for frame, state in zip(shown.look.encoder, states[0], strict=True):
        assert_close(frame.states["forward"], state)
    (traces,) = shown.maps
    assert traces.key.labels == tuple(map(str, range(157, 181))) and traces.query.labels[-1] == "state"
    assert_close(traces.weights[-1], states[0].abs().mean(1))
    assert sales.look(values[:, 0].tolist()).target == shown.target
    page = unescape(shown.html())
    assert "the rows are shaded by its values" in page and "Row by row: the model's state" in page


@pytest.mark.parametrize("model", ["gpt", "lstmn"])
def test_attention_over_earlier_rows_forecasts_and_is_looked_at(folder, model):
    settings = TRAINING | {"training.learning_rate": 0.01, "data.window": 16, "data.horizon": 4, "data.season": "none"}
    settings |= {"model.name": model, "model.size": "tiny", "training.batch_tokens": 120}
    run = heed.train("series", train=folder / "sales.csv", steps=60, out=None, settings=settings, quiet=True)
    shown = run.evaluate("valid")["columns"]["sold"]
    assert shown["model"]["mae"]["value"] < 0.9 * shown["last value"]["mae"]["value"]
    values = number_columns(read_rows(folder / "sales.csv"), ["sold"])
    looked = run.look(folder / "sales.csv", layer="all", head="all", steps=True)
    assert looked.target == f"row 181: sold {run.predict(values)[0, 0]:.6g}"
    mechanism, heads = ("decoder", 8) if model == "gpt" else ("self", 1)
    maps = [one for one in looked.maps if one.mechanism == mechanism]
    assert len(maps) == heads and len(looked.look.encoder) == 16
    for one in maps:
        assert one.key.labels == tuple(map(str, range(165, 181)))
        assert not one.weights.triu(1).any()  # no row looks at a later one
        assert_close(one.weights[1:].sum(1), torch.ones(15))
    with pytest.raises(ConfigError, match="no 'cross' attention"):
        run.look(values, mechanism="cross")
    edited = run.look(values, edits=[{"edit": "block", "keys": [14]}])
    assert edited.target != looked.target and "without the edits: row 181" in " ".join(edited.look.notes)


# --- dates of series


def write(path, head, rows):
    with path.open("w", newline="") as file:
        csv.writer(file).writerows([head, *rows])
    return path


@pytest.fixture(scope="module")
def run(tmp_path_factory):
    folder = tmp_path_factory.mktemp("series")
    days = [date(2020, 1, 1) + timedelta(n) for n in range(80)]
    rows = [[day.isoformat(), f"{math.sin(n):.4f}"] for n, day in enumerate(days)]
    path = write(folder / "sales.csv", ["date", "sales"], rows)
    settings = {"data.window": 6, "data.horizon": 3, "model.d_hidden": 4, "training.threads": 1}
    settings |= {"training.device": "cpu", "evaluation.bootstrap": 10}
    return heed.train("series", train=path, steps=2, out=folder / "run", settings=settings, quiet=True)


def predicted(run, path, capsys):
    with pytest.raises(SystemExit) as ended:
        main(["predict", str(run.folder), "--input", str(path)])
    out, err = capsys.readouterr()
    assert not ended.value.code
    return [line.split(",") for line in out.splitlines()], err


def test_the_forecast_has_the_dates_that_follow(run, capsys):
    assert run.task.input.columns == ("sales",)
    assert "column 'date' holds dates (2020-01-01 to 2020-03-20, every day): it is not forecast" in run.task.notes
    rows, err = predicted(run, run.folder.parent / "sales.csv", capsys)
    assert [row[0] for row in rows] == ["date", "2020-03-21", "2020-03-22", "2020-03-23"] and err == ""
    assert rows[0] == ["date", "sales"] and all(math.isfinite(float(row[1])) for row in rows[1:])


def test_a_file_without_dates_or_with_uneven_ones_has_a_forecast_without(run, tmp_path, capsys):
    rows, err = predicted(run, write(tmp_path / "a.csv", ["sales"], [[n] for n in range(9)]), capsys)
    assert rows[0] == ["sales"] and len(rows) == 4 and err == ""
    uneven = [["2020-01-01", 1], ["2020-01-02", 2], ["2020-01-09", 3]]
    rows, err = predicted(run, write(tmp_path / "b.csv", ["day", "sales"], uneven), capsys)
    assert rows[0] == ["sales"]
    assert err == "heed: the dates of column 'day' are not evenly spaced, so the forecast has no dates\n"


def test_many_constant_columns_are_one_warning():
    columns = [f"c{n}" for n in range(20_000)]
    (line,) = constant_lines(columns, np.ones((3, 20_000)))
    assert line.startswith("warning: 20,000 columns with one value in all training rows: 'c0' (1), 'c1' (1), ")
    (line,) = constant_lines(columns[:3], np.array([[1.0, 2.0, 3.0], [1.0, 5.0, 3.0]]))
    assert "2 columns with one value in all training rows: 'c0' (1), 'c2' (3); " in line
