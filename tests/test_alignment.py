"""Scores of word alignments, and the alignments of two directions made one."""

import gzip
import os
import random
from pathlib import Path
from typing import NamedTuple

import pytest

from heed.errors import ConfigError, DataError
from heed.evaluation.alignment import alignment_measures, symmetrize
from heed.evaluation.significance import intervals

DATA = Path(os.environ.get("HEED_DATA", "no-such-folder"))


class Gold(NamedTuple):
    source: int
    target: int
    sure: bool = True


def scores(links, gold):
    return {measure.name: measure.score() for measure in alignment_measures(links, gold)}


def test_error_rate_precision_and_recall_of_a_pair_worked_by_hand():
    gold = [[Gold(0, 0), Gold(1, 1), Gold(2, 2, sure=False), Gold(2, 3, sure=False)]]
    # Of three links one is sure and one possible; one of two sure links is missed.
    found = scores([[(0, 0), (2, 3), (3, 1)]], gold)
    assert found == pytest.approx(
        {"aer": 1 - (1 + 2) / (3 + 2), "alignment_precision": 2 / 3, "alignment_recall": 1 / 2}
    )
    assert scores([[(0, 0), (1, 1)]], gold)["aer"] == 0
    # A possible link is neither asked for nor wrong, a link named twice counts once, and pairs are summed.
    assert scores([[(0, 0), (1, 1), (2, 2), (2, 2)], [(5, 5)]], [*gold, []])["aer"] == pytest.approx(
        1 - (2 + 3) / (4 + 2)
    )


def test_alignments_have_intervals_over_pairs():
    gold = [[Gold(0, 0)]] * 40
    error, *_ = intervals(alignment_measures([[(0, 0)]] * 30 + [[(0, 1)]] * 10, gold))
    assert 0.1 < error.low < error.value < error.high < 0.5 and error.value == 0.25


def test_as_many_alignments_as_gold_alignments_are_scored():
    with pytest.raises(DataError, match="2 alignments but 1 gold alignments; give as many of both"):
        alignment_measures([[], []], [[]])


def koehn(forward, reverse):
    """Grow-diag as printed by Koehn: over every source and every target word."""
    sources, targets = (range(1 + max((c[side] for c in forward | reverse), default=0)) for side in (0, 1))
    alignment = forward & reverse

    def free(side, word):
        return all(cell[side] != word for cell in alignment)

    while True:
        added = False
        for i in sources:
            for j in targets:
                if (i, j) in alignment:
                    for di, dj in ((-1, 0), (0, -1), (1, 0), (0, 1), (-1, -1), (-1, 1), (1, -1), (1, 1)):
                        new = (i + di, j + dj)
                        if new in forward | reverse and new not in alignment and (free(0, new[0]) or free(1, new[1])):
                            alignment |= {new}
                            added = True
        if not added:
            break
    return sorted(alignment)


def test_growing_follows_the_printed_algorithm():
    draw = random.Random(1)
    pairs = [
        tuple({(draw.randrange(6), draw.randrange(6)) for _ in range(draw.randrange(8))} for _ in range(2))
        for _ in range(300)
    ]
    forward, reverse = zip(*pairs, strict=True)
    both, grown = symmetrize(forward, reverse, "intersection"), symmetrize(forward, reverse, "gd")
    assert both == [sorted(one & other) for one, other in pairs]
    assert grown == [koehn(*pair) for pair in pairs]


def test_a_way_to_symmetrize_that_there_is_not_names_those_that_there_are():
    with pytest.raises(ConfigError, match=r"unknown symmetrization 'intersect'; did you mean 'intersection'\?"):
        symmetrize([[]], [[]], "intersect")
    with pytest.raises(DataError, match="the forward direction has 1 pairs, the reverse direction 2"):
        symmetrize([[]], [[], []], "gd")


def lines(path):
    with gzip.open(path, "rt", encoding="utf-8") as file:
        return [line.split() for line in file]


def links_of(path, reverse=False):
    cells = [[tuple(map(int, link.split("-"))) for link in line] for line in lines(path)]
    return [[(j, i) for i, j in line] if reverse else line for line in cells]


def gold_of(name):
    links = [[(link.replace("p", "-").split("-"), "-" in link) for link in line] for line in lines(name)]
    return [[Gold(int(i) - 1, int(j) - 1, sure) for (i, j), sure in line] for line in links]


PUBLISHED = {
    "enfr": {
        "fastalign": (16.39, 15.89, 10.48, 12.09, 11.17, 19.52),
        "giza": (7.99, 9.75, 5.94, 6.16, 7.56, 9.86),
        "awesome": 4.07,
    },
    "roen": {
        "fastalign": (33.80, 35.55, 32.08, 32.20, 34.33, 34.94),
        "giza": (28.71, 32.22, 27.92, 26.40, 30.70, 30.26),
        "awesome": 20.75,
    },
    "jaen": {"awesome": 37.36},
    "zhen": {"awesome": 13.31},
}
WAYS = ("", "reverse.", "grow-diagonal.", "grow-diagonal-final.", "intersection.", "union.")


@pytest.mark.skipif(not DATA.is_dir(), reason="HEED_DATA names no folder with the corpora")
@pytest.mark.parametrize("pair", PUBLISHED)
def test_published_aligners_score_what_was_published(pair):
    folder = DATA / "alignment" / pair
    gold, outputs = gold_of(folder / f"{pair}.gold.gz"), folder / "system_outputs"
    published = dict(PUBLISHED[pair])
    expected = {f"{pair}.awesome-align.out.gz": published.pop("awesome")}
    for system, values in published.items():
        names = [f"{system}.test.{pair}.{way}talp.gz" for way in WAYS]
        expected |= dict(zip(names, values, strict=True))
    found = {
        name: round(100 * scores(links_of(outputs / name, "reverse" in name), gold)["aer"], 2) for name in expected
    }
    assert found == expected
    assert len(found) == len(list(outputs.iterdir())), "every output is scored"


@pytest.mark.skipif(not DATA.is_dir(), reason="HEED_DATA names no folder with the corpora")
@pytest.mark.parametrize("system", ["fastalign", "giza"])
@pytest.mark.parametrize("pair", ["enfr", "roen"])
def test_the_intersections_of_aligners_are_those_published(system, pair):
    start = DATA / "alignment" / pair / "system_outputs" / f"{system}.test.{pair}"
    forward, reverse = links_of(f"{start}.talp.gz"), links_of(f"{start}.reverse.talp.gz", True)
    published = [sorted(set(one)) for one in links_of(f"{start}.intersection.talp.gz")]
    assert symmetrize(forward, reverse, "intersection") == published
