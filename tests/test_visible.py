"""Text of users as it is shown: in drawings, in messages, in JSON and in commands to copy."""

import json
import subprocess
import sys
import unicodedata
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

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
