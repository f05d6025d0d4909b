"""Masks drawn in full: 1 = may attend."""

import pytest
import torch

from heed.attention import causal_mask, padding_mask
from heed.attention.attend import full_mask
from heed.errors import ShapeError


def draw(mask):
    return ["".join("1" if allowed else "." for allowed in row) for row in mask.tolist()]


def test_padding_marks_what_lies_inside_each_length():
    assert draw(padding_mask(torch.tensor([3, 1, 0, 2]))) == [
        "111",
        "1..",
        "...",
        "11.",
    ]


def test_padding_can_be_wider_than_the_longest_sequence():
    assert draw(padding_mask(torch.tensor([3, 1]), 5)) == [
        "111..",
        "1....",
    ]


def test_causal_is_the_lower_triangle_of_a_square():
    assert draw(causal_mask(4, 4)) == [
        "1...",
        "11..",
        "111.",
        "1111",
    ]


def test_causal_puts_the_last_query_at_the_last_key():
    assert draw(causal_mask(2, 5)) == [
        "1111.",
        "11111",
    ]
    assert draw(causal_mask(1, 3)) == ["111"]


def test_causal_leaves_queries_before_the_first_key_without_sight():
    assert draw(causal_mask(5, 2)) == [
        "..",
        "..",
        "..",
        "1.",
        "11",
    ]


def test_the_rows_of_a_square_are_the_masks_of_its_steps():
    whole = causal_mask(6, 6)
    for read in range(6):
        assert torch.equal(causal_mask(6 - read, 6), whole[read:])


def test_padding_and_causal_combine():
    combined = full_mask(padding_mask(torch.tensor([2, 4])), True, 3, 4, torch.device("cpu"))
    assert combined.shape == (2, 1, 3, 4)
    assert draw(combined[0, 0]) == [
        "11..",
        "11..",
        "11..",
    ]
    assert draw(combined[1, 0]) == [
        "11..",
        "111.",
        "1111",
    ]
    assert torch.equal(combined[:, 0], padding_mask(torch.tensor([2, 4])).unsqueeze(1) & causal_mask(3, 4))


def test_a_mask_per_query_combines_with_causal():
    checkered = torch.tensor([[[True, False, True], [False, True, True], [True, True, False]]])
    assert draw(full_mask(checkered, True, 3, 3, torch.device("cpu"))[0, 0]) == [
        "1..",
        ".1.",
        "11.",
    ]


def test_where_everything_may_be_attended_to_there_is_no_mask():
    assert full_mask(None, False, 3, 4, torch.device("cpu")) is None
    assert full_mask(None, True, 1, 4, torch.device("cpu")) is None


@pytest.mark.parametrize("shape", [(2, 5), (2, 4, 4), (2, 1, 3, 4), (4,)])
def test_a_mask_of_another_shape_is_refused(shape):
    with pytest.raises(ShapeError) as error:
        full_mask(torch.ones(shape, dtype=torch.bool), False, 3, 4, torch.device("cpu"))
    assert str(error.value) == f"mask has shape {shape}, expected (batch, key 4) or (batch, query 3, key 4)"


def test_a_mask_of_another_type_is_refused():
    with pytest.raises(ShapeError, match=r"mask has type torch\.int64, expected torch\.bool"):
        full_mask(torch.ones(2, 4, dtype=torch.long), False, 3, 4, torch.device("cpu"))
