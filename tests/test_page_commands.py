"""Commands and first examples of the documentation run, on small files and with the smallest budgets.

Printed texts are compared in kind: numbers may differ, labels and words may not. Trainings that take minutes as they
stand run for a few updates here, and as they stand with `make slow`.
"""

import ast
import gzip
import importlib
import io
import re
import runpy
import shlex
import shutil
from pathlib import Path

import pytest

import heed
import pages
from commands import call, failing
from pages import ROOT, blocks, follow, lines_of, page, prose

TUTORIALS = {path.stem: path.read_text(encoding="utf-8") for path in sorted((ROOT / "docs" / "tutorials").glob("*.md"))}
SHORTER = [  # the files that the pages make, made smaller
    (r"range\(\d{3,}\)", "range(40)"),
    (r"topics\.items\(\)", "list(topics.items())[:12]"),
    (r'\("test\.tsv", 100\)', '("test.tsv", 6)'),
]
NOUNS = ["cat", "dog", "house", "book", "friend", "apple"]
LANGUAGES = {"big": ("en", "fr")}
POEM = "Roses are red,\nviolets are blue\n\nsugar is sweet\n"
PARTS = {
    "first steps": ("first-steps", "", None),
    "few pairs": ("low-resource", "", None),
    "data": ("data", "", 1),
    "malformed data": ("data", "## Malformed data", 1),
    "large corpora": ("data", "## Large corpora", 1),
    "texts": ("data", "## Texts for language models", 1),
    "language models": ("language-models", "", 2),
}
"""Pages, the heading from which their blocks of commands are run, and how many of them."""


@pytest.fixture
def here(tmp_path, monkeypatch, compared_here):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr("sys.stdin", io.TextIOWrapper(io.BytesIO()))
    return tmp_path


@pytest.mark.parametrize("name", TUTORIALS)
def test_every_command_of_a_tutorial_runs(name, here):
    scripts = {block.split()[1]: block for text in TUTORIALS.values() for block in blocks(text, "python")}
    lines = lines_of(TUTORIALS[name])
    assert any(line.startswith("heed look ") for line in lines), "a tutorial ends in a look"
    for line in lines:
        if not line.startswith("python "):
            follow(line)
            continue
        source = scripts[line.split()[1]]
        for long, short in SHORTER:
            source = re.sub(long, short, source)
        Path("script.py").write_text(source, encoding="utf-8")
        runpy.run_path("script.py")


@pytest.mark.parametrize("name", TUTORIALS)
def test_a_tutorial_is_short_and_says_where_to_go_next(name):
    text = prose(TUTORIALS[name])
    assert len(text.split()) <= 180
    assert "\nNext: [" in text


def sentences(name, count, language):
    return [f"{name} {language} {NOUNS[n % 6]} {NOUNS[n // 6 % 6]} {n}" for n in range(count)]


def write_files(folder):
    """The files that the pages name."""
    files = {"my.yaml": blocks(page("docs/first-steps.md"), "yaml")[0].splitlines()}
    for name, count in {"my": 60, "dev": 8, "test": 5, "bible": 30, "big": 60, "law": 30}.items():
        for language in LANGUAGES.get(name, ("en", "yo")):
            files[f"{name}.{language}"] = sentences(name, count, language)
    files["new.en"] = sentences("new", 2, "en")
    files["mono.yo"] = [*sentences("mono", 20, "yo"), "", "  ", *sentences("mono", 5, "yo"), ""]
    labelled = enumerate(sentences("", 40, "en"))
    files["reviews.tsv"] = ["label\ttext", *(f"{'good' if n % 2 else 'bad'}\t{line}" for n, line in labelled)]
    files["reviews.jsonl"] = [f'{{"body": "a fine film, {n}"}}' for n in range(9)]
    files["novel.txt"] = files["book.txt"] = files["other.txt"] = ["It was a dark and stormy night."] * 40
    files["poems.txt"] = (POEM * 5).splitlines()
    files |= {f"my_texts/{n}.txt": [POEM, *[f"verse {n}"] * 9] for n in range(4)}
    for name, lines in files.items():
        (folder / name).parent.mkdir(exist_ok=True)
        (folder / name).write_text("".join(f"{line}\n" for line in lines), encoding="utf-8")
    articles = "\n<|endoftext|>\n".join(f"Article {n}.\n\nIts text." for n in range(9))
    (folder / "articles.txt.gz").write_bytes(gzip.compress(articles.encode()))


DOCUMENTS = {"my_texts/": 4, "novel.txt": 1, "reviews.jsonl": 9, "articles.txt.gz": 9, "poems.txt": 6}


@pytest.mark.parametrize("part", PARTS)
def test_the_commands_of_a_page_run_in_order(part, here, own_cache):
    write_files(here)
    name, start, count = PARTS[part]
    text = page(f"docs/{name}.md")
    ran, out = set(), ""
    for block in blocks(text[text.index(start) :])[:count]:
        for line in block.splitlines():
            command = line.split()[1]
            if command == "demo":  # the run that two minutes make, untrained
                follow("heed train translation data.name=dates")
            elif line.startswith("pip ") or command == "compare":  # its commands are tried in test_compare.py
                continue
            else:
                out += (shown := follow(line))
                documents = [count for file, count in DOCUMENTS.items() if command == "check" and file in line]
                assert not documents or f" of {documents[0]} documents kept" in shown
            ran.add(command)
    assert out and ran
    if part == "first steps":
        assert {"demo", "predict", "look", "evaluate", "check", "train", "align"} == ran
        assert "runs/dates-bahdanau-1" in text and Path("runs/dates-bahdanau-1/model.safetensors").exists()
        assert Path("look.html").exists() and len(Path("new.yo").read_text().splitlines()) == 2
        assert len(Path("my.links").read_text().splitlines()) == 60
    elif part == "few pairs":
        assert len(Path("bt.en").read_text(encoding="utf-8").split("\n")) == 29  # a line for each of mono.yo
    elif part == "large corpora":
        assert Path("cache/entries").is_dir()
    elif part == "language models":
        assert "bits per byte" in out and "every token is scored once" in out


# --- README and docs/*.md: the first example of a page that needs no files of the user runs, and prints what it shows


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
    "lineage": "tests/test_store.py",
    "configuration": "tests/test_docs.py",
    "api": "tests/test_docs.py",
    "serving": "tests/test_serve.py",
    "claims": "tests/test_claims.py",
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


def blocks_with_text(page, kind):
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
    for block, after in blocks_with_text(page, "sh"):
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
def answering(tmp_path, monkeypatch, compared_here):
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
        commands = [_words(line) for block, _ in blocks_with_text(name, "sh") for line in block.splitlines()]
        assert not [words for words in commands if words and needs_no_files(words)], name


@pytest.mark.parametrize("page", sorted(QUICK - {"python"}))
def test_a_quick_example_runs_as_it_stands(page, answering):
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
def test_an_example_of_minutes_runs_with_few_updates(page, answering):
    check_minutes(page, small=True)


@pytest.mark.slow
@pytest.mark.parametrize("page", sorted(MINUTES))
def test_an_example_of_minutes_runs_as_it_stands(page, answering):
    check_minutes(page, small=False)


@pytest.mark.slow
def test_the_demo_reads_dates_as_the_first_pages_show(answering):
    (first,) = [block for block, _ in blocks_with_text("first-steps", "sh") if block.startswith("heed demo")]
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
    commands = [_words(line) for line in blocks_with_text("first-steps", "sh")[1][0].splitlines()]
    assert [words[1] for words in commands] == ["predict", "look", "look", "look", "evaluate"]
    assert printed(commands[0]) == "2024-03-03\n"
    for words in commands[1:]:
        printed(words)


@pytest.mark.parametrize("budget", [{"steps": 150}, pytest.param({"minutes": 1}, marks=pytest.mark.slow)], ids=str)
def test_the_first_example_in_python_says_what_its_page_says(budget, answering, monkeypatch):
    train, (block, _) = heed.train, blocks_with_text("python", "python")[0]
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


def test_the_messages_of_the_page_on_training_are_printed(answering, made_run, capsys):
    """Its commands need a run: here an unfinished one, and one with an altered file."""
    unfinished, altered = [in_kind(text) for text, _ in blocks_with_text("training", "") if text.startswith("heed: ")]
    run = Path("runs/mine-bahdanau-1")
    shutil.copytree(made_run("translation-files") / "unfinished", run)
    code, _, said = call(capsys, "predict", run, "one")
    assert code == 0 and unfinished in map(in_kind, said.splitlines())
    shutil.rmtree(run)
    shutil.copytree(made_run("classification") / "finished", run)
    (run / "labels.json").write_bytes((run / "labels.json").read_bytes()[::-1])
    assert in_kind(failing(capsys, "predict", run, "one")) == altered
