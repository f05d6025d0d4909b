"""Messages use the terms of docs/glossary.md, and none that was retired in favour of one of them."""

import ast
import re
from pathlib import Path

import pytest

import heed

ROOT = Path(heed.__file__).parent
PROJECT = ROOT.parent.parent
GLOSSARY = (PROJECT / "docs" / "glossary.md").read_text(encoding="utf-8")
PAGES = [PROJECT / "README.md", PROJECT / "CONTRIBUTING.md", PROJECT / "benchmarks" / "NOTES.md"]
PAGES += sorted(path for path in (PROJECT / "docs").rglob("*.md") if path.name != "glossary.md")
RETIRED = {
    r"\bgo(es)? on\b": "resume, or continue",
    r"\bblanks\b|\ba blank\b(?!\s(line|text|one))": "space; blank is said of a text or line without visible characters",
    r"\bnets?\b": "network",
    r"\banew\b": "again",
    r"\bst(ands?|ood) there\b": "occurs, is given",
    r"\bothers than\b": "other than",
    r"\btold apart\b": "distinguished",
    r"\bbehind\b": "after",
    r"\bsurest\b": "most confident",
    r"\bfor want of\b": "because ... ran out",
    r"\bdev(elopment)? set\b": "validation set",
    r"\benerg(y|ies)\b": "score",
    r"\bgradient steps?\b": "update",
}
"""Patterns of terms that messages do not use, and what they say in their place."""


def messages():
    """Every string of the code but docstrings, lessons (which quote notes) and embedded data (sentences to learn)."""
    for path in sorted(ROOT.rglob("*.py")):
        if {"lessons", "embedded"} & set(path.parts):
            continue
        tree = ast.parse(path.read_text(encoding="utf-8"))
        docstrings = {
            id(node.value)
            for node in ast.walk(tree)
            if isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant)
        }
        for node in ast.walk(tree):
            if isinstance(node, ast.Constant) and isinstance(node.value, str) and id(node) not in docstrings:
                yield f"{path.relative_to(ROOT)}:{node.lineno}", node.value


def retired(text):
    return [f"{found[0]!r}: say {better}" for term, better in RETIRED.items() if (found := re.search(term, text, re.I))]


def test_messages_use_no_retired_term():
    read = list(messages())
    assert len(read) > 5_000 and any("resume it with: heed train" in text for _, text in read)
    found = [f"{place}: {wrong}" for place, text in read for wrong in retired(text)]
    assert not found, "\n".join(found)


@pytest.mark.parametrize("page", PAGES, ids=lambda path: path.name)
def test_pages_use_no_retired_term(page):
    text = re.sub(r"https?://\S+", "", page.read_text(encoding="utf-8"))
    assert not retired(text)


def test_a_retired_term_is_found_wherever_it_stands():
    assert retired("saved. The same command goes on") and retired("words separated by blanks") and retired("2 nets")
    assert not retired("the text is blank, a blank line; ongoing networks")


def test_the_glossary_has_one_line_for_each_term_and_uses_none_that_is_retired():
    entries = [line for line in GLOSSARY.splitlines() if line.startswith("- ")]
    terms = [re.match(r"- \*\*([^*]+)\*\*: \S.*\.", line) for line in entries]
    assert all(terms) and len(entries) > 40
    assert len({term[1] for term in terms}) == len(terms)
    assert not retired(re.sub(r"\([^)]*\)", "", GLOSSARY))  # in brackets: other words for the same
