"""`attend` is softmax(score(query, key)) value, for every score and every mask, and so is its fused form."""

import math

import numpy as np
import pytest
import torch
from hypothesis import strategies as st
from jaxtyping import TypeCheckError
from torch.testing import assert_close

import reference as ref
from equations import randn
from heed.attention import (
    SCORES,
    Additive,
    Attention,
    ScaledDot,
    Score,
    attend,
    causal_mask,
    make_score,
    masked_softmax,
    padding_mask,
)
from heed.attention.modules import fused_attend
from heed.errors import ConfigError, ShapeError

B, Q, K, D_QUERY, D_KEY, D_VALUE, D = 2, 3, 5, 4, 6, 2, 7
SEEDS = st.integers(0, 2**31)
EQUAL_WIDTHS = ("dot", "scaled_dot")
E = math.e


def make_inputs(name, seed=0):
    """A score with random weights, query, key, value, all float64."""
    d_key = D_QUERY if name in EQUAL_WIDTHS else D_KEY
    torch.manual_seed(seed)
    score = make_score(name, D_QUERY, d_key, D).double()
    return score, randn(B, Q, D_QUERY, seed=seed + 1), randn(B, K, d_key, seed=seed + 2), randn(B, K, D_VALUE, seed=9)


def reference_score(name, score):
    w = {k: p.detach().numpy() for k, p in score.named_parameters()}
    if name == "dot":
        return ref.dot
    if name == "scaled_dot":
        return ref.scaled_dot
    if name == "general":
        return lambda q, k: ref.general(q, k, w["w_key.weight"])
    if name == "key_query":
        return lambda q, k: ref.key_query(q, k, w["w_query.weight"], w["w_key.weight"])
    assert name in ("additive", "concat"), f"no reference for score {name}"
    return lambda q, k: ref.additive(q, k, w["w_query.weight"], w["w_key.weight"], w.get("w_key.bias"), w["v"])


PADDING = torch.tensor([[True, True, True, False, False], [True] * 5]).unsqueeze(1)  # (B, 1, K)
PER_QUERY = randn(B, Q, K, seed=3) > -0.3
ONE_BLIND_ROW = PER_QUERY.clone()
ONE_BLIND_ROW[1, 2] = False
MASKS = {"none": None, "padding": PADDING, "per query": PER_QUERY, "one row sees nothing": ONE_BLIND_ROW}


@pytest.mark.parametrize("mask", MASKS.values(), ids=MASKS.keys())
@pytest.mark.parametrize("name", SCORES)
def test_attend_is_the_reference(name, mask):
    score, query, key, value = make_inputs(name)
    context, weights = attend(query, key, value, mask, score)
    for b in range(B):
        one_mask = None if mask is None else mask[b].expand(Q, K).numpy()
        expected = ref.attend(query[b], key[b], value[b], one_mask, reference_score(name, score))
        assert_close((context[b], weights[b]), tuple(map(torch.from_numpy, expected)), rtol=0, atol=1e-12)


def test_the_default_score_is_the_scaled_dot_product():
    # q'k / sqrt(4) is 0 for the first key and 1 for the second
    query, key = torch.ones(1, 4), torch.tensor([[0.0, 0, 0, 0], [0.5, 0.5, 0.5, 0.5]])
    context, weights = attend(query, key, torch.tensor([[0.0], [1.0]]))
    assert_close(weights, torch.tensor([[1, E]]) / (1 + E))
    assert_close(context, torch.tensor([[E / (1 + E)]]))


@pytest.mark.parametrize("name", SCORES)
def test_a_row_that_sees_nothing_gives_zeros_and_passes_no_gradient(name):
    score, query, key, value = make_inputs(name)
    inputs = [x.requires_grad_() for x in (query, key, value)]
    mask = torch.ones(B, Q, K, dtype=torch.bool)
    mask[0, 1] = False
    context, weights = attend(*inputs, mask, score)
    assert not context[0, 1].any() and not weights[0, 1].any()
    gradients = torch.autograd.grad(context.square().sum() + weights.square().sum(), inputs, retain_graph=True)
    assert all(g.isfinite().all() for g in gradients)
    assert not gradients[0][0, 1].any() and gradients[0][0, 0].any()
    from_blind_row = torch.autograd.grad(context[0, 1].sum() + weights[0, 1].sum(), [*inputs, *score.parameters()])
    assert not any(g.any() for g in from_blind_row)


@pytest.mark.parametrize("mask", [None, ONE_BLIND_ROW], ids=["no mask", "with a blind row"])
@pytest.mark.parametrize("name", SCORES)
def test_gradients_of_values_and_parameters(name, mask):
    score, query, key, value = make_inputs(name)
    inputs = [x.requires_grad_() for x in (query, key, value)]

    def run(query, key, value, *parameters):  # gradcheck moves the parameters in place
        return attend(query, key, value, mask, score)

    assert torch.autograd.gradcheck(run, (*inputs, *score.parameters()))


def test_large_scores_do_not_overflow():
    scores = torch.tensor([[1e30, -1e30, 1e30]])
    assert_close(masked_softmax(scores), torch.tensor([[0.5, 0.0, 0.5]]))
    mask = torch.tensor([[True, True, False]])
    assert_close(masked_softmax(scores, mask), torch.tensor([[1.0, 0.0, 0.0]]))


def test_a_shape_that_contradicts_a_signature_is_refused_in_tests():
    with pytest.raises(TypeCheckError, match="value"):
        attend(randn(2, 3), randn(4, 3), randn(5, 3))
    with pytest.raises(TypeCheckError, match="mask"):
        masked_softmax(randn(2, 4), torch.ones(2, 4))


@pytest.mark.usefixtures("as_installed")
class TestErrors:
    def test_a_mask_must_be_boolean(self):
        with pytest.raises(ShapeError, match=r"mask has type torch\.float64, expected torch\.bool \(True = may attend"):
            attend(randn(2, 3), randn(4, 3), randn(4, 3), randn(2, 4))

    def test_a_mask_must_fit_the_scores(self):
        mask = torch.ones(2, 7, dtype=torch.bool)
        expected = r"mask has shape \(2, 7\), expected one broadcastable to \(batch 6, query 2, key 4\)"
        with pytest.raises(ShapeError, match=expected):
            attend(randn(6, 2, 3), randn(6, 4, 3), randn(6, 4, 3), mask)

    def test_a_mask_must_not_add_dimensions(self):
        with pytest.raises(ShapeError, match=r"mask has shape \(5, 2, 4\)"):
            attend(randn(2, 3), randn(4, 3), randn(4, 3), torch.ones(5, 2, 4, dtype=torch.bool))

    def test_each_key_needs_its_value(self):
        with pytest.raises(ShapeError, match="4 keys but 5 values"):
            attend(randn(2, 3), randn(4, 3), randn(5, 3))

    def test_unequal_widths_name_both_and_the_score_that_takes_them(self):
        with pytest.raises(ShapeError, match=r"the query has 3 and the key 5; score 'general'"):
            attend(randn(2, 3), randn(4, 5), randn(4, 3))


@pytest.mark.parametrize("name", EQUAL_WIDTHS)
def test_a_plain_product_of_unequal_widths_is_refused_when_built(name):
    with pytest.raises(ConfigError, match=f"score '{name}' needs equal widths.* 3 and the key 5; score 'general'"):
        make_score(name, 3, 5, 4)


def test_an_unknown_score_suggests_the_nearest():
    with pytest.raises(ConfigError, match="unknown score 'aditive'; did you mean 'additive'"):
        make_score("aditive", 3, 3, 3)


def test_the_weights_returned_are_those_before_dropout():
    torch.manual_seed(0)
    query, key, value = randn(2, 3), randn(50, 3), randn(50, 3)
    context, weights = attend(query, key, value, dropout=0.5)
    assert_close(weights, attend(query, key, value)[1])
    assert not np.allclose(context, weights @ value)


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
    assert_close(context, expected, rtol=0, atol=tolerance)
    blind = ~allowed.any(-1).expand(B, H, num_queries)
    assert not context[blind].any()

    expected_gradients = torch.autograd.grad(expected, inputs, direction)
    gradients = torch.autograd.grad(context, inputs, direction)
    assert_close(gradients, expected_gradients, rtol=0, atol=tolerance)
    assert not gradients[0][blind].any()


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
