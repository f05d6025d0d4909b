"""The fused kernel is the specification: values, gradients, and what dropout does to the weights."""

import math

import pytest
import torch
from torch.testing import assert_close

from contract import assert_close_in_scale
from equations import randn
from heed.attention import Additive, Attention, ScaledDot, Score, attend, causal_mask, padding_mask
from heed.attention.attend import fused_attend
from heed.errors import ShapeError

B, H, D, D_VALUE = 3, 2, 4, 6
SCALE = 0.7


class Scaled(Score):
    scale = SCALE


def per_query(num_queries, num_keys):
    mask = randn(B, num_queries, num_keys, seed=5) > -0.3
    mask[..., 0] = True
    return mask


def with_a_blind_row(num_queries, num_keys):
    mask = per_query(num_queries, num_keys)
    mask[1, -1] = False
    return mask


RAGGED = torch.tensor([5, 1, 3])
# name: (queries, keys, mask, causal)
CASES = {
    "everything": (5, 5, None, False),
    "more keys than queries": (3, 5, None, False),
    "padding": (5, 5, padding_mask(RAGGED, 5), False),
    "padding, one query": (1, 5, padding_mask(RAGGED, 5), False),
    "a source without tokens": (4, 5, padding_mask(torch.tensor([5, 0, 3]), 5), False),
    "per query": (4, 5, per_query(4, 5), False),
    "one row sees nothing": (4, 5, with_a_blind_row(4, 5), False),
    "causal": (5, 5, None, True),
    "causal, continued": (2, 5, None, True),
    "causal, one newest query": (1, 5, None, True),
    "causal, queries before the first key": (5, 3, None, True),
    "causal and padding": (5, 5, padding_mask(RAGGED, 5), True),
    "causal and padding, continued": (2, 5, padding_mask(RAGGED, 5), True),
    "causal and per query": (4, 5, per_query(4, 5), True),
}


def specification(query, key, value, mask, causal):
    num_queries, num_keys = query.shape[2], key.shape[2]
    allowed = torch.ones(B, 1, num_queries, num_keys, dtype=torch.bool)
    if mask is not None:
        allowed = allowed & (mask[:, None, None] if mask.dim() == 2 else mask[:, None])
    if causal:
        allowed = allowed & causal_mask(num_queries, num_keys)
    return attend(query, key, value, allowed, Scaled())[0], allowed


@pytest.mark.parametrize(("dtype", "tolerance"), [(torch.float32, 1e-5), (torch.float64, 1e-10)])
@pytest.mark.parametrize("case", CASES)
def test_fused_is_the_specification_in_values_and_gradients(case, dtype, tolerance):
    num_queries, num_keys, mask, causal = CASES[case]
    shapes = (B, H, num_queries, D), (B, H, num_keys, D), (B, H, num_keys, D_VALUE)
    inputs = [randn(*shape, seed=i).to(dtype).requires_grad_() for i, shape in enumerate(shapes)]
    direction = randn(B, H, num_queries, D_VALUE, seed=9).to(dtype)

    expected, allowed = specification(*inputs, mask, causal)
    context = fused_attend(*inputs, mask, causal=causal, scale=SCALE)
    assert_close_in_scale(context, expected, tolerance, rtol=0)
    blind = ~allowed.any(-1).expand(B, H, num_queries)
    assert not context[blind].any()

    expected_gradients = torch.autograd.grad(expected, inputs, direction)
    gradients = torch.autograd.grad(context, inputs, direction)
    assert_close_in_scale(gradients, expected_gradients, tolerance, rtol=0)
    assert not gradients[0][blind].any()


def test_under_autocast_on_a_cpu_it_is_computed_in_float32():
    inputs = [randn(B, H, 4, D, seed=i).bfloat16().requires_grad_() for i in range(3)]
    with torch.autocast("cpu", dtype=torch.bfloat16):
        context = fused_attend(*inputs, None, causal=True, scale=SCALE)
        dropped = fused_attend(*inputs, None, causal=True, scale=SCALE, dropout=0.5)
    assert torch.equal(context, fused_attend(*(x.float() for x in inputs), None, causal=True, scale=SCALE))
    assert dropped.dtype == torch.bfloat16  # by another kernel, in which 16 bits pay
    context.sum().backward()
    assert all(x.grad.dtype == torch.bfloat16 for x in inputs)


@pytest.mark.usefixtures("as_installed")
def test_unequal_widths_are_refused_by_name():
    with pytest.raises(ShapeError, match="the query has 4 and the key 5; score 'general'"):
        fused_attend(randn(1, 1, 2, 4), randn(1, 1, 3, 5), randn(1, 1, 3, 4), None, causal=False, scale=1.0)


@pytest.mark.parametrize("path", ["fused", "readable"])
def test_dropout_drops_each_weight_by_itself_and_rescales_the_rest(path):
    # With the identity as value the context is the row of weights that was used; twice the identity, side by side,
    # tells dropped weights from dropped outputs.
    num_masks, num_queries, num_keys, p = 4000, 2, 5, 0.3
    torch.manual_seed(1)
    attention = Attention(ScaledDot(D) if path == "fused" else Additive(D, D, D), dropout=p)
    assert (attention.score.scale is None) == (path == "readable")
    query, key = randn(1, num_queries, D, seed=2).float(), randn(1, num_keys, D, seed=3).float()
    value = torch.cat([torch.eye(num_keys)] * 2, dim=-1)  # (K, 2 * K)
    keys = attention.prepare(key.expand(num_masks, -1, -1), value.expand(num_masks, -1, -1))
    used, again = attention(query.expand(num_masks, -1, -1), keys).chunk(2, dim=-1)  # (masks, Q, K) each
    assert torch.equal(used, again)

    weights = attend(query, key, key, score=attention.score)[1]
    dropped = used == 0
    assert_close(used, (weights / (1 - p)).expand_as(used).masked_fill(dropped, 0.0), rtol=1e-5, atol=1e-6)

    centred = dropped.flatten(1).double() - p  # (masks, Q * K)
    sigma = math.sqrt(p * (1 - p) / num_masks)
    assert (centred.mean(0).abs() < 5 * sigma).all()
    covariance = centred.T @ centred / num_masks
    between = covariance[~torch.eye(len(covariance), dtype=torch.bool)]
    assert (between.abs() < 5 * p * (1 - p) / math.sqrt(num_masks)).all()

    attention.eval()
    whole = attention(query.expand(num_masks, -1, -1), keys)
    assert_close(whole, torch.cat([weights, weights], dim=-1).expand_as(whole))
