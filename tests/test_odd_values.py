"""Values, names and settings that would pass silently and mean something else: each is named."""

import pytest
import yaml

import heed
from contract import data_of
from heed.config import read_config
from heed.data.findings import Findings
from heed.data.kinds.features import Standard
from heed.data.kinds.numbers import hold_rows, read_rows
from heed.data.kinds.texts import text_reader
from heed.errors import ConfigError, DataError


def table(path, header, *rows):
    path.write_text("\n".join([header, *rows]) + "\n", encoding="utf-8")
    return path


def train_quickly(task, data, out, settings):
    given = {"training.threads": 1, "training.device": "cpu", "evaluation.bootstrap": 5, **settings}
    heed.train(task, train=data, valid=4, steps=2, out=out, settings=given, quiet=True)


GOOD = [f"{n}.5,{n % 3},{'ab'[n % 2]}" for n in range(40)]


@pytest.mark.parametrize(
    ("row", "message"),
    [
        (
            "1e200,1,a",
            "line 42, column 'x': '1e+200' is too large: its square is not finite; give the column in larger",
        ),
        ("-1e160,1,a", "line 42, column 'x': '-1e+160' is too large"),
        ("1_000,1,a", "line 42, column 'x': '1_000' is not a number; write it without underscores: 1000"),
        ("1,1_0.5,a", "line 42, column 'y': '1_0.5' is not a number; write it without underscores: 10.5"),
    ],
)
def test_a_number_that_is_none_is_named(tmp_path, row, message):
    path = table(tmp_path / "a.csv", "x,y,label", *GOOD, row)
    with pytest.raises(DataError) as error:
        read_rows(path, None, "label")
    assert message in str(error.value)


@pytest.mark.parametrize("value", ["1_000", 1e200])
def test_a_number_in_memory_that_is_none_is_named(value):
    with pytest.raises(DataError, match=r"train\[1\], column 'x': .* is (not a number; write|too large)"):
        hold_rows({"x": [1.0, value], "label": ["a", "b"]}, "train", None, "label")


def test_two_columns_of_one_name_are_named(tmp_path):
    path = table(tmp_path / "a.csv", "x,x,label", "1,2,a", "3,4,b")
    with pytest.raises(DataError) as error:
        read_rows(path, None, "label")
    assert str(error.value) == (
        f"'{path}' has two columns 'x' (0 and 1, counted from 0); rename one, or leave them out with data.columns"
    )
    other = table(tmp_path / "b.csv", "x,note,note,label", "1,2,5,a", "3,4,6,b")
    assert read_rows(other, ["x"], "label").columns == ("x",)  # nobody asks for the others


@pytest.mark.parametrize("ending", ["csv", "tsv"])
def test_two_columns_of_one_name_in_texts_are_named(call, tmp_path, ending):
    between = {"csv": ",", "tsv": "\t"}[ending]
    rows = [between.join((f"it is good {n}", f"it is bad {n}", "ab"[n % 2])) for n in range(40)]
    table(tmp_path / f"a.{ending}", between.join(("text", "text", "label")), *rows)
    code, _, err = call("check", "classification", f"a.{ending}", "data.columns.text=text", "data.columns.label=label")
    assert code == 2
    assert "line 1 names two columns 'text' (0 and 1, counted from 0)" in err
    assert "; rename one, or give the column by number" in err


def test_two_columns_of_one_name_in_memory_are_named():
    pandas = pytest.importorskip("pandas")
    data = pandas.DataFrame([[1.0, 2.0, "a"], [3.0, 4.0, "b"]], columns=["x", "x", "label"])
    with pytest.raises(DataError, match=r"train has two columns 'x' \(0 and 1, counted from 0\); rename one, or leave"):
        hold_rows(data, "train", None, "label")


@pytest.mark.parametrize("task", ["table", "series"])
def test_a_constant_column_is_named(call, tmp_path, task):
    rows = [f"{n % 7},0.1,{'ab'[n % 2]}" if task == "table" else f"{n % 7},0.1" for n in range(200)]
    table(tmp_path / "a.csv", "x,y,label" if task == "table" else "x,y", *rows)
    code, out, err = call("check", task, "a.csv")
    assert code == 0, err
    assert "warning: 1 column with one value in all training rows: 'y' (0.1); nothing can be learned" in out
    assert "column 'x' is" not in out


def test_a_constant_column_is_standardised_to_zero_whatever_rounding_makes_of_it():
    import numpy as np

    values = np.column_stack([np.full(10, 0.1), np.arange(10.0)])
    standard = Standard.of(("x", "y"), values)
    assert standard.apply(values)[:, 0].tolist() == [0.0] * 10 and standard.deviation[0] == 1.0


def test_a_number_far_from_those_of_training_is_named(call, tmp_path):
    table(tmp_path / "a.csv", "x,y,label", *GOOD)
    out = tmp_path / "run"
    code, _, err = call("train", "table", "a.csv", "training.steps=2", "training.threads=1", "--out", out)
    assert code == 0, err
    table(tmp_path / "b.csv", "x,y", "1,1", "1e30,1")
    code, written, err = call("predict", out, "--input", "b.csv")
    assert code == 2 and "nan" not in written
    assert "column 'x' is 1e+30 in row 2, and was 0.5 to" in err or "column 'x': 1e+30" in err


def test_one_file_as_source_and_target_is_named(call, tmp_path):
    table(tmp_path / "a.txt", "the first line", *(f"line number {n} of the file" for n in range(60)))
    code, out, err = call("check", "translation", "a.txt", "a.txt")
    assert code == 0, err
    assert "warning: train, source and target are the same file, 'a.txt'; the model can only learn to copy" in out
    rows = [f"one {n}\tone {n} two" for n in range(60)]
    table(tmp_path / "b.tsv", "en\tde", *rows)
    code, out, err = call("check", "translation", "b.tsv", "data.columns.source=en", "data.columns.target=en")
    warning = "warning: train, source and target are the same column, 'en' of 'b.tsv'"
    assert f"{warning}; the model can only learn to copy" in out


def test_an_object_with_a_key_twice_is_a_bad_line(tmp_path):
    path = tmp_path / "a.jsonl"
    path.write_text('{"text": "a", "label": "x"}\n{"text": "a", "label": "x", "label": "y"}\n')
    with pytest.raises(DataError, match=r"line 2 is not JSON: the key 'label' occurs twice"):
        list(text_reader(data_of("classification")).read([path], Findings()))
    findings = Findings("skip")
    assert len(list(text_reader(data_of("classification")).read([path], findings))) == 1
    path.write_text('{"text": "a", "more": {"b": 1, "b": 2}}\n')
    with pytest.raises(DataError, match="the key 'b' occurs twice"):
        list(text_reader(data_of("classification")).read([path], Findings()))


def test_a_configuration_with_a_field_twice_is_refused(tmp_path):
    path = tmp_path / "a.yaml"
    path.write_text("task: translation\ntraining:\n  steps: 4\ndata: {name: copy}\ntraining:\n  minutes: 3\n")
    with pytest.raises(ConfigError, match=r"a.yaml' line 5: the field 'training' occurs twice"):
        read_config(path)
    path.write_text("a: &a {x: 1}\nb:\n  <<: *a\n  x: 2\n")  # a merged key may be given anew
    assert read_config(path)["b"] == {"x": 2}


@pytest.mark.parametrize(
    ("value", "command"), [("inf", "demo"), ("nan", "train"), (".inf", "train"), ("1e300", "train")]
)
def test_a_budget_without_end_is_refused(call, command, value):
    words = [] if command == "demo" else ["translation", "data.name=copy"]
    code, _, err = call(command, *words, "--minutes", value)
    assert code == 2 and "Traceback" not in err
    if value != ".inf":  # which is no number on a command line
        assert "minutes" in err


@pytest.mark.parametrize(
    "field",
    ["training.learning_rate=.inf", "training.clip=.nan", "training.weight_decay=.inf", "training.epochs=1e300"],
)
def test_a_setting_that_is_not_finite_is_refused(call, field):
    code, _, err = call("train", "translation", "data.name=copy", field)
    assert code == 2 and field.split("=")[0] in err and "Traceback" not in err


SMALL = {
    "task": "translation",
    "data": {"name": "copy", "length": [2, 6], "train": 150, "valid": 20, "test": 25},
    "model": {"name": "bahdanau", "d_embedding": 8, "d_hidden": 8, "d_attention": 8},
    "training": {"steps": 60, "batch_tokens": 200, "threads": 1, "device": "cpu", "warmup": 0},
    "generation": {"max_length": 9},
    "evaluation": {"bootstrap": 20},
}


@pytest.mark.parametrize(("rate", "warned"), [(30.0, True), (0.003, False)])
def test_a_learning_rate_that_makes_the_loss_grow_is_said(call, tmp_path, rate, warned):
    (tmp_path / "a.yaml").write_text(yaml.safe_dump(SMALL))
    schedule = ("training.optimizer=sgd", "training.clip=null") if warned else ("training.steps=20",)
    code, _, err = call("train", "a.yaml", f"training.learning_rate={rate}", *schedule, "--out", tmp_path / "run")
    assert code == 0, err
    said = [line for line in err.splitlines() if line.startswith("warning: the training loss")]
    assert len(said) == warned
    if warned:
        assert "try training.learning_rate=3 " in said[0]


def test_a_long_line_is_said(call, tmp_path):
    rows = [f"it is good {n}\ta" if n % 2 else f"it is bad {n}\tb" for n in range(40)]
    (tmp_path / "a.tsv").write_text("\n".join(["text\tlabel", *rows, "x" * 200_000 + "\ta"]) + "\n")
    code, out, err = call("check", "classification", "a.tsv", "--valid", "a.tsv")
    assert code == 0, err
    what = "more than 100,000 characters, kept (a smaller data.max_line leaves such lines out): 1 text (a.tsv:42)"
    assert f"warning: {what}" in out


BREAKS = "so\nso\r\tlala"


def test_a_label_with_a_line_break_leaves_a_line_one(call, tmp_path):
    texts = [(f"it is {word} {n}", label) for n in range(20) for word, label in (("good", BREAKS), ("bad", "b\nad"))]
    train_quickly("classification", texts, tmp_path / "texts", {"model.name": "bag"})
    (tmp_path / "in.txt").write_text("it is good\nit is bad\n")
    for given, columns in (((), 2), (("--sort", "uncertainty"), 3), (("--nbest", "2"), 2)):
        code, out, err = call("predict", "texts", "--input", "in.txt", *given)
        assert (code, err) == (0, "") and "\r" not in out
        rows = [line.split("\t") for line in out.removesuffix("\n").split("\n")]
        assert len(rows) == (4 if "--nbest" in given else 2) and {len(row) for row in rows} == {columns}
        assert {cell for row in rows for cell in row} & {"so\\nso\\r\\tlala", "b\\nad"}


def test_a_table_is_answered_while_it_is_read(call, tmp_path, monkeypatch):
    rows = {"x": [n % 7 + 0.5 for n in range(40)], "y": [float(n % 3) for n in range(40)]}
    data = {**rows, "label": [BREAKS if n % 2 else "b" for n in range(40)]}
    train_quickly("table", data, tmp_path / "run", {"model.d_hidden": 4})
    table(tmp_path / "in.csv", "x,y", *(f"{x},{y}" for x, y in zip(*rows.values(), strict=True)))
    code, whole, _ = call("predict", "run", "--input", "in.csv")
    assert code == 0 and len(whole.splitlines()) == 40 and "so\\nso" in whole
    monkeypatch.setattr("heed.tasks.inputs.rows.AT_ONCE", 8)
    assert call("predict", "run", "--input", "in.csv")[1] == whole
    for bad, message in (("x,1", "42, column 'x': 'x' is not a number"), ("1e140,1", "1e+140 (in.csv:42) is too far")):
        table(tmp_path / "in.csv", "x,y", *(f"{x},{y}" for x, y in zip(*rows.values(), strict=True)), bad)
        code, out, err = call("predict", "run", "--input", "in.csv")
        assert code == 2 and message in err and out == whole
