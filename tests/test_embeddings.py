"""Tokens and positions as vectors."""

import math

import pytest
import torch
from torch.testing import assert_close

import reference as ref
from heed.errors import ShapeError
from heed.layers import LearnedPositions, SinusoidalPositions, TokenEmbedding


@pytest.mark.parametrize("d", [1, 2, 6, 7])
def test_sinusoids_are_the_reference_also_for_odd_widths(d):
    table = SinusoidalPositions(d)(torch.arange(50).unsqueeze(0))
    assert_close(table[0].double(), torch.from_numpy(ref.sinusoidal(50, d)), rtol=0, atol=1e-5)


def test_a_position_beyond_the_table_is_refused():
    layer = LearnedPositions(4, 6)
    assert layer(torch.tensor([[3]])).shape == (1, 1, 6)
    with pytest.raises(ShapeError, match=r"length 5 does not fit 4 learned positions; raise max_length, .*sinusoidal"):
        layer(torch.tensor([[0, 1], [3, 4]]))


def test_the_padding_vector_is_zero_and_stays_zero():
    torch.manual_seed(0)
    embedding = TokenEmbedding(5, 3, padding_token=0)
    optimizer = torch.optim.SGD(embedding.parameters(), lr=1.0)
    before = embedding.weight.detach().clone()
    embedding(torch.tensor([[0, 1, 2]])).sum().backward()
    optimizer.step()
    assert not embedding.weight[0].any()
    assert (embedding.weight[1:3] != before[1:3]).all()


def test_a_vector_has_length_about_one_whatever_the_width():
    torch.manual_seed(0)
    for d in (8, 512):
        squares = TokenEmbedding(500, d).weight.detach().square().sum(-1)
        # a mean of 500 chi-squared variables / d: expectation 1, standard deviation sqrt(2 / d / 500)
        assert abs(squares.mean() - 1) < 5 * math.sqrt(2 / d / 500)
