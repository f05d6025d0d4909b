"""ROUGE: the words it counts in any script, its scores by hand and against rouge-score's own."""

import unicodedata

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from heed.evaluation.measures import Outcomes, share
from heed.evaluation.significance import intervals, summarise
from heed.evaluation.text_scores import commonest_outputs, commonest_share, distinct, rouge_measures, rouge_words


def scores(outputs, references, **options):
    return {measure.name: measure.score() for measure in rouge_measures(outputs, references, **options)}


def test_the_scores_are_those_worked_out_by_hand():
    # 3 of 4 words and 1 of 3 pairs of neighbours are shared with a reference of 5 words; "cat on mat" is in both.
    found = scores(["the cat on mat"], ["a cat on the mat"])
    assert found["rouge1"] == pytest.approx(100 * 2 * (4 / 4) * (4 / 5) / (4 / 4 + 4 / 5))
    assert found["rouge2"] == pytest.approx(100 * 2 * (1 / 3) * (1 / 4) / (1 / 3 + 1 / 4))
    assert found["rougeL"] == pytest.approx(100 * 2 * (3 / 4) * (3 / 5) / (3 / 4 + 3 / 5))


def test_the_score_of_a_set_is_the_mean_over_its_examples():
    outputs, references = ["a b", "c", ""], ["a b", "d", "e f"]
    assert scores(outputs, references)["rouge1"] == pytest.approx(100 / 3)
    each = rouge_measures(outputs, references)[0].each()
    np.testing.assert_allclose(each, [100, 0, 0])


@given(st.text(st.characters(codec="ascii"), max_size=60))
def test_english_has_the_words_of_rouge_score(text):
    from rouge_score.tokenizers import DefaultTokenizer

    assert rouge_words(text) == DefaultTokenizer(use_stemmer=False).tokenize(text)


@pytest.mark.parametrize("stem", [False, True])
def test_english_has_the_scores_of_rouge_score(stem):
    from rouge_score.rouge_scorer import RougeScorer

    output, reference = "Meetings on Monday's budgets: 3 reports", "The meeting about Monday's budget (3 report)"
    theirs = RougeScorer(["rouge1", "rouge2", "rougeL"], use_stemmer=stem).score(reference, output)
    ours = scores([output], [reference], stem=stem)
    assert ours == pytest.approx({name: 100 * score.fmeasure for name, score in theirs.items()})


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("Réunion déplacée à 10h", ["réunion", "déplacée", "à", "10h"]),
        ("Πρόγραμμα, συνάντηση!", ["πρόγραμμα", "συνάντηση"]),
        ("मेरा घर", ["मेरा", "घर"]),  # vowel signs are marks, which Python's \\w leaves out
        ("会议改到3点", ["会", "议", "改", "到", "3", "点"]),
        ("ミーティング", list("ミーティング")),
        ("회의 시간", ["회의", "시간"]),
        ("ประชุม", ["ป", "ร", "ะ", "ชุ", "ม"]),
        ("it's e-mail_2", ["it", "s", "e", "mail", "2"]),
        (" \u0301 ... ", []),
    ],
)
def test_every_script_keeps_its_words(text, words):
    assert rouge_words(text) == words


def test_an_accent_counts_the_same_however_it_is_encoded():
    composed = "Réunion à Málaga"
    assert scores([unicodedata.normalize("NFD", composed)], [composed])["rouge2"] == pytest.approx(100)


def test_a_report_shows_points_with_an_interval_and_how_they_were_computed():
    outputs, references = ["a b c", "d e", "f g h"], ["a b c", "x y", "f g i"]
    measures = [*rouge_measures(outputs, references), share("exact_match", "exact match", [1, 0, 0])]
    report = summarise(Outcomes(tuple(outputs), tuple(measures)), 200)
    assert report["rouge2"]["value"] == pytest.approx(50)
    assert 0 <= report["rouge2"]["low"] < 50 < report["rouge2"]["high"] <= 100
    assert report["rouge2"]["signature"].startswith("rouge-score:0.1.2|F1|mean|no stems")


# --- how varied outputs are


OUTPUTS = ["I do not know.", "I do.", "i do not know", "Yes"]


def test_distinct_n_is_the_number_of_different_n_grams_over_all():
    # words: i do not know / i do / i do not know / yes
    assert distinct(OUTPUTS, 1).score() == pytest.approx(5 / 11)
    assert distinct(OUTPUTS, 2).score() == pytest.approx(3 / 7)  # i do, do not, not know
    assert distinct(["Yes", "No"], 2).score() == 0
    assert distinct([], 1).score() == 0
    assert distinct(["я не знаю", "我不知道"], 1).score() == 1
    (found,) = intervals([distinct(OUTPUTS, 1)], 200)
    assert found.low < found.value < found.high


def test_the_share_of_the_ten_commonest_outputs():
    outputs = [*"aaab", *map(str, range(20))]
    assert commonest_outputs(outputs)[0] == ("a", 3) and len(commonest_outputs(outputs)) == 10
    assert commonest_share(outputs).score() == pytest.approx((3 + 1 + 8) / 24)
    assert commonest_share(["same"] * 5).score() == 1
