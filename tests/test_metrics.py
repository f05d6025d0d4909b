"""Scores: values by hand, intervals that cover, buckets that leave nobody out."""

import itertools
import json
import math

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from heed.data.examples import Link
from heed.evaluation.measures import Outcomes, length_buckets, share
from heed.evaluation.significance import intervals, summarise
from heed.tasks.heads.alignment import aligned_characters

# --- bootstrap


def bootstrap(top, bottom, resamples=1000, seed=1):
    (found,) = intervals([share("ratio", "ratio", top, bottom)], resamples, seed)
    return found


def test_the_interval_covers_a_known_proportion_as_often_as_it_says():
    p, size, tests = 0.7, 200, 200
    generator = torch.Generator().manual_seed(0)
    covered = 0
    for seed in range(tests):
        sample = (torch.rand(size, generator=generator) < p).double().tolist()
        interval = bootstrap(sample, [1.0] * size, resamples=200, seed=seed)
        covered += interval.low <= p <= interval.high
    # 95 % of 200 is 190; five standard deviations are 15
    assert 175 <= covered < tests


# --- buckets


@settings(deadline=None)
@given(st.lists(st.integers(0, 60), max_size=80), st.integers(1, 8))
def test_buckets_cover_every_length_once(lengths, most):
    buckets = length_buckets(lengths, most)
    assert len(buckets) <= most
    for length in lengths:
        assert sum(first <= length <= last for first, last in buckets) == 1
    for (_, last), (first, _) in itertools.pairwise(buckets):
        assert first == last + 1
    if lengths:
        assert (buckets[0][0], buckets[-1][1]) == (min(lengths), max(lengths))


def test_buckets_hold_about_equally_many():
    assert length_buckets(list(range(100)), 5) == [(0, 19), (20, 39), (40, 59), (60, 79), (80, 99)]
    assert length_buckets([3] * 50, 5) == [(3, 3)]


# --- alignment


def spans(*cuts):
    return list(zip((0, *cuts), cuts, strict=False))


@pytest.mark.parametrize(
    ("best", "query", "key", "links", "expected"),
    [
        # characters: "ab" from "ba", each target character comes from the other side
        ([1, 0], spans(1, 2), spans(1, 2), [((0, 1), (1, 2)), ((1, 2), (0, 1))], (2, 2)),
        ([0, 0], spans(1, 2), spans(1, 2), [((0, 1), (1, 2)), ((1, 2), (0, 1))], (1, 2)),
        # a token of three characters counts three
        ([0], spans(3), spans(2, 4), [((0, 3), (0, 2))], (3, 3)),
        ([1], spans(3), spans(2, 4), [((0, 3), (0, 2))], (0, 3)),
        # a token half inside the link counts the half that is
        ([0, 1], spans(2, 4), spans(1, 2), [((1, 3), (0, 1))], (1, 2)),
        # a source token that overlaps the linked span is right, one that touches it is not
        ([0], spans(1), spans(3, 6), [((0, 1), (2, 4))], (1, 1)),
        ([1], spans(1), spans(3, 6), [((0, 1), (2, 4))], (1, 1)),
        ([1], spans(1), spans(3, 6), [((0, 1), (0, 3))], (0, 1)),
        # what has no known source does not count, and neither do further queries (the end token)
        ([0, 0, 0], spans(1, 2, 3), spans(1), [((1, 2), (0, 1))], (1, 1)),
        ([0, 5], spans(1), spans(1), [((0, 1), (0, 1))], (1, 1)),
        ([0], spans(1), spans(1), [], (0, 0)),
    ],
)
def test_aligned_characters_by_hand(best, query, key, links, expected):
    assert aligned_characters(best, query, key, [Link(*link) for link in links]) == expected


# --- the report


def make_outcomes(linked=True):
    wrong, known = ([0, 2, 1, 0], [2, 3, 1, 4]) if linked else ([0] * 4, [0] * 4)
    measures = (
        share("exact_match", "exact match", [1, 0, 1, 1]),
        share("token_accuracy", "token accuracy", [3, 1, 4, 5], [3, 4, 4, 5]),
        share("alignment_error", "alignment error", wrong, known, higher_is_better=False),
    )
    details = {"perplexity": math.exp(8 / 16), "token_accuracy": 0.5}
    return Outcomes(("a", "b", "c", "d"), measures, lengths=(2, 3, 3, 9), details=details)


def test_a_report_by_hand():
    report = summarise(make_outcomes(), resamples=20, by_length=["exact_match"])
    assert report["examples"] == 4
    assert report["exact_match"]["value"] == 0.75
    assert report["alignment_error"]["value"] == pytest.approx(3 / 10)
    assert report["token_accuracy"] == 0.5  # a detail wins
    assert sum(bucket["examples"] for bucket in report["by_source_length"]) == 4
    threes = next(b for b in report["by_source_length"] if b["first"] <= 3 <= b["last"])
    assert threes["exact_match"]["value"] == pytest.approx(1 / 2) and threes["examples"] == 2
    assert "by_source_length" not in summarise(make_outcomes(), resamples=5)
    json.dumps(report, allow_nan=False)


def test_what_cannot_be_scored_is_0_in_a_report():
    assert summarise(make_outcomes(linked=False), resamples=5)["alignment_error"]["value"] == 0.0
