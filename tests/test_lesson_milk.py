"""The lesson milk: its numbers follow from one another, and equal what the library computes."""

import pytest
import torch
from torch.testing import assert_close

from heed.lessons import run_lesson


@pytest.fixture(scope="module")
def lesson():
    return run_lesson("milk")


def test_the_lesson_says_that_nothing_is_trained(lesson):
    assert "the weights are drawn from a seed" in lesson.text() and "trained now" not in lesson.text()
    assert "1 value: 1 equal to three decimals" in lesson.text()


def test_every_run_of_the_lesson_has_the_same_numbers(lesson):
    state = torch.random.get_rng_state()
    assert run_lesson("milk").json() == lesson.json()
    assert torch.equal(torch.random.get_rng_state(), state)


def test_two_sentences_are_framed_and_a_word_is_cut_into_pieces(lesson):
    lines = lesson["cut"].lines
    assert lines[0] == "position 0: [CLS], id 2, segment 0" and lines[7] == "position 7: [SEP], id 3, segment 0"
    assert [line.split(", ")[0] for line in lines[11:13]] == ["position 11: gall", "position 12: ##on"]
    assert lesson["cut"]["segments"].tolist() == [0] * 8 + [1] * 8


def test_masks_are_drawn_anew_and_four_in_five_are_hidden(lesson):
    stage = lesson["masks"]
    assert len({line.split(": ", 1)[1] for line in stage.lines}) == 3
    told = " ".join(stage.lines)
    assert all(fate in told for fate in ("is hidden", "is unchanged", "is read as"))
    assert_close(stage["shares"][0], torch.tensor([0.8, 0.1, 0.1], dtype=torch.float64), atol=0.01, rtol=0)


def test_embeddings_are_sums_with_mean_0_and_deviation_1(lesson):
    stage = lesson["embeddings"]
    assert_close(stage["sum"], stage["words"] + stage["segments"] + stage["positions"])
    assert_close(stage["read"].mean(-1), torch.zeros(16, dtype=torch.float64), atol=1e-12, rtol=0)
    assert_close(stage["read"].std(-1, correction=0), torch.ones(16, dtype=torch.float64))


def test_the_losses_are_logarithms_of_the_right_answers(lesson):
    stage = lesson["loss"]
    right = [lesson["cut"]["ids"][10], lesson["cut"]["ids"][14]]
    probabilities = torch.softmax(stage["logits"], -1)
    assert_close(stage["losses"], -torch.stack([probabilities[n, i] for n, i in enumerate(right)]).log())
    assert_close(stage["loss"], stage["losses"].mean())
    follows = lesson["next"]["probabilities"]
    assert_close(follows.sum(-1), torch.ones(2, dtype=torch.float64))
    assert_close(lesson["next"]["losses"], -torch.stack([follows[0, 0], follows[1, 1]]).log())
