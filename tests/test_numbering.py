"""Ids of imported vocabularies: ours and theirs, there and back."""

import pytest
import torch

from heed.errors import RunError
from heed.exchange.huggingface.numbering import Numbering


def test_rows_go_to_our_order_and_back():
    numbering = Numbering([5, 0, None, 2, 1, 3, 4], 6)
    rows = torch.arange(12.0).view(6, 2)
    ours = numbering.to_ours(rows, absent=-1e4)
    assert ours[:, 0].tolist() == [10, 0, -1e4, 4, 2, 6, 8]
    assert torch.equal(numbering.to_theirs(ours), rows)
    assert (len(numbering), numbering.absent) == (7, [2])
    assert Numbering.from_json(numbering.as_json()) == numbering


def test_of_two_tokens_in_one_row_the_first_is_written_back():
    numbering = Numbering([3, 1, 3, 0, 2], 4)
    ours = numbering.to_ours(torch.arange(4.0))
    assert ours.tolist() == [3, 1, 3, 0, 2]
    ours[2] = 9.0
    assert numbering.to_theirs(ours).tolist() == [0, 1, 2, 3]


def test_a_vocabulary_of_our_own_keeps_its_order():
    rows = torch.randn(5, 3)
    assert torch.equal(Numbering.same(5).to_theirs(rows), rows)


@pytest.mark.parametrize(
    ("state", "said"),
    [
        ({"theirs": [0, 1]}, "needs 'theirs' and 'size'"),
        ({"theirs": "01", "size": 2}, "needs 'theirs' and 'size'"),
        ({"theirs": [0, 2], "size": 2}, "ids outside its 2 rows"),
        ({"theirs": [0, -1], "size": 2}, "ids outside its 2 rows"),
    ],
)
def test_a_damaged_numbering_is_refused(state, said):
    with pytest.raises(RunError, match=said):
        Numbering.from_json(state)
