"""Formulas of lessons: every one of heed's own becomes runs of text with sub- and superscripts, and nothing is lost."""

# ruff: noqa: RUF001  # signs of mathematics are what is tested

import re

import pytest

import heed
from heed.lessons.lesson import to_html, to_runs, with_runs
from heed.lessons.parts import _texts

WORKED = [stage.equation for name in ("lion", "animal") for stage in heed.lessons.run_lesson(name).stages]
ALL = sorted({
    *(line[2:].replace("{{", "{").replace("}}", "}") for text in _texts().values() if isinstance(text, str)
      for line in text.splitlines() if line.startswith("= ")),
    *filter(None, WORKED),
})  # fmt: skip
WRITTEN = {"α": "alpha", "β": "beta", "√": "sqrt", "∑": "sum", "∏": "product", "≤": "<=", "−": "-", "∂": "d",
           "…": "...", "×": "x", "·": ".", "\u2003": "  "}  # fmt: skip


def test_there_are_formulas_to_try():
    assert len(ALL) > 40 and "softmax(Q K' / sqrt(d_k)) V" in ALL


@pytest.mark.parametrize("formula", ALL)
def test_every_formula_is_set_whole(formula):
    runs = to_runs(formula)
    assert not any(re.search(r"[_^']|sqrt|sum|alpha|beta|  ", text) for text, _ in runs)
    back = "".join({0: "", -1: "_", 1: "" if text == "⊤" else "^"}[level] + text for text, level in runs)
    for sign, name in {**WRITTEN, "⊤": "'", "_CLS": "_[CLS]"}.items():
        back = back.replace(sign, name)
    formula = re.sub(r"\bsum over (\w) of ", r"sum_\1 ", formula)
    formula = re.sub(r"\b(sum|product) of ", r"\1 ", formula)
    assert back == re.sub(" {2,}", "  ", formula)


@pytest.mark.parametrize(
    ("formula", "runs"),
    [
        ("softmax(Q K' / sqrt(d_k)) V",
         (("softmax(Q K", 0), ("⊤", 1), (" / √(d", 0), ("k", -1), (")) V", 0))),
        ("L = 1 / m sum_j (a_true[j] - b)^2",
         (("L = 1 / m ∑", 0), ("j", -1), (" (a", 0), ("true", -1), ("[j] − b)", 0), ("2", 1))),
        ("s_t' A,  h_n,j-1", (("s", 0), ("t", -1), ("⊤", 1), (" A,\u2003h", 0), ("n,j−1", -1))),
        ("dL / de_j = log-odds of 2 x 3", (("∂L / ∂e", 0), ("j", -1), (" = log-odds of 2 × 3", 0))),
    ],
)  # fmt: skip
def test_formulas_are_set_as_in_a_book(formula, runs):
    assert to_runs(formula) == runs


def test_pages_and_pictures_have_the_same_sub_and_superscripts():
    lesson = heed.lessons.run_lesson("lion")
    stage = lesson["all-rows"]
    assert "softmax(Q K<sup>⊤</sup> / √(d<sub>k</sub>)) V" in lesson.html()
    assert to_html((("a<b", -1), ("&", 1), (">", 0))) == "<sub>a&lt;b</sub><sup>&amp;</sup>&gt;"
    (drawn,) = re.findall(r'<text class="formula"[^>]*>(.*?)</text>', lesson.only(["all-rows"]).svg())
    pieces = re.findall(r'<tspan dy="([-.\d]+)"( font-size="10")?>([^<]*)</tspan>', drawn)
    assert [text for *_, text in pieces] == [text for text, _ in to_runs(stage.equation)]
    assert [bool(small) for _, small, _ in pieces] == [False, True, False, True, False]
    moved = [float(by) for by, *_ in pieces]
    assert moved[1] < 0 < moved[3] and sum(moved[:3]) == sum(moved) == 0  # above the line, back, below it, back


def test_formulas_in_sentences_are_found_and_words_left_alone():
    text = "scores: Q K', 2 x 3; Q = X W_Q (no w_query); sqrt(d_k) = 1.7; tokenizer.min_count=1; L'eau <b>"
    runs = with_runs(text)
    assert [one for one in runs if one[1]] == [("⊤", 1), ("Q", -1), ("k", -1)]
    assert "".join(one for one, _ in runs) == (
        "scores: Q K⊤, 2 x 3; Q = X WQ (no w_query); √(dk) = 1.7; tokenizer.min_count=1; L'eau <b>"
    )
    assert with_runs("L'eau, w_query") == ()
