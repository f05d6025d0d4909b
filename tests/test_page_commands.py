"""Commands of the documentation run in their order, on small files and with the smallest budgets."""

import gzip
import io
import re
import runpy
from pathlib import Path

import pytest

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
