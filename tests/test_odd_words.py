"""Odd words on the command line and from Python: names, settings, numbers and encodings that nothing can be made of."""

import io
import os
import re
import signal
import subprocess
import sys

import pytest
import torch
import typer.main

import heed
from commands import call
from fuzzing import SETTINGS, answer, options_of_command
from heed.cli.app import app
from heed.config.sections import GenerationConfig
from heed.errors import ConfigError, DataError, InputError
from heed.generation.search import SearchOptions
from heed.tasks import spec_of, task_names
from small_runs import SMALL, write_data

LONG = "x" * 300


@pytest.fixture(scope="module")
def desk(tmp_path_factory):
    folder = tmp_path_factory.mktemp("desk")
    write_data(folder)
    SMALL["translation"].trained(folder, folder / "run")
    SMALL["series"].trained(folder, folder / "numbers")
    return folder


def refused(capsys, *words):
    """The one line of a command that cannot be used."""
    code, out, err = call(capsys, *words)
    assert code in (2, 3) and (out, err.count("\n")) == ("", 1) and err.startswith("heed: "), (code, out, err)
    return err


def test_python_refuses_such_names_too(desk):
    for name in (LONG, "a\0b", "\ud800"):
        with pytest.raises(heed.errors.RunError, match="no run folder"):
            heed.load(name)
        with pytest.raises((ConfigError, DataError)):
            heed.train("classification", train=name)


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        (next(one for one in SETTINGS if one.startswith("{a0")), "its aliases expand to too many values"),
        ("&a [*a]", "nested more than 64 levels deep"),
        ("[" * 100_000, "nested too deep"),
        ("2001-99-99", "month must be in 1..12"),
        ("9" * 5000, "4300 digits"),
    ],
)
def test_yaml_that_is_none_is_refused(tmp_path, capsys, text, problem):
    file = tmp_path / "own.yaml"
    file.write_text(f"task: translation\ndata:\n  train: {text}\n")
    for words in (("check", file), ("train", file, "--dry-run")):
        said = refused(capsys, *words)
        assert "own.yaml'" in said and "is not YAML" in said and problem in said
    said = refused(capsys, "check", "translation", f"data.train={text}")
    assert "is not YAML" in said and problem in said


def test_a_configuration_that_never_ends_is_not_waited_for(tmp_path, capsys):
    (tmp_path / "zero.yaml").symlink_to("/dev/zero")
    os.mkfifo(tmp_path / "pipe.yaml")
    (tmp_path / "huge.yaml").write_text("# " + "x" * 2**20)
    assert "it is a device, expected a file" in refused(capsys, "train", tmp_path / "zero.yaml")
    assert "it is a named pipe, expected a file" in refused(capsys, "check", tmp_path / "pipe.yaml")
    assert "more than 1,048,576 bytes" in refused(capsys, "check", tmp_path / "huge.yaml")


def test_a_name_that_is_not_utf_8_is_read_but_not_recorded(desk, monkeypatch, capsys):
    monkeypatch.chdir(desk)
    name = os.fsdecode(b"caf\xe9.txt")
    (desk / name).write_text("one two\n")
    assert call(capsys, "predict", "run", "--input", name)[0] == 0
    assert "is not UTF-8, as config.yaml must be; rename the file" in refused(capsys, "check", "classification", name)


HALF = "a\ud800b"
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
    with pytest.raises(heed.errors.HeedError, match=said):
        heed.train(task, train=data, steps=1, out="run", settings=settings, quiet=True)
    assert not list(tmp_path.rglob("*.safetensors"))


@pytest.mark.parametrize("name", [HALF, "a\0b"], ids=ascii)
def test_outputs_of_names_that_no_file_can_have_are_refused(desk, tmp_path, monkeypatch, name):
    monkeypatch.chdir(tmp_path)
    numbers, run = heed.load(desk / "numbers"), heed.load(desk / "run")
    for write in (
        lambda: run.look("one").save(f"{name}.html"),
        lambda: heed.pack(numbers, f"{name}.zip"),
        lambda: SMALL["series"].trained(desk, name),
        lambda: SMALL["series"].trained(desk, f"new/{name}"),
    ):
        with pytest.raises(ConfigError, match=r"can have this name|is not UTF-8"):
            write()
    assert not list(tmp_path.iterdir())


def test_a_folder_of_weights_has_a_name_in_utf_8(desk, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    name = os.fsdecode(b"caf\xe9")
    SMALL["pretraining"].trained(desk, tmp_path / "run")
    for write in (
        lambda: SMALL["series"].trained(desk, name),
        lambda: heed.export(tmp_path / "run", "huggingface", out=name),
    ):
        with pytest.raises(ConfigError, match=r"folder 'caf\\udce9' is not UTF-8; give another --out"):
            write()
    assert os.listdir() == ["run"]


@pytest.mark.parametrize("task", SMALL)
def test_training_without_validation_is_refused(desk, capsys, task):
    assert "validation" in refused(capsys, "check", task, desk / SMALL[task].train, "--valid", "0")


def test_a_stop_text_that_is_not_utf_8_is_refused(desk, tmp_path):
    SMALL["language_modelling"].trained(desk, tmp_path / "lm")
    with pytest.raises(ConfigError, match=r"stop text 'a\\ud800b' contains half a surrogate pair"):
        heed.load(tmp_path / "lm").predict("one", stop=(HALF,))


def test_a_text_that_is_not_utf_8_is_refused(desk, capsys):
    run = heed.load(desk / "run")
    for use in (run.predict, run.look):
        with pytest.raises(InputError, match=r"has '\\udce9' at position 4, which is not a character"):
            use("caf\udce9")
    assert "which is not a character" in refused(capsys, "predict", desk / "run", "caf\udce9")


@pytest.mark.parametrize("digits", [20, 400])
def test_numbers_beyond_64_bits_are_refused(desk, capsys, digits):
    number = "9" * digits
    for option in ("--length", "--beam", "--nbest", "--seed", "--top-k", "--sort-window"):
        assert option in refused(capsys, "predict", desk / "run", "one", option, number)
    assert "--horizon" in refused(capsys, "predict", desk / "numbers", "--input", "x.csv", "--horizon", number)
    for field in ("training.seed", "training.steps", "model.d_hidden", "tokenizer.vocab_size", "data.max_length"):
        said = refused(capsys, "check", "translation", desk / "pairs.tsv", f"{field}={number}")
        assert f"{field} has {int(number).bit_length()} bits, but must be less than 2 ** 63" in said


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (("check", "translation", "pairs.tsv", "--valid", "NUMBER"), "data.valid"),
        (("lesson", "lion", "--row", "NUMBER"), "--row"),
        (("compare", "translation", "pairs.tsv", "--models", "luong,rnn", "--train-size", "NUMBER"), "train"),
        (("train", "translation", "pairs.tsv", "--dry-run", "training.freeze=[layers<NUMBER]"), "training.freeze"),
    ],
    ids=lambda one: one[0],
)
def test_numbers_of_5000_digits_are_refused_in_one_line(desk, monkeypatch, capsys, words, said):
    monkeypatch.chdir(desk)
    for digits in ("9" * 25, "9" * 5000):
        assert said in refused(capsys, *(word.replace("NUMBER", digits) for word in words))


def test_links_of_5000_digits_are_counted_as_missed(desk, tmp_path, capsys):
    (tmp_path / "gold.txt").write_text("0-" + "9" * 5000 + "\n0-0" * 23 + "\n")
    code, _, err = call(capsys, "evaluate", desk / "run", desk / "pairs.tsv", "--alignment", tmp_path / "gold.txt")
    assert code == 0 and "1 link names a word after the last one" in err


def test_the_longest_outputs_are_the_same_on_every_way(desk):
    most = {"beam": 1_000, "nbest": 1_000, "length": 100_000, "horizon": 100_000}
    for task in task_names():
        for flag in spec_of(task).flags:
            assert flag.most == most.get(flag.name) or (flag.command, flag.name) == ("look beams", "length")
    options = SearchOptions(end_token=1, max_length=most["length"], beam_size=most["beam"])
    options.check()
    GenerationConfig(beam_size=most["beam"], max_length=most["length"])
    run, series = heed.load(desk / "run"), heed.load(desk / "numbers")
    for name, value in (("beam_size", most["beam"] + 1), ("max_length", most["length"] + 1), ("length_penalty", 1e308)):
        with pytest.raises(ConfigError, match=f"{name} is "):
            run.predict("one", **{name: value})
    with pytest.raises(ConfigError, match="horizon is 100001, expected 1 to 100,000 rows"):
        series.predict([[0.1, 0.2]] * 9, horizon=most["horizon"] + 1)


@pytest.fixture
def streams(monkeypatch):
    def put(name, stream):
        monkeypatch.setattr(sys, name, stream)
        return stream

    return put


def test_a_letter_that_stdout_lacks_ends_in_one_line(desk, streams, monkeypatch):
    out, err = streams("stdout", io.TextIOWrapper(io.BytesIO(), "ascii")), streams("stderr", io.StringIO())
    monkeypatch.setattr("heed.cli.show.list_scores_text", lambda: "a\nq\u2032k")
    with pytest.raises(SystemExit) as ended:
        heed.cli.main(["models", "--scores"])
    assert ended.value.code == 3
    assert err.getvalue() == "heed: stdout is ascii, which lacks '\\u2032'; set PYTHONIOENCODING=utf-8\n"
    assert not out.buffer.getvalue().strip(b"a\n")


@pytest.mark.parametrize("closed", [("stdin",), ("stdout",), ("stderr",), ("stdin", "stdout", "stderr")])
def test_closed_streams_are_no_traceback(desk, streams, closed):
    written = {name: streams(name, None if name in closed else io.StringIO()) for name in ("stdin", "stdout", "stderr")}
    with pytest.raises(SystemExit) as ended:
        heed.cli.main(["predict", str(desk / "run"), "one two"])
    assert (ended.value.code or 0) == (3 if "stdout" in closed else 0)
    if closed == ("stdout",):
        assert "cannot write to stdout: it is closed" in written["stderr"].getvalue()
    elif "stdout" not in closed:
        assert written["stdout"].getvalue().count("\n") == 1


def test_a_closed_stdin_has_no_lines(desk, streams):
    out, _ = streams("stdout", io.StringIO()), streams("stdin", None)
    with pytest.raises(SystemExit) as ended:
        heed.cli.main(["predict", str(desk / "run")])
    assert not ended.value.code and out.getvalue() == ""


WHOLE = "x" * 100_000


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
def test_whatever_was_typed_is_shortened_in_the_message(desk, monkeypatch, capsys, words):
    monkeypatch.chdir(desk)
    code, _, said = call(capsys, *words)
    assert code in (2, 3) and 10 < len(said) < 10_500
    assert re.search(r"(x|x,|x |\\x1b) \.\.\. \([\d,]+ characters\) \.\.\. (x|,| x|x1b|1b|b)", said), said[:300]
    assert len(said) < 2_500 or " " in "".join(words)


def test_python_shortens_what_it_quotes_too(desk):
    with pytest.raises(DataError) as found:
        heed.train("translation", train=WHOLE)
    assert 100 < len(str(found.value)) < 1_500


def test_a_long_text_is_drawn(desk):
    run = heed.load(desk / "run")
    assert "x 3000 words" in repr(run.look(" ".join(["one", "two", "three"] * 1000)).maps)


def named_options():
    """Every argument and option that takes a word, by command, with the words that make the rest of the command."""
    rest = {
        "train": ["translation", "pairs.tsv", "--dry-run"],
        "check": ["translation", "pairs.tsv"],
        "predict": ["run", "one"],
        "export": ["run", "--to", "huggingface"],
        "pack": ["run"],
        "evaluate": ["run"],
        "heads": ["run"],
        "align": ["run", "pairs.tsv"],
        "compare": ["translation", "pairs.tsv", "--models", "luong"],
        "look": ["run", "one"],
        "attribute": ["run", "one"],
        "patch": ["run", "one", "two"],
        "lens": ["run", "one"],
        "beams": ["run", "one"],
        "lesson": ["lion"],
        "import": ["run"],
        "serve": ["no-run"],  # a run would be served
        "models": [],
        "demo": [],
        "dev": [],  # of contributors
    }
    for name in typer.main.get_command(app).commands:
        words = rest[name]
        for place, _ in enumerate(words):
            if not words[place].startswith("--"):
                yield name, [*words[:place], "NAME", *words[place + 1 :]]
        for option, is_number in options_of_command(name):
            if not is_number and option != "--help":
                yield name, [*words, option, "NAME"]
    for task in ("classification", "tagging", "images"):
        yield "check", [task, "NAME"]
    yield "check", ["translation", "data.train=NAME"]
    assert {*rest} == {*typer.main.get_command(app).commands}


@pytest.mark.parametrize(
    ("command", "words"), [*named_options()], ids=lambda value: " ".join(value) if isinstance(value, list) else value
)
def test_every_word_may_be_a_name_that_no_file_can_have(desk, monkeypatch, command, words):
    monkeypatch.chdir(desk)
    before = {*desk.rglob("*")}
    for name in (LONG, "x/" * 2500 + "x", LONG + ".png", LONG + ".zip", LONG + ".yaml", f"y/{LONG}.html"):
        found = answer([command, *(word.replace("NAME", name) for word in words)], monkeypatch)
        assert found.wrong == "" and len(found.err) < 6_000
    assert {*desk.rglob("*")} == before


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


def test_the_table_of_scores_needs_no_docstrings():
    found = subprocess.run([sys.executable, "-OO", "-m", "heed", "models", "--scores"], capture_output=True, text=True)
    assert (found.returncode, found.stderr) == (0, "")
    assert "q'k / sqrt(d)" in found.stdout


def test_one_line_without_end_is_refused(tmp_path, capsys, monkeypatch):
    monkeypatch.setattr("heed.data.text_files._ENDLESS", 1 << 20)
    (tmp_path / "one.txt").write_bytes(b"short\n" + b"a" * (1 << 22))
    settings = ["data.max_line=1000", "data.bad_lines=skip"]
    said = refused(capsys, "check", "language_modelling", tmp_path / "one.txt", *settings)
    assert "line 2 has more than 1,048,576 bytes without a line break; it is not a file of lines" in said
