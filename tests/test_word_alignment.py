"""Word alignment of pairs: the two models written out with dictionaries, and what a toy language must give."""

import math
import random
from collections import defaultdict

import torch
from torch.testing import assert_close

from heed.data.batch.pairs import TokenPair
from heed.data.tokens import alignment


def align_tokens(pairs):
    return alignment.align_tokens([pair.source for pair in pairs], [pair.target for pair in pairs])


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


def test_every_word_finds_its_translation_whatever_the_order_and_what_nothing_says_finds_none():
    chance = random.Random(0)
    pairs, truth = [], []
    for _ in range(300):
        words = chance.sample(range(10, 30), 5)
        order = chance.sample(range(5), 5)
        target = [words[j] + 100 for j in order]
        pairs.append(TokenPair(words, [*target, 50]))  # 50 says nothing of the source
        truth.append(order)
    for links, order in zip(align_tokens(pairs), truth, strict=True):
        assert links.shape == (6, 5)
        assert links[:5].argmax(1).tolist() == order
        assert links[:5].max(1).values.min() > 0.8
        assert links[5].max() < 0.3


def test_the_same_word_twice_is_told_apart_by_its_place():
    """ "the" and "le" stand twice in every pair: the words alone would link each with both."""
    chance = random.Random(0)
    pairs = []
    for _ in range(200):
        nouns = [chance.randrange(10, 40) for _ in range(2)]
        pairs.append(TokenPair([4, nouns[0], 5, 4, nouns[1]], [6, nouns[0] + 100, 7, 6, nouns[1] + 100]))
    for links in align_tokens(pairs):
        assert links.argmax(1).tolist() == [0, 1, 2, 3, 4]
        assert links.diagonal().min() > 0.8


def test_a_pair_with_an_empty_side_has_no_links():
    more = align_tokens([*random_pairs(8, seed=1), TokenPair([], [4]), TokenPair([5], [])])
    assert [tuple(links.shape) for links in more[-2:]] == [(1, 0), (0, 1)]
    assert all(links.isfinite().all() for links in more)
    assert [tuple(links.shape) for links in align_tokens([TokenPair([], [])])] == [(0, 0)]
