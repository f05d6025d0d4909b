"""Text of users as it is shown: in drawings, in messages, in JSON and in commands to copy."""

import csv
import io
import json
import re
import subprocess
import sys
import unicodedata
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from heed.cli import main
from heed.visible import clean, escaped, lines, shell_word, to_json, visible

ATTACKS = {
    "clears the screen": "\x1b[2J",
    "writes the title (OSC)": "\x1b]0;owned\x07",
    "CSI in one character (C1)": "\x9b2J",
    "OSC in one character (C1)": "\x9d0;owned\x9c",
    "goes back to the start of the line": "good\rbad",
    "rubs out": "bad\b\b\bgood",
    "override": "a\u202ecba",
    "isolate": "a\u2067b",
    "mark": "a\u200eb",
    "no width": "po\u200bs",
    "joiner between Latin letters": "po\u200ds",
    "byte order mark": "\ufeffpos",
    "word joiner": "po\u2060s",
    "soft hyphen": "po\u00ads",
    "filler": "po\u3164s",
    "tags": "pos\U000e0041",
    "interlinear annotation": "po\ufff9s",
    "line separator": "po\u2028s",
    "half a pair": "po\ud800s",
    "second selector": "po\u2764\ufe0f\ufe0f",
}
NEEDED = {
    "Persian": "\u0645\u06cc\u200c\u062e\u0648\u0627\u0647\u0645",
    "Hindi": "\u0915\u094d\u200d\u0937",
    "family": "\U0001f468\u200d\U0001f469\u200d\U0001f467",
    "red heart on fire": "\u2764\ufe0f\u200d\U0001f525",
    "skin": "\U0001f469\U0001f3fd\u200d\U0001f680",
    "marks that combine": "e\u0301 n\u0303",
    "Arabic": "\u0645\u0631\u062d\u0628\u0627",
}


@pytest.mark.parametrize("show", [clean, visible, escaped, lines], ids=lambda show: show.__name__)
@pytest.mark.parametrize("text", ATTACKS.values(), ids=ATTACKS)
def test_what_a_terminal_would_obey_or_hide_is_shown(show, text):
    shown = show(text)
    assert shown != text
    for character in shown:
        assert unicodedata.category(character) not in {"Cc", "Cs", "Zl", "Zp"}
        assert character not in "\u200b\u200d\u200e\u202e\u2060\u2067\u3164\ufeff\ufff9\u00ad\U000e0041"


@pytest.mark.parametrize("text", NEEDED.values(), ids=NEEDED)
def test_text_that_needs_joiners_and_marks_stays(text):
    assert clean(text) == escaped(text) == visible(text) == text


def test_a_message_says_which_character_it_was():
    assert escaped("\x1b[2J\u202epos\x9b") == r"\x1b[2J\u202epos\x9b"
    assert lines("one\n\ttwo\r") == "one\n\ttwo\\r"


def test_a_drawing_keeps_one_character_for_each():
    assert clean("a\n\x1b\u202e\u200bb") == "a\u240a\u241b\ufffd\ufffdb"


@given(st.text())
def test_shown_text_shows_the_same_again(text):
    assert clean(clean(text)) == clean(text) and len(clean(text)) == len(text)
    assert lines(lines(text)) == lines(text)


@given(st.text(st.characters(exclude_categories=())) | st.sampled_from(list(ATTACKS.values())))
def test_json_reads_back_equal_and_shows_everything(text):
    written = to_json({text: [text]}, indent=1)
    assert json.loads(written) == {text: [text]}
    assert lines(written) == written


def test_numbers_that_are_not_finite_are_null_in_json():
    assert json.loads(to_json({"p": [float("nan"), 0.5, float("-inf")]})) == {"p": [None, 0.5, None]}


@pytest.mark.skipif(sys.platform == "win32", reason="a POSIX shell")
@pytest.mark.parametrize(
    "name",
    ["plain", "two words", "it's", "$(touch x)", "a;b", "new\nline", "\x1b[2J", "a\\b\x01", "\u202eabc", "caf\u00e9"],
)
def test_a_command_can_be_pasted_and_means_the_same(name):
    word = shell_word(name)
    assert lines(word) == word and "\n" not in word
    out = subprocess.run(["bash", "-c", f"printf %s {word}"], capture_output=True, check=True).stdout
    assert out.decode() == name


def test_a_path_that_begins_with_a_dash_is_no_option():
    assert shell_word(Path("-x")) == "./-x" and shell_word(Path("runs/a")) == "runs/a" and shell_word("-x") == "-x"


# --- commands, on a terminal and in pipes


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
    names = [f"=1+1{ESCAPES}", "\\input{x}[red]\n\\input{y}\r\u2028\\input{z}^^M"]
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
    assert first["run"].startswith("'=1+1\\x1b]0;") and second["run"] == escaped(names[1])
    float(first["accuracy"])
    for name in ("compare.csv", "compare.tex", "compare.html", "compare.json"):
        written = (out / name).read_text(encoding="utf-8")
        assert lines(written) == written, name
    latex = (out / "compare.tex").read_text(encoding="utf-8")
    read = [line for line in latex.splitlines() if not line.startswith("%")]  # of a comment, TeX reads nothing
    assert not any("\\input" in line for line in read)
    assert sum(line.count("\\textbackslash{}input") for line in read) == 3
