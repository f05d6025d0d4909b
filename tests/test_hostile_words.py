"""Labels, tags, columns and names that a terminal, a spreadsheet, LaTeX or Markdown would obey: shown, never obeyed."""

import csv
import io
import json
import re
import subprocess
import sys

import pytest

from heed.cli import main
from heed.visible import lines

ESCAPES = "\x1b]0;owned\x07\x1b[2J"
POSITIVE, NEGATIVE = f"=cmd|'/c calc'!A1{ESCAPES}", "neg\u202e\u200b\x9b31m"
RUN = f"-$(touch owned) `x` <b>{ESCAPES}"
DATA = f"da'ta [1](http:x) {ESCAPES}.csv"
TINY = ("model.name=bag", "training.steps=4", "training.threads=1", "evaluation.bootstrap=20", "training.device=cpu")


class Terminal(io.StringIO):
    def isatty(self):
        return True


@pytest.fixture
def call(monkeypatch):
    """Run a command with stdout and stderr on a terminal, or in pipes; gives its exit code and what both hold."""

    def run(*words, terminal=True):
        out, err = (Terminal() if terminal else io.StringIO() for _ in range(2))
        monkeypatch.setattr(sys, "stdout", out)
        monkeypatch.setattr(sys, "stderr", err)
        with pytest.raises(SystemExit) as ended:
            main([str(word) for word in words])
        return ended.value.code or 0, out.getvalue(), err.getvalue()

    return run


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    path = tmp_path_factory.mktemp(f"hostile {ESCAPES}")
    with (path / DATA).open("w", newline="", encoding="utf-8") as file:
        writer = csv.writer(file)
        writer.writerow(["text", f"kind{ESCAPES}"])
        writer.writerows(
            ["it is " + ("good" if n % 2 else "bad") + f" {n}", (POSITIVE, NEGATIVE)[n % 2]] for n in range(40)
        )
    return path


@pytest.fixture
def here(folder, monkeypatch):
    monkeypatch.chdir(folder)
    monkeypatch.setenv("COLUMNS", "100")
    monkeypatch.setenv("NO_COLOR", "1")
    return folder


def train(call, here, name, *words, terminal=True):
    columns = ("data.columns.label=" + json.dumps(f"kind{ESCAPES}"), "data.columns.text=text")
    given = ("--valid", "8", "--test", DATA, "--out", f"./{name}", *TINY, *columns, *words)
    return call("train", "classification", DATA, *given, terminal=terminal)


@pytest.fixture
def runs(call, here):
    """Two runs; trained once."""
    for name, seed in ((RUN, 1), ("plain", 2)):
        if not (here / name).exists():
            code, out, err = train(call, here, name, f"training.seed={seed}", terminal=name == "plain")
            assert code == 0, err
            assert_shown(out + err)
    return [f"./{RUN}", "./plain"]


def assert_shown(text):
    """Nothing is obeyed, but for what rich writes to move its own line."""
    text = re.sub(r"\x1b\[(\?25[lh]|\d*A|2K|\d*[GJ])|\r", "", text)
    assert lines(text) == text, [part for part in text.splitlines() if lines(part) != part]


@pytest.mark.parametrize(
    "command",
    [
        ("check", DATA),
        ("check", 0),
        ("evaluate", 0, "--errors", "3"),
        ("evaluate", 0, "--json"),
        ("predict", 0, "it is good", "--json"),
        ("compare", 0, 1, "--resamples", "20"),
        ("compare", 0, 1, "--resamples", "20", "--json"),
        ("look", 0),
        ("train", 0, "--resume"),
        ("train", "classification", f"no{ESCAPES}.txt"),
        ("predict", f"no{ESCAPES}", "x"),
        (f"no{ESCAPES}",),
        ("predict", 0, "--input", f"no{ESCAPES}.txt"),
        ("train", "classification", DATA, f"data.columns.label=no{ESCAPES}"),
    ],
    ids=lambda command: f"{command[0][:9]}-{command[-1] if isinstance(command[-1], int) else command[-1][:10]}",
)
def test_no_command_prints_what_a_terminal_obeys(call, runs, here, command):
    words = [runs[word] if isinstance(word, int) else word for word in command]
    if words[:2] == ["check", DATA]:
        columns = ("data.columns.label=" + json.dumps(f"kind{ESCAPES}"), "data.columns.text=text")
        words = ["check", "classification", DATA, *columns]
    _, out, err = call(*words)
    assert "Traceback" not in err
    assert_shown(out + err)
    if words[0] in ("check", "compare", "look"):  # what a pipe gets is laid out otherwise
        assert_shown("".join(call(*words, terminal=False)[1:]))
    if "--json" in words:
        assert POSITIVE in json.dumps(json.loads(out), ensure_ascii=False).replace("\\u001b", "\x1b").replace(
            "\\u0007", "\x07"
        )


def test_labels_are_exact_in_a_pipe_and_shown_on_a_terminal(call, runs, here):
    (here / "in.txt").write_text("it is good\n" * 3)
    code, piped, _ = call("predict", runs[0], "--input", "in.txt", terminal=False)
    label = piped.split("\t")[0]
    assert code == 0 and label in (POSITIVE, NEGATIVE)
    code, shown, _ = call("predict", runs[0], "--input", "in.txt")
    assert shown == lines(piped) != piped


def pasted(text):
    """The words that a shell makes of the command in a message; its end is the end of the line or of the sentence."""
    command = re.search(r"heed train .*", text)[0]
    out = subprocess.run(["bash", "-c", f"printf '%s\\0' {command}"], capture_output=True, check=True).stdout
    return out.decode().split("\0")[:-1]


def test_commands_that_are_suggested_can_be_pasted(call, runs, here):
    _, _, err = call("train", runs[0], "--resume", terminal=False)
    assert pasted(err)[2:4] == [f"./{RUN}", "--resume"]
    (here / "two words.csv").write_text("text,label\n" + "a,b\nc,d\n" * 20)
    code, _, err = call("train", "two words.csv", terminal=False)
    assert code == 2 and pasted(err)[3] == "two words.csv"
    weights = here / RUN / "model.safetensors"
    weights.rename(here / "kept")
    code, _, err = call("predict", runs[0], "x", terminal=False)
    (here / "kept").rename(weights)
    assert code == 2 and pasted(err)[2:] == [f"./{RUN}", "--resume"]


def test_the_model_card_shows_names_and_commands_as_they_are(runs, here):
    card = (here / RUN / "README.md").read_text(encoding="utf-8")
    assert lines(card) == card
    title, rest = card.split("\n", 1)
    assert "[1](http" not in title and r"\[1\]\(http:x\)" in title
    assert "$'" in rest and "touch owned" in rest  # quoted as one word of a shell


def test_tables_for_spreadsheets_and_latex_hold_no_formula_and_no_command(call, runs, here, tmp_path):
    out = tmp_path / "compared"
    (here / "=cmd|x").mkdir(exist_ok=True)
    names = [f"=1+1{ESCAPES}", "\\input{x}[red]"]
    for name in names:
        if not (here / name).exists():
            (here / runs[1]).rename(here / name) if name == names[0] else (here / RUN).rename(here / name)
    try:
        code, text, err = call("compare", *names, "--out", out, "--resamples", "20")
    finally:
        (here / names[0]).rename(here / runs[1])
        (here / names[1]).rename(here / RUN)
    assert code == 0, err
    assert_shown(text + err)
    assert "[red]" in text  # no markup of rich either
    (first, second) = csv.DictReader(io.StringIO((out / "compare.csv").read_text(encoding="utf-8")))
    assert first["run"].startswith("'=1+1\\x1b]0;") and second["run"] == names[1]
    float(first["accuracy"])
    for name in ("compare.csv", "compare.tex", "compare.html", "compare.json"):
        written = (out / name).read_text(encoding="utf-8")
        assert lines(written) == written, name
    latex = (out / "compare.tex").read_text(encoding="utf-8")
    assert "\\input" not in latex and "\\textbackslash{}input\\{x\\}" in latex
