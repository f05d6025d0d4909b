"""README and docs/*.md: the first example of a page that needs no files of the user runs, and prints what it shows.

Printed texts are compared in kind: numbers may differ, labels and words may not. Trainings that take minutes as they
stand run for a few updates here, and as they stand with `make slow`.
"""

import ast
import importlib
import io
import re
import shlex
import shutil
from pathlib import Path

import pytest

import heed
import pages
from commands import call, failing
from pages import ROOT

PAGES = {path.stem: path.read_text(encoding="utf-8") for path in [ROOT / "README.md", *(ROOT / "docs").glob("*.md")]}
SMALL = ["training.steps=2", "training.threads=1", "training.device=cpu", "evaluation.bootstrap=2", "model.size=tiny"]
SIZES = {"train": 40, "valid": 6, "test": 60}
OTHERS = {  # pages without such an example, and what tries their commands instead
    "numbers": "tests/test_numbers.py",
    "text": "tests/test_page_commands.py",
    "tasks": "tests/test_page_commands.py",
    "looking": "tests/test_page_commands.py",
    "low-resource": "tests/test_page_commands.py",
    "systems": "tests/test_systems.py",
    "export": "tests/test_export.py",
    "huggingface": "tests/test_checkpoints_bert.py",
    "scaling": "tests/test_processes.py",
    "install": "tests/test_docs.py",
    "lineage": "tests/test_examples.py",
    "configuration": "tests/test_docs.py",
    "api": "tests/test_docs.py",
    "serving": "tests/test_serve.py",
    "claims": "tests/test_lecture_claims.py",
    **dict.fromkeys(("architecture", "benchmarks", "glossary", "reliability"), ""),  # no examples
}
QUICK = {"language-models", "images", "lessons", "python"}
"""Pages whose first example takes seconds as it stands."""
MINUTES = {"alignment", "dialogue", "summarisation", "pretraining", "data", "compare"}
DEMO = {"README", "first-steps"}
WRITTEN = tuple(f"{path.stem}/" for path in (ROOT / "examples" / "data").glob("*.py"))
"""Folders of the files that the scripts of examples/data write, as the pages name them."""


def in_kind(text):
    """A printed line with its numbers and ranges of numbers replaced, in single spaces."""
    return re.sub(r"(?<![\w.])[-+]?\d[\d,]*(?:\.\d+)?(?:-\d+)?", "N", " ".join(text.split()))


def blocks(page, kind):
    """The blocks of a page with the text after each."""
    found = re.finditer(r"^```(\w*)\n(.*?)^```\n", PAGES[page], flags=re.MULTILINE | re.DOTALL)
    return [(one[2].replace("\\\n", " "), PAGES[page][one.end() :]) for one in found if one[1] == kind]


def needs_no_files(words):
    """True for a command that needs no files, or only those that a script of examples/data wrote before it."""
    return (words[1] == "lesson" and not words[2:3] == ["my.yaml"]) or any(
        word.startswith(("data.name=", *WRITTEN)) for word in words
    )


def example(page):
    """Commands of the first block that has one without files: that, those that use its run; and the output shown."""
    found = []
    for block, after in blocks(page, "sh"):
        lines = [words for line in block.splitlines() if (words := _words(line))]
        shown = re.match(r"\n```\n(.*?)^```", after, flags=re.MULTILINE | re.DOTALL)
        if any(map(needs_no_files, lines)):
            found.append((lines, "" if shown is None else shown[1]))
    lines, shown = next((one for one in found if one[1] and page == "compare"), found[0])
    scripts = [words for words in lines if words[0] == "python"]
    alone = [words for words in lines if needs_no_files(words) and "--out" not in words]
    uses = [words for words in lines if words[2:3] == ["last"] and not any(re.search(r"\S[.]\w+$", w) for w in words)]
    if page != "lessons":
        alone = [next((words for words in alone if words[1] == "train" and uses), alone[0])]
    return [*scripts, *alone, *uses], shown


def _words(line):
    words = shlex.split(line, comments=True)
    script = words[:1] == ["python"] and words[1].startswith("examples/data/")
    return words if (words[:1] == ["heed"] and len(words) > 1) or script else None


def printed(words):
    if words[0] == "python":
        importlib.import_module(Path(words[1]).stem).main(words[2:])
        return "files"
    return pages.printed(words[1:])


@pytest.fixture
def here(tmp_path, monkeypatch, compared_here):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr("sys.stdin", io.TextIOWrapper(io.BytesIO(b"I need a room.\n")))
    return tmp_path


def run(page, small):
    """The output of each command of the first example, with small budgets if `small`."""
    lines, shown = example(page)
    outputs = {}
    for words in lines:
        if small and words[0] == "python":
            words = [*words, *(f"--{split}={count}" for split, count in SIZES.items())]
        elif small and words[1] in ("train", "compare"):
            embedded = any(word.startswith("data.name=") for word in words)
            budget = words.index("--minutes") if "--minutes" in words else len(words)
            words = [*words[:budget], *words[budget + 2 :], *SMALL]
            words += [f"data.{split}={count}" for split, count in SIZES.items() if embedded]
            words += [] if page == "pretraining" else ["generation.max_length=20"]
        outputs[shlex.join(words)] = printed(words)
    return outputs, shown


def test_every_page_has_an_example_that_is_tried():
    assert {*PAGES} == QUICK | MINUTES | DEMO | {*OTHERS} | {"training"}
    assert all((ROOT / path).exists() for path in OTHERS.values())
    for name in PAGES.keys() - QUICK - MINUTES - {"systems", "scaling"}:  # those have their own tests
        commands = [_words(line) for block, _ in blocks(name, "sh") for line in block.splitlines()]
        assert not [words for words in commands if words and needs_no_files(words)], name


@pytest.mark.parametrize("page", sorted(QUICK - {"python"}))
def test_a_quick_example_runs_as_it_stands(page, here):
    outputs, _ = run(page, small=False)
    assert outputs and all(outputs.values())


def check_minutes(page, small):
    outputs, shown = run(page, small)
    assert all(outputs.values())
    every = [in_kind(line) for text in outputs.values() for line in text.splitlines()]
    if page == "compare":
        rows = ("bahdanau", "seq2seq", "transformer")
        titles = [in_kind(line) for line in shown.splitlines() if line and not line.startswith(rows)]
        assert len(titles) == 8  # where another row is the best, there is a table of differences from the first, too
        assert [*dict.fromkeys(line for line in every if line in titles)] == [*dict.fromkeys(titles)]
    elif page == "dialogue":
        (text,) = re.findall(r"^```\n(response .*?)^```", PAGES[page], flags=re.MULTILINE | re.DOTALL)
        title = text.splitlines()[1]
        assert title in every and re.match(r"N (█* )?N (guest|host) ", every[every.index(title) + 2])


@pytest.mark.parametrize("page", sorted(MINUTES))
def test_an_example_of_minutes_runs_with_few_updates(page, here):
    check_minutes(page, small=True)


@pytest.mark.slow
@pytest.mark.parametrize("page", sorted(MINUTES))
def test_an_example_of_minutes_runs_as_it_stands(page, here):
    check_minutes(page, small=False)


@pytest.mark.slow
def test_the_demo_reads_dates_as_the_first_pages_show(here):
    (first,) = [block for block, _ in blocks("first-steps", "sh") if block.startswith("heed demo")]
    printed(_words(first))
    (shown,) = re.findall(r"^```\n\$ (heed look .*?)^```", PAGES["README"], flags=re.MULTILINE | re.DOTALL)
    command, *rows = [line for line in shown.splitlines() if line.strip()]
    looked = printed(_words(command)).splitlines()
    assert rows[0] in looked
    of_model = looked[looked.index(rows[0]) + 1 :][: len(rows) - 1]
    assert [row.split()[0] for row in of_model] == [row.split()[0] for row in rows[1:]]  # the date that it writes
    for row, expected in zip(of_model, rows[1:], strict=True):
        if float(expected.split()[-2]) >= 0.98:
            assert row.split()[-1] == expected.split()[-1]
    commands = [_words(line) for line in blocks("first-steps", "sh")[1][0].splitlines()]
    assert [words[1] for words in commands] == ["predict", "look", "look", "look", "evaluate"]
    assert printed(commands[0]) == "2024-03-03\n"
    for words in commands[1:]:
        printed(words)


@pytest.mark.parametrize("budget", [{"steps": 150}, pytest.param({"minutes": 1}, marks=pytest.mark.slow)], ids=str)
def test_the_first_example_in_python_says_what_its_page_says(budget, here, monkeypatch):
    train, (block, _) = heed.train, blocks("python", "python")[0]
    monkeypatch.setattr(heed, "train", lambda task, minutes, **data: train(task, **budget, **data), raising=False)
    names = {}
    lines, compared = block.splitlines(), 0
    for statement in ast.parse(block).body:
        code, comment = ast.unparse(statement), lines[statement.end_lineno - 1].partition("  # ")[2]
        if not isinstance(statement, ast.Expr):
            exec(code, names)
            continue
        value = eval(code, names)
        if comment.startswith("<"):
            assert in_kind(repr(value)) == in_kind(comment)
            compared += 1
        elif hasattr(value, "columns"):
            assert ", ".join(value.columns) == comment
            compared += 1
        assert repr(value)
    assert compared == 2


def test_the_messages_of_the_page_on_training_are_printed(here, made_run, capsys):
    """Its commands need a run: here an unfinished one, and one with an altered file."""
    unfinished, altered = [in_kind(text) for text, _ in blocks("training", "") if text.startswith("heed: ")]
    run = Path("runs/mine-bahdanau-1")
    shutil.copytree(made_run("translation-files") / "unfinished", run)
    code, _, said = call(capsys, "predict", run, "one")
    assert code == 0 and unfinished in map(in_kind, said.splitlines())
    shutil.rmtree(run)
    shutil.copytree(made_run("classification") / "finished", run)
    (run / "labels.json").write_bytes((run / "labels.json").read_bytes()[::-1])
    assert in_kind(failing(capsys, "predict", run, "one")) == altered
