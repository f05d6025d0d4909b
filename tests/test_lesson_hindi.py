"""The lesson hindi: the notes' example of supervised attention, its three losses, and what follows from them."""

import numpy as np
import pytest

from heed.lessons import run_lesson

TRUE = np.array([[1, 0, 0, 0, 0], [0, 0, 0, 0, 1], [0, 0, 0.5, 0.5, 0], [0, 1, 0, 0, 0]])
PREDICTED = np.array([0.1, 0.1, 0.35, 0.35, 0.1])


@pytest.fixture(scope="module")
def lesson():
    return run_lesson("hindi")


def test_the_losses_are_the_printed_ones_to_four_decimals(lesson):
    true = TRUE[2]
    on = true > 0
    by_hand = {
        ("cross-entropy", "loss"): -(true[on] * np.log(PREDICTED[on])).sum(),
        ("divergence", "divergence"): (true[on] * np.log(true[on] / PREDICTED[on])).sum(),
        ("squared", "loss"): ((true - PREDICTED) ** 2).mean(),
    }
    printed = [1.0498, 0.3567, 0.0150]
    for ((stage, name), value), shown in zip(by_hand.items(), printed, strict=True):
        assert float(lesson[stage][name]) == pytest.approx(value, abs=1e-12)
        assert round(value, 4) == shown and f"{shown:.4f}" in lesson.text(140)


def test_the_links_are_the_true_weights(lesson):
    np.testing.assert_array_equal(lesson["true"]["true"].numpy(), TRUE)
    assert "0-0 4-1 2-2 3-2 1-3" in lesson.text(140)
    free = lesson["free"]["true"].numpy()
    np.testing.assert_array_equal(free, TRUE * (np.arange(4) != 1)[:, None])


def test_steps_down_the_gradient_reach_the_entropy_of_the_links(lesson):
    scores, rows = np.log(PREDICTED), []
    for step in range(51):
        weights = np.exp(scores) / np.exp(scores).sum()
        if step in (0, 1, 2, 5, 10, 50):
            rows.append(weights)
        scores = scores - (weights - TRUE[2])
    np.testing.assert_allclose(lesson["gradient"]["weights"].numpy(), rows, atol=1e-12)
    losses = lesson["gradient"]["losses"].numpy()
    assert (np.diff(losses) < 0).all() and 0 < losses[-1] - np.log(2) < 0.05


def test_the_pieces_of_a_word_have_its_row(lesson):
    rows = lesson["pieces"]["rows"].numpy()
    sources, targets = [0, 1, 2, 3, 3, 4, 4], [0, 1, 2, 2, 3]  # the word of each piece
    for row, word in zip(rows, targets, strict=True):
        np.testing.assert_allclose([row[np.equal(sources, n)].sum() for n in range(5)], TRUE[word], atol=1e-7)
