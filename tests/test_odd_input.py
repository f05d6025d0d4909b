"""Odd values, names, settings and streams: an answer, or one line that names them; outputs are refused before work."""

import datetime
import decimal
import errno
import inspect
import io
import os
import re
import shutil
import signal
import subprocess
import sys
import warnings
from pathlib import Path

import numpy as np
import pandas
import pytest
import torch
import typer.main
from PIL import Image

import heed
from contract import data_of
from fuzzing import SETTINGS, answer, options_of_command
from heed.attention import SCORES
from heed.cli.app import app
from heed.cli.predict import Unseen
from heed.config import read_config
from heed.config.sections import GenerationConfig
from heed.data.findings import Findings
from heed.data.kinds.features import Standard
from heed.data.kinds.numbers import read_rows, rows_from_python
from heed.data.kinds.texts import text_reader
from heed.errors import ConfigError, DataError, DiskError, HeedError, InputError, RunError
from heed.generation.search import SearchOptions
from heed.storage import disk
from heed.tasks import spec_of, task_names
from pictures import noise
from small_runs import SMALL

LONG, WHOLE, HALF = "x" * 300, "x" * 100_000, "a\ud800b"
DIGITS = "9" * 5000
QUICK = {"training.threads": 1, "training.device": "cpu", "evaluation.bootstrap": 5}


def write(path, *lines):
    path.write_text("".join(f"{line}\n" for line in lines), encoding="utf-8")
    return path


@pytest.fixture
def desk(call, data, small_run, tmp_path):
    """An empty folder with links to the data and to runs, in which commands run."""
    for path in data.iterdir():
        (tmp_path / path.name).symlink_to(path)
    (tmp_path / "run").symlink_to(small_run("translation"))
    (tmp_path / "numbers").symlink_to(small_run("series"))
    return tmp_path


@pytest.fixture
def refused(call, desk):
    """Function that gives the one line of a command that cannot be used."""

    def line(*words):
        code, out, err = call(*(words[0].split() if len(words) == 1 else words))
        assert code in (2, 3) and (out, err.count("\n")) == ("", 1) and err.startswith("heed: "), (code, out, err)
        return err

    return line


# --- on the command line

REFUSED = [
    *((f"predict run one {option} {'9' * digits}", option) for digits in (20, 400)
      for option in ("--length", "--beam", "--nbest", "--seed", "--top-k", "--sort-window")),
    (f"predict numbers --input x.csv --horizon {'9' * 400}", "--horizon"),
    *((f"check translation pairs.tsv {field}={'9' * 400}", f"{field} has 1329 bits, but must be less than 2 ** 63")
      for field in ("training.seed", "training.steps", "model.d_hidden", "tokenizer.vocab_size", "data.max_length")),
    *((f"{words}{digits}", said) for digits in ("9" * 25, DIGITS) for words, said in (
        ("check translation pairs.tsv --valid ", "data.valid"), ("lesson lion --row ", "--row"),
        ("compare translation pairs.tsv --models luong,rnn --train-size ", "train"))),
    (f"train translation pairs.tsv --dry-run training.freeze=[layers<{DIGITS}]", "training.freeze"),
    *((f"check {task} {SMALL[task].train} --valid 0", "validation") for task in SMALL),
    ("check zero.yaml", "it is a device, expected a file"),
    ("check pipe.yaml", "it is a named pipe, expected a file"),
    ("check huge.yaml", "more than 1,048,576 bytes"),
    ("check classification caf\udce9.txt", "is not UTF-8, as config.yaml must be; rename the file"),
    ("predict run caf\udce9", "which is not a character"),
    ("demo --minutes inf", "minutes"),
    ("train translation data.name=copy --minutes nan", "minutes"),
    ("train translation data.name=copy --minutes 1e300", "minutes"),
    *((f"train translation data.name=copy {field}", field.split("=")[0]) for field in (
        "training.learning_rate=.inf", "training.clip=.nan", "training.weight_decay=.inf", "training.epochs=1e300")),
]  # fmt: skip
"""A command, and what its one line says."""


@pytest.mark.parametrize(("words", "said"), REFUSED, ids=lambda value: ascii(value[:60]))
def test_what_cannot_be_is_refused_in_one_line(desk, refused, words, said):
    (desk / "zero.yaml").symlink_to("/dev/zero")
    os.mkfifo(desk / "pipe.yaml")
    write(desk / "huge.yaml", "# " + "x" * 2**20)
    write(desk / "caf\udce9.txt", "one two")
    assert said in refused(words)


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        (next(one for one in SETTINGS if one.startswith("{a0")), "its aliases expand to too many values"),
        ("&a [*a]", "nested more than 64 levels deep"),
        ("[" * 100_000, "nested too deep"),
        ("2001-99-99", "month must be in 1..12"),
        (DIGITS, "4300 digits"),
    ],
    ids=lambda value: value[:20],
)
def test_yaml_that_is_none_is_refused(desk, refused, text, problem):
    write(desk / "own.yaml", "task: translation", "data:", f"  train: {text}")
    for words in ("check own.yaml", "train own.yaml --dry-run"):
        said = refused(words)
        assert "own.yaml'" in said and "is not YAML" in said and problem in said
    said = refused("check", "translation", f"data.train={text}")
    assert "is not YAML" in said and problem in said


def test_a_name_that_is_not_utf_8_is_read(desk, call):
    write(desk / "caf\udce9.txt", "one two")
    assert call("predict", "run", "--input", "caf\udce9.txt")[0] == 0


def test_links_of_5000_digits_are_counted_as_missed(desk, call):
    write(desk / "gold.txt", "0-" + DIGITS, *["0-0"] * 23)
    code, _, err = call("evaluate", "run", "pairs.tsv", "--alignment", "gold.txt")
    assert code == 0 and "1 link names a word after the last one" in err


def test_one_line_without_end_is_refused(desk, refused, monkeypatch):
    monkeypatch.setattr("heed.data.text_files._ENDLESS", 1 << 20)
    (desk / "one.txt").write_bytes(b"short\n" + b"a" * (1 << 22))
    said = refused("check language_modelling one.txt data.max_line=1000 data.bad_lines=skip")
    assert "line 2 has more than 1,048,576 bytes without a line break; it is not a file of lines" in said


@pytest.mark.parametrize(
    "words",
    [
        (WHOLE,),
        (f"--{WHOLE}",),
        ("train", f"--{WHOLE}"),
        ("train", "translation", f"data.{WHOLE}=1"),
        ("train", "translation", f"data.train={WHOLE}"),
        ("train", "translation", f"{WHOLE}=1"),
        ("train", "x," * 100_000),
        ("train", "x " * 100_000),
        ("train", "\x1b" * 100_000),
        ("check", "translation", "pairs.tsv", "--valid", WHOLE),
        ("predict", WHOLE, "one"),
        ("predict", "run", "one", "--out", WHOLE),
        ("predict", "run", "--input", WHOLE),
        ("export", "run", "--to", WHOLE),
        ("models", WHOLE),
        ("lesson", WHOLE),
    ],
    ids=lambda words: " ".join(words)[:40],
)
def test_whatever_was_typed_is_shortened_in_the_message(desk, call, words):
    code, _, said = call(*words)
    assert code in (2, 3) and 10 < len(said) < 10_500
    assert re.search(r"(x|x,|x |\\x1b) \.\.\. \([\d,]+ characters\) \.\.\. (x|,| x|x1b|1b|b)", said), said[:300]
    assert len(said) < 2_500 or " " in "".join(words)


NAMED = {
    "train": "translation pairs.tsv --dry-run", "check": "translation pairs.tsv", "predict": "run one",
    "export": "run --to huggingface", "pack": "run", "evaluate": "run", "heads": "run", "align": "run pairs.tsv",
    "compare": "translation pairs.tsv --models luong", "look": "run one", "attribute": "run one",
    "patch": "run one two", "lens": "run one", "beams": "run one", "lesson": "lion", "import": "run",
    "serve": "no-run",  # a run would be served
    "models": "", "demo": "", "dev": "",
}  # fmt: skip
"""Each command with what it needs."""


@pytest.mark.parametrize("command", NAMED)
def test_every_word_may_be_a_name_that_no_file_can_have(desk, monkeypatch, command):
    assert {*NAMED} == {*typer.main.get_command(app).commands}
    rest = NAMED[command].split()
    asked = [[*rest[:n], "NAME", *rest[n + 1 :]] for n, word in enumerate(rest) if word[:2] != "--"]
    named = [option for option, is_number in options_of_command(command) if not is_number and option != "--help"]
    asked += [[*rest, option, "NAME"] for option in named]
    asked += [["images", "NAME"], ["translation", "data.train=NAME"]] if command == "check" else []
    before = {*desk.rglob("*")}
    for words in asked:
        for name in (LONG, "x/" * 2500 + "x", f"y/{LONG}.html"):  # further endings: test_fuzz.py
            found = answer([command, *(word.replace("NAME", name) for word in words)], monkeypatch)
            assert found.wrong == "" and len(found.err) < 6_000, words
    assert {*desk.rglob("*")} == before


# --- from Python


def test_python_refuses_and_shortens_such_names_too():
    for name in (LONG, "a\0b", "\ud800"):
        with pytest.raises(RunError, match="no run folder"):
            heed.load(name)
        with pytest.raises((ConfigError, DataError)):
            heed.train("classification", train=name)
    with pytest.raises(DataError) as found:
        heed.train("translation", train=WHOLE)
    assert 100 < len(str(found.value)) < 1_500


TABLE = [{"x": n / 9, "y": n / 7, "label": "ab"[n % 2]} for n in range(40)]


@pytest.mark.parametrize(
    ("task", "data", "settings", "said"),
    [
        ("table", [{HALF if k == "y" else k: v for k, v in row.items()} for row in TABLE], {}, "name of a column"),
        ("table", [row | {"label": row["label"].replace("b", HALF)} for row in TABLE], {}, r"train\[1\]: the label"),
        ("series", {"sold": [0.1, 0.2] * 20, HALF: [0.1, 0.3] * 20}, {}, "name of a column"),
        ("classification", [("one", "x"), ("two", HALF)] * 12, {}, r"train\[1\]: the label"),
        ("tagging", [(["one", "two"], ["O", HALF])] * 12, {}, r"train\[0\]: tag 1"),
        ("classification", [("one", "x"), ("two", "y")] * 12, {"data.columns.text": HALF}, "data.columns.text is"),
        ("classification", [("one", "x"), ("two", "y")] * 12, {"tokenizer.from": HALF}, "tokenizer.from is"),
        ("images", [(HALF + ".png", "x"), ("b.png", "y")] * 6, {}, "no file can have this name"),
    ],
    ids=str,
)
def test_half_a_character_in_data_from_python_is_refused(tmp_path, monkeypatch, task, data, settings, said):
    monkeypatch.chdir(tmp_path)
    with pytest.raises(HeedError, match=said):
        heed.train(task, train=data, steps=1, out="run", settings=settings, quiet=True)
    assert not list(tmp_path.rglob("*.safetensors"))


def test_half_a_character_in_a_text_is_refused(desk, small_run):
    run = heed.load("run")
    for use in (run.predict, run.look):
        with pytest.raises(InputError, match=r"has '\\udce9' at position 4, which is not a character"):
            use("caf\udce9")
    with pytest.raises(ConfigError, match=r"stop text 'a\\ud800b' contains half a surrogate pair"):
        heed.load(small_run("language_modelling")).predict("one", stop=(HALF,))


@pytest.mark.parametrize("name", [HALF, "a\0b", "caf\udce9"], ids=ascii)
def test_outputs_of_names_that_no_file_or_no_run_can_have_are_refused(desk, data, small_run, name):
    run, before = heed.load("run"), {*desk.iterdir()}
    outputs = [
        lambda: SMALL["series"].trained(data, name),
        lambda: heed.export(small_run("pretraining"), "huggingface", out=name),
    ]
    if name != "caf\udce9":  # a name of a file, but not one in UTF-8, as those in a configuration are
        outputs += [lambda: run.look("one").save(f"{name}.html"), lambda: heed.pack(run, f"{name}.zip")]
    for written in outputs:
        with pytest.raises(ConfigError, match=r"can have this name|is not UTF-8"):
            written()
    assert {*desk.iterdir()} == before


def test_the_longest_outputs_are_the_same_on_every_way(desk):
    most = {"beam": 1_000, "nbest": 1_000, "length": 100_000, "horizon": 100_000, "no-repeat-ngram": 1_000}
    for task in task_names():
        for flag in spec_of(task).flags:
            assert flag.limits[1] == most.get(flag.name) or (flag.command, flag.name) == ("look beams", "length")
    SearchOptions(end_token=1, max_length=most["length"], beam_size=most["beam"]).check()
    GenerationConfig(beam_size=most["beam"], max_length=most["length"])
    run, series = heed.load("run"), heed.load("numbers")
    for name, value in (("beam_size", most["beam"] + 1), ("max_length", most["length"] + 1), ("length_penalty", 1e308)):
        with pytest.raises(ConfigError, match=f"{name} is "):
            run.predict("one", **{name: value})
    with pytest.raises(ConfigError, match="horizon is 100001, expected 1 to 100,000 rows"):
        series.predict([[0.1, 0.2]] * 9, horizon=most["horizon"] + 1)


def test_a_long_text_is_drawn(desk):
    assert "x 3000 words" in repr(heed.load("run").look(" ".join(["one", "two", "three"] * 1000)).maps)


ODD = {
    "None": None, "number": 5, "nan": float("nan"), "True": True, "bytes": b"x", "object": object(), "set": {"a", "b"},
    "Nones": [None], "numbers": [5], "many bytes": [b"x"], "dict": {"a": 1}, "dict of None": {"text": None},
    "dicts": [{"a": 1}], "empty dict": {}, "list": [], "tuple": (), "range": range(3), "function": len, "class": str,
    "path": Path("x.txt"), "empty lists": [[]], "word, number": [["a", 5]], "words, None": [["a"], None],
    "text, None": ["a", None], "0-d": np.array(3), "2-d": np.zeros((2, 2)), "objects": np.array([None, "a"], object),
    "3-d": np.zeros((2, 2, 2)), "tensor": torch.zeros(2), "series": pandas.Series([None, "a"]),
    "frame": pandas.DataFrame({"a": [1]}), "empty frame": pandas.DataFrame(), "date": datetime.date(2020, 1, 1),
    "decimal": decimal.Decimal("1"), "complex": 3j, "...": ..., "half a pair": ("a", None), "pairs": [("a", None)],
    "turns": {"turns": None}, "turns of None": {"turns": [None]}, "text as turns": {"turns": "a"},
    "error": ValueError("x"), "huge": 10**400, "huge numbers": [10**400], "nested": [[[["a"]]]],
}  # fmt: skip


@pytest.mark.parametrize("task", SMALL)
def test_a_value_of_another_type_is_refused_in_one_line(untrained, task):
    run, failed = untrained(task), []
    for method in ("predict", "evaluate", "look"):
        if not hasattr(type(run), method):
            continue
        for name, value in {**ODD, "generator": (one for one in [None])}.items():
            try:
                with warnings.catch_warnings(action="ignore"):
                    getattr(run, method)(value)
            except HeedError as error:
                if len(str(error)) > 400 or "\n" in str(error):
                    failed.append(f"{method}({name}): {str(error)[:200]}")
            except Exception as error:
                failed.append(f"{method}({name}): {type(error).__name__} {error}")
    assert failed == []


def test_a_broken_picture_among_many_costs_no_other_its_label(untrained, data, tmp_path):
    run, files = untrained("images"), sorted((data / "photos").rglob("*.png"))
    (broken := tmp_path / "broken.png").write_bytes(b"not a picture")
    with pytest.warns(UserWarning, match=r"1 picture of 13 cannot be read and have no label: .*broken\.png"):
        found = run.predict([*files[:7], broken, *map(str, files[7:])])
    expected = [one.label for one in run.predict(files)]
    assert [one.label for one in found] == [*expected[:7], "", *expected[7:]]
    for given in (broken, [broken], [broken, tmp_path / "missing.png"]):
        with pytest.raises(HeedError, match="broken"):
            run.predict(given)
    with pytest.raises(HeedError, match="column 'picture' is the text '', expected a path"):
        run.predict("")


def test_the_name_of_a_file_is_not_taken_for_a_split(untrained, data):
    run, file = untrained("translation"), str(data / "pairs.tsv")
    assert run.evaluate(file) == run.evaluate([file]) == run.evaluate(Path(file))
    for given, said in (("dev.tsv", "no file 'dev.tsv'"), ("tests", "no split 'tests'"), (WHOLE, "no split 'xxx")):
        with pytest.raises(HeedError, match=said) as raised:
            run.evaluate(given)
        assert len(str(raised.value)) < 200
    printed = str(run.evaluate(file)).splitlines()
    assert printed[0] == "scores of 24 examples" and not printed[-1].endswith(">")


@pytest.mark.parametrize("task", ["translation", "summarisation", "dialogue", "language_modelling", "pretraining"])
def test_predict_shows_its_options(untrained, task):
    run = untrained(task)
    shown = {name: one.default for name, one in inspect.signature(run.predict).parameters.items() if one.kind == 3}
    assert shown and "options" not in inspect.signature(run.predict).parameters
    text = "one [MASK]" if task == "pretraining" else "one two"
    assert run.predict(text, **shown) == run.predict(text)


def test_notices_of_unknown_text_are_bounded(untrained):
    words = ["x" * 10**6, *(f"y{n}" for n in range(1000))]
    unseen = Unseen()
    unseen.add(words)
    assert len(unseen.note("words")) < 1_000
    look = untrained("classification").look(f"one {' '.join(words[:40])}", contributions=False).look
    assert max(map(len, look.notes)) < 1_000


# --- values that would pass silently and mean something else

GOOD = [f"{n}.5,{n % 3},{'ab'[n % 2]}" for n in range(40)]


@pytest.mark.parametrize(
    ("row", "message"),
    [
        ("1e200,1,a", "line 42, column 'x': '1e+200' is too large: its square is not finite; give the column in la"),
        ("-1e160,1,a", "line 42, column 'x': '-1e+160' is too large"),
        ("1_000,1,a", "line 42, column 'x': '1_000' is not a number; write it without underscores: 1000"),
        ("1,1_0.5,a", "line 42, column 'y': '1_0.5' is not a number; write it without underscores: 10.5"),
    ],
)
def test_a_number_that_is_none_is_named(tmp_path, row, message):
    with pytest.raises(DataError, match=re.escape(message)):
        read_rows(write(tmp_path / "a.csv", "x,y,label", *GOOD, row), None, "label")
    with pytest.raises(DataError, match=r"train\[1\], column 'x': .* is (not a number; write|too large)"):
        value = max(row.split(","), key=len)
        rows_from_python({"x": [1.0, value], "label": ["a", "b"]}, "train", None, "label")


TWICE = r"has two columns 'x' \(0 and 1, counted from 0\); rename one, or leave them out with data.columns"


def test_two_columns_of_one_name_are_named(tmp_path):
    with pytest.raises(DataError, match=rf"a.csv' {TWICE}"):
        read_rows(write(tmp_path / "a.csv", "x,x,label", "1,2,a", "3,4,b"), None, "label")
    other = write(tmp_path / "b.csv", "x,note,note,label", "1,2,5,a", "3,4,6,b")
    assert read_rows(other, ["x"], "label").columns == ("x",)  # nobody asks for the others
    data = pandas.DataFrame([[1.0, 2.0, "a"], [3.0, 4.0, "b"]], columns=["x", "x", "label"])
    with pytest.raises(DataError, match=f"train {TWICE}"):
        rows_from_python(data, "train", None, "label")


@pytest.mark.parametrize(("ending", "between"), [("csv", ","), ("tsv", "\t")])
def test_two_columns_of_one_name_in_texts_are_named(call, tmp_path, ending, between):
    rows = [between.join((f"it is good {n}", f"it is bad {n}", "ab"[n % 2])) for n in range(40)]
    write(tmp_path / f"a.{ending}", between.join(("text", "text", "label")), *rows)
    code, _, err = call("check", "classification", f"a.{ending}", "data.columns.text=text", "data.columns.label=label")
    assert code == 2 and "line 1 names two columns 'text' (0 and 1, counted from 0); rename one, or give" in err


@pytest.mark.parametrize("task", ["table", "series"])
def test_a_constant_column_is_named_and_standardised_to_zero(call, tmp_path, task):
    rows = [f"{n % 7},0.1,{'ab'[n % 2]}" if task == "table" else f"{n % 7},0.1" for n in range(200)]
    write(tmp_path / "a.csv", "x,y,label" if task == "table" else "x,y", *rows)
    code, out, err = call("check", task, "a.csv")
    assert code == 0, err
    (said,) = [line for line in out.splitlines() if "nothing can be learned" in line]
    assert said.startswith("warning: ") and "'y'" in said and "0.1" in said and "'x'" not in said
    values = np.column_stack([np.full(10, 0.1), np.arange(10.0)])  # whose mean is not 0.1, by rounding
    standard = Standard.of(("x", "y"), values)
    assert standard.apply(values)[:, 0].tolist() == [0.0] * 10 and standard.deviation[0] == 1.0


def train_quickly(task, data, out, settings):
    heed.train(task, train=data, valid=4, steps=2, out=out, settings=QUICK | settings, quiet=True)


BREAKS = "so\nso\r\tlala"


def test_a_label_with_a_line_break_leaves_a_line_one(call, tmp_path):
    texts = [(f"it is {word} {n}", label) for n in range(20) for word, label in (("good", BREAKS), ("bad", "b\nad"))]
    train_quickly("classification", texts, tmp_path / "texts", {"model.name": "bag"})
    write(tmp_path / "in.txt", "it is good", "it is bad")
    for given, columns in (((), 2), (("--sort", "uncertainty"), 3), (("--nbest", "2"), 2)):
        code, out, err = call("predict", "texts", "--input", "in.txt", *given)
        assert (code, err) == (0, "") and "\r" not in out
        rows = [line.split("\t") for line in out.removesuffix("\n").split("\n")]
        assert len(rows) == (4 if "--nbest" in given else 2) and {len(row) for row in rows} == {columns}
        assert {cell for row in rows for cell in row} & {"so\\nso\\r\\tlala", "b\\nad"}


def test_a_table_is_answered_while_it_is_read_up_to_a_number_far_from_those_of_training(call, tmp_path, monkeypatch):
    rows = {"x": [n % 7 + 0.5 for n in range(40)], "y": [float(n % 3) for n in range(40)]}
    data = {**rows, "label": [BREAKS if n % 2 else "b" for n in range(40)]}
    train_quickly("table", data, tmp_path / "run", {"model.d_hidden": 4})
    lines = ["x,y", *(f"{x},{y}" for x, y in zip(*rows.values(), strict=True))]
    write(tmp_path / "in.csv", *lines)
    code, whole, _ = call("predict", "run", "--input", "in.csv")
    assert code == 0 and len(whole.splitlines()) == 40 and "so\\nso" in whole
    monkeypatch.setattr("heed.tasks.inputs.rows.AT_ONCE", 8)
    assert call("predict", "run", "--input", "in.csv")[1] == whole
    for bad, message in (("x,1", "42, column 'x': 'x' is not a number"), ("1e140,1", "1e+140 (in.csv:42) is too far")):
        write(tmp_path / "in.csv", *lines, bad)
        code, out, err = call("predict", "run", "--input", "in.csv")
        assert code == 2 and message in err and out == whole


@pytest.mark.parametrize(
    ("name", "lines", "words", "said"),
    [
        ("a.txt", [f"line number {n} of the file" for n in range(60)], "translation a.txt a.txt",
         "train, source and target are the same file, 'a.txt'; the model can only learn to copy"),
        ("b.tsv", ["en\tde", *(f"one {n}\tone {n} two" for n in range(60))],
         "translation b.tsv data.columns.source=en data.columns.target=en",
         "train, source and target are the same column, 'en' of 'b.tsv'; the model can only learn to copy"),
        ("a.tsv", ["text\tlabel", *(f"it is {n}\t{'ab'[n % 2]}" for n in range(40)), "x" * 200_000 + "\ta"],
         "classification a.tsv --valid a.tsv",
         "more than 100,000 characters, kept (a smaller data.max_line leaves such lines out): 1 text (a.tsv:42)"),
    ],
)  # fmt: skip
def test_odd_files_are_warned_of(call, tmp_path, name, lines, words, said):
    write(tmp_path / name, *lines)
    code, out, err = call("check", *words.split())
    assert code == 0, err
    assert f"warning: {said}" in out


def test_an_object_with_a_key_twice_is_a_bad_line(tmp_path):
    def read(findings):
        return list(text_reader(data_of("classification")).read([path], findings))

    path = write(tmp_path / "a.jsonl", '{"text": "a", "label": "x"}', '{"text": "a", "label": "x", "label": "y"}')
    with pytest.raises(DataError, match=r"line 2 is not JSON: the key 'label' occurs twice"):
        read(Findings())
    assert len(read(Findings("skip"))) == 1
    write(path, '{"text": "a", "more": {"b": 1, "b": 2}}')
    with pytest.raises(DataError, match="the key 'b' occurs twice"):
        read(Findings())


def test_a_configuration_with_a_field_twice_is_refused(tmp_path):
    path = write(tmp_path / "a.yaml", "task: translation", "training:", "  steps: 4", "training:", "  minutes: 3")
    with pytest.raises(ConfigError, match=r"a.yaml' line 4: the field 'training' occurs twice"):
        read_config(path)
    write(path, "a: &a {x: 1}", "b:", "  <<: *a", "  x: 2")  # a merged key may be given anew
    assert read_config(path)["b"] == {"x": 2}


@pytest.mark.parametrize(("rate", "warned"), [(30.0, True), (0.003, False)])
def test_a_learning_rate_that_makes_the_loss_grow_is_said(call, rate, warned):
    sizes = ["data.train=150", "data.valid=20", "data.test=25", "training.threads=1", "evaluation.bootstrap=20"]
    sizes += ["data.length=[2,6]", "training.batch_tokens=200", "training.warmup=0", "generation.max_length=9"]
    sizes += [f"model.d_{part}=8" for part in ("embedding", "hidden", "attention")]
    how = ["training.steps=60", "training.optimizer=sgd", "training.clip=null"] if warned else ["training.steps=20"]
    code, _, err = call("train", "translation", "data.name=copy", *sizes, f"training.learning_rate={rate}", *how)
    assert code == 0, err
    said = [line for line in err.splitlines() if line.startswith("warning: the training loss")]
    assert len(said) == warned and all("try training.learning_rate=3 " in line for line in said)


# --- streams and messages


@pytest.fixture
def streams(monkeypatch):
    def put(name, stream):
        monkeypatch.setattr(sys, name, stream)
        return stream

    return put


def ended(*words):
    """The exit status of a command."""
    with pytest.raises(SystemExit) as raised:
        heed.cli.main([*words])
    return raised.value.code or 0


def test_a_letter_that_stdout_lacks_ends_in_one_line(streams, monkeypatch):
    out, err = streams("stdout", io.TextIOWrapper(io.BytesIO(), "ascii")), streams("stderr", io.StringIO())
    monkeypatch.setattr("heed.cli.show.models_text", lambda name, scores: "a\nq\u2032k")
    assert ended("models", "--scores") == 3
    assert err.getvalue() == "heed: stdout is ascii, which lacks '\\u2032'; set PYTHONIOENCODING=utf-8\n"
    assert not out.buffer.getvalue().strip(b"a\n")


@pytest.mark.parametrize("closed", [("stdin",), ("stdout",), ("stderr",), ("stdin", "stdout", "stderr")])
def test_closed_streams_are_no_traceback(desk, streams, closed):
    written = {name: streams(name, None if name in closed else io.StringIO()) for name in ("stdin", "stdout", "stderr")}
    assert ended("predict", "run", "one two") == (3 if "stdout" in closed else 0)
    if closed == ("stdout",):
        assert "cannot write to stdout: it is closed" in written["stderr"].getvalue()
    elif "stdout" not in closed:
        assert written["stdout"].getvalue().count("\n") == 1
    if closed == ("stdin",):  # which has no lines
        assert ended("predict", "run") == 0 and written["stdout"].getvalue().count("\n") == 1


@pytest.mark.parametrize(
    ("words", "how"), [("lesson", "2>&-"), *(("train x", f"2>{how}") for how in ("&-", "/dev/full"))]
)
def test_a_closed_stderr_changes_neither_answer_nor_exit_status(words, how):
    command = f"{sys.executable} -m heed {words} {how}"
    done = subprocess.run(["bash", "-c", command], capture_output=True, text=True, check=False)
    assert done.returncode == (0 if words == "lesson" else 2)
    assert ("The cat sat" in done.stdout) == (words == "lesson")


def test_warnings_of_libraries_are_one_line_with_the_name_of_the_library(capsys, monkeypatch):
    def command(arguments, standalone_mode):
        warnings.warn_explicit("first\n  second", UserWarning, "/usr/lib/python3/site-packages/torch/nn/x.py", 7)
        warnings.warn_explicit("third", UserWarning, "/elsewhere/x.py", 7)
        warnings.warn("ours", heed.errors.HeedWarning, stacklevel=1)

    monkeypatch.setattr("heed.cli.app.app", command)
    with warnings.catch_warnings():
        warnings.simplefilter("always")
        heed.cli.main([])
    said = "heed: warning of torch: first second\nheed: warning of Python: third\nheed: ours\n"
    assert capsys.readouterr().err == said


def test_a_full_disk_never_says_that_there_is_room(tmp_path, monkeypatch):
    room = os.statvfs_result((4096, 4096, 100, 4, 4, 1000, 10, 10, 0, 255))  # 16,384 bytes
    monkeypatch.setattr(os, "statvfs", lambda folder: room)
    full = OSError(errno.ENOSPC, "No space left on device")
    said = str(disk.disk_error(full, tmp_path / "file", 12_012))
    assert "12,012 bytes (0.0 MiB) and room for" in said and "needed, 16,384" in said


def test_line_breaks_in_names_of_pictures_break_no_line(tmp_path, call):
    names = [f"{kind}/{n}\nx.png" for kind in ("cat", "dog") for n in range(6)]
    photos, run = tmp_path / "photos", tmp_path / "run"
    for n, name in enumerate(names):
        (photos / name).parent.mkdir(parents=True, exist_ok=True)
        Image.fromarray(noise(n, 8, 8)).save(photos / name, format="png")
    (photos / "cat" / "bad\nname.png").write_text("no picture")
    shown = call("check", "images", photos, "data.bad_lines=skip")[1]
    assert r"cat/bad\nname.png" in shown and r"cat/0\nx.png" in shown and "\nx.png" not in shown
    heed.train("images", train=photos, steps=1, out=run, quiet=True, settings=QUICK | {"data.bad_lines": "skip"})
    _, out, err = call("predict", run, photos / names[0], photos / "cat" / "bad\nname.png")
    shown = [line.split("\t")[0] for line in out.splitlines()]
    assert shown == [rf"{photos}/cat/0\nx.png", rf"{photos}/cat/bad\nname.png"]
    assert "name.png' is not a picture" in err and all(line.startswith("heed: ") for line in err.splitlines())


def test_a_forked_process_predicts_after_two_threads():
    before = torch.get_num_threads()
    torch.set_num_threads(2)
    numbers = torch.randn(4_000, 512)
    torch.layer_norm(numbers, (512,))  # by two threads, of which a forked process has one
    try:
        if not (child := os.fork()):
            signal.signal(signal.SIGALRM, signal.SIG_DFL)
            signal.alarm(20)
            torch.layer_norm(numbers, (512,))
            os._exit(torch.get_num_threads())
        assert os.waitpid(child, 0)[1] == 1 << 8  # it ended with status 1, not by the alarm
    finally:
        torch.set_num_threads(before)


def test_the_table_of_scores_needs_no_docstrings(call, monkeypatch):
    """As with `python -OO`."""
    for score in SCORES.values():
        monkeypatch.setattr(score, "__doc__", None)
    code, out, err = call("models", "--scores")
    assert (code, err) == (0, "") and "q'k / sqrt(d)" in out


# --- outputs that cannot be written are refused before the work


@pytest.mark.parametrize("blocked", ["out", "out/compare.json"])
def test_compare_refuses_its_folder_before_the_work(desk, refused, monkeypatch, blocked):
    shutil.copytree(desk / "run", desk / "other")
    monkeypatch.setattr("heed.cli.compare.compare_entries", lambda *given: pytest.fail("compared"))
    (desk / blocked).mkdir(parents=True) if "/" in blocked else write(desk / "out", "a file")
    said = refused("compare run other --out out")
    assert "is a file" in said or "it is a folder" in said


@pytest.mark.parametrize("words", ["lesson pizza", "look run abc", "check images data.name=digits"])
def test_commands_refuse_their_output_before_the_work(desk, refused, monkeypatch, words):
    for work in ("heed.lessons.lesson.run_lesson", "heed.cli.look._look", "heed.tasks.work.Task.prepare"):
        monkeypatch.setattr(work, lambda *given, **named: pytest.fail("worked"))
    write(desk / "file", "")
    assert "Not a directory" in refused(f"{words} --out file/page.html")
    with pytest.raises((ConfigError, DiskError)):
        disk.check_output(Path("/sys/heed/page.html"))
