"""The lessons pizza and order: what their stages say follows from the numbers in them."""

import math
from itertools import pairwise, permutations

import pytest
import torch
from torch.testing import assert_close

from heed.data.kinds.pairs import words_of
from heed.lessons import order, run_lesson
from heed.tasks.language_modelling.meals import draw_documents

pytestmark = pytest.mark.usefixtures("own_cache")


@pytest.mark.slow
def test_pizza_ranks_by_the_verb_and_the_bigram_cannot():
    lesson = run_lesson("pizza")
    rows = {name: lesson[name].tables[0].rows for name in ("pizza", "playing")}
    assert rows["pizza"][0] == "chilli flakes" and rows["playing"][0] == "my friend"
    for name, true in (("pizza", [0.7, 0.2, 0.1]), ("playing", [0.7, 0.2, 0.1])):
        stage = lesson[name]
        assert_close(stage["probability"], stage["total"].exp())
        assert float((stage["probability"] - torch.tensor(true, dtype=torch.float64)).abs().mean()) < 0.04
    # Counted again from the sentences, pair by pair.
    texts = [[*document.text.split(), "</s>"] for document in draw_documents("train", 20_000, 1)]
    pairs = [pair for text in texts for pair in pairwise(text)]
    by_hand = {}
    for choice in ("chilli flakes", "my friend", "sand"):
        words = ["with", *choice.split(), "</s>"]
        steps = pairwise(words)
        by_hand[choice] = sum(math.log(pairs.count(s) / sum(p[0] == s[0] for p in pairs)) for s in steps)
    stage = lesson["bigram"]
    assert dict(zip(stage.tables[0].rows, stage["total"].tolist(), strict=True)) == pytest.approx(by_hand)
    shares = lesson["training"]["shares"]
    assert_close(shares.sum(1), torch.ones(2, dtype=torch.float64))
    assert_close(shares, torch.tensor([[0.7, 0.2, 0.1], [0.1, 0.7, 0.2]]).double(), atol=0.07, rtol=0)


def test_the_sentences_of_order_share_no_words_between_splits_and_leave_the_examples_out():
    drawn = {split: order.draw_sentences(split) for split in ("train", "valid", "test")}
    bags = {split: {order._words(text) for kind in kinds.values() for text in kind} for split, kinds in drawn.items()}
    assert not bags["train"] & (bags["valid"] | bags["test"]) and not bags["valid"] & bags["test"]
    assert not bags["train"] & {order._words("What time is it now?"), order._words(order._MOVIE[1])}
    for right in ("What time is it now?", order._MOVIE[1]):
        assert any(right in kind for kind in order.sentences().values())


def test_as_many_orders_are_sentences_as_their_kind_says():
    every = {(*words_of(text)[1], words_of(text)[2]) for kind in order.sentences().values() for text in kind}
    for number, kind in ((1, "one"), (2, "two")):
        for text in order.draw_sentences("test")[kind][:6]:
            _, words, closing = words_of(text)
            assert sum((*words, closing) in every for words in set(permutations(words))) == number, text


@pytest.mark.slow
def test_order_finds_the_one_order_and_divides_between_two():
    lesson = run_lesson("order")
    time, movie = lesson["time"], lesson["movie"]
    for numbers in (time["network"], time["trigrams"]):
        assert int(numbers.argmax()) == 0 and float(numbers[0]) > 0.5
    for numbers in (movie["network"], movie["trigrams"]):
        assert float(numbers[:2].sum()) > 0.8 and float(numbers[:2].min()) > 0.1
    for stage in (time, movie):  # every order shown has the words of the source
        words = {tuple(sorted(words_of(row)[1])) for row in stage.tables[0].rows}
        assert len(words) == 1
    exact = lesson["judged"]["exact_match"]
    assert float(exact[0, :2].min()) > 0.9 and 0.3 < float(exact[1, :2].min()) <= float(exact[1, :2].max()) < 0.7
