"""Formulas of lessons: every one of heed's own becomes MathML and runs of text, and nothing of it is lost."""

# ruff: noqa: RUF001  # signs of mathematics are what is tested

import re
from xml.etree import ElementTree

import pytest

import heed
from heed.lessons.formulas import to_mathml, to_runs, with_mathml, with_runs
from heed.lessons.parts import _texts

WORKED = [stage.equation for name in ("lion", "animal") for stage in heed.lessons.run_lesson(name).stages]
ALL = sorted({
    *(line[2:].replace("{{", "{").replace("}}", "}") for text in _texts().values() if isinstance(text, str)
      for line in text.splitlines() if line.startswith("= ")),
    *filter(None, WORKED),
})  # fmt: skip
WRITTEN = {"alpha": "α", "beta": "β", "sqrt": "√", "sum": "∑", "product": "∏", "<=": "≤", "-": "−", "'": "⊤",
           "...": "…", " x ": " × ", " . ": " · "}  # fmt: skip
TAGS = {"math", "mrow", "mi", "mn", "mo", "mtext", "mspace", "msub", "msup", "msqrt", "mfrac"}


def trees(formula):
    return ElementTree.fromstring(f"<p>{to_mathml(formula)}</p>")


def letters(text):
    """The letters, digits and signs of a formula in order, without what only says how it is set."""
    return re.sub(r"[\s_^\u2003\u00a0()/√]|\\[CLS\\]", "", text)


def expected(formula):
    formula = re.sub(r"(?<=P) x (?=P)", " × ", formula)
    formula = re.sub(r"sum over (\w) of ", r"sum_\1 ", formula)
    formula = re.sub(r"(sum|product) of ", r"\1 ", formula).replace("dL / de_", "∂L / ∂e_").replace("h_[CLS]", "h_CLS")
    formula = re.sub(r"log-odds", "log@odds", formula).replace(" | ", " ∣ ")
    for name, sign in WRITTEN.items():
        pattern = rf"\b{name}(?![a-z])" if name.isalpha() else re.escape(name)
        formula = re.sub(pattern, sign, formula) if name != " x " else formula
    return letters(formula).replace("@", "-")


def test_there_are_formulas_to_try():
    assert len(ALL) > 45 and "softmax(Q K' / sqrt(d_k)) V" in ALL


@pytest.mark.parametrize("formula", ALL)
def test_every_formula_is_set_whole(formula):
    assert {one.tag for one in trees(formula).iter()} - {"p"} <= TAGS
    spoken = "".join(trees(formula).itertext())
    for sign in ("_", "^", "'", "sqrt", "sum", "alpha", "  "):
        assert sign not in spoken
    runs = "".join(text for text, _ in to_runs(formula))
    assert letters(runs) == letters(spoken) == expected(formula)
    assert len(trees(formula).findall("math")) == len(re.split(" {2,}", formula))


def test_attention_is_set_as_in_a_book():
    (math,) = trees("softmax(Q K' / sqrt(d_k)) V")
    fraction = math.find(".//mfrac")
    assert ["".join(part.itertext()) for part in fraction] == ["QK⊤", "dk"]
    assert fraction[0].find("msup")[0].text == "K" and fraction[1].tag == "msqrt"
    assert ["".join(part.itertext()) for part in fraction[1].find("msub")] == ["d", "k"]
    assert to_runs("softmax(Q K' / sqrt(d_k)) V") == (
        ("softmax(Q K", 0), ("⊤", 1), (" / √d", 0), ("k", -1), (") V", 0))  # fmt: skip


@pytest.mark.parametrize(
    ("formula", "above", "below"),
    [
        ("H W / P^2 patches", "HW", "P2"),
        ("(H - P) / S + 1 rows", "H−P", "S"),
        ("L = 1 / m sum_j a", "1", "m"),
        ("x + a_true[j] / a_pred[j]", "atrue[j]", "apred[j]"),
        ("[j in S_l] / |S_l|", "[jinSl]", "|Sl|"),
    ],
)
def test_a_fraction_has_the_factors_beside_its_bar(formula, above, below):
    (fraction,) = trees(formula).iter("mfrac")
    assert [letters("".join(part.itertext())) for part in fraction] == [above, below]


def test_words_are_divided_by_a_slash():
    assert not [*trees("count of the pair / count of the word before").iter("mfrac")]


def test_formulas_in_sentences_are_found_and_words_left_alone():
    text = "scores: Q K', 2 x 3; Q = X W_Q (no w_query); sqrt(d_k) = 1.7; tokenizer.min_count=1; L'eau <b>"
    shown = with_mathml(text)
    assert [letters("".join(one.itertext())) for one in ElementTree.fromstring(f"<p>{shown}</p>")] == [
        "QK⊤", "Q=XWQ", "dk"]  # fmt: skip
    assert "(no w_query)" in shown and "min_count=1; L&#39;eau &lt;b&gt;" in shown
    assert ("⊤", 1) in with_runs(text) and with_runs("L'eau, w_query") == ()
