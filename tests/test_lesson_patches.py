"""The lesson patches: its numbers can be worked out by hand, and are those of the library."""

import pytest
import torch

from heed.lessons import run_lesson


@pytest.fixture(scope="module")
def lesson():
    return run_lesson("patches")


def test_224_by_16_is_196_patches_of_768_numbers(lesson):
    assert lesson["count"]["counts"][0].tolist() == [14, 196, 768, 197**2]


def test_patches_are_cut_by_hand(lesson):
    expected = [[0, 0, 0, 0], [1, 1, 1, 1], [0, 0, 0, 0], [0, 1, 1, 0]]
    assert lesson["cut"]["patches"].tolist() == expected
    picture = lesson["cut"]["picture"]
    windows = [picture[r : r + 2, c : c + 2].flatten().tolist() for r in range(3) for c in range(3)]
    assert lesson["overlap"]["patches"].tolist() == windows


def test_what_is_read_and_where_the_class_token_looks_follow_from_the_numbers_shown(lesson):
    embedded = lesson["cut"]["patches"] @ lesson["embed"]["weights"]
    assert torch.equal(embedded, lesson["embed"]["embedded"])
    assert embedded[1].tolist() == [2, 0, 0] and embedded[3].tolist() == [1, 0, 0]
    states = lesson["place"]["states"]
    assert torch.equal(states[1:], embedded + lesson["place"]["positions"][1:])
    assert not torch.equal(states[1], states[3])  # black patches, told apart by their places
    weights = torch.softmax(states[0] @ states.T / 3**0.5, -1)
    assert torch.allclose(weights, lesson["look"]["weights"][0])
    assert int(weights[1:].argmax()) == 1
