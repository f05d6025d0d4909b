"""Scores of word alignments, and the alignment that is learned from pairs."""

import gzip
import math
import os
import random
from collections import defaultdict
from pathlib import Path
from typing import NamedTuple

import pytest
import torch
from torch.testing import assert_close

from heed.data.batch import TokenPair
from heed.errors import DataError
from heed.evaluation.labels import alignment_measures
from heed.evaluation.significance import intervals
from heed.tasks.inputs import supervision as aligner

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


def test_unequal_numbers_are_refused():
    with pytest.raises(DataError, match="2 alignments but 1 gold alignments; give as many of both"):
        alignment_measures([[], []], [[]])


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


# --- the alignment of pairs


def align_tokens(pairs):
    return aligner.align_tokens([pair.source for pair in pairs], [pair.target for pair in pairs])


def plain_alignment(pairs, apart=2, together=4, null=0.2, smoothing=0.01):
    """Model 1 with a prior on the diagonal, both ways with the product of posteriors, one token at a time."""
    size = {"s": 1 + max(w for p in pairs for w in p.source), "t": 1 + max(w for p in pairs for w in p.target)}
    prob = {"t": defaultdict(lambda: 1 / size["t"]), "s": defaultdict(lambda: 1 / size["s"])}  # (given, explained)
    nothing = {side: [1 / size[side]] * size[side] for side in "ts"}

    def posterior(side, explained, givens, place):  # place: of the explained one, between 0 and 1
        decay = [math.exp(-sharpness * abs(place - (j + 0.5) / len(givens))) for j in range(len(givens))]
        terms = [prob[side][g, explained] * d / sum(decay) for g, d in zip(givens, decay, strict=True)]
        total = sum(terms) + nothing[side][explained] * null / (1 - null)
        return [term / total for term in terms]

    sharpness = 0.0
    for iteration in range(apart + together):
        counts = {side: defaultdict(float) for side in "ts"}
        far, weight, distances = 0.0, 0.0, []
        left = {side: [smoothing / size[side]] * size[side] for side in "ts"}
        links = []
        for pair in pairs:
            num_targets, num_sources = len(pair.target), len(pair.source)
            forward = [posterior("t", y, pair.source, (i + 0.5) / num_targets) for i, y in enumerate(pair.target)]
            backward = [posterior("s", x, pair.target, (j + 0.5) / num_sources) for j, x in enumerate(pair.source)]
            cells = [
                [(f, backward[j][i], f * backward[j][i]) for j, f in enumerate(row)] for i, row in enumerate(forward)
            ]
            links.append([[math.sqrt(both) for *_, both in row] for row in cells])
            own = {"t": 0, "s": 1} if iteration < apart else {"t": 2, "s": 2}
            for i, y in enumerate(pair.target):
                for j, x in enumerate(pair.source):
                    distances.append(abs((i + 0.5) / num_targets - (j + 0.5) / num_sources))
                    far, weight = far + cells[i][j][2] * distances[-1], weight + cells[i][j][2]
                    counts["t"][x, y] += cells[i][j][own["t"]]
                    counts["s"][y, x] += cells[i][j][own["s"]]
                left["t"][y] += max(0, 1 - sum(cell[own["t"]] for cell in cells[i]))
            for j, x in enumerate(pair.source):
                left["s"][x] += max(0, 1 - sum(row[j][own["s"]] for row in cells))
        for side in "ts":
            totals = defaultdict(float)
            for (given, _), count in counts[side].items():
                totals[given] += count
            for (given, explained), count in counts[side].items():
                prob[side][given, explained] = (count + smoothing / size[side]) / (totals[given] + smoothing)
            nothing[side] = [count / sum(left[side]) for count in left[side]]
        if iteration >= apart - 1:
            sharpness = max(0.0, weight / far - len(distances) / sum(distances))
    return links


def random_pairs(count, seed, num_words=6):
    chance = random.Random(seed)
    draw = lambda: [chance.randrange(4, 4 + num_words) for _ in range(chance.randrange(1, 5))]  # noqa: E731
    return [TokenPair(draw(), draw()) for _ in range(count)]


def test_links_are_those_of_the_models_written_out():
    pairs = random_pairs(12, seed=3)
    for links, expected in zip(align_tokens(pairs), plain_alignment(pairs), strict=True):
        assert_close(links, torch.tensor(expected), rtol=1e-6, atol=1e-7)


def test_a_pair_with_an_empty_side_has_no_links():
    more = align_tokens([*random_pairs(8, seed=1), TokenPair([], [4]), TokenPair([5], [])])
    assert [tuple(links.shape) for links in more[-2:]] == [(1, 0), (0, 1)]
    assert all(links.isfinite().all() for links in more)
    assert [tuple(links.shape) for links in align_tokens([TokenPair([], [])])] == [(0, 0)]
