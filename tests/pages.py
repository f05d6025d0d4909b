"""Pages of the documentation: their text, their blocks of code, and their commands, run in this process."""

import contextlib
import io
import re
import shlex
from pathlib import Path

import pytest

from heed.cli import main

ROOT = Path(__file__).parent.parent
SMALL = ["training.steps=1", "training.threads=1", "training.device=cpu", "evaluation.bootstrap=2"]
FEW = ["data.train=40", "data.valid=5", "data.test=5"]


def page(name):
    """The text of a file of the project."""
    return (ROOT / name).read_text(encoding="utf-8")


def blocks(text, kind="sh"):
    """The blocks of code of a kind."""
    return re.findall(rf"^```{kind}\n(.*?)^```", text, flags=re.MULTILINE | re.DOTALL)


def prose(text):
    """A text without its blocks of code, in which brackets are no links and # is no heading."""
    return re.sub(r"^( *)```.*?^\1```", "", text, flags=re.MULTILINE | re.DOTALL)


def run_blocks(text, names=None):
    """Run the blocks of Python of a text one after the other; gives the names that they define."""
    names = {} if names is None else names
    for block in blocks(text, "python"):
        exec(compile(block, "page", "exec"), names)
    return names


def lines_of(text):
    """The lines of the blocks of commands."""
    return [line for block in blocks(text) for line in block.replace("\\\n", " ").splitlines() if line]


def printed(words):
    """The stdout of a command, without `heed`, that must succeed."""
    out, err = io.StringIO(), io.StringIO()
    with contextlib.redirect_stdout(out), contextlib.redirect_stderr(err), pytest.raises(SystemExit) as ended:
        main([*words])
    assert not ended.value.code, f"heed {shlex.join(words)}: {err.getvalue()}"
    return out.getvalue()


def small(words):
    """A command with the smallest budget: one update."""
    budget = next((n for n, word in enumerate(words) if word in ("--minutes", "--epochs")), None)
    without = words if budget is None else [*words[:budget], *words[budget + 2 :]]
    if words[0] == "compare" and "--models" in words:
        return [*without, *SMALL, "--resamples", "2"]
    if words[0] != "train":
        return words
    size = [] if {"--size", "--from"} & {*words} else ["--size", "tiny"]
    size += [] if words[1] == "images" else ["training.batch_tokens=200"]
    size += FEW if words[1].endswith(".yaml") or "data.name=dates" in words else []
    return [*without, *SMALL, *size]


def follow(line):
    """Run one line of a page as a shell would, with the smallest budget; the file after > gets the output."""
    line, _, to = line.partition(" > ")
    words = shlex.split(line, comments=True)
    assert words[0] == "heed", line
    out = printed(small(words[1:]))
    if to:
        Path(shlex.split(to, comments=True)[0]).write_text(out, encoding="utf-8")
    return out
