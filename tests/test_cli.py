"""The commands and the Python of the front page: what they print, what they refuse, and how they end."""

import inspect
import json
import os
import re
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import get_args

import pytest
import torch
import yaml
from typer.main import get_command

import heed
from heed.attention import SCORES
from heed.cli.app import app
from heed.errors import ConfigError, RunError
from heed.registry import list_models
from heed.tasks import config_class, task_names
from heed.tasks.base import shared_flags
from heed.tasks.run import Run
from heed.watch.attribution import METHODS

SETTINGS = {
    "task": "translation",
    "data": {"name": "copy", "length": [2, 6], "train": 150, "valid": 20, "test": 25},
    "model": {"name": "bahdanau", "d_embedding": 16, "d_hidden": 16, "d_attention": 16},
    "training": {"steps": 6, "batch_tokens": 200, "threads": 1, "device": "cpu"},
    "generation": {"max_length": 9},
    "evaluation": {"bootstrap": 20},
}


WORSE = "heed: the model is worse than a baseline, copying the source (exact match 0.00%, baseline 100.00%)\n"


@pytest.fixture(scope="module")
def config(tmp_path_factory):
    path = tmp_path_factory.mktemp("config") / "copy.yaml"
    path.write_text(yaml.safe_dump(SETTINGS))
    return path


@pytest.fixture(scope="module")
def run(tmp_path_factory, config):
    """A trained run, for everything that only reads it."""
    return heed.train(config, out=tmp_path_factory.mktemp("runs") / "run", quiet=True)


# --- help


def test_help_lists_the_commands_and_imports_nothing_heavy():
    script = (
        "import sys\nfrom heed.cli import main\n"
        "for words in (['--help'], ['train', '--help'], ['look', '--help'], []):\n"
        "    try: main(words)\n"
        "    except SystemExit: pass\n"
        "    heavy = {'torch', 'babel', 'numpy', 'tokenizers', 'yaml'}\n"
        "    if words == ['--help']: heavy.add('pydantic')  # typer loads it to read options\n"
        "    print('HEAVY', sorted(heavy & set(sys.modules)))"
    )
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, timeout=60)
    assert re.findall(r"HEAVY .*", done.stdout) == ["HEAVY []"] * 4
    assert done.stderr == "" or "Usage" in done.stderr
    for command in ("demo", "train", "predict", "evaluate", "look", "models"):
        assert re.search(rf"^│ {command}\s+[A-Z]", done.stdout, re.MULTILINE), command


def test_help_fits_a_terminal_of_80_columns_and_cuts_no_sentence(call, monkeypatch):
    monkeypatch.setenv("COLUMNS", "80")
    code, out, _ = call("-h")
    assert code == 0 and "…" not in out
    for command in get_command(app).commands:
        code, out, _ = call(command, "-h")
        assert (code, out) == (0, call(command, "--help")[1])
        assert max(map(len, out.splitlines())) <= 80
        assert f" {command} [OPTIONS]" in out and "the paper's" not in out
        assert all(title.endswith("─╮") for title in re.findall(r"^╭.*", out, re.MULTILINE))


def test_the_shell_completes_tasks_models_sizes_and_runs(tmp_path, monkeypatch, capsys):
    for name in ("b-rnn-1", "a-cnn-2", "no-run"):
        (tmp_path / "runs" / name).mkdir(parents=True)
    for name in ("b-rnn-1", "a-cnn-2"):
        (tmp_path / "runs" / name / "format.json").touch()
    (tmp_path / "my.yaml").touch()
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "argv", ["heed"])
    monkeypatch.setenv("_HEED_COMPLETE", "complete_bash")
    for words, offered in (
        ("train t", ["table", "tagging", "translation"]),
        ("train my", ["my.yaml"]),
        ("train table t", []),  # files, which bash completes by itself
        ("train table --model ba", ["bag", "bahdanau"]),
        ("train table --size s", ["scarce", "small"]),
        ("predict ", ["last", "runs/a-cnn-2", "runs/b-rnn-1"]),
        ("compare runs/a-cnn-2 runs/b", ["runs/b-rnn-1"]),
        ("models h", ["han", "hred"]),
    ):
        monkeypatch.setenv("COMP_WORDS", f"heed {words}")
        monkeypatch.setenv("COMP_CWORD", str(words.count(" ") + 1))
        with pytest.raises(SystemExit):
            app(prog_name="heed")
        assert capsys.readouterr().out.split() == offered


def test_version(call):
    code, out, err = call("--version")
    assert (code, err) == (0, "") and re.fullmatch(r"heed \d+\.\d+\.\d+\S*\n", out)


def test_models_is_one_table_by_task_on_a_narrow_terminal(call, monkeypatch):
    monkeypatch.setenv("COLUMNS", "80")
    code, out, err = call("models")
    assert (code, err) == (0, "") and max(map(len, out.splitlines())) <= 80
    blocks = dict(block.split("\n", 1) for block in out.split("\n\n")[: len(task_names())])
    rows = {head.partition(":")[0]: [line.split()[:2] for line in text.splitlines()] for head, text in blocks.items()}
    assert list(rows) == task_names()
    assert ["cnn", "convolutions"] in rows["classification"] and ["cnn", "convolutions"] not in rows["tagging"]
    for task, words in rows.items():
        default = config_class(task).model_fields["model"].default.name
        assert [second for first, second in words if first == "*"] == [default]
    for _, body in list_models():
        assert body.summary in out and body.paper in out and len(body.summary) <= 40
    code, out, err = call("models", "--scores")
    assert (code, err) == (0, "") and all(re.search(rf"^{name}\s", out, re.MULTILINE) for name in SCORES)


def test_models_for_pretraining_are_those_that_it_accepts(call):
    (block,) = (block for block in call("models")[1].split("\n\n") if block.startswith("pretraining"))
    assert len(block.splitlines()) == 2 and block.splitlines()[1].startswith("* bert")
    assert "encoder for classification, tagging:" in call("models", "encoder")[1]


def test_models_with_a_name_shows_every_field_and_size_and_whose_widths_they_are(call, monkeypatch):
    monkeypatch.setenv("COLUMNS", "10000")
    for name, body in list_models():
        code, out, err = call("models", name)
        assert (code, err) == (0, "") and f": {body.summary} ({body.paper})" in out
        for field, info in body.config_class.model_fields.items():
            assert re.search(rf"^  {field}\s", out, re.MULTILINE) and " ".join(info.description.split()) in out
        for size in body.config_class.sizes:
            assert re.search(rf"^  {size}\s", out, re.MULTILINE)
            assert size in get_args(
                config_class("translation").model_fields["model"].annotation.model_fields["size"].annotation
            )
    assert "base                  none; the defaults are RNNsearch-50 of the paper\n" in call("models", "bahdanau")[1]
    for without in ("attention_lm", "attention_only", "self_rnn"):  # the notes give no widths
        assert "the paper's" not in call("models", without)[1].split("fields that differ")[1]
    assert call("models", "bahdanou") == (2, "", "heed: unknown model 'bahdanou'; did you mean 'bahdanau'?\n")


def test_options_of_looks_are_keywords_of_the_methods_of_runs():
    for command in ("look", "attribute", "patch", "lens", "beams"):
        assert {flag.key for flag in shared_flags(command)} <= {*inspect.signature(getattr(Run, command)).parameters}
    assert [flag.choices for flag in shared_flags("attribute") if flag.name == "method"] == [tuple(METHODS)]


# --- train


def test_train_writes_a_run_and_says_what_to_type_next(call, config, tmp_path):
    code, out, err = call("train", config, "training.steps=3", "model.d_hidden=8", "--seed", 5)
    assert code == 0
    folder = tmp_path / "runs" / "copy-bahdanau-1"
    effective = yaml.safe_load((folder / "config.yaml").read_text())
    assert effective["training"]["steps"] == 3
    assert effective["training"]["seed"] == 5
    assert effective["model"]["d_hidden"] == 8
    assert effective["training"]["optimizer"] == "adamw"  # every default is written
    assert "test: 25 pairs" in out and "exact match" in out
    assert out.count("\n\n") <= 2 and "update" not in out  # progress goes to stderr
    for part in ("steps: 3", "device cpu", "1 thread", "parameters", "run folder", "heed look"):
        assert part in err
    made = {path.name for path in folder.iterdir() if not path.name.startswith(".")}
    assert made == {
        *("README.md", "checkpoints", "checksums.json", "config.yaml", "curves.svg", "format.json", "metrics.jsonl"),
        *("model.safetensors", "report.json", "tokenizer.source.json", "tokenizer.target.json"),
    }
    assert re.search(r"\btest\W+25\b", (folder / "README.md").read_text())


def test_train_prints_the_settings_that_differ_from_the_defaults_and_all_with_verbose(call, config):
    given = [*("--seed", 5), "model.d_hidden=8", "training.steps=1"]
    err = call("train", config, *given)[2]
    shown = err.partition("run folder")[0]
    assert yaml.safe_load(shown) == {
        "task": "translation",
        "data": SETTINGS["data"],
        "tokenizer": {"kind": "char"},
        "model": {"size": "tiny", "d_embedding": 16, "d_hidden": 8, "d_attention": 16},  # not what tiny means
        "training": {"steps": 1, "seed": 5, "threads": 1, "device": "cpu", "batch_tokens": 200},
        "evaluation": {"select_by": "exact_match", "bootstrap": 20},
        "generation": {"max_length": 9},
    }
    assert "--verbose" in shown
    effective = yaml.safe_load(Path("runs/copy-bahdanau-1/config.yaml").read_text())
    Path("shown.yaml").write_text(shown)
    assert call("train", "shown.yaml")[0] == 0  # what is printed trains the same run
    assert yaml.safe_load(Path("runs/copy-bahdanau-2/config.yaml").read_text()) == effective
    assert heed.load().folder == Path("runs/copy-bahdanau-2") and call("predict", "last", "12")[0] == 0
    err = call("train", config, *given, "--verbose")[2]
    assert yaml.safe_load(err.partition("run folder")[0]) == effective
    out = call("train", config, *given, "--dry-run")[1]
    assert out.startswith(shown.rstrip())
    out = call("train", config, *given, "--dry-run", "--verbose")[1]
    assert yaml.safe_load(out.partition("\n\n")[0]) == effective


@pytest.mark.parametrize("more", [[], ["--verbose"], ["--dry-run"]], ids=" ".join)
def test_errors_about_data_come_before_the_settings(call, config, run, more):
    Path("a.en").write_text("one\ntwo\n")
    Path("a.de").write_text("eins\n")
    for words in (
        ["translation", "a.en", "none.de"],
        ["translation", "a.en", "a.de"],
        [config, "model.from=none"],
        [config, "--device", "cuda:77"],
    ):
        code, out, err = call("train", *words, *more)
        assert (code, out, err.count("\n")) == (2, "", 1) and err.startswith("heed: "), err
    if more != ["--dry-run"]:
        err = call("train", config, *more, "--out", run.folder)[2]
        instead = "give another --out, or resume the run with --resume"
        assert err == f"heed: '{run.folder}' already exists, and runs are never overwritten; {instead}\n"


def test_ctrl_c_saves_and_says_how_to_go_on(config, tmp_path, call):
    words = [sys.executable, "-m", "heed", "train", config, "training.steps=100000", "training.validate_every=100000"]
    process = subprocess.Popen(list(map(str, words)), cwd=tmp_path, stderr=subprocess.PIPE, stdout=subprocess.PIPE)
    metrics = tmp_path / "runs" / "copy-bahdanau-1" / "metrics.jsonl"
    deadline = time.monotonic() + 60
    while not (metrics.exists() and metrics.read_text().count("\n") > 3) and time.monotonic() < deadline:
        time.sleep(0.1)
    process.send_signal(signal.SIGINT)
    out, err = (text.decode() for text in process.communicate(timeout=60))
    assert process.returncode == 130
    assert "Traceback" not in err and out == ""
    go_on = re.search(r"interrupted at update (\d+); saved. Resume with: heed (train \S+ --resume)$", err.strip())
    assert go_on, err
    done = int(go_on[1])
    code, out, err = call("predict", "last", "1")
    assert code == 0 and out.count("\n") == 1
    assert f"training has not finished (saved up to update {done:,} of 100,000)" in err
    assert "if it was interrupted, resume it with: heed train runs/copy-bahdanau-1 --resume\n" in err
    code, out, err = call(*go_on[2].split(), f"training.steps={done + 2}")
    assert code == 0 and f"resumed at update {done}" in err
    updates = [json.loads(line) for line in metrics.read_text().splitlines()]
    assert [line["step"] for line in updates if line["event"] == "update"] == list(range(1, done + 3))


def test_an_interrupt_outside_training_is_no_traceback(call, monkeypatch, run):
    def interrupted(*_):
        raise KeyboardInterrupt

    monkeypatch.setattr("heed.cli.evaluate.open_together", interrupted)
    code, out, err = call("evaluate", run.folder)
    assert code != 0 and "Traceback" not in err and out == ""


# --- predict


@pytest.mark.parametrize(("source", "end"), [("file", "\n"), ("stdin", "")], ids=["file, ended", "stdin, unended"])
def test_line_in_is_line_out(call, run, tmp_path, source, end):
    lines = ["12", "", "345", "  ", "", "6", ""]
    text = "\n".join(lines) + ("\n" if end else "x")
    expected = lines if end else [*lines[:-1], "x"]
    (tmp_path / "in.txt").write_text(text)
    given = ["--input", "in.txt"] if source == "file" else []
    code, out, _ = call("predict", run.folder, *given, stdin=text)
    assert code == 0
    assert out.split("\n")[:-1] == [run.predict(line).text for line in expected]
    assert out.split("\n")[1] == out.split("\n")[3] == ""


def test_nothing_in_is_nothing_out(call, run):
    assert call("predict", run.folder, stdin="") == (0, "", WORSE)


def test_nbest_gives_candidates_best_first(call, run):
    code, out, _ = call("predict", run.folder, "123", "45", "--nbest", 3)
    assert code == 0
    rows = [line.split("\t") for line in out.splitlines()]
    assert len(rows) == 6
    for candidates in (rows[:3], rows[3:]):
        scores = [float(score) for score, _ in candidates]
        assert scores == sorted(scores, reverse=True)
        assert len({text for _, text in candidates}) == 3


def test_json_is_one_object_a_line(call, run):
    code, out, _ = call("predict", run.folder, "123", "", "--json")
    assert code == 0
    first, blank = (json.loads(line) for line in out.splitlines())
    best = run.predict("123")
    assert first["source"] == "123" and first["text"] == best.text
    assert first["score"] == pytest.approx(best.score, abs=1e-5)
    assert first["tokens"] == list(best.tokens)
    assert len(first["token_probs"]) == len(first["tokens"])
    assert all(0 <= p <= 1 for p in first["token_probs"])
    assert (blank["source"], blank["text"]) == ("", "")


def test_an_output_that_was_cut_is_said(call, run):
    assert not run.predict("123", max_length=1).finished
    code, out, err = call("predict", run.folder, "123", "45", "--length", 1)
    assert code == 0 and out.count("\n") == 2
    assert err == f"{WORSE}heed: 2 outputs were cut after 1 token; --length N allows more\n"
    cut = sum(not run.predict(text).finished for text in ("123", "45"))
    err = call("predict", run.folder, "123", "45")[2]
    assert ("cut after 9 tokens" in err) == (cut > 0)


def test_unknown_characters_are_counted_on_stderr(call, run):
    code, out, err = call("predict", run.folder, "1a2", "ab")
    assert code == 0 and out.count("\n") == 2
    assert err.splitlines()[-1] == "heed: 3 characters were never seen in training: 'a' (2), 'b' (1)"


def test_a_closed_pipe_is_no_traceback(run):
    process = subprocess.Popen(
        [sys.executable, "-m", "heed", "predict", str(run.folder)],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
    )
    process.stdout.close()
    process.stdin.write(b"12\n" * 5_000)
    process.stdin.close()
    assert process.wait(timeout=60) in (0, 1)
    assert process.stderr.read() == b""
    process.stderr.close()


# --- evaluate


def test_evaluating_the_validation_set_says_what_it_was_used_for(call, run):
    code, out, _ = call("evaluate", run.folder, "--split", "valid")
    assert code == 0 and "valid: 20 pairs" in out and "selected" in out
    assert "note" in json.loads(call("evaluate", run.folder, "--split", "valid", "--json")[1])["valid"]


# --- look


def test_look_draws_in_the_terminal(call, run):
    code, out, err = call("look", run.folder, "314")
    assert (code, err) == (0, "")
    assert "rows: target characters, columns: source characters" in out
    assert "generated by the model" in out
    assert "\x1b" not in out  # a pipe gets plain text


@pytest.mark.parametrize(
    ("name", "start"), [("a.html", "<!doctype html"), ("a.svg", "<"), ("a.json", "{"), ("a.txt", "")]
)
def test_the_name_of_the_file_says_how_to_draw(call, run, tmp_path, name, start):
    code, out, err = call("look", run.folder, "314", "--out", name)
    assert (code, out) == (0, "")
    assert err == f"wrote {name}\n"
    written = (tmp_path / name).read_text()
    assert written.lstrip().lower().startswith(start) and "3" in written
    same = {"a.html": "html", "a.svg": "svg", "a.json": "json", "a.txt": "text"}[name]
    if same != "text":
        assert call("look", run.folder, "314", "--as", same)[1] == written


def test_what_as_says_counts_more_than_the_name_of_the_file(call, run, tmp_path):
    drawn = {form: call("look", run.folder, "314", "--as", form)[1] for form in ("text", "json", "svg")}
    for form, name in [("text", "a.html"), ("text", "a"), ("json", "a.svg"), ("svg", "a.txt")]:
        assert call("look", run.folder, "314", "--as", form, "--out", name) == (0, "", f"wrote {name}\n")
        assert (tmp_path / name).read_text().strip() == drawn[form].strip()
    assert call("lesson", "lion", "--as", "text", "--out", "lion.html")[0] == 0
    assert "<html" not in (tmp_path / "lion.html").read_text()


# --- errors: exit code 2, one line that says what is wrong, no traceback


def assert_one_line(result, message, code=2):
    ended, out, err = result
    assert ended == code, err
    assert out == ""
    assert "Traceback" not in err
    last = err.splitlines()[-1]
    assert last.startswith("heed: ") and re.search(message, last), err
    return err


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["training.learning_rat=1"], r"unknown field 'training.learning_rat'; did you mean 'learning_rate'"),
        (["training.steps=zero"], "training.steps is 'zero'"),
        (["steps"], "'steps' is not section.key=value, and '.*' names its own files"),
        (["--size", "huge"], "model.size is 'huge'"),
        (["--model", "bahdanou"], "unknown model 'bahdanou'; did you mean 'bahdanau'"),
        (["--model", "attention_lm"], r"does not fit this task; these do: .*bahdanau"),
        (["--model", "../x"], "unknown model '../x'"),
        (["model.d_hiden=3"], "unknown field 'model.d_hiden' .*did you mean 'd_hidden'"),
        (["data.length=[3, 2]"], r"length is \(3, 2\)"),
        (["data.name=paste"], "data.name is 'paste'"),
        (["--device", "cuda:77"], "training.device is 'cuda:77'"),
        (["--resume"], "--resume needs the folder of the run to resume"),
    ],
    ids=" ".join,
)
def test_train_refuses_in_one_line(call, config, words, message):
    assert_one_line(call("train", config, *words), message)
    assert not os.path.exists("runs")


def test_train_refuses_files_and_folders_in_one_line(call, config, run, tmp_path):
    assert len(assert_one_line(call("train", "nowhere.yaml"), "no file 'nowhere.yaml'").splitlines()) == 1
    (tmp_path / "bad.yaml").write_text("data: [\n")
    assert_one_line(call("train", "bad.yaml"), r"'bad.yaml' line \d is not YAML")
    assert_one_line(call("train", run.folder), "is a run folder; to resume the run: heed train ")
    assert_one_line(call("train", config, "--out", run.folder), "already exists, and runs are never overwritten")
    assert_one_line(call("train", config, "--out", tmp_path / "bad.yaml"), "already exists, and runs are never over")
    assert_one_line(call("train", config, "--out", tmp_path / "bad.yaml" / "x"), "it, or one of its parents, is a file")
    assert_one_line(call("train", "last", "--resume"), "no run under")


def test_training_that_diverges_stops_in_one_line_and_another_code(call, config):
    words = ["training.learning_rate=1e38", "training.optimizer=sgd", "training.clip=null", "training.warmup=0"]
    words += ["training.schedule=constant", "training.steps=20"]
    assert_one_line(call("train", config, *words), r"at update \d+ .*lower training.learning_rate \(now 1e\+38\)", 3)


@pytest.mark.parametrize("command", ["predict", "look", "evaluate"])
def test_a_run_that_is_none_is_refused_in_one_line(call, run, tmp_path, command):
    text = [] if command == "evaluate" else ["123"]
    (tmp_path / "folder").mkdir()
    damaged = tmp_path / "damaged"
    subprocess.run(["cp", "-r", run.folder, damaged], check=True)
    (damaged / "model.safetensors").write_bytes(b"\x00" * 100)
    for name, message in [
        ("nowhere", "no run folder 'nowhere'"),
        ("damagd", "no run folder 'damagd'; did you mean 'damaged'"),
        ("lst", "no run folder 'lst'; did you mean 'last'"),
        ("folder", "'folder' is not a run folder"),
        ("last", r"no run under .*runs; train one"),
        ("damaged", "damaged/model.safetensors is altered: it has 100 bytes, but .* were written.*--force"),
    ]:
        err = assert_one_line(call(command, name, *text), message)
        assert len(err.splitlines()) == 1


def test_predict_refuses_in_one_line(call, run, tmp_path):
    folder = run.folder
    (tmp_path / "in.txt").write_text("12\n")
    for words, message in [
        (["12", "--input", "in.txt"], "either texts or --input"),
        (["12", "--nbest", "3", "--beam", "2"], "--nbest 3 needs a --beam of at least 3, not 2"),
        (["--input", "none.txt"], "no file 'none.txt'"),
    ]:
        assert_one_line(call("predict", folder, *words), message)


def test_look_and_evaluate_refuse_in_one_line(call, run):
    assert_one_line(call("look", run.folder, "  "), "the text is blank")
    said = r"cannot tell the format of 'a.gif' from its ending; end it in \.html"
    assert_one_line(call("look", run.folder, "1", "--out", "a.gif"), said)
    for words in (["--as", "svg"], ["--as", "text"], ["--out", "a.txt"]):
        assert_one_line(call("look", run.folder, "1", *words, "--open"), "--open shows an HTML page, not (svg|text)")
    assert_one_line(call("evaluate", run.folder, "--split", "tests"), "no split 'tests'; did you mean 'test'")


def test_a_wrong_option_is_a_usage_error(call):
    for words in (["trane"], ["look", "x", "--as"], ["train"], ["train", "x", "--minutes"]):
        code, out, err = call(*words)
        assert code == 2 and out == "" and err.startswith("heed: ") and err.count("\n") == 1


def test_an_option_with_a_wrong_value_names_it_and_what_is_expected(call):
    for words, said in (  # in the words of typer
        (["train", "x", "--minutes", "ten"], "'--minutes': .*number.*'ten' was given"),
        (["train", "x", "--seed=1.5"], "'--seed': .*integer"),
        (["demo", "--minutes", "0"], "'--minutes': .*0.1"),
        (["predict", "x", "--nbest", "0"], "'--nbest': .*1"),
        (["export", "x", "--to", "onnx"], "'--to': .*'ctranslate2', 'huggingface'"),
        (["export", "x"], "'--to'.*ctranslate2, huggingface"),
        (["look", "x", "y", "--as", "gif"], "'--as': .*'text', 'html', 'svg', 'json'"),
        (["predict", "x", "--sort", "length"], "'--sort': .*uncertainty"),
    ):
        assert_one_line(call(*words), said)


# --- Python


def test_the_public_names():
    verbs = "attend check_run compare edit ensemble export import_model load pack run_lesson trace train"
    assert heed.__all__ == [
        *"Block Force HeedError Keep Permute Run Scale SetWeight Uniform ZeroHead".split(),
        *verbs.split(),
    ]
    for name in heed.__all__:
        assert getattr(heed, name).__name__ == name
        assert name in dir(heed)
    with pytest.raises(AttributeError, match="no attribute 'trane'"):
        heed.trane  # noqa: B018


def test_training_from_python(tmp_path, capfd):
    trained = heed.train(
        "translation",
        data="reverse",
        model="bahdanau",
        size="tiny",
        steps=2,
        seed=4,
        out=tmp_path / "run",
        quiet=True,
        settings={"data.train": 60, "data.valid": 5, "data.test": 5, "training.device": "cpu", "model.d_hidden": 8},
    )
    assert capfd.readouterr() == ("", "")
    assert trained.config.data.name == "reverse"
    assert (trained.config.training.steps, trained.config.training.seed) == (2, 4)
    assert trained.config.model.model_extra["d_hidden"] == 8
    assert str(trained.folder) in repr(trained) and "bahdanau on reverse" in repr(trained)
    assert heed.load(tmp_path / "run").predict("12").text == trained.predict("12").text


def test_mistakes_in_python_are_ours_to_explain():
    with pytest.raises(ConfigError, match=r"heed.train: unknown field 'training.step'; did you mean 'steps'"):
        heed.train("translation", data="copy", settings={"training.step": 3})
    with pytest.raises(ConfigError, match="field 'data' is missing"):
        heed.train("translation")
    for problem in (ConfigError, RunError):
        assert issubclass(problem, heed.HeedError) and issubclass(problem, ValueError)


def test_looking_from_python(run, tmp_path):
    shown = run.look("314", target="314")
    (map,) = shown.maps
    assert (map.mechanism, map.query.labels, map.key.labels) == ("cross", ("3", "1", "4", "end"), ("3", "1", "4"))
    assert torch.allclose(map.weights.sum(-1), torch.ones(4))
    assert shown.target == "314" and str(shown) == shown.text()
    assert shown._repr_html_().startswith("<style>") and "<iframe" in shown._repr_html_()
    for name in ("a.html", "a.svg", "a.png", "a.json", "a.txt"):
        shown.save(tmp_path / name)
        assert (tmp_path / name).stat().st_size > 100
    with pytest.raises(ConfigError, match=r"ends in '.gif'; valid: .html, .svg, .png, .pdf, .json, .txt"):
        shown.save(tmp_path / "a.gif")


@pytest.mark.parametrize(
    "words",
    [("predict", "12"), ("evaluate",), ("look", "12"), ("heads",), ("align", "a.txt", "b.txt"), ("serve",)],
    ids=lambda words: words[0],
)
def test_a_command_names_the_devices_that_are_there(call, run, words):
    name, *rest = words
    code, out, err = call(name, run.folder, *rest, "--device", "cuda:7")
    assert code == 2 and not out and "device is 'cuda:7', but this machine has only cpu (1)" in err
    code, out, err = call(name, run.folder, *rest, "--device", "gpu")
    assert code == 2 and not out and "device is 'gpu'; valid: auto, cpu, cuda, cuda:N, mps" in err


def test_the_cpu_can_be_asked_for(call, run):
    assert call("predict", run.folder, "12", "--device", "cpu") == call("predict", run.folder, "12")
