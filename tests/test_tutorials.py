"""docs/tutorials/: every command of every tutorial runs, in its order, on the files that the page makes."""

import contextlib
import io
import re
import runpy
import shlex
from pathlib import Path

import pytest

from heed.cli import main

ROOT = Path(__file__).parent.parent
PAGES = {path.stem: path.read_text(encoding="utf-8") for path in sorted((ROOT / "docs" / "tutorials").glob("*.md"))}
SMALL = ["training.steps=1", "training.threads=1", "training.device=cpu", "evaluation.bootstrap=2"]
BUDGETS = {"--minutes", "--epochs"}
SHORTER = [  # the files that the pages make, made smaller
    (r"range\(\d{3,}\)", "range(40)"),
    (r"topics\.items\(\)", "list(topics.items())[:12]"),
    (r'\("test\.tsv", 100\)', '("test.tsv", 6)'),
]


def blocks(text, kind):
    return re.findall(rf"^```{kind}\n(.*?)^```", text, flags=re.MULTILINE | re.DOTALL)


SCRIPTS = {re.match(r"# (\w+\.py)\n", block)[1]: block for text in PAGES.values() for block in blocks(text, "python")}


def small(words):
    """A command with the smallest budget: one update."""
    budget = next((n for n, word in enumerate(words) if word in BUDGETS), None)
    if words[0] == "compare" and "--models" in words:
        return [*words[:budget], *words[budget + 2 :], *SMALL, "--resamples", "2"]
    if words[0] != "train":
        return words
    size = [] if {"--size", "--from"} & {*words} else ["--size", "tiny"]
    size += [] if words[1] == "images" else ["training.batch_tokens=200"]
    return [*words[:budget], *words[budget + 2 :], *SMALL, *size]


def run(line):
    """Run one line of a page as a shell would; the file after > gets the output."""
    line, _, to = line.partition(" > ")
    words = shlex.split(line, comments=True)
    if words[0] == "python":
        source = SCRIPTS[words[1]]
        for long, short in SHORTER:
            source = re.sub(long, short, source)
        Path(words[1]).write_text(source, encoding="utf-8")
        runpy.run_path(words[1])
        return
    assert words[0] == "heed", line
    out, err = io.StringIO(), io.StringIO()
    with contextlib.redirect_stdout(out), contextlib.redirect_stderr(err), pytest.raises(SystemExit) as ended:
        main(small(words[1:]))
    assert not ended.value.code, f"{line}: {err.getvalue()}"
    if to:
        Path(shlex.split(to, comments=True)[0]).write_text(out.getvalue(), encoding="utf-8")


@pytest.mark.usefixtures("compared_here")
@pytest.mark.parametrize("name", PAGES)
def test_every_command_of_a_tutorial_runs(name, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr("sys.stdin", io.TextIOWrapper(io.BytesIO()))
    lines = [line for block in blocks(PAGES[name], "sh") for line in block.splitlines() if line]
    assert any(line.startswith("heed look ") for line in lines), "a tutorial ends in a look"
    for line in lines:
        run(line)


@pytest.mark.parametrize("name", PAGES)
def test_a_tutorial_is_short_and_says_where_to_go_next(name):
    prose = re.sub(r"^```.*?^```", "", PAGES[name], flags=re.MULTILINE | re.DOTALL)
    assert len(prose.split()) <= 180
    assert "\nNext: [" in prose
